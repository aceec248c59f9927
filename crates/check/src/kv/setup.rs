//! The choices of a run, drawn from its seed.

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};
use stonecast_fabric_sim::{Faults, Features, MachineOptions, MachineProfile};
use stonecast_kv::ClientPolicy;
use stonecast_kv::limits::LOCATIONS;
use stonecast_media::{
    Ddio, DeclaredPlatform, Durability, PersistenceDomain, PoolOptions, ReceiveBuffers,
};

use crate::adjustment::Adjustment;
use crate::explorer::Effort;
use crate::report::Sizes;

/// The choices of a run.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub seed: u64,
    pub machine: MachineOptions,
    pub pool: PoolOptions,
    pub policy: ClientPolicy,
    /// Clients, each on a machine of its own.
    pub clients: u32,
    /// Maximum number of operations that each client has in flight.
    pub lanes: u32,
    pub keys: u32,
    /// Operations of all clients together.
    pub operations: u64,
    /// Longest value, bytes.
    pub value_size_max: usize,
    /// Percentage of writes with values of any length; the other writes have short values.
    pub long_percent: u32,
    /// Percentages of gets and of deletes.
    pub gets_percent: u32,
    pub deletes_percent: u32,
    /// Percentage of puts on condition of a version.
    pub conditional_percent: u32,
    /// Percentage of operations that are batches of several keys.
    pub batches_percent: u32,
    /// Percentage of writes of some keys with values that no record holds.
    pub chunked_percent: u32,
    /// Percentage of puts without a token, in runs in which clients publish: clients publish no put with a token.
    pub plain_percent: u32,
    /// Keys whose places each client remembers.
    pub locations: usize,
    /// Whether keys are read in batches.
    pub reads_in_batches: bool,
    /// Number of times that the server ends in order and starts again.
    pub closings: u64,
    /// The faults and their rates.
    pub faults: Faults,
    /// Size of the values that fill the pool after everything has healed, before all are deleted;
    /// `None`: the pool is not filled.
    pub fills_with: Option<usize>,
    /// Number of moments at which to examine a power cut.
    pub crash_points: u32,
    pub effort: Effort,
}

/// Percentage of runs that have a given class of faults.
const SWARM_PERCENT: u32 = 30;

/// Number of keys whose places clients remember: none, so few that keys displace each other, or all.
const LOCATIONS_DRAWN: [usize; 4] = [0, 1, LOCATIONS, LOCATIONS];

/// Numbers of closings while clients work: a proper end is as frequent as a kill.
const CLOSINGS_DRAWN: [u64; 4] = [0, 0, 1, 2];

/// Share of short runs that write several times the size of their pool.
const CHURN_SHARE: f64 = 0.3;
/// Share of full runs that write several times the size of their pool: each takes as long as some dozens of other runs.
const FULL_CHURN_SHARE: f64 = 0.05;

/// Share of full runs in which the index grows.
const GROWTH_SHARE: f64 = 0.1;
/// Share of full runs in which the log is cleaned and the index grows, while clients die and the power fails.
const ALL_SHARE: f64 = 0.03;
/// Share of the runs in which clients publish.
const PUBLISHED_SHARE: f64 = 0.2;
/// Share of short runs whose pool is filled, and sizes of the values.
const FILLED_SHARE: f64 = 0.15;
pub(super) const FILLED_SIZES: [usize; 4] = [1_000, 9_000, 60_000, 120_000];
/// Share of the runs without publishing clients whose pool has several shards, and the numbers of shards.
const SHARDED_SHARE: f64 = 0.25;
const SHARDS_DRAWN: [u32; 4] = [2, 3, 7, 32];
/// Share of the runs without publishing clients whose pool is one of a cluster, with a ledger.
const LEDGER_SHARE: f64 = 0.2;
/// Share of the runs outside of pools of clusters that have batches.
const BATCHED_SHARE: f64 = 0.2;
/// Share of the runs that have values in chunks, the segments that these need beside the others, and the operations
/// of a run from which on such values become rarer: a long run writes no more of them.
const CHUNKED_SHARE: f64 = 0.1;
const CHUNKED_SEGMENTS: u64 = 32;
const CHUNKED_OPERATIONS: u64 = 300;
/// The keys that may have values in chunks are the first ones.
const CHUNKED_KEYS: u32 = 3;
/// Sizes of values in chunks: five chunks or six, in a pool of the smallest segments.
const CHUNKED_SIZES: std::ops::Range<usize> = 262_000..360_000;
/// Faults that damage a medium, which runs with a ledger, batches or values in chunks leave out. A pool has one ledger
/// that counts, and no second copy of that ledger.
const OF_THE_MEDIUM: [&str; 7] = [
    "adr_failure",
    "poison",
    "bit_flip",
    "misdirected_write",
    "lost_write",
    "stale_content",
    "read_from_cache",
];
/// Operations that write several times the size of such a small pool with published values.
const PUBLISHED_CHURN_OPERATIONS: u64 = 1500;
/// Faults that need a power cut, or against which a pool with process durability promises nothing.
const NOT_WITHOUT_POWER: [&str; 11] = [
    "read_from_cache",
    "power_cut",
    "adr_failure",
    "warm_reset",
    "torn_write",
    "poison",
    "bit_flip",
    "misdirected_write",
    "lost_write",
    "stale_content",
    "recovery_crash",
];

