//! The appender's half.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use stonecast_base::mutant;
use stonecast_fabric::append::{AppendTerms, Appender as Sender};
use stonecast_fabric::{LocalSpan, Operation, Port, QueuePair, RemoteAddress};

use super::agreement::{Agreement, NoAgreement};
use super::pipeline::{AppendFailure, NotAppended, Pipeline, Standing, WrongAnswer};
use super::steps::{AppenderSteps, Until};
use crate::execute::placing::{Side, check_placing};
use crate::execute::witness::{Concluded, Persisted, Planned};
use crate::program::Program;

/// The path to a receiver: the store's own connection.
#[derive(Clone)]
pub struct Route {
    /// The port of the queue pair.
    pub port: Rc<Port>,
    /// The queue pair, whose peer takes its receive buffers from an append queue.
    pub qp: QueuePair,
    /// 8 bytes of registered memory for the bytes that READs bring. No code looks at them.
    pub scratch: LocalSpan,
    /// The target of READs.
    pub flush: RemoteAddress,
}

impl Route {
    pub(super) fn read(&self) -> Operation {
        Operation::Read {
            local: self.scratch,
            remote: self.flush,
        }
    }
}

/// Entries that go out as SENDs.
struct Entries {
    route: Route,
    sender: Sender,
    steps: AppenderSteps,
    pipeline: Pipeline,
}

impl Entries {
    fn new(route: Route, terms: AppendTerms, program: &Program) -> Self {
        let (port, qp) = (route.port.clone(), route.qp);
        let sender = Sender::new(port.clone(), qp, terms);
        let steps = AppenderSteps::of(program);
        let pipeline = Pipeline::new(port, qp, steps.until == Until::Answered);
        Self {
            route,
            sender,
            steps,
            pipeline,
        }
    }

    fn append(&mut self, entry: LocalSpan) -> Result<u64, NotAppended> {
        self.pipeline.append(|batch| {
            if self.steps.sends {
                self.sender.stage(entry, batch)?;
            }
            Ok(())
        })
    }

    fn flush(&mut self) -> Result<(), NotAppended> {
        let reads = self.steps.reads && !mutant!(AppendsNotFlushed);
        let read = reads.then(|| self.route.read());
        self.pipeline.flush(read, self.steps.until)
    }
}

/// Appends to one receiver, durably, any number at a time: entries are gathered, go out together with
/// [`flush`](Appender::flush), and are concluded in their order, each once.
///
/// Entries belong to the device from [`Appender::append`] until they are concluded, or until the queue pair is
/// destroyed, even if this value is dropped earlier.
pub struct Appender {
    entries: Entries,
    planned: Planned,
}

impl Appender {
    /// Appends through `qp` of `port`, as agreed. A new appender has no credit. `scratch` is 8 bytes of registered
    /// memory for the bytes that READs bring. The queue pair takes the requests of all batches under way, one for each
    /// message and one for each flush.
    ///
    /// # Errors
    /// [`NoAgreement::Placing`]: the device of `port` leaves entries in a cache, and the receiver declared that they go
    /// to memory.
    pub fn new(
        port: Rc<Port>,
        qp: QueuePair,
        scratch: LocalSpan,
        agreement: &Agreement,
    ) -> Result<Self, NoAgreement> {
        check_placing(agreement.plan(), port.device().placing(), Side::Requester)?;
        let receiving = agreement.receiving();
        let route = Route {
            port,
            qp,
            scratch,
            flush: receiving.flush,
        };
        let program = agreement.plan().program();
        Ok(Self {
            entries: Entries::new(route, receiving.terms, program),
            planned: agreement.planned(),
        })
    }

    /// Takes credits that the receiver has granted.
    pub fn add_credits(&self, granted: u64) {
        self.entries.sender.add_credits(granted);
    }

    /// The credits left.
    pub fn credits(&self) -> u64 {
        self.entries.sender.credits()
    }

    /// Credits that an entry of `size` bytes costs.
    pub fn cost(&self, size: u32) -> u64 {
        self.entries.sender.cost(size)
    }

