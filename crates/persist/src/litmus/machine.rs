//! The machine that runs a program: the possible next events of a state, and the effect of each.
//!
//! Each piece of data is one cache line, without loss of generality: the lines of an update take the same path
//! independently of each other. So an update is damaged if one of its lines is, and `b` survives without `a` if one
//! line of `b` does without one line of `a`; the model has those two lines. A test gives every long value two lines and
//! compares.
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
//! An early eviction is not an event: at a crash a line in a cache may or may not have been written back.

use std::ops::Range;

use crate::platform::FlushKind;
use crate::program::{Program, completes, delivers};
use crate::scenario::Update;
use crate::step::{Item, Message, Party, Step};

use super::rules::{Hardware, Rule};
use super::state::{OPERATIONS_MAX, STEPS_MAX, Stage, State};

/// An event.
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

/// A line of an operation that the requester posts; short operations have one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    pub step: Step,
    /// Index of the line in its value.
    pub line: usize,
    non_posted: bool,
    /// Whether its data lies in persistent memory, and so may survive a crash.
    pub persistent: bool,
}

impl Posted {
    /// The update that it stores at its place.
    pub fn target(&self) -> Option<Item> {
        match self.step {
            Step::Write(item) | Step::WriteImmediate(item) | Step::WriteAtomic(item) => Some(item),
            _ => None,
        }
    }

    /// Whether it is a message that holds `item`.
    pub fn holds(&self, item: Item) -> bool {
        match self.step {
            Step::Send(Message::Value(held)) | Step::Append(Message::Value(held)) => held == item,
            Step::Send(Message::Both) | Step::Append(Message::Both) => true,
            _ => false,
        }
    }

    /// Whether it stores its data in a receive buffer.
    pub fn is_message(&self) -> bool {
        matches!(self.step, Step::Send(_) | Step::Append(_))
    }

    /// Whether it is an entry, whose receive buffer is its place.
    pub fn is_entry(&self) -> bool {
        matches!(self.step, Step::Append(_))
    }

    /// Whether it is an ATOMIC_WRITE.
    pub fn is_atomic(&self) -> bool {
        matches!(self.step, Step::WriteAtomic(_))
    }

    /// Whether its answer comes after all earlier posts.
    pub fn is_flush(&self) -> bool {
        matches!(self.step, Step::Flush | Step::Read)
    }
}

/// Acknowledgements of a responder's program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acks {
    pub all: usize,
    pub sent: usize,
    pub received: usize,
}

/// A program on a machine.
pub(super) struct Machine {
    pub hardware: Hardware,
    compound: bool,
    requester: Vec<Step>,
    /// For each step of the requester that awaits a completion, the lines of its operation.
    awaited: Vec<Option<Range<usize>>>,
    responder: Vec<Step>,
    /// The lines of all operations, in the order of posting.
    pub posted: Vec<Posted>,
    /// The lines of each operation.
    pub operations: Vec<Range<usize>>,
    /// Lines of a long value.
    pub line_count: usize,
}

impl Machine {
    /// # Panics
    /// On more than 14 operations of the requester, or more than 15 steps of a party.
    pub fn new(hardware: Hardware, program: &Program, update: Update) -> Self {
        Self::with_lines(hardware, program, update, 1)
    }

