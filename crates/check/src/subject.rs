//! A store under test, as the checks see it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::Pin;
use std::rc::Rc;

use stonecast_fabric_sim::{Fault, Module, Process, SimBacking};

use crate::history::{History, NodeId, OperationId};
use crate::timeline::Words;
use crate::violation::Violation;

/// A future that runs in a process.
pub(crate) type Task<T> = Pin<Box<dyn Future<Output = T>>>;

/// A store of one node or several. Each node is a machine with a module, on which processes start and end.
///
/// Three verbs make a store a subject: `serve` is the life of a node from its start to its stop, `live` that of a
/// client, and `recover` opens all nodes after everything has ended.
pub(crate) trait Subject: 'static {
    /// A call of a client.
    type Call: 'static;
    /// An answer to a call.
    type Answer: 'static;
    /// The contents that a recovery finds. The contents follow from the bytes that the recovery
    /// reads.
    type Contents: Clone + Debug + PartialEq;
    /// What outlives all processes beside the modules, and what a recovery changes. A clone shares nothing.
    type Beside: Clone;

    /// The words for calls and answers.
    const WORDS: Words<Self::Call, Self::Answer>;

    /// A node, for people.
    fn name(&self, node: NodeId) -> String;

    /// The testimony of clients so far.
    fn testimony(&self) -> &Testimony<Self::Call, Self::Answer>;

    /// Opens the content of the module, serves until the seat is asked to stop, and closes the store.
    fn serve(self: Rc<Self>, seat: Seat) -> Task<Result<(), Ended>>;

    /// The life of a client, until there is nothing left to do. `seed` distinguishes it from others.
    fn live(self: Rc<Self>, process: Process, client: u32, seed: u64) -> Task<()>;

    /// What stays beside the modules if everything ends at this moment.
    fn beside(&self) -> Self::Beside;

    /// Recovers all nodes, in the order of their numbers, and reads everything that clients can read.
    fn recover(
        self: Rc<Self>,
        seats: Vec<Seat>,
        beside: Rc<Self::Beside>,
    ) -> Task<Result<Self::Contents, Violation>>;
}

/// The place of a process that serves.
#[derive(Clone)]
pub(crate) struct Seat {
    pub node: NodeId,
    pub process: Process,
    pub module: Rc<Module>,
    pub backing: Rc<SimBacking>,
    stop: Rc<Cell<bool>>,
}

impl Seat {
    /// A process on the machine of `module`.
    pub fn new(node: NodeId, process: Process, module: &Rc<Module>) -> Self {
        Self {
            node,
            process,
            module: module.clone(),
            backing: Rc::new(SimBacking::new(module)),
            stop: Rc::default(),
        }
    }

    /// Asks the process to close the store and end.
    pub fn stop(&self) {
        self.stop.set(true);
    }

    /// Whether the process is asked to end.
    pub fn is_stopping(&self) -> bool {
        self.stop.get()
    }
}

/// The unrequested end of a node.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub error: String,
    /// Whether faults around the node explain the end.
    pub is_excused: bool,
}

/// The testimony of clients: their calls and answers, broken promises, and faults whose consequences they saw.
pub(crate) struct Testimony<C, A> {
    pub history: RefCell<History<C, A>>,
    pub violations: RefCell<Vec<Violation>>,
    hits: RefCell<BTreeMap<&'static str, u64>>,
}

impl<C, A> Testimony<C, A> {
    /// An empty testimony about an object of `parts` parts.
    pub fn new(parts: u32) -> Self {
        Self {
            history: RefCell::new(History::new(parts)),
            violations: RefCell::default(),
            hits: RefCell::default(),
        }
    }

    /// Notes a call of a client. `node` is the only node that can execute it, if there is one.
    pub fn call(&self, client: u32, node: Option<NodeId>, part: u32, call: C) -> OperationId {
        self.history.borrow_mut().call(client, node, part, call)
    }

    /// Notes the answer to a call; `None`: an error, or no answer.
    pub fn answer(&self, id: OperationId, answer: Option<A>) {
        self.history.borrow_mut().answer(id, answer);
    }

    /// Notes a broken promise.
    pub fn note(&self, violation: Violation) {
        self.violations.borrow_mut().push(violation);
    }

    /// Counts a fault.
    pub fn hit(&self, fault: Fault) {
        let name = fault.class().name;
        *self.hits.borrow_mut().entry(name).or_default() += 1;
    }

    /// The faults that were counted.
    pub fn hits(&self) -> BTreeMap<&'static str, u64> {
        self.hits.borrow().clone()
    }
}
