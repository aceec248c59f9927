//! The sends of a queue pair that are outstanding, in posting order.
//!
//! ```text
//!   requests  | Done | InRing | Done | waiting | waiting |
//!               ^ front: completes first  ^ next to be executed
//!   executed  | Done | InRing | Done |
//! ```

use std::collections::VecDeque;

use stonecast_fabric::{Operation, Status, WorkRequest};

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Sends {
    requests: VecDeque<WorkRequest>,
    /// How far each request is that was executed.
    executed: VecDeque<Progress>,
    /// Whether a request has failed: what was posted behind it is never executed.
    is_halted: bool,
}

/// How far a posted send is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Waiting,
    /// Done when the peer has taken the ring up to here.
    InRing(u64),
    Done,
    Failed(Status),
}

impl Sends {
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// How many were executed and are not complete.
    pub(crate) fn executed(&self) -> usize {
        self.executed.len()
    }

    pub(crate) fn push(&mut self, requests: &[WorkRequest]) {
        self.requests.extend(requests);
    }

    /// The requests that are not executed yet, unless one failed before them.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &WorkRequest> + Clone {
        let end = if self.is_halted {
            self.executed.len()
        } else {
            self.requests.len()
        };
        self.requests.range(self.executed.len()..end)
    }

    /// The request that is to be executed next.
    #[inline]
    pub(crate) fn next(&self) -> Option<Operation> {
        self.waiting().next().map(|request| request.operation)
    }

    /// The next `count` waiting requests were executed, as far as `progress` says.
    pub(crate) fn execute(&mut self, count: usize, progress: Progress) {
        assert!(self.executed.len() + count <= self.requests.len());
        self.executed.extend(std::iter::repeat_n(progress, count));
        self.is_halted = matches!(progress, Progress::Failed(_));
    }

    /// The oldest request that was executed, and how far it is.
    pub(crate) fn front(&self) -> Option<(&WorkRequest, Progress)> {
        Some((self.requests.front()?, *self.executed.front()?))
    }

    /// Forgets the oldest request that was executed.
    pub(crate) fn pop_front(&mut self) {
        self.executed.pop_front().expect("it was executed");
        self.requests.pop_front();
    }

    /// Takes all of them, oldest first.
    pub(crate) fn take(&mut self) -> VecDeque<WorkRequest> {
        self.executed.clear();
        std::mem::take(&mut self.requests)
    }
}
