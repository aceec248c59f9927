//! The path of all arrivals: one batch after the other, each in the same steps.
//!
//! ```text
//!   gather    copy and check each record        a Batch: nothing changed
//!   decide    conditions, room, stamp           Stamped: in the log, not durable, invisible
//!   persist   once, or before a dependent write Persisted: durable, invisible
//!   publish   index words                       visible
//!   answer    in the order of arrival
//! ```
//!
//! Each step hands the next step a value, and nothing flows back. `persist` is the one place between stamped and
//! visible records: the logs of other nodes take the same [`Stamped`] there. On a node, the batch then waits in flight
//! (`flight.rs`), the node publishes each write that all logs have, and the next batch is gathered and decided
//! meanwhile.
//!
//! A write that is done only because of another write of its batch, such as a delete of a key that the batch puts, is
//! stamped after that write is durable: a crash may keep any part of the bytes of one persist.
//!
//! While the server waits for more arrivals before a sync of a file, the server decides writes as they arrive. After
//! the sync, the first operations are published and answered before the rest, so that their clients send while the
//! server works.
//!
//! A crash before the end of `persist` leaves records that were not acknowledged; recovery keeps the whole ones. A
//! crash after `persist` leaves records that recovery finds.

mod answer;
mod batch;
mod bundle;
mod bytes;
mod company;
mod decide;
mod flight;
mod gather;
mod marks;
mod records;
mod requests;
mod room;

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll};

use stonecast_base::{Span, mutant};
use stonecast_fabric::{Port, Runtime};
use stonecast_log::UNIT_SIZE;
use stonecast_persist::Persisted;

use super::clients::{Clients, Receives};
use super::commit::Committer;
use super::node::leading::Leading;
use super::report::Reporter;
use crate::error::StoreError;
use crate::server::state::State;
use crate::wire::Verdict;
use crate::wire::limits::BATCH_MAX;

use answer::{Durable, answer};
use batch::{Owed, RequestBatch};
use company::{Company, LOOK_NS};
use decide::{Decided, Stamped};
use flight::{Flights, OwnPersist};
use gather::Gather;

/// Operations that are published and answered before the following ones, so that their clients continue meanwhile.
const ANSWERED_TOGETHER: usize = 32;

/// Serves arrivals in batches, each in the same steps.
pub(super) struct Pipeline {
    runtime: Rc<dyn Runtime>,
    committer: Rc<Committer>,
    /// The node of the server; `None`: the server is alone.
    leading: Option<Leading>,
    gather: Gather,
    company: Company,
    batch: RequestBatch,
    stamped: Stamped,
    flights: Flights,
}

/// The work on a batch after its persist: both parts, except for mutants.
#[derive(Clone, Copy)]
struct Conclusion {
    publishes: bool,
    answers: bool,
}

impl Pipeline {
    pub fn new(
        (port, runtime): (Rc<Port>, Rc<dyn Runtime>),
        committer: Rc<Committer>,
        receives: Receives,
        reporter: Rc<Reporter>,
        leading: Option<Leading>,
    ) -> Self {
        Self {
            runtime,
            committer,
            leading,
            gather: Gather::new(port, receives, reporter),
            company: Company::default(),
            batch: RequestBatch::default(),
            stamped: Stamped::default(),
            flights: Flights::default(),
        }
    }

    /// Answers the batches that are on all copies, and serves all arrivals in one batch. Returns the number of
    /// operations.
    pub async fn serve(&mut self, state: &RefCell<State>) -> Result<usize, StoreError> {
        self.conclude_ended(state);
        self.batch.clear();
        self.stamped.clear();
        self.take_buffers_back(state);
        self.gather(state);
        marks::add(&mut state.borrow_mut(), &mut self.batch)?;
        let operations = self.batch.items.len();
        if self.batch.writes.is_empty() && operations == 0 {
            self.finish(state)?;
            return Ok(0);
        }
        let persisted = self.decide_and_persist(state).await;
        let own = OwnPersist::of(&persisted);
        match self.leading.clone() {
            None => self.conclude_alone(state, &own),
            Some(leading) => {
                let batch = &mut self.batch;
                self.flights
                    .add(batch, (&mut *state.borrow_mut(), &leading), own);
                self.conclude_ended(state);
            }
        }
        self.finish(state)?;
        persisted?;
        Ok(operations)
    }

