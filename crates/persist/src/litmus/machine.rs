//! The machine that runs a program: its states, its events, and what a crash may leave of a state.
//!
//! Each piece of data is one cache line. That loses nothing: lines of an update take the same way independently of each
//! other, so an update is damaged where one of its lines is, and `b` survives without `a` where one line of `b` does
//! without one line of `a`; those two lines are the model's.
//!
//! ```text
//!   posted op   Unposted ▶ Queued ▶ Nic ▶ Visible ▶ Cache | Controller        Lost: a NIC reset took it
//!                (program)  (send   (res-  (I/O con-
//!                            queue,  pon-   troller)
//!                            wire)   der)
//!   flush       Unposted ▶ Queued ▶ Nic ▶ Visible (answered)
//!   copy                                        Cache ▶ Controller
//! ```
//!
//! A state is 64 bits: program counters, the stage of each operation, the copies' stages, and whether the NIC has reset.
//! What an early eviction does is not an event: at a crash a line in a cache may have been written back or not.

use crate::platform::FlushKind;
use crate::program::{Program, completes, delivers};
use crate::scenario::Update;
use crate::step::{Item, Message, Party, Step};

use super::rules::{Hardware, Rule, Survives};

/// Where an operation and its data are. The order is that of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Unposted,
    Queued,
    Nic,
    Visible,
    Cache,
    Controller,
    Lost,
}

const STAGES: [Stage; 7] =
    [Stage::Unposted, Stage::Queued, Stage::Nic, Stage::Visible, Stage::Cache, Stage::Controller, Stage::Lost];

/// Operations of a requester that fit into a state.
const OPERATIONS_MAX: usize = 14;
/// Steps of a party that fit into a state.
const STEPS_MAX: usize = 15;

/// See the module documentation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct State(pub u64);

const STAGE_BITS: u32 = 3;
const COPIES_AT: u32 = STAGE_BITS * OPERATIONS_MAX as u32;
const REQUESTER_AT: u32 = COPIES_AT + 2 * STAGE_BITS;
const RESPONDER_AT: u32 = REQUESTER_AT + 4;
const RESET_AT: u32 = RESPONDER_AT + 4;
const _: () = assert!(RESET_AT < 64);

impl State {
    pub const START: Self = Self(0);

    fn field(self, at: u32, bits: u32) -> u64 {
        self.0 >> at & ((1 << bits) - 1)
    }

    fn with_field(self, at: u32, bits: u32, value: u64) -> Self {
        Self(self.0 & !(((1 << bits) - 1) << at) | value << at)
    }

    pub fn stage(self, op: usize) -> Stage {
        STAGES[self.field(op as u32 * STAGE_BITS, STAGE_BITS) as usize]
    }

    fn with_stage(self, op: usize, stage: Stage) -> Self {
        self.with_field(op as u32 * STAGE_BITS, STAGE_BITS, stage as u64)
    }

    /// Where the copy of `item` at its place is.
    pub fn copy(self, item: Item) -> Stage {
        STAGES[self.field(COPIES_AT + item as u32 * STAGE_BITS, STAGE_BITS) as usize]
    }

    fn with_copy(self, item: Item, stage: Stage) -> Self {
        self.with_field(COPIES_AT + item as u32 * STAGE_BITS, STAGE_BITS, stage as u64)
    }

    fn requester(self) -> usize {
        self.field(REQUESTER_AT, 4) as usize
    }

    fn responder(self) -> usize {
        self.field(RESPONDER_AT, 4) as usize
    }

    fn advanced(self, party: Party) -> Self {
        Self(self.0 + (1 << if party == Party::Requester { REQUESTER_AT } else { RESPONDER_AT }))
    }

    pub fn has_reset(self) -> bool {
        self.field(RESET_AT, 1) == 1
    }
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A party does its next step.
    Step(Step),
    /// An operation reaches the responder's NIC.
    Arrives(usize),
    /// A posted operation or ATOMIC_WRITE becomes visible; a flush is answered.
    TakesEffect(usize),
    /// Data leaves the I/O controller.
    Drains(usize),
    /// The responder's NIC resets.
    Reset,
}

/// An operation that the requester posts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    pub step: Step,
    non_posted: bool,
    /// Its data may survive a crash: it lies in persistent memory.
    persistent: bool,
}

impl Posted {
    /// The update that it puts into its place.
    pub fn target(&self) -> Option<Item> {
        match self.step {
            Step::Write(item) | Step::WriteImmediate(item) | Step::WriteAtomic(item) => Some(item),
            _ => None,
        }
    }

    /// Whether it is a message that holds `item`.
    pub fn holds(&self, item: Item) -> bool {
        match self.step {
            Step::Send(Message::Value(held)) => held == item,
            Step::Send(Message::Both) => true,
            _ => false,
        }
    }

