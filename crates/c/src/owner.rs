//! The thread and the process to which a connection belongs.
//!
//! The parts of a connection are counted without atomics, so another thread must not touch it. A process that was
//! forked has copies of mappings and sockets of its parent, and must neither use nor end them.

use std::cell::Cell;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;

/// The forks between the first process with this library and this one. Raised in the child, before it runs anything
/// else.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The owner of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    thread: u64,
    forks: u64,
}

/// Whether the caller may use a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Right {
    /// The caller is the owner.
    Own,
    /// The process of the caller was forked from that of the owner.
    BeforeFork,
    /// Another thread of this process is the owner.
    OtherThread,
}

impl Owner {
    /// The calling thread.
    pub fn this() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            // SAFETY: the function only adds to an atomic number, which a child may do at once after the fork of a
            // process with many threads, and the library stays loaded (`build.rs`).
            let failed = unsafe { libc::pthread_atfork(None, None, Some(note_fork)) };
            assert_eq!(failed, 0, "no memory for a hook");
        });
        Self {
            thread: number_of_thread(),
            forks: FORKS.load(Ordering::Relaxed),
        }
    }

    pub fn right(self) -> Right {
        if self.forks != FORKS.load(Ordering::Relaxed) {
            Right::BeforeFork
        } else if self.thread != number_of_thread() {
            Right::OtherThread
        } else {
            Right::Own
        }
    }

    /// Refuses every caller but the owner.
    #[inline]
    pub fn check(self) -> Result<(), Error> {
        match self.right() {
            Right::Own => Ok(()),
            Right::BeforeFork => Err(Error::misuse(
                "the handle belongs to the process before the fork; nothing was done. Connect in this process",
            )),
            Right::OtherThread => Err(other_thread()),
        }
    }
}

pub fn other_thread() -> Error {
    Error::misuse(
        "the handle belongs to the thread that made it; nothing was done. Connect in this thread",
    )
}

extern "C" fn note_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A number that no other thread of this process has or had.
#[inline]
fn number_of_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}
