//! Work on a standing record, which waits for the store and notes what it has found.
//!
//! An opening swaps the record even where nothing changes: a swap of an earlier process that is still under way
//! expects an earlier revision, and does nothing from then on.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::{ConfigStore, Revision, StoreError, Swap};
use stonecast_fabric::Runtime;

use super::document::StandingRecord;
use super::fault::StandingFault;
use super::judgement::{Asking, Verdict, View, of_back_end, of_mirror};

/// The time between two looks at the record.
const LOOK_NS: Nanoseconds = 1_000_000_000;
/// The pause before a swap is tried again.
const PAUSE_NS: Nanoseconds = 100_000_000;
/// The attempts of a command.
const TRIES: u32 = 8;

/// A record in a store, and the knowledge of a server about both.
pub(super) struct Register {
    pub store: Rc<dyn ConfigStore>,
    pub runtime: Rc<dyn Runtime>,
    /// The name of the server's pool.
    pub pool: u128,
    pub state: RefCell<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// The pool as its server knows it; for a mirror, once the mirror is whole.
    pub asking: Option<Asking>,
    /// The reason why binding and promotion wait.
    pub trouble: Option<StandingFault>,
    /// The reason why the back-end must no longer serve.
    pub end: Option<StandingFault>,
    /// Whether the back-end has no mirror.
    pub is_alone: bool,
    /// Whether the back-end has swapped the record.
    pub is_open: bool,
    /// The record that was opened while the back-end served, until the pool has a note of it.
    pub unnoted: Option<StandingRecord>,
    pub is_binding: bool,
    /// Whether a task looks at the record of the back-end.
    pub is_watched: bool,
    /// The mirror that the record names.
    pub named: u128,
    pub claim: Progress,
    /// The generation that the mirror has won.
    pub won: Option<u64>,
}

impl State {
    /// The state of a claim that is not decided.
    pub(super) fn waiting(&self) -> Claim {
        match self.trouble {
            None | Some(StandingFault::Store(_)) => Claim::Waiting,
            Some(StandingFault::NotNamed { generation, .. }) => Claim::Refused { generation },
            Some(_) => Claim::Refused { generation: 0 },
        }
    }
}

#[derive(Default)]
pub(super) enum Progress {
    #[default]
    Idle,
    UnderWay,
    Overtaken,
}

/// The state of a mirror's claim to the next generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The claim is undecided, or its result is not known here yet.
    Waiting,
    /// The record names the mirror's pool as the next back-end.
    Won,
    /// Another swap came first: the back-end may have started.
    Overtaken,
    /// The record does not name the mirror, or does not exist.
    Refused {
        /// The generation of the record; 0: unknown.
        generation: u64,
    },
}

impl Register {
    /// Notes that the record was swapped by this opening.
    pub(super) fn opened(&self, record: &StandingRecord) {
        let mut state = self.state.borrow_mut();
        (state.is_open, state.named, state.trouble) = (true, record.mirror, None);
        let asking = state.asking.as_mut().expect("it was asked for");
        asking.generation = record.generation;
        asking.is_recorded = true;
        if record.mirror == 0 {
            asking.mirror = 0;
        }
    }

    /// Swaps the record of a back-end for one of another opening.
    pub(super) async fn open_record(
        &self,
        asking: Asking,
    ) -> Result<StandingRecord, StandingFault> {
        let is_alone = self.state.borrow().is_alone;
        let first = StandingRecord {
            content: asking.content,
            generation: asking.generation,
            back_end: asking.pool,
            mirror: asking.mirror,
            openings: 1,
        };
        // A store in files has no folder before its first value.
        if !asking.is_recorded && self.swap(None, &first).await? {
            return Ok(first);
        }
        loop {
            let (revision, record) = self.read().await?;
            let next = match of_back_end(record.as_ref(), &asking)? {
                Verdict::Found => StandingRecord {
                    openings: record.map_or(1, |record| record.openings + 1),
                    ..first
                },
                Verdict::Current(record) if is_alone && record.mirror != asking.mirror => {
                    let mirror = record.mirror;
                    return Err(StandingFault::BoundToOther { mirror });
                }
                Verdict::Current(record) | Verdict::Detached(record) => record.opened_again(),
            };
            if mutant!(OpeningNotSwapped) && record.is_some() {
                return Ok(next);
            }
            if self.swap(revision, &next).await? {
                return Ok(next);
            }
        }
    }

