//! The counter of time stamps of the processor (TSC).

use std::arch::x86_64::_rdtsc;

/// Reads the counter, unordered: loads before this call may end after the reading (Intel SDM, volume 2, *RDTSC*).
///
/// The unit is a tick, whose length the processor does not report. A kernel that calls its clock source `tsc` vouches
/// that the counters of all processors agree and go on in every power state.
///
/// ```
/// let earlier = stonecast_media::time_stamp();
/// std::thread::sleep(std::time::Duration::from_millis(1));
/// assert!(stonecast_media::time_stamp() > earlier);
/// ```
#[inline]
pub fn time_stamp() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and this crate is compiled for no other. A process whose
    // kernel denies the instruction gets SIGSEGV, which is defined.
    unsafe { _rdtsc() }
}
