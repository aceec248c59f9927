//! Names for the objects of a device: small values that can be copied, kept and compared. A handle of one device is
//! meaningless to another.

/// A queue pair: send queue and receive queue of one reliable connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueuePair(pub u32);

/// A completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CompletionQueue(pub u32);

/// A receive queue that many queue pairs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SharedReceiveQueue(pub u32);

/// A remote key: its holder may access the bytes that it covers, with the rights that it grants, while it is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rkey(pub u32);

/// Registered memory of this device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRegion {
    /// Index of the region in its device; serves as the local key.
    pub index: u32,
    /// Remote address of its first byte.
    pub address: u64,
    /// Length in bytes.
    pub size: u64,
    /// The remote key of the region. It grants the rights of the registration; [`Access::NONE`] makes a region that
    /// only memory windows open.
    pub rkey: Rkey,
}

/// Rights of a memory region or window. Every right is named; there is no default set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(u32);

impl Access {
    /// Local use only.
    pub const NONE: Self = Self(0);
    /// READ by a peer.
    pub const REMOTE_READ: Self = Self(1);
    /// WRITE, WRITE_WITH_IMM and ATOMIC_WRITE by a peer.
    pub const REMOTE_WRITE: Self = Self(2);
    /// CAS and FAA by a peer.
    pub const REMOTE_ATOMIC: Self = Self(4);
    /// FLUSH by a peer.
    pub const REMOTE_FLUSH: Self = Self(8);

    /// The union of both sets of rights.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether every right of `other` is granted.
    pub const fn grants(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The set as a number, for wire formats and tables.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set that `bits` encodes; `None` for unknown bits, which are an error of the sender.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        if bits < 16 { Some(Self(bits)) } else { None }
    }
}