/// Smallest segments: recovery reads them whole.
const SEGMENT_SIZE: u64 = 256 << 10;

/// The percentage of writes with values in chunks in a run of `operations`, of which a short run has `percent`.
pub(crate) fn chunked_percent(percent: u32, operations: u64) -> u32 {
    let rarer = u64::from(percent) * CHUNKED_OPERATIONS / operations.max(CHUNKED_OPERATIONS);
    rarer.max(1) as u32
}

/// The size of a value in chunks, with which `percent` of the puts of the first keys go; `None` for all others.
pub(crate) fn chunked_size(percent: u32, key: u32, random: &mut Random) -> Option<usize> {
    let is_chunked = percent > 0 && key < CHUNKED_KEYS && random.random_range(0..100) < percent;
    is_chunked.then(|| random.random_range(CHUNKED_SIZES))
}

impl Setup {
    /// A full run: clients on three machines and more, a thousand operations, crashes of all parts.
    pub fn full(seed: u64) -> Self {
        Self::drawn(seed)
            .churned(FULL_CHURN_SHARE, 20_000, 6..11)
            .grown()
            .with_everything()
            .published()
            .sharded()
            .ledgered(LEDGER_SHARE)
            .batched(BATCHED_SHARE)
            .chunked(CHUNKED_SHARE)
    }

    /// The choices that scenarios share.
    fn drawn(seed: u64) -> Self {
        let random = &mut random_from_seed(seed);
        let platform = platform(random);
        let profile = MachineProfile::ALL[random.random_range(0..MachineProfile::ALL.len())];
        let segments = random.random_range(12..24);
        let faults = Faults::swarm(&mut random_from_seed(seed ^ 0x5741_524d), SWARM_PERCENT);
        let locations = &mut random_from_seed(seed ^ 0x706c_6163);
        let truth = match faults.undeclared_ddio_flag {
            0 => platform,
            _ => DeclaredPlatform {
                ddio: Ddio::On,
                ..platform
            },
        };
        Self {
            seed,
            machine: machine(profile, truth),
            pool: pool(seed, platform, segments),
            policy: if random.random_bool(0.75) {
                ClientPolicy::Trusted
            } else {
                ClientPolicy::Copying
            },
            clients: random.random_range(3..6),
            lanes: random.random_range(1..5),
            keys: random.random_range(4..40),
            operations: 1000,
            value_size_max: [64, 200, 1000, 9000][random.random_range(0..4)],
            long_percent: 20,
            gets_percent: random.random_range(20..70),
            deletes_percent: random.random_range(5..15),
            conditional_percent: 10,
            plain_percent: 0,
            batches_percent: 0,
            chunked_percent: 0,
            locations: LOCATIONS_DRAWN[locations.random_range(0..LOCATIONS_DRAWN.len())],
            reads_in_batches: locations.random_range(0..4) == 0,
            closings: CLOSINGS_DRAWN[locations.random_range(0..CLOSINGS_DRAWN.len())],
            faults,
            fills_with: None,
            crash_points: 10,
            effort: Effort {
                states: 40,
                states_again: 4,
                cut_percent: faults.recovery_crashes_percent.max(10),
            },
        }
    }