    /// Like [`Machine::new`], with `line_count` lines for each value that may be long.
    pub fn with_lines(
        hardware: Hardware,
        program: &Program,
        update: Update,
        line_count: usize,
    ) -> Self {
        let requester: Vec<Step> = program.of(Party::Requester).collect();
        let responder: Vec<Step> = program.of(Party::Responder).collect();
        let mut posted = Vec::new();
        let mut operations: Vec<Range<usize>> = Vec::new();
        let mut awaited = Vec::with_capacity(requester.len());
        for step in &requester {
            if step.is_post() {
                let (persistent, lines) = match step {
                    Step::Send(Message::Value(_) | Message::Both) => {
                        (hardware.persistent_buffers, line_count)
                    }
                    Step::Send(Message::Address(_)) | Step::Flush => (false, 1),
                    Step::Read => (false, 1),
                    Step::WriteAtomic(_) => (true, 1),
                    // The lines of `a`, then the lines of `b`.
                    Step::Append(Message::Both) => (true, 2 * line_count),
                    _ => (true, line_count),
                };
                let non_posted = matches!(step, Step::Flush | Step::Read | Step::WriteAtomic(_));
                operations.push(posted.len()..posted.len() + lines);
                posted.extend((0..lines).map(|line| Posted {
                    step: *step,
                    line,
                    non_posted,
                    persistent,
                }));
            }
            awaited.push(match step {
                Step::Await(awaited) => operations
                    .iter()
                    .rfind(|lines| completes(posted[lines.start].step, *awaited))
                    .cloned(),
                _ => None,
            });
        }
        assert!(
            posted.len() <= OPERATIONS_MAX,
            "{} operations do not fit into a state",
            posted.len()
        );
        assert!(
            requester.len().max(responder.len()) <= STEPS_MAX,
            "too many steps for a state: {program}"
        );
        let compound = update.is_compound();
        Self {
            hardware,
            compound,
            requester,
            awaited,
            responder,
            posted,
            operations,
            line_count,
        }
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
                Stage::Nic if self.may_take_effect(state, op) => {
                    each(Event::TakesEffect(op), self.effect(state, op))
                }
                Stage::Visible if self.may_drain(state, op) => {
                    let to = if self.hardware.inbound_to_cache {
                        Stage::Cache
                    } else {
                        Stage::Controller
                    };
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
            let earlier = self.requester[..state.requester()]
                .iter()
                .filter(|step| step.is_post())
                .count();
            return Some(
                self.operations[earlier]
                    .clone()
                    .fold(next, |state, line| state.with_stage(line, Stage::Queued)),
            );
        }
        let ends = if step == Step::ReceiveAck {
            let acks = self.acks(state);
            acks.sent > acks.received
        } else {
            self.awaited[state.requester()]
                .as_ref()
                .is_some_and(|lines| self.has_completed(state, lines))
        };
        ends.then_some(next)
    }

    /// The progress of the responder's acknowledgements.
    pub fn acks(&self, state: State) -> Acks {
        let count = |steps: &[Step], ack: Step| steps.iter().filter(|step| **step == ack).count();
        Acks {
            all: count(&self.responder, Step::SendAck),
            sent: count(&self.responder[..state.responder()], Step::SendAck),
            received: count(&self.requester[..state.requester()], Step::ReceiveAck),
        }
    }

    fn has_completed(&self, state: State, lines: &Range<usize>) -> bool {
        let first = if self.has(Rule::CompletionsInOrder) {
            0
        } else {
            lines.start
        };
        (first..lines.end).all(|op| {
            let stage = state.stage(op);
            // The completion of an ATOMIC_WRITE proves no more than that the NIC has it, either.
            if self.posted[op].is_flush() || !self.has(Rule::CompletionBeforePlacement) {
                return stage >= Stage::Visible && stage != Stage::Lost;
            }
            // A NIC that resets has acknowledged data that it forgets.
            stage
                >= if self.hardware.early_completion {
                    Stage::Queued
                } else {
                    Stage::Nic
                }
        })
    }

    fn responder_step(&self, state: State, step: Step) -> Option<State> {
        let next = state.advanced(Party::Responder);
        match step {
            Step::Receive(message) => {
                let lines = self
                    .operations
                    .iter()
                    .find(|lines| delivers(self.posted[lines.start].step, message))?;
                let earlier = !self.has(Rule::ReceiveAfterPlacement)
                    || self.earlier_are_placed(state, lines.start);
                (earlier && lines.clone().all(|line| state.is_placed(line))).then_some(next)
            }
            // Without a message there is nothing to copy, and the place keeps its content.
            Step::Copy(item) => {
                let mut messages = self
                    .operations
                    .iter()
                    .filter(|lines| self.posted[lines.start].holds(item));
                let arrived = messages.any(|lines| lines.clone().all(|line| state.is_placed(line)));
                Some(if arrived {
                    next.with_copy(item, Stage::Cache)
                } else {
                    next
                })
            }
            Step::WriteBack(item) => Some(if self.has(Rule::WriteBackPersists) {
                self.written_back(next, item)
            } else {
                next
            }),
            _ => Some(next),
        }
    }

    fn written_back(&self, state: State, item: Item) -> State {
        let mut state = state;
        if state.copy(item) == Stage::Cache {
            state = state.with_copy(item, Stage::Controller);
        }
        for (op, post) in self.posted.iter().enumerate() {
            let lies_there = post.target() == Some(item) || self.is_line_of_entry(post, item);
            if lies_there && state.is_placed(op) {
                state = state.with_stage(op, Stage::Controller);
            }
        }
        state
    }

