//! The receiver's half, which makes arrived entries durable, and answers each sender.

use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_base::{Span, mutant};
use stonecast_fabric::QueuePair;
use stonecast_media::{Durability, PersistError, PersistentRegion, persist_spans};

use super::agreement::{append_plan, check_receiver};
use super::steps::ReceiverSteps;
use crate::execute::error::ExecuteError;
use crate::platform::Platform;
use crate::program::Program;

/// The receiver's part of the plan, for any number of senders. If the plan is one-sided, the receiver does nothing, and
/// the store need not look for arrivals.
///
/// A store calls it in its loop:
///
/// 1. [`AppendReceiver::arrived`] for each entry that it has found whole, by its tag or by the completion of its
///    receive.
/// 2. [`AppendReceiver::persist`] once for all of them: one write-back and fence, or one sync.
/// 3. [`AppendReceiver::take_answers`], and sends each number to its sender, which hands it to
///    [`Appender::answered`](super::Appender::answered).
pub struct AppendReceiver {
    region: Rc<dyn PersistentRegion>,
    steps: ReceiverSteps,
    senders: BTreeMap<QueuePair, Sender>,
    /// Entries that have arrived and are not durable.
    spans: Vec<Span>,
    failed: bool,
}

/// The progress of a sender's entries, by number.
#[derive(Clone, Copy, Default)]
struct Sender {
    arrived: u64,
    durable: u64,
    answered: u64,
}

/// An entry is not the next entry of its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "entry {found} of {sender:?} where entry {expected} comes next; end its connection and read what it has appended"
)]
pub struct OutOfOrder {
    /// The sender.
    pub sender: QueuePair,
    /// The number of the entry.
    pub found: u64,
    /// The number after that of the entry before.
    pub expected: u64,
}

impl AppendReceiver {
    /// The receiver of entries that land in `region`, which is declared to be `platform`. The entries have to survive
    /// the failure `durability`. [`Receiving`](super::Receiving) states the same to appenders.
    ///
    /// # Errors
    /// [`ExecuteError::NoPlan`] if no entry survives; [`ExecuteError::Medium`] if `region` is not as declared.
    pub fn new(
        region: Rc<dyn PersistentRegion>,
        platform: &Platform,
        durability: Durability,
    ) -> Result<Self, ExecuteError> {
        let plan = append_plan(platform, durability)?;
        check_receiver(platform, durability, region.means())?;
        Ok(Self::rehearsing(region, plan.program()))
    }

    /// Runs any program, even one that keeps no promise. Its senders are [`AppendRehearsal`](super::AppendRehearsal)s.
    pub fn rehearsing(region: Rc<dyn PersistentRegion>, program: &Program) -> Self {
        Self {
            region,
            steps: ReceiverSteps::of(program),
            senders: BTreeMap::new(),
            spans: Vec::new(),
            failed: false,
        }
    }

    /// Whether senders wait for answers. If they do not, the other calls do nothing.
    pub fn answers(&self) -> bool {
        self.steps.answers
    }

    /// Notes that entry `number` of `sender` lies whole in `places` of the region: one place for each of its messages,
    /// as messages of other senders may lie between them. Numbers count the entries of one connection, from 1. The
    /// caller has read all bytes of the entry, or has seen the completions of its receives: either shows that the whole
    /// entry is visible.
    ///
    /// # Errors
    /// [`OutOfOrder`], and nothing has changed: an answer is about all entries up to a number, so no entry may be left
    /// out.
    pub fn arrived(
        &mut self,
        sender: QueuePair,
        number: u64,
        places: &[Span],
    ) -> Result<(), OutOfOrder> {
        if !self.steps.answers {
            return Ok(());
        }
        let known = self.senders.entry(sender).or_default();
        let expected = known.arrived + 1;
        if number != expected {
            return Err(OutOfOrder {
                sender,
                found: number,
                expected,
            });
        }
        known.arrived = number;
        if self.steps.writes_back {
            self.spans.extend_from_slice(places);
        }
        Ok(())
    }

    /// Notes that an entry lies whole in `places` of the region, for a store that keeps account of the answers itself.
    /// [`AppendReceiver::persist`] makes all of these places durable.
    pub fn take(&mut self, places: &[Span]) {
        if self.steps.writes_back {
            self.spans.extend_from_slice(places);
        }
    }

    /// Makes all arrived entries durable, as the plan says. A crash in the middle leaves any part of them. A future
    /// that is dropped half-way leaves the entries to the next call.
    ///
    /// # Errors
    /// The medium failed, and each of the entries may be durable or not. No answer covers them, and none may be
    /// persisted after: a second sync says nothing about the bytes that the first one lost.
    ///
    /// # Panics
    /// After a failure.
    pub async fn persist(&mut self) -> Result<(), PersistError> {
        assert!(!self.failed, "the medium has failed");
        if !self.spans.is_empty() && !mutant!(AppendsNotWrittenBack) {
            let persisted = persist_spans(&*self.region, &self.spans).await;
            self.failed = persisted.is_err();
            persisted?;
            self.spans.clear();
        }
        for sender in self.senders.values_mut() {
            sender.durable = sender.arrived;
        }
        Ok(())
    }

    /// The answers that are new since the last call: for each sender, the number up to which all its entries are
    /// durable. Each answer is given once. If the caller cannot send an answer, the connection has to end, because the
    /// sender would wait forever.
    pub fn take_answers(&mut self) -> impl Iterator<Item = (QueuePair, u64)> {
        let news = |sender: &mut Sender| {
            let is_new = sender.durable > sender.answered;
            sender.answered = sender.durable;
            is_new.then_some(sender.durable)
        };
        self.senders
            .iter_mut()
            .filter_map(move |(qp, sender)| Some((*qp, news(sender)?)))
    }

    /// Forgets a sender whose connection has ended. A queue pair of the same name begins again at entry 1.
    pub fn forget(&mut self, sender: QueuePair) {
        self.senders.remove(&sender);
    }
}