    /// Publishes and answers the batch of a server without a node.
    fn conclude_alone(&mut self, state: &RefCell<State>, own: &OwnPersist) {
        if matches!(own, OwnPersist::Failed) {
            self.batch.fail();
        }
        let all = Conclusion {
            publishes: !mutant!(PublishBeforeDurable),
            answers: !mutant!(AnswerBeforeDurable),
        };
        Self::conclude(state, &mut self.batch, own.durable(), all);
        state.borrow_mut().clients.served.batches += 1;
    }

    /// Takes arrivals. Returns whether there were any.
    fn gather(&mut self, state: &RefCell<State>) -> bool {
        self.gather.gather(&mut state.borrow_mut(), &mut self.batch)
    }

    /// Takes back the receive buffers of messages that were not taken before their connection ended.
    fn take_buffers_back(&mut self, state: &RefCell<State>) {
        let untaken = state.borrow().clients.departures.take_untaken();
        self.gather.take_buffers_back(&untaken);
    }

    /// Decides the batch, and makes the stamped records durable: with one persist, and with one more for each write
    /// that depends on another write of the batch. `None`: nothing was stamped.
    async fn decide_and_persist(
        &mut self,
        state: &RefCell<State>,
    ) -> Result<Option<Rc<Persisted>>, StoreError> {
        let mut persisted = None;
        loop {
            let decided = self.decide_in_company(state).await;
            if decided == Decided::All {
                self.conclude_too_early(state).await?;
            }
            let latest = match self.leading.clone() {
                None => self.persist(state).await?,
                Some(leading) => self.persist_beside_appends(state, &leading).await?,
            };
            persisted = latest.or(persisted);
            self.stamped.note_durable();
            match (decided, self.leading.clone()) {
                (Decided::All, _) => return Ok(persisted),
                (Decided::UpToCopies, Some(leading)) => {
                    leading.wait_for_room(state).await?;
                    self.conclude_ended(state);
                }
                (Decided::UpToDurable | Decided::UpToCopies, _) => {}
            }
        }
    }

    /// Appends the stamped records to the copies, and makes them durable here meanwhile.
    async fn persist_beside_appends(
        &mut self,
        state: &RefCell<State>,
        leading: &Leading,
    ) -> Result<Option<Rc<Persisted>>, StoreError> {
        let sent = leading.send(state);
        let persisted = self.persist(state).await;
        match &persisted {
            Ok(persisted) => leading.note_persisted(state, sent, persisted.clone()),
            // All calls end: their outcome is unknown.
            Err(error) => leading.fail(error),
        }
        persisted
    }

    /// Decides and stamps the gathered writes, and writes that arrive while the server waits before a sync of a file.
    /// Returns how far they are decided.
    async fn decide_in_company(&mut self, state: &RefCell<State>) -> Decided {
        let decided = self.decide(state).await;
        let waits = self.committer.syncs_files() && self.stamped.awaits_persist;
        match decided {
            Decided::All if waits => self.wait_for_company(state).await,
            decided => decided,
        }
    }

    /// Decides and stamps the gathered writes; see [`Stamped::decide`].
    async fn decide(&mut self, state: &RefCell<State>) -> Decided {
        let world = (&self.runtime, self.leading.as_ref());
        let batches = (&self.flights, &mut self.batch);
        self.stamped.decide(state, world, batches).await
    }

    /// Gathers and decides writes as long as they keep arriving; see [`company`].
    async fn wait_for_company(&mut self, state: &RefCell<State>) -> Decided {
        let start = self.runtime.now();
        let mut quiet_since = start;
        while self.batch.items.len() < BATCH_MAX && self.is_roomy(state) {
            let (operations, now) = (self.batch.items.len(), self.runtime.now());
            if !self
                .company
                .is_worth_it(operations, now, start, quiet_since)
            {
                break;
            }
            self.runtime.sleep(LOOK_NS).await;
            if self.gather(state) {
                let decided = self.decide(state).await;
                if decided != Decided::All {
                    return decided;
                }
                quiet_since = self.runtime.now();
            }
        }
        Decided::All
    }

    /// Whether each index has room for every key of the batch, even if all of them are new.
    fn is_roomy(&self, state: &RefCell<State>) -> bool {
        self.stamped.room.is_roomy(&state.borrow().shards)
    }

