//! The responder's side of a message: key, buffer, order, effect.

use stonecast_base::{Nanoseconds, mutant};
use stonecast_fabric::{
    Access, DisconnectCause, FlushPlacement, Opcode, Operation, RemoteAddress, Status,
};

use super::completion::completion;
use super::memory::Target;
use super::message::LINE_SIZE;
use super::parts::{TORN_PAUSE_NS, more_parts, part_ns, scattered_step};
use super::receive::Buffer;
use super::{Net, Stage, is_non_posted, is_read_modify_write};
use crate::faults::{Fault, Place};
use crate::machine::Transport;
use crate::queue::Event;

/// The decision of the responder's NIC on a message.
enum Taken {
    Accepted,
    NotReady,
    Refused(Status),
    /// A SEND that used up a buffer that is too small for it.
    TooLong(u64),
}

/// Longest time that a message is kept inside a NIC.
const DELAY_NS_MAX: Nanoseconds = 50_000;
/// Longest time that a message is kept inside a NIC during a stall.
const LONG_DELAY_NS_MAX: Nanoseconds = 3_000_000;
/// The largest delay of a write after another if writes may pass each other: a few bus transactions.
const RELAXED_NS_MAX: Nanoseconds = 2_000;

impl Net {
    /// Handles the arrival of a message at the responder's NIC.
    pub fn arrive(&mut self, index: u32) {
        let message = &self.messages[index];
        let (from, to, sequence, turn, operation) = (
            message.route.from,
            message.route.to,
            message.route.sequence,
            message.route.turn,
            message.operation,
        );
        let current = self.qp(from).is_some_and(|qp| qp.sends.turn == turn);
        let open = |qp: &mut super::queue_pair::Qp| {
            matches!(qp.connection.stage, Stage::Accepted | Stage::Connected)
                && qp.connection.peer == Some(from)
        };
        if !current || !self.qp(to).is_some_and(open) {
            // There is no answer. A sender that learns earlier of the connection's end stops waiting then.
            return if current {
                self.give_up_later(index)
            } else {
                self.messages.release(index)
            };
        }
        if self.faults.strikes(Fault::HalfOpen, self.link(from, to)) {
            self.faults.hit(Fault::HalfOpen);
            self.fail_quietly(to);
            return self.give_up_later(index);
        }
        let context = self.qps[to as usize]
            .as_ref()
            .expect("just looked up")
            .context;
        let size = self.messages[index].payload.len() as u64;
        let at = self.nics.take(self.machine_of(context), size);
        match self.accept_message(index, to, &operation) {
            Taken::Accepted if is_read_modify_write(&operation) => {
                let at = self.nics.execute_atomic(self.machine_of(context), at);
                self.execute_later(index, to, at);
            }
            Taken::Accepted if is_non_posted(&operation) => self.execute_later(index, to, at),
            Taken::Accepted
                if size > LINE_SIZE
                    && self
                        .faults
                        .strikes(Fault::PartialPlacement, self.place_of(context)) =>
            {
                self.die_in_message(index, to, context);
            }
            Taken::Accepted => {
                if self.contexts[context as usize].hung_until > at {
                    self.faults.hit(Fault::HostHung);
                }
                self.place_later(index, to, at);
                // Over iWARP the requester already has its completion.
                if self.transport_of(context) == Transport::InfiniBand {
                    self.answer(index, at);
                }
                self.messages.release(index);
            }
            Taken::NotReady if self.transport_of(context) == Transport::Iwarp => {
                self.refuse_later(index, to, Status::RnrRetryExceeded, at);
            }
            Taken::NotReady => {
                self.hold_from(from, sequence);
                self.messages[index].answer.not_ready = true;
                self.answer(index, at);
                self.messages.release(index);
            }
            Taken::Refused(status) => self.refuse_later(index, to, status, at),
            Taken::TooLong(wr_id) => {
                self.messages[index].landing = Some(super::receive::Landing {
                    wr_id,
                    region: 0,
                    offset: 0,
                    place: 0,
                    shared: None,
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
        let message = &mut self.messages[index];
        if let Some(landing) = &landing {
            (message.target.region, message.target.offset) = (landing.region, landing.offset);
        }
        message.landing = landing;
        if let Some(Target {
            region,
            offset,
            key,
        }) = target
        {
            (
                message.target.region,
                message.target.offset,
                message.target.key,
            ) = (region, offset, Some(key));
            self.keys.enter(key);
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

    /// Decides when an accepted posted message is in memory: after all earlier arrivals here.
    fn place_later(&mut self, index: u32, to: u32, at: Nanoseconds) {
        let context = self.qps[to as usize]
            .as_ref()
            .expect("the queue pair accepted the message")
            .context;
        let profile = self.profile_of(context);
        let (write_ns, part_ns, mtu) = (
            profile.pcie_write_ns,
            part_ns(profile),
            profile.nic_mtu_bytes,
        );
        let message = &self.messages[index];
        let takes =
            more_parts(message.target.offset, message.payload.len() as u64, mtu) * (part_ns + 1);
        let stall = self.nics.inbound_stall(self.machine_of(context));
        let takes = if self
            .faults
            .strikes(Fault::ScatteredPlacement, self.place_of(context))
        {
            self.scatter(index, part_ns)
        } else {
            takes
        };
        let delay = if self
            .faults
            .strikes(Fault::ReadOnOtherQueuePair, self.place_of(context))
        {
            self.delay(index)
        } else {
            0
        };
        let lands = self.messages[index].landing.is_some();
        // A completion comes after its data, and after all earlier data.
        let passes = self.is_relaxed(context) && !lands;
        let detour = if passes {
            self.nics.draw(RELAXED_NS_MAX)
        } else {
            0
        };
        let qp = self.qp(to).expect("the queue pair accepted the message");
        let before = if passes { 0 } else { qp.inbound.placed };
        let mut start = before.max(at + write_ns + stall + delay + detour);
        let overtakes = qp.inbound.executed > start;
        if overtakes {
            self.faults.hit(Fault::PostedOvertakes);
        }
        // Completions of a shared queue keep their order. Completions of a multi-packet queue, where every message has
        // a place of its own, keep it only for each sender.
        if lands
            && let Some(queue) = self.shared_queue(to).filter(|queue| {
                queue.options.multi_packet.is_none() || mutant!(PlacedInOrderOfArrival)
            })
        {
            start = queue.place_after(start);
            queue.place_after(start + takes);
        }
        let qp = self.qp(to).expect("the queue pair accepted the message");
        qp.inbound.placed = qp.inbound.placed.max(start + takes);
        qp.inbound.placing.push_back(index);
        self.messages.retain(index);
        self.time.push(start, Event::Place(index));
    }

    /// Whether writes of `context` may pass each other on their way to memory.
    pub(super) fn is_relaxed(&self, context: u32) -> bool {
        self.contexts[context as usize].root_port.relaxed_ordering
    }

    /// Whether message `index` of `context` reads without pushing out earlier writes.
    pub(super) fn reads_past_writes(&self, context: u32, index: u32) -> bool {
        use Operation::{CompareAndSwap, FetchAndAdd, Read};
        let operation = &self.messages[index].operation;
        self.is_relaxed(context)
            && matches!(
                operation,
                Read { .. } | CompareAndSwap { .. } | FetchAndAdd { .. }
            )
    }

    /// Decides when an accepted non-posted message takes effect: after all earlier arrivals here. An ATOMIC_WRITE
    /// fetches nothing: on the bus it is an ordinary write, which the NIC holds back until its turn.
    fn execute_later(&mut self, index: u32, to: u32, at: Nanoseconds) {
        let context = self.qps[to as usize]
            .as_ref()
            .expect("the queue pair accepted the message")
            .context;
        let profile = self.profile_of(context);
        let (part_ns, mtu) = (part_ns(profile), profile.nic_mtu_bytes);
        let writes = matches!(
            self.messages[index].operation,
            Operation::AtomicWrite { .. }
        );
        let bus_ns = if writes {
            profile.pcie_write_ns
        } else {
            profile.pcie_read_ns
        };
        let stall = if writes {
            self.nics.inbound_stall(self.machine_of(context))
        } else {
            0
        };
        let message = &self.messages[index];
        let size = match message.operation {
            Operation::Read { local, .. } => local.size.into(),
            _ => 8,
        };
        let takes = more_parts(message.target.offset, size, mtu) * (part_ns + 1);
        let takes = if !writes && self.faults.strikes(Fault::TornRead, self.place_of(context)) {
            self.tear(index, size)
        } else {
            takes
        };
        let delayed = !writes
            && self
                .faults
                .strikes(Fault::PostedOvertakes, self.place_of(context));
        let delay = if delayed {
            self.faults.between(1000, DELAY_NS_MAX)
        } else {
            0
        };
        let message = &self.messages[index];
        let reads = self
            .registered(context, message.target.region)
            .filter(|_| !writes);
        let medium_ns = reads.map_or(0, |region| region.memory.read_cost(size));
        let pushes_nothing = self.reads_past_writes(context, index);
        let qp = self.qp(to).expect("the queue pair accepted the message");
        let placed = if pushes_nothing { 0 } else { qp.inbound.placed };
        let start = (at + bus_ns + stall + medium_ns + delay)
            .max(placed)
            .max(qp.inbound.executed);
        qp.inbound.executed = start + takes;
        qp.inbound.executing.push_back(index);
        self.time.push(start, Event::Place(index));
    }

    /// Continues with the next non-posted message at `to` after the first is done, if its time has come.
    pub(super) fn next_executing(&mut self, to: u32, done: u32) {
        let Some(qp) = self.qp(to) else { return };
        let first = qp.inbound.executing.pop_front();
        assert_eq!(
            first,
            Some(done),
            "non-posted messages of a queue pair take effect in order"
        );
        if let Some(&next) = self
            .qp(to)
            .expect("just looked up")
            .inbound
            .executing
            .front()
            && std::mem::take(&mut self.messages[next].progress.due)
        {
            self.time.push(self.time.now(), Event::Place(next));
        }
    }

    /// Cancels the non-posted messages at `to`; those whose time had come get another event, to find that out.
    pub(super) fn drop_executing(&mut self, to: u32) {
        let Some(qp) = self.qp(to) else { return };
        for index in std::mem::take(&mut qp.inbound.executing) {
            if std::mem::take(&mut self.messages[index].progress.due) {
                self.time.push(self.time.clock(), Event::Place(index));
            }
        }
    }

    /// Sends the answer to a message at `at`.
    pub(super) fn answer(&mut self, index: u32, at: Nanoseconds) {
        self.messages.retain(index);
        let message = &self.messages[index];
        let (from, to) = (message.route.from, message.route.to);
        let (Some(requester), Some(responder)) = (self.machine_at(from), self.machine_at(to))
        else {
            return self.messages.release(index);
        };
        let back =
            self.nics.travel(responder, requester) + self.nics.of(requester).profile.pcie_write_ns;
        let lost = self.faults.strikes(
            Fault::ErrorThoughExecuted,
            Place::Link(responder, requester),
        );
        let mute = self.qp(to).is_some_and(|qp| {
            qp.connection.mute |= lost;
            qp.connection.mute
        });
        let passage = if mute {
            None
        } else {
            self.nics.passage(responder, requester, at, at + back)
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

    /// Refuses a message, after everything earlier was answered.
    fn refuse_later(&mut self, index: u32, to: u32, status: Status, at: Nanoseconds) {
        self.messages.retain(index);
        let message = &mut self.messages[index];
        message.answer.status = status;
        let (from, sequence) = (message.route.from, message.route.sequence);
        self.hold_from(from, sequence);
        let qp = self.qp(to).expect("the queue pair was looked up");
        let at = at.max(qp.inbound.placed).max(qp.inbound.executed);
        self.time.push(at, Event::Refuse(index));
        self.answer(index, at);
        self.messages.release(index);
    }

    /// Lets the responder of a refused message give up its queue pair.
    pub fn refuse(&mut self, index: u32) {
        let message = &mut self.messages[index];
        let to = message.route.to;
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
        self.messages.release(index);
    }

    /// Lets the lines of a message be placed in any order. Returns the duration.
    fn scatter(&mut self, index: u32, part_ns: Nanoseconds) -> Nanoseconds {
        let count = self.messages[index].lines();
        if count < 2 {
            return 0;
        }
        self.faults.hit(Fault::ScatteredPlacement);
        let mut lines: Vec<u32> = (0..count).collect();
        self.faults.shuffle(&mut lines);
        self.messages[index].progress.scattered = Some(lines);
        u64::from(count.div_ceil(scattered_step(count)) - 1) * (part_ns + 1)
    }

    /// Keeps a message inside the NIC for a while.
    fn delay(&mut self, index: u32) -> Nanoseconds {
        self.messages.delay(index);
        // Now and then the delay is longer than a client takes to reconnect.
        let longest = if self.faults.between(0, 3) == 0 {
            LONG_DELAY_NS_MAX
        } else {
            DELAY_NS_MAX
        };
        self.faults.between(1000, longest)
    }

    /// Lets a READ fetch in small pieces. Returns the duration.
    fn tear(&mut self, index: u32, size: u64) -> Nanoseconds {
        let grain = if size <= LINE_SIZE {
            8
        } else {
            LINE_SIZE as u32
        };
        self.messages[index].progress.grain = Some(grain);
        size.div_ceil(grain.into()) * (TORN_PAUSE_NS + 1)
    }
}
