//! Every limit of the store, with its unit and its reason.

use stonecast_base::Nanoseconds;
pub use stonecast_log::KEY_SIZE_MAX;
use stonecast_log::VALUE_SIZE_MAX as RECORD_VALUE_SIZE_MAX;

use crate::error::StoreError;

/// Version of the messages between client and server. A peer of another version is refused.
pub const PROTOCOL_VERSION: u32 = 17;

/// Bytes of the longest value. A value that is too long for a record is stored in chunks.
pub const VALUE_SIZE_MAX: usize = 16 << 20;
/// Bytes of the longest value that is never stored in chunks, in a pool whose segments have room for it.
pub const WHOLE_VALUE_SIZE_MAX: usize = RECORD_VALUE_SIZE_MAX;
/// Bytes of the shortest chunk before the last one: a quarter of the room of the smallest segment, less the rest of a
/// record.
pub(crate) const CHUNK_SIZE_MIN: usize = 60 << 10;
/// The time that a client has from the first chunk of a value to the record that names the chunks. After that time,
/// chunks that no record names are dropped.
pub(crate) const UPLOAD_MS: u64 = 10 * 60 * 1000;
/// Operations of one client that wait for an answer. The client posts a receive buffer for the answer of each, so that
/// the server always finds one.
pub const IN_FLIGHT_MAX: usize = 256;