    /// Looks at the record of a back-end for as long as it serves.
    pub(super) async fn watch_back_end(self: Rc<Self>) {
        while self.state.borrow().end.is_none() {
            match self.look_back_end().await {
                Ok(()) => self.state.borrow_mut().trouble = None,
                Err(fault) => self.blame(fault),
            }
            self.runtime.sleep(LOOK_NS).await;
        }
    }

    async fn look_back_end(&self) -> Result<(), StandingFault> {
        // The record is read after this look at the pool, so the record knows at least as much.
        let (asking, is_open) = {
            let state = self.state.borrow();
            (state.asking.expect("it was asked for"), state.is_open)
        };
        let generation = asking.generation;
        if !is_open {
            let record = self.open_record(asking).await?;
            if record.generation > generation {
                let generation = record.generation;
                return Err(StandingFault::Detached { generation });
            }
            self.opened(&record);
            self.state.borrow_mut().unnoted = Some(record);
            return Ok(());
        }
        let (_, record) = self.read().await?;
        match of_back_end(record.as_ref(), &asking)? {
            Verdict::Current(_) => Ok(()),
            Verdict::Found => Err(StandingFault::Absent),
            Verdict::Detached(record) => Err(StandingFault::Detached {
                generation: record.generation,
            }),
        }
    }

    pub(super) async fn bind_record(self: Rc<Self>, mirror: u128) {
        while self.state.borrow().end.is_none() {
            match self.try_to_bind(mirror).await {
                Ok(true) => {
                    let mut state = self.state.borrow_mut();
                    (state.named, state.trouble) = (mirror, None);
                    return;
                }
                Ok(false) => {}
                Err(fault) => self.blame(fault),
            }
            self.runtime.sleep(PAUSE_NS).await;
        }
    }

    async fn try_to_bind(&self, mirror: u128) -> Result<bool, StandingFault> {
        let (asking, is_open) = {
            let state = self.state.borrow();
            (state.asking.expect("it was asked for"), state.is_open)
        };
        if !is_open {
            return Ok(false);
        }
        let (revision, record) = self.read().await?;
        let Verdict::Current(record) = of_back_end(record.as_ref(), &asking)? else {
            return Ok(false);
        };
        match record.mirror {
            0 => {
                let next = StandingRecord { mirror, ..record };
                self.swap(revision, &next.opened_again()).await
            }
            named if named == mirror => Ok(true),
            mirror => Err(StandingFault::BoundToOther { mirror }),
        }
    }

    pub(super) async fn watch_mirror(self: Rc<Self>) {
        loop {
            let asking = self.state.borrow().asking;
            let looked = self.read().await.and_then(|(_, record)| match asking {
                Some(asking) => of_mirror(record.as_ref(), &asking).map(Some),
                None => Ok(None),
            });
            match (looked, asking) {
                (Ok(Some(View::Won)), Some(asking)) => self.has_won(&asking),
                // A mirror that is not whole has no work that waits for the store.
                (Ok(_), _) | (Err(StandingFault::Store(_)), None) => {
                    self.state.borrow_mut().trouble = None;
                }
                (Err(fault), _) => self.blame(fault),
            }
            self.runtime.sleep(LOOK_NS).await;
        }
    }

    fn has_won(&self, asking: &Asking) {
        let mut state = self.state.borrow_mut();
        (state.won, state.trouble) = (Some(asking.generation + 1), None);
    }

