//! Deadlines of connections, checked a few times a second, and the places of newcomers.
//!
//! A *newcomer* is a connection that is not authenticated: its TLS handshake is not done, or the password has not
//! arrived. Newcomers have places of their own, apart from the places of clients, and make way for each other.
//!
//! A connection sets a deadline for its peer, and is cut off after the deadline. One pass over all connections a few
//! times a second costs less than a timer for each request.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use slab::Slab;
use stonecast_base::Nanoseconds;

use crate::counters::Counters;
use crate::origin::Origin;
use crate::places::{PlaceNumber, Places};
use crate::reactor::Readiness;

/// All connections of a thread.
pub struct Guards {
    all: RefCell<Slab<Rc<Guarded>>>,
    newcomers: RefCell<Places<Rc<Guarded>>>,
    counters: Arc<Counters>,
    is_stopping: Cell<bool>,
}

struct Guarded {
    deadline: Cell<Option<Nanoseconds>>,
    is_cut: Cell<bool>,
    readiness: Rc<Readiness>,
}

impl Guarded {
    fn cut(&self) {
        self.is_cut.set(true);
        self.readiness.wake();
    }
}

/// The entry of a connection. Dropping the guard removes the entry.
pub struct Guard {
    guards: Rc<Guards>,
    index: usize,
    guarded: Rc<Guarded>,
    /// The connection's place among the newcomers, if it is one.
    place: Cell<Option<PlaceNumber>>,
}

impl Guards {
    /// The guards of a thread with `newcomers` places for newcomers.
    pub fn new(newcomers: usize, counters: Arc<Counters>) -> Self {
        Self {
            all: RefCell::default(),
            newcomers: RefCell::new(Places::new(newcomers)),
            counters,
            is_stopping: Cell::new(false),
        }
    }

    /// Watches a connection, waking it through its readiness.
    pub fn watch(self: &Rc<Self>, readiness: Rc<Readiness>) -> Guard {
        let guarded = Rc::new(Guarded {
            deadline: Cell::new(None),
            is_cut: Cell::new(false),
            readiness,
        });
        Guard {
            guards: self.clone(),
            index: self.all.borrow_mut().insert(guarded.clone()),
            guarded,
            place: Cell::new(None),
        }
    }

    /// Cuts off every connection whose deadline has passed.
    pub fn sweep(&self, now: Nanoseconds) {
        for (_, guarded) in self.all.borrow().iter() {
            if guarded
                .deadline
                .get()
                .is_some_and(|deadline| deadline <= now)
            {
                guarded.cut();
            }
        }
    }

    /// Asks every connection to end after its current work.
    pub fn stop(&self) {
        self.is_stopping.set(true);
        self.all
            .borrow()
            .iter()
            .for_each(|(_, guarded)| guarded.readiness.wake());
    }

    /// Returns whether no connection is left.
    pub fn is_empty(&self) -> bool {
        self.all.borrow().is_empty()
    }
}

impl Guard {
    /// Counts the connection among the newcomers. A newcomer that has to make way is cut off.
    pub fn enter(&self, origin: Origin) {
        let mut newcomers = self.guards.newcomers.borrow_mut();
        let (number, leaves) = newcomers.take(origin, self.guarded.clone());
        self.place.set(Some(number));
        let counters = &self.guards.counters;
        counters.newcomers.set(newcomers.taken() as u64);
        if let Some(leaves) = leaves {
            counters.newcomers_cut.add(1);
            leaves.cut();
        }
    }

    /// Gives the place among the newcomers back: the peer is authenticated, or the connection ends.
    pub fn leave(&self) {
        if let Some(number) = self.place.take() {
            let mut newcomers = self.guards.newcomers.borrow_mut();
            newcomers.give_back(number);
            self.guards.counters.newcomers.set(newcomers.taken() as u64);
        }
    }

    /// Sets or removes the deadline.
    pub fn set_deadline(&self, deadline: Option<Nanoseconds>) {
        self.guarded.deadline.set(deadline);
    }

    /// Returns whether a deadline has passed.
    pub fn is_cut(&self) -> bool {
        self.guarded.is_cut.get()
    }

    /// Returns whether the connection is asked to end.
    pub fn is_stopping(&self) -> bool {
        self.guards.is_stopping.get()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.leave();
        self.guards.all.borrow_mut().remove(self.index);
    }
}
