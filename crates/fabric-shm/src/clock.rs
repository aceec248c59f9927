//! The running time of this host, which bounds the time that a peer on the same host had. A suspension of the host does
//! not count, because the peer stands still as well. Deadlines of the protocol count on
//! [`boot_time`](stonecast_fabric::boot_time).

use rustix::time::{ClockId, clock_gettime};
use stonecast_base::Nanoseconds;

/// Nanoseconds since some moment before the processes of this host began, without the time in which the host was
/// suspended.
#[inline]
pub(crate) fn now() -> Nanoseconds {
    let time = clock_gettime(ClockId::Monotonic);
    (time.tv_sec as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(time.tv_nsec as u64)
}
