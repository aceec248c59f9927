//! Wakes all tasks that wait for the same thing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Wakes all tasks that wait for one thing.
#[derive(Default)]
pub(crate) struct Bell {
    rung: Cell<u64>,
    next: Cell<u64>,
    waiting: RefCell<BTreeMap<u64, Waker>>,
}

impl Bell {
    /// Wakes all waiting tasks.
    pub fn ring(&self) {
        self.rung.set(self.rung.get() + 1);
        let waiting = self.waiting.take();
        waiting.into_values().for_each(Waker::wake);
    }

    /// Waits for the next ring after this call.
    pub fn heard(&self) -> Heard<'_> {
        self.next.set(self.next.get() + 1);
        Heard {
            bell: self,
            number: self.next.get(),
            rung: self.rung.get(),
        }
    }
}

/// A wait for a ring, without a trace when dropped.
pub(crate) struct Heard<'a> {
    bell: &'a Bell,
    number: u64,
    rung: u64,
}

impl Future for Heard<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.bell.rung.get() > self.rung {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        let _dropped_unborrowed = self.bell.waiting.borrow_mut().insert(self.number, waker);
        Poll::Pending
    }
}

impl Drop for Heard<'_> {
    fn drop(&mut self) {
        let _dropped_unborrowed = self.bell.waiting.borrow_mut().remove(&self.number);
    }
}
