//! The mark of a pool that has batches.

use std::rc::Rc;

use crate::pool::SharedHeader;
use crate::{Backing, MediaError};

/// The place in the header of a pool that says whether records may be of a batch, for a part of the program that does
/// not own the pool.
#[derive(Clone)]
pub struct BatchMark {
    backing: Rc<dyn Backing>,
    header: SharedHeader,
}

impl BatchMark {
    pub(super) fn new(backing: Rc<dyn Backing>, header: SharedHeader) -> Self {
        Self { backing, header }
    }

    /// Marks the pool, durably, unless it has the mark. From then on, programs that do not know batches refuse the pool
    /// instead of counting a part of a batch. A crash during the call leaves the pool with the mark, or without.
    ///
    /// # Errors
    /// The medium failed. The next opening finds the pool with the mark, or without.
    pub fn set(&self) -> Result<(), MediaError> {
        match self.header.read(|header| header.is_batched()) {
            true => Ok(()),
            false => self
                .header
                .change(&*self.backing, |header| header.batched()),
        }
    }
}
