//! The responder's side of a message: key, buffer, order, effect.

use std::rc::Rc;
use std::task::{Context, Waker};

use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric::{
    Access, DisconnectCause, FlushPlacement, Opcode, Operation, RemoteAddress, Status,
};

use super::completion::completion;
use super::memory::Target;
use super::receive::Buffer;
use super::{Message, Net, Stage, is_non_posted};
use crate::faults::Fault;
use crate::machine::Transport;
use crate::persistent::Module;
use crate::queue::Event;

/// How the responder's NIC takes a message.
enum Taken {
    Accepted,
    NotReady,
    Refused(Status),
    /// A SEND that used up a buffer which is too small for it.
    TooLong(u64),
}

/// Parts of a message begin at multiples of this, so that words stay whole.
const PART_GRAIN: u64 = 64;

impl Net {
    /// A message has reached the responder's NIC.
    pub fn arrive(&mut self, index: u32) {
        let message = &self.messages[index as usize];
        let (from, to, sequence, turn, operation) = (
            message.from,
            message.to,
            message.sequence,
            message.turn,
            message.operation,
        );
        let current = self.qp(from).is_some_and(|qp| qp.turn == turn);
        let open = |qp: &mut super::Qp| {
            matches!(qp.stage, Stage::Accepted | Stage::Connected) && qp.peer == Some(from)
        };
        if !current || !self.qp(to).is_some_and(open) {
            // Nobody answers. Who is told earlier that the connection is over stops waiting then.
            return if current {
                self.give_up_later(index)
            } else {
                self.release_message(index)
            };
        }
        if self.faults.strikes(Fault::HalfOpen) {
            self.faults.hit(Fault::HalfOpen);
            self.fail_quietly(to);
            return self.give_up_later(index);
        }
        let context = self.qps[to as usize]
            .as_ref()
            .expect("just looked up")
            .context;
        let size = self.messages[index as usize].payload.len() as u64;
        let at = self.take(context, size);
        match self.accept_message(index, to, &operation) {
            Taken::Accepted if is_non_posted(&operation) => self.execute_later(index, to, at),
            Taken::Accepted
                if size > PART_GRAIN && self.faults.strikes(Fault::PartialPlacement) =>
            {
                self.die_in_message(index, to, context);
            }
            Taken::Accepted => {
                if self.contexts[context as usize].hung_until > at {
                    self.faults.hit(Fault::HostHung);
                }
                self.place_later(index, to, at);
                // Over iWARP the requester has its completion already.
                if self.transport_of(context) == Transport::InfiniBand {
                    self.answer(index, at);
                }
                self.release_message(index);
            }
            Taken::NotReady if self.transport_of(context) == Transport::Iwarp => {
                self.refuse_later(index, to, Status::RnrRetryExceeded, at);
            }
            Taken::NotReady => {
                self.hold_from(from, sequence);
                self.messages[index as usize].not_ready = true;
                self.answer(index, at);
                self.release_message(index);
            }
            Taken::Refused(status) => self.refuse_later(index, to, status, at),
            Taken::TooLong(wr_id) => {
                self.messages[index as usize].landing = Some(super::receive::Landing {
                    wr_id,
                    region: 0,
                    offset: 0,
                    place: 0,
                    before: None,
                    after: None,
                });
                self.refuse_later(index, to, Status::RemoteInvalidRequest, at);
            }
        }
    }

    fn accept_message(&mut self, index: u32, to: u32, operation: &Operation) -> Taken {
        match self.try_accept(index, to, operation) {
            Ok(taken) => taken,
            Err(status) => Taken::Refused(status),
        }
    }

