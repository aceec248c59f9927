//! The sender's side of appends.

use std::cell::Cell;
use std::rc::Rc;

use smallvec::SmallVec;

use super::AppendTerms;
use crate::{DeviceError, LocalSpan, Operation, Port, QueuePair, Status};

/// Appends to the memory of one receiver, and pays with the credits that the receiver has granted.
pub struct Appender {
    port: Rc<Port>,
    qp: QueuePair,
    terms: AppendTerms,
    credits: Cell<u64>,
}

/// The reason why nothing was appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The receiver has not granted enough credits: ask it for more and try again.
    #[error("an append of {cost} credits, and only {left} are left: the receiver must grant more")]
    NoCredit {
        /// The cost of the append.
        cost: u64,
        /// The credits left.
        left: u64,
    },
    /// The device refused all of the messages.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl Appender {
    /// Appends through `qp`, whose peer takes its receive buffers from an [`AppendQueue`](super::AppendQueue) with
    /// these terms. A new appender has no credit.
    pub fn new(port: Rc<Port>, qp: QueuePair, terms: AppendTerms) -> Self {
        Self {
            port,
            qp,
            terms,
            credits: Cell::new(0),
        }
    }

    /// Adds credits that the receiver has granted. Their number comes from the peer, so any value is possible.
    pub fn add_credits(&self, granted: u64) {
        self.credits.set(self.credits.get().saturating_add(granted));
    }

    /// The credits left.
    pub fn credits(&self) -> u64 {
        self.credits.get()
    }

    /// Credits that an entry of `size` bytes costs.
    pub fn cost(&self, size: u32) -> u64 {
        let whole = size / self.terms.message_size_max;
        let rest = size % self.terms.message_size_max;
        let wholes = u64::from(whole) * self.terms.cost(self.terms.message_size_max);
        if rest > 0 || whole == 0 {
            wholes + self.terms.cost(rest)
        } else {
            wholes
        }
    }

    /// Appends an entry and waits until the receiver's device has it: as one message, or as several in a row if the
    /// entry is longer than a message. `entry` belongs to the device until then, even if the future is dropped earlier.
    ///
    /// Success means that the entry is *accepted*: neither visible nor persisted. After a failure any part of the entry
    /// may lie in the memory.
    ///
    /// # Errors
    ///
    /// Nothing was appended and no credit was used.
    pub async fn append(&self, entry: LocalSpan) -> Result<Status, AppendError> {
        let mut sends: SmallVec<[Operation; 4]> = SmallVec::new();
        // The credits are paid before the first wait, so that concurrent appends do not spend the same credits.
        self.stage(entry, &mut sends)?;
        match self.port.submit(self.qp, &sends).await {
            Ok(status) => Ok(status),
            Err(refused) => {
                self.add_credits(self.cost(entry.size));
                Err(refused.into())
            }
        }
    }

    /// Pays for an entry and adds its messages to `batch`, which the caller posts to the queue pair. Meant for entries
    /// that share a doorbell, or for a READ after them. `entry` belongs to the device until that batch has ended.
    ///
    /// # Errors
    ///
    /// [`AppendError::NoCredit`]: nothing was added and no credit was used.
    pub fn stage(
        &self,
        entry: LocalSpan,
        batch: &mut impl Extend<Operation>,
    ) -> Result<(), AppendError> {
        let (cost, left) = (self.cost(entry.size), self.credits.get());
        if cost > left {
            return Err(AppendError::NoCredit { cost, left });
        }
        batch.extend(self.messages(entry).map(|local| Operation::Send { local }));
        self.credits.set(left - cost);
        Ok(())
    }

    /// The messages that carry an entry.
    fn messages(&self, entry: LocalSpan) -> impl Iterator<Item = LocalSpan> {
        let longest = self.terms.message_size_max;
        let count = entry.size.div_ceil(longest).max(1);
        (0..count).map(move |index| LocalSpan {
            region: entry.region,
            offset: entry.offset + u64::from(index) * u64::from(longest),
            size: (entry.size - index * longest).min(longest),
        })
    }
}