    /// In a share of the seeds: writes of several times the size of the pool, so that its segments
    /// are cleaned and reused.
    pub(super) fn churned(
        self,
        share: f64,
        longest: usize,
        segments: std::ops::Range<u64>,
    ) -> Self {
        let random = &mut random_from_seed(self.seed ^ 0x0043_4c45_414e);
        if !random.random_bool(share) {
            return self;
        }
        Self {
            pool: pool(self.seed, self.pool.platform, random.random_range(segments)),
            keys: self.keys.min(random.random_range(2..16)),
            value_size_max: random.random_range(longest / 4..longest),
            long_percent: 90,
            gets_percent: random.random_range(5..40),
            deletes_percent: random.random_range(2..40),
            ..self
        }
    }

    /// In a share of the seeds: so many keys, most of them written once, that the index grows.
    fn grown(self) -> Self {
        let random = &mut random_from_seed(self.seed ^ 0x0047_524f_5754);
        if !random.random_bool(GROWTH_SHARE) {
            return self;
        }
        Self {
            pool: pool(self.seed, self.pool.platform, random.random_range(12..24)),
            keys: random.random_range(700..1200),
            value_size_max: [64, 200, 1000][random.random_range(0..3)],
            long_percent: 20,
            gets_percent: random.random_range(2..20),
            deletes_percent: random.random_range(0..6),
            ..self
        }
    }

    /// In a share of the seeds: a small pool, many keys with long values, and ends of server,
    /// clients and power.
    fn with_everything(self) -> Self {
        let random = &mut random_from_seed(self.seed ^ 0x0041_4c4c);
        if !random.random_bool(ALL_SHARE) {
            return self;
        }
        let faults = Faults {
            process_kills: self.faults.process_kills.max(random.random_range(3..6)),
            power_cuts: self.faults.power_cuts.max(random.random_range(1..3)),
            ..self.faults
        };
        Self {
            pool: pool(self.seed, self.pool.platform, random.random_range(8..11)),
            keys: random.random_range(500..700),
            operations: 3000,
            value_size_max: random.random_range(2500..4000),
            long_percent: 90,
            gets_percent: random.random_range(2..6),
            deletes_percent: random.random_range(2..6),
            faults,
            ..self
        }
    }

    /// In a share of the seeds: clients that publish.
    fn published(self) -> Self {
        let random = &mut random_from_seed(self.seed ^ 0x5055_424c_4953_4845);
        if !random.random_bool(PUBLISHED_SHARE) {
            return self;
        }
        self.publishing(random)
    }

    /// In a share of the seeds: a pool of several shards. Every other choice of the seed stays.
    fn sharded(self) -> Self {
        let random = &mut random_from_seed(self.seed ^ 0x5348_4152_4453);
        if self.publishes() || !random.random_bool(SHARDED_SHARE) {
            return self;
        }
        let shards = SHARDS_DRAWN[random.random_range(0..SHARDS_DRAWN.len())];
        let pool = PoolOptions {
            shards,
            ..self.pool
        };
        Self { pool, ..self }
    }

    /// In a share of the seeds: a pool of a cluster, which its node serves alone. The ledger takes a segment. Every
    /// other choice of the seed stays.
    pub(super) fn ledgered(self, share: f64) -> Self {
        let random = &mut random_from_seed(self.seed ^ 0x4c45_4447_4552);
        if self.publishes() || !random.random_bool(share) {
            return self;
        }
        let mut faults = self.faults;
        faults.leave_out(|name| OF_THE_MEDIUM.contains(&name));
        let pool = PoolOptions {
            capacity: self.pool.capacity + self.pool.segment_size,
            cluster_seed: Some(random.random()),
            ..self.pool
        };
        Self {
            pool,
            faults,
            ..self
        }
    }

    /// In a share of the seeds: batches of several keys. A damaged record takes the rest of its batch with it, so the
    /// medium is sound. Every other choice of the seed stays.
    pub(super) fn batched(self, share: f64) -> Self {
        let random = &mut random_from_seed(self.seed ^ 0x0042_4154_4348_4553);
        if self.pool.cluster_seed.is_some() || !random.random_bool(share) {
            return self;
        }
        let mut faults = self.faults;
        faults.leave_out(|name| OF_THE_MEDIUM.contains(&name));
        Self {
            batches_percent: random.random_range(10..60),
            faults,
            ..self
        }
    }

