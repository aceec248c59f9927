//! Batches that wait for copies. Each of them is durable on this node, and has the batches before it in front of it.
//!
//! The pipeline decides and stamps the next batch meanwhile. It decides against the newest write of a key, published or
//! not ([`Flights::newest_of`]): the copies have the writes of a shard in the order of their stamps, so a write on all
//! copies has everything that it rests on beside it. Batches are answered in their order.

use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll};

use stonecast_base::mutant;
use stonecast_persist::Persisted;

use super::answer::Durable;
use super::batch::{Owed, RequestBatch, Write};
use crate::error::StoreError;
use crate::server::node::leading::Leading;
use crate::server::state::State;
use crate::wire::{Answer, Route, Verdict};

/// A batch that waits for copies.
pub(super) struct Flight {
    pub batch: RequestBatch,
    /// Items that ask for outcomes, with the slots of their calls; `None`: the node no longer led the shard.
    asked: Vec<(usize, Option<u64>)>,
    /// The slot after the slots of the batch's calls.
    end: u64,
    pub own: OwnPersist,
}

impl Flight {
    /// Gives writes, bundles and questions the verdicts of their calls, which have ended, and forgets the calls.
    pub fn note_verdicts(&mut self, state: &mut State) {
        for write in &mut self.batch.writes {
            let slot = write.on_node.slot.take();
            if let Some(verdict) = slot.and_then(|slot| state.verdict_of(slot)) {
                (write.verdict, write.version) = verdict;
            }
        }
        for bundle in &mut self.batch.bundles {
            let slot = bundle.slot.take();
            if let Some(verdict) = slot.and_then(|slot| state.verdict_of(slot)) {
                (bundle.verdict, bundle.number) = verdict;
            }
        }
        for &(item, slot) in &self.asked {
            let refused = match slot {
                Some(slot) => state.verdict_of(slot),
                None => Some((Verdict::NotPrimary, 0)),
            };
            if let Some((verdict, version)) = refused {
                self.batch.items[item].owed = Owed::Answer(Answer::Verdict { verdict, version });
            }
        }
        state.node_mut().calls.forget(self.end);
        if matches!(self.own, OwnPersist::Failed) {
            self.batch.fail();
        }
    }
}

/// The state of a batch in the log of this node.
pub(super) enum OwnPersist {
    /// Everything that is stamped is durable.
    Durable(Rc<Persisted>),
    NothingStamped,
    /// The medium failed.
    Failed,
}

impl OwnPersist {
    /// The state after the persists of the batch.
    pub fn of(persisted: &Result<Option<Rc<Persisted>>, StoreError>) -> Self {
        match persisted {
            Ok(Some(persisted)) => Self::Durable(persisted.clone()),
            Ok(None) => Self::NothingStamped,
            Err(_) => Self::Failed,
        }
    }

    /// The durability that answers state.
    pub fn durable(&self) -> Durable<'_> {
        match self {
            Self::Durable(persisted) => Durable::Proven(persisted),
            Self::NothingStamped => Durable::NothingStamped,
            Self::Failed => Durable::Failed,
        }
    }
}

/// The batches that wait for copies, oldest first.
#[derive(Default)]
pub(super) struct Flights {
    waiting: VecDeque<Flight>,
    /// Empty batches, whose memory is used again.
    spare: Vec<RequestBatch>,
}

impl Flights {
    /// Lets a batch wait after the earlier ones. Questions for outcomes wait like refusals: the write that they see may
    /// be a one that an heir cuts off. `batch` is empty afterwards.
    pub fn add(
        &mut self,
        batch: &mut RequestBatch,
        (state, leading): (&mut State, &Leading),
        own: OwnPersist,
    ) {
        let items = batch.items.iter().enumerate();
        let asked = items.filter_map(|(index, item)| match item.owed {
            Owed::Outcome(question) => Some((index, leading.refuse(state, question.shard))),
            Owed::Write(_) | Owed::Bundle(_) | Owed::Answer(_) | Owed::Release(_) => None,
        });
        let asked = asked.collect();
        let spare = self.spare.pop().unwrap_or_default();
        self.waiting.push_back(Flight {
            batch: std::mem::replace(batch, spare),
            asked,
            end: state.node_mut().calls.next_slot(),
            own,
        });
    }

    /// The oldest batch, if all of its calls have ended.
    pub fn take_ended(&mut self, state: &mut State) -> Option<Flight> {
        let end = self.waiting.front()?.end;
        let has_ended = state.node_mut().calls.have_ended(end);
        has_ended.then(|| self.waiting.pop_front()).flatten()
    }

    /// Whether the oldest batch can be answered; if not, the end of its calls wakes `context`. Without a batch, nothing
    /// does.
    pub fn poll_ended(&self, state: &mut State, context: &mut Context<'_>) -> Poll<()> {
        let front = self.waiting.front();
        front.map_or(Poll::Pending, |flight| {
            state.node_mut().calls.poll_ended(flight.end, context)
        })
    }

    /// Takes the memory of a batch that is answered.
    pub fn reuse(&mut self, mut batch: RequestBatch) {
        batch.clear();
        self.spare.push(batch);
    }

    /// The writes of all batches.
    pub fn writes(&self) -> impl Iterator<Item = &Write> {
        let batches = self.waiting.iter().map(|flight| &flight.batch);
        batches.flat_map(|batch| &batch.writes)
    }

    /// The newest write of a key that is stamped and not published.
    pub fn newest_of(&self, state: &State, route: Route, key: &[u8]) -> Option<&Write> {
        let calls = &state.node.as_ref()?.calls;
        if mutant!(InFlightUnseen) {
            return None;
        }
        self.waiting.iter().rev().find_map(|flight| {
            let mut writes = flight.batch.writes.iter().rev();
            writes.find(|write| {
                let is_open = write.on_node.slot.is_some_and(|slot| calls.is_open(slot));
                is_open && write.is_done_on(&flight.batch.bytes, route, key)
            })
        })
    }
}
