//! The mark of the server's time.
//!
//! A server compares the expiry of keys with its time. Whoever has been told that a key is absent must not meet the key
//! again, so the server's time must not go back, whatever happens to the machine's clock. The mark bounds the time from
//! above while the server runs, and from below after the next start.

use std::rc::Rc;

use crate::pool::SharedHeader;
use crate::{Backing, MediaError};

/// The place in the header of a pool that keeps the mark of the server's time, for a part of the program that does not
/// own the pool.
#[derive(Clone)]
pub struct TimeMark {
    backing: Rc<dyn Backing>,
    header: SharedHeader,
}

impl TimeMark {
    pub(super) fn new(backing: Rc<dyn Backing>, header: SharedHeader) -> Self {
        Self { backing, header }
    }

    /// The mark, in milliseconds since 1970 in UTC; `None`: no record of the pool has ever had an expiry.
    pub fn load(&self) -> Option<u64> {
        self.header.read(|header| header.time_mark())
    }

    /// Raises the mark to `mark_ms`, durably. A lower mark changes nothing. From the first call on, programs that do
    /// not know expiry refuse the pool. A crash during the call leaves the earlier or the new mark.
    ///
    /// # Errors
    /// The medium failed. The next opening finds one of the two.
    pub fn raise(&self, mark_ms: u64) -> Result<(), MediaError> {
        if self.load().is_some_and(|mark| mark >= mark_ms) {
            return Ok(());
        }
        self.header
            .change(&*self.backing, |header| header.timed(mark_ms))
    }
}
