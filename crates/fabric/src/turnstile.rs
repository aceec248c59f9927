//! Lets one task of a thread through at a time.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// A section of code for one task of a thread at a time. Tasks enter in no particular order.
#[derive(Default)]
pub struct Turnstile {
    is_taken: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

/// The task that is within. Dropping it lets the next task in.
#[must_use = "the task has left once this is dropped"]
pub struct Within<'a>(&'a Turnstile);

impl Turnstile {
    /// Waits until no other task is within.
    pub async fn enter(&self) -> Within<'_> {
        poll_fn(|context| match self.is_taken.replace(true) {
            false => Poll::Ready(Within(self)),
            true => {
                let mut waiting = self.waiting.borrow_mut();
                if !waiting.iter().any(|known| known.will_wake(context.waker())) {
                    waiting.push(context.waker().clone());
                }
                Poll::Pending
            }
        })
        .await
    }
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        self.0.is_taken.set(false);
        // All of them: the first one may have been dropped.
        let waiting = self.0.waiting.take();
        waiting.into_iter().for_each(Waker::wake);
    }
}
