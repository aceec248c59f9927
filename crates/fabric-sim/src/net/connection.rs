//! Begins and ends connections.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use slab::Slab;
use stonecast_base::{Nanoseconds, mutant};
use stonecast_fabric::{
    ConnectionEvent, ConnectionRequest, DeviceError, DisconnectCause, PeerIdentity, QueuePair,
    QueuePairOptions, Status,
};

use super::{Net, Qp, Stage};
use crate::faults::{Fault, Place};
use crate::queue::Event;

/// A message of the connection manager in transit.
enum Control {
    /// To a listener.
    Ask {
        from: u32,
        listener: u32,
        private_data: Vec<u8>,
    },
    /// To the side that asked.
    Accept {
        to: u32,
        acceptor: u32,
        private_data: Vec<u8>,
    },
    Reject {
        to: u32,
        reason: String,
        nobody_listens: bool,
    },
    /// To the side that accepted: the other side is ready.
    Ready { to: u32 },
    /// The other side ended the connection.
    Part {
        to: u32,
        peer: u32,
        cause: DisconnectCause,
    },
    /// The other side has not answered for as long as a NIC tries.
    GiveUp { to: u32, peer: u32 },
}

/// The time that a connecting side waits for an answer of the other side's connection manager.
const CM_TIMEOUT_NS: Nanoseconds = 20_000_000;

/// The connection managers of all machines, and their messages in transit.
#[derive(Default)]
pub(super) struct ConnectionManager {
    controls: Slab<Control>,
    /// Listeners by address.
    listeners: BTreeMap<String, u32>,
    /// Addresses of listeners on machines without power, which refuse nothing.
    silent: BTreeSet<String>,
    /// Processes of such machines.
    dark: BTreeSet<u32>,
    requests: BTreeMap<u64, Asked>,
    next_request: u64,
}

/// A connection request without an answer.
struct Asked {
    from: u32,
    listener: u32,
}

impl Net {
    /// Makes a queue pair.
    pub fn create_queue_pair(
        &mut self,
        context: u32,
        options: QueuePairOptions,
    ) -> Result<QueuePair, DeviceError> {
        let state = &self.contexts[context as usize];
        for cq in [options.send_cq, options.receive_cq] {
            if cq.0 as usize >= state.completions.len() {
                return Err(DeviceError::NoSuch {
                    what: "completion queue",
                    index: u64::from(cq.0),
                });
            }
        }
        if let Some(queue) = options
            .shared_receive_queue
            .filter(|queue| queue.0 as usize >= state.shared.len())
        {
            return Err(DeviceError::NoSuch {
                what: "shared receive queue",
                index: u64::from(queue.0),
            });
        }
        self.qps.push(Some(Box::new(Qp::new(context, options))));
        Ok(QueuePair(self.qps.len() as u32 - 1))
    }

    /// Disconnects and frees a queue pair.
    pub fn destroy_queue_pair(&mut self, context: u32, qp: QueuePair) -> Result<(), DeviceError> {
        self.own_qp(context, qp)?;
        self.fail(qp.0, DisconnectCause::Requested, Status::WorkRequestFlushed);
        self.tell_peer(qp.0);
        self.forget_placing(qp.0);
        let state = self.qps[qp.0 as usize].take().expect("just looked up");
        for key in state.windows {
            self.shut(key);
        }
        let context = &mut self.contexts[context as usize];
        context.events.retain(|event| match event {
            ConnectionEvent::Request { .. } => true,
            ConnectionEvent::Established { qp: of, .. }
            | ConnectionEvent::Rejected { qp: of, .. }
            | ConnectionEvent::Disconnected { qp: of, .. } => *of != qp,
        });
        for queue in &mut context.completions {
            queue.entries.retain(|completion| completion.qp != qp);
        }
        Ok(())
    }

    /// Accepts connections at `address`.
    pub fn listen(&mut self, context: u32, address: &str) -> Result<(), DeviceError> {
        if self.manager.listeners.contains_key(address) {
            let reason = "another process listens there already".to_owned();
            return Err(DeviceError::Address {
                address: address.to_owned(),
                reason,
            });
        }
        self.manager.silent.remove(address);
        self.manager.listeners.insert(address.to_owned(), context);
        Ok(())
    }

