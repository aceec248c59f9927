//! Which undecided units of a wreck somebody reads who goes on with what survived.
//!
//! What a recovery does follows from what it reads. Two states that differ only in units that neither of two recoveries
//! read are one state to it; whoever enumerates states need not look at the second.

use stonecast_base::{LINE_SIZE, Span};

use crate::persistent::wreck::Wreck;

/// Lines of an undecided unit.
#[derive(Clone, Copy, Debug)]
struct Place {
    first: u64,
    /// The line behind the last.
    end: u64,
    unit: u32,
    /// Whether anything else had made its page one that was written to.
    page_is_certain: bool,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Watch {
    /// In the order of their lines.
    places: Vec<Place>,
    read: Vec<bool>,
    /// In the order of their first reads.
    order: Vec<u32>,
}

impl Watch {
    /// Watches the undecided units of `wreck`.
    pub fn new(wreck: &Wreck) -> Self {
        let place = |unit: usize| {
            let (lines, page_is_certain) = (wreck.lines(unit), wreck.page_is_certain(unit));
            Place {
                first: lines.start,
                end: lines.end,
                unit: unit as u32,
                page_is_certain,
            }
        };
        let places: Vec<Place> = (0..wreck.undecided()).map(place).collect();
        assert!(
            places.is_sorted_by(|one, next| one.end <= next.first),
            "units lie in the order of their lines"
        );
        Self {
            read: vec![false; places.len()],
            places,
            order: Vec::new(),
        }
    }

    /// `size` bytes at `offset` are read.
    pub fn read(&mut self, offset: u64, size: u64) {
        let lines = Span::new(offset, size).widen(LINE_SIZE as u64);
        let (first, end) = (
            lines.offset / LINE_SIZE as u64,
            (lines.offset + lines.size) / LINE_SIZE as u64,
        );
        let from = self.places.partition_point(|place| place.end <= first);
        for at in from..self.places.len() {
            if self.places[at].first >= end {
                return;
            }
            self.note(at);
        }
    }

    /// Somebody asks which pages were ever written to: that depends on the units that alone would have written to theirs.
    pub fn ask_for_pages(&mut self) {
        for at in 0..self.places.len() {
            if !self.places[at].page_is_certain {
                self.note(at);
            }
        }
    }

    fn note(&mut self, at: usize) {
        if !std::mem::replace(&mut self.read[at], true) {
            self.order.push(self.places[at].unit);
        }
    }

    /// The units that were read, in the order of their first reads.
    pub fn into_order(self) -> Vec<u32> {
        self.order
    }
}
