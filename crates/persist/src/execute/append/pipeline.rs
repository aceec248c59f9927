//! Entries on their way: gathered, posted in batches, and concluded in their order.
//!
//! ```text
//!   given  <=  concluded  <=  posted  <=  appended            numbers of entries
//!           persisted     unknown     never sent              after a failure
//! ```

use std::collections::VecDeque;
use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use stonecast_fabric::append::AppendError;
use stonecast_fabric::{DeviceError, Operation, Port, QueuePair, Status};

use super::steps::Until;
use crate::execute::witness::Concluded;

type Completion = Pin<Box<dyn Future<Output = Result<Status, DeviceError>>>>;

/// The reason why an entry was not taken. Nothing was done, and the entry has no number.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotAppended {
    /// The receiver has not granted enough credits.
    #[error(transparent)]
    NoCredit(#[from] AppendError),
    /// The connection failed before.
    #[error("the connection of this appender has failed: {0}; connect again")]
    Ended(String),
    /// The device refused the batch. Its entries stay gathered, and a later flush tries again.
    #[error(transparent)]
    Refused(DeviceError),
}

/// The progress of an appender's entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// All entries up to this number are persisted.
    pub persisted: u64,
    /// These entries were handed to the device and are not known to be persisted. While the connection lives, they are
    /// under way. After it has failed, each of them may be persisted, or may become so until the receiver has quiesced
    /// this sender.
    pub unknown: RangeInclusive<u64>,
    /// These entries were never sent.
    pub never_sent: RangeInclusive<u64>,
}

/// The connection failed, and no more entries will be concluded. All entries that are persisted were given out before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the appends did not end well ({cause}): entries up to {} are persisted, {} may be, {} were never sent; connect again, and ask \
     the receiver what it has", standing.persisted, count(&standing.unknown), count(&standing.never_sent)
)]
pub struct AppendFailure {
    /// The progress of the entries.
    pub standing: Standing,
    /// The cause of the failure.
    pub cause: String,
}

fn count(numbers: &RangeInclusive<u64>) -> u64 {
    numbers.end() + 1 - numbers.start()
}

/// A receiver's answer that makes no sense. The connection has failed with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an answer up to entry {found}, after one up to {answered}, where {posted} were sent")]
pub struct WrongAnswer {
    /// The number in the answer.
    pub found: u64,
    /// The number in the answer before.
    pub answered: u64,
    /// The number of entries that were sent and may be answered.
    pub posted: u64,
}

/// Entries that were posted together.
struct Batch {
    /// The number of the last entry.
    last: u64,
    /// The end of its entries.
    until: Until,
    /// `None` once the batch has completed.
    completion: Option<Completion>,
}

/// The entries of one connection.
pub(super) struct Pipeline {
    port: Rc<Port>,
    qp: QueuePair,
    /// Whether the receiver answers at all.
    awaits_answers: bool,
    /// Requests that were not posted.
    batch: Vec<Operation>,
    /// Batches whose entries are not concluded, oldest first.
    under_way: VecDeque<Batch>,
    reached: Reached,
    failure: Option<String>,
    waker: Option<Waker>,
}

/// The numbers up to which all entries have reached each stage.
#[derive(Default)]
struct Reached {
    appended: u64,
    posted: u64,
    /// Entries of batches that have ended.
    ended: u64,
    answered: u64,
    given: u64,
}

impl Pipeline {
    pub fn new(port: Rc<Port>, qp: QueuePair, awaits_answers: bool) -> Self {
        Self {
            port,
            qp,
            awaits_answers,
            batch: Vec::new(),
            under_way: VecDeque::new(),
            reached: Reached::default(),
            failure: None,
            waker: None,
        }
    }

    /// Takes an entry, whose requests `stage` adds to the batch.
    pub fn append(
        &mut self,
        stage: impl FnOnce(&mut Vec<Operation>) -> Result<(), NotAppended>,
    ) -> Result<u64, NotAppended> {
        self.check()?;
        stage(&mut self.batch)?;
        self.reached.appended += 1;
        Ok(self.reached.appended)
    }

    /// Whether entries wait to be posted.
    pub fn has_gathered(&self) -> bool {
        self.reached.posted < self.reached.appended
    }

    /// Requests that were not posted.
    pub fn gathered_requests(&self) -> usize {
        self.batch.len()
    }

