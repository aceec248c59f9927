//! The monotonic clock.

use rustix::time::{ClockId, clock_gettime};
use stonecast_base::Nanoseconds;

/// Nanoseconds since some moment before this machine's processes began.
#[inline]
pub(crate) fn now() -> Nanoseconds {
    let time = clock_gettime(ClockId::Monotonic);
    (time.tv_sec as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(time.tv_nsec as u64)
}
