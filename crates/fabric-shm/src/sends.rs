//! The sends of a queue pair that are outstanding, in posting order.
//!
//! ```text
//!   requests  | Done | InRing | Done | waiting | waiting |
//!               ^ front: completes first  ^ next to be executed
//!   executed  | Done | InRing | Done |
//! ```

use std::collections::VecDeque;

use stonecast_fabric::{Operation, Status, WorkRequest};

#[derive(Debug, Default)]
pub(crate) struct Sends {
    requests: VecDeque<WorkRequest>,
    /// The progress of each executed request.
    executed: VecDeque<Progress>,
    /// Whether a request has failed: requests after it are never executed.
    is_halted: bool,
}

/// The progress of a posted send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Waiting,
    /// Done when the peer has taken the ring up to this position.
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

    /// The number of requests that were executed and are not complete.
    pub(crate) fn executed(&self) -> usize {
        self.executed.len()
    }

    pub(crate) fn push(&mut self, requests: &[WorkRequest]) {
        self.requests.extend(requests);
    }

    /// The requests that are not executed yet, unless an earlier one failed.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &WorkRequest> + Clone {
        let end = if self.is_halted {
            self.executed.len()
        } else {
            self.requests.len()
        };
        self.requests.range(self.executed.len()..end)
    }

    /// The next request to execute.
    #[inline]
    pub(crate) fn next(&self) -> Option<Operation> {
        self.waiting().next().map(|request| request.operation)
    }

    /// Marks the next `count` waiting requests as executed, with `progress`.
    pub(crate) fn execute(&mut self, count: usize, progress: Progress) {
        assert!(self.executed.len() + count <= self.requests.len());
        self.executed.extend(std::iter::repeat_n(progress, count));
        self.is_halted = matches!(progress, Progress::Failed(_));
    }

    /// The oldest executed request, and its progress.
    pub(crate) fn front(&self) -> Option<(&WorkRequest, Progress)> {
        Some((self.requests.front()?, *self.executed.front()?))
    }

    /// Forgets the oldest executed request.
    pub(crate) fn pop_front(&mut self) {
        self.executed.pop_front().expect("it was executed");
        self.requests.pop_front();
    }

    /// Takes all requests, oldest first.
    pub(crate) fn take(&mut self) -> VecDeque<WorkRequest> {
        self.executed.clear();
        std::mem::take(&mut self.requests)
    }
}
