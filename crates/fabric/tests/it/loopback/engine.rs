//! Steps of posted work. Each call of [`Net::progress`] does one step for each queue pair: 512 bytes of a WRITE, or one
//! other operation.

use stonecast_base::Nanoseconds;
use stonecast_fabric::{
    Access, FlushPlacement, LocalSpan, Opcode, Operation, Placement, QueuePair, RemoteAddress,
    Status, WorkCompletion,
};
use stonecast_media::Region as _;

use super::{Fault, Net, Posted, Qp};

/// Bytes of a WRITE that one step places; a multiple of 8, so that words stay whole.
const STEP_SIZE: u32 = 512;
/// The delay of arrivals that a fault holds back.
const HELD_BACK_NS: Nanoseconds = 100_000;

impl Posted {
    pub(super) fn remote_key(&self) -> Option<u32> {
        match self.request.operation {
            Operation::Write { remote, .. } | Operation::WriteWithImmediate { remote, .. } => {
                Some(remote.rkey.0)
            }
            _ => None,
        }
    }

    fn is_posted_operation(&self) -> bool {
        use Operation::{Send, Write, WriteWithImmediate};
        matches!(
            self.request.operation,
            Write { .. } | WriteWithImmediate { .. } | Send { .. }
        )
    }
}

impl Net {
    /// One step of every queue pair.
    pub(super) fn progress(&mut self) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].dead {
                continue;
            }
            let qps: Vec<u32> = self.nodes[node].qps.keys().copied().collect();
            for qp in qps {
                self.step(node, qp);
            }
            self.release(node);
            self.break_overrun(node);
        }
    }

    /// One step of one queue pair; returns whether there was any work.
    pub(super) fn step(&mut self, node: usize, qp: u32) -> bool {
        let Some(index) = self.pick(&self.nodes[node].qps[&qp]) else {
            return false;
        };
        let Some(peer) = self.nodes[node].qps[&qp].peer else {
            return false;
        };
        if self.nodes[peer.0].held && self.fault == Fault::ResponderMustPoll {
            return false;
        }
        let now = self.clock.now();
        let mut posted = self.nodes[node]
            .qps
            .get_mut(&qp)
            .expect("exists")
            .send
            .remove(index)
            .expect("just picked");
        let outcome = if now < posted.not_before {
            None
        } else {
            self.execute(node, qp, peer, &mut posted)
        };
        let finished = outcome.is_some();
        posted.status = outcome;
        let Some(state) = self.nodes[node].qps.get_mut(&qp) else {
            return false;
        };
        state.send.insert(index, posted);
        if outcome.is_some_and(|status| status != Status::Success) {
            self.break_queue_pair(node, qp);
        }
        self.retire(node, qp);
        finished || now > 0
    }

    /// The request that may take effect next.
    fn pick(&self, qp: &Qp) -> Option<usize> {
        if qp.failed {
            return None;
        }
        let first = qp.send.iter().position(|posted| posted.status.is_none())?;
        let rest = || {
            qp.send
                .iter()
                .enumerate()
                .skip(first + 1)
                .take_while(|(_, posted)| posted.status.is_none())
        };
        let is_send = |posted: &Posted| matches!(posted.request.operation, Operation::Send { .. });
        let is_read = |posted: &Posted| matches!(posted.request.operation, Operation::Read { .. });
        if self.fault == Fault::SendsReordered && is_send(&qp.send[first]) {
            return rest()
                .filter(|(_, posted)| is_send(posted))
                .map(|(index, _)| index)
                .last()
                .or(Some(first));
        }
        if self.fault == Fault::ReadsOvertakeWrites
            && let Some((index, _)) = rest().find(|(_, posted)| is_read(posted))
        {
            return Some(index);
        }
        let may_overtake = self.flavour.overtakes || self.fault == Fault::FenceIgnored;
        if !may_overtake || qp.send[first].is_posted_operation() {
            return Some(first);
        }
        let Some((index, next)) = rest().find(|(_, posted)| posted.is_posted_operation()) else {
            return Some(first);
        };
        let blocked = next.request.fence && self.fault != Fault::FenceIgnored;
        // Only a request that cannot fail overtakes: a failure in front of an undone request would have to wait for it.
        let Operation::Write { local, remote } = next.request.operation else {
            return Some(first);
        };
        let (to, to_qp) = qp.peer?;
        let sound = self
            .resolve(
                to,
                to_qp,
                remote,
                u64::from(local.size),
                Access::REMOTE_WRITE,
            )
            .is_ok();
        Some(if !blocked && sound { index } else { first })
    }

    /// Does the next part of a request: `None` while the request is not done.
    fn execute(
        &mut self,
        node: usize,
        qp: u32,
        peer: (usize, u32),
        posted: &mut Posted,
    ) -> Option<Status> {
        match self.attempt(node, qp, peer, posted) {
            Ok(done) => done.then_some(Status::Success),
            Err(status) => Some(status),
        }
    }

    fn attempt(
        &mut self,
        node: usize,
        qp: u32,
        (to, to_qp): (usize, u32),
        posted: &mut Posted,
    ) -> Result<bool, Status> {
        match posted.request.operation {
            Operation::Write { local, remote } => {
                self.place(node, to, to_qp, local, remote, posted)
            }
            Operation::WriteWithImmediate {
                local,
                remote,
                immediate,
            } => {
                self.refuse_multi_packet(to, to_qp)?;
                let placed = self.place(node, to, to_qp, local, remote, posted);
                if placed.is_err() {
                    self.take_back_buffer((to, to_qp));
                }
                if !placed? {
                    return Ok(false);
                }
                self.deliver_immediate((node, qp), (to, to_qp), immediate, local.size, posted)
            }
            Operation::Send { local } => self.deliver((node, qp), (to, to_qp), local, posted),
            Operation::Read { local, remote } => {
                let own = self.local(node, local).ok_or(Status::LocalProtection)?;
                let (memory, offset) = self.resolve(
                    to,
                    to_qp,
                    remote,
                    u64::from(local.size),
                    Access::REMOTE_READ,
                )?;
                let mut bytes = vec![0; local.size as usize];
                memory.read(offset, &mut bytes);
                own.write(local.offset, &bytes);
                Ok(true)
            }
            Operation::CompareAndSwap {
                local,
                remote,
                expected,
                swap,
            } => self.atomic(node, to, to_qp, local, remote, |word| {
                if word == expected || self.fault == Fault::SwapAlways {
                    swap
                } else {
                    word
                }
            }),
            Operation::FetchAndAdd { local, remote, add } => {
                self.atomic(node, to, to_qp, local, remote, |word| {
                    word.wrapping_add(add)
                })
            }
            Operation::Flush {
                remote,
                size,
                placement,
            } => {
                let (memory, _) = self.resolve(to, to_qp, remote, size, Access::REMOTE_FLUSH)?;
                let honest = placement == FlushPlacement::Global || memory.is_persistent();
                let lies = self.fault == Fault::PersistentFlushOfVolatileMemory;
                if honest || lies {
                    Ok(true)
                } else {
                    Err(Status::RemoteAccess)
                }
            }
            Operation::AtomicWrite { remote, value } => {
                self.refuse_misaligned(remote)?;
                let (memory, offset) = self.resolve(to, to_qp, remote, 8, Access::REMOTE_WRITE)?;
                memory.write(offset, &value.to_ne_bytes());
                Ok(true)
            }
        }
    }

    /// Places the next step of a WRITE. Key and range are checked before the first step; revocation waits for the last
    /// step.
    fn place(
        &mut self,
        node: usize,
        to: usize,
        to_qp: u32,
        local: LocalSpan,
        remote: RemoteAddress,
        posted: &mut Posted,
    ) -> Result<bool, Status> {
        if posted.placed > 0 && posted.placed == local.size {
            return Ok(true);
        }
        let own = self.local(node, local).ok_or(Status::LocalProtection)?;
        let size = u64::from(local.size);
        let target = match posted.placed {
            0 => self.resolve(to, to_qp, remote, size, Access::REMOTE_WRITE),
            _ => self.resolve_revoked(to, remote),
        };
        if target.is_err() && self.fault == Fault::WritesUpToTheBound {
            let inside = self.nodes[to].keys.get(&remote.rkey.0).map_or(0, |key| {
                (key.address + key.size).saturating_sub(remote.address)
            });
            if let Ok((memory, offset)) =
                self.resolve(to, to_qp, remote, inside.min(size), Access::REMOTE_WRITE)
            {
                memory.write(offset, &vec![0xee; inside.min(size) as usize]);
            }
        }
        let (memory, offset) = target?;
        let torn = if self.fault == Fault::WordsTorn {
            STEP_SIZE - 4
        } else {
            STEP_SIZE
        };
        let part = (local.size - posted.placed).min(torn);
        let mut bytes = vec![0; part as usize];
        own.read(local.offset + u64::from(posted.placed), &mut bytes);
        if self.fault != Fault::WriteNotExecuted {
            memory.write(offset + u64::from(posted.placed), &bytes);
        }
        posted.placed += part;
        Ok(posted.placed == local.size)
    }

    /// The memory of a WRITE that has begun.
    fn resolve_revoked(
        &self,
        to: usize,
        remote: RemoteAddress,
    ) -> Result<(std::rc::Rc<super::Memory>, u64), Status> {
        let key = &self.nodes[to].keys[&remote.rkey.0];
        let memory = self.nodes[to].regions[key.region]
            .clone()
            .expect("revocation waits, and deregistration for it");
        Ok((memory, key.offset + (remote.address - key.address)))
    }

    fn atomic(
        &self,
        node: usize,
        to: usize,
        to_qp: u32,
        local: LocalSpan,
        remote: RemoteAddress,
        change: impl Fn(u64) -> u64,
    ) -> Result<bool, Status> {
        let own = self.local(node, local).ok_or(Status::LocalProtection)?;
        self.refuse_misaligned(remote)?;
        let (memory, offset) = self.resolve(to, to_qp, remote, 8, Access::REMOTE_ATOMIC)?;
        let mut word = [0; 8];
        memory.read(offset, &mut word);
        memory.write(offset, &change(u64::from_ne_bytes(word)).to_ne_bytes());
        if self.fault == Fault::AtomicsReturnTheNewWord {
            memory.read(offset, &mut word);
        }
        own.write(local.offset, &word);
        Ok(true)
    }

    pub(super) fn refuse_misaligned(&self, remote: RemoteAddress) -> Result<(), Status> {
        let misaligned =
            !remote.address.is_multiple_of(8) && self.fault != Fault::MisalignmentIgnored;
        if misaligned {
            Err(Status::RemoteInvalidRequest)
        } else {
            Ok(())
        }
    }

    /// Reports the finished requests at the front of the send queue.
    pub(super) fn retire(&mut self, node: usize, qp: u32) {
        let fault = self.fault;
        while let Some(state) = self.nodes[node].qps.get_mut(&qp) {
            let Some(status) = state.send.front().and_then(|posted| posted.status) else {
                return;
            };
            let failed = status != Status::Success;
            let signalled = state.send[0].request.signalled;
            if !failed
                && !signalled
                && fault == Fault::UnsignalledStaysInTheQueue
                && state.send.iter().all(|p| !p.request.signalled)
            {
                return;
            }
            let posted = state.send.pop_front().expect("just looked");
            let cq = state.options.send_cq.0;
            let wanted = match fault {
                Fault::UnsignalledFailureSwallowed => signalled,
                Fault::UnsignalledSuccessReported => true,
                Fault::FlushedRequestsForgotten => {
                    status != Status::WorkRequestFlushed && (failed || signalled)
                }
                _ => failed || signalled,
            };
            if wanted {
                let completion = completion(
                    posted.request.wr_id,
                    status,
                    opcode(&posted.request.operation),
                    qp,
                );
                self.complete(node, cq, completion);
            }
        }
    }

    /// Puts a completion into a completion queue, or notes that it overran.
    pub(super) fn complete(&mut self, node: usize, cq: u32, completion: WorkCompletion) {
        if self.fault == Fault::ArrivalsCompleteLate && completion.opcode == Opcode::Receive {
            let until = self.clock.now() + HELD_BACK_NS;
            let held_back = &mut self.nodes[node].held_back;
            return held_back.push_back((until, cq, completion));
        }
        self.put(node, cq, completion);
    }

    fn put(&mut self, node: usize, cq: u32, completion: WorkCompletion) {
        let queue = &mut self.nodes[node].completions[cq as usize];
        if queue.entries.len() == queue.capacity {
            queue.overrun = true;
        } else if self.fault == Fault::CompletionsBackwards {
            queue.entries.push_front(completion);
        } else {
            queue.entries.push_back(completion);
        }
    }

    /// Delivers the completions that were held back for long enough.
    fn release(&mut self, node: usize) {
        let now = self.clock.now.get();
        while let Some((_, cq, completion)) = self.nodes[node]
            .held_back
            .pop_front_if(|(until, ..)| *until <= now)
        {
            self.put(node, cq, completion);
        }
    }

    fn break_overrun(&mut self, node: usize) {
        for cq in 0..self.nodes[node].completions.len() {
            if !self.nodes[node].completions[cq].overrun || self.fault == Fault::OverrunSilent {
                continue;
            }
            let uses = |qp: &Qp| {
                qp.options.send_cq.0 as usize == cq || qp.options.receive_cq.0 as usize == cq
            };
            let users: Vec<u32> = self.nodes[node]
                .qps
                .iter()
                .filter(|(_, qp)| uses(qp))
                .map(|(&qp, _)| qp)
                .collect();
            users
                .into_iter()
                .for_each(|qp| self.break_queue_pair(node, qp));
        }
    }
}

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

fn opcode(operation: &Operation) -> Opcode {
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
