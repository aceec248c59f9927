//! The features of a pool that its records need.

use std::rc::Rc;

use crate::pool::SharedHeader;
use crate::{Backing, MediaError};

/// A feature that a program has to know before it may read the records of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFeature {
    /// Records may be of a batch, and count only together.
    Batches,
    /// Records may hold a chunk of a value, or name chunks.
    Chunks,
}

/// The place in the header of a pool that names the features of its records, for a part of the program that does not
/// own the pool.
#[derive(Clone)]
pub struct RecordFeatures {
    backing: Rc<dyn Backing>,
    header: SharedHeader,
}

impl RecordFeatures {
    pub(super) fn new(backing: Rc<dyn Backing>, header: SharedHeader) -> Self {
        Self { backing, header }
    }

    /// Whether records of the pool may need `feature`.
    pub fn has(&self, feature: RecordFeature) -> bool {
        self.header.read(|header| header.has(feature))
    }

    /// Gives the pool `feature`, durably, unless it has the feature. From then on, programs that do not know the
    /// feature refuse the pool instead of misreading records. A crash during the call leaves the pool with the feature,
    /// or without.
    ///
    /// # Errors
    /// The medium failed. The next opening finds the pool with the feature, or without.
    pub fn set(&self, feature: RecordFeature) -> Result<(), MediaError> {
        match self.has(feature) {
            true => Ok(()),
            false => self
                .header
                .change(&*self.backing, |header| header.with(feature)),
        }
    }
}
