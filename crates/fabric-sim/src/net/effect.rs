//! The effect of a message at the responder: posted messages are placed in memory, the others fetch from it.

use std::rc::Rc;
use std::task::{Context, Waker};

use stonecast_base::Span;
use stonecast_fabric::{DisconnectCause, FlushPlacement, Opcode, Operation, Status};

use super::parts::{TORN_PAUSE_NS, part_end, part_ns, scattered_step};
use super::queue_pair::Qp;
use super::{Net, Stage, is_non_posted};
use crate::faults::Fault;
use crate::persistent::Module;
use crate::queue::Event;

impl Net {
    /// Executes the next part of a message.
    pub fn place(&mut self, index: u32) {
        if self.messages[index].progress.settled {
            return self.messages.release(index);
        }
        if is_non_posted(&self.messages[index].operation) {
            return self.execute(index);
        }
        let to = self.messages[index].route.to;
        let Some(context) = self.qp(to).map(|qp| qp.context) else {
            return self.messages.release(index);
        };
        if self.place_part(index, context) {
            let relaxed = self.is_relaxed(context);
            let placing = &mut self.qp(to).expect("just looked up").inbound.placing;
            let place = placing
                .iter()
                .position(|other| *other == index)
                .expect("the message was to be placed");
            assert!(
                place == 0 || relaxed,
                "messages of a queue pair are placed in order"
            );
            placing.remove(place);
            self.finish_placing(index);
            self.note_quiet(to);
            self.messages.release(index);
        } else {
            let again = self.time.now() + part_ns(self.profile_of(context));
            self.time.push(again, Event::Place(index));
        }
    }

    /// Lets the queue pair die in the middle of a message: any of the message's lines are in memory, and no one is
    /// told.
    pub(super) fn die_in_message(&mut self, index: u32, to: u32, context: u32) {
        self.faults.hit(Fault::PartialPlacement);
        self.settle(to);
        let message = &self.messages[index];
        let mut lines: Vec<u32> = (0..message.lines()).collect();
        self.faults.shuffle(&mut lines);
        lines.truncate(self.faults.between(0, lines.len() as u64) as usize);
        self.messages[index].progress.scattered = Some(lines);
        while !self.place_part(index, context) {}
        self.end_placing(to, index);
        self.fail(
            to,
            DisconnectCause::QueuePairError,
            Status::WorkRequestFlushed,
        );
        self.messages.release(index);
    }

    /// Places everything that arrived at `to`, at once.
    pub(super) fn settle(&mut self, to: u32) {
        let Some(qp) = self.qp(to) else { return };
        let (context, placing) = (qp.context, std::mem::take(&mut qp.inbound.placing));
        for index in placing {
            while !self.place_part(index, context) {}
            self.finish_placing(index);
        }
    }

    /// Writes the next part of a posted message to memory; returns whether it was the last.
    fn place_part(&mut self, index: u32, context: u32) -> bool {
        if self.messages[index].progress.scattered.is_some() {
            return self.place_scattered(index, context);
        }
        let mtu = self.profile_of(context).nic_mtu_bytes;
        let ddio = self.contexts[context as usize].root_port.ddio;
        let message = &self.messages[index];
        let (done, size) = (message.progress.done, message.payload.len() as u64);
        let end = part_end(message.target.offset, u64::from(done), size, mtu);
        // A WRITE_WITH_IMM of no bytes and a buffer of no bytes name no memory. Memory that is gone accepts nothing.
        let part = done as usize..end as usize;
        if !part.is_empty()
            && let Some(registered) = self.registered(context, message.target.region)
        {
            let write = || {
                registered.memory.write(
                    message.target.offset + u64::from(done),
                    &message.payload[part],
                )
            };
            let ((), settled) = self.time.as_nic_with(ddio, write);
            let to = message.route.to;
            let (region, start) = (
                message.target.region,
                message.target.offset + u64::from(done),
            );
            if let Some(qp) = self.qp(to) {
                qp.inbound.settled = qp.inbound.settled.max(settled);
                qp.inbound.cached = Some((region, start));
            }
        }
        self.messages[index].progress.done = end as u32;
        end == size
    }

