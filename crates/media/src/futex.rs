//! A 4-byte word on which processes can sleep.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{Flags, wait, wake};
use rustix::time::Timespec;

use crate::mapped_region::Writable;

/// The reason why [`FutexWord::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FutexWait {
    /// A waker woke the sleeper, or it woke spuriously. The caller must check the word again.
    Woken,
    /// The word had another value than expected, so the caller did not sleep.
    Changed,
    /// The timeout was over.
    TimedOut,
}

/// An aligned 4-byte word of a region, on which processes can sleep. All operations are sequentially consistent, so a
/// sleeper that announces itself and then checks, and a waker that changes the word and then checks, cannot miss each
/// other.
#[derive(Clone, Copy, Debug)]
pub struct FutexWord<'a> {
    word: &'a AtomicU32,
    writable: Writable,
}

impl<'a> FutexWord<'a> {
    pub(crate) fn new(word: &'a AtomicU32, writable: Writable) -> Self {
        Self { word, writable }
    }

    /// The value.
    pub fn load(self) -> u32 {
        self.word.load(Ordering::SeqCst)
    }

    /// Sets the value. Wakes no sleeper.
    pub fn store(self, value: u32) {
        self.assert_writable();
        self.word.store(value, Ordering::SeqCst);
    }

    /// Adds, wrapping, and returns the old value. Wakes no sleeper.
    pub fn fetch_add(self, add: u32) -> u32 {
        self.assert_writable();
        self.word.fetch_add(add, Ordering::SeqCst)
    }

    /// Sets the value and returns the old value. Wakes no sleeper.
    pub fn swap(self, value: u32) -> u32 {
        self.assert_writable();
        self.word.swap(value, Ordering::SeqCst)
    }

    /// Sleeps while the word is `expected`, at most for `timeout`.
    pub fn wait(self, expected: u32, timeout: Option<Duration>) -> io::Result<FutexWait> {
        // A timeout that the kernel's type cannot hold is longer than any machine runs.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match wait(self.word, Flags::empty(), expected, timeout.as_ref()) {
            Ok(()) | Err(Errno::INTR) => Ok(FutexWait::Woken),
            Err(Errno::AGAIN) => Ok(FutexWait::Changed),
            Err(Errno::TIMEDOUT) => Ok(FutexWait::TimedOut),
            Err(error) => Err(error.into()),
        }
    }

    /// Wakes at most `count` sleepers, of any process, and returns how many it woke.
    pub fn wake(self, count: u32) -> io::Result<usize> {
        // The kernel takes the count as a signed number.
        Ok(wake(self.word, Flags::empty(), count.min(i32::MAX as u32))?)
    }

    /// Wakes all sleepers, of any process, and returns how many it woke.
    pub fn wake_all(self) -> io::Result<usize> {
        self.wake(u32::MAX)
    }

    fn assert_writable(self) {
        assert_eq!(
            self.writable,
            Writable::Yes,
            "a store to memory that is mapped read-only"
        );
    }
}