    fn try_accept(&mut self, index: u32, to: u32, operation: &Operation) -> Result<Taken, Status> {
        let (target, buffer) = match *operation {
            Operation::Write { local, remote } => (
                Some(self.resolve(to, remote, local.size.into(), Access::REMOTE_WRITE)?),
                None,
            ),
            Operation::WriteWithImmediate { local, remote, .. } => {
                if self.appends(to) {
                    return Err(Status::RemoteInvalidRequest);
                }
                let target = self.resolve(to, remote, local.size.into(), Access::REMOTE_WRITE)?;
                (Some(target), Some(self.land_immediate(to)))
            }
            Operation::Send { local } => (None, Some(self.land(to, local.size))),
            Operation::Read { local, remote } => (
                Some(self.resolve(to, remote, local.size.into(), Access::REMOTE_READ)?),
                None,
            ),
            Operation::CompareAndSwap { remote, .. } | Operation::FetchAndAdd { remote, .. } => (
                Some(self.resolve_word(to, remote, Access::REMOTE_ATOMIC)?),
                None,
            ),
            Operation::AtomicWrite { remote, .. } => (
                Some(self.resolve_word(to, remote, Access::REMOTE_WRITE)?),
                None,
            ),
            Operation::Flush {
                remote,
                size,
                placement,
            } => {
                let target = self.resolve(to, remote, size, Access::REMOTE_FLUSH)?;
                let context = self.qps[to as usize].as_ref().expect("resolved").context;
                let persistent = self
                    .registered(context, target.region)
                    .is_some_and(|region| region.persistent.is_some());
                if placement == FlushPlacement::Persistent && !persistent {
                    return Err(Status::RemoteAccess);
                }
                (Some(target), None)
            }
        };
        let landing = match buffer {
            None => None,
            Some(Buffer::Landing(landing)) => Some(landing),
            Some(Buffer::NotReady) => return Ok(Taken::NotReady),
            Some(Buffer::Invalid(status)) => return Err(status),
            Some(Buffer::TooSmall(wr_id)) => return Ok(Taken::TooLong(wr_id)),
        };
        let message = &mut self.messages[index as usize];
        if let Some(landing) = &landing {
            (message.region, message.offset) = (landing.region, landing.offset);
        }
        message.landing = landing;
        if let Some(Target {
            region,
            offset,
            key,
        }) = target
        {
            (message.region, message.offset, message.key) = (region, offset, Some(key));
            self.keys[key as usize].in_flight += 1;
        }
        Ok(Taken::Accepted)
    }

    fn resolve_word(
        &self,
        to: u32,
        remote: RemoteAddress,
        right: Access,
    ) -> Result<Target, Status> {
        if !remote.address.is_multiple_of(8) {
            return Err(Status::RemoteInvalidRequest);
        }
        self.resolve(to, remote, 8, right)
    }

    /// Decides when an accepted posted message is in memory: after everything that arrived here before it.
    fn place_later(&mut self, index: u32, to: u32, at: Nanoseconds) {
        let context = self.qps[to as usize].as_ref().expect("it accepted").context;
        let profile = self.profile_of(context);
        let (write_ns, part_ns, mtu) = (
            profile.pcie_write_ns,
            part_ns(profile),
            profile.nic_mtu_bytes,
        );
        let message = &self.messages[index as usize];
        let takes = more_parts(message.offset, message.payload.len() as u64, mtu) * (part_ns + 1);
        let stall = self.inbound_stall(context);
        let takes = if self.faults.strikes(Fault::ScatteredPlacement) {
            self.scatter(index, part_ns)
        } else {
            takes
        };
        let delay = if self.faults.strikes(Fault::ReadOnOtherQueuePair) {
            self.delay(index)
        } else {
            0
        };
        let lands = self.messages[index as usize].landing.is_some();
        // A completion comes behind the data that it tells of, and all data before it.
        let passes = self.is_relaxed(context) && !lands;
        let detour = if passes { self.draw(RELAXED_NS_MAX) } else { 0 };
        let qp = self.qp(to).expect("it accepted");
        let before = if passes { 0 } else { qp.placed };
        let mut start = before.max(at + write_ns + stall + delay + detour);
        let overtakes = qp.executed > start;
        if overtakes {
            self.faults.hit(Fault::PostedOvertakes);
        }
        if lands && let Some(queue) = self.shared_queue(to) {
            start = queue.place_after(start);
            queue.place_after(start + takes);
        }
        let qp = self.qp(to).expect("it accepted");
        qp.placed = qp.placed.max(start + takes);
        qp.placing.push_back(index);
        self.messages[index as usize].uses += 1;
        self.time.push(start, Event::Place(index));
    }

