//! The handle with which a connection is cut off.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Cuts a connection off. The task of the connection waits for the cut beside its work.
#[derive(Default)]
pub struct Cut {
    is_cut: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Cut {
    /// Ends the connection.
    pub fn cut(&self) {
        self.is_cut.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Waits until the connection is cut off.
    pub async fn wait(&self) {
        poll_fn(|context| {
            if self.is_cut.get() {
                return Poll::Ready(());
            }
            *self.waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
