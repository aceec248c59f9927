//! The latest commands that took long, of all threads, for `SLOWLOG`.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use stonecast_base::Nanoseconds;

/// The time from which on a command is noted, as in Redis by default, in microseconds.
const SLOWER_THAN_US: i64 = 10_000;
/// The number of commands that are kept, as in Redis by default.
const ENTRIES: usize = 128;
/// The most commands that can be kept: a command takes a few kilobytes.
pub const ENTRIES_MAX: usize = 1024;

/// A command that took long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    /// The moment at which the command ended, in seconds since 1970.
    pub at_s: u64,
    /// The time that the command took, in microseconds, together with the commands of its pipeline that ran with it.
    pub took_us: u64,
    /// The arguments of the command, shortened.
    pub arguments: Vec<Vec<u8>>,
    /// The client's address.
    pub peer: SocketAddr,
    /// The name of the client's connection.
    pub name: Vec<u8>,
}

/// The latest commands that took long.
#[derive(Debug)]
pub struct SlowLog {
    noted: Mutex<Noted>,
    slower_than_us: AtomicI64,
    entries: AtomicUsize,
}

/// New bounds of the list, those that `CONFIG SET` names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowBounds {
    /// Commands are noted from that time on, in microseconds; negative: none is noted.
    pub slower_than_us: Option<i64>,
    /// The number of commands that are kept, at most [`ENTRIES_MAX`].
    pub entries: Option<usize>,
}

#[derive(Debug, Default)]
struct Noted {
    /// Commands noted since the start.
    count: u64,
    /// The latest first.
    latest: VecDeque<(u64, Slow)>,
}

impl Default for SlowLog {
    fn default() -> Self {
        Self {
            noted: Mutex::default(),
            slower_than_us: AtomicI64::new(SLOWER_THAN_US),
            entries: AtomicUsize::new(ENTRIES),
        }
    }
}

impl SlowLog {
    /// The time from which on commands are noted, in microseconds; negative: none is noted.
    pub fn slower_than_us(&self) -> i64 {
        self.slower_than_us.load(Ordering::Relaxed)
    }

    /// The number of commands that are kept.
    pub fn entries(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// Changes the bounds that are named, for all later commands.
    pub fn set(&self, bounds: SlowBounds) {
        if let Some(slower_than_us) = bounds.slower_than_us {
            self.slower_than_us.store(slower_than_us, Ordering::Relaxed);
        }
        if let Some(entries) = bounds.entries {
            let mut noted = self.lock();
            self.entries.store(entries, Ordering::Relaxed);
            noted.latest.truncate(entries);
        }
    }

    /// Whether a command that took this long is noted.
    pub fn is_slow(&self, took: Nanoseconds) -> bool {
        let from_us = u64::try_from(self.slower_than_us());
        from_us.is_ok_and(|from_us| took / 1000 >= from_us)
    }

    /// Notes a command.
    pub fn note(&self, slow: Slow) {
        let mut noted = self.lock();
        let number = noted.count;
        noted.count += 1;
        noted.latest.push_front((number, slow));
        noted.latest.truncate(self.entries());
    }

    /// The latest commands with their numbers, at most `count`.
    pub fn latest(&self, count: usize) -> Vec<(u64, Slow)> {
        self.lock().latest.iter().take(count).cloned().collect()
    }

    /// The number of commands that are noted.
    pub fn len(&self) -> usize {
        self.lock().latest.len()
    }

    /// Forgets all commands.
    pub fn reset(&self) {
        self.lock().latest.clear();
    }

    /// No thread leaves the list half changed.
    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The most arguments of a command that are noted, and the most bytes of each, as in Redis.
const ARGUMENTS_MAX: usize = 32;
const ARGUMENT_SIZE_MAX: usize = 128;

/// Arguments as they are noted: few, and short.
pub fn shortened<'a>(arguments: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let left_out = match arguments.len() {
        count if count > ARGUMENTS_MAX => count - ARGUMENTS_MAX + 1,
        _ => 0,
    };
    let shown = arguments.len() - left_out;
    let mut short: Vec<Vec<u8>> = arguments.take(shown).map(short).collect();
    if left_out > 0 {
        short.push(format!("... ({left_out} more arguments)").into_bytes());
    }
    short
}

fn short(argument: &[u8]) -> Vec<u8> {
    match argument.len().checked_sub(ARGUMENT_SIZE_MAX) {
        None | Some(0) => argument.to_vec(),
        Some(more) => {
            let mut short = argument[..ARGUMENT_SIZE_MAX].to_vec();
            short.extend_from_slice(format!("... ({more} more bytes)").as_bytes());
            short
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(at_s: u64) -> Slow {
        Slow {
            at_s,
            took_us: 10_000,
            arguments: Vec::new(),
            peer: "127.0.0.1:1".parse().unwrap(),
            name: Vec::new(),
        }
    }

    #[test]
    fn the_latest_commands_come_first_and_the_oldest_are_forgotten() {
        let log = SlowLog::default();
        let count = ENTRIES as u64 + 3;
        (0..count).for_each(|n| log.note(slow(n)));
        assert_eq!(log.len(), ENTRIES);
        let latest = log.latest(2);
        assert_eq!(
            latest,
            [(count - 1, slow(count - 1)), (count - 2, slow(count - 2))]
        );
        log.reset();
        assert_eq!((log.len(), log.latest(9).len()), (0, 0));
        log.note(slow(7));
        assert_eq!(log.latest(9), [(count, slow(7))], "numbers go on");
    }

    #[test]
    fn new_bounds_hold_for_what_is_noted_and_for_later_commands() {
        let log = SlowLog::default();
        assert!(log.is_slow(10_000_000) && !log.is_slow(9_999_999));
        let is_slow_from = |us, took| {
            log.set(SlowBounds {
                slower_than_us: Some(us),
                entries: None,
            });
            log.is_slow(took)
        };
        assert!(is_slow_from(0, 0) && is_slow_from(1, 1000));
        assert!(!is_slow_from(1, 999) && !is_slow_from(-1, u64::MAX));
        (0..9).for_each(|n| log.note(slow(n)));
        for (entries, kept) in [(4, 4), (9, 4), (0, 0)] {
            log.set(SlowBounds {
                slower_than_us: None,
                entries: Some(entries),
            });
            assert_eq!(log.len(), kept);
        }
        log.note(slow(9));
        assert_eq!((log.len(), log.slower_than_us()), (0, -1));
    }

    #[test]
    fn long_commands_are_shortened_as_by_redis() {
        let many = vec![&b"a"[..]; 40];
        let short = shortened(many.into_iter());
        assert_eq!(short.len(), ARGUMENTS_MAX);
        assert_eq!(short.last().unwrap(), b"... (9 more arguments)");
        let long = [b'x'; 200];
        let short = shortened([&long[..], b"b"].into_iter());
        assert!(short[0].ends_with(b"x... (72 more bytes)") && short[1] == b"b");
        assert_eq!(shortened([&long[..128]].into_iter())[0].len(), 128);
    }
}
