//! The store of a standing record, beside the server of a pool: its work waits for the store, and the server does not.
//!
//! ```text
//!   back-end   open: read, judge, swap ─▶ served          bind: swap ─▶ the pool is bound ─▶ the mirror is whole
//!   mirror     silence, window closed ─▶ claim: read, judge, swap ─▶ won ─▶ the pool is the back-end's
//!   both       a look at the record now and then: a store that is away, and a record that says something else
//! ```
//!
//! The server lets the work go on in each of its rounds, which are a millisecond apart at most; the work ends with it.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};

use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::ConfigStore;
use stonecast_fabric::Runtime;
use stonecast_media::PersistError;

use super::document::StandingRecord;
use super::fault::{StandingFault, StandingRecordError};
use super::judgement::{Asking, of_back_end};
use super::register::{Claim, Progress, Register};
use crate::backend::{Medium, Standing};

/// The time for which a start waits for the store before the start continues without it.
const PATIENCE_NS: Nanoseconds = 2_000_000_000;

/// The store that back-end and mirror share, as the server of one of them uses it.
pub struct StandingStore {
    register: Rc<Register>,
    /// The work that is under way.
    work: RefCell<Vec<Pin<Box<dyn Future<Output = ()>>>>>,
}

/// The reason why the record of a pool was not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Record(#[from] StandingRecordError),
    #[error(transparent)]
    Persist(#[from] PersistError),
}

impl StandingStore {
    /// The record in `store`, as the server of the pool called `pool` uses it. A pool keeps its name forever, whatever
    /// content was copied into it.
    pub fn new(store: Rc<dyn ConfigStore>, runtime: Rc<dyn Runtime>, pool: u128) -> Rc<Self> {
        Rc::new(Self {
            register: Rc::new(Register {
                store,
                runtime,
                pool,
                state: RefCell::default(),
            }),
            work: RefCell::default(),
        })
    }

    /// Lets the work go on. The call does not wait.
    pub(crate) fn go_on(&self) {
        let mut context = Context::from_waker(Waker::noop());
        let mut work = self.work.take();
        work.retain_mut(|work| work.as_mut().poll(&mut context).is_pending());
        self.work.borrow_mut().append(&mut work);
    }

    /// The reason why binding and promotion wait, for people; `None`: they do not wait for the store.
    pub fn trouble(&self) -> Option<StandingRecordError> {
        let trouble = self.register.state.borrow().trouble.clone();
        trouble.map(|fault| self.error(fault))
    }

    /// The error of a command or a server that this fault stops.
    pub(crate) fn error(&self, fault: StandingFault) -> StandingRecordError {
        let store = self.register.store.name().to_owned();
        StandingRecordError { store, fault }
    }

    /// The pool of a medium with this standing, as the record knows pools.
    pub(crate) fn asking(&self, medium: &Medium) -> Asking {
        let alone = Standing::alone(medium.uuid, medium.key.0);
        let standing = Standing::read(medium.bytes()).unwrap_or(alone);
        Asking {
            pool: self.register.pool,
            content: standing.content,
            generation: standing.generation.max(1),
            mirror: standing.mirror,
            is_recorded: standing.is_recorded,
        }
    }

    /// Opens the record of a pool that is to be served as the back-end's, and notes in the pool what was decided. An
    /// unreachable store is not an error: the pool is served, and the record is opened once the store answers.
    ///
    /// # Errors
    /// [`OpenError`]: the pool must not be served.
    pub(crate) async fn open(&self, medium: &Medium, is_alone: bool) -> Result<(), OpenError> {
        if self.register.state.borrow().is_watched {
            self.go_on();
            return Ok(self.check()?);
        }
        let asking = self.asking(medium);
        if is_alone && asking.mirror != 0 && !asking.is_recorded {
            // The pool is not served without its mirror, which may know no record.
            return Ok(());
        }
        {
            let mut state = self.register.state.borrow_mut();
            (state.asking, state.is_alone) = (Some(asking), is_alone);
        }
        let opening = self.register.open_record(asking);
        let opened = self.register.runtime.within(PATIENCE_NS, opening).await;
        match opened.unwrap_or_else(|_| Err(self.register.silent())) {
            Ok(record) => {
                self.note(medium, &record).await?;
                self.register.opened(&record);
            }
            Err(fault @ StandingFault::Store(_)) => self.register.blame(fault),
            Err(fault) => return Err(self.error(fault).into()),
        }
        self.register.state.borrow_mut().is_watched = true;
        self.begin(self.register.clone().watch_back_end());
        Ok(())
    }

