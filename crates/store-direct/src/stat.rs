//! Counters of a server, as it counts them and as a client sees them.

use crate::protocol::COUNTERS;

/// What a server has done since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub puts: u64,
    pub deletes: u64,
    pub refused: u64,
    pub batches: u64,
    pub persists: u64,
}

/// A server's report of itself. Sizes are bytes; counts of operations are since the server was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Keys present.
    pub keys: u64,
    /// Keys that the index takes.
    pub keys_max: u64,
    /// Bytes of the records of present keys.
    pub live_bytes: u64,
    /// Bytes of the log that are in use.
    pub used_bytes: u64,
    /// Bytes of the whole log.
    pub capacity_bytes: u64,
    /// Segments never used.
    pub segments_free: u64,
    /// Segments with room that nobody appends to.
    pub segments_partial: u64,
    /// Segments somebody appends to.
    pub segments_taken: u64,
    /// Segments without room.
    pub segments_full: u64,
    /// Connected clients, this one included.
    pub clients: u64,
    /// Openings of the pool.
    pub epoch: u64,
    /// Commit sequence number of the latest write.
    pub sequence: u64,
    /// Puts done.
    pub puts: u64,
    /// Deletes done.
    pub deletes: u64,
    /// Writes refused: conflict, absent, no space, invalid.
    pub refused: u64,
    /// Batches served.
    pub batches: u64,
    /// Persists: fences or syncs.
    pub persists: u64,
    /// Bytes of a segment.
    pub segment_size: u64,
    /// Whether power loss is survived.
    pub power: bool,
    /// Process number of the server, where it has one.
    pub process: u64,
}

impl Stat {
    pub(crate) fn from_words(words: &[u64; COUNTERS]) -> Self {
        let [
            keys,
            keys_max,
            live_bytes,
            used_bytes,
            capacity_bytes,
            segments_free,
            segments_partial,
            segments_taken,
            segments_full,
            clients,
            epoch,
            sequence,
            puts,
            deletes,
            refused,
            batches,
            persists,
            segment_size,
            power,
            process,
            ..,
        ] = *words;
        Self {
            keys,
            keys_max,
            live_bytes,
            used_bytes,
            capacity_bytes,
            segments_free,
            segments_partial,
            segments_taken,
            segments_full,
            clients,
            epoch,
            sequence,
            puts,
            deletes,
            refused,
            batches,
            persists,
            segment_size,
            power: power != 0,
            process,
        }
    }
}

impl Stat {
    pub(crate) fn words(&self) -> [u64; COUNTERS] {
        let stat = self;
        let mut words = [0; COUNTERS];
        let values = [
            stat.keys,
            stat.keys_max,
            stat.live_bytes,
            stat.used_bytes,
            stat.capacity_bytes,
            stat.segments_free,
            stat.segments_partial,
            stat.segments_taken,
            stat.segments_full,
            stat.clients,
            stat.epoch,
            stat.sequence,
            stat.puts,
            stat.deletes,
            stat.refused,
            stat.batches,
            stat.persists,
            stat.segment_size,
            stat.power.into(),
            stat.process,
        ];
        words[..values.len()].copy_from_slice(&values);
        words
    }
}