    /// Whether writes of `context` may pass each other on their way to memory.
    fn is_relaxed(&self, context: u32) -> bool {
        self.contexts[context as usize].root_port.relaxed_ordering
    }

    /// Whether message `index` of `context` reads without pushing out what was written before it.
    fn reads_past_writes(&self, context: u32, index: u32) -> bool {
        use Operation::{CompareAndSwap, FetchAndAdd, Read};
        let operation = &self.messages[index as usize].operation;
        self.is_relaxed(context)
            && matches!(
                operation,
                Read { .. } | CompareAndSwap { .. } | FetchAndAdd { .. }
            )
    }

    /// Decides when an accepted non-posted message takes effect: after everything that arrived here before it. An
    /// ATOMIC_WRITE fetches nothing: on the bus it is a write like others, which the NIC holds back until its turn.
    fn execute_later(&mut self, index: u32, to: u32, at: Nanoseconds) {
        let context = self.qps[to as usize].as_ref().expect("it accepted").context;
        let profile = self.profile_of(context);
        let (part_ns, mtu) = (part_ns(profile), profile.nic_mtu_bytes);
        let writes = matches!(
            self.messages[index as usize].operation,
            Operation::AtomicWrite { .. }
        );
        let bus_ns = if writes {
            profile.pcie_write_ns
        } else {
            profile.pcie_read_ns
        };
        let stall = if writes {
            self.inbound_stall(context)
        } else {
            0
        };
        let message = &self.messages[index as usize];
        let size = match message.operation {
            Operation::Read { local, .. } => local.size.into(),
            _ => 8,
        };
        let takes = more_parts(message.offset, size, mtu) * (part_ns + 1);
        let takes = if !writes && self.faults.strikes(Fault::TornRead) {
            self.tear(index, size)
        } else {
            takes
        };
        let delayed = !writes && self.faults.strikes(Fault::PostedOvertakes);
        let delay = if delayed {
            self.faults.between(1000, DELAY_NS_MAX)
        } else {
            0
        };
        let message = &self.messages[index as usize];
        let reads = self.registered(context, message.region).filter(|_| !writes);
        let medium_ns = reads.map_or(0, |region| region.memory.read_cost(size));
        let pushes_nothing = self.reads_past_writes(context, index);
        let qp = self.qp(to).expect("it accepted");
        let placed = if pushes_nothing { 0 } else { qp.placed };
        let start = (at + bus_ns + stall + medium_ns + delay)
            .max(placed)
            .max(qp.executed);
        qp.executed = start + takes;
        qp.executing.push_back(index);
        self.time.push(start, Event::Place(index));
    }

    /// The non-posted message that is first at `to` is done: the next one may go on, if its time has come.
    fn next_executing(&mut self, to: u32, done: u32) {
        let Some(qp) = self.qp(to) else { return };
        let first = qp.executing.pop_front();
        assert_eq!(
            first,
            Some(done),
            "non-posted messages of a queue pair take effect in order"
        );
        if let Some(&next) = self.qp(to).expect("just looked up").executing.front()
            && std::mem::take(&mut self.messages[next as usize].due)
        {
            self.time.push(self.time.now(), Event::Place(next));
        }
    }

    /// No non-posted message at `to` takes effect any more; those whose time had come get another one, to find that out.
    pub(super) fn drop_executing(&mut self, to: u32) {
        let Some(qp) = self.qp(to) else { return };
        for index in std::mem::take(&mut qp.executing) {
            if std::mem::take(&mut self.messages[index as usize].due) {
                self.time.push(self.time.clock(), Event::Place(index));
            }
        }
    }

