//! Begins and ends connections.

use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use stonecast_fabric::{
    ConnectionEvent, ConnectionRequest, DeviceError, DisconnectCause, PeerIdentity, QueuePair,
    QueuePairOptions,
};

use super::State;
use super::queue_pair::Phase;
use crate::address::ControlAddress;
use crate::control::{
    ControlEvent, EndCause, LinkId, Offer, PRIVATE_DATA_SIZE_MAX, PeerProfile, random_bytes,
};
use crate::path::Endpoint;
use crate::retries::ReceiverNotReady;
use crate::verbs::cause;
use crate::verbs::queue_pair::Route;

/// Time for which completions of a failed queue pair are awaited. Usually they arrive within microseconds. A NIC that
/// has not returned them by then has lost them, or does not report the last buffer that it took from a shared queue.
const QUIESCE_PATIENCE: Duration = Duration::from_millis(500);

/// A peer that waits for an answer of the program.
#[derive(Clone, Copy)]
pub(super) struct PendingRequest {
    endpoint: Endpoint,
    profile: PeerProfile,
}

impl State {
    pub(super) fn connect(
        &mut self,
        qp: QueuePair,
        address: &str,
        private_data: &[u8],
    ) -> Result<(), DeviceError> {
        check_size(private_data)?;
        let address: ControlAddress = address.parse()?;
        self.expect_fresh(qp)?;
        let offer = self.offer(qp.0, private_data)?;
        let link = self.control.call(&address, offer)?;
        self.qps.get_mut(qp.0)?.phase = Phase::Calling(link);
        self.connections.by_link.insert(link, qp.0);
        Ok(())
    }

    pub(super) fn accept(
        &mut self,
        request: ConnectionRequest,
        qp: QueuePair,
        private_data: &[u8],
    ) -> Result<(), DeviceError> {
        check_size(private_data)?;
        let link = LinkId(request.0);
        let pending = *self
            .connections
            .requests
            .get(&link)
            .ok_or(no_such(request))?;
        self.expect_fresh(qp)?;
        let offer = self.offer(qp.0, private_data)?;
        self.join(qp.0, pending.endpoint, pending.profile)?;
        self.connections.requests.remove(&link);
        self.qps.get_mut(qp.0)?.phase = Phase::Accepted(link);
        self.connections.by_link.insert(link, qp.0);
        // The peer learns the keys of windows with the acceptance, so the windows must be bound earlier.
        if let Err(error) = self.bind_waiting(qp.0) {
            self.control
                .reject(link, "the server cannot open its memory".into());
            self.fail(qp.0, DisconnectCause::QueuePairError, false);
            return Err(error);
        }
        self.control.accept(link, offer);
        Ok(())
    }

    pub(super) fn reject(
        &mut self,
        request: ConnectionRequest,
        reason: &str,
    ) -> Result<(), DeviceError> {
        let link = LinkId(request.0);
        self.connections
            .requests
            .remove(&link)
            .ok_or(no_such(request))?;
        self.control.reject(link, reason.into());
        Ok(())
    }

    pub(super) fn disconnect(&mut self, qp: QueuePair) -> Result<(), DeviceError> {
        self.qps.get(qp.0)?;
        self.fail(qp.0, DisconnectCause::Requested, true);
        Ok(())
    }

    /// Ends a connection, and takes the queue pair from the NIC when all its posts have completed. False: not yet.
    ///
    /// In the error state the NIC executes no request, but a request that it had begun may still be in transit to
    /// memory. The reset ends when there is none; it would drop completions, so they are awaited first. Some never
    /// arrive, for example of a completion queue that overran or of a device that failed. The reset alone is the fence,
    /// so it does not wait for them forever, and the remaining requests end as flushed here.
    pub(super) fn quiesce(&mut self, qp: QueuePair) -> Result<bool, DeviceError> {
        let state = self.qps.get(qp.0)?;
        let options = state.options;
        if state.peer.is_none() {
            return Err(DeviceError::Malformed {
                reason: "the queue pair was never connected",
            });
        }
        self.fail(qp.0, DisconnectCause::Requested, true);
        // The event of the last buffer comes after its completion, so the event is read before the completions.
        self.hear_device();
        self.collect_of(&options);
        let state = self.qps.get_mut(qp.0)?;
        let since = *state.quiescing.get_or_insert_with(Instant::now);
        if state.is_under_way() && since.elapsed() < QUIESCE_PATIENCE {
            return Ok(false);
        }
        state
            .hardware
            .reset()
            .map_err(|source| DeviceError::System {
                doing: "resetting a queue pair",
                source,
            })?;
        // Completions that arrived meanwhile and outlived the reset.
        self.collect_of(&options);
        let state = self.qps.get_mut(qp.0)?;
        state.sends.take_back();
        state.receives.take_back();
        self.flush_kept(qp.0);
        Ok(true)
    }

    /// Takes all completions of the queues of a queue pair.
    fn collect_of(&mut self, options: &QueuePairOptions) {
        for cq in [options.send_cq, options.receive_cq] {
            self.collect(cq.0, usize::MAX);
        }
    }

