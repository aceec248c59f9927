//! Wakes one task of a thread when there is work for the task.

use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};

/// Wakes one task. A ring before a wait ends that wait at once.
#[derive(Default)]
pub struct Bell {
    is_rung: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

impl Bell {
    /// Wakes the task.
    pub fn ring(&self) {
        self.is_rung.set(true);
        let waiting = self.waiting.take();
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    /// Takes a ring, or has the next one wake the task of `context`.
    pub fn poll_rung(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.is_rung.take() {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        let _dropped_unborrowed = self.waiting.replace(Some(waker));
        Poll::Pending
    }
}