    /// Asks the listener at `address` for a connection.
    pub fn connect(
        &mut self,
        context: u32,
        qp: QueuePair,
        address: &str,
        private_data: &[u8],
    ) -> Result<(), DeviceError> {
        self.check_private_data(context, private_data)?;
        let state = self.own_qp(context, qp)?;
        if state.connection.stage != Stage::Idle {
            return Err(DeviceError::Malformed {
                reason: "the queue pair is in use",
            });
        }
        state.connection.stage = Stage::Connecting;
        let control = match self.manager.listeners.get(address) {
            Some(&listener) => Control::Ask {
                from: qp.0,
                listener,
                private_data: private_data.to_vec(),
            },
            None if self.manager.silent.contains(address) => {
                self.time_out(qp.0);
                return Ok(());
            }
            None => Control::Reject {
                to: qp.0,
                reason: format!("no process listens at {address}"),
                nobody_listens: true,
            },
        };
        self.send_control(context, control);
        Ok(())
    }

    /// Connects `qp` to the side that asked.
    pub fn accept(
        &mut self,
        context: u32,
        request: ConnectionRequest,
        qp: QueuePair,
        private_data: &[u8],
    ) -> Result<(), DeviceError> {
        self.check_private_data(context, private_data)?;
        if self.own_qp(context, qp)?.connection.stage != Stage::Idle {
            return Err(DeviceError::Malformed {
                reason: "the queue pair is in use",
            });
        }
        let from = self.take_request(context, request)?;
        let state = self.own_qp(context, qp).expect("just looked up");
        state.connection.stage = Stage::Accepted;
        state.connection.peer = Some(from);
        self.send_control(
            context,
            Control::Accept {
                to: from,
                acceptor: qp.0,
                private_data: private_data.to_vec(),
            },
        );
        Ok(())
    }

    /// Refuses the side that asked.
    pub fn reject(
        &mut self,
        context: u32,
        request: ConnectionRequest,
        reason: &str,
    ) -> Result<(), DeviceError> {
        let to = self.take_request(context, request)?;
        self.send_control(
            context,
            Control::Reject {
                to,
                reason: reason.to_owned(),
                nobody_listens: false,
            },
        );
        Ok(())
    }

    fn take_request(
        &mut self,
        context: u32,
        request: ConnectionRequest,
    ) -> Result<u32, DeviceError> {
        let missing = DeviceError::NoSuch {
            what: "connection request",
            index: request.0,
        };
        if self
            .manager
            .requests
            .get(&request.0)
            .is_none_or(|asked| asked.listener != context)
        {
            return Err(missing);
        }
        Ok(self
            .manager
            .requests
            .remove(&request.0)
            .expect("just looked up")
            .from)
    }

    fn check_private_data(&self, context: u32, private_data: &[u8]) -> Result<(), DeviceError> {
        let limit = self.contexts[context as usize]
            .capabilities
            .private_data_size_max as u64;
        let fits = private_data.len() as u64 <= limit;
        if fits {
            Ok(())
        } else {
            Err(DeviceError::Limit {
                what: "bytes of private data",
                limit,
            })
        }
    }

    /// Sends a message of the connection manager of the machine of `from`. Partitions stop the message like any other:
    /// a short partition is a delay, and in a long one the message is lost.
    fn send_control(&mut self, from: u32, control: Control) {
        let delay = self.profile_of(from).cm_message_ns;
        let (sender, target) = (self.machine_of(from), self.target(&control));
        let handshake = matches!(
            control,
            Control::Ask { .. } | Control::Accept { .. } | Control::Ready { .. }
        );
        let link = Place::Link(sender, target.unwrap_or(sender));
        if handshake && self.faults.strikes(Fault::ConnectionTimeout, link) {
            self.faults.hit(Fault::ConnectionTimeout);
            let late = self.faults.between(delay, CM_TIMEOUT_NS);
            // Half of the time the message is only late, and meets the state of that later moment.
            return if late.is_multiple_of(2) {
                self.control_after(late, control)
            } else {
                self.lose_control(control)
            };
        }
        let now = self.time.clock();
        let arrival = match target {
            Some(target) if !mutant!(HandshakeThroughPartition) => {
                self.nics.passage(sender, target, now, now + delay)
            }
            // The receiver of the message is gone.
            _ => Some(now + delay),
        };
        let patience = if handshake {
            CM_TIMEOUT_NS
        } else {
            Nanoseconds::MAX
        };
        match arrival.filter(|arrival| arrival - now <= patience) {
            Some(arrival) => self.control_after(arrival - now, control),
            None => self.lose_control(control),
        }
    }