    pub(super) fn destroy_queue_pair(&mut self, qp: QueuePair) -> Result<(), DeviceError> {
        let options = self.qps.get(qp.0)?.options;
        self.fail(qp.0, DisconnectCause::Requested, true);
        let windows: Vec<u32> = self
            .windows
            .iter()
            .filter(|(_, window)| window.qp == qp.0)
            .map(|(handle, _)| handle)
            .collect();
        windows
            .into_iter()
            .try_for_each(|handle| self.end_window(handle))?;
        let state = self.qps.remove(qp.0)?;
        self.connections.by_number.remove(&state.hardware.number());
        let domain = state.domain.clone();
        drop(state);
        if !Rc::ptr_eq(&domain, &self.hardware.domain) {
            // Only this queue pair used them.
            self.regions
                .iter_mut()
                .for_each(|region| region.leave(&domain));
        }
        // The NIC is done with the queue pair; its remaining completions are taken here, before another queue pair gets
        // its number.
        for cq in [options.send_cq, options.receive_cq] {
            self.collect(cq.0, usize::MAX);
            if let Ok(queue) = self.cqs.get_mut(cq.0) {
                queue.taken.retain(|completion| completion.qp != qp);
            }
        }
        self.take_back_completions(&options);
        self.connections.events.retain(|event| !concerns(event, qp));
        Ok(())
    }

    /// Ends every connection as the death of the process would.
    pub(super) fn abandon(&mut self) {
        if std::mem::replace(&mut self.abandoned, true) {
            return;
        }
        self.control.abandon();
        let handles: Vec<u32> = self.qps.iter().map(|(handle, _)| handle).collect();
        for handle in handles {
            if let Ok(qp) = self.qps.get_mut(handle) {
                let _ = qp.hardware.reset();
                qp.phase = Phase::Failed;
            }
        }
        self.connections.by_link.clear();
        self.connections.requests.clear();
    }

    fn expect_fresh(&self, qp: QueuePair) -> Result<(), DeviceError> {
        match self.qps.get(qp.0)?.phase {
            Phase::Fresh => Ok(()),
            _ => Err(DeviceError::Malformed {
                reason: "a queue pair that is connected, or was",
            }),
        }
    }

    /// The offer to a peer for a queue pair, with a fresh first packet number.
    fn offer(&mut self, handle: u32, private_data: &[u8]) -> Result<Offer, DeviceError> {
        let (port, facts) = (self.hardware.port, self.hardware.facts);
        let qp = self.qps.get_mut(handle)?;
        qp.first_packet = u32::from_le_bytes(random_bytes()) & 0xff_ffff;
        let endpoint = Endpoint {
            queue_pair: qp.hardware.number(),
            first_packet: qp.first_packet,
            lid: port.lid,
            gid: port.gid,
            mtu: port.mtu,
            reads_in: facts.reads_in_max,
            reads_out: facts.reads_out_max,
            send_capacity: qp.options.send_capacity,
            rnr_retry_count: qp.options.rnr_retry_count,
            rnr_retry_delay_ns: qp.options.rnr_retry_delay_ns,
        };
        Ok(Offer {
            endpoint,
            private_data: private_data.to_vec(),
        })
    }

    /// Connects the queue pair to the peer's queue pair: packets flow afterwards.
    fn join(
        &mut self,
        handle: u32,
        peer: Endpoint,
        profile: PeerProfile,
    ) -> Result<(), DeviceError> {
        let (port, facts, retransmission) = (
            self.hardware.port,
            self.hardware.facts,
            self.abilities.retransmission,
        );
        let unreachable = |source: io::Error| DeviceError::Address {
            address: peer.gid.to_string(),
            reason: cause::connection(&source, port.gid_index, &port.gid.to_string()),
        };
        if profile.transport != port.transport {
            let reason =
                "the peer's link is of another kind (InfiniBand or Ethernet) than this one".into();
            return Err(DeviceError::Address {
                address: peer.gid.to_string(),
                reason,
            });
        }
        let qp = self.qps.get_mut(handle)?;
        let route = Route {
            port,
            peer,
            first_packet: qp.first_packet,
            peer_terms: ReceiverNotReady::new(peer.rnr_retry_count, peer.rnr_retry_delay_ns),
            own_terms: ReceiverNotReady::new(
                qp.options.rnr_retry_count,
                qp.options.rnr_retry_delay_ns,
            ),
            reads_out: facts.reads_out_max.min(peer.reads_in),
            reads_in: facts.reads_in_max.min(peer.reads_out).max(1),
            retransmission,
        };
        let joined = qp
            .hardware
            .receive_from(&route)
            .and_then(|()| qp.hardware.send_to(&route));
        if let Err(error) = joined {
            self.make_fresh(handle)?;
            return Err(unreachable(error));
        }
        qp.peer = Some((peer, profile));
        Ok(())
    }

