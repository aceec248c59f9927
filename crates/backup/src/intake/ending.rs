//! Hellos, and the ends of sessions.

use std::task::Context;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::NodeName;
use stonecast_fabric::ConnectionRequest;
use stonecast_session::{Queues, accept, close};

use super::error::EndCause;
use super::gate::Refusal;
use super::notices::Notices;
use super::session::{Session, Stage};
use super::{Ended, Intake};
use crate::hello::Welcome;
use crate::notice::NOTICE_SIZE;

/// Whether a fenced peer can still change the memory of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// No entry of the peer lands any more, and all landed entries were passed on.
    Silent,
    /// The peer is being quieted, or its last entries are being searched.
    UnderWay,
    /// The peer may still finish a write. The intake asks again until the peer's process continues or is gone. A store
    /// that cannot wait decides after the peer's lease.
    Doubtful,
}

impl Intake {
    /// Takes a request to connect, with the peer's first bytes. The intake accepts the request, refuses it with the
    /// reason, or keeps it until the earlier session of the same node is over.
    pub fn hear(&mut self, request: ConnectionRequest, said: &[u8]) {
        if let Err(refusal) = self.admit(request, said) {
            self.refuse(request, &refusal);
        }
    }

    fn admit(&mut self, request: ConnectionRequest, said: &[u8]) -> Result<(), Refusal> {
        let node = self.gate.judge(said)?;
        let mut sessions = self.sessions.values_mut();
        if let Some(earlier) = sessions.find(|session| session.peer == node) {
            if earlier.is_doubtful() {
                return Err(Refusal::Doubtful { node });
            }
            earlier.end(EndCause::ConnectedAgain);
            if let Some(older) = self.gate.keep(node.clone(), request) {
                self.refuse(older, &Refusal::ConnectedAgain { node });
            }
            return Ok(());
        }
        let limit = self.terms.sessions_max;
        if self.sessions.len() >= limit {
            return Err(Refusal::TooMany { limit });
        }
        self.accept(request, node);
        Ok(())
    }

    /// Makes a session. If the device has nothing left, the peer has been told so.
    fn accept(&mut self, request: ConnectionRequest, peer: NodeName) {
        let connection = self.terms.first_connection + self.gate.number();
        let welcome = Welcome {
            connection,
            key: self.terms.key,
        };
        let queues = Queues {
            shared_receive_queue: Some(self.room.shared_queue()),
            ..self.terms.queues
        };
        let accepted = accept(&self.port, request, |making| {
            let qp = making.queue_pair(queues)?;
            self.arrivals.inbox.claim(qp);
            let memory = making.allocate(NOTICE_SIZE as u64)?;
            Ok((welcome.say(), memory))
        });
        let Ok((qp, memory)) = accepted else {
            return;
        };
        self.room.admit(qp);
        self.streams.tell_again(&peer);
        let session = Session {
            peer,
            connection,
            qp,
            memory,
            window: self.terms.window,
            notices: Notices::new(memory, connection),
            arrivals: 0,
            stage: Stage::Accepted,
            was_doubtful: false,
        };
        self.sessions.insert(connection, session);
    }

    fn refuse(&self, request: ConnectionRequest, refusal: &Refusal) {
        // A peer that is gone does not hear the refusal.
        let _ = self.port.device().reject(request, &refusal.to_string());
    }

    /// Ends the session of `peer`, and refuses new ones until `peer` is [allowed](Intake::allow) again.
    /// [`Intake::silence`] says when the session has ended.
    pub fn fence(&mut self, peer: &NodeName) {
        if let Some(request) = self.gate.refuse(peer) {
            let node = peer.clone();
            self.refuse(request, &Refusal::NotAllowed { node });
        }
        for session in self.sessions.values_mut().filter(|one| one.peer == *peer) {
            session.end(EndCause::Fenced);
        }
    }