    /// The destination machine of a message of the connection manager, while its receiver exists.
    fn target(&mut self, control: &Control) -> Option<u32> {
        let context = match *control {
            Control::Ask { listener, .. } => listener,
            Control::Accept { to, .. }
            | Control::Reject { to, .. }
            | Control::Ready { to }
            | Control::Part { to, .. }
            | Control::GiveUp { to, .. } => self.qp(to)?.context,
        };
        Some(self.machine_of(context))
    }

    /// Loses a message of the connection manager: the side that waits for the message notices in time.
    fn lose_control(&mut self, control: Control) {
        let broken = |to, peer| Control::Part {
            to,
            peer,
            cause: DisconnectCause::QueuePairError,
        };
        match control {
            Control::Ask { from, .. } => self.time_out(from),
            Control::Reject { to, .. } => self.time_out(to),
            Control::Accept { to, acceptor, .. } => {
                self.time_out(to);
                self.control_after(CM_TIMEOUT_NS, broken(acceptor, to));
            }
            Control::Ready { to } => {
                if let Some(peer) = self.qp(to).and_then(|qp| qp.connection.peer) {
                    self.control_after(CM_TIMEOUT_NS, broken(to, peer));
                }
            }
            Control::Part { to, peer, .. } | Control::GiveUp { to, peer } => {
                let Some(context) = self.qp(to).map(|qp| qp.context) else {
                    return;
                };
                let give_up = self.profile_of(context).nic_give_up_ns;
                self.control_after(give_up, Control::GiveUp { to, peer });
            }
        }
    }

    /// Ends the connection request of queue pair `to`, which got no answer.
    fn time_out(&mut self, to: u32) {
        let reason = "the connection manager timed out".to_owned();
        let rejection = Control::Reject {
            to,
            reason,
            nobody_listens: false,
        };
        self.control_after(CM_TIMEOUT_NS, rejection);
    }

    /// Tells the other side of a queue pair that broke silently, as its software does when it ends the connection.
    pub fn tell_peer(&mut self, number: u32) {
        let Some(qp) = self.qp(number).filter(|qp| qp.connection.quiet) else {
            return;
        };
        qp.connection.quiet = false;
        let (context, peer) = (qp.context, qp.connection.peer);
        if let Some(peer) = peer {
            self.send_control(
                context,
                Control::Part {
                    to: peer,
                    peer: number,
                    cause: DisconnectCause::Requested,
                },
            );
        }
    }

    /// Breaks a queue pair without telling the other side.
    pub fn fail_quietly(&mut self, number: u32) {
        if self
            .qp(number)
            .is_none_or(|qp| qp.connection.stage == Stage::Failed)
        {
            return;
        }
        self.fail(
            number,
            DisconnectCause::PeerDied,
            Status::WorkRequestFlushed,
        );
        self.qp(number).expect("just looked up").connection.quiet = true;
    }

    /// Ends the connection of `peer` with `number`, a queue pair of `context`, after the time without an answer.
    pub(super) fn give_up_on(&mut self, peer: u32, number: u32, context: u32) {
        let give_up = self.profile_of(context).nic_give_up_ns;
        self.control_after(
            give_up,
            Control::GiveUp {
                to: peer,
                peer: number,
            },
        );
    }

    fn control_after(&mut self, delay: Nanoseconds, control: Control) {
        let index = self.manager.controls.insert(control) as u32;
        self.time
            .push(self.time.clock() + delay, Event::Control(index));
    }

    /// Handles a message of the connection manager that has reached its destination.
    pub fn control(&mut self, index: u32) {
        let control = self.manager.controls.remove(index as usize);
        match control {
            Control::Ask {
                from,
                listener,
                private_data,
            } => self.asked(from, listener, private_data),
            Control::Accept {
                to,
                acceptor,
                private_data,
            } => self.accepted(to, acceptor, private_data),
            Control::Reject {
                to,
                reason,
                nobody_listens,
            } => self.rejected(to, reason, nobody_listens),
            Control::Ready { to } => self.ready(to),
            Control::Part { to, peer, cause } => {
                if self
                    .qp(to)
                    .is_some_and(|qp| qp.connection.peer == Some(peer))
                {
                    self.fail(to, cause, Status::WorkRequestFlushed);
                }
            }
            Control::GiveUp { to, peer } => {
                if self
                    .qp(to)
                    .is_some_and(|qp| qp.connection.peer == Some(peer))
                {
                    self.fail(to, DisconnectCause::PeerDied, Status::RetryExceeded);
                }
            }
        }
    }

