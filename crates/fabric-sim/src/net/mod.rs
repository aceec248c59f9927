//! NICs, links and the messages between them: the hardware of the world as one state machine that events drive.
//!
//! ```text
//!   requester                                            responder
//!   post -> Doorbell: fetch, transmit ---- wire ----> Arrive: key, buffer, order
//!                                                       |          |
//!                                                       |        Place: memory, completion
//!           Acknowledge: status, retire  <--- wire -----'   (READ, atomic, FLUSH: answered after Place)
//! ```
//!
//! A posted operation is acknowledged when the responder's NIC has it, before it is in memory; so *completed* means
//! less than *visible* here, as on real NICs. Operations of a queue pair are placed in order; operations that fetch
//! wait for earlier placements, and later placements may overtake them.
//!
//! The code of an event is in the file of the part that it concerns; each part owns its state.
//!
//! ```text
//!   requester.rs   send queues          queue_pair.rs   state of a queue pair
//!   responder.rs   arrival, answers     message.rs      state of a message on its way
//!   receive.rs     receive queues       memory.rs       regions; keys.rs: their keys
//!   completion.rs  completion queues    connection.rs   beginning and end
//!   effect.rs      placing, fetching    failure.rs      senders' patience, resets
//!   parts.rs       parts of a message   nic.rs          durations of messages, partitions
//! ```
//!
//! Invariants:
//! - Each entry of a send queue gets exactly one status, and leaves in order.
//! - A message is counted at its key from its arrival until its effect, so an invalid key without messages in flight
//!   opens nothing.
//! - Wakers are kept until nothing is borrowed.

mod completion;
mod connection;
mod effect;
mod failure;
mod keys;
mod memory;
mod message;
mod nic;
mod parts;
mod queue_pair;
mod receive;
mod requester;
mod responder;

use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;

use stonecast_base::{Nanoseconds, Random};
use stonecast_fabric::{
    Appended, Capabilities, ConnectionEvent, LocalSpan, Operation, ReceiveRequest,
    SharedReceiveQueueOptions, WorkCompletion,
};
use stonecast_media::{PersistentRegion, Region};

use crate::faults::{FaultState, Place};
use crate::machine::{RootPort, Transport};
use crate::persistent::Module;
use crate::profile::MachineProfile;
use crate::time::Time;
use completion::Irregular;
use connection::ConnectionManager;
use keys::Keys;
use message::Messages;
use nic::Nics;
use queue_pair::Qp;
pub(crate) use queue_pair::Stage;

/// The state of all NICs, and the messages between them.
pub(crate) struct Net {
    pub time: Rc<Time>,
    pub faults: Rc<FaultState>,
    pub nics: Nics,
    pub contexts: Vec<Context>,
    /// Numbers are never reused, so a late event finds nothing instead of another queue pair.
    pub qps: Vec<Option<Box<Qp>>>,
    keys: Keys,
    messages: Messages,
    manager: ConnectionManager,
    irregular: Irregular,
    /// Persistent memories.
    pub modules: Vec<Rc<Module>>,
    news: News,
}

/// The notifications at the end of an event or call.
#[derive(Default)]
struct News {
    /// Wakers are kept until nothing is borrowed.
    wakers: Vec<Waker>,
    /// Contexts for which something arrived since their threads last checked.
    arrived: Vec<u32>,
}

/// The objects that one process holds of a NIC.
pub(crate) struct Context {
    pub machine: u32,
    /// The port through which it reaches memory.
    pub root_port: RootPort,
    /// The thread to notify of arrivals.
    pub thread: u32,
    pub capabilities: Rc<Capabilities>,
    pub regions: Vec<Option<Registered>>,
    pub next_address: u64,
    pub completions: Vec<Completions>,
    pub shared: Vec<SharedQueue>,
    pub events: VecDeque<ConnectionEvent>,
    /// Whether it is listed in `Net::arrived`.
    noted: bool,
    /// The moment until which its software stands still.
    pub hung_until: Nanoseconds,
    pub dead: bool,
}

/// Registered memory.
pub(crate) struct Registered {
    pub memory: Rc<dyn Region>,
    pub persistent: Option<Rc<dyn PersistentRegion>>,
    /// The module that it belongs to.
    pub space: Option<u32>,
    pub address: u64,
    pub size: u64,
    /// Keys that open it.
    pub keys: u32,
}

pub(crate) struct Completions {
    pub capacity: usize,
    pub entries: VecDeque<WorkCompletion>,
    pub overrun: bool,
    /// The time of the latest delayed completion: later completions come after it.
    pub late_until: Nanoseconds,
}

pub(crate) struct SharedQueue {
    pub options: SharedReceiveQueueOptions,
    pub buffers: VecDeque<ReceiveRequest>,
    /// Strides of the first buffer that are taken.
    taken: u32,
    /// The moment at which all earlier arrivals are in memory: completions of a shared queue keep their order.
    placed: Nanoseconds,
    /// The moment until which it gives out no buffer.
    exhausted_until: Nanoseconds,
    /// Multi-packet buffers that took messages and were not given back, oldest first.
    filling: VecDeque<Filling>,
    /// Number of the first of them, counted from the first buffer ever posted.
    first: u64,
    /// Buffers that were given back and not yet polled.
    consumed: VecDeque<u64>,
    /// The messages that the owner has not requested yet; `None`: the owner has never requested any.
    appended: Option<Vec<Appended>>,
    /// Woken by the next message.
    waiter: Option<Waker>,
    /// The time of the latest delayed return of a buffer.
    late_until: Nanoseconds,
}

