//! The bytes that requests, batches and replies reserve in `memory`.

use stonecast_kv::limits;

use crate::incoming::INCOMING_SIZE_MAX;
use crate::join::WINDOW;
use crate::resp::RequestLimits;

/// The bytes of values that are read together: short records, and one of the longest.
pub const VALUES_SIZE_MAX: usize = limits::WHOLE_VALUE_SIZE_MAX + (256 << 10);
/// The bytes of values that are read together, if the first value is in chunks.
pub const VALUE_IN_CHUNKS_ROOM: usize = limits::VALUE_SIZE_MAX + (256 << 10);
/// The cost of reading or writing a key, as if this many bytes were moved.
pub const KEY_WORK: usize = 256;
/// The bytes of replies that are written without a reservation: numbers, errors, short answers.
pub const SMALL_REPLIES: usize = 16 << 10;
/// The memory of a request, in steps. A request takes the next step once at least half of the current step is full.
pub const INPUT_SIZES: [usize; 3] = [16 << 10, 64 << 10, 256 << 10];
/// Above those sizes, the memory of a request doubles, but grows by at most this much.
pub const INPUT_STEP_MAX: usize = 4 << 20;
/// The bytes for each argument beside the request: its place, for the parser and for its command, and the index with
/// which MSET finds repeated keys.
const ARGUMENT_SIZE: usize = 48;
/// The bytes of the shortest argument, as sent.
const SENT_ARGUMENT_SIZE: usize = 6;

/// The most commands, and the most arguments, that run together without a reservation.
pub const SHORT_BATCH: usize = 4;
pub const SHORT_BATCH_ARGUMENTS: usize = 64;
/// Bytes of a command while its batch is under way: the command itself and its reply.
pub const COMMAND_SIZE: usize = 256;
/// Bytes of a write that waits for its turn.
pub const WRITE_SIZE: usize = 1792;

/// Bytes that a batch takes beside its request.
pub fn batch_size(commands: usize, arguments: usize) -> usize {
    let is_short = commands <= SHORT_BATCH && arguments <= SHORT_BATCH_ARGUMENTS;
    match is_short {
        true => 0,
        false => {
            commands * COMMAND_SIZE + arguments * ARGUMENT_SIZE + arguments.min(WINDOW) * WRITE_SIZE
        }
    }
}

/// Bytes that a request takes with memory for `capacity` bytes of it and places for its arguments.
pub fn request_size(capacity: usize, arguments: usize) -> usize {
    capacity + arguments.min(capacity / SENT_ARGUMENT_SIZE) * ARGUMENT_SIZE
}

/// The most bytes that the largest request within `limits` takes.
pub fn request_size_max(limits: &RequestLimits) -> usize {
    let capacity = limits.size as usize + INPUT_STEP_MAX;
    let under_way = COMMAND_SIZE + WINDOW * WRITE_SIZE;
    request_size(capacity, limits.arguments as usize) + under_way + INCOMING_SIZE_MAX
}