    /// Sends the answer to a message at `at`.
    fn answer(&mut self, index: u32, at: Nanoseconds) {
        let message = &mut self.messages[index as usize];
        message.uses += 1;
        let (from, to) = (message.from, message.to);
        let contexts =
            [from, to].map(|number| self.qps[number as usize].as_ref().map(|qp| qp.context));
        let [Some(requester), Some(responder)] = contexts else {
            return self.release_message(index);
        };
        let back = self.travel(responder, requester) + self.profile_of(requester).pcie_write_ns;
        let lost = self.faults.strikes(Fault::ErrorThoughExecuted);
        let mute = self.qp(to).is_some_and(|qp| {
            qp.mute |= lost;
            qp.mute
        });
        let passage = if mute {
            None
        } else {
            self.passage(responder, requester, at, at + back)
        };
        match passage {
            Some(at) => self.time.push(at, Event::Acknowledge(index)),
            None => {
                if lost {
                    self.faults.hit(Fault::ErrorThoughExecuted);
                }
                self.give_up_later(index);
            }
        }
    }

    /// Refuses a message, after everything before it was answered.
    fn refuse_later(&mut self, index: u32, to: u32, status: Status, at: Nanoseconds) {
        let message = &mut self.messages[index as usize];
        message.status = status;
        message.uses += 1;
        let (from, sequence) = (message.from, message.sequence);
        self.hold_from(from, sequence);
        let qp = self.qp(to).expect("it was looked up");
        let at = at.max(qp.placed).max(qp.executed);
        self.time.push(at, Event::Refuse(index));
        self.answer(index, at);
        self.release_message(index);
    }

    /// The responder of a refused message gives its queue pair up.
    pub fn refuse(&mut self, index: u32) {
        let message = &mut self.messages[index as usize];
        let to = message.to;
        if let Some(landing) = message.landing.take() {
            self.tell(
                to,
                completion(landing.wr_id, Status::LocalLength, Opcode::Receive, to),
            );
        }
        self.fail(
            to,
            DisconnectCause::QueuePairError,
            Status::WorkRequestFlushed,
        );
        self.release_message(index);
    }

    /// The next part of a message takes effect.
    pub fn place(&mut self, index: u32) {
        if self.messages[index as usize].settled {
            return self.release_message(index);
        }
        if is_non_posted(&self.messages[index as usize].operation) {
            return self.execute(index);
        }
        let to = self.messages[index as usize].to;
        let Some(context) = self.qp(to).map(|qp| qp.context) else {
            return self.release_message(index);
        };
        if self.place_part(index, context) {
            let relaxed = self.is_relaxed(context);
            let placing = &mut self.qp(to).expect("just looked up").placing;
            let place = placing
                .iter()
                .position(|other| *other == index)
                .expect("it was to be placed");
            assert!(
                place == 0 || relaxed,
                "messages of a queue pair are placed in order"
            );
            placing.remove(place);
            self.finish_placing(index);
            self.release_message(index);
        } else {
            let again = self.time.now() + part_ns(self.profile_of(context));
            self.time.push(again, Event::Place(index));
        }
    }

    /// The queue pair dies in the middle of a message: any of its lines are in memory, and nobody is told of it.
    fn die_in_message(&mut self, index: u32, to: u32, context: u32) {
        self.faults.hit(Fault::PartialPlacement);
        self.settle(to);
        let message = &self.messages[index as usize];
        let mut lines: Vec<u32> = (0..lines_of(message)).collect();
        self.faults.shuffle(&mut lines);
        lines.truncate(self.faults.between(0, lines.len() as u64) as usize);
        self.messages[index as usize].scattered = Some(lines);
        while !self.place_part(index, context) {}
        let message = &mut self.messages[index as usize];
        message.settled = true;
        let (key, landing) = (message.key.take(), message.landing.take());
        if let Some(key) = key {
            self.leave_key(key);
        }
        if let Some(landing) = landing {
            self.tell(
                to,
                completion(
                    landing.wr_id,
                    Status::WorkRequestFlushed,
                    Opcode::Receive,
                    to,
                ),
            );
        }
        self.fail(
            to,
            DisconnectCause::QueuePairError,
            Status::WorkRequestFlushed,
        );
        self.release_message(index);
    }

