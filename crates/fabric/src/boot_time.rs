//! The clocks of real providers.

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

/// Nanoseconds since the begin of 1970 in UTC, by the clock of the host. Programs and operators set that clock, ahead
/// and back.
pub(crate) fn wall_time() -> Nanoseconds {
    let time = clock_gettime(ClockId::Realtime);
    u64::try_from(time.tv_sec)
        .unwrap_or(0)
        .saturating_mul(1_000_000_000)
        .saturating_add(time.tv_nsec as u64)
}
