//! Completion queues: bounded, in private memory, filled by the device while it is polled or posted to.

use std::collections::VecDeque;

use stonecast_fabric::WorkCompletion;

use crate::table::Table;

/// A completion queue.
#[derive(Debug)]
pub(crate) struct CompletionQueueState {
    entries: VecDeque<WorkCompletion>,
    capacity: usize,
    overrun: bool,
}

/// All completion queues of a device.
#[derive(Debug, Default)]
pub(crate) struct CompletionQueues {
    pub(crate) table: Table<CompletionQueueState>,
    /// Queues that have overrun while their queue pairs do not know it yet.
    pub(crate) overrun: Vec<u32>,
}

impl CompletionQueueState {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            entries: VecDeque::new(),
            capacity: capacity as usize,
            overrun: false,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Moves up to `limit` completions to `into`.
    pub(crate) fn take(&mut self, limit: usize, into: &mut Vec<WorkCompletion>) -> usize {
        let count = self.entries.len().min(limit);
        let (front, back) = self.entries.as_slices();
        let of_front = count.min(front.len());
        into.extend_from_slice(&front[..of_front]);
        into.extend_from_slice(&back[..count - of_front]);
        self.entries.drain(..count);
        count
    }

    /// Removes the completions of a destroyed queue pair.
    pub(crate) fn forget(&mut self, of: impl Fn(&WorkCompletion) -> bool) {
        self.entries.retain(|completion| !of(completion));
    }
}

impl CompletionQueues {
    /// Adds a completion, or loses it if the queue is full.
    #[inline]
    pub(crate) fn push(&mut self, queue: u32, completion: WorkCompletion) {
        let state = self
            .table
            .get_mut(queue)
            .expect("a completion queue outlives its queue pairs");
        if state.entries.len() < state.capacity {
            state.entries.push_back(completion);
        } else if !std::mem::replace(&mut state.overrun, true) {
            self.overrun.push(queue);
        }
    }

    /// Whether the queue has ever overrun.
    pub(crate) fn has_overrun(&self, queue: u32) -> bool {
        self.table.get(queue).is_some_and(|state| state.overrun)
    }
}