    /// Whether it puts its data into a receive buffer.
    pub fn is_message(&self) -> bool {
        matches!(self.step, Step::Send(_))
    }

    fn is_flush(&self) -> bool {
        self.step == Step::Flush
    }
}

/// What a crash does to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    Lost,
    Either,
    Kept,
}

/// A program on a machine.
pub(super) struct Machine {
    hardware: Hardware,
    compound: bool,
    requester: Vec<Step>,
    /// For each step of the requester that awaits a completion: of which operation.
    awaited: Vec<Option<usize>>,
    responder: Vec<Step>,
    pub posted: Vec<Posted>,
}

impl Machine {
    /// # Panics
    /// On more than 14 operations of the requester, or more than 15 steps of a party.
    pub fn new(hardware: Hardware, program: &Program, update: Update) -> Self {
        let requester: Vec<Step> = program.of(Party::Requester).collect();
        let responder: Vec<Step> = program.of(Party::Responder).collect();
        let mut posted = Vec::new();
        let mut awaited = Vec::with_capacity(requester.len());
        for step in &requester {
            if step.is_post() {
                let persistent = match step {
                    Step::Send(Message::Value(_) | Message::Both) => hardware.persistent_buffers,
                    Step::Send(Message::Address(_)) | Step::Flush => false,
                    _ => true,
                };
                let non_posted = matches!(step, Step::Flush | Step::WriteAtomic(_));
                posted.push(Posted { step: *step, non_posted, persistent });
            }
            awaited.push(match step {
                Step::Await(awaited) => posted.iter().rposition(|post| completes(post.step, *awaited)),
                _ => None,
            });
        }
        assert!(posted.len() <= OPERATIONS_MAX, "{} operations do not fit into a state", posted.len());
        assert!(requester.len().max(responder.len()) <= STEPS_MAX, "too many steps for a state: {program}");
        Self { hardware, compound: update.is_compound(), requester, awaited, responder, posted }
    }

    /// Whether the requester has concluded that the update is durable.
    pub fn has_concluded(&self, state: State) -> bool {
        state.requester() == self.requester.len()
    }

    /// Every event that may come next, with the state after it.
    pub fn successors(&self, state: State, mut each: impl FnMut(Event, State)) {
        if let Some(step) = self.requester.get(state.requester())
            && let Some(next) = self.requester_step(state, *step)
        {
            each(Event::Step(*step), next);
        }
        if let Some(step) = self.responder.get(state.responder())
            && let Some(next) = self.responder_step(state, *step)
        {
            each(Event::Step(*step), next);
        }
        for op in 0..self.posted.len() {
            match state.stage(op) {
                Stage::Unposted => break,
                Stage::Queued if !state.has_reset() && self.may_arrive(state, op) => {
                    each(Event::Arrives(op), state.with_stage(op, Stage::Nic));
                }
                Stage::Nic if self.may_take_effect(state, op) => each(Event::TakesEffect(op), self.effect(state, op)),
                Stage::Visible if self.may_drain(state, op) => {
                    let to = if self.hardware.inbound_to_cache { Stage::Cache } else { Stage::Controller };
                    each(Event::Drains(op), state.with_stage(op, to));
                }
                _ => {}
            }
        }
        if self.hardware.may_reset && !state.has_reset() {
            each(Event::Reset, self.reset(state));
        }
    }

    fn requester_step(&self, state: State, step: Step) -> Option<State> {
        let next = state.advanced(Party::Requester);
        if step.is_post() {
            let op = self.requester[..state.requester()].iter().filter(|step| step.is_post()).count();
            return Some(next.with_stage(op, Stage::Queued));
        }
        let ends = if step == Step::ReceiveAck {
            let received = self.requester[..state.requester()].iter().filter(|step| **step == Step::ReceiveAck).count();
            let sent = self.responder[..state.responder()].iter().filter(|step| **step == Step::SendAck).count();
            sent > received
        } else {
            self.awaited[state.requester()].is_some_and(|op| self.has_completed(state, op))
        };
        ends.then_some(next)
    }

    fn has_completed(&self, state: State, op: usize) -> bool {
        let first = if self.has(Rule::CompletionsInOrder) { 0 } else { op };
        (first..=op).all(|op| {
            let stage = state.stage(op);
            // Of ATOMIC_WRITE, too, no more is taken for granted than that the NIC has it.
            if self.posted[op].is_flush() || !self.has(Rule::CompletionBeforePlacement) {
                return stage >= Stage::Visible && stage != Stage::Lost;
            }
            // A NIC that resets has acknowledged what it forgets.
            stage >= if self.hardware.early_completion { Stage::Queued } else { Stage::Nic }
        })
    }