    /// In a share of the seeds: values in chunks. A damaged chunk harms a key whose record is elsewhere, so the medium
    /// is sound; and a pool of a cluster keeps chunks after a start whose record another node may have, so their space
    /// is not lost. Every other choice of the seed stays.
    pub(super) fn chunked(self, share: f64) -> Self {
        let random = &mut random_from_seed(self.seed ^ 0x0043_4855_4e4b_4544);
        if self.pool.cluster_seed.is_some() || !random.random_bool(share) {
            return self;
        }
        let mut faults = self.faults;
        faults.leave_out(|name| OF_THE_MEDIUM.contains(&name));
        Self {
            pool: PoolOptions {
                capacity: self.pool.capacity + CHUNKED_SEGMENTS * self.pool.segment_size,
                ..self.pool
            },
            chunked_percent: chunked_percent(random.random_range(5..40), self.operations),
            crash_points: self.crash_points.min(4),
            faults,
            ..self
        }
    }

    /// Clients that publish their overwrites, beside others. The pool survives only processes, so only processes die.
    pub(super) fn publishing(self, random: &mut Random) -> Self {
        let mut faults = self.faults;
        faults.leave_out(|name| NOT_WITHOUT_POWER.contains(&name));
        faults.process_kills += random.random_range(0..4);
        let durability = Durability::Process;
        // Longer values are not published; so writing several times the size of the pool takes more
        // operations.
        let value_size_max = self.value_size_max.min(random.random_range(1000..4000));
        let is_churned = self.value_size_max > 3 * value_size_max
            && self.operations < PUBLISHED_CHURN_OPERATIONS;
        Self {
            pool: PoolOptions {
                durability,
                ..self.pool
            },
            value_size_max,
            operations: if is_churned {
                PUBLISHED_CHURN_OPERATIONS
            } else {
                self.operations
            },
            plain_percent: [75, 75, 95][random.random_range(0..3)],
            policy: ClientPolicy::Publishing,
            faults,
            crash_points: 0,
            // Only overwrites are published.
            gets_percent: self.gets_percent.min(30),
            ..self
        }
    }

    /// Whether clients publish.
    pub fn publishes(&self) -> bool {
        self.policy == ClientPolicy::Publishing
    }

    /// A short run with an examination of every moment.
    pub fn short(seed: u64) -> Self {
        let full = Self::drawn(seed);
        Self {
            clients: 1 + (seed % 2) as u32,
            lanes: 1 + (seed / 2 % 3) as u32,
            keys: 4,
            operations: 8,
            value_size_max: 200,
            long_percent: 20,
            gets_percent: 10,
            faults: Faults {
                process_kills: seed.is_multiple_of(5).into(),
                power_cuts: seed.is_multiple_of(7).into(),
                torn_writes_percent: 30,
                ..Faults::default()
            },
            crash_points: u32::MAX,
            effort: Effort {
                states: fates_max(),
                states_again: 10,
                cut_percent: 12,
            },
            pool: pool(seed, full.pool.platform, 6),
            ..full
        }
    }

    /// A run with some faults of every kind, for many seeds.
    pub fn lite(seed: u64) -> Self {
        Self::plainly_lite(seed)
            .published()
            .filled()
            .sharded()
            .ledgered(LEDGER_SHARE)
            .batched(BATCHED_SHARE)
            .chunked(CHUNKED_SHARE)
    }

    /// The same run, with clients that do not publish and a pool that is not filled.
    pub(super) fn plainly_lite(seed: u64) -> Self {
        let full = Self::drawn(seed);
        let random = &mut random_from_seed(seed ^ 0x117e);
        Self {
            clients: random.random_range(1..4),
            keys: random.random_range(2..10),
            operations: 100,
            value_size_max: [64, 200, 1000][random.random_range(0..3)],
            gets_percent: random.random_range(10..50),
            deletes_percent: random.random_range(5..25),
            long_percent: 20,
            crash_points: 8,
            effort: Effort {
                states: 60,
                states_again: 8,
                cut_percent: 16,
            },
            pool: pool(seed, full.pool.platform, random.random_range(5..9)),
            ..full
        }
        .churned(CHURN_SHARE, 100_000, 5..8)
    }

    /// In a share of the seeds: a pool that is filled at the end.
    fn filled(self) -> Self {
        let random = &mut random_from_seed(self.seed ^ 0x4649_4c4c);
        let fills_with = random
            .random_bool(FILLED_SHARE)
            .then(|| FILLED_SIZES[random.random_range(0..FILLED_SIZES.len())]);
        Self { fills_with, ..self }
    }
}