    /// Makes the stamped records, and all spans that await a persist, durable with one persist. `None`: nothing awaits
    /// a persist.
    async fn persist(
        &mut self,
        state: &RefCell<State>,
    ) -> Result<Option<Rc<Persisted>>, StoreError> {
        // With the mutant, writes are done without a stamped record.
        if !self.stamped.awaits_persist && !mutant!(TombstoneLeftOut) {
            return Ok(None);
        }
        let _turn = self.committer.enter(state).await?;
        let underway = {
            let journal = &mut state.borrow_mut().journal;
            let mut underway = journal.begin_persist();
            leave_out(&mut underway.spans, journal.format().segment_size);
            underway
        };
        let start = self.runtime.now();
        let persisted = Rc::new(self.committer.persist(&underway.spans).await?);
        let took = self.runtime.now() - start;
        let journal = &mut state.borrow_mut().journal;
        journal.note_persisted(underway, &persisted);
        self.company.note(self.batch.items.len(), took);
        Ok(Some(persisted))
    }

    /// Publishes and answers, in the order of arrival.
    fn conclude(
        state: &RefCell<State>,
        batch: &mut RequestBatch,
        durable: Durable<'_>,
        conclusion: Conclusion,
    ) {
        let state = &mut *state.borrow_mut();
        let mut published = 0;
        let items = std::mem::take(&mut batch.items);
        for group in items.chunks(ANSWERED_TOGETHER) {
            let writes = group.iter().map(|item| match item.owed {
                Owed::Write(_) => 1,
                Owed::Bundle(index) => batch.bundles[index].writes.len(),
                Owed::Answer(_) | Owed::Release(_) | Owed::Outcome(..) => 0,
            });
            let writes: usize = writes.sum();
            if let (true, Durable::Proven(persisted)) = (conclusion.publishes, durable) {
                publish(state, batch, published..published + writes, persisted);
            }
            published += writes;
            if conclusion.answers {
                for item in group {
                    answer(state, batch, item, durable);
                }
                state.clients.sessions.send_answers();
            }
        }
        batch.items = items;
    }

    /// Answers the batches whose calls have ended, in their order.
    fn conclude_ended(&mut self, state: &RefCell<State>) {
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

    /// Publishes or answers before anything is durable: for mutants.
    async fn conclude_too_early(&mut self, state: &RefCell<State>) -> Result<(), StoreError> {
        let early = Conclusion {
            publishes: mutant!(PublishBeforeDurable),
            answers: mutant!(AnswerBeforeDurable),
        };
        if early.publishes || early.answers {
            let unproven = self.committer.persist(&[]).await?;
            Self::conclude(state, &mut self.batch, Durable::Proven(&unproven), early);
        }
        Ok(())
    }

    /// Sends the answers, posts receive buffers again if there are enough for a doorbell, and ends clients that do not
    /// take their answers.
    fn finish(&mut self, state: &RefCell<State>) -> Result<(), StoreError> {
        let Clients {
            sessions,
            departures,
            ..
        } = &mut state.borrow_mut().clients;
        sessions.send_answers();
        self.gather.repost_many()?;
        for qp in sessions.stuck() {
            departures.end_session(sessions, qp);
        }
        Ok(())
    }

    /// Posts all free receive buffers again.
    pub fn repost(&mut self) -> Result<(), StoreError> {
        Ok(self.gather.repost()?)
    }
}

/// Stores the index words of the completed writes among `writes`. Takes the proof that their records are durable.
fn publish(state: &mut State, batch: &RequestBatch, writes: Range<usize>, persisted: &Persisted) {
    let State {
        shards,
        journal,
        expiries,
        ..
    } = state;
    let writes = batch.writes[writes].iter();
    for write in writes.filter(|write| write.verdict == Verdict::Done) {
        let key = &batch.bytes[write.key.0..write.key.1];
        shards.publish(&write.change(), key, journal, persisted);
        if let Some(expires) = write.content.expires {
            expiries.note(write.route, expires);
        }
    }
}

/// Removes the spans that the mutants of a batch leave out of a persist; none without a mutant.
fn leave_out(spans: &mut Vec<Span>, segment_size: u64) {
    let is_header = |span: &Span| span.offset.is_multiple_of(segment_size);
    if mutant!(RecordNotWrittenBack) {
        spans.retain(is_header);
    }
    if mutant!(SegmentHeaderNotWrittenBack) {
        spans.retain(|span| !is_header(span));
    }
    if mutant!(LastLineNotWrittenBack) {
        spans
            .iter_mut()
            .filter(|span| span.size > UNIT_SIZE && !is_header(span))
            .for_each(|span| span.size -= UNIT_SIZE);
    }
}