    /// Posts the batch, and `behind` after the batch. Its entries end with `until`.
    pub fn flush(
        &mut self,
        behind: impl IntoIterator<Item = Operation>,
        until: Until,
    ) -> Result<(), NotAppended> {
        self.check()?;
        if !self.has_gathered() {
            return Ok(());
        }
        let entries = self.batch.len();
        self.batch.extend(behind);
        let operations: Rc<[Operation]> = self.batch.as_slice().into();
        let (port, qp) = (self.port.clone(), self.qp);
        let mut completion: Completion =
            Box::pin(async move { port.submit(qp, &operations).await });
        // The first poll posts. A result that it returns at once is kept like a later one.
        let first = completion
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        let kept = match first {
            Poll::Ready(Err(refused)) => {
                self.batch.truncate(entries);
                return Err(NotAppended::Refused(refused));
            }
            Poll::Ready(result) => Box::pin(std::future::ready(result)),
            Poll::Pending => completion,
        };
        self.batch.clear();
        self.reached.posted = self.reached.appended;
        if until == Until::Posted {
            self.reached.ended = self.reached.posted;
        }
        self.under_way.push_back(Batch {
            last: self.reached.posted,
            until,
            completion: Some(kept),
        });
        self.wake();
        Ok(())
    }

    /// Takes the receiver's answer that all entries up to `number` are durable. After a failure, whether it was
    /// reported or not, the answer is ignored.
    pub fn answered(&mut self, number: u64) -> Result<(), WrongAnswer> {
        if self.failure.is_some() {
            return Ok(());
        }
        let Reached {
            posted, answered, ..
        } = self.reached;
        if !self.awaits_answers || number < answered || number > posted {
            let wrong = WrongAnswer {
                found: number,
                answered,
                posted,
            };
            self.fail(wrong.to_string());
            return Err(wrong);
        }
        self.reached.answered = number;
        self.wake();
        Ok(())
    }

    /// Notes that the connection has ended.
    pub fn fail(&mut self, cause: String) {
        self.failure.get_or_insert(cause);
        self.wake();
    }

    /// The next entry that is concluded.
    pub fn poll_concluded(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(u64, Concluded), AppendFailure>> {
        self.advance(context);
        if self.reached.given < self.concluded() {
            self.reached.given += 1;
            return Poll::Ready(Ok((self.reached.given, Concluded::at_the_end())));
        }
        if let Some(cause) = self.failure.clone() {
            // The standing that was reported stays, even if a later batch succeeds.
            self.under_way.clear();
            let standing = self.standing();
            return Poll::Ready(Err(AppendFailure { standing, cause }));
        }
        self.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Takes the ends of batches, oldest first: they come in the order of posting.
    fn advance(&mut self, context: &mut Context<'_>) {
        for batch in &mut self.under_way {
            let Some(completion) = &mut batch.completion else {
                continue;
            };
            let Poll::Ready(ended) = completion.as_mut().poll(context) else {
                break;
            };
            let cause = match ended {
                Ok(Status::Success) => {
                    batch.completion = None;
                    continue;
                }
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            };
            // No entry after a gap is concluded, even if a later batch ends well.
            self.take_ended();
            self.under_way.clear();
            return self.fail(cause);
        }
        self.take_ended();
    }

    /// Takes the batches at the front that have ended. The completion shows that their bytes may be used again; an
    /// answer, that the entries are durable.
    fn take_ended(&mut self) {
        let answered = self.reached.answered;
        while let Some(batch) = self.under_way.front()
            && batch.completion.is_none()
            && (batch.until != Until::Answered || batch.last <= answered)
        {
            self.reached.ended = self.reached.ended.max(batch.last);
            self.under_way.pop_front();
        }
    }

    fn concluded(&self) -> u64 {
        let Reached {
            ended, answered, ..
        } = self.reached;
        match self.failure {
            // An answer that arrived before counts, with any outcome of the batch.
            Some(_) => ended.max(answered),
            None => ended,
        }
    }

    pub fn standing(&self) -> Standing {
        let persisted = self.concluded();
        Standing {
            persisted,
            unknown: persisted + 1..=self.reached.posted,
            never_sent: self.reached.posted + 1..=self.reached.appended,
        }
    }

    fn check(&self) -> Result<(), NotAppended> {
        let ended = |cause: &String| Err(NotAppended::Ended(cause.clone()));
        self.failure.as_ref().map_or(Ok(()), ended)
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
