//! Completion queues.

use stonecast_fabric::{Opcode, Operation, Placement, QueuePair, Status, WorkCompletion};

use super::Net;

impl Net {
    /// Puts a completion into a completion queue, or notes that it overran.
    pub(super) fn complete(&mut self, context: u32, cq: u32, completion: WorkCompletion) {
        let queue = &mut self.contexts[context as usize].completions[cq as usize];
        if queue.entries.len() == queue.capacity {
            if !queue.overrun {
                queue.overrun = true;
                self.overrun.push((context, cq));
            }
            return;
        }
        queue.entries.push_back(completion);
        self.note_arrival(context);
    }

    /// Breaks the queue pairs of completion queues that overran. To be called after everything that may complete.
    pub fn break_overrun(&mut self) {
        while let Some((context, cq)) = self.overrun.pop() {
            for number in 0..self.qps.len() as u32 {
                let uses =
                    |qp: &mut super::Qp| qp.context == context && (qp.options.send_cq.0 == cq || qp.options.receive_cq.0 == cq);
                if self.qp(number).is_some_and(uses) {
                    self.fail(number, stonecast_fabric::DisconnectCause::QueuePairError, Status::WorkRequestFlushed);
                }
            }
        }
    }

    /// Appends completions to `into`.
    pub fn poll(&mut self, context: u32, cq: u32, limit: usize, into: &mut Vec<WorkCompletion>) -> usize {
        let context = self.contexts.get_mut(context as usize);
        let Some(queue) = context.and_then(|context| context.completions.get_mut(cq as usize)) else { return 0 };
        let count = queue.entries.len().min(limit);
        into.extend(queue.entries.drain(..count));
        count
    }
}

/// A completion without a message.
pub(super) fn completion(wr_id: u64, status: Status, opcode: Opcode, qp: u32) -> WorkCompletion {
    WorkCompletion { wr_id, status, opcode, qp: QueuePair(qp), immediate: 0, placement: Placement { offset: 0, size: 0 } }
}

/// What a completed operation is called.
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