    /// Whether it is a line of `item` in an entry.
    fn is_line_of_entry(&self, post: &Posted, item: Item) -> bool {
        let is_second = post.line >= self.line_count;
        post.is_entry()
            && post.holds(item)
            && (post.step != Step::Append(Message::Both) || is_second == (item == Item::B))
    }

    fn may_arrive(&self, state: State, op: usize) -> bool {
        !self.has(Rule::ArrivalInOrder)
            || (0..op).all(|earlier| state.stage(earlier) > Stage::Queued)
    }

    fn may_take_effect(&self, state: State, op: usize) -> bool {
        let post = &self.posted[op];
        if post.is_flush() {
            return self.flushes_are_answered(state, op) && self.flush_may_answer(state, op);
        }
        let in_order = self.has(Rule::PostedInOrder)
            && !(self.hardware.relaxed && self.has(Rule::RelaxedWritesPass));
        if in_order && !self.earlier_are_placed(state, op) {
            return false;
        }
        let waits_for_non_posted = if post.non_posted {
            self.has(Rule::AtomicWriteWaits)
        } else {
            !self.has(Rule::PostedPassesNonPosted)
        };
        !waits_for_non_posted || self.non_posted_are_done(state, op)
    }

    fn earlier_are_placed(&self, state: State, op: usize) -> bool {
        (0..op).all(|earlier| self.posted[earlier].non_posted || state.is_placed(earlier))
    }

    fn non_posted_are_done(&self, state: State, op: usize) -> bool {
        (0..op).all(|earlier| !self.posted[earlier].non_posted || state.is_placed(earlier))
    }

    fn flushes_are_answered(&self, state: State, op: usize) -> bool {
        (0..op).all(|earlier| !self.posted[earlier].is_flush() || state.is_placed(earlier))
    }

    fn flush_may_answer(&self, state: State, flush: usize) -> bool {
        let kind = self.kind_of(flush);
        let read = kind == FlushKind::Read;
        if !self.has(Rule::FlushWaits)
            || (read && self.hardware.relaxed && self.has(Rule::RelaxedReadDoesNotPush))
        {
            return true;
        }
        let pushes = match kind {
            FlushKind::Read => self.has(Rule::ReadPushes),
            FlushKind::NativeGlobal => !self.has(Rule::GlobalIsOnlyVisible),
            FlushKind::NativePersistent => false,
        };
        (0..flush).filter(|op| self.covers(flush, *op)).all(|op| {
            state.is_placed(op)
                && !(pushes && self.posted[op].persistent && state.stage(op) == Stage::Visible)
        })
    }

    /// A READ is a READ for every kind of flush that the platform has.
    fn kind_of(&self, flush: usize) -> FlushKind {
        match self.posted[flush].step {
            Step::Read => FlushKind::Read,
            _ => self.hardware.flush,
        }
    }

    /// Whether `flush`, posted after `op`, covers `op`.
    fn covers(&self, flush: usize, op: usize) -> bool {
        let native = self.kind_of(flush) != FlushKind::Read;
        !(native && self.has(Rule::NativeFlushOmitsSend) && self.posted[op].is_message())
    }

    fn effect(&self, state: State, op: usize) -> State {
        let mut state = state.with_stage(op, Stage::Visible);
        let persists = self.kind_of(op) == FlushKind::NativePersistent
            && self.has(Rule::PersistentFlushPersists);
        if self.posted[op].is_flush() && persists {
            for covered in (0..op)
                .filter(|earlier| self.covers(op, *earlier) && self.posted[*earlier].persistent)
            {
                state = state.with_stage(covered, Stage::Controller);
            }
        }
        state
    }

    fn may_drain(&self, state: State, op: usize) -> bool {
        let has_left = |earlier: usize| {
            state.stage(earlier) > Stage::Visible || !self.posted[earlier].persistent
        };
        self.posted[op].persistent && (self.has(Rule::ControllerReorders) || (0..op).all(has_left))
    }

    fn reset(&self, state: State) -> State {
        let mut state = state.with_reset();
        for op in 0..self.posted.len() {
            if state.stage(op) == Stage::Nic {
                state = state.with_stage(op, Stage::Lost);
            }
        }
        state
    }

    pub fn has(&self, rule: Rule) -> bool {
        self.hardware.has(rule)
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
}