    /// Lets the lines of a message be placed in any order. How long that takes.
    fn scatter(&mut self, index: u32, part_ns: Nanoseconds) -> Nanoseconds {
        let count = lines_of(&self.messages[index as usize]);
        if count < 2 {
            return 0;
        }
        self.faults.hit(Fault::ScatteredPlacement);
        let mut lines: Vec<u32> = (0..count).collect();
        self.faults.shuffle(&mut lines);
        self.messages[index as usize].scattered = Some(lines);
        u64::from(count.div_ceil(scattered_step(count)) - 1) * (part_ns + 1)
    }

    /// Keeps a message inside the NIC for a while.
    fn delay(&mut self, index: u32) -> Nanoseconds {
        self.messages[index as usize].delayed = true;
        self.delayed += 1;
        // Now and then for longer than a client takes to connect again.
        let longest = if self.faults.between(0, 3) == 0 {
            LONG_DELAY_NS_MAX
        } else {
            DELAY_NS_MAX
        };
        self.faults.between(1000, longest)
    }

    /// Lets a READ fetch in small pieces. How long that takes.
    fn tear(&mut self, index: u32, size: u64) -> Nanoseconds {
        let grain = if size <= PART_GRAIN {
            8
        } else {
            PART_GRAIN as u32
        };
        self.messages[index as usize].grain = Some(grain);
        size.div_ceil(grain.into()) * (TORN_PAUSE_NS + 1)
    }

    /// Places everything that arrived at `to`, at once.
    pub(super) fn settle(&mut self, to: u32) {
        let Some(qp) = self.qp(to) else { return };
        let (context, placing) = (qp.context, std::mem::take(&mut qp.placing));
        for index in placing {
            while !self.place_part(index, context) {}
            self.finish_placing(index);
        }
    }

    /// Writes the next part of a posted message to memory; whether it was the last.
    fn place_part(&mut self, index: u32, context: u32) -> bool {
        if self.messages[index as usize].scattered.is_some() {
            return self.place_scattered(index, context);
        }
        let mtu = self.profile_of(context).nic_mtu_bytes;
        let ddio = self.contexts[context as usize].root_port.ddio;
        let message = &self.messages[index as usize];
        let (done, size) = (message.done, message.payload.len() as u64);
        let end = part_end(message.offset, u64::from(done), size, mtu);
        // A WRITE_WITH_IMM of no bytes and a buffer of no bytes name no memory. Memory that is gone takes nothing.
        let part = done as usize..end as usize;
        if !part.is_empty()
            && let Some(registered) = self.registered(context, message.region)
        {
            let write = || {
                registered
                    .memory
                    .write(message.offset + u64::from(done), &message.payload[part])
            };
            let ((), settled) = self.time.as_nic_with(ddio, write);
            let to = message.to;
            let (region, start) = (message.region, message.offset + u64::from(done));
            if let Some(qp) = self.qp(to) {
                qp.settled = qp.settled.max(settled);
                qp.cached = Some((region, start));
            }
        }
        self.messages[index as usize].done = end as u32;
        end == size
    }

