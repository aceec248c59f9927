//! The sleep of a thread of the gateway, which waits for sockets and for answers of the store at once.
//!
//! ```text
//!   nothing to do --> look at the sockets --> something came? back to work
//!        a request of ours is with the store:  look again and again for a while, then
//!                                              sleep on the device's doorbell, a slice at a time
//!        none is:                              sleep in epoll
//! ```
//!
//! The doorbell is a futex word and a socket is not, so no single call waits for both. The store sends nothing unasked
//! except the end of a connection, so without a request under way epoll alone is enough. With a request under way the
//! answer is at most a sync away, and a socket waits for at most a slice. Another thread that wakes a task of this
//! thread does not know on which of the two this thread sleeps, and so ends both sleeps.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Wake, Waker};

use stonecast_base::Nanoseconds;
use stonecast_fabric::Park;

use crate::counters::Counters;
use crate::reactor::Reactor;

/// Puts a thread to sleep until a socket or the store has something for it.
pub struct Sleeper {
    device: Rc<dyn Park>,
    reactor: Rc<Reactor>,
    /// Requests that the store has not answered.
    in_flight: Rc<Cell<usize>>,
    /// Counts of the thread. Their rounds show that the thread makes progress, even while it connects to the store.
    counters: Arc<Counters>,
    /// The time at which a socket or the store last had work for this thread.
    last_work: Cell<Nanoseconds>,
}

/// The time for which a thread polls for the store's answer before it sleeps: about a sync to a fast disk, so that the
/// server only has to answer and does not have to wake this thread. Any other thread that wants the processor meanwhile
/// gets the processor.
const SPIN_NS: Nanoseconds = 200_000;
/// The time for which a socket may wait while the thread sleeps on the doorbell.
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

    fn now_at_most(&self) -> Nanoseconds {
        self.device.now_at_most()
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
            // On a machine with few processors, the store may be waiting for this processor.
            return std::thread::yield_now();
        }
        self.device.park(timeout.min(SLICE_NS));
    }

    fn unpark(&self) -> Option<Waker> {
        let unpark = Unpark {
            device: self.device.unpark()?,
            sockets: self.reactor.waker(),
        };
        Some(Waker::from(Arc::new(unpark)))
    }
}

/// Ends a sleep on the doorbell and a sleep in epoll. A sleep that has not begun ends at once when it begins.
struct Unpark {
    device: Waker,
    sockets: Waker,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.device.wake_by_ref();
        self.sockets.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use stonecast_fabric_shm::{ShmDevice, ShmOptions};

    use super::*;
    use crate::foreign_wakes::{
        answers_of_another_thread_end_the_pause, the_last_of_many_wakes_is_not_lost,
    };

    /// A time much longer than a wake takes on a busy machine.
    const HEAVY_NS: Nanoseconds = 20_000_000_000;

    /// A device that sleeps for a long time, however short a slice is, so that only a wake ends its sleep.
    struct Heavy {
        device: Rc<ShmDevice>,
        sleeps: Arc<AtomicBool>,
        slept_through: Cell<bool>,
    }

    impl Park for Heavy {
        fn now(&self) -> Nanoseconds {
            self.device.now()
        }

        fn park(&self, _timeout: Nanoseconds) {
            let start = Instant::now();
            self.sleeps.store(true, Ordering::Release);
            self.device.park(HEAVY_NS);
            self.slept_through
                .set(start.elapsed() >= Duration::from_nanos(HEAVY_NS));
        }

        fn unpark(&self) -> Option<Waker> {
            self.device.unpark()
        }
    }

    fn device() -> Rc<ShmDevice> {
        ShmDevice::new(ShmOptions::default()).expect("a device")
    }

    /// The sleeper of a thread with `in_flight` requests.
    fn sleeper(device: Rc<dyn Park>, in_flight: usize) -> Sleeper {
        let reactor = Rc::new(Reactor::new().expect("an epoll instance"));
        let in_flight = Rc::new(Cell::new(in_flight));
        Sleeper::new(device, reactor, in_flight, Arc::default())
    }

    /// Needs the eventfd.
    #[test]
    fn answers_of_another_thread_end_the_sleep_in_epoll() {
        let idle = || Rc::new(sleeper(device(), 0));
        answers_of_another_thread_end_the_pause("gateway", idle(), 2_000);
        the_last_of_many_wakes_is_not_lost("gateway", idle(), 2_000);
    }

    /// Needs the waker of the device.
    #[test]
    fn a_wake_of_another_thread_ends_the_sleep_on_the_doorbell() {
        let heavy = Rc::new(Heavy {
            device: device(),
            sleeps: Arc::default(),
            slept_through: Cell::new(false),
        });
        let sleeper = sleeper(heavy.clone(), 1);
        let (waker, sleeps) = (sleeper.unpark().expect("one"), heavy.sleeps.clone());
        let waking = thread::spawn(move || {
            while !sleeps.load(Ordering::Acquire) {
                thread::yield_now();
            }
            waker.wake();
        });
        sleeper.park(HEAVY_NS);
        waking.join().expect("waking does not panic");
        assert!(!heavy.slept_through.get(), "the wake ended no sleep");
    }
}