    fn responder_step(&self, state: State, step: Step) -> Option<State> {
        let next = state.advanced(Party::Responder);
        match step {
            Step::Receive(message) => {
                let op = self.posted.iter().position(|post| delivers(post.step, message))?;
                let placed =
                    is_placed(state, op) && (!self.has(Rule::ReceiveAfterPlacement) || self.earlier_are_placed(state, op));
                placed.then_some(next)
            }
            // Without a message there is nothing to copy, and the place keeps what it had.
            Step::Copy(item) => {
                let arrived = self.posted.iter().enumerate().any(|(op, post)| post.holds(item) && is_placed(state, op));
                Some(if arrived { next.with_copy(item, Stage::Cache) } else { next })
            }
            Step::WriteBack(item) => Some(if self.has(Rule::WriteBackPersists) { self.written_back(next, item) } else { next }),
            _ => Some(next),
        }
    }

    fn written_back(&self, state: State, item: Item) -> State {
        let mut state = state;
        if state.copy(item) == Stage::Cache {
            state = state.with_copy(item, Stage::Controller);
        }
        for (op, post) in self.posted.iter().enumerate() {
            if post.target() == Some(item) && is_placed(state, op) {
                state = state.with_stage(op, Stage::Controller);
            }
        }
        state
    }

    fn may_arrive(&self, state: State, op: usize) -> bool {
        !self.has(Rule::ArrivalInOrder) || (0..op).all(|earlier| state.stage(earlier) > Stage::Queued)
    }

    fn may_take_effect(&self, state: State, op: usize) -> bool {
        let post = &self.posted[op];
        if post.is_flush() {
            return self.flushes_are_answered(state, op) && self.flush_may_answer(state, op);
        }
        let in_order = self.has(Rule::PostedInOrder) && !(self.hardware.relaxed && self.has(Rule::RelaxedWritesPass));
        if in_order && !self.earlier_are_placed(state, op) {
            return false;
        }
        let waits_for_non_posted =
            if post.non_posted { self.has(Rule::AtomicWriteWaits) } else { !self.has(Rule::PostedPassesNonPosted) };
        !waits_for_non_posted || self.non_posted_are_done(state, op)
    }

    fn earlier_are_placed(&self, state: State, op: usize) -> bool {
        (0..op).all(|earlier| self.posted[earlier].non_posted || is_placed(state, earlier))
    }

    fn non_posted_are_done(&self, state: State, op: usize) -> bool {
        (0..op).all(|earlier| !self.posted[earlier].non_posted || is_placed(state, earlier))
    }

    fn flushes_are_answered(&self, state: State, op: usize) -> bool {
        (0..op).all(|earlier| !self.posted[earlier].is_flush() || is_placed(state, earlier))
    }

    fn flush_may_answer(&self, state: State, flush: usize) -> bool {
        let read = self.hardware.flush == FlushKind::Read;
        if !self.has(Rule::FlushWaits) || (read && self.hardware.relaxed && self.has(Rule::RelaxedReadDoesNotPush)) {
            return true;
        }
        let pushes = match self.hardware.flush {
            FlushKind::Read => self.has(Rule::ReadPushes),
            FlushKind::NativeGlobal => !self.has(Rule::GlobalIsOnlyVisible),
            FlushKind::NativePersistent => false,
        };
        (0..flush)
            .filter(|op| self.covers(*op))
            .all(|op| is_placed(state, op) && !(pushes && self.posted[op].persistent && state.stage(op) == Stage::Visible))
    }

    /// Whether a flush behind it concerns `op`.
    fn covers(&self, op: usize) -> bool {
        let native = self.hardware.flush != FlushKind::Read;
        !(native && self.has(Rule::NativeFlushOmitsSend) && self.posted[op].is_message())
    }

    fn effect(&self, state: State, op: usize) -> State {
        let mut state = state.with_stage(op, Stage::Visible);
        let persists = self.hardware.flush == FlushKind::NativePersistent && self.has(Rule::PersistentFlushPersists);
        if self.posted[op].is_flush() && persists {
            for covered in (0..op).filter(|earlier| self.covers(*earlier) && self.posted[*earlier].persistent) {
                state = state.with_stage(covered, Stage::Controller);
            }
        }
        state
    }

    fn may_drain(&self, state: State, op: usize) -> bool {
        let has_left = |earlier: usize| state.stage(earlier) > Stage::Visible || !self.posted[earlier].persistent;
        self.posted[op].persistent && (self.has(Rule::ControllerReorders) || (0..op).all(has_left))
    }

    fn reset(&self, state: State) -> State {
        let mut state = state.with_field(RESET_AT, 1, 1);
        for op in 0..self.posted.len() {
            if state.stage(op) == Stage::Nic {
                state = state.with_stage(op, Stage::Lost);
            }
        }
        state
    }