    pub(super) async fn claim_record(self: Rc<Self>, asking: Asking) {
        let mut next = Progress::Idle;
        match self.try_to_claim(&asking).await {
            Ok(true) => self.has_won(&asking),
            Ok(false) => next = Progress::Overtaken,
            Err(fault) => {
                let is_away = matches!(fault, StandingFault::Store(_));
                self.blame(fault);
                let pause_ns = if is_away { PAUSE_NS } else { LOOK_NS };
                self.runtime.sleep(pause_ns).await;
            }
        }
        self.state.borrow_mut().claim = next;
    }

    /// `false`: another swap came first.
    async fn try_to_claim(&self, asking: &Asking) -> Result<bool, StandingFault> {
        let (revision, record) = self.read().await?;
        match of_mirror(record.as_ref(), asking)? {
            View::Won => Ok(true),
            View::Named(record) => {
                let next = StandingRecord {
                    generation: asking.generation + 1,
                    back_end: asking.pool,
                    mirror: 0,
                    ..record
                };
                self.swap(revision, &next.opened_again()).await
            }
        }
    }

    /// Writes the next generation of the pool, without a mirror, into the record. `may_found`: the record is lost, and
    /// so is the mirror. Returns the record; `None`: the record binds the pool to no mirror.
    pub(super) async fn detach(
        &self,
        asking: Asking,
        may_found: bool,
    ) -> Result<Option<StandingRecord>, StandingFault> {
        for _ in 0..TRIES {
            let (revision, record) = self.read().await?;
            let judged = match &record {
                None if may_found => Ok(Verdict::Found),
                record => of_back_end(record.as_ref(), &asking),
            };
            let openings = record.map_or(0, |record| record.openings);
            match judged? {
                Verdict::Detached(record) => return Ok(Some(record)),
                Verdict::Current(record) if record.mirror == 0 => return Ok(None),
                Verdict::Current(_) | Verdict::Found => {}
            }
            let next = StandingRecord {
                content: asking.content,
                generation: asking.generation + 1,
                back_end: asking.pool,
                mirror: 0,
                openings,
            };
            match self.swap(revision, &next.opened_again()).await {
                Ok(true) => return Ok(Some(next)),
                // The next look at the record shows the result.
                Ok(false) | Err(StandingFault::Store(StoreError::Unknown { .. })) => {}
                Err(fault) => return Err(fault),
            }
        }
        Err(StandingFault::Store(StoreError::Unknown {
            store: self.store.name().to_owned(),
            reason: "the record changes all the time; try again".to_owned(),
        }))
    }

    pub(super) async fn read(
        &self,
    ) -> Result<(Option<Revision>, Option<StandingRecord>), StandingFault> {
        let stored = self.store.read().await.map_err(StandingFault::Store)?;
        Ok(match stored {
            Some(stored) => {
                let record = StandingRecord::decode(&stored.bytes)?;
                (Some(stored.revision), Some(record))
            }
            None => (None, None),
        })
    }

    /// `false`: another swap came first.
    async fn swap(
        &self,
        expected: Option<Revision>,
        next: &StandingRecord,
    ) -> Result<bool, StandingFault> {
        let swapped = self.store.compare_and_set(expected, &next.encode()).await;
        let swapped = swapped.map_err(StandingFault::Store)?;
        Ok(matches!(swapped, Swap::Done(_)))
    }

    /// Notes a fault: one that concerns the back-end itself ends it, any other lets binding and promotion wait.
    pub(super) fn blame(&self, fault: StandingFault) {
        let mut state = self.state.borrow_mut();
        match fault.ends_a_back_end() {
            true => state.end = Some(fault),
            false => state.trouble = Some(fault),
        }
    }

    pub(super) fn silent(&self) -> StandingFault {
        StandingFault::Store(StoreError::Refused {
            store: self.store.name().to_owned(),
            reason: "it does not answer".to_owned(),
        })
    }
}