/// Bytes of a receive buffer at the server: the longest message, a delete of the longest key.
pub(crate) const REQUEST_SIZE_MAX: usize = 2048;
/// Bytes of a receive buffer at the client: a message with as many answers as fit.
pub(crate) const ANSWER_SIZE_MAX: usize = 1024;
/// Receive buffers of the server, shared by all clients. At any time, a small part of them is free and not posted.
pub(crate) const SERVER_RECEIVES: u32 = 2048;
/// Clients at a time by default: two programs with a connection for each of 128 threads. Every round of the server's
/// poll loop looks at a ring for each client, which takes about 3 us for all of them.
pub const CLIENTS: usize = 256;
/// Clients at a time, at most. With so many clients, a round of the poll loop takes as long as a hundred operations,
/// each client has had a lease before any client gives up (`LEASE_TURN_NS`), and a device has twice the keys that they
/// need, with all shards.
pub const CLIENTS_MAX: usize = 1024;
/// Operations that share one persist: enough that the fence or sync does not show in the cost of one operation.
pub(crate) const BATCH_MAX: usize = 512;
/// Bytes of records checked in one batch before it is committed: bounds the memory of a batch of large values.
pub(crate) const BATCH_BYTES_MAX: usize = 8 << 20;
/// Keys that a batch of a client changes, at most: the server stamps all of their records before it serves another
/// request, in a few milliseconds.
pub const BATCH_KEYS_MAX: usize = 4096;
/// Keys that a batch of a client names, at most, whether it changes them or only expects something of them: a look at a
/// key takes a small part of the time of a record, and a client that confirms its reads names each key of them.
pub const BATCH_NAMES_MAX: usize = 16_384;
/// Bytes of a batch of a client, at most: keys, values, and 24 bytes for each key. The message that brings a batch is a
/// record, and this is its longest value. In a pool of small segments the bound is lower, because all records of a
/// batch lie in one segment.
pub const BATCH_SIZE_MAX: usize = WHOLE_VALUE_SIZE_MAX;
/// Bytes of the memory from which a client's records are sent, and of the staging memory of a client that may not write
/// the log: four of the longest records, or thousands of short ones.
pub(crate) const STAGING_SIZE: u64 = 4 << 20;
/// Leases that one client may hold: one in use, one leased ahead, some being returned, and as many for records that the
/// client publishes.
pub(crate) const LEASES_PER_CLIENT: usize = 8;
/// The time for which a client keeps an extent that it does not write to. After that time, the client asks for another
/// extent when it needs one.
pub(crate) const LEASE_UNUSED_NS: Nanoseconds = 500_000_000;
/// The time for which a lease may be unused before the server, short of space, takes the lease back. The time is longer
/// than a client that keeps the rule above writes to the lease, by the client's own clock and including its writes in
/// flight.
pub(crate) const LEASE_RECLAIM_NS: Nanoseconds = 2 * LEASE_UNUSED_NS;
/// The shortest time for which a client keeps a lease that it writes to while other clients find no segment: much
/// longer than a request for the next lease takes, and short enough that each of the largest number of clients has had
/// a lease before any client gives up.
pub(crate) const LEASE_TURN_NS: Nanoseconds = 10_000_000;
/// Segments that only deletes may use, so that a full pool accepts deletes.
pub(crate) fn reserved_segments(segment_count: u32) -> u32 {
    (segment_count / 64).max(1)
}
/// Segments that a node of a cluster keeps for records that other nodes have stamped. Two primaries may have a segment
/// of them on their way (`unsettled_max`), and a node learns from a notice that a copy lacks room. A pool of fewer than
/// 16 segments has none to spare.
pub(crate) fn segments_for_copies(segment_count: u32) -> u32 {
    match segment_count {
        0..16 => 0,
        count => count.div_ceil(32),
    }
}
/// Segments that only the cleaner may use. One is enough without a crash, since the needed records of a segment fit
/// into one segment; a crash in the middle wastes the copies made so far.
pub(crate) fn cleaning_segments(segment_count: u32) -> u32 {
    if segment_count < 64 { 1 } else { 2 }
}
/// The share of the pool that tombstones may take before segments are cleaned for their sake: one
/// byte in this many.
pub(crate) const TOMBSTONES_SHARE: u64 = 16;
/// Segments of the reserve for deletes whose space on the medium is allocated at all times, so that deletes continue
/// when the file system is full. Each holds tens of thousands of tombstones.
pub(crate) const RESERVE_PREPARED_MAX: usize = 3;
/// The total time of the pauses of a write that asks for room: 20 seconds, more than the preparation of a segment takes
/// on the slowest disk. The write asks again after each pause of 200 microseconds. A write without room by then ends
/// with [`StoreError::Busy`].
pub const ROOM_WAIT_NS: u64 = 20_000_000_000;
/// Writes with tokens whose outcome the server remembers: about 4 MiB. A client that retries within so many writes of
/// all clients learns the outcome of the first attempt. Each of several shards remembers its part, and 1024 at least.
pub const OUTCOMES_MAX: usize = 32_768;
/// Records that a server keeps for a backup that has not read them: 8 MiB of words. A backup that reads so much
/// slower than others write is lost.
pub(crate) const KEPT_MAX: usize = 1 << 20;
/// The time for which the cleaner leaves a segment alone because a backup has to read records there: a backup that
/// runs reads them within milliseconds.
pub(crate) const KEPT_WAIT_NS: Nanoseconds = 1_000_000_000;
/// The server's time advances as fast as a client's clock, within one part in 2^9 of the time that passes: the server's
/// time follows the wall clock by one part in 2^11, and each of the two clocks may deviate by 700 millionths.
pub(crate) const TIME_DRIFT_SHIFT: u32 = 9;
/// Keys whose places a client remembers by default: 1 MiB, which the caches nearest to a processor hold.
pub const LOCATIONS: usize = 65_536;
/// Attempts of a reader that sees a record change during the read, before the reader reports damage. An attempt fails
/// only because of a concurrent writer of the same key.
pub(crate) const READ_RETRIES_MAX: u32 = 1000;

/// Whether `key` has a length that keys may have.
#[inline]
pub(crate) fn check_key(key: &[u8]) -> Result<(), StoreError> {
    if (1..=KEY_SIZE_MAX).contains(&key.len()) {
        Ok(())
    } else {
        Err(StoreError::KeySize {
            size: key.len(),
            max: KEY_SIZE_MAX,
        })
    }
}
