//! The calls of the present batch that wait for copies.

use std::task::{Context, Poll, Waker};

use crate::server::shard::Change;

/// A call that the node keeps until it may go on.
pub(in crate::server) struct Call {
    /// The slot of the call among the calls of its batch.
    pub slot: usize,
    /// The write that is to be published; `None`: an answer that appends nothing.
    pub write: Option<StampedWrite>,
}

/// A write whose record is stamped here, and not on all copies yet.
pub(in crate::server) struct StampedWrite {
    pub change: Change,
    pub key: Box<[u8]>,
    pub token: u64,
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Fate {
    /// The call waits.
    Open,
    /// A write is on all copies and published; or the state that a refusal saw is on all copies.
    Settled,
    /// A write is stamped, and its outcome is unknown: an heir may settle it or not.
    Unknown,
    /// A refusal must not be told: another node may lead.
    Unanswered,
}

/// The calls of a batch, by slot.
#[derive(Default)]
pub(in crate::server) struct Calls {
    fates: Vec<Fate>,
    open: usize,
    waiting: Option<Waker>,
}

impl Calls {
    /// Forgets the calls of the batch before, which have ended.
    pub fn clear(&mut self) {
        assert!(self.open == 0, "a batch ends when its calls have");
        self.fates.clear();
    }

    /// The slot of the next call.
    pub fn next_slot(&self) -> usize {
        self.fates.len()
    }

    /// Notes that the node has taken the call of the next slot.
    pub fn begin(&mut self) {
        self.fates.push(Fate::Open);
        self.open += 1;
    }

    /// Ends the call in `slot`.
    pub fn end(&mut self, slot: usize, fate: Fate) {
        let ended = std::mem::replace(&mut self.fates[slot], fate);
        assert!(ended == Fate::Open, "a call ends once");
        self.open -= 1;
        if self.open == 0
            && let Some(waker) = self.waiting.take()
        {
            waker.wake();
        }
    }

    /// The end of a call, so far.
    pub fn fate(&self, slot: usize) -> Fate {
        self.fates[slot]
    }

    /// Whether all calls have ended.
    pub fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.open == 0 {
            return Poll::Ready(());
        }
        self.waiting = Some(context.waker().clone());
        Poll::Pending
    }
}