    /// Writes some more lines of a message whose lines are placed in any order; whether they were the last.
    fn place_scattered(&mut self, index: u32, context: u32) -> bool {
        let message = &mut self.messages[index as usize];
        let count = lines_of(message);
        let lines = message.scattered.as_mut().expect("the caller looked");
        let now: Vec<u32> = lines
            .drain(..lines.len().min(scattered_step(count) as usize))
            .collect();
        let last = lines.is_empty();
        let ddio = self.contexts[context as usize].root_port.ddio;
        let message = &self.messages[index as usize];
        let to = message.to;
        let mut latest = 0;
        if let Some(registered) = self.registered(context, message.region) {
            for line in now {
                let part = line_of(message, line);
                let at = message.offset + part.start as u64;
                let ((), settled) = self
                    .time
                    .as_nic_with(ddio, || registered.memory.write(at, &message.payload[part]));
                latest = latest.max(settled);
            }
        }
        if let Some(qp) = self.qp(to) {
            qp.settled = qp.settled.max(latest);
        }
        last
    }

    /// The last part of a posted message is in memory.
    fn finish_placing(&mut self, index: u32) {
        let message = &mut self.messages[index as usize];
        message.settled = true;
        let (to, key, operation, size) = (
            message.to,
            message.key.take(),
            message.operation,
            message.payload.len() as u32,
        );
        let landing = message.landing.take();
        self.undelay(index);
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
        }
    }

    /// The next part of a message that fetches takes effect.
    fn execute(&mut self, index: u32) {
        let to = self.messages[index as usize].to;
        let alive = |qp: &mut super::Qp| (qp.stage != Stage::Failed).then_some(qp.context);
        let Some(context) = self.qp(to).and_then(alive) else {
            if let Some(key) = self.messages[index as usize].key.take() {
                self.leave_key(key);
            }
            return self.give_up_later(index);
        };
        // One before it may have to wait for memory longer than it seemed when this one arrived.
        if self.qp(to).expect("just looked up").executing.front() != Some(&index) {
            self.messages[index as usize].due = true;
            return;
        }
        // A fetch pushes what was written before it out of the NIC and the bus, as far as that gets by itself: to the memory
        // controller where DDIO is off. It waits once; what is placed meanwhile came later. A write pushes nothing.
        let now = self.time.now();
        let pushes_nothing = self.reads_past_writes(context, index);
        if !matches!(
            self.messages[index as usize].operation,
            Operation::AtomicWrite { .. }
        ) {
            let qp = self.qp(to).expect("just looked up");
            let settled = if pushes_nothing { 0 } else { qp.settled };
            qp.executed = qp.executed.max(settled);
            let message = &mut self.messages[index as usize];
            if !std::mem::replace(&mut message.waited, true) && settled > now {
                return self.time.push(settled, Event::Place(index));
            }
        }
        self.note_weak_read(index, to, context);
        if !self.execute_part(index, context) {
            let torn = self.messages[index as usize].grain.is_some();
            let again = now
                + if torn {
                    TORN_PAUSE_NS
                } else {
                    part_ns(self.profile_of(context))
                };
            return self.time.push(again, Event::Place(index));
        }
        let key = self.messages[index as usize]
            .key
            .take()
            .expect("only with a key anything is fetched");
        self.leave_key(key);
        let size = self.messages[index as usize].payload.len() as u64;
        let ready = match self.messages[index as usize].operation {
            Operation::Flush {
                placement: FlushPlacement::Persistent,
                ..
            } => self.qp(to).expect("just looked up").settled,
            _ => now,
        };
        let at = self.depart(context, ready.max(now), size);
        self.answer(index, at);
        self.next_executing(to, index);
        self.release_message(index);
    }

    /// Counts READs that are answered although what was written before them is where power takes it.
    fn note_weak_read(&mut self, index: u32, to: u32, context: u32) {
        let message = &self.messages[index as usize];
        if message.done > 0 || !matches!(message.operation, Operation::Read { .. }) {
            return;
        }
        let qp = self.qp(to).expect("the caller looked");
        let (cached, own) = (qp.cached, qp.placing.len());
        if self.delayed > own as u64 {
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

    /// Does the next part of a message that fetches; whether it was the last.
    fn execute_part(&mut self, index: u32, context: u32) -> bool {
        let mtu = self.profile_of(context).nic_mtu_bytes;
        let message = &mut self.messages[index as usize];
        let (region, offset, operation, done) = (
            message.region,
            message.offset,
            message.operation,
            message.done,
        );
        let grain = message.grain;
        let to = message.to;
        let mut payload = std::mem::take(&mut message.payload);
        let Some(registered) = self.registered(context, region) else {
            self.messages[index as usize].status = Status::RemoteOperation;
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
                    "a NIC's flush says when it is done, it does not wait"
                );
            }
            // Everything before it is visible: it waited for that.
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
            self.messages[index as usize].status = Status::RemoteOperation;
            last = true;
        }
        if let Some(qp) = self.qp(to) {
            qp.settled = qp.settled.max(settled);
        }
        self.messages[index as usize].done = payload.len() as u32;
        self.messages[index as usize].payload = payload;
        last
    }
}

