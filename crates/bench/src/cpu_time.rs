//! CPU time, counted by the kernel to the nanosecond.

use std::io;

use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

/// CPU time that all threads of process `pid` have used, ended threads included, in nanoseconds.
pub fn process_cpu_ns(pid: u32) -> io::Result<u64> {
    let pid = i32::try_from(pid).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    clock_ns(clock_getcpuclockid(Pid::from_raw(pid))?)
}

/// CPU time of the calling thread, in nanoseconds.
pub fn thread_cpu_ns() -> io::Result<u64> {
    clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: ClockId) -> io::Result<u64> {
    let time = clock.now()?;
    Ok(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work that the compiler cannot remove.
    fn work() -> u64 {
        (0..20_000_000_u64).fold(0, |sum, i| std::hint::black_box(sum ^ i))
    }

    #[test]
    fn work_shows_in_the_time_of_its_thread_and_of_its_process_also_after_the_thread_ended() {
        let own = std::process::id();
        let (process, thread) = (process_cpu_ns(own).unwrap(), thread_cpu_ns().unwrap());
        let theirs = std::thread::spawn(|| {
            let start = thread_cpu_ns().unwrap();
            work();
            thread_cpu_ns().unwrap() - start
        });
        let theirs = theirs.join().unwrap();
        assert!(theirs > 0);
        assert!(process_cpu_ns(own).unwrap() - process >= theirs);
        // A join costs this thread far less time than the other thread has spent.
        assert!(thread_cpu_ns().unwrap() - thread < theirs);
    }

    #[test]
    fn a_process_that_does_not_exist_has_no_time() {
        assert!(process_cpu_ns(u32::MAX).is_err());
        // Process numbers of Linux have 22 bits.
        assert!(process_cpu_ns(1 << 23).is_err());
    }
}
