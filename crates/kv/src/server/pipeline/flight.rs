//! Batches that wait for copies. Each of them is durable on this node, and has the batches before it in front of it.
//!
//! The pipeline decides and stamps the next batch meanwhile. It decides against the newest write of a key, published or
//! not ([`Flights::newest_of`]): the copies have the writes of a shard in the order of their stamps, so a write on all
//! copies has everything that it rests on beside it. Batches are answered in their order.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll};

use stonecast_base::mutant;
use stonecast_persist::Persisted;

use super::answer::Durable;
use super::batch::{Owed, RequestBatch, Write};
use super::{Conclusion, Pipeline};
use crate::error::StoreError;
use crate::server::State;
use crate::server::node::Leading;
use crate::wire::{Answer, Route, Verdict};

/// A batch that waits for copies.
struct Flight {
    batch: RequestBatch,
    /// Items that ask for outcomes, with the slots of their calls; `None`: the node no longer led the shard.
    asked: Vec<(usize, Option<u64>)>,
    /// The slot behind those of the batch's calls.
    end: u64,
    own: OwnPersist,
}

impl Flight {
    /// Gives writes and questions the verdicts of their calls, which have ended, and forgets the calls.
    fn note_verdicts(&mut self, state: &mut State) {
        for write in &mut self.batch.writes {
            let slot = write.on_node.slot.take();
            if let Some(verdict) = slot.and_then(|slot| state.verdict_of(slot)) {
                (write.verdict, write.version) = verdict;
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

    /// The same, for answers.
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
    /// The oldest batch, if all of its calls have ended.
    fn take_ended(&mut self, state: &mut State) -> Option<Flight> {
        let end = self.waiting.front()?.end;
        let has_ended = state.node_mut().calls.have_ended(end);
        has_ended.then(|| self.waiting.pop_front()).flatten()
    }

    /// Whether the oldest batch can be answered; if not, the end of its calls wakes `context`. Without a batch, nothing
    /// does.
    fn poll_ended(&self, state: &mut State, context: &mut Context<'_>) -> Poll<()> {
        let front = self.waiting.front();
        front.map_or(Poll::Pending, |flight| {
            state.node_mut().calls.poll_ended(flight.end, context)
        })
    }

    /// Takes the memory of a batch that is answered.
    fn reuse(&mut self, mut batch: RequestBatch) {
        batch.clear();
        self.spare.push(batch);
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

impl Pipeline {
    /// Lets the batch wait for copies behind the earlier ones, and answers those that wait no longer. Questions for
    /// outcomes wait like refusals: what they see may be a write that an heir cuts off.
    pub(super) fn wait_in_flight(
        &mut self,
        state: &RefCell<State>,
        leading: &Leading,
        own: OwnPersist,
    ) {
        let state_now = &mut *state.borrow_mut();
        let items = self.batch.items.iter().enumerate();
        let asked = items.filter_map(|(index, item)| match item.owed {
            Owed::Outcome(shard, ..) => Some((index, leading.refuse(state_now, shard))),
            Owed::Write(_) | Owed::Bundle(_) | Owed::Answer(_) | Owed::Release(_) => None,
        });
        let asked = asked.collect();
        let spare = self.flights.spare.pop().unwrap_or_default();
        self.flights.waiting.push_back(Flight {
            batch: std::mem::replace(&mut self.batch, spare),
            asked,
            end: state_now.node_mut().calls.next_slot(),
            own,
        });
    }

    /// Answers the batches whose calls have ended, in their order.
    pub(super) fn conclude_ended(&mut self, state: &RefCell<State>) {
        loop {
            let ended = self.flights.take_ended(&mut state.borrow_mut());
            let Some(mut flight) = ended else {
                return;
            };
            flight.note_verdicts(&mut state.borrow_mut());
            let answers = Conclusion {
                // The node has published each write when the write was on all copies.
                publishes: false,
                answers: !mutant!(AnswerBeforeDurable),
            };
            Self::conclude(state, &mut flight.batch, flight.own.durable(), answers);
            state.borrow_mut().clients.served.batches += 1;
            self.flights.reuse(flight.batch);
        }
    }

    /// Whether the oldest batch that waits for copies can be answered; if not, `context` is woken when it can.
    pub fn poll_ended(&self, state: &RefCell<State>, context: &mut Context<'_>) -> Poll<()> {
        self.flights.poll_ended(&mut state.borrow_mut(), context)
    }

    /// Waits until all batches are on all copies, and answers them.
    pub async fn drain(&mut self, state: &RefCell<State>) -> Result<(), StoreError> {
        if let Some(leading) = self.leading.clone() {
            leading.wait_for_copies(state).await?;
            self.conclude_ended(state);
            self.finish(state)?;
        }
        Ok(())
    }

    /// Answers everything that waits, before the server ends because of `error`. The outcome of writes that are not on
    /// all copies is unknown.
    pub fn abandon(&mut self, state: &RefCell<State>, error: &StoreError) {
        if let Some(leading) = &self.leading {
            leading.fail(error);
            self.conclude_ended(state);
        }
    }
}
