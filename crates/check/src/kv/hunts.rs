//! The choices of directed hunts: short runs of the KV store that dwell on events that are rare in other runs.
//!
//! A hunt is a run of `kv-lite` with a few choices fixed, so that all other choices still come from the seed, and every
//! oracle judges it.
//!
//! ```text
//!   rivals     clients that publish, and the server, write the same one or two keys, often on condition of a version
//!   restarts   servers and clients die again and again, deletes are frequent, every write of unknown outcome is repeated
//!   reuse      segments are cleaned and written again, deletes are frequent, and power cuts are examined often
//!   ledgers    the same, in a pool of a cluster: the ledger says which records count
//!   batches    servers and clients die among batches of several keys, and power cuts are examined often
//!   syncs      the pool is a file, and one of its syncs fails; a power cut is examined at every moment
//!   full       the pool is filled, and then emptied
//! ```

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_fabric_sim::{Faults, MachineOptions};
use stonecast_media::{DeclaredPlatform, PersistenceDomain, PoolOptions};

use crate::explorer::Effort;
use crate::kv::setup::{FILLED_SIZES, Setup};

/// Number of states of each power cut, where every moment is examined.
const STATES_OF_A_MOMENT: u64 = 8;

impl Setup {
    /// Clients that publish, and the server, write the same one or two keys, often on condition of a version. A server
    /// that ignores a client's publication between its own decision and publication answers such a write wrongly.
    pub fn rivals(seed: u64) -> Self {
        let random = &mut random_from_seed(seed ^ 0x5249_5641_4c53);
        let setup = Self::plainly_lite(seed).publishing(random);
        Self {
            clients: random.random_range(3..5),
            lanes: random.random_range(1..3),
            keys: random.random_range(1..3),
            operations: 1000,
            value_size_max: 64,
            gets_percent: 25,
            deletes_percent: 5,
            conditional_percent: 40,
            plain_percent: random.random_range(60..90),
            ..setup
        }
    }

    /// Servers and clients die again and again, deletes are frequent, and every write of unknown outcome is repeated.
    pub fn restarts(seed: u64) -> Self {
        let random = &mut random_from_seed(seed ^ 0x5245_5354_4152_5453);
        let setup = Self::plainly_lite(seed);
        Self {
            clients: random.random_range(2..5),
            lanes: random.random_range(2..5),
            keys: random.random_range(1..4),
            value_size_max: 64,
            gets_percent: 5,
            deletes_percent: 40,
            closings: 0,
            faults: Faults {
                process_kills: random.random_range(6..12),
                repeated_write_percent: 100,
                ..setup.faults
            },
            ..setup
        }
    }

    /// Several times the size of the pool is written, deletes are frequent, and power cuts are examined often. Recovery
    /// meets older and newer records of a deleted key in any order.
    pub fn reuse(seed: u64) -> Self {
        let setup = Self::plainly_lite(seed).churned(1.0, 60_000, 5..8);
        Self {
            keys: setup.keys.min(4),
            gets_percent: 5,
            deletes_percent: 40,
            closings: 0,
            crash_points: 24,
            effort: Effort {
                states: STATES_OF_A_MOMENT,
                states_again: 2,
                ..setup.effort
            },
            ..setup
        }
    }

    /// The hunt of [`Setup::reuse`], in a pool of a cluster. A record that the ledger does not call settled counts if
    /// no version is missing before it.
    pub fn ledgers(seed: u64) -> Self {
        Self::reuse(seed).ledgered(1.0)
    }

    /// Servers and clients die among batches of several keys, and power cuts are examined often.
    pub fn batches(seed: u64) -> Self {
        let setup = Self::plainly_lite(seed).batched(1.0);
        let random = &mut random_from_seed(seed ^ 0x4241_5443_4845_535e);
        Self {
            clients: random.random_range(2..4),
            lanes: random.random_range(1..4),
            keys: random.random_range(3..8),
            operations: 60,
            gets_percent: 30,
            batches_percent: 60,
            crash_points: 24,
            effort: Effort {
                states: STATES_OF_A_MOMENT,
                states_again: 2,
                ..setup.effort
            },
            faults: Faults {
                process_kills: random.random_range(0..6),
                ..setup.faults
            },
            ..setup
        }
    }

    /// The pool is a file, and one of its syncs fails. A power cut at every moment is examined.
    pub fn syncs(seed: u64) -> Self {
        let setup = Self::plainly_lite(seed);
        let on_file = |platform| DeclaredPlatform {
            persistence_domain: PersistenceDomain::PageFile,
            ..platform
        };
        Self {
            operations: 30,
            machine: MachineOptions {
                platform: on_file(setup.machine.platform),
                ..setup.machine
            },
            pool: PoolOptions {
                platform: on_file(setup.pool.platform),
                ..setup.pool
            },
            faults: Faults {
                lost_writes: 1,
                ..setup.faults
            },
            crash_points: u32::MAX,
            effort: Effort {
                states: STATES_OF_A_MOMENT,
                states_again: 1,
                ..setup.effort
            },
            ..setup
        }
    }

    /// The pool is filled, and then emptied.
    pub fn full_pool(seed: u64) -> Self {
        let random = &mut random_from_seed(seed ^ 0x4655_4c4c);
        Self {
            operations: 20,
            fills_with: Some(FILLED_SIZES[random.random_range(0..FILLED_SIZES.len())]),
            crash_points: 1,
            ..Self::plainly_lite(seed)
        }
    }
}
