//! State that the commands of one thread share: the store, turns, and memory for the next batch.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use stonecast_kv::Values;

use super::combine::KeyTurns;
use super::scans::Scans;
use super::step::StepKeys;
use super::store::Store;
use super::table::Spec;
use crate::fifo::Budget;
use crate::guesses::Guesses;
use crate::resp::Commands;
use crate::thread::Thread;

/// State that the commands of one thread share.
pub struct Context {
    /// Sockets, memory, deadlines and counts of the thread.
    pub thread: Rc<Thread>,
    /// The store.
    pub store: Store,
    /// Turns of the keys that are read to be changed.
    pub turns: KeyTurns,
    /// Iterations over the keys that clients have begun.
    pub scans: RefCell<Scans>,
    /// Turns of commands that look at all keys. Each of these commands needs memory for all keys.
    pub keyspace: Rc<Budget>,
    /// Turns of transactions, which hold the values that they have read.
    pub transactions: Rc<Budget>,
    /// Bytes of the commands that wait for their `EXEC`.
    pub queued: Rc<Cell<usize>>,
    /// The pace of wrong passwords.
    pub guesses: Guesses,
    /// Whether a report to the store is under way.
    pub is_reporting: Cell<bool>,
    /// Memory for values, for the next read.
    values: RefCell<Vec<Values>>,
    /// Memory for commands, for the next batch.
    scratch: RefCell<Vec<Scratch>>,
}

/// Memory that a batch needs for its commands.
#[derive(Default)]
pub struct Scratch {
    /// The places of commands in the input.
    pub commands: Commands,
    /// The table's entry of each command.
    pub specs: Vec<Option<&'static Spec>>,
    /// Keys of a step.
    pub keys: StepKeys,
}

/// The most allocations of each kind that are kept for reuse.
const KEPT_MAX: usize = 16;
/// The most bytes of an allocation for values that is kept.
const KEPT_SIZE_MAX: usize = 256 << 10;
/// The most commands at a time that look at all keys.
const KEYSPACE_MAX: usize = 2;
/// The most transactions at a time that are being done.
const TRANSACTIONS_MAX: usize = 4;
/// The most commands and arguments of a batch whose memory is kept.
const KEPT_ARGUMENTS_MAX: usize = 1 << 16;

impl Context {
    /// The context of a thread that is connected to `store`.
    pub fn new(thread: Rc<Thread>, store: Store) -> Self {
        Self {
            store,
            turns: KeyTurns::default(),
            scans: RefCell::default(),
            keyspace: Rc::new(Budget::new(KEYSPACE_MAX, 0)),
            transactions: Rc::new(Budget::new(TRANSACTIONS_MAX, TRANSACTIONS_MAX)),
            queued: Rc::default(),
            guesses: Guesses::new(thread.shared.threads.len()),
            is_reporting: Cell::new(false),
            values: RefCell::default(),
            scratch: RefCell::default(),
            thread,
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
