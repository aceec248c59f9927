//! The owner of a tenure: executes operations, and makes the records of its log.

use std::collections::VecDeque;

use stonecast_base::{Span, mutant};

use crate::backend::{Grant, Territory};
use crate::execution::{DomainState, Executed, Execution};
use crate::shapes::{Answer, ExecuteFault, ReadRoots, Roots, Stale, Step, Traversal, drive};
use crate::space::{Allocator, Recall, SlabGeometry, Workspace};
use crate::tenure::{Append, LogFull, TenureWriter};
use crate::wire::{BODY_SIZE_MAX, Kind, LogKey, Operation, record_size};

/// The owner of a tenure. It reads the memory of the domain through a function of the caller, and hands out records,
/// which the caller writes to the log.
///
/// An operation is executed before its record exists. Its answer is known at once, and counts when the record is
/// durable and the tenure still lasts.
#[derive(Clone, Debug)]
pub struct DomainWriter {
    log: TenureWriter,
    state: DomainState,
    /// The last operations of publications that are not applied, oldest first.
    published: VecDeque<u64>,
}

/// An operation that was staged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged {
    /// The answer to the operation.
    pub answer: Answer,
    /// The number of the operation.
    pub number: u64,
    /// Its record; `None`: the operation with this token was done before, under this number.
    pub record: Option<Append>,
}

/// The staging of one operation: a walk over the pool's memory, at whose end the operation is staged. Nothing changes
/// before the end.
#[derive(Debug)]
pub struct Staging<'a> {
    log: &'a mut TenureWriter,
    operation: Operation<'a>,
    /// Bytes of the open transaction.
    open: usize,
    execution: Execution<'a>,
}

/// The reason why an operation is not staged. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StageFault {
    /// The operation cannot be executed.
    #[error(transparent)]
    Execute(#[from] ExecuteFault),
    /// The log has no room for the operation and the transaction that publishes it. The transaction has to be
    /// published, and the log to be trimmed.
    #[error(transparent)]
    LogFull(#[from] LogFull),
    /// The open transaction would be too long: it has to be published first.
    #[error("a transaction of {size} bytes, expected at most {BODY_SIZE_MAX}")]
    TransactionFull {
        /// Bytes of the transaction with this operation.
        size: usize,
    },
    /// No record takes the operation, or no log of the pool takes it with the transaction that publishes it.
    #[error("an operation of {size} bytes, expected at most {size_max}")]
    Long {
        /// Bytes of the operation, or of both records.
        size: u64,
        /// Bytes of the longest operation, or of the log.
        size_max: u64,
    },
}

impl DomainWriter {
    /// Begins a tenure. `read` reads memory of the domain, in which everything is applied, and returns `None` for other
    /// places.
    ///
    /// # Errors
    /// [`Stale`]: the table of structures is damaged.
    ///
    /// # Panics
    /// If `read` refuses a slab of the domain.
    pub fn new(
        key: LogKey,
        domain: u32,
        (grant, territory): (Grant, &Territory),
        read: &mut dyn FnMut(Span) -> Option<Vec<u8>>,
    ) -> Result<Self, Stale> {
        let roots = drive(ReadRoots::new(key, domain, territory.root), &mut *read)?;
        let geometry = territory.geometry;
        let bits = |slab: &u64| Span::new(geometry.slab(*slab).offset, geometry.bits_size());
        let slabs = territory.slabs.iter().map(|slab| {
            let bits = read(bits(slab)).expect("the slab is the domain's");
            (*slab, bits)
        });
        Ok(Self::with(key, grant, geometry, slabs, roots))
    }

    /// Begins a tenure with bytes that were read: the bits of each slab, and the table of structures.
    pub(crate) fn with(
        key: LogKey,
        grant: Grant,
        geometry: SlabGeometry,
        slabs: impl IntoIterator<Item = (u64, impl AsRef<[u8]>)>,
        roots: Roots,
    ) -> Self {
        let mut allocator = Allocator::new(geometry);
        for (slab, bits) in slabs {
            allocator.add_slab(slab, bits.as_ref());
        }
        let start = grant.start;
        Self {
            log: TenureWriter::new(key, grant.area, start, start.position),
            state: DomainState::new(allocator, roots),
            published: VecDeque::new(),
        }
    }

    /// Notes that the domain has got another slab, all of whose units are free.
    pub fn add_slab(&mut self, slab: u64) {
        self.state.workspace_mut().add_empty_slab(slab);
    }

    /// The structures, created ones included.
    pub fn roots(&self) -> &Roots {
        self.state.roots()
    }

    /// The end of the log.
    pub fn log(&self) -> &TenureWriter {
        &self.log
    }

    /// Notes that records below this position are no longer needed.
    pub fn note_trimmed(&mut self, position: u64) {
        self.log.note_trimmed(position);
    }

    /// Operations that are staged and not in a transaction.
    pub fn waiting(&self) -> u64 {
        let chain = self.log.chain();
        chain.operation - chain.covered
    }

    /// Begins to execute an operation on everything staged before it. The traversal reads the pool's memory as it lies
    /// there.
    ///
    /// # Errors
    /// [`StageFault`]: nothing was changed.
    pub fn staging<'a>(&'a mut self, operation: &Operation<'a>) -> Result<Staging<'a>, StageFault> {
        let size = operation.size();
        if size > BODY_SIZE_MAX {
            return Err(StageFault::Long {
                size: size as u64,
                size_max: BODY_SIZE_MAX as u64,
            });
        }
        let chain = self.log.chain();
        let numbers = (chain.lsn, chain.operation + 1);
        Ok(Staging {
            open: self.state.workspace().open_size(),
            execution: self.state.execute(operation, numbers)?,
            log: &mut self.log,
            operation: *operation,
        })
    }

    /// Begins to execute an operation that was staged before, perhaps in an earlier tenure, for the first time after
    /// the operation `since`. If it was done, its first answer is given again.
    ///
    /// # Errors
    /// As [`DomainWriter::staging`]. [`ExecuteFault::Forgotten`]: the result of the first try would not be kept any
    /// more.
    pub fn staging_again<'a>(
        &'a mut self,
        operation: &Operation<'a>,
        since: u64,
    ) -> Result<Staging<'a>, StageFault> {
        let staging = self.staging(operation)?;
        Ok(Staging {
            execution: staging.execution.retried(since),
            ..staging
        })
    }

    /// Executes an operation on everything staged before it, with reads in the call. `read` returns `None` for places
    /// that do not belong to the domain.
    ///
    /// # Errors
    /// [`StageFault`]: nothing was changed.
    pub fn stage(
        &mut self,
        operation: &Operation<'_>,
        read: &mut dyn FnMut(Span) -> Option<Vec<u8>>,
    ) -> Result<Staged, StageFault> {
        let staging = self.staging(operation)?;
        drive(staging, read).map_err(ExecuteFault::from)?
    }

    /// A walk over the domain as it is with everything staged. It asks for words that the writer does not know.
    pub fn recalling<T: Traversal>(&mut self, traversal: T) -> impl Traversal<End = T::End> {
        Recalling {
            workspace: self.state.workspace_mut(),
            recall: Recall::default(),
            traversal,
        }
    }

    /// Makes the transaction that publishes everything staged; `None`: nothing is staged.
    pub fn publish(&mut self) -> Option<Append> {
        let waiting = self.waiting();
        if waiting == 0 {
            return None;
        }
        let entries = self.state.workspace_mut().close();
        let last = self.log.chain().operation;
        self.published.push_back(last);
        let kind = Kind::Transaction {
            last,
            covers: waiting as u32,
        };
        let record = self.log.append(kind, entries.body(), 0);
        Some(record.expect("each operation has reserved the room"))
    }

    /// Forgets the known words of the pool's memory, for a caller with a cache of its own. Such a caller puts published
    /// words that are not applied over the words that it reads.
    ///
    /// # Panics
    /// If an operation is staged and not published.
    pub fn forget(&mut self) {
        assert_eq!(self.waiting(), 0, "staged words are known here alone");
        self.state.workspace_mut().forget();
        self.published.clear();
    }

    /// Notes that operations up to this number are applied. Words that no later publication and no staged operation has
    /// written are those of the pool from now on.
    pub fn note_applied(&mut self, operation: u64) {
        while self
            .published
            .front()
            .is_some_and(|last| *last <= operation)
        {
            self.published.pop_front();
            self.state.workspace_mut().note_applied();
        }
    }
}