    /// Writes some more lines of a message whose lines are placed in any order; returns whether they were the last.
    fn place_scattered(&mut self, index: u32, context: u32) -> bool {
        let message = &mut self.messages[index];
        let count = message.lines();
        let lines = message
            .progress
            .scattered
            .as_mut()
            .expect("the caller looked");
        let now: Vec<u32> = lines
            .drain(..lines.len().min(scattered_step(count) as usize))
            .collect();
        let last = lines.is_empty();
        let ddio = self.contexts[context as usize].root_port.ddio;
        let message = &self.messages[index];
        let to = message.route.to;
        let mut latest = 0;
        if let Some(registered) = self.registered(context, message.target.region) {
            for line in now {
                let part = message.line(line);
                let at = message.target.offset + part.start as u64;
                let ((), settled) = self
                    .time
                    .as_nic_with(ddio, || registered.memory.write(at, &message.payload[part]));
                latest = latest.max(settled);
            }
        }
        if let Some(qp) = self.qp(to) {
            qp.inbound.settled = qp.inbound.settled.max(latest);
        }
        last
    }

    /// Finishes a posted message whose last part is in memory.
    fn finish_placing(&mut self, index: u32) {
        let message = &mut self.messages[index];
        message.progress.settled = true;
        let (to, key, operation, size) = (
            message.route.to,
            message.target.key.take(),
            message.operation,
            message.payload.len() as u32,
        );
        let landing = message.landing.take();
        self.messages.undelay(index);
        if let Some(key) = key {
            self.leave_key(key);
        }
        if let Some(landing) = landing {
            let (opcode, immediate) = match operation {
                Operation::WriteWithImmediate { immediate, .. } => {
                    (Opcode::ReceiveWriteWithImmediate, immediate)
                }
                _ => (Opcode::Receive, 0),
            };
            self.tell_arrival(to, &landing, opcode, immediate, size);
            self.leave_buffer(&landing);
        }
    }

    /// Executes the next part of a message that fetches.
    fn execute(&mut self, index: u32) {
        let to = self.messages[index].route.to;
        let alive = |qp: &mut Qp| (qp.connection.stage != Stage::Failed).then_some(qp.context);
        let Some(context) = self.qp(to).and_then(alive) else {
            if let Some(key) = self.messages[index].target.key.take() {
                self.leave_key(key);
            }
            return self.give_up_later(index);
        };
        // An earlier message may have to wait for memory longer than it seemed when this message arrived.
        if self
            .qp(to)
            .expect("just looked up")
            .inbound
            .executing
            .front()
            != Some(&index)
        {
            self.messages[index].progress.due = true;
            return;
        }
        // A fetch pushes earlier writes out of the NIC and the bus, as far as they get without help: to the memory
        // controller if DDIO is off. The fetch waits once: messages that are placed during the wait arrived later. A
        // write pushes nothing.
        let now = self.time.now();
        let pushes_nothing = self.reads_past_writes(context, index);
        if !matches!(
            self.messages[index].operation,
            Operation::AtomicWrite { .. }
        ) {
            let qp = self.qp(to).expect("just looked up");
            let settled = if pushes_nothing {
                0
            } else {
                qp.inbound.settled
            };
            qp.inbound.executed = qp.inbound.executed.max(settled);
            let message = &mut self.messages[index];
            if !std::mem::replace(&mut message.progress.waited, true) && settled > now {
                return self.time.push(settled, Event::Place(index));
            }
        }
        self.note_weak_read(index, to, context);
        if !self.execute_part(index, context) {
            let torn = self.messages[index].progress.grain.is_some();
            let again = now
                + if torn {
                    TORN_PAUSE_NS
                } else {
                    part_ns(self.profile_of(context))
                };
            return self.time.push(again, Event::Place(index));
        }
        let key = self.messages[index]
            .target
            .key
            .take()
            .expect("every fetch has a key");
        self.leave_key(key);
        let size = self.messages[index].payload.len() as u64;
        let ready = match self.messages[index].operation {
            Operation::Flush {
                placement: FlushPlacement::Persistent,
                ..
            } => self.qp(to).expect("just looked up").inbound.settled,
            _ => now,
        };
        let at = self
            .nics
            .depart(self.machine_of(context), ready.max(now), size);
        self.answer(index, at);
        self.next_executing(to, index);
        self.messages.release(index);
    }

