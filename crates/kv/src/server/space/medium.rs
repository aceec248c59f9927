//! The medium's space for segments.

use std::rc::Rc;

use stonecast_base::Span;
use stonecast_log::LogFormat;
use stonecast_media::{Backing, MediaError, Prepared};

/// See the module documentation.
pub(super) struct Medium {
    backing: Rc<dyn Backing>,
    format: LogFormat,
    /// It gives no space to segments that never had any.
    is_full: bool,
    /// Why it last gave none.
    refusal: Option<MediaError>,
}

impl Medium {
    pub fn new(backing: Rc<dyn Backing>, format: LogFormat) -> Self {
        Self {
            backing,
            format,
            is_full: false,
            refusal: None,
        }
    }

    /// Whether no writer of an earlier run can write any more.
    pub fn earlier_writers_are_gone(&self) -> bool {
        self.backing.earlier_writers_are_gone()
    }

    /// Asks for the space of a segment.
    pub fn prepare(&self, number: u32) -> Result<Prepared, MediaError> {
        self.backing.prepare(Span::new(
            self.format.position(number, 0),
            self.format.segment_size,
        ))
    }

    /// Asks for the space of several segments; ready when all of them are.
    pub fn prepare_all(&self, numbers: impl Iterator<Item = u32>) -> Result<Prepared, MediaError> {
        let mut ready = Prepared::Ready;
        for number in numbers {
            if self.prepare(number)? == Prepared::Pending {
                ready = Prepared::Pending;
            }
        }
        Ok(ready)
    }

    /// Whether a segment has its space.
    pub fn is_ready(&self, number: u32) -> bool {
        matches!(self.prepare(number), Ok(Prepared::Ready))
    }

    /// Whether it gives no space to segments that never had any.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// It gave a segment its space.
    pub fn note_given(&mut self) {
        self.is_full = false;
    }

    /// A segment that never had space got none.
    pub fn note_full(&mut self, refusal: MediaError) {
        self.is_full = true;
        self.refusal = Some(refusal);
    }

    /// A segment that was used before got no space: the pool is a copy with holes.
    pub fn note_refusal(&mut self, refusal: MediaError) {
        self.refusal = Some(refusal);
    }

    /// Why it last gave no space, once.
    pub fn take_refusal(&mut self) -> Option<MediaError> {
        self.refusal.take()
    }
}
