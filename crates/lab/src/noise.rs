//! The load of the machine by other programs. Figures of a busy machine say more about that load than about the store.

use std::io;
use std::time::Duration;
use std::{fs, thread};

/// CPU time, in cores, that was used while this thread slept for `duration`.
pub fn busy_cores(duration: Duration) -> io::Result<f64> {
    let (idle_before, all_before) = parse(&fs::read_to_string("/proc/stat")?)?;
    thread::sleep(duration);
    let (idle_after, all_after) = parse(&fs::read_to_string("/proc/stat")?)?;
    let cores = thread::available_parallelism().map_or(1, usize::from) as f64;
    let all = all_after.saturating_sub(all_before).max(1) as f64;
    Ok(cores * (1.0 - idle_after.saturating_sub(idle_before) as f64 / all).max(0.0))
}

/// Idle ticks and all ticks of all cores, from the first line: user nice system idle iowait irq softirq steal.
fn parse(stat: &str) -> io::Result<(u64, u64)> {
    let malformed = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the first line of /proc/stat is not about the CPU",
        )
    };
    let line = stat
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("cpu "))
        .ok_or_else(malformed)?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .take(8)
        .map_while(|word| word.parse().ok())
        .collect();
    let [_, _, _, idle, waiting, ..] = ticks[..] else {
        return Err(malformed());
    };
    Ok((idle + waiting, ticks.iter().sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_waiting_are_idle_too_and_ticks_of_guests_count_once() {
        assert_eq!(
            parse("cpu  10 1 5 100 20 2 3 4 50 60\ncpu0 1 2 3 4\n").unwrap(),
            (120, 145)
        );
        for text in ["", "intr 5", "cpu  1 2 3"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_machine_is_busy_with_at_most_all_of_its_cores() {
        let busy = busy_cores(Duration::from_millis(30)).unwrap();
        let cores = thread::available_parallelism().unwrap().get() as f64;
        assert!((0.0..=cores).contains(&busy), "{busy}");
    }
}