    /// Restores a queue pair whose attempt failed half-way to its fresh state.
    fn make_fresh(&mut self, handle: u32) -> Result<(), DeviceError> {
        let (port, flush) = (self.hardware.port, self.abilities.has_flush_persistent);
        let qp = self.qps.get_mut(handle)?;
        let buffers: Vec<_> = qp.receives.entries().map(|buffer| buffer.raw).collect();
        let again = qp
            .hardware
            .reset()
            .and_then(|()| qp.hardware.initialize(&port, flush));
        again
            .and_then(|()| qp.hardware.post_receives(&buffers))
            .map_err(|source| DeviceError::System {
                doing: "preparing a queue pair for another attempt",
                source,
            })?;
        qp.phase = Phase::Fresh;
        qp.peer = None;
        Ok(())
    }

    /// Takes the events of the control plane.
    pub(super) fn hear_control(&mut self) {
        while let Some(event) = self.control.poll_event() {
            match event {
                ControlEvent::Request {
                    link,
                    peer,
                    key,
                    endpoint,
                    profile,
                    private_data,
                } => {
                    self.connections
                        .requests
                        .insert(link, PendingRequest { endpoint, profile });
                    // This machine cannot know the rights of a process on another machine.
                    let peer = PeerIdentity {
                        name: peer,
                        user: key,
                        process: None,
                        same_user: false,
                    };
                    self.connections.events.push_back(ConnectionEvent::Request {
                        request: ConnectionRequest(link.0),
                        peer,
                        private_data,
                    });
                }
                ControlEvent::Accepted {
                    link,
                    endpoint,
                    profile,
                    private_data,
                } => {
                    self.accepted(link, endpoint, profile, private_data);
                }
                ControlEvent::Refused { link, error } => {
                    self.refused(link, error.to_string(), error.is_nobody_listening());
                }
                ControlEvent::Ready { link } => {
                    if let Some(&handle) = self.connections.by_link.get(&link)
                        && let Ok(qp) = self.qps.get_mut(handle)
                    {
                        qp.phase = Phase::Connected(link);
                        self.connections
                            .events
                            .push_back(ConnectionEvent::Established {
                                qp: QueuePair(handle),
                                private_data: Vec::new(),
                            });
                        if self.post_early(handle).is_err() {
                            self.fail(handle, DisconnectCause::QueuePairError, true);
                        }
                    }
                }
                ControlEvent::Ended { link, cause } => {
                    self.connections.requests.remove(&link);
                    if let Some(&handle) = self.connections.by_link.get(&link) {
                        self.fail(handle, cause.into(), false);
                    }
                }
            }
        }
    }

    /// Handles the server's acceptance of the call of a queue pair.
    fn accepted(
        &mut self,
        link: LinkId,
        endpoint: Endpoint,
        profile: PeerProfile,
        private_data: Vec<u8>,
    ) {
        // The program may have destroyed the queue pair meanwhile; then the server was already told.
        let Some(&handle) = self.connections.by_link.get(&link) else {
            return;
        };
        match self
            .join(handle, endpoint, profile)
            .and_then(|()| self.bind_waiting(handle))
        {
            Ok(()) => {
                self.control.ready(link);
                if let Ok(qp) = self.qps.get_mut(handle) {
                    qp.phase = Phase::Connected(link);
                }
                self.connections
                    .events
                    .push_back(ConnectionEvent::Established {
                        qp: QueuePair(handle),
                        private_data,
                    });
            }
            Err(error) => {
                self.control.hang_up(link, EndCause::QueuePairError);
                // Windows may already have been bound on the queue pair. A queue pair that cannot be made fresh refuses
                // the next attempt, too.
                let reason = match self.make_fresh(handle) {
                    Ok(()) => error.to_string(),
                    Err(worse) => format!("{error}; {worse}"),
                };
                self.refused(link, reason, false);
            }
        }
    }

    /// Handles the failure of the call of a queue pair, which can try again.
    fn refused(&mut self, link: LinkId, reason: String, nobody_listens: bool) {
        let Some(handle) = self.connections.by_link.remove(&link) else {
            return;
        };
        if let Ok(qp) = self.qps.get_mut(handle) {
            qp.phase = Phase::Fresh;
            self.connections
                .events
                .push_back(ConnectionEvent::Rejected {
                    qp: QueuePair(handle),
                    reason,
                    nobody_listens,
                });
        }
    }
}

fn check_size(private_data: &[u8]) -> Result<(), DeviceError> {
    if private_data.len() > PRIVATE_DATA_SIZE_MAX {
        return Err(DeviceError::Limit {
            what: "bytes of private data",
            limit: PRIVATE_DATA_SIZE_MAX as u64,
        });
    }
    Ok(())
}

fn no_such(request: ConnectionRequest) -> DeviceError {
    DeviceError::NoSuch {
        what: "connection request",
        index: request.0,
    }
}

fn concerns(event: &ConnectionEvent, queue_pair: QueuePair) -> bool {
    match event {
        ConnectionEvent::Request { .. } => false,
        ConnectionEvent::Established { qp, .. }
        | ConnectionEvent::Rejected { qp, .. }
        | ConnectionEvent::Disconnected { qp, .. } => *qp == queue_pair,
    }
}
