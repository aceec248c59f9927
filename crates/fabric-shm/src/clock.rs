//! The time for which this host has run: how long a peer on the same host had for something. A suspension of the host is none of
//! it, since the peer stood still as well. Deadlines of the protocol count on [`boot_time`](stonecast_fabric::boot_time).

use rustix::time::{ClockId, clock_gettime};
use stonecast_base::Nanoseconds;

/// Nanoseconds since some moment before the processes of this host began, without the time in which the host was suspended.
#[inline]
pub(crate) fn now() -> Nanoseconds {
    let time = clock_gettime(ClockId::Monotonic);
    (time.tv_sec as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(time.tv_nsec as u64)
}
