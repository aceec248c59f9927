//! Appends, as a subject of the checks.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use stonecast_fabric_sim::Process;

use crate::appends::entries::{EntryId, Memory, SessionId};
use crate::appends::setup::{Place, Setup};
use crate::appends::{receiver, sender};
use crate::history::{NodeId, OperationId};
use crate::lab::REFUSED;
use crate::oracles::redundancy::Group;
use crate::subject::{Ended, Seat, Subject, Task, Testimony};
use crate::timeline::Words;
use crate::violation::Violation;

/// The rehearsed program, which treats an arrived entry as persisted.
pub(super) const MISTAKE: &str = "rq.append(a) rq.await(append(a))";

/// The statement that an entry is persisted everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PersistedEverywhere;

/// The entries in the memory of each receiver, in the order of their places.
pub(crate) type Contents = Vec<Vec<EntryId>>;

/// The work of one sender.
#[derive(Default)]
struct Duty {
    /// Entries that the sender has not begun.
    left: Cell<u64>,
    /// Entries that the sender has begun and not concluded.
    under_way: Cell<u64>,
    sessions: Cell<u32>,
    is_connected: Cell<bool>,
}

/// Appends, as a subject of the checks.
pub(crate) struct Appends {
    pub setup: Setup,
    pub testimony: Testimony<EntryId, PersistedEverywhere>,
    duties: Vec<Duty>,
    /// Entries that were begun.
    pub(super) begun: RefCell<BTreeSet<EntryId>>,
    /// Entries whose sender was told that they are persisted.
    pub(super) promised: RefCell<BTreeSet<EntryId>>,
    /// The entries that lay in a receiver's memory when it had quiesced a session.
    pub(super) quiet: RefCell<BTreeMap<(NodeId, SessionId), BTreeSet<u32>>>,
    /// For each receiver, the sender whose session the receiver is to end.
    dismissals: RefCell<BTreeMap<NodeId, u32>>,
    is_over: Cell<bool>,
}

/// The address of a receiver.
pub(super) fn address(node: NodeId) -> String {
    format!("sim:receiver-{node}")
}

