//! The running hash of all events.

use std::cell::Cell;

use stonecast_base::Nanoseconds;

use crate::queue::Event;

/// Two runs with the same hash were the same run, event by event.
#[derive(Default)]
pub(crate) struct Trace {
    hash: Cell<u64>,
    events: Cell<u64>,
}

impl Trace {
    /// Takes note of an event.
    #[inline]
    pub fn note(&self, time: Nanoseconds, event: Event) {
        let (kind, number) = match event {
            Event::Thread(number) => (1, number),
            Event::Root => (2, 0),
            Event::Timer(number) => (3, number),
            Event::Doorbell(number) => (4, number),
            Event::Retry(number) => (5, number),
            Event::Arrive(number) => (6, number),
            Event::Place(number) => (7, number),
            Event::Refuse(number) => (8, number),
            Event::Acknowledge(number) => (9, number),
            Event::Control(number) => (10, number),
            Event::GiveUp(number) => (11, number),
            Event::Complete(number) => (12, number),
        };
        self.mix(time);
        self.mix(kind << 32 | u64::from(number));
        self.events.set(self.events.get() + 1);
    }

    /// Takes note of a fact.
    #[inline]
    pub fn mix(&self, fact: u64) {
        // A multiplication spreads each fact over all bits, the rotation keeps the order of facts significant.
        self.hash
            .set((self.hash.get().rotate_left(29) ^ fact).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }

    pub fn hash(&self) -> u64 {
        self.hash.get()
    }

    pub fn events(&self) -> u64 {
        self.events.get()
    }
}