    /// Whether the record says that another pool has followed the one of `medium` as the back-end's. An unreachable
    /// store gives no answer, which counts as *no*.
    pub async fn was_succeeded(&self, medium: &Medium) -> bool {
        let asking = self.asking(medium);
        let read = self
            .register
            .runtime
            .within(PATIENCE_NS, self.register.read())
            .await;
        let Ok(Ok((_, record))) = read else {
            return false;
        };
        let judged = of_back_end(record.as_ref(), &asking);
        matches!(judged, Err(StandingFault::Succeeded { .. }))
    }

    /// Notes in the pool what the record says.
    async fn note(&self, medium: &Medium, record: &StandingRecord) -> Result<(), PersistError> {
        let alone = Standing::alone(medium.uuid, medium.key.0);
        let mut standing = Standing::read(medium.bytes()).unwrap_or(alone);
        let next = Standing {
            generation: record.generation,
            mirror: match record.generation > standing.generation.max(1) {
                true => 0,
                false => standing.mirror,
            },
            is_recorded: true,
            ..standing
        };
        if next != standing {
            standing.replace(medium, next).await?;
        }
        Ok(())
    }

    /// Lets the work of a back-end go on, and notes in its pool a record that was opened meanwhile.
    ///
    /// # Errors
    /// [`OpenError`]: the record says that the back-end was succeeded or detached, or that another back-end exists.
    pub(crate) async fn attend(&self, medium: &Medium) -> Result<(), OpenError> {
        self.go_on();
        let unnoted = self.register.state.borrow_mut().unnoted.take();
        if let Some(record) = unnoted {
            self.note(medium, &record).await?;
        }
        Ok(self.check()?)
    }

    /// Whether the back-end may go on.
    fn check(&self) -> Result<(), StandingRecordError> {
        let end = self.register.state.borrow().end.clone();
        end.map_or(Ok(()), |fault| Err(self.error(fault)))
    }

    /// Whether the record names `mirror`. Otherwise the record is swapped once the store answers.
    pub(crate) fn bind(&self, mirror: u128) -> bool {
        let mut state = self.register.state.borrow_mut();
        if state.named == mirror || mutant!(WholeBeforeRecord) {
            return true;
        }
        if !std::mem::replace(&mut state.is_binding, true) {
            drop(state);
            self.begin(self.register.clone().bind_record(mirror));
        }
        false
    }

    /// Notes that the pool is bound to the mirror that the record names.
    pub(crate) fn bound(&self, mirror: u128) {
        let mut state = self.register.state.borrow_mut();
        if let Some(asking) = &mut state.asking {
            (asking.mirror, asking.is_recorded) = (mirror, true);
        }
    }

    /// Begins to look at the record beside a mirror.
    pub(crate) fn begin_to_follow(&self) {
        self.begin(self.register.clone().watch_mirror());
    }

    /// Tells the pool of the mirror: `None` until the mirror is whole.
    pub(crate) fn follow(&self, asking: Option<Asking>) {
        self.register.state.borrow_mut().asking = asking;
    }

    /// The generation that the mirror has won, as far as is known.
    pub(crate) fn won(&self) -> Option<u64> {
        self.register.state.borrow().won
    }

    /// Claims the next generation for the mirror, whose back-end is silent and can no longer write. The call does not
    /// wait.
    pub(crate) fn claim(&self, asking: Asking) -> Claim {
        let mut state = self.register.state.borrow_mut();
        if state.won == Some(asking.generation + 1) {
            return Claim::Won;
        }
        let waiting = state.waiting();
        match std::mem::take(&mut state.claim) {
            Progress::Overtaken => Claim::Overtaken,
            Progress::UnderWay => {
                state.claim = Progress::UnderWay;
                waiting
            }
            Progress::Idle => {
                state.claim = Progress::UnderWay;
                drop(state);
                self.begin(self.register.clone().claim_record(asking));
                waiting
            }
        }
    }

    /// Writes the next generation of the pool, without a mirror, into the record. `may_found`: the record is lost, and
    /// so is the mirror. Returns the record; `None`: the record binds the pool to no mirror.
    pub(crate) async fn detach(
        &self,
        asking: Asking,
        may_found: bool,
    ) -> Result<Option<StandingRecord>, StandingFault> {
        self.register.detach(asking, may_found).await
    }

    fn begin(&self, work: impl Future<Output = ()> + 'static) {
        self.work.borrow_mut().push(Box::pin(work));
    }
}
