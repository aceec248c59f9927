//! The latest trouble of one kind, for the messages of the program that runs the server.

use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::Runtime;

/// Least time between two messages of one kind.
const AGAIN_NS: Nanoseconds = 60_000_000_000;

/// The latest trouble of one kind.
pub(super) struct Noted<T> {
    runtime: Rc<dyn Runtime>,
    latest: Option<T>,
    noted_at: Option<Nanoseconds>,
}

impl<T> Noted<T> {
    pub fn new(runtime: Rc<dyn Runtime>) -> Self {
        Self {
            runtime,
            latest: None,
            noted_at: None,
        }
    }

    /// Notes a trouble, unless another one was noted a short while ago.
    pub fn note(&mut self, trouble: T) {
        let now = self.runtime.now();
        let passed = self.noted_at.map(|then| now.saturating_sub(then));
        if passed.is_none_or(|passed| passed >= AGAIN_NS) {
            self.noted_at = Some(now);
            self.latest = Some(trouble);
        }
    }

    /// Takes the noted trouble, once.
    pub fn take(&mut self) -> Option<T> {
        self.latest.take()
    }
}
