//! Completion queues.

use slab::Slab;
use stonecast_base::Nanoseconds;
use stonecast_fabric::{Opcode, Operation, Placement, QueuePair, Status, WorkCompletion};

use super::Net;
use crate::faults::Fault;
use crate::queue::Event;

/// Irregular completions and buffers.
#[derive(Default)]
pub(super) struct Irregular {
    /// Completion queues that overran and whose queue pairs are not yet broken.
    pub overrun: Vec<(u32, u32)>,
    /// The completion queue whose queue pairs are being broken.
    breaking: Option<(u32, u32)>,
    /// Delayed completions, by the number of their event.
    late: Slab<Late>,
}

/// A delayed item.
enum Late {
    Completion {
        context: u32,
        cq: u32,
        completion: WorkCompletion,
    },
    /// A multi-packet buffer that is given back.
    Buffer {
        context: u32,
        queue: u32,
        wr_id: u64,
    },
}

impl Irregular {
    /// Whether a completion of queue pair `number` is delayed.
    pub fn is_late(&self, number: u32) -> bool {
        let of = |late: &Late| matches!(late, Late::Completion { completion, .. } if completion.qp.0 == number);
        self.late.iter().any(|(_, late)| of(late))
    }
}

impl Net {
    /// Puts a completion into a completion queue, or notes that the queue overran.
    pub(super) fn complete(&mut self, context: u32, cq: u32, completion: WorkCompletion) {
        // A queue that lost a completion gets no later arrival: a reader that matches answers by their order would
        // mistake one for another.
        let broken = self.irregular.breaking == Some((context, cq))
            || self.irregular.overrun.contains(&(context, cq));
        let arrival = matches!(
            completion.opcode,
            Opcode::Receive | Opcode::ReceiveWriteWithImmediate
        );
        if broken && arrival && completion.status == Status::Success {
            return;
        }
        if self
            .faults
            .strikes(Fault::CompletionLost, self.place_of(context))
        {
            self.faults.hit(Fault::CompletionLost);
            return self.irregular.overrun.push((context, cq));
        }
        let delayed = self
            .faults
            .strikes(Fault::CompletionDelayed, self.place_of(context));
        let until = self.contexts[context as usize].completions[cq as usize].late_until;
        if delayed || until > self.time.now() {
            return self.complete_later(context, cq, completion, delayed);
        }
        self.deliver(context, cq, completion);
    }

    fn complete_later(&mut self, context: u32, cq: u32, completion: WorkCompletion, delayed: bool) {
        let queue = &mut self.contexts[context as usize].completions[cq as usize];
        let mut at = queue.late_until.max(self.time.now());
        if delayed {
            self.faults.hit(Fault::CompletionDelayed);
            at += self.faults.between(1000, LATE_NS_MAX);
        }
        // Completions of one queue keep their order; those of other queues do not wait.
        queue.late_until = at;
        let late = Late::Completion {
            context,
            cq,
            completion,
        };
        self.happen_later(late, at);
    }

    /// Gives a multi-packet buffer back at `at`.
    pub(super) fn give_back_later(
        &mut self,
        context: u32,
        queue: u32,
        wr_id: u64,
        at: Nanoseconds,
    ) {
        let late = Late::Buffer {
            context,
            queue,
            wr_id,
        };
        self.happen_later(late, at);
    }

    fn happen_later(&mut self, late: Late, at: Nanoseconds) {
        let index = self.irregular.late.insert(late) as u32;
        self.time.push(at, Event::Complete(index));
    }

    /// Delivers a delayed item.
    pub fn complete_late(&mut self, index: u32) {
        match self.irregular.late.remove(index as usize) {
            Late::Completion {
                context,
                cq,
                completion,
            } => {
                // The items of a queue pair are gone with it.
                if self.qp(completion.qp.0).is_some() && !self.contexts[context as usize].dead {
                    self.deliver(context, cq, completion);
                    self.note_quiet(completion.qp.0);
                }
            }
            Late::Buffer {
                context,
                queue,
                wr_id,
            } => self.give_back_now(context, queue, wr_id),
        }
    }

    fn deliver(&mut self, context: u32, cq: u32, completion: WorkCompletion) {
        let queue = &mut self.contexts[context as usize].completions[cq as usize];
        if queue.entries.len() == queue.capacity {
            if !queue.overrun {
                queue.overrun = true;
                self.irregular.overrun.push((context, cq));
            }
            return;
        }
        queue.entries.push_back(completion);
        self.note_arrival(context);
    }

    /// Breaks the queue pairs of completion queues that overran. To be called after everything that may complete.
    pub fn break_overrun(&mut self) {
        while let Some((context, cq)) = self.irregular.overrun.pop() {
            self.irregular.breaking = Some((context, cq));
            for number in 0..self.qps.len() as u32 {
                let uses = |qp: &mut super::Qp| {
                    qp.context == context
                        && (qp.options.send_cq.0 == cq || qp.options.receive_cq.0 == cq)
                };
                if self.qp(number).is_some_and(uses) {
                    self.fail(
                        number,
                        stonecast_fabric::DisconnectCause::QueuePairError,
                        Status::WorkRequestFlushed,
                    );
                }
            }
            self.irregular.breaking = None;
        }
    }

    /// Appends completions to `into`.
    pub fn poll(
        &mut self,
        context: u32,
        cq: u32,
        limit: usize,
        into: &mut Vec<WorkCompletion>,
    ) -> usize {
        let context = self.contexts.get_mut(context as usize);
        let Some(queue) = context.and_then(|context| context.completions.get_mut(cq as usize))
        else {
            return 0;
        };
        let count = queue.entries.len().min(limit);
        // Most polls find nothing, because a port looks at all of its queues whenever something arrives.
        if count > 0 {
            into.extend(queue.entries.drain(..count));
        }
        count
    }
}

/// Longest delay of a completion.
const LATE_NS_MAX: u64 = 100_000;

/// A completion without a message.
pub(super) fn completion(wr_id: u64, status: Status, opcode: Opcode, qp: u32) -> WorkCompletion {
    WorkCompletion {
        wr_id,
        status,
        opcode,
        qp: QueuePair(qp),
        immediate: 0,
        placement: Placement { offset: 0, size: 0 },
    }
}

/// The opcode of a completed operation.
pub(super) fn opcode(operation: &Operation) -> Opcode {
    match operation {
        Operation::Write { .. } | Operation::WriteWithImmediate { .. } => Opcode::Write,
        Operation::Send { .. } => Opcode::Send,
        Operation::Read { .. } => Opcode::Read,
        Operation::CompareAndSwap { .. } => Opcode::CompareAndSwap,
        Operation::FetchAndAdd { .. } => Opcode::FetchAndAdd,
        Operation::Flush { .. } => Opcode::Flush,
        Operation::AtomicWrite { .. } => Opcode::AtomicWrite,
    }
}
