//! The beginning and the end of connections.

use stonecast_fabric::{
    ConnectionEvent, ConnectionRequest, DisconnectCause, Opcode, PeerIdentity, QueuePair, Status,
};

use super::engine::completion;
use super::{Fault, Net};

impl Net {
    pub(super) fn connect(
        &mut self,
        node: usize,
        qp: QueuePair,
        address: &str,
        private_data: &[u8],
    ) {
        let listener = self
            .listeners
            .get(address)
            .copied()
            .filter(|&listener| !self.nodes[listener].dead);
        let Some(listener) = listener else {
            if self.fault == Fault::RejectionLost {
                return;
            }
            let reason = format!("no listener at {address}");
            return self.nodes[node]
                .events
                .push_back(ConnectionEvent::Rejected {
                    qp,
                    reason,
                    nobody_listens: true,
                });
        };
        self.next_request += 1;
        self.requests.insert(self.next_request, (node, qp.0));
        let peer = PeerIdentity {
            name: format!("node {node}"),
            user: "the user of all nodes".into(),
            process: None,
            same_user: true,
        };
        let request = ConnectionRequest(self.next_request);
        let private_data = if self.fault == Fault::PrivateDataLost {
            Vec::new()
        } else {
            private_data.to_vec()
        };
        self.nodes[listener]
            .events
            .push_back(ConnectionEvent::Request {
                request,
                peer,
                private_data,
            });
    }

    pub(super) fn accept(
        &mut self,
        node: usize,
        (from, from_qp): (usize, u32),
        qp: u32,
        private_data: &[u8],
    ) {
        for (node, qp, peer, private_data) in [
            (from, from_qp, (node, qp), private_data),
            (node, qp, (from, from_qp), b""),
        ] {
            let Some(state) = self.nodes[node].qps.get_mut(&qp) else {
                continue;
            };
            state.peer = Some(peer);
            let event = ConnectionEvent::Established {
                qp: QueuePair(qp),
                private_data: private_data.to_vec(),
            };
            self.nodes[node].events.push_back(event);
        }
    }

    /// The queue pair failed, either directly or through its first failed request, which already has its status.
    pub(super) fn break_queue_pair(&mut self, node: usize, qp: u32) {
        if self.fault == Fault::FailureSpreads {
            let others: Vec<u32> = self.nodes[node]
                .qps
                .keys()
                .copied()
                .filter(|&other| other != qp)
                .collect();
            others
                .into_iter()
                .for_each(|other| self.part(node, other, DisconnectCause::QueuePairError));
        }
        self.part(node, qp, DisconnectCause::QueuePairError);
    }

    /// Ends the connection of `qp` on both sides.
    pub(super) fn part(&mut self, node: usize, qp: u32, cause: DisconnectCause) {
        // Only once: the peer's number may have passed to another queue pair.
        let pair = self.nodes[node].qps.get(&qp).filter(|pair| !pair.failed);
        let Some(peer) = pair.and_then(|pair| pair.peer) else {
            return;
        };
        self.end(node, qp, cause, Status::WorkRequestFlushed);
        self.end(peer.0, peer.1, cause, Status::WorkRequestFlushed);
    }

    /// Ends the connection of `qp` on this side: outstanding requests complete, the first of them with `first`.
    pub(super) fn end(&mut self, node: usize, qp: u32, cause: DisconnectCause, first: Status) {
        let fault = self.fault;
        let state = &mut self.nodes[node];
        let Some(pair) = state.qps.get_mut(&qp) else {
            return;
        };
        if pair.failed || pair.peer.is_none() {
            return;
        }
        pair.failed = true;
        let event = ConnectionEvent::Disconnected {
            qp: QueuePair(qp),
            cause,
        };
        let times = if fault == Fault::DisconnectToldTwice {
            2
        } else {
            1
        };
        state.events.extend(std::iter::repeat_n(event, times));
        let mut status = first;
        for posted in pair
            .send
            .iter_mut()
            .filter(|posted| posted.status.is_none())
        {
            posted.status = Some(status);
            status = Status::WorkRequestFlushed;
        }
        self.retire(node, qp);
        self.flush_receives(node, qp);
    }

    /// Completes the receive buffers that a failed queue pair has for itself.
    pub(super) fn flush_receives(&mut self, node: usize, qp: u32) {
        let fault = self.fault;
        let state = &mut self.nodes[node];
        let Some(pair) = state.qps.get_mut(&qp) else {
            return;
        };
        let cq = pair.options.receive_cq.0;
        let mut buffers = std::mem::take(&mut pair.receive);
        if let (Fault::SharedBuffersFlushed, Some(shared)) =
            (fault, pair.options.shared_receive_queue)
        {
            buffers = std::mem::take(&mut state.shared[shared.0 as usize].buffers);
        }
        for buffer in buffers {
            if fault != Fault::FlushedReceivesForgotten {
                self.complete(
                    node,
                    cq,
                    completion(
                        buffer.wr_id,
                        Status::WorkRequestFlushed,
                        Opcode::Receive,
                        qp,
                    ),
                );
            }
        }
    }

    /// Destroys a node: its peers notice.
    pub(super) fn kill(&mut self, dead: usize) {
        self.nodes[dead].dead = true;
        if self.fault == Fault::DeathUnnoticed {
            return;
        }
        for node in 0..self.nodes.len() {
            let of_the_dead = |qp: &super::Qp| qp.peer.is_some_and(|(peer, _)| peer == dead);
            let qps: Vec<u32> = self.nodes[node]
                .qps
                .iter()
                .filter(|(_, qp)| of_the_dead(qp))
                .map(|(&qp, _)| qp)
                .collect();
            qps.into_iter().for_each(|qp| {
                self.end(node, qp, DisconnectCause::PeerDied, Status::RetryExceeded)
            });
        }
    }
}
