//! The copies of the shards whose primary a node is, as the node tells of them.

/// The part that a copy plays for its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyPart {
    /// The primary, which serves the shard.
    Leads,
    /// The primary of the configuration, which does not serve the shard: it has no lease, or is an heir on its way.
    TakesOver,
    /// A copy that the primary waits for.
    InSync,
    /// A copy that the primary fills.
    Filled,
    /// A copy that is to be filled, and waits for its turn.
    Waits,
}

impl CopyPart {
    /// All parts, in the order of their numbers on the wire.
    pub(crate) const ALL: [Self; 5] = [
        Self::Leads,
        Self::TakesOver,
        Self::InSync,
        Self::Filled,
        Self::Waits,
    ];

    /// The part in a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Leads => "leads",
            Self::TakesOver => "takes-over",
            Self::InSync => "in-sync",
            Self::Filled => "filled",
            Self::Waits => "waits",
        }
    }

    /// Whether the primary waits for the copy, or is the copy.
    pub fn is_in_sync(self) -> bool {
        matches!(self, Self::Leads | Self::TakesOver | Self::InSync)
    }
}

/// A copy of a shard, as the primary of the shard sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOfShard {
    /// Number of the shard.
    pub shard: u32,
    /// Name of the node that keeps the copy.
    pub node: String,
    /// The part of the copy.
    pub part: CopyPart,
    /// Whether the node promises that the copy survives a loss of power.
    pub survives_power: bool,
    /// Entries that the copy has not reported.
    pub behind_entries: u64,
    /// Bytes of these entries, as far as they are writes of the present term.
    pub behind_bytes: u64,
    /// Nanoseconds since the first of these writes was stamped.
    pub waits_ns: u64,
    /// Nanoseconds since the node last answered the primary.
    pub silent_ns: u64,
    /// Bytes of published records that a copy being filled has received.
    pub filled_bytes: u64,
    /// Bytes that such a copy lacks, as an estimate.
    pub left_bytes: u64,
}
