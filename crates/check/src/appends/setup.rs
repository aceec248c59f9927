//! The choices of a run, drawn from its seed.

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};
use stonecast_fabric_sim::{Faults, Features, MachineOptions, MachineProfile};
use stonecast_media::{Ddio, DeclaredPlatform, PersistenceDomain, ReceiveBuffers};
use stonecast_persist::Platform;

use crate::adjustment::Adjustment;
use crate::explorer::Effort;
use crate::report::Sizes;

/// The moment at which a sender takes an entry for persisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// The plan for the receiver's platform has ended.
    Persisted,
    /// The SEND has completed: a mistake on most platforms.
    Completed,
}

/// The machine of a receiver, and the platform that the receiver declares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub machine: MachineOptions,
    pub platform: Platform,
}

/// The choices of a run.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub seed: u64,
    pub receivers: Vec<Place>,
    pub senders: u32,
    /// The most entries that a sender has under way.
    pub window: u32,
    /// Entries of all senders together.
    pub entries: u64,
    pub done: Done,
    pub faults: Faults,
    /// The number of sound sessions that receivers end.
    pub dismissals: u64,
    /// The number of suspensions of machines.
    pub suspensions: u64,
    pub every_moment: bool,
    pub effort: Effort,
}

impl Setup {
    /// Draws some dozens of entries, and any kind of fault that these senders and receivers can meet.
    pub fn drawn(seed: u64) -> Self {
        let random = &mut random_from_seed(seed ^ 0x6170_7065_6e64);
        let faults = faults(random);
        // A declaration that trusts the buffers of a NIC says that the buffers survive a reset.
        let trusts_nic = faults.nic_resets == 0;
        let receivers = random.random_range(1..3);
        Self {
            seed,
            receivers: (0..receivers).map(|_| place(random, trusts_nic)).collect(),
            senders: random.random_range(1..4),
            window: [1, 4, 8][random.random_range(0..3)],
            entries: random.random_range(10..40),
            done: Done::Persisted,
            faults,
            dismissals: random.random_range(0..3),
            suspensions: random.random_range(0..4_u64) / 3,
            every_moment: false,
            effort: Effort {
                states: 100,
                states_again: 6,
                cut_percent: 10,
            },
        }
    }

    /// Applies `adjustment`.
    pub fn adjust(&mut self, adjustment: &Adjustment) {
        self.entries = Adjustment::at_most(adjustment.operations, self.entries).max(1);
        self.senders = Adjustment::at_most(adjustment.clients, self.senders).max(1);
        self.window = Adjustment::at_most(adjustment.lanes, self.window).max(1);
        self.faults
            .leave_out(|name| adjustment.without.contains(name));
        self.every_moment |= adjustment.every_moment;
        if adjustment.canary {
            self.done = Done::Completed;
        }
    }

    /// The size of the run. A sender counts as a client, and an entry as an operation.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            clients: self.senders,
            lanes: self.window,
            keys: 1,
            operations: self.entries,
        }
    }

    /// The other choices of the seed, as text for people.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        let receivers = self.receivers.iter().map(|place| {
            let Platform {
                persistence, ddio, ..
            } = place.platform;
            let places = match place.machine.features.multi_packet {
                true => "packed",
                false => "slots",
            };
            let profile = place.machine.profile.name;
            format!("{profile} {persistence} DDIO {ddio}, {places}")
        });
        vec![
            ("receivers", receivers.collect::<Vec<_>>().join("; ")),
            ("faults", self.faults.enabled().join(" ")),
            ("dismissals", self.dismissals.to_string()),
            ("suspensions", self.suspensions.to_string()),
        ]
    }
}

/// Draws each class of faults for a third of the runs. A run has few messages, so faults are more frequent than in runs
/// of thousands.
fn faults(random: &mut Random) -> Faults {
    let mut up_to = |most: u64| match random.random_range(0..3) {
        0 => random.random_range(1..=most),
        _ => 0,
    };
    Faults {
        completion_delayed_per_million: up_to(300_000),
        error_though_executed_per_million: up_to(20_000),
        error_not_executed_per_million: up_to(20_000),
        flush_cascade_per_million: up_to(20_000),
        receiver_not_ready_per_million: up_to(100_000),
        half_open_per_million: up_to(20_000),
        partial_placement_per_million: up_to(50_000),
        scattered_placement_per_million: up_to(500_000),
        placement_delayed_per_million: up_to(300_000),
        connection_lost_per_million: up_to(200_000),
        late_placement_percent: up_to(100),
        partitions: up_to(2),
        nic_resets: up_to(2),
        slow_nic_factor: up_to(300),
        host_pauses: up_to(2),
        client_pauses: up_to(2),
        process_kills: up_to(3),
        power_cuts: up_to(2),
        ..Faults::default()
    }
}

fn place(random: &mut Random, trusts_nic: bool) -> Place {
    use PersistenceDomain::{Dmp, Mhp, PageFile, Wsp};
    let profile = MachineProfile::ALL[random.random_range(0..MachineProfile::ALL.len())];
    let declared = DeclaredPlatform {
        // A power cut loses most under DMP, so DMP is drawn twice as often as the others.
        persistence_domain: [Dmp, Dmp, Mhp, Wsp, PageFile][random.random_range(0..5)],
        ddio: if random.random() { Ddio::On } else { Ddio::Off },
        receive_buffers: ReceiveBuffers::Dram,
    };
    let platform = Platform::of(declared);
    Place {
        machine: MachineOptions {
            platform: declared,
            features: if random.random() {
                Features::ALL
            } else {
                Features::COMMON
            },
            inbound_stall_ns_max: [0, 4_000][random.random_range(0..2)],
            ..MachineOptions::new(profile)
        },
        platform: Platform {
            trusted_nic_buffers: platform.trusted_nic_buffers && trusts_nic,
            ..platform
        },
    }
}
