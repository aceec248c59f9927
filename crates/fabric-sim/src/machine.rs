//! The parts of machines.

use stonecast_base::Nanoseconds;
use stonecast_media::{Ddio, DeclaredPlatform, PersistenceDomain, ReceiveBuffers};

use crate::cache::Latencies;
use crate::profile::MachineProfile;

/// The latencies of a core of `profile` for its DRAM.
pub(crate) fn dram(profile: &MachineProfile) -> Latencies {
    Latencies {
        hit_ps: profile.cpu_hit_ps,
        miss_ps: profile.dram_read_ns * 1000,
        stream_ps: profile.cpu_stream_ps,
    }
}

/// A machine whose memory controllers save their content, with DDIO on: the common case.
const COMMON_PLATFORM: DeclaredPlatform = DeclaredPlatform {
    persistence_domain: PersistenceDomain::Dmp,
    ddio: Ddio::On,
    receive_buffers: ReceiveBuffers::Dram,
};

/// The moment at which a NIC completes a posted operation of its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// InfiniBand and RoCE: when the responder's NIC has acknowledged it.
    InfiniBand,
    /// iWARP: when the reliable transport of its own machine has it, perhaps before anything was sent (taxonomy,
    /// section 3.2). A message that finds no receive buffer ends the connection; there are no retries.
    Iwarp,
}

/// The root port through which a NIC reaches memory: a setting of the machine for each of its NICs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RootPort {
    /// Whether writes go into the last-level cache; `None` to follow the machine's platform.
    pub ddio: Option<Ddio>,
    /// Whether writes may pass each other on their way to memory, so that a READ pushes none of them out. A completion
    /// still comes after its data.
    pub relaxed_ordering: bool,
}

/// The abilities of a machine's NIC beyond the common ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Multi-packet shared receive queues.
    pub multi_packet: bool,
    /// Multi-packet queues without completions name their messages, as those of shared memory do.
    pub follows_appends: bool,
    /// Memory windows.
    pub memory_windows: bool,
    /// FLUSH with global visibility.
    pub flush_global: bool,
    /// FLUSH with persistence.
    pub flush_persistent: bool,
    /// ATOMIC_WRITE of 8 bytes.
    pub atomic_write: bool,
}

impl Features {
    /// Every feature of the vocabulary of NICs.
    pub const ALL: Self = Self {
        multi_packet: true,
        follows_appends: false,
        memory_windows: true,
        flush_global: true,
        flush_persistent: true,
        atomic_write: true,
    };
    /// The features of NICs on the market.
    pub const COMMON: Self = Self {
        multi_packet: false,
        follows_appends: false,
        memory_windows: true,
        flush_global: false,
        flush_persistent: false,
        atomic_write: false,
    };
}

/// The options of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineOptions {
    /// The speeds of its parts.
    pub profile: MachineProfile,
    /// The number of its cores; further processes share them.
    pub cores: usize,
    /// The abilities of its NIC.
    pub features: Features,
    /// The domain of its persistent memory, and the first destination of its NIC's writes: the truth, whatever a pool
    /// declares.
    pub platform: DeclaredPlatform,
    /// The transport of its NIC. Both ends of a connection use the same.
    pub transport: Transport,
    /// Longest time that an inbound write waits inside the machine for room on its way to memory, as behind other
    /// traffic. The seed decides the wait of each write; 0: none waits.
    pub inbound_stall_ns_max: Nanoseconds,
    /// Longest time that the NIC's transport holds a message back before it leaves: a closed window, a retransmission.
    /// Drawn in the same way; 0: none is held back.
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
