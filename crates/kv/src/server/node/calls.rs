//! The calls of batches that wait for copies.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use stonecast_log::{Draft, Kind};
use stonecast_persist::Persisted;

use crate::server::shard::Change;

/// A call that the node keeps until it may go on.
pub(in crate::server) struct Call {
    /// The slot of the call.
    pub slot: u64,
    pub work: Work,
}

/// The work that is left for a call when everything that it awaits is on all copies.
pub(in crate::server) enum Work {
    /// An answer that appends nothing.
    Answer,
    /// A write to publish.
    Write(StampedWrite),
    /// The writes of a batch, which are published in one step.
    Batch(Box<[StampedWrite]>),
}

impl Work {
    /// The writes to publish.
    pub fn writes(&self) -> &[StampedWrite] {
        match self {
            Self::Answer => &[],
            Self::Write(write) => std::slice::from_ref(write),
            Self::Batch(writes) => writes,
        }
    }

    /// The shard of the writes, and the number of puts among them; `None`: no write is a put.
    pub fn puts(&self) -> Option<(u32, u64)> {
        let writes = self.writes().iter();
        let puts = writes.filter(|write| write.change.kind == Kind::Put);
        let count = puts.clone().count() as u64;
        let first = puts.map(|write| write.change.route.shard).next()?;
        Some((first, count))
    }
}

/// A write whose record is stamped here, and not on all copies yet.
pub(in crate::server) struct StampedWrite {
    pub change: Change,
    pub key: Box<[u8]>,
    pub token: u64,
}

impl StampedWrite {
    /// The write that `change` publishes, of the record that has the content of `draft`.
    pub fn new(change: Change, draft: &Draft<'_>) -> Self {
        Self {
            change,
            key: draft.key.into(),
            token: draft.token,
        }
    }
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

/// The calls of all batches that are not answered, by slot. Slots ascend, and are not given again.
#[derive(Default)]
pub(in crate::server) struct Calls {
    /// The slot of the first call here.
    first: u64,
    fates: VecDeque<Fate>,
    /// Calls in front of the first one that is open.
    ended: usize,
    /// The proofs that own records are durable, oldest first, each with the slot after the calls that the proof covers.
    proofs: VecDeque<(u64, Rc<Persisted>)>,
    /// Puts of each shard that wait.
    puts: BTreeMap<u32, u64>,
    /// The task that waits until all calls below a slot have ended.
    waiting: Option<(u64, Waker)>,
}

impl Calls {
    /// The slot of the next call.
    pub fn next_slot(&self) -> u64 {
        self.first + self.fates.len() as u64
    }

    /// Notes that the node has taken the call of the next slot, with so many puts of a shard, or none.
    pub fn begin(&mut self, puts: Option<(u32, u64)>) {
        self.fates.push_back(Fate::Open);
        if let Some((shard, count)) = puts {
            *self.puts.entry(shard).or_default() += count;
        }
    }

    /// Notes that the own records of all calls below the slot `end` are durable.
    pub fn note_durable(&mut self, end: u64, persisted: Rc<Persisted>) {
        self.proofs.push_back((end, persisted));
    }

    /// The proof that the own record of the call in `slot` is durable; `None`: that is not known.
    pub fn proof(&self, slot: u64) -> Option<Rc<Persisted>> {
        let covers = |(end, _): &&(u64, _)| slot < *end;
        Some(self.proofs.iter().find(covers)?.1.clone())
    }

    /// Ends `call`.
    pub fn end(&mut self, call: &Call, fate: Fate) {
        let index = self.index_of(call.slot);
        let ended = std::mem::replace(&mut self.fates[index], fate);
        assert!(ended == Fate::Open, "a call ends once");
        if let Some((shard, count)) = call.work.puts() {
            let puts = self.puts.get_mut(&shard);
            *puts.expect("the puts were counted") -= count;
        }
        let open = |fate: &Fate| *fate == Fate::Open;
        while self.fates.get(self.ended).is_some_and(|fate| !open(fate)) {
            self.ended += 1;
        }
        let ended = self.first + self.ended as u64;
        if let Some((_, waker)) = self.waiting.take_if(|(end, _)| *end <= ended) {
            waker.wake();
        }
    }

    /// Puts of `shard` that are stamped and not published. Each may add a key to the index.
    pub fn puts_of(&self, shard: u32) -> u64 {
        self.puts.get(&shard).copied().unwrap_or(0)
    }

    /// The end of a call, so far.
    pub fn fate(&self, slot: u64) -> Fate {
        self.fates[self.index_of(slot)]
    }

    /// Whether the call in `slot` waits.
    pub fn is_open(&self, slot: u64) -> bool {
        self.fate(slot) == Fate::Open
    }

    /// Whether all calls below the slot `end` have ended.
    pub fn have_ended(&self, end: u64) -> bool {
        end <= self.first + self.ended as u64
    }

    /// Whether all calls below the slot `end` have ended. If not, their end wakes `context`.
    pub fn poll_ended(&mut self, end: u64, context: &mut Context<'_>) -> Poll<()> {
        if self.have_ended(end) {
            return Poll::Ready(());
        }
        self.waiting = Some((end, context.waker().clone()));
        Poll::Pending
    }

    /// Forgets the calls below the slot `end`, which have ended.
    pub fn forget(&mut self, end: u64) {
        assert!(self.have_ended(end), "a batch ends when its calls have");
        let count = self.index_of(end);
        self.fates.drain(..count);
        self.first = end;
        self.ended -= count;
        self.proofs.retain(|(covered, _)| *covered > end);
    }

    fn index_of(&self, slot: u64) -> usize {
        usize::try_from(slot - self.first).expect("the calls are in memory")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(slot: u64) -> Call {
        Call {
            slot,
            work: Work::Answer,
        }
    }

    /// Needs the count of ended calls in front of the first open one: batches are answered in their order.
    #[test]
    fn calls_have_ended_up_to_the_first_open_one() {
        let mut calls = Calls::default();
        (0..4).for_each(|_| calls.begin(None));
        calls.end(&refusal(1), Fate::Settled);
        calls.end(&refusal(2), Fate::Unknown);
        assert!(!calls.have_ended(1));
        calls.end(&refusal(0), Fate::Settled);
        assert!(calls.have_ended(3) && !calls.have_ended(4));
        calls.forget(2);
        assert_eq!((calls.fate(2), calls.is_open(3)), (Fate::Unknown, true));
        assert!(calls.have_ended(3) && !calls.have_ended(4));
        assert_eq!(calls.next_slot(), 4);
    }
}