    fn asked(&mut self, from: u32, listener: u32, private_data: Vec<u8>) {
        if self.manager.dark.contains(&listener) {
            return self.time_out(from);
        }
        if self.contexts[listener as usize].dead {
            return self.send_control(
                listener,
                Control::Reject {
                    to: from,
                    reason: "no process listens there any more".to_owned(),
                    nobody_listens: true,
                },
            );
        }
        self.manager.next_request += 1;
        self.manager
            .requests
            .insert(self.manager.next_request, Asked { from, listener });
        let name = self.qp(from).map_or_else(
            || "a process that is gone".to_owned(),
            |qp| format!("process {}", qp.context),
        );
        let peer = PeerIdentity {
            name,
            user: "the user of all processes".into(),
            process: None,
            same_user: true,
        };
        let request = ConnectionRequest(self.manager.next_request);
        self.tell_event(
            listener,
            ConnectionEvent::Request {
                request,
                peer,
                private_data,
            },
        );
    }

    fn accepted(&mut self, to: u32, acceptor: u32, private_data: Vec<u8>) {
        let Some(qp) = self
            .qp(to)
            .filter(|qp| qp.connection.stage == Stage::Connecting)
        else {
            // The side that asked is gone; the acceptor must learn of it.
            let Some(context) = self.qp(acceptor).map(|qp| qp.context) else {
                return;
            };
            return self.send_control(
                context,
                Control::Part {
                    to: acceptor,
                    peer: to,
                    cause: DisconnectCause::Requested,
                },
            );
        };
        qp.connection.stage = Stage::Connected;
        qp.connection.peer = Some(acceptor);
        let context = qp.context;
        self.tell_event(
            context,
            ConnectionEvent::Established {
                qp: QueuePair(to),
                private_data,
            },
        );
        self.send_control(context, Control::Ready { to: acceptor });
        self.transmit(to);
    }

    fn rejected(&mut self, to: u32, reason: String, nobody_listens: bool) {
        if let Some(qp) = self
            .qp(to)
            .filter(|qp| qp.connection.stage == Stage::Connecting)
        {
            qp.connection.stage = Stage::Idle;
            let context = qp.context;
            self.tell_event(
                context,
                ConnectionEvent::Rejected {
                    qp: QueuePair(to),
                    reason,
                    nobody_listens,
                },
            );
        }
    }

    fn ready(&mut self, to: u32) {
        if let Some(qp) = self
            .qp(to)
            .filter(|qp| qp.connection.stage == Stage::Accepted)
        {
            qp.connection.stage = Stage::Connected;
            let context = qp.context;
            self.tell_event(
                context,
                ConnectionEvent::Established {
                    qp: QueuePair(to),
                    private_data: Vec::new(),
                },
            );
            self.transmit(to);
        }
    }

    fn tell_event(&mut self, context: u32, event: ConnectionEvent) {
        let state = &mut self.contexts[context as usize];
        if !state.dead {
            state.events.push_back(event);
            self.note_arrival(context);
        }
    }

    /// Ends the connection of a queue pair at the request of its program.
    pub fn disconnect(&mut self, context: u32, qp: QueuePair) -> Result<(), DeviceError> {
        if matches!(
            self.own_qp(context, qp)?.connection.stage,
            Stage::Accepted | Stage::Connected | Stage::Connecting
        ) {
            self.fail(qp.0, DisconnectCause::Requested, Status::WorkRequestFlushed);
        }
        self.tell_peer(qp.0);
        Ok(())
    }

    /// Ends the connection of a queue pair; false while the NIC still has messages of its peer to place, or completions
    /// of the queue pair to report: `waker` is called when there are none.
    pub fn quiesce(
        &mut self,
        context: u32,
        qp: QueuePair,
        waker: &Waker,
    ) -> Result<bool, DeviceError> {
        if matches!(
            self.own_qp(context, qp)?.connection.stage,
            Stage::Idle | Stage::Connecting
        ) {
            return Err(DeviceError::Malformed {
                reason: "the queue pair was never connected",
            });
        }
        self.disconnect(context, qp)?;
        if !self.own_qp(context, qp)?.inbound.placing.is_empty() && !mutant!(QuietTooEarly) {
            self.faults.hit(Fault::LeaseEndInFlight);
        }
        let quiet = self.is_quiet(qp.0) || mutant!(QuietTooEarly);
        if !quiet {
            self.own_qp(context, qp)?.inbound.waiting = Some(waker.clone());
        }
        Ok(quiet)
    }

