//! What the operator declares of the platform that a pool lives on. Declared once, at creation, and kept in the header.

/// What a store promises to survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The death of every process, at any instruction. Not power loss.
    Process,
    /// Power loss too.
    Power,
}

/// Up to where stored bytes survive a power cut (remote persistence taxonomy, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersistenceDomain {
    /// Nothing survives: DRAM without battery.
    Volatile,
    /// An ordinary file: whole pages, by `fdatasync`.
    PageFile,
    /// The memory controller and the DIMM: cache lines must be written back.
    Dmp,
    /// The memory hierarchy: CPU caches too (eADR).
    Mhp,
    /// The whole system, by battery.
    Wsp,
}

/// Where inbound network writes land first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ddio {
    /// In the last-level cache. Also the answer where nobody knows.
    On,
    /// In the memory controller.
    Off,
}

/// What memory holds receive buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveBuffers {
    /// Volatile memory.
    Dram,
    /// Persistent memory.
    Pm,
}

/// The declared platform profile of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclaredPlatform {
    /// Up to where bytes survive.
    pub persistence_domain: PersistenceDomain,
    /// Where inbound writes land.
    pub ddio: Ddio,
    /// Where receive buffers live.
    pub receive_buffers: ReceiveBuffers,
}
