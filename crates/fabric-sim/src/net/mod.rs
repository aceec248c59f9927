//! NICs, links and what travels between them: the hardware of the world as one state machine that events drive.
//!
//! ```text
//!   requester                                            responder
//!   post -> Doorbell: fetch, transmit ---- wire ----> Arrive: key, buffer, order
//!                                                       |          |
//!                                                       |        Place: memory, completion
//!           Acknowledge: status, retire  <--- wire -----'   (READ, atomic, FLUSH: answered after Place)
//! ```
//!
//! A posted operation is acknowledged when the responder's NIC has it, before it is in memory; so *completed* is less than
//! *visible* here, as on real NICs. Operations of a queue pair are placed in order; those that fetch wait for what was
//! placed before them, and may be overtaken by what is placed later.
//!
//! ```text
//!   requester.rs   send queues          memory.rs       regions and keys
//!   responder.rs   effects              receive.rs      receive queues
//!   completion.rs  completion queues    connection.rs   beginning and end
//!   link.rs        partitions, resets
//! ```
//!
//! Invariants:
//! - Each entry of a send queue gets exactly one status, and leaves in order.
//! - A message is counted at its key from its arrival until its effect, so a key that has none in flight opens nothing
//!   any more once it is invalid.
//! - Wakers are kept until nothing is borrowed.

mod completion;
mod connection;
mod link;
mod memory;
mod receive;
mod requester;
mod responder;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::Waker;

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random};
use stonecast_fabric::{
    Access, Capabilities, ConnectionEvent, LocalSpan, Operation, QueuePairOptions, ReceiveRequest,
    SharedReceiveQueueOptions, Status, WorkCompletion, WorkRequest,
};
use stonecast_media::{PersistentRegion, Region};

use crate::faults::FaultState;
use crate::machine::{RootPort, Transport};
use crate::persistent::Module;
use crate::profile::Profile;
use crate::time::Time;
use crate::world::MachineOptions;

/// See the module documentation.
pub(crate) struct Net {
    pub time: Rc<Time>,
    pub faults: Rc<FaultState>,
    pub machines: Vec<Machine>,
    pub contexts: Vec<Context>,
    /// Numbers are never used again, so a late event finds nothing instead of somebody else.
    pub qps: Vec<Option<Box<Qp>>>,
    pub keys: Vec<Key>,
    messages: Vec<Message>,
    free_messages: Vec<u32>,
    controls: Vec<Option<connection::Control>>,
    free_controls: Vec<u32>,
    listeners: BTreeMap<String, u32>,
    requests: BTreeMap<u64, connection::Asked>,
    next_request: u64,
    /// Completion queues that overran and whose queue pairs are not yet broken.
    overrun: Vec<(u32, u32)>,
    /// The completion queue whose queue pairs are being broken.
    breaking: Option<(u32, u32)>,
    blocks: Vec<link::Block>,
    /// Completions that come later, by the number of their event.
    late: Vec<Option<completion::Late>>,
    free_late: Vec<u32>,
    /// Messages that are kept inside a NIC for longer than it needs.
    delayed: u64,
    /// Persistent memories.
    pub modules: Vec<Rc<Module>>,
    /// Whom to wake when nothing is borrowed.
    pub wakers: Vec<Waker>,
    /// Contexts for which something arrived since anybody looked.
    pub arrived: Vec<u32>,
    /// What rkeys are made of.
    pub key_offset: u32,
    /// What stalls are drawn from.
    random: Random,
}

/// A NIC, and the machine around it as far as the NIC sees it.
pub(crate) struct Machine {
    pub profile: Profile,
    transport: Transport,
    inbound_stall_ns_max: Nanoseconds,
    outbound_stall_ns_max: Nanoseconds,
    /// When it can send the next message, picoseconds.
    send_free_ps: u64,
    /// When it can take the next message, picoseconds.
    take_free_ps: u64,
    /// It takes so many times as long, until then.
    slow: (u64, Nanoseconds),
}

/// What one process holds of a NIC.
pub(crate) struct Context {
    pub machine: u32,
    /// How it reaches memory.
    pub root_port: RootPort,
    /// The thread that looks when something arrives.
    pub thread: u32,
    pub capabilities: Rc<Capabilities>,
    pub regions: Vec<Option<Registered>>,
    pub next_address: u64,
    pub completions: Vec<Completions>,
    pub shared: Vec<SharedQueue>,
    pub events: VecDeque<ConnectionEvent>,
    /// It stands in `Net::arrived`.
    noted: bool,
    /// Its software stands still until then.
    pub hung_until: Nanoseconds,
    pub dead: bool,
}

/// Registered memory.
pub(crate) struct Registered {
    pub memory: Rc<dyn Region>,
    pub persistent: Option<Rc<dyn PersistentRegion>>,
    /// The module that it is a part of.
    pub space: Option<u32>,
    pub address: u64,
    pub size: u64,
    /// Keys that open it.
    pub keys: u32,
}

