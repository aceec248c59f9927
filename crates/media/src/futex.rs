//! A 4-byte word that processes can sleep on.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{Flags, wait, wake};
use rustix::time::Timespec;

use crate::mapped_region::Writable;

/// Why [`FutexWord::wait`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FutexWait {
    /// Somebody woke the sleeper, or it woke for no reason: look at the word again.
    Woken,
    /// The word was not what was expected, so nobody slept.
    Changed,
    /// The time was over.
    TimedOut,
}

/// An aligned 4-byte word of a region that processes can sleep on. All operations are sequentially consistent, so that
/// a sleeper which announces itself and then looks, and a waker which changes and then looks, cannot miss each other.
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

    /// Sets the value. Wakes nobody.
    pub fn store(self, value: u32) {
        self.assert_writable();
        self.word.store(value, Ordering::SeqCst);
    }

    /// Adds, wrapping, and returns the value found. Wakes nobody.
    pub fn fetch_add(self, add: u32) -> u32 {
        self.assert_writable();
        self.word.fetch_add(add, Ordering::SeqCst)
    }

    /// Sets the value and returns the one found. Wakes nobody.
    pub fn swap(self, value: u32) -> u32 {
        self.assert_writable();
        self.word.swap(value, Ordering::SeqCst)
    }

    /// Sleeps while the word is `expected`, at most for `timeout`.
    pub fn wait(self, expected: u32, timeout: Option<Duration>) -> io::Result<FutexWait> {
        // A time that the kernel's type cannot hold is longer than any machine runs.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match wait(self.word, Flags::empty(), expected, timeout.as_ref()) {
            Ok(()) | Err(Errno::INTR) => Ok(FutexWait::Woken),
            Err(Errno::AGAIN) => Ok(FutexWait::Changed),
            Err(Errno::TIMEDOUT) => Ok(FutexWait::TimedOut),
            Err(error) => Err(error.into()),
        }
    }

    /// Wakes at most `count` sleepers, of any process; says how many.
    pub fn wake(self, count: u32) -> io::Result<usize> {
        // The kernel takes the count as a signed number.
        Ok(wake(self.word, Flags::empty(), count.min(i32::MAX as u32))?)
    }

    /// Wakes all sleepers, of any process; says how many.
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