/// Lines that a posted message touches.
fn lines_of(message: &Message) -> u32 {
    let span = Span::new(message.offset, message.payload.len() as u64).widen(PART_GRAIN);
    if message.payload.is_empty() {
        0
    } else {
        (span.size / PART_GRAIN) as u32
    }
}

/// The bytes of a message that lie in the `line`-th line that it touches.
pub(super) fn line_of(message: &Message, line: u32) -> std::ops::Range<usize> {
    let first = message.offset / PART_GRAIN * PART_GRAIN;
    let start = (first + u64::from(line) * PART_GRAIN).saturating_sub(message.offset);
    let end = first + (u64::from(line) + 1) * PART_GRAIN - message.offset;
    start as usize..(end as usize).min(message.payload.len())
}

/// How many lines of `count` are placed at a time where they are placed in any order.
fn scattered_step(count: u32) -> u32 {
    count.div_ceil(4).max(1)
}

/// Time from one piece of a torn READ to the next.
const TORN_PAUSE_NS: Nanoseconds = 300;
/// Longest time that a message is kept inside a NIC.
const DELAY_NS_MAX: Nanoseconds = 50_000;
/// The same where something stalls.
const LONG_DELAY_NS_MAX: Nanoseconds = 3_000_000;
/// How much later than another a write may be in memory where they may pass each other: a few bus transactions.
const RELAXED_NS_MAX: Nanoseconds = 2_000;

/// Time from one part of a message to the next.
fn part_ns(profile: &crate::profile::Profile) -> Nanoseconds {
    (profile.nic_mtu_bytes * profile.nic_byte_ps.max(profile.pcie_byte_ps)).div_ceil(1000)
}

/// Parts of a message of `size` bytes at `offset` after the first one.
fn more_parts(offset: u64, size: u64, mtu: u64) -> u64 {
    (size - part_end(offset, 0, size, mtu)).div_ceil(mtu)
}

/// Where the part that begins at `done` of `size` bytes at `offset` ends.
fn part_end(offset: u64, done: u64, size: u64, mtu: u64) -> u64 {
    if size - done <= mtu {
        return size;
    }
    let end = (offset + done + mtu) & !(PART_GRAIN - 1);
    (end - offset).min(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs the shorter first part: counted by size alone, a misaligned message ends later than what follows it expects.
    #[test]
    fn a_message_has_as_many_parts_as_it_is_placed_in() {
        for (offset, size) in [
            (0, 0),
            (0, 4096),
            (0, 4097),
            (8, 8192),
            (1, 12_287),
            (63, 100_000),
            (64, 8192),
        ] {
            let mut done = part_end(offset, 0, size, 4096);
            let mut parts = 0;
            while done < size {
                assert_eq!(
                    (offset + done) % PART_GRAIN,
                    0,
                    "a part begins inside a line"
                );
                done = part_end(offset, done, size, 4096);
                parts += 1;
            }
            assert_eq!(
                parts,
                more_parts(offset, size, 4096),
                "{size} bytes at {offset}"
            );
        }
    }
}
