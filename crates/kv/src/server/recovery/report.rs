//! The report of a recovery.

use stonecast_base::Corruption;

/// The findings and repairs of a recovery, for messages.
#[derive(Clone, Debug, Default)]
pub struct RecoveryReport {
    /// Keys present.
    pub keys: u64,
    /// Records found by scanning.
    pub records: u64,
    /// Highest sequence number found, even of records that were taken back.
    pub(crate) sequence_max: u64,
    /// Bytes scanned.
    pub bytes_scanned: u64,
    /// Whether a checkpoint gave the index.
    pub used_checkpoint: bool,
    /// Whether the pool was closed in order without a checkpoint, because its medium had no room for one.
    pub lacks_checkpoint: bool,
    /// Damage that was repaired: a checkpoint that was not believed.
    pub repairs: Vec<Corruption>,
    /// Segments with a missing copy of the header, which is written again.
    pub headers_repaired: u64,
    /// Segments whose tail a crash had torn: writes that were not acknowledged.
    pub torn_tails: u64,
    /// Records of batches that a crash had torn: writes that were not acknowledged, and none of which counts.
    pub torn_of_batches: u64,
    /// Records lost to a power cycle in a pool with process durability.
    pub lost: u64,
}
