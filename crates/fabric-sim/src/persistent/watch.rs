//! Records which undecided units of a wreck are read by a program that continues with a survivor.
//!
//! The actions of a recovery follow from its reads. Two states that differ only in units that neither of two recoveries
//! read are one state to it, so an enumeration of states can skip the second.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_base::{LINE_SIZE, Span};

use crate::persistent::wreck::Wreck;

/// Lines of an undecided unit.
#[derive(Clone, Copy, Debug)]
struct Place {
    first: u64,
    /// The line after the last line.
    end: u64,
    unit: u32,
    /// Whether the page of the unit counts as written whatever becomes of the unit.
    page_is_certain: bool,
}

/// The undecided units that were read, in the order of their first reads.
#[derive(Clone, Debug, Default)]
pub struct ReadOrder(Rc<RefCell<Vec<u32>>>);

impl ReadOrder {
    /// Takes the units that were read so far.
    pub fn take(&self) -> Vec<u32> {
        self.0.take()
    }
}

#[derive(Debug)]
pub(crate) struct Watch {
    /// The places in the order of their lines.
    places: Vec<Place>,
    read: Vec<bool>,
    order: ReadOrder,
}

impl Watch {
    /// Watches the undecided units of `wreck`, the first of which is noted in `order` as `first`.
    pub fn new(wreck: &Wreck, first: u32, order: ReadOrder) -> Self {
        let place = |unit: usize| {
            let (lines, page_is_certain) = (wreck.lines(unit), wreck.page_is_certain(unit));
            Place {
                first: lines.start,
                end: lines.end,
                unit: first + unit as u32,
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
            order,
        }
    }

    /// Notes a read of `size` bytes at `offset`.
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

    /// Notes a query for the pages that were ever written to: the answer depends on each unit without which its page
    /// would count as unwritten.
    pub fn ask_for_pages(&mut self) {
        for at in 0..self.places.len() {
            if !self.places[at].page_is_certain {
                self.note(at);
            }
        }
    }

    fn note(&mut self, at: usize) {
        if !std::mem::replace(&mut self.read[at], true) {
            self.order.0.borrow_mut().push(self.places[at].unit);
        }
    }
}