    /// Takes an entry, and returns its number: 1 for the first entry of this connection. The next [`Appender::flush`]
    /// sends the entry, with one doorbell for all entries since the last flush.
    ///
    /// # Errors
    /// Nothing was taken; [`NotAppended`] says why.
    pub fn append(&mut self, entry: LocalSpan) -> Result<u64, NotAppended> {
        self.entries.append(entry)
    }

    /// Sends all entries that were taken, and after them the requests that make them durable. The call does not wait;
    /// the caller may append and flush more at once.
    ///
    /// # Errors
    /// [`NotAppended::Refused`]: nothing was sent, and the entries wait for the next call. A batch that does not fit
    /// the empty queue pair never goes: a store flushes before it has taken so many.
    pub fn flush(&mut self) -> Result<(), NotAppended> {
        self.entries.flush()
    }

    /// Takes the receiver's answer, which the store has found among its messages. After a failure the call changes
    /// nothing, so a store passes on all answers that have arrived before it reports the end of the connection with
    /// [`Appender::fail`].
    ///
    /// # Errors
    /// [`WrongAnswer`], with which the connection has failed.
    pub fn answered(&mut self, number: u64) -> Result<(), WrongAnswer> {
        self.entries.pipeline.answered(number)
    }

    /// Notes that the connection ended, for `cause`. Entries whose batches have not succeeded when the failure is
    /// reported become unknown.
    pub fn fail(&mut self, cause: &str) {
        self.entries.pipeline.fail(cause.to_owned());
    }

    /// The next entry that is persisted: numbers come in order, each once.
    ///
    /// # Errors
    /// [`AppendFailure`], after all entries that are persisted were given out.
    pub fn poll_persisted(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(u64, Persisted), AppendFailure>> {
        let concluded = self.entries.pipeline.poll_concluded(context);
        concluded.map_ok(|(number, concluded)| (number, Persisted::by(&self.planned, concluded)))
    }

    /// Waits for the next entry that is persisted; see [`Appender::poll_persisted`]. Dropping the future loses nothing.
    pub async fn persisted(&mut self) -> Result<(u64, Persisted), AppendFailure> {
        poll_fn(|context| self.poll_persisted(context)).await
    }

    /// The progress of the entries.
    pub fn standing(&self) -> Standing {
        self.entries.pipeline.standing()
    }
}

/// Runs any program, even one that keeps no promise, to measure the program and to show that it loses entries.
pub struct AppendRehearsal(Entries);

impl AppendRehearsal {
    /// Appends by `route` to a receiver of `terms` that rehearses the same program.
    pub fn new(route: Route, terms: AppendTerms, program: &Program) -> Self {
        Self(Entries::new(route, terms, program))
    }

    /// Takes credits that the receiver has granted, as [`Appender::add_credits`] does.
    pub fn add_credits(&self, granted: u64) {
        self.0.sender.add_credits(granted);
    }

    /// Takes an entry, and returns its number, as [`Appender::append`] does.
    pub fn append(&mut self, entry: LocalSpan) -> Result<u64, NotAppended> {
        self.0.append(entry)
    }

    /// Sends all entries that were taken, as [`Appender::flush`] does.
    pub fn flush(&mut self) -> Result<(), NotAppended> {
        self.0.flush()
    }

    /// Takes the receiver's answer, as [`Appender::answered`] does.
    pub fn answered(&mut self, number: u64) -> Result<(), WrongAnswer> {
        self.0.pipeline.answered(number)
    }

    /// Notes that the connection ended, as [`Appender::fail`] does.
    pub fn fail(&mut self, cause: &str) {
        self.0.pipeline.fail(cause.to_owned());
    }

    /// The next entry whose steps have ended, which promises nothing; otherwise like [`Appender::poll_persisted`].
    pub fn poll_concluded(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(u64, Concluded), AppendFailure>> {
        self.0.pipeline.poll_concluded(context)
    }
}