    /// Whether nothing of the peer is on its way to memory, and no completion of the queue pair is late.
    fn is_quiet(&self, number: u32) -> bool {
        let qp = self.qps[number as usize].as_ref();
        qp.is_some_and(|qp| qp.inbound.placing.is_empty()) && !self.irregular.is_late(number)
    }

    /// Wakes the task that waits for a queue pair to be quiet, if it is.
    pub(super) fn note_quiet(&mut self, number: u32) {
        let waits = self
            .qp(number)
            .is_some_and(|qp| qp.inbound.waiting.is_some());
        if waits && self.is_quiet(number) {
            let qp = self.qp(number).expect("just looked up");
            let waiting = qp.inbound.waiting.take();
            self.news.wakers.extend(waiting);
        }
    }

    /// Ends the connection of a queue pair: outstanding requests complete, the first send with `first`, and the other
    /// side is told.
    pub fn fail(&mut self, number: u32, cause: DisconnectCause, first: Status) {
        let Some(qp) = self
            .qp(number)
            .filter(|qp| qp.connection.stage != Stage::Failed)
        else {
            return;
        };
        let (context, peer, stage) = (qp.context, qp.connection.peer, qp.connection.stage);
        // Messages that the NIC has acknowledged are placed at once, or take their time although the queue pair is
        // broken.
        let place = self.place_of(context);
        let late = self.faults.enabled(Fault::LeaseEndInFlight, place)
            && self.faults.draw(Fault::LeaseEndInFlight, place, 100);
        if !late {
            self.settle(number);
        }
        self.qp(number).expect("just looked up").connection.stage = Stage::Failed;
        self.drop_executing(number);
        self.flush_sends(number, first);
        self.flush_receives(number);
        let Some(peer) = peer else { return };
        if matches!(stage, Stage::Accepted | Stage::Connected) {
            self.tell_event(
                context,
                ConnectionEvent::Disconnected {
                    qp: QueuePair(number),
                    cause,
                },
            );
        }
        if cause != DisconnectCause::PeerDied {
            self.send_control(
                context,
                Control::Part {
                    to: peer,
                    peer: number,
                    cause,
                },
            );
        }
    }

    /// Ends a process: its later actions have no effect. If it was `killed`, the messages that its NIC has taken are
    /// placed, and its kernel says goodbye for it. A machine without power places nothing and is silent: peers notice
    /// the missing answers.
    pub fn kill(&mut self, context: u32, killed: bool) {
        self.contexts[context as usize].dead = true;
        let manager = &mut self.manager;
        let own = manager
            .listeners
            .extract_if(.., |_, listener| *listener == context);
        let addresses: Vec<String> = own.map(|(address, _)| address).collect();
        if !killed {
            manager.silent.extend(addresses);
            manager.dark.insert(context);
        }
        let asked = std::mem::take(&mut self.manager.requests);
        for (number, asked) in asked {
            if asked.listener != context {
                self.manager.requests.insert(number, asked);
            } else if killed {
                let reason = "the listener is gone".to_owned();
                let to = asked.from;
                let rejection = Control::Reject {
                    to,
                    reason,
                    nobody_listens: false,
                };
                self.send_control(context, rejection);
            } else {
                self.time_out(asked.from);
            }
        }
        for number in 0..self.qps.len() as u32 {
            let Some(qp) = self.qp(number).filter(|qp| qp.context == context) else {
                continue;
            };
            // Peers that were not told of the break are told here.
            let untold = std::mem::take(&mut qp.connection.quiet)
                || matches!(qp.connection.stage, Stage::Accepted | Stage::Connected);
            let peer = qp.connection.peer;
            if killed {
                self.settle(number);
            }
            self.forget_placing(number);
            self.qp(number).expect("just looked up").connection.stage = Stage::Failed;
            self.drop_executing(number);
            let Some(peer) = peer.filter(|_| untold) else {
                continue;
            };
            if killed {
                let (to, peer, cause) = (peer, number, DisconnectCause::PeerDied);
                self.send_control(context, Control::Part { to, peer, cause });
            } else {
                self.give_up_on(peer, number, context);
            }
        }
        let state = &mut self.contexts[context as usize];
        state.events.clear();
        state
            .completions
            .iter_mut()
            .for_each(|queue| queue.entries.clear());
    }
}
