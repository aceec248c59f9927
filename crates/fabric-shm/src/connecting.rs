//! Begins and ends connections: reports of the control thread, and requests of the program.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use stonecast_fabric::{
    ConnectionEvent, ConnectionRequest, DeviceError, DisconnectCause, PeerIdentity, QueuePair,
    Status,
};

use crate::connection::{Connection, Offer, create_area, open_area};
use crate::control::{ControlEvent, Token};
use crate::descriptors;
use crate::device::{State, system};
use crate::message::{Hello, PRIVATE_DATA_SIZE_MAX};
use crate::queue_pair::{Phase, QueuePairState, Surroundings};
use crate::revocation::Zombie;
use crate::socket;

/// Descriptors that a caller needs: socket, connection area, the peer's key table and bell, and later some of its
/// regions, when a lack of descriptors can no longer be reported.
const CONNECTION_FILES: usize = 8;

/// A request that was neither accepted nor rejected yet.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    hello: Hello,
    descriptors: Vec<OwnedFd>,
    same_user: bool,
}

fn check_private_data(private_data: &[u8]) -> Result<(), DeviceError> {
    let limit = DeviceError::Limit {
        what: "bytes of private data",
        limit: PRIVATE_DATA_SIZE_MAX as u64,
    };
    if private_data.len() > PRIVATE_DATA_SIZE_MAX {
        Err(limit)
    } else {
        Ok(())
    }
}

impl State {
    pub(crate) fn listen(&mut self, address: &str) -> Result<(), DeviceError> {
        let path = socket::parse(address)?;
        let refuse = |error: io::Error| DeviceError::Address {
            address: address.into(),
            reason: descriptors::explain(error).to_string(),
        };
        self.control
            .listen(&path, self.socket_access)
            .map_err(refuse)
    }

    pub(crate) fn connect(
        &mut self,
        qp: QueuePair,
        address: &str,
        private_data: &[u8],
    ) -> Result<(), DeviceError> {
        let path = socket::parse(address)?;
        check_private_data(private_data)?;
        let options = self.idle(qp)?.options;
        let line = match descriptors::check_free(CONNECTION_FILES)
            .and_then(|()| self.control.dial(&path))
        {
            Ok(line) => line,
            Err(error) => return self.not_connected(qp, error),
        };
        let append = match options.shared_receive_queue {
            Some(srq) => self.shared_receive_queue(srq)?.append(),
            None => None,
        };
        if append.is_some() && !line.same_user {
            return Err(self.lacks("multi-packet queues for processes of other users"));
        }
        let area = match create_area() {
            Ok(area) => area,
            Err(error) => return self.not_connected(qp, error),
        };
        let offer = Offer::new(
            qp.0,
            &options,
            private_data,
            self.keys.memory(),
            &self.bell,
            append,
            line.same_user,
        );
        let mut descriptors = vec![area.file()];
        descriptors.extend(offer.descriptors);
        let sent = self.control.request(&line, offer.hello, &descriptors);
        if let Err(error) = sent {
            return self.not_connected(qp, error);
        }
        let token = line.token;
        self.queue_pair_mut(qp)?.phase = Phase::Connecting { token };
        self.calls.insert(token, (qp, line, area));
        Ok(())
    }

