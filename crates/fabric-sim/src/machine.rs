//! What machines are made of.

use stonecast_base::Nanoseconds;
use stonecast_media::{Ddio, DeclaredPlatform, PersistenceDomain, ReceiveBuffers};

use crate::cache::Latencies;
use crate::profile::MachineProfile;

/// How long a core of `profile` takes for its DRAM.
pub(crate) fn dram(profile: &MachineProfile) -> Latencies {
    Latencies {
        hit_ps: profile.cpu_hit_ps,
        miss_ps: profile.dram_read_ns * 1000,
        stream_ps: profile.cpu_stream_ps,
    }
}

/// A machine whose memory controllers save what they have, with DDIO on: the common one.
const COMMON_PLATFORM: DeclaredPlatform = DeclaredPlatform {
    persistence_domain: PersistenceDomain::Dmp,
    ddio: Ddio::On,
    receive_buffers: ReceiveBuffers::Dram,
};

/// When a NIC completes a posted operation of its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// InfiniBand and RoCE: when the responder's NIC has acknowledged it.
    InfiniBand,
    /// iWARP: when the reliable transport of its own machine has it, perhaps before anything was sent (taxonomy, section
    /// 3.2). A message that finds no receive buffer ends the connection; there are no retries.
    Iwarp,
}

/// The root port through which a NIC reaches memory: a setting of the machine for each of its NICs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RootPort {
    /// Whether writes go into the last-level cache; `None`: as the machine's platform says.
    pub ddio: Option<Ddio>,
    /// Writes may pass each other on their way to memory, and a READ pushes none of them out. A completion still comes after
    /// the data that it tells of.
    pub relaxed_ordering: bool,
}

/// What the NIC of a machine can do beyond what all can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Multi-packet shared receive queues.
    pub multi_packet: bool,
    /// Memory windows.
    pub memory_windows: bool,
    /// FLUSH with global visibility.
    pub flush_global: bool,
    /// FLUSH with persistence.
    pub flush_persistent: bool,
    /// ATOMIC_WRITE.
    pub atomic_write: bool,
}

impl Features {
    /// Everything that the vocabulary has.
    pub const ALL: Self = Self {
        multi_packet: true,
        memory_windows: true,
        flush_global: true,
        flush_persistent: true,
        atomic_write: true,
    };
    /// What NICs on the market have.
    pub const COMMON: Self = Self {
        multi_packet: false,
        memory_windows: true,
        flush_global: false,
        flush_persistent: false,
        atomic_write: false,
    };
}

/// How to make a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineOptions {
    /// How fast it is.
    pub profile: MachineProfile,
    /// How many cores it has; processes beyond that share them.
    pub cores: usize,
    /// What its NIC can do.
    pub features: Features,
    /// What its persistent memory survives, and where its NIC writes first: the truth, whatever a pool declares.
    pub platform: DeclaredPlatform,
    /// What its NIC speaks. Both ends of a connection speak the same.
    pub transport: Transport,
    /// Longest time that an inbound write waits inside the machine for room on its way to memory, as it does behind other
    /// traffic. How long each one waits is drawn from the seed; 0: none waits.
    pub inbound_stall_ns_max: Nanoseconds,
    /// Longest time that the NIC's transport holds a message back before it leaves: a closed window, a retransmission.
    /// Drawn likewise; 0: none is held back.
    pub outbound_stall_ns_max: Nanoseconds,
}

impl MachineOptions {
    /// A machine of `profile` with 16 cores and the features of NICs on the market.
    pub fn new(profile: MachineProfile) -> Self {
        Self {
            profile,
            cores: 16,
            features: Features::COMMON,
            platform: COMMON_PLATFORM,
            transport: Transport::InfiniBand,
            inbound_stall_ns_max: 0,
            outbound_stall_ns_max: 0,
        }
    }
}
