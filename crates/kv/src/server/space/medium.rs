//! The medium's space for segments.

use std::rc::Rc;

use stonecast_base::Span;
use stonecast_log::LogFormat;
use stonecast_media::{Backing, MediaError, Prepared};

/// The medium's space for segments.
pub(super) struct Medium {
    backing: Rc<dyn Backing>,
    format: LogFormat,
    /// Whether the medium gives no space to segments that never had any.
    is_full: bool,
    /// The latest reason why the medium gave no space.
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

    /// Whether all writers of earlier runs are gone.
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

    /// Asks for the space of several segments. Ready when all of them are ready.
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

    /// Whether the medium gives no space to segments that never had any.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Notes that the medium gave a segment its space.
    pub fn note_given(&mut self) {
        self.is_full = false;
    }

    /// Notes that a segment that never had space got none.
    pub fn note_full(&mut self, refusal: MediaError) {
        self.is_full = true;
        self.refusal = Some(refusal);
    }

    /// Notes that a segment that was used before got no space: the pool is a copy with holes.
    pub fn note_refusal(&mut self, refusal: MediaError) {
        self.refusal = Some(refusal);
    }

    /// Takes the latest reason why the medium gave no space.
    pub fn take_refusal(&mut self) -> Option<MediaError> {
        self.refusal.take()
    }
}