    /// The connection was not made, for a reason that is not a fault of the call.
    fn not_connected(&mut self, qp: QueuePair, error: io::Error) -> Result<(), DeviceError> {
        let nobody_listens = matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
        );
        let reason = descriptors::explain(error).to_string();
        self.around.events.push_back(ConnectionEvent::Rejected {
            qp,
            reason,
            nobody_listens,
        });
        Ok(())
    }

    pub(crate) fn accept(
        &mut self,
        request: ConnectionRequest,
        qp: QueuePair,
        private_data: &[u8],
    ) -> Result<(), DeviceError> {
        check_private_data(private_data)?;
        let options = self.idle(qp)?.options;
        let no_such = || DeviceError::NoSuch {
            what: "connection request",
            index: request.0,
        };
        let token = Token(request.0);
        let pending = self.requests.remove(&token).ok_or_else(no_such)?;
        let same_user = pending.same_user;
        let append = match options.shared_receive_queue {
            Some(srq) => self.shared_receive_queue(srq)?.append(),
            None => None,
        };
        if append.is_some() && !same_user {
            return Err(self.lacks("multi-packet queues for processes of other users"));
        }
        let offer = Offer::new(
            qp.0,
            &options,
            private_data,
            self.keys.memory(),
            &self.bell,
            append,
            same_user,
        );
        let mut descriptors = VecDeque::from(pending.descriptors);
        let area = descriptors.pop_front().ok_or_else(no_such)?;
        // The peer's offer is checked before the peer learns of its acceptance.
        let opened = open_area(area).and_then(|area| {
            let prepared =
                Connection::prepare(area, false, same_user, &pending.hello, descriptors.into())?;
            let line = self
                .control
                .accept(token, qp.0, offer.hello, &offer.descriptors)?;
            Ok(prepared.established(line))
        });
        match opened {
            Ok(connection) => {
                self.establish(qp, connection, Vec::new());
                Ok(())
            }
            Err(error) => {
                let error = descriptors::explain(error);
                self.control.reject(token, &error.to_string());
                Err(system("accepting a connection")(error))
            }
        }
    }

    pub(crate) fn reject(
        &mut self,
        request: ConnectionRequest,
        reason: &str,
    ) -> Result<(), DeviceError> {
        let token = Token(request.0);
        let pending = self.requests.remove(&token);
        pending.ok_or(DeviceError::NoSuch {
            what: "connection request",
            index: request.0,
        })?;
        self.control.reject(token, reason);
        Ok(())
    }

    pub(crate) fn disconnect(&mut self, qp: QueuePair) -> Result<(), DeviceError> {
        self.queue_pair(qp)?;
        self.with_queue_pair(qp.0, |qp, around| {
            let cause = DisconnectCause::Requested;
            if qp.is_connected() {
                qp.fail(around, Status::WorkRequestFlushed, cause, Some(cause));
            }
        });
        Ok(())
    }

    /// Takes a queue pair apart. The peer finds the end of its socket; if the peer is in the middle of an operation,
    /// the socket ends as soon as the peer is not.
    pub(crate) fn destroy_queue_pair(&mut self, qp: QueuePair) -> Result<(), DeviceError> {
        self.queue_pair(qp)?;
        let mut state = self.qps.remove(qp.0).expect("just looked up");
        self.listed.retain(|&handle| handle != qp.0);
        if let Phase::Connecting { token } = state.phase {
            self.calls.remove(&token);
            self.control.hang_up(token);
        }
        let srq = state.options.shared_receive_queue.map(|srq| srq.0);
        if let Some(connection) = state.connection.take() {
            self.by_token.remove(&connection.line.token);
            if matches!(state.phase, Phase::Connected) {
                connection.say_goodbye(DisconnectCause::Requested);
            }
            match connection.close() {
                Some(inside) => self
                    .leaving
                    .zombies
                    .push(Zombie::new(*connection, inside, srq)),
                None => socket::end(&connection.line.socket),
            }
        }
        self.revoke_windows(qp);
        if let Some(srq) = srq.and_then(|srq| self.around.srqs.get_mut(srq)) {
            srq.users.retain(|user| user.queue_pair != qp.0);
        }
        for cq in [state.options.send_cq, state.options.receive_cq] {
            if let Some(cq) = self.around.cqs.table.get_mut(cq.0) {
                cq.forget(|completion| completion.qp == qp);
            }
        }
        Ok(())
    }

    /// Handles the reports of the control thread. Returns whether there were any.
    pub(crate) fn progress_control(&mut self) -> bool {
        let mut worked = false;
        while let Some(event) = self.control.next_event() {
            worked = true;
            self.handle(event);
        }
        worked
    }

    fn handle(&mut self, event: ControlEvent) {
        match event {
            ControlEvent::Request {
                token,
                peer,
                same_user,
                hello,
                descriptors,
            } => {
                let private_data = hello.private_data.clone();
                self.requests.insert(
                    token,
                    PendingRequest {
                        hello,
                        descriptors,
                        same_user,
                    },
                );
                let peer = PeerIdentity {
                    name: peer.to_string(),
                    user: format!("user {}", peer.user),
                    process: peer.process,
                    same_user,
                };
                self.around.events.push_back(ConnectionEvent::Request {
                    request: ConnectionRequest(token.0),
                    peer,
                    private_data,
                });
            }
            ControlEvent::Withdrawn { token } => {
                self.requests.remove(&token);
            }
            ControlEvent::Accepted {
                token,
                hello,
                descriptors,
            } => self.accepted(token, hello, descriptors),
            ControlEvent::Rejected { token, reason } => self.rejected(token, reason),
            ControlEvent::Region {
                token,
                region,
                writable,
                grant,
            } => {
                self.with_token(token, |qp, around| {
                    if let Some(connection) = &mut qp.connection {
                        connection.memory.answered(region, writable, grant);
                    }
                    qp.progress(around);
                });
            }
            ControlEvent::Disconnected { token, cause } => {
                // A peer cannot report a death of its process; the kernel reports it.
                let cause = match cause {
                    DisconnectCause::Requested => DisconnectCause::Requested,
                    DisconnectCause::PeerDied | DisconnectCause::QueuePairError => {
                        DisconnectCause::QueuePairError
                    }
                };
                self.with_token(token, |qp, around| {
                    // Earlier messages of the peer are still taken, and so is its verdict on messages to it.
                    qp.progress(around);
                    qp.fail(around, Status::WorkRequestFlushed, cause, None);
                });
            }
            ControlEvent::Gone { token } => {
                self.leaving.release_dead(token);
                self.with_token(token, |qp, around| {
                    if let Some(connection) = &mut qp.connection {
                        connection.note_gone();
                    }
                    qp.progress(around);
                    qp.fail(
                        around,
                        Status::RetryExceeded,
                        DisconnectCause::PeerDied,
                        None,
                    );
                });
            }
            ControlEvent::Broken { token } => {
                self.with_token(token, |qp, around| {
                    qp.fail_here(around, Status::RemoteOperation)
                });
            }
        }
    }

    fn accepted(&mut self, token: Token, hello: Hello, descriptors: Vec<OwnedFd>) {
        let Some((qp, line, area)) = self.calls.remove(&token) else {
            return;
        };
        match Connection::prepare(area, true, line.same_user, &hello, descriptors) {
            Ok(prepared) => {
                self.establish(qp, prepared.established(line), hello.private_data);
            }
            Err(error) => {
                self.control.hang_up(token);
                self.reset(qp, error.to_string());
            }
        }
    }

    fn rejected(&mut self, token: Token, reason: String) {
        if let Some((qp, _, _)) = self.calls.remove(&token) {
            self.reset(qp, reason);
        }
    }

    /// Resets the queue pair, which can then try again.
    fn reset(&mut self, qp: QueuePair, reason: String) {
        if let Ok(state) = self.queue_pair_mut(qp)
            && matches!(state.phase, Phase::Connecting { .. })
        {
            state.phase = Phase::Idle;
            self.around.events.push_back(ConnectionEvent::Rejected {
                qp,
                reason,
                nobody_listens: false,
            });
        }
    }

    fn establish(&mut self, qp: QueuePair, connection: Connection, private_data: Vec<u8>) {
        let token = connection.line.token;
        let Ok(state) = self.queue_pair_mut(qp) else {
            return;
        };
        let is_usable = matches!(state.phase, Phase::Idle | Phase::Connecting { .. });
        state.connection = Some(Box::new(connection));
        self.by_token.insert(token, qp.0);
        if is_usable {
            self.queue_pair_mut(qp).expect("just found").phase = Phase::Connected;
            self.listed.push(qp.0);
            self.around
                .events
                .push_back(ConnectionEvent::Established { qp, private_data });
        }
    }

    fn idle(&self, qp: QueuePair) -> Result<&QueuePairState, DeviceError> {
        let state = self.queue_pair(qp)?;
        match state.phase {
            Phase::Idle => Ok(state),
            _ => Err(DeviceError::Malformed {
                reason: "the queue pair is connected, connecting or failed",
            }),
        }
    }

    fn with_token(
        &mut self,
        token: Token,
        work: impl FnOnce(&mut QueuePairState, &mut Surroundings),
    ) {
        if let Some(&handle) = self.by_token.get(&token) {
            self.with_queue_pair(handle, work);
        }
    }
}