    /// Counts READs that are answered while earlier writes are at a place that a power cut destroys.
    fn note_weak_read(&mut self, index: u32, to: u32, context: u32) {
        let message = &self.messages[index];
        if message.progress.done > 0 || !matches!(message.operation, Operation::Read { .. }) {
            return;
        }
        let qp = self.qp(to).expect("the caller looked");
        let (cached, own) = (qp.inbound.cached, qp.inbound.placing.len());
        if self.messages.delayed() > own as u64 {
            self.faults.hit(Fault::ReadOnOtherQueuePair);
        }
        let Some((region, offset)) = cached else {
            return;
        };
        let space = self
            .registered(context, region)
            .and_then(|registered| registered.space);
        let waits =
            |module: &Rc<Module>| Some(module.space) == space && module.waits_in_cache(offset);
        if self.modules.iter().any(waits) {
            self.faults.hit(Fault::ReadFromCache);
        }
    }

    /// Executes the next part of a message that fetches; returns whether it was the last.
    fn execute_part(&mut self, index: u32, context: u32) -> bool {
        let mtu = self.profile_of(context).nic_mtu_bytes;
        let message = &mut self.messages[index];
        let (region, offset, operation, done) = (
            message.target.region,
            message.target.offset,
            message.operation,
            message.progress.done,
        );
        let grain = message.progress.grain;
        let to = message.route.to;
        let mut payload = std::mem::take(&mut message.payload);
        let Some(registered) = self.registered(context, region) else {
            self.messages[index].answer.status = Status::RemoteOperation;
            return true;
        };
        let memory = registered.memory.clone();
        let persistent = registered.persistent.clone();
        let mut last = true;
        let mut torn = false;
        let ddio = self.contexts[context as usize].root_port.ddio;
        let ((), settled) = self.time.as_nic_with(ddio, || match operation {
            Operation::Read { local, .. } => {
                let whole = part_end(offset, u64::from(done), local.size.into(), mtu);
                let end = grain.map_or(whole, |grain| {
                    u64::from(done + grain).min(local.size.into())
                });
                payload.resize(end as usize, 0);
                memory.read(offset + u64::from(done), &mut payload[done as usize..]);
                last = end == u64::from(local.size);
                if last && grain.is_some() {
                    let mut now = vec![0; payload.len()];
                    memory.read(offset, &mut now);
                    torn = now != payload;
                }
            }
            Operation::CompareAndSwap { expected, swap, .. } => {
                let (Ok(found) | Err(found)) = memory.compare_exchange(offset, expected, swap);
                payload.extend_from_slice(&found.to_le_bytes());
            }
            Operation::FetchAndAdd { add, .. } => {
                payload.extend_from_slice(&memory.fetch_add(offset, add).to_le_bytes())
            }
            Operation::AtomicWrite { value, .. } => memory.store(offset, value),
            Operation::Flush {
                size,
                placement: FlushPlacement::Persistent,
                ..
            } => {
                let persistent = persistent.expect("checked when it arrived");
                let mut context = Context::from_waker(Waker::noop());
                let flushed =
                    persistent.poll_persist(&[Span::new(offset, size)], &mut None, &mut context);
                assert!(
                    flushed.is_ready(),
                    "a NIC's flush returns its completion time and does not wait"
                );
            }
            // Everything earlier is visible: this message waited for that.
            Operation::Flush {
                placement: FlushPlacement::Global,
                ..
            } => {}
            Operation::Write { .. }
            | Operation::WriteWithImmediate { .. }
            | Operation::Send { .. } => {
                unreachable!("posted operations are placed")
            }
        });
        if torn {
            self.faults.hit(Fault::TornRead);
        }
        if self.time.take_poison() {
            self.faults.hit(Fault::Poison);
            self.messages[index].answer.status = Status::RemoteOperation;
            last = true;
        }
        if let Some(qp) = self.qp(to) {
            qp.inbound.settled = qp.inbound.settled.max(settled);
        }
        self.messages[index].progress.done = payload.len() as u32;
        self.messages[index].payload = payload;
        last
    }
}
