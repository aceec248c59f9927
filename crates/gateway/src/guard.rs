//! Deadlines of connections, looked at now and then.
//!
//! A connection says until when its other side must have done something; when that is past, it is cut off. One look over
//! all of them a few times a second costs less than a timer for each request.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use slab::Slab;
use stonecast_base::Nanoseconds;

use crate::reactor::Readiness;

/// All connections of a thread.
#[derive(Default)]
pub struct Guards {
    all: RefCell<Slab<Rc<Guarded>>>,
    is_stopping: Cell<bool>,
}

struct Guarded {
    deadline: Cell<Option<Nanoseconds>>,
    is_cut: Cell<bool>,
    readiness: Rc<Readiness>,
}

/// One connection's entry. Dropping it takes it out.
pub struct Guard {
    guards: Rc<Guards>,
    index: usize,
    guarded: Rc<Guarded>,
}

impl Guards {
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
        }
    }

    /// Cuts off every connection whose deadline is past.
    pub fn sweep(&self, now: Nanoseconds) {
        for (_, guarded) in self.all.borrow().iter() {
            if guarded
                .deadline
                .get()
                .is_some_and(|deadline| deadline <= now)
            {
                guarded.is_cut.set(true);
                guarded.readiness.wake();
            }
        }
    }

    /// Asks every connection to end after what it is at.
    pub fn stop(&self) {
        self.is_stopping.set(true);
        self.all
            .borrow()
            .iter()
            .for_each(|(_, guarded)| guarded.readiness.wake());
    }

    /// Whether no connection is left.
    pub fn is_empty(&self) -> bool {
        self.all.borrow().is_empty()
    }
}

impl Guard {
    /// Sets the deadline, or takes it away.
    pub fn set_deadline(&self, deadline: Option<Nanoseconds>) {
        self.guarded.deadline.set(deadline);
    }

    /// Whether a deadline is past.
    pub fn is_cut(&self) -> bool {
        self.guarded.is_cut.get()
    }

    /// Whether the connection is asked to end.
    pub fn is_stopping(&self) -> bool {
        self.guards.is_stopping.get()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.guards.all.borrow_mut().remove(self.index);
    }
}
