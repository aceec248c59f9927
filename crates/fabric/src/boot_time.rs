//! The clock of real providers.

use rustix::time::{ClockId, clock_gettime};
use stonecast_base::Nanoseconds;

/// Nanoseconds since the host was started, including the time in which the host was suspended.
///
/// Leases count on this clock. `CLOCK_MONOTONIC` stands still while a host is suspended. By that clock, a holder that
/// wakes up would find its lease alive, long after others have taken over.
#[inline]
pub fn boot_time() -> Nanoseconds {
    let time = clock_gettime(ClockId::Boottime);
    (time.tv_sec as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(time.tv_nsec as u64)
}