impl Appends {
    pub fn new(setup: Setup) -> Rc<Self> {
        let duties: Vec<Duty> = (0..setup.senders).map(|_| Duty::default()).collect();
        for (_, duty) in (0..setup.entries).zip(duties.iter().cycle()) {
            duty.left.update(|left| left + 1);
        }
        Rc::new(Self {
            testimony: Testimony::new(setup.senders),
            duties,
            begun: RefCell::default(),
            promised: RefCell::default(),
            quiet: RefCell::default(),
            dismissals: RefCell::default(),
            is_over: Cell::new(false),
            setup,
        })
    }

    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        0..self.setup.receivers.len() as NodeId
    }

    pub fn place(&self, node: NodeId) -> &Place {
        &self.setup.receivers[node as usize]
    }

    fn duty(&self, sender: u32) -> &Duty {
        &self.duties[sender as usize]
    }

    /// Gives every sender `count` more entries to append.
    pub fn add_entries(&self, count: u64) {
        for duty in &self.duties {
            duty.left.update(|left| left + count);
        }
    }

    /// Returns whether all entries are concluded.
    pub fn is_idle(&self) -> bool {
        (0..self.setup.senders).all(|sender| !self.has_work(sender))
    }

    /// Returns whether `sender` has entries that are not concluded.
    pub(super) fn has_work(&self, sender: u32) -> bool {
        let duty = self.duty(sender);
        duty.left.get() + duty.under_way.get() > 0
    }

    /// Lets senders end.
    pub fn finish(&self) {
        self.is_over.set(true);
    }

    pub fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// Asks a receiver to end the session of `sender`.
    pub fn dismiss(&self, node: NodeId, sender: u32) {
        self.dismissals.borrow_mut().insert(node, sender);
    }

    pub(super) fn take_dismissal(&self, node: NodeId) -> Option<u32> {
        self.dismissals.borrow_mut().remove(&node)
    }

    pub(super) fn begin_session(&self, sender: u32) -> SessionId {
        let sessions = &self.duty(sender).sessions;
        sessions.update(|number| number + 1);
        SessionId {
            sender,
            number: sessions.get(),
        }
    }

    pub(super) fn note_connected(&self, sender: u32, is_connected: bool) {
        self.duty(sender).is_connected.set(is_connected);
    }

    /// The receivers to which `sender` is connected: all or none.
    pub fn group_of(&self, sender: u32) -> Group {
        let in_sync = match self.duty(sender).is_connected.get() {
            true => self.nodes().collect(),
            false => Vec::new(),
        };
        Group {
            number: sender,
            in_sync,
        }
    }

    /// Takes one of the entries that are left to `sender`. Returns whether there was one.
    pub(super) fn take_one(&self, sender: u32) -> bool {
        let duty = self.duty(sender);
        let is_left = duty.left.get() > 0;
        if is_left {
            duty.left.update(|left| left - 1);
            duty.under_way.update(|count| count + 1);
        }
        is_left
    }

    pub(super) fn call(&self, entry: EntryId) -> OperationId {
        self.begun.borrow_mut().insert(entry);
        let sender = entry.session.sender;
        // An entry may get to any receiver before its sender or another receiver dies.
        self.testimony.call(sender, None, sender, entry)
    }

    pub(super) fn note_persisted(&self, entry: EntryId, operation: OperationId) {
        self.promised.borrow_mut().insert(entry);
        let duty = self.duty(entry.session.sender);
        duty.under_way.update(|count| count - 1);
        self.testimony.answer(operation, Some(PersistedEverywhere));
    }

    /// Notes that the outcome of an entry is unknown. The sender is to append another entry in its place.
    pub(super) fn give_up(&self, sender: u32, operation: OperationId) {
        let duty = self.duty(sender);
        duty.under_way.update(|count| count - 1);
        duty.left.update(|left| left + 1);
        self.testimony.answer(operation, None);
    }

    /// Notes the death of a sender. The outcome of its entries under way stays unknown.
    pub fn note_death(&self, sender: u32) {
        let duty = self.duty(sender);
        duty.left.update(|left| left + duty.under_way.take());
        duty.is_connected.set(false);
    }

    pub(super) fn note_quiet(&self, node: NodeId, session: SessionId, memory: &Memory) {
        let mut entries = memory.all_entries();
        entries.retain(|entry| entry.session == session);
        let numbers = entries.into_iter().map(|entry| entry.number).collect();
        self.quiet.borrow_mut().insert((node, session), numbers);
    }

    fn open(&self, seats: &[Seat]) -> Result<Contents, Violation> {
        let contents = seats.iter().map(|seat| {
            let memory = Memory::open(&seat.backing, &self.place(seat.node).platform);
            let memory = memory.map_err(|error| Violation::new(REFUSED, error.to_string()))?;
            Ok(memory.all_entries())
        });
        contents.collect()
    }
}

impl Subject for Appends {
    type Call = EntryId;
    type Answer = PersistedEverywhere;
    type Contents = Contents;
    type Beside = ();

    const WORDS: Words<EntryId, PersistedEverywhere> = Words {
        call: |_, entry| format!("append {entry}"),
        answer: |_, entry, answer| match answer {
            Some(PersistedEverywhere) => format!("told of {entry}: persisted"),
            None => format!("told of {entry}: perhaps it is there"),
        },
    };

    fn name(&self, node: NodeId) -> String {
        format!("receiver {node}")
    }

    fn testimony(&self) -> &Testimony<EntryId, PersistedEverywhere> {
        &self.testimony
    }

    fn serve(self: Rc<Self>, seat: Seat) -> Task<Result<(), Ended>> {
        Box::pin(async move {
            let served = receiver::serve(self, seat).await;
            served.map_err(|error| Ended {
                error,
                is_excused: false,
            })
        })
    }

    fn live(self: Rc<Self>, process: Process, client: u32, seed: u64) -> Task<()> {
        Box::pin(sender::live(self, process, client, seed))
    }

    fn beside(&self) {}

    fn recover(self: Rc<Self>, seats: Vec<Seat>, _: Rc<()>) -> Task<Result<Contents, Violation>> {
        Box::pin(async move { self.open(&seats) })
    }
}