impl Staging<'_> {
    fn staged(&mut self, executed: Executed<'_>) -> Result<Staged, StageFault> {
        let changes = match executed {
            Executed::Now(changes) => changes,
            Executed::Before { answer, number } => {
                let record = None;
                return Ok(Staged {
                    answer,
                    number,
                    record,
                });
            }
        };
        let size = self.open + changes.size_max();
        if size > BODY_SIZE_MAX {
            return Err(StageFault::TransactionFull { size });
        }
        let number = self.log.chain().operation + 1;
        let kind = Kind::Operation { number };
        let reserved = match mutant!(RoomNotReserved) {
            true => 0,
            false => record_size(size),
        };
        let record = self.log.append(kind, &self.operation.encode(), reserved)?;
        let answer = changes.answer.clone();
        changes.commit();
        Ok(Staged {
            answer,
            number,
            record: Some(record),
        })
    }
}

/// A walk of a writer; see [`DomainWriter::recalling`].
struct Recalling<'a, T> {
    workspace: &'a mut Workspace,
    recall: Recall,
    traversal: T,
}

impl<T: Traversal> Traversal for Recalling<'_, T> {
    type End = T::End;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<T::End> {
        self.workspace.take(&mut self.recall, bytes);
        loop {
            let places = match self.traversal.step(self.recall.bytes()) {
                Step::Read(places) => places,
                end => return end,
            };
            if let Some(missing) = self.workspace.ask(&mut self.recall, &places) {
                return Step::Read(missing);
            }
        }
    }
}

impl Traversal for Staging<'_> {
    type End = Result<Staged, StageFault>;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Self::End> {
        match self.execution.step(bytes) {
            Step::Read(places) => Step::Read(places),
            Step::Stale(stale) => Step::Stale(stale),
            Step::Done(Err(fault)) => Step::Done(Err(fault.into())),
            Step::Done(Ok(executed)) => Step::Done(self.staged(executed)),
        }
    }
}