/// What an rkey opens.
pub(crate) struct Key {
    pub context: u32,
    pub region: u32,
    pub address: u64,
    pub offset: u64,
    pub size: u64,
    pub access: Access,
    /// A window's queue pair.
    pub qp: Option<u32>,
    pub valid: bool,
    /// Messages that passed the check and have not had their effect.
    pub in_flight: u32,
    /// Whom to tell when there are none any more.
    pub waiting: Option<Waker>,
}

pub(crate) struct Completions {
    pub capacity: usize,
    pub entries: VecDeque<WorkCompletion>,
    pub overrun: bool,
    /// When the latest completion comes that was held up: later ones come behind it.
    pub late_until: Nanoseconds,
}

pub(crate) struct SharedQueue {
    pub options: SharedReceiveQueueOptions,
    pub buffers: VecDeque<ReceiveRequest>,
    /// Strides of the first buffer that are taken.
    taken: u32,
    /// When everything that arrived so far is in memory: completions of a shared queue keep their order.
    placed: Nanoseconds,
    /// Until then it gives out no buffer.
    exhausted_until: Nanoseconds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Idle,
    Connecting,
    /// The acceptor's, until the other side is ready.
    Accepted,
    Connected,
    Failed,
}

pub(crate) struct Qp {
    pub context: u32,
    pub options: QueuePairOptions,
    pub stage: Stage,
    pub peer: Option<u32>,
    pub send: VecDeque<Posted>,
    /// Number of the first entry of `send`, counted from the first post.
    base: u64,
    /// Number of the entry to transmit next.
    next: u64,
    /// READs, atomics and FLUSHes under way.
    non_posted: u64,
    /// Counts how often transmission went back: messages of an earlier turn are void.
    turn: u32,
    /// Transmits nothing: the responder was not ready, or a request failed.
    held: bool,
    pub receive: VecDeque<ReceiveRequest>,
    /// When everything that arrived here so far is in memory.
    placed: Nanoseconds,
    /// When everything that was placed here is in the memory controller, as far as it gets there by itself.
    settled: Nanoseconds,
    /// When everything that was to be fetched from here so far was fetched.
    executed: Nanoseconds,
    /// Messages that arrived here and are not yet in memory, in order.
    placing: VecDeque<u32>,
    /// Non-posted messages that arrived here and have not had their effect, in order.
    executing: VecDeque<u32>,
    /// Keys of its windows.
    pub windows: Vec<u32>,
    /// When the message that was sent last arrives: messages do not overtake each other.
    last_arrival: Nanoseconds,
    /// It broke and the other side was not told.
    quiet: bool,
    /// Nothing that it answers arrives any more.
    mute: bool,
    /// Its own receive queue is not ready until then.
    not_ready_until: Nanoseconds,
    /// What was written through it last: region and offset.
    cached: Option<(u32, u64)>,
}

pub(crate) struct Posted {
    request: WorkRequest,
    status: Option<Status>,
    refusals: u32,
}

/// Something on its way from a requester to a responder and back.
struct Message {
    from: u32,
    to: u32,
    /// Number of its entry in the send queue.
    sequence: u64,
    turn: u32,
    operation: Operation,
    payload: Vec<u8>,
    status: Status,
    /// The responder had no receive buffer.
    not_ready: bool,
    /// Where it takes effect: the responder's region, its key if there is one.
    region: u32,
    offset: u64,
    key: Option<u32>,
    /// Bytes that took effect.
    done: u32,
    /// It waited until what was placed before it was in the memory controller.
    waited: bool,
    /// Its time has come, and one before it is not done.
    due: bool,
    /// It took effect as a whole.
    settled: bool,
    landing: Option<receive::Landing>,
    /// Lines that are still to be placed, where they are placed in any order.
    scattered: Option<Vec<u32>>,
    /// Bytes that are fetched at a time, where that is less than a packet.
    grain: Option<u32>,
    /// It is kept inside the NIC for longer than needed.
    delayed: bool,
    /// Events that name it.
    uses: u8,
}

impl Net {
    pub fn new(time: Rc<Time>, faults: Rc<FaultState>, key_offset: u32, random: Random) -> Self {
        Self {
            time,
            faults,
            machines: Vec::new(),
            contexts: Vec::new(),
            qps: Vec::new(),
            keys: Vec::new(),
            messages: Vec::new(),
            free_messages: Vec::new(),
            controls: Vec::new(),
            free_controls: Vec::new(),
            listeners: BTreeMap::new(),
            requests: BTreeMap::new(),
            next_request: 0,
            overrun: Vec::new(),
            breaking: None,
            blocks: Vec::new(),
            late: Vec::new(),
            free_late: Vec::new(),
            delayed: 0,
            modules: Vec::new(),
            wakers: Vec::new(),
            arrived: Vec::new(),
            key_offset,
            random,
        }
    }

