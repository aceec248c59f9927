//! Waits, for a thread of the gateway, for two things at once: sockets, and answers of the store.
//!
//! ```text
//!   nothing to do --> look at the sockets --> something came? back to work
//!        a request of ours is with the store:  look again and again for a while, then
//!                                              sleep on the device's doorbell, a slice at a time
//!        none is:                              sleep in epoll
//! ```
//!
//! The doorbell is a futex word and sockets are not, so no single call waits for both. The store sends nothing unasked
//! except the end of a connection, so without a request under way epoll alone is enough. With a request under way the
//! answer is at most a sync away, and a socket waits for at most a slice.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::Park;

use crate::counters::Counters;
use crate::reactor::Reactor;

/// Sleeps for one thread, as the module documentation says.
pub struct Sleeper {
    device: Rc<dyn Park>,
    reactor: Rc<Reactor>,
    /// Requests that the store has not answered.
    in_flight: Rc<Cell<usize>>,
    /// Counts of the thread. Their rounds show that it makes progress, also while it connects to the store.
    counters: Arc<Counters>,
    /// When a socket or the store last had something for this thread.
    last_work: Cell<Nanoseconds>,
}

/// How long a thread polls for the store's answer before it sleeps: about a sync to a fast disk, so that the server
/// then only has to answer and not to wake this thread. Any other thread that wants the processor meanwhile gets it.
const SPIN_NS: Nanoseconds = 200_000;
/// How long a socket may wait while the thread sleeps on the doorbell.
const SLICE_NS: Nanoseconds = 100_000;

impl Sleeper {
    /// A sleeper for a thread with this device and this reactor.
    pub fn new(
        device: Rc<dyn Park>,
        reactor: Rc<Reactor>,
        in_flight: Rc<Cell<usize>>,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            device,
            reactor,
            in_flight,
            counters,
            last_work: Cell::new(0),
        }
    }
}

impl Park for Sleeper {
    fn now(&self) -> Nanoseconds {
        self.device.now()
    }

    fn park(&self, timeout: Nanoseconds) {
        self.counters.rounds.add(1);
        let is_waiting = self.in_flight.get() > 0;
        if !is_waiting && !self.reactor.has_turns() {
            self.reactor.poll(timeout);
            return self.last_work.set(self.device.now());
        }
        let had_turns = self.reactor.has_turns();
        let now = self.device.now();
        if self.reactor.poll(0) || had_turns {
            return self.last_work.set(now);
        }
        if now.saturating_sub(self.last_work.get()) < SPIN_NS {
            // On a machine with few processors the store may wait for this one.
            return std::thread::yield_now();
        }
        self.device.park(timeout.min(SLICE_NS));
    }
}