    /// The progress of the end of a peer's session. A caller that finds the peer silent calls [`Intake::take_found`]
    /// once more: the peer's last entries are there.
    pub fn silence(&self, peer: &NodeName) -> Silence {
        let mut sessions = self.sessions.values();
        match sessions.find(|session| session.peer == *peer) {
            None if self.space.is_earlier_run_doubtful() => Silence::Doubtful,
            // An earlier run may have left entries of any peer.
            None if !self.is_left_searched() => Silence::UnderWay,
            None => Silence::Silent,
            Some(session) if session.is_doubtful() => Silence::Doubtful,
            Some(_) => Silence::UnderWay,
        }
    }

    /// Whether all entries that earlier runs left were handed on: until then no peer is silent, and a store does not
    /// know all of its entries.
    pub fn is_left_searched(&self) -> bool {
        let mut unsettled = self.space.unsettled();
        unsettled.all(|number| self.room.holds(number))
    }

    /// Notes that no process of an earlier run can write any more. The store asks the medium while
    /// [`Pool::earlier_writers_are_gone`](super::Pool::earlier_writers_are_gone) was false: until then no peer is
    /// silent, and segments of the earlier run are not used again.
    pub fn trust_earlier_writers(&mut self) {
        self.space.buffers().trust_adopted();
    }

    /// Ends all sessions, and refuses all nodes from here on. The segments stay as they are: a later run adopts them.
    pub fn close(&mut self) {
        for request in self.gate.shut() {
            let reason = "this backup is closing";
            let _ = self.port.device().reject(request, reason);
        }
        for session in self.sessions.values_mut() {
            session.end(EndCause::Closed);
        }
    }

    /// The peers whose sessions are not over.
    pub fn peers(&self) -> impl Iterator<Item = &NodeName> {
        self.sessions.values().map(|session| &session.peer)
    }

    /// Takes a step in each session that ends.
    pub(super) fn step_ends(&mut self, now: Nanoseconds, context: &mut Context<'_>) {
        let times = (now, self.terms.ask_again_ns);
        let mut over = Vec::new();
        for session in self.sessions.values_mut() {
            let what = (&self.port, self.space.buffers());
            if let Some(cause) = session.step_end(what, times, context) {
                over.push((session.connection, cause));
            }
        }
        for (connection, cause) in over {
            let session = self.sessions.remove(&connection).expect("just seen");
            self.finish(session, cause);
        }
    }

    /// Ends the sessions whose peers used credits that were never given.
    pub(super) fn end_overdrawn(&mut self) {
        let held = self.sessions.values().map(|session| session.window.held());
        let held = held.sum();
        for session in self.sessions.values_mut() {
            let arrivals = self.room.counts_arrivals().then_some(session.arrivals);
            if let Some(cause) = session.window.overdraft(arrivals, held) {
                session.end(cause);
            }
        }
    }

    fn finish(&mut self, mut session: Session, cause: EndCause) {
        if session.was_doubtful && !mutant!(DoubtNotRecounted) {
            // An heir may have taken over streams of this peer. The sum of all windows is right, and a window alone
            // need not be.
            let others = self.sessions.values_mut();
            others.for_each(|other| other.end(EndCause::Recounted));
        }
        let terms = self.room.terms();
        Self::charge_waiting(&self.streams, &mut session, |size| terms.cost(size));
        let others = self.sessions.values_mut();
        others.fold(session.window.held(), |held, other| {
            other.window.excuse(held)
        });
        let Session {
            peer,
            connection,
            qp,
            memory,
            window,
            arrivals,
            ..
        } = session;
        // Other sessions may have entries before those of this session.
        let newest = self.terms.first_connection + self.gate.newest();
        self.room.forget((qp, newest), &window, arrivals);
        close(&self.port, qp, [memory]);
        let next = self.gate.take(&peer);
        self.outbox.ended.push(Ended {
            peer: peer.clone(),
            connection,
            cause,
        });
        if let Some(request) = next {
            self.accept(request, peer);
        }
    }
}