    /// Makes a machine's NIC.
    pub fn add_machine(&mut self, options: MachineOptions) -> u32 {
        let MachineOptions {
            profile,
            transport,
            inbound_stall_ns_max,
            outbound_stall_ns_max,
            ..
        } = options;
        self.machines.push(Machine {
            profile,
            transport,
            inbound_stall_ns_max,
            outbound_stall_ns_max,
            send_free_ps: 0,
            take_free_ps: 0,
            slow: (1, 0),
        });
        self.machines.len() as u32 - 1
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

    /// Something arrived for `context`.
    fn note_arrival(&mut self, context: u32) {
        let state = &mut self.contexts[context as usize];
        if !state.noted && !state.dead {
            state.noted = true;
            self.arrived.push(context);
        }
    }

    /// Threads that must look; to be called when an event or call is done.
    pub fn take_arrived(&mut self, mut tell: impl FnMut(u32)) {
        for context in self.arrived.drain(..) {
            let state = &mut self.contexts[context as usize];
            state.noted = false;
            tell(state.thread);
        }
    }

    fn profile_of(&self, context: u32) -> &Profile {
        &self.machines[self.contexts[context as usize].machine as usize].profile
    }

    fn transport_of(&self, context: u32) -> Transport {
        self.machines[self.contexts[context as usize].machine as usize].transport
    }

    /// How long an inbound write of `context` waits inside its machine.
    fn inbound_stall(&mut self, context: u32) -> Nanoseconds {
        let longest =
            self.machines[self.contexts[context as usize].machine as usize].inbound_stall_ns_max;
        self.draw(longest)
    }

    /// How long a message of `context` is held back before it leaves.
    fn outbound_stall(&mut self, context: u32) -> Nanoseconds {
        let longest =
            self.machines[self.contexts[context as usize].machine as usize].outbound_stall_ns_max;
        self.draw(longest)
    }

    fn draw(&mut self, longest: Nanoseconds) -> Nanoseconds {
        if longest == 0 {
            0
        } else {
            self.random.random_range(0..=longest)
        }
    }

    /// When a message of `size` bytes that the NIC of `context` takes up at `at` has left it.
    fn depart(&mut self, context: u32, at: Nanoseconds, size: u64) -> Nanoseconds {
        let number = self.contexts[context as usize].machine;
        let slowness = self.slowness(number);
        let machine = &mut self.machines[number as usize];
        let profile = &machine.profile;
        let cost = slowness
            * profile
                .nic_message_ps
                .max(size * profile.nic_byte_ps.max(profile.pcie_byte_ps));
        machine.send_free_ps = machine.send_free_ps.max(at * 1000) + cost;
        machine.send_free_ps.div_ceil(1000)
    }

    /// When the NIC of `context` has taken up a message of `size` bytes that reaches it now.
    fn take(&mut self, context: u32, size: u64) -> Nanoseconds {
        let now = self.time.now();
        let number = self.contexts[context as usize].machine;
        let slowness = self.slowness(number);
        let machine = &mut self.machines[number as usize];
        let cost = slowness
            * machine
                .profile
                .nic_message_ps
                .max(size * machine.profile.pcie_byte_ps);
        machine.take_free_ps = machine.take_free_ps.max(now * 1000) + cost;
        machine.take_free_ps.div_ceil(1000)
    }

    /// How long a message is on its way from NIC to NIC.
    fn travel(&self, from: u32, to: u32) -> Nanoseconds {
        let (from, to) = (&self.contexts[from as usize], &self.contexts[to as usize]);
        let (sender, receiver) = (
            &self.machines[from.machine as usize].profile,
            &self.machines[to.machine as usize].profile,
        );
        // Within a machine the NIC turns messages round by itself.
        let wire = if from.machine == to.machine {
            0
        } else {
            sender.wire_ns.max(receiver.wire_ns)
        };
        let [sending, receiving] = [from.machine, to.machine].map(|machine| self.slowness(machine));
        sending * sender.nic_processing_ns + wire + receiving * receiver.nic_processing_ns
    }

    fn new_message(
        &mut self,
        from: u32,
        to: u32,
        sequence: u64,
        turn: u32,
        operation: Operation,
    ) -> u32 {
        let payload = Vec::new();
        let message = Message {
            from,
            to,
            sequence,
            turn,
            operation,
            payload,
            status: Status::Success,
            not_ready: false,
            region: 0,
            offset: 0,
            key: None,
            done: 0,
            waited: false,
            due: false,
            settled: false,
            landing: None,
            scattered: None,
            grain: None,
            delayed: false,
            uses: 1,
        };
        match self.free_messages.pop() {
            Some(index) => {
                let slot = &mut self.messages[index as usize];
                let mut payload = std::mem::take(&mut slot.payload);
                payload.clear();
                *slot = Message { payload, ..message };
                index
            }
            None => {
                self.messages.push(message);
                self.messages.len() as u32 - 1
            }
        }
    }

    /// An event that names the message has come, and no other one will in its place.
    fn release_message(&mut self, index: u32) {
        let message = &mut self.messages[index as usize];
        message.uses -= 1;
        if message.uses == 0 {
            self.free_messages.push(index);
        }
    }
}

/// Whether the operation's effect waits for an answer: READ, atomics, FLUSH, ATOMIC_WRITE.
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

/// The local bytes that an operation names.
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