    fn has(&self, rule: Rule) -> bool {
        self.hardware.has(rule)
    }

    /// What a power cut does to the data of an operation.
    pub fn fate(&self, state: State, op: usize) -> Fate {
        if self.posted[op].persistent { self.fate_at(state.stage(op)) } else { Fate::Lost }
    }

    /// What a power cut does to the data of an operation that is in the memory of the responder for good.
    pub fn fate_in_memory(&self, op: usize) -> Fate {
        if self.posted[op].persistent { self.fate_at(Stage::Controller) } else { Fate::Lost }
    }

    /// What recovery finds of `item` after a power cut: the best that any line can do for it.
    pub fn fate_of(&self, state: State, item: Item) -> Fate {
        let posted = (0..self.posted.len()).filter(|op| self.restores(Line::Posted(*op), item)).map(|op| self.fate(state, op));
        posted.chain([self.fate_at(state.copy(item))]).max().expect("there is at least the copy")
    }

    /// Whether there is a `b`.
    pub fn is_compound(&self) -> bool {
        self.compound
    }

    /// Whether the responder copies `item`.
    pub fn copies(&self, item: Item) -> bool {
        self.responder.contains(&Step::Copy(item))
    }

    /// Whether inbound data goes into a cache.
    pub fn inbound_to_cache(&self) -> bool {
        self.hardware.inbound_to_cache
    }

    /// What a power cut does to a line of persistent memory.
    pub fn fate_at(&self, stage: Stage) -> Fate {
        let early = if self.has(Rule::EarlyEviction) { Fate::Either } else { Fate::Lost };
        match (self.hardware.survives, stage) {
            (Survives::Nothing, _) | (_, Stage::Unposted | Stage::Queued | Stage::Lost) => Fate::Lost,
            (Survives::Everything, _) => Fate::Kept,
            (_, Stage::Nic) => Fate::Lost,
            (Survives::Visible, _) | (_, Stage::Controller) => Fate::Kept,
            (Survives::Synced | Survives::Controller, Stage::Visible) => Fate::Lost,
            (Survives::Synced | Survives::Controller, Stage::Cache) => early,
        }
    }

    /// Counts the ways in which a power cut may end `state`, and returns one that breaks the promise.
    pub fn crash(&self, state: State) -> (u64, Option<Crash>) {
        // Lines whose fate is open; each way is a subset of them that survives.
        let lines = || {
            let posted = (0..self.posted.len()).map(|op| (Line::Posted(op), self.fate(state, op)));
            let copies = [Item::A, Item::B].map(|item| (Line::Copy(item), self.fate_at(state.copy(item))));
            posted.chain(copies)
        };
        let open = lines().filter(|(_, fate)| *fate == Fate::Either).count();
        let mut broken = None;
        for choice in 0..1_u64 << open {
            let mut next_open = 0;
            let mut survives = [false; 2];
            let mut kept = 0_u32;
            for (index, (line, fate)) in lines().enumerate() {
                let is_kept = match fate {
                    Fate::Lost => false,
                    Fate::Kept => true,
                    Fate::Either => {
                        next_open += 1;
                        choice >> (next_open - 1) & 1 == 1
                    }
                };
                if is_kept {
                    kept |= 1 << index;
                    for item in [Item::A, Item::B] {
                        survives[item as usize] |= self.restores(line, item);
                    }
                }
            }
            let concluded = self.has_concluded(state);
            let damage = match survives {
                [false, true] if self.compound => Some(Damage::Reordered),
                [false, _] if concluded => Some(Damage::Lost(Item::A)),
                [_, false] if concluded && self.compound => Some(Damage::Lost(Item::B)),
                _ => None,
            };
            if let (Some(damage), None) = (damage, broken) {
                broken = Some(Crash { damage, kept });
            }
        }
        (1 << open, broken)
    }

    /// Whether a line that survives brings `item` back.
    fn restores(&self, line: Line, item: Item) -> bool {
        match line {
            Line::Copy(copied) => copied == item,
            Line::Posted(op) => {
                let post = &self.posted[op];
                post.target() == Some(item) || (post.holds(item) && self.has(Rule::RecoveryReplays))
            }
        }
    }
}

fn is_placed(state: State, op: usize) -> bool {
    matches!(state.stage(op), Stage::Visible | Stage::Cache | Stage::Controller)
}

/// A line whose survival counts.
#[derive(Clone, Copy)]
enum Line {
    Posted(usize),
    Copy(Item),
}

/// How a promise is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Damage {
    /// The requester had concluded, and the update is gone.
    Lost(Item),
    /// `b` is there and `a` is not.
    Reordered,
}

/// A power cut and what it leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crash {
    pub damage: Damage,
    /// One bit for the data of each operation, then one for each copy.
    pub kept: u32,
}