impl Setup {
    /// Applies `adjustment`.
    pub fn adjust(&mut self, adjustment: &Adjustment) {
        self.operations = Adjustment::at_most(adjustment.operations, self.operations).max(1);
        self.clients = Adjustment::at_most(adjustment.clients, self.clients).max(1);
        self.lanes = Adjustment::at_most(adjustment.lanes, self.lanes).max(1);
        self.keys = Adjustment::at_most(adjustment.keys, self.keys).max(1);
        self.faults
            .leave_out(|name| adjustment.without.contains(name));
        if adjustment.every_moment {
            self.crash_points = u32::MAX;
        }
    }

    /// The size of the run.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            clients: self.clients,
            lanes: self.lanes,
            keys: self.keys,
            operations: self.operations,
        }
    }

    /// The other choices of the seed, for people.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        let platform = self.machine.platform;
        vec![
            ("profile", self.machine.profile.name.to_owned()),
            (
                "persistence domain",
                platform.persistence_domain.to_string(),
            ),
            ("DDIO", platform.ddio.to_string()),
            ("clients are", policy(self.policy).to_owned()),
            (
                "segments",
                format!(
                    "{} of {} KiB",
                    self.pool.capacity / self.pool.segment_size,
                    self.pool.segment_size >> 10
                ),
            ),
            ("shards", self.pool.shards.to_string()),
            (
                "pool",
                match self.pool.cluster_seed {
                    Some(_) => "of a cluster",
                    None => "of one server",
                }
                .to_owned(),
            ),
            (
                "longest value",
                format!(
                    "{} bytes, {} % of any length",
                    self.value_size_max, self.long_percent
                ),
            ),
            ("places remembered", self.locations.to_string()),
            ("server closed in order", format!("{} times", self.closings)),
            ("faults", self.faults.enabled().join(", ")),
            (
                "gets, deletes",
                format!("{} %, {} %", self.gets_percent, self.deletes_percent),
            ),
            ("batches", format!("{} %", self.batches_percent)),
            ("values in chunks", format!("{} %", self.chunked_percent)),
        ]
    }
}

/// The value of `serve --clients`.
fn policy(policy: ClientPolicy) -> &'static str {
    match policy {
        ClientPolicy::Trusted => "trusted",
        ClientPolicy::Publishing => "publishing",
        ClientPolicy::Copying => "copying",
    }
}

/// Number of states of one power cut that the release target samples.
const fn fates_max() -> u64 {
    10_000
}

fn machine(profile: MachineProfile, platform: DeclaredPlatform) -> MachineOptions {
    MachineOptions {
        platform,
        features: Features::COMMON,
        cores: 4,
        ..MachineOptions::new(profile)
    }
}

fn platform(random: &mut Random) -> DeclaredPlatform {
    let domains = [
        PersistenceDomain::Dmp,
        PersistenceDomain::Mhp,
        PersistenceDomain::Wsp,
        PersistenceDomain::PageFile,
    ];
    let ddio = if random.random() { Ddio::On } else { Ddio::Off };
    // Most faults occur where caches are lost.
    let persistence_domain = if random.random() {
        PersistenceDomain::Dmp
    } else {
        domains[random.random_range(0..4)]
    };
    DeclaredPlatform {
        persistence_domain,
        ddio,
        receive_buffers: ReceiveBuffers::Dram,
    }
}

fn pool(seed: u64, platform: DeclaredPlatform, segments: u64) -> PoolOptions {
    use rand::Rng as _;
    let mut entropy = [0; 64];
    random_from_seed(!seed).fill_bytes(&mut entropy);
    let durability = Durability::Power;
    PoolOptions {
        capacity: segments * SEGMENT_SIZE,
        segment_size: SEGMENT_SIZE,
        shards: 1,
        cluster_seed: None,
        platform,
        durability,
        entropy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The printed words are arguments of the command line.
    #[test]
    fn a_setup_is_described_in_the_words_of_the_command_line() {
        for seed in 0..64 {
            let options = Setup::full(seed).describe();
            let word = |name: &str| {
                let found = options.iter().find(|(option, _)| *option == name);
                found.expect("every setup has it").1.clone()
            };
            word("persistence domain")
                .parse::<PersistenceDomain>()
                .unwrap();
            word("DDIO").parse::<Ddio>().unwrap();
            assert!(["trusted", "publishing", "copying"].contains(&&*word("clients are")));
        }
    }
}
