//! A backup, primaries, and their surroundings.

mod alone;
mod babbler;
mod backup;
mod pair;
mod primary;
mod recovery;

pub use alone::Alone;
pub use babbler::{babble, endpoint, hello_bytes, overspend};
pub use backup::{Backup, open};
pub use pair::Pair;
pub use primary::{Primary, Writer, bytes_of, name, settled};
pub use recovery::recover;

use std::rc::Rc;

use stonecast_backup::{Hello, IntakeOptions, Pace, SharedLedger};
use stonecast_cluster::Nonce;
use stonecast_fabric_sim::{Features, MachineOptions, MachineProfile};
use stonecast_log::{Ledger, LogFormat};
use stonecast_media::{
    Ddio, DeclaredPlatform, Durability, LogOptions, PersistenceDomain, PersistentRegion,
    ReceiveBuffers,
};
use stonecast_persist::Platform;
use stonecast_persist::execute::Commit;

pub const ADDRESS: &str = "sim:backup";
pub const COMPLETIONS: u32 = 4096;
pub const KEY: [u64; 2] = [0x51ed, 0xc0de];
pub const NONCE: Nonce = Nonce::from_u128(17);
pub const SEGMENT_SIZE: u64 = 16 * 1024;

/// A backup's surroundings. Each story changes the fields that it is about.
#[derive(Clone, Copy)]
pub struct Setup {
    pub platform: Platform,
    pub durability: Durability,
    pub features: Features,
    pub segments: u32,
    pub segment_size: u64,
    pub window_size: u64,
    pub entry_size_max: u32,
    pub sessions_max: usize,
    pub look_units: u32,
}

impl Setup {
    pub fn on(persistence_domain: PersistenceDomain, ddio: Ddio) -> Self {
        Self {
            platform: Platform::of(DeclaredPlatform {
                persistence_domain,
                ddio,
                receive_buffers: ReceiveBuffers::Dram,
            }),
            durability: Durability::Power,
            features: Features::ALL,
            segments: 6,
            segment_size: SEGMENT_SIZE,
            window_size: 4096,
            entry_size_max: 1024,
            sessions_max: 3,
            look_units: 64,
        }
    }

    /// READs make entries durable, and the backup's processor does nothing for them.
    pub fn one_sided() -> Self {
        Self::on(PersistenceDomain::Dmp, Ddio::Off)
    }

    /// The backup writes entries back, and answers.
    pub fn answered() -> Self {
        Self::on(PersistenceDomain::Dmp, Ddio::On)
    }

    /// The backup syncs a file, and answers.
    pub fn synced() -> Self {
        Self::on(PersistenceDomain::PageFile, Ddio::On)
    }

    pub fn machine(&self) -> MachineOptions {
        MachineOptions {
            platform: self.platform.declared(),
            features: self.features,
            ..MachineOptions::new(MachineProfile::MODERN)
        }
    }

    pub fn format(&self) -> LogFormat {
        LogFormat {
            uuid: 7,
            tag_key: 1,
            secret: None,
            segment_size: self.segment_size,
            segment_count: self.segments,
        }
    }

    pub fn options(&self, run: u32) -> IntakeOptions {
        IntakeOptions {
            nonce: NONCE,
            run,
            platform: self.platform,
            durability: self.durability,
            sessions_max: self.sessions_max,
            ahead: 2,
            entry_size_max: self.entry_size_max,
            window_size: self.window_size,
            pace: Pace::even(self.look_units),
            ask_again_ns: 20_000,
            rnr_retry_count: 50,
            rnr_retry_delay_ns: 20_000,
        }
    }

    pub fn log(&self) -> LogOptions {
        LogOptions {
            capacity: self.segment_size * u64::from(self.segments),
            platform: self.platform.declared(),
            durability: self.durability,
        }
    }

    /// Shares `ledger`, which was read from `region`.
    pub fn share(&self, ledger: Ledger, region: Rc<dyn PersistentRegion>) -> SharedLedger {
        let platform = self.platform.declared();
        let commit = Commit::choose(platform, self.durability, region.means()).unwrap();
        SharedLedger::new(ledger, None, (region, self.format()), commit)
    }
}

pub fn hello(node: &str) -> Hello {
    Hello {
        nonce: NONCE,
        node: name(node),
    }
}