/// A multi-packet buffer that took messages.
struct Filling {
    wr_id: u64,
    /// Messages that have a place in it and have not had their effect.
    pending: u32,
    /// Whether it takes no further message.
    closed: bool,
}

impl Net {
    pub fn new(time: Rc<Time>, faults: Rc<FaultState>, key_offset: u32, random: Random) -> Self {
        Self {
            nics: Nics::new(time.clone(), faults.clone(), random),
            time,
            faults,
            contexts: Vec::new(),
            qps: Vec::new(),
            keys: Keys::new(key_offset),
            messages: Messages::default(),
            manager: ConnectionManager::default(),
            irregular: Irregular::default(),
            modules: Vec::new(),
            news: News::default(),
        }
    }

    /// Opens the NIC of `machine` for a process.
    pub fn add_context(
        &mut self,
        machine: u32,
        thread: u32,
        capabilities: Rc<Capabilities>,
        root_port: RootPort,
    ) -> u32 {
        self.contexts.push(Context {
            machine,
            root_port,
            thread,
            capabilities,
            regions: Vec::new(),
            // Far from 0 and different in each process, so that an address of the wrong side opens nothing.
            next_address: (self.contexts.len() as u64 + 1) << 40,
            completions: Vec::new(),
            shared: Vec::new(),
            events: VecDeque::new(),
            noted: false,
            hung_until: 0,
            dead: false,
        });
        self.contexts.len() as u32 - 1
    }

    /// The queue pair `number`, if it exists.
    pub fn qp(&mut self, number: u32) -> Option<&mut Qp> {
        self.qps.get_mut(number as usize)?.as_deref_mut()
    }

    /// Notes an arrival for `context`.
    fn note_arrival(&mut self, context: u32) {
        let state = &mut self.contexts[context as usize];
        if !state.noted && !state.dead {
            state.noted = true;
            self.news.arrived.push(context);
        }
    }

    /// Ends an event or a call: `tell` receives the threads that must check their ports, and the caller calls the
    /// wakers when it has released every borrow.
    #[must_use]
    pub fn conclude(&mut self, mut tell: impl FnMut(u32)) -> Vec<Waker> {
        self.break_overrun();
        for context in self.news.arrived.drain(..) {
            let state = &mut self.contexts[context as usize];
            state.noted = false;
            tell(state.thread);
        }
        std::mem::take(&mut self.news.wakers)
    }

    /// The machine that `context` runs on.
    fn machine_of(&self, context: u32) -> u32 {
        self.contexts[context as usize].machine
    }

    /// The machine of queue pair `number`, if that exists.
    fn machine_at(&self, number: u32) -> Option<u32> {
        let qp = self.qps[number as usize].as_ref()?;
        Some(self.machine_of(qp.context))
    }

    /// The place of faults on the machine of `context`.
    pub fn place_of(&self, context: u32) -> Place {
        Place::Machine(self.machine_of(context))
    }

    /// The place of faults on the link from queue pair `from` to `to`. Both exist.
    fn link(&self, from: u32, to: u32) -> Place {
        let machine = |number| self.machine_at(number).expect("both ends exist");
        Place::Link(machine(from), machine(to))
    }

    fn profile_of(&self, context: u32) -> &MachineProfile {
        &self.nics.of(self.machine_of(context)).profile
    }

    fn transport_of(&self, context: u32) -> Transport {
        self.nics.of(self.machine_of(context)).transport
    }
}

/// Calls wakers, with nothing borrowed.
#[inline]
pub(crate) fn wake(wakers: Vec<Waker>) {
    // Only revocations and the end of connections make some.
    if !wakers.is_empty() {
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Whether the operation waits for an answer: READ, atomics, FLUSH, ATOMIC_WRITE.
fn is_non_posted(operation: &Operation) -> bool {
    use Operation::{AtomicWrite, CompareAndSwap, FetchAndAdd, Flush, Read};
    matches!(
        operation,
        Read { .. }
            | CompareAndSwap { .. }
            | FetchAndAdd { .. }
            | Flush { .. }
            | AtomicWrite { .. }
    )
}

/// Whether the operation reads a word and may write it.
fn is_read_modify_write(operation: &Operation) -> bool {
    use Operation::{CompareAndSwap, FetchAndAdd};
    matches!(operation, CompareAndSwap { .. } | FetchAndAdd { .. })
}

/// The local bytes of an operation.
fn local_span(operation: &Operation) -> Option<LocalSpan> {
    match *operation {
        Operation::Write { local, .. }
        | Operation::WriteWithImmediate { local, .. }
        | Operation::Send { local }
        | Operation::Read { local, .. }
        | Operation::CompareAndSwap { local, .. }
        | Operation::FetchAndAdd { local, .. } => Some(local),
        Operation::Flush { .. } | Operation::AtomicWrite { .. } => None,
    }
}
