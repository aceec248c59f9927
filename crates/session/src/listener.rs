//! Wakes a task that polls several inboxes.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use stonecast_fabric::Inbox;

/// A wait for arrivals in one inbox that continues from poll to poll, for a task that waits for more than one thing.
pub struct Listener {
    inbox: Rc<Inbox>,
    activity: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl Listener {
    /// Listens to `inbox`.
    pub fn new(inbox: &Rc<Inbox>) -> Self {
        Self {
            inbox: inbox.clone(),
            activity: None,
        }
    }

    /// Whether an arrival or a connection event can be taken; if none can, the next one wakes `context`.
    pub fn poll_activity(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.inbox.has_activity() {
            return Poll::Ready(());
        }
        let activity = self.activity.get_or_insert_with(|| {
            let inbox = self.inbox.clone();
            Box::pin(async move { inbox.activity().await })
        });
        let polled = activity.as_mut().poll(context);
        if polled.is_ready() {
            self.activity = None;
        }
        polled
    }
}
