//! What the connections of one thread share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use stonecast_fabric::Runtime;
use stonecast_kv::Values;

use super::keyspace::Scans;
use super::step::Keys;
use super::store::Store;
use super::table::Spec;
use crate::counters::Counters;
use crate::fifo::{Budget, Queue};
use crate::guard::Guards;
use crate::guesses::Guesses;
use crate::memory::Stock;
use crate::reactor::Reactor;
use crate::resp::Commands;
use crate::shared::Shared;

/// See the module documentation.
pub struct Context {
    /// The store.
    pub store: Store,
    /// Clock and timers.
    pub runtime: Rc<dyn Runtime>,
    /// Counts of this thread.
    pub counters: Arc<Counters>,
    /// What all threads share.
    pub shared: Arc<Shared>,
    /// Sockets, and turns between long operations.
    pub reactor: Rc<Reactor>,
    /// Iterations over the keys that clients have begun.
    pub scans: RefCell<Scans>,
    /// Memory of requests and replies.
    pub stock: Rc<Stock>,
    /// Connections that wait for memory for a request.
    pub waiting_for_requests: Queue,
    /// Connections that wait for memory for replies.
    pub waiting_for_replies: Queue,
    /// Commands that look at all keys: each needs memory for all of them.
    pub keyspace: Rc<Budget>,
    /// Deadlines of connections, and newcomers.
    pub guards: Rc<Guards>,
    /// How many wrong passwords are looked at.
    pub guesses: Guesses,
    /// Whether the store is being told what was done.
    pub is_reporting: Cell<bool>,
    /// Memory for values, for the next read.
    values: RefCell<Vec<Values>>,
    /// Memory for commands, for the next batch.
    scratch: RefCell<Vec<Scratch>>,
}

/// Memory that a batch needs for its commands.
#[derive(Default)]
pub struct Scratch {
    /// Where they are in the input.
    pub commands: Commands,
    /// The table's entry of each.
    pub specs: Vec<Option<&'static Spec>>,
    /// Keys of a step.
    pub keys: Keys,
}

/// Memories that are kept.
const KEPT_MAX: usize = 16;
/// Bytes of values whose memory is kept.
const KEPT_SIZE_MAX: usize = 256 << 10;
/// Commands that look at all keys at a time.
const KEYSPACE_MAX: usize = 2;
/// Commands and arguments whose memory is kept.
const KEPT_ARGUMENTS_MAX: usize = 1 << 16;

impl Context {
    /// Of a thread.
    pub fn new(
        store: Store,
        runtime: Rc<dyn Runtime>,
        counters: Arc<Counters>,
        shared: Arc<Shared>,
        reactor: Rc<Reactor>,
    ) -> Self {
        let threads = shared.threads.len();
        let newcomers = shared.options.newcomers().div_ceil(threads.max(1));
        let guards = Rc::new(Guards::new(newcomers, counters.clone()));
        Self {
            store,
            runtime,
            counters,
            shared,
            reactor,
            scans: RefCell::default(),
            stock: Rc::default(),
            waiting_for_requests: Queue::default(),
            waiting_for_replies: Queue::default(),
            keyspace: Rc::new(Budget::new(KEYSPACE_MAX, 0)),
            guards,
            guesses: Guesses::new(threads),
            is_reporting: Cell::new(false),
            values: RefCell::default(),
            scratch: RefCell::default(),
        }
    }

    /// Memory for values.
    pub fn take_values(&self) -> Values {
        self.values.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes memory for values back.
    pub fn give_values(&self, values: Values) {
        let mut free = self.values.borrow_mut();
        if free.len() < KEPT_MAX && values.capacity() <= KEPT_SIZE_MAX {
            free.push(values);
        }
    }

    /// Memory for commands.
    pub fn take_scratch(&self) -> Scratch {
        self.scratch.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes memory for commands back.
    pub fn give_scratch(&self, mut scratch: Scratch) {
        let mut free = self.scratch.borrow_mut();
        if free.len() < KEPT_MAX && scratch.commands.argument_count() <= KEPT_ARGUMENTS_MAX {
            scratch.commands.clear();
            free.push(scratch);
        }
    }
}
