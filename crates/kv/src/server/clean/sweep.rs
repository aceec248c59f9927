//! The cleaner's steps between batches: copy, persist, publish, free.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_base::{Span, mutant};
use stonecast_fabric::{Port, Runtime, give_way};

use super::copy::Needs;
use super::due::Due;
use super::{Step, due};
use crate::error::StoreError;
use crate::server::clients::returns::drain_intents;
use crate::server::commit::Committer;
use crate::server::settling::settle_if_due;
use crate::server::state::State;

/// Bytes of a segment examined between two checks for arrivals: a few records.
const PIECE_SIZE: u64 = 2 << 10;

pub(in crate::server) struct Sweeper {
    port: Rc<Port>,
    runtime: Rc<dyn Runtime>,
    committer: Rc<Committer>,
    /// Whether clients publish.
    is_shared: bool,
}

impl Sweeper {
    pub fn new(
        (port, runtime): (Rc<Port>, Rc<dyn Runtime>),
        committer: Rc<Committer>,
        is_shared: bool,
    ) -> Self {
        Self {
            port,
            runtime,
            committer,
            is_shared,
        }
    }

    /// Does the cleaning that is due after a batch.
    pub async fn tend(&self, state: &RefCell<State>) -> Result<(), StoreError> {
        settle_if_due(state).await?;
        let syncs_files = self.committer.syncs_files();
        let due = due::due(&mut state.borrow_mut(), syncs_files);
        let Some(due) = due else { return Ok(()) };
        self.persist_seal_of_victim(state).await?;
        let step = self.copy_due(state, &due).await;
        self.conclude_step(state, step).await?;
        self.free_victim(state).await
    }

    /// Persists the newest seal of the victim. The seal of the victim's next generation overwrites the seal before the
    /// newest one. If the newest seal were not durable, a crash could lose it and keep the seal of the next generation,
    /// and the records above the lost seal would look like damage.
    async fn persist_seal_of_victim(&self, state: &RefCell<State>) -> Result<(), StoreError> {
        let _turn = self.committer.enter(state).await?;
        let underway = {
            let State {
                cleaner, journal, ..
            } = &mut *state.borrow_mut();
            let victim = cleaner.victim.as_ref();
            let awaits = victim.is_some_and(|victim| journal.awaits_persist(victim.state.number));
            awaits.then(|| journal.begin_persist())
        };
        if let Some(underway) = underway {
            let durable = Rc::new(self.committer.persist(&underway.spans).await?);
            let journal = &mut state.borrow_mut().journal;
            journal.note_persisted(underway, &durable);
        }
        Ok(())
    }

    /// Copies the due bytes piece by piece. When a request arrives meanwhile, the rest is left for later, unless
    /// cleaning is late: an operation waits for a piece and a persist, not for a whole step.
    async fn copy_due(&self, state: &RefCell<State>, due: &Due) -> Step {
        let mut step = Step::default();
        let piece = match due.is_late || self.committer.syncs_files() {
            true => due.bytes,
            false => PIECE_SIZE,
        };
        let mut done = 0;
        while done < due.bytes {
            let budget = piece.min(due.bytes - done);
            let copied = {
                let State {
                    cleaner,
                    journal,
                    shards,
                    keeper,
                    time,
                    ..
                } = &mut *state.borrow_mut();
                let needs = Needs {
                    keeper: keeper.as_ref(),
                    horizon: due.horizon,
                    time,
                };
                cleaner.copy_some(shards, journal, budget, needs, &mut step)
            };
            done += copied.bytes;
            if copied.is_last {
                break;
            }
            // The server notices arrivals.
            give_way().await;
            if self.port.has_activity() {
                break;
            }
        }
        let cleaner = &mut state.borrow_mut().cleaner;
        cleaner.credit = cleaner.credit.saturating_sub(due.bytes.min(done));
        step
    }

    /// Makes the copies of a step durable and then visible.
    async fn conclude_step(
        &self,
        state: &RefCell<State>,
        mut step: Step,
    ) -> Result<(), StoreError> {
        if step.spans.is_empty() {
            return Ok(());
        }
        let _turn = self.committer.enter(state).await?;
        let mut underway = state.borrow_mut().journal.begin_persist();
        underway.spans.append(&mut step.spans);
        let spans: &[Span] = match mutant!(CopiesNotDurable) {
            true => &[],
            false => &underway.spans,
        };
        let persisted = Rc::new(self.committer.persist(spans).await?);
        let State {
            cleaner,
            journal,
            shards,
            ..
        } = &mut *state.borrow_mut();
        journal.note_persisted(underway, &persisted);
        cleaner.publish_moves(&step, shards, journal, &persisted);
        Ok(())
    }

    /// Frees the victim if all its needed records have copies elsewhere.
    async fn free_victim(&self, state: &RefCell<State>) -> Result<(), StoreError> {
        let header = {
            let state = &mut *state.borrow_mut();
            drain_intents(state);
            let State {
                cleaner, journal, ..
            } = state;
            cleaner.renew_victim(journal, self.is_shared, self.runtime.now())
        };
        let Some(header) = header else { return Ok(()) };
        let spans: &[Span] = match mutant!(NextGenerationNotPersisted) {
            true => &[],
            false => &[header],
        };
        let renewed = self.committer.persist(spans).await?;
        let State {
            cleaner, journal, ..
        } = &mut *state.borrow_mut();
        cleaner.free_victim(journal, self.runtime.now(), &renewed);
        Ok(())
    }
}
