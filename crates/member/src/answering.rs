//! The sessions that peers have with this node: the node accepts peers, and answers them.

use std::rc::Rc;

use stonecast_base::mutant;
use stonecast_cluster::Stale;
use stonecast_fabric::{
    ConnectionEvent, ConnectionRequest, DeviceError, Inbox, MemoryRegion, QueuePair, Selected,
    select,
};
use stonecast_session::{AnswerRing, Mismatch, Side, accept, close};

use crate::event::MemberEvent;
use crate::hello::{GREETING, Identity, Unacceptable};
use crate::mailbox::{MAILBOX_SIZE, Mailbox, QUEUES};
use crate::message::{Answer, Ask, MESSAGE_SIZE, Request};
use crate::news::Assembly;
use crate::shared::Shared;

/// The most answers of one session on their way.
const ANSWERS: u64 = 2;
const ANSWERS_SIZE: u64 = AnswerRing::size(ANSWERS, 0, MESSAGE_SIZE as u64);

/// Returns whether the first words of a peer come from a node of any version.
pub fn is_hello(said: &[u8]) -> bool {
    let heard = GREETING.hear(Side::Client, said);
    !matches!(heard, Err(Mismatch::Stranger { .. }))
}

/// Takes all requests to connect that no inbox of the port claims. A node does this if it serves nothing else on the
/// port.
pub async fn take_requests(shared: Rc<Shared>) {
    while !shared.has_ended() {
        match shared.port.take_event() {
            Some(ConnectionEvent::Request {
                request,
                private_data,
                ..
            }) => take_request(&shared, request, &private_data),
            Some(_) => {}
            None => _ = select(shared.port.activity(), shared.changed.heard()).await,
        }
    }
}

/// Accepts a peer, or refuses the peer with a reason.
pub fn take_request(shared: &Rc<Shared>, request: ConnectionRequest, said: &[u8]) {
    let heard = Identity::hear(Side::Client, said);
    let checked = heard.and_then(|identity| {
        identity.may_speak(&shared.configuration())?;
        Ok(identity)
    });
    match checked {
        Ok(identity) => {
            if let Err(error) = accept_peer(shared, request, identity) {
                let reason = error.to_string();
                shared.tell(MemberEvent::PeerTrouble { reason });
            }
        }
        Err(refusal) => refuse(shared, request, &refusal),
    }
}

fn refuse(shared: &Shared, request: ConnectionRequest, refusal: &Unacceptable) {
    let reason = refusal.to_string();
    // A peer that vanished meanwhile needs no answer.
    let _ = shared.port.device().reject(request, &reason);
    shared.tell(MemberEvent::PeerTrouble { reason });
}

fn accept_peer(
    shared: &Rc<Shared>,
    request: ConnectionRequest,
    peer: Identity,
) -> Result<(), DeviceError> {
    let welcome = shared.identity.say();
    let inbox = Rc::new(Inbox::new(&shared.port));
    let (qp, session) = accept(&shared.port, request, |making| {
        let regions = [
            making.allocate(MAILBOX_SIZE)?,
            making.allocate(ANSWERS_SIZE)?,
        ];
        let qp = making.queue_pair(QUEUES)?;
        let session = Session {
            mailbox: Mailbox::new(inbox.clone(), qp, regions[0])?,
            answers: AnswerRing::new(regions[1], ANSWERS, 0, u64::from(MESSAGE_SIZE)),
            regions,
            qp,
        };
        Ok((welcome, session))
    })?;
    inbox.claim(qp);
    take_place(shared, &peer, qp);
    let answering = answer_all(shared.clone(), peer, session);
    shared.runtime.spawn(Box::pin(answering));
    Ok(())
}

/// Ends the previous session of the same start, and the sessions of other starts that are unknown.
fn take_place(shared: &Shared, peer: &Identity, qp: QueuePair) {
    let configuration = shared.configuration();
    let known = configuration.nodes[&peer.name].incarnation;
    let mut accepted = shared.sessions.accepted.borrow_mut();
    accepted.retain(|(name, start), _| *name != peer.name || *start == known);
    accepted.insert(peer.start(), qp);
    drop(accepted);
    shared.changed.ring();
}

/// A session that a peer has with this node.
struct Session {
    qp: QueuePair,
    mailbox: Mailbox,
    answers: AnswerRing,
    regions: [MemoryRegion; 2],
}

/// Answers the requests of `peer` until its session ends or another session takes its place.
async fn answer_all(shared: Rc<Shared>, peer: Identity, session: Session) {
    let Session {
        qp,
        mailbox,
        mut answers,
        regions,
    } = session;
    let mut news = Assembly::default();
    let mut apart = None;
    while is_current(&shared, &peer, qp) && !answers.is_stuck() {
        let message = match select(mailbox.next(), shared.changed.heard()).await {
            Selected::First(Some(message)) => message,
            Selected::First(None) => break,
            Selected::Second(()) => continue,
        };
        if !is_current(&shared, &peer, qp) {
            break;
        }
        let answer = match Request::decode(&message) {
            Ok(Request::Ask(ask)) => {
                tell_apart(&shared, &peer, &ask, &mut apart);
                answer(&shared, &peer, &ask)
            }
            Ok(Request::Piece(piece)) => {
                if let Some(configuration) = news.add(&piece) {
                    shared.bring(configuration);
                }
                shared.agent.borrow().took(piece.serial)
            }
            Err(malformed) => {
                let reason = format!("{}: {malformed}", peer.name);
                shared.tell(MemberEvent::PeerTrouble { reason });
                break;
            }
        };
        answers.send(&shared.port, qp, &answer.encode());
    }
    forget(&shared, &peer, qp);
    close(&shared.port, qp, regions);
}

/// Grants `peer` the leases that it asks for. A start that the configuration does not name gets nothing.
fn answer(shared: &Shared, peer: &Identity, ask: &Ask) -> Answer {
    let mut agent = shared.agent.borrow_mut();
    let is_known = peer.check(agent.configuration()).is_ok();
    match is_known || mutant!(UnknownStartGranted) {
        true => agent.answer(&peer.name, ask, shared.now()),
        false => agent.took(ask.serial),
    }
}

/// Tells the store that a peer is in another configuration of this epoch, once for each configuration.
fn tell_apart(shared: &Shared, peer: &Identity, ask: &Ask, told: &mut Option<Stale>) {
    let own = shared.configuration().id();
    let Err(stale @ Stale::OtherConfiguration { .. }) = own.is_before(ask.configuration) else {
        return;
    };
    if told.replace(stale) != Some(stale) {
        let reason = format!("{}: {stale}", peer.name);
        shared.tell(MemberEvent::PeerTrouble { reason });
    }
}

/// Returns whether the session is the last one of the peer's start, and no later start is known.
fn is_current(shared: &Shared, peer: &Identity, qp: QueuePair) -> bool {
    !shared.has_ended()
        && shared.sessions.accepted.borrow().get(&peer.start()) == Some(&qp)
        && peer.may_speak(&shared.configuration()).is_ok()
}

fn forget(shared: &Shared, peer: &Identity, qp: QueuePair) {
    let mut accepted = shared.sessions.accepted.borrow_mut();
    if accepted.get(&peer.start()) == Some(&qp) {
        accepted.remove(&peer.start());
    }
}
