//! This node's sessions with its peers: the node connects to each peer, and asks.
//!
//! ```text
//!   connect -- hello, welcome --> ask -- answer --> sleep until the next round --> ask ...
//!      ^                           |
//!      '-------- backoff <---------'  no answer within two leases, or the connection ended
//! ```
//!
//! A connection that breaks, and an address at which no process listens afterwards, prove that the process of the peer
//! is gone.
//!
//! One ask is on its way at a time. `answering.rs` has the sessions of the other direction, which belong to the peers.

use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::Nanoseconds;
use stonecast_cluster::NodeName;
use stonecast_fabric::{
    DeviceError, Elapsed, LocalSpan, MemoryRegion, Operation, Selected, select,
};
use stonecast_session::{ConnectError, Endpoint, Side};

use crate::agent::next_round;
use crate::event::MemberEvent;
use crate::hello::{Identity, Unacceptable};
use crate::mailbox::{MAILBOX_SIZE, Mailbox, QUEUES};
use crate::message::{Answer, MESSAGE_SIZE, Request};
use crate::news::pieces;
use crate::shared::Shared;

/// The rate of attempts to connect, in the length of a lease: at first, and the least.
const ATTEMPTS_PER_LEASE: u64 = 8;
const ATTEMPTS_PER_LEASE_MIN: u64 = 2;

/// Starts a task for each peer without one.
pub fn connect_to_peers(shared: &Rc<Shared>) {
    let peers = shared.agent.borrow().peers();
    for peer in peers {
        if shared.sessions.linked.borrow_mut().insert(peer.clone()) {
            let link = keep_linked(shared.clone(), peer);
            shared.runtime.spawn(Box::pin(link));
        }
    }
}

/// Keeps up the session with `peer` for as long as `peer` is a peer.
async fn keep_linked(shared: Rc<Shared>, peer: NodeName) {
    let lease = shared.configuration().policy.lease.duration_ns;
    let (shortest, longest) = (lease / ATTEMPTS_PER_LEASE, lease / ATTEMPTS_PER_LEASE_MIN);
    let mut pause = shortest;
    let mut told: Option<String> = None;
    // The start of the peer whose last session broke.
    let mut broke = None;
    while is_peer(&shared, &peer) {
        match Link::connect(&shared, &peer).await {
            Ok(link) => {
                (pause, told) = (shortest, None);
                link.converse(&shared, &peer).await;
                broke = link.mailbox.has_broken().then_some(link.incarnation);
            }
            Err(refusal) => {
                if let Some(start) = broke.filter(|_| refusal.nobody_listens()) {
                    shared.agent.borrow_mut().note_dead(&peer, start);
                    shared.changed.ring();
                }
                let reason = format!("no session with {peer}: {refusal}");
                if told.as_ref() != Some(&reason) {
                    shared.tell(MemberEvent::PeerTrouble {
                        reason: reason.clone(),
                    });
                    told = Some(reason);
                }
            }
        }
        shared.runtime.sleep(jittered(&shared, pause)).await;
        pause = (2 * pause).min(longest);
    }
    shared.sessions.linked.borrow_mut().remove(&peer);
}

/// Returns `pause` with half of it added or taken away at most, so that the nodes of a cluster do not all try at once.
fn jittered(shared: &Shared, pause: Nanoseconds) -> Nanoseconds {
    let jitter = shared.random.borrow_mut().random_range(0..=pause);
    pause / 2 + jitter
}

fn is_peer(shared: &Shared, peer: &NodeName) -> bool {
    !shared.has_ended() && shared.agent.borrow().peers().contains(peer)
}

/// The reason why a peer has no session.
#[derive(Debug, thiserror::Error)]
enum LinkError {
    #[error(transparent)]
    Unacceptable(#[from] Unacceptable),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("no answer within {patience_ns} ns")]
    Late { patience_ns: Nanoseconds },
    #[error("the configuration has no address of it")]
    NoAddress,
}

impl LinkError {
    fn nobody_listens(&self) -> bool {
        matches!(self, Self::Connect(ConnectError::NobodyListens { .. }))
    }
}

/// A session with a peer.
struct Link {
    endpoint: Endpoint,
    mailbox: Mailbox,
    region: MemoryRegion,
    /// The incarnation of the peer in this session.
    incarnation: u64,
}

impl Link {
    /// Connects to `peer` at the first of its addresses that answers. The error states that no process listens only if
    /// that holds at each address.
    async fn connect(shared: &Shared, peer: &NodeName) -> Result<Self, LinkError> {
        let configuration = shared.configuration();
        let node = configuration.nodes.get(peer);
        let mut failed: Option<LinkError> = None;
        for address in node.into_iter().flat_map(|node| &node.addresses) {
            match Self::connect_at(shared, peer, address).await {
                Ok(link) => return Ok(link),
                Err(error) if error.nobody_listens() => _ = failed.get_or_insert(error),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or(LinkError::NoAddress))
    }

    async fn connect_at(
        shared: &Shared,
        peer: &NodeName,
        address: &str,
    ) -> Result<Self, LinkError> {
        let endpoint = Endpoint::new(&shared.port, QUEUES)?;
        let region = endpoint.allocate(MAILBOX_SIZE + u64::from(MESSAGE_SIZE))?;
        let mailbox = Mailbox::new(endpoint.inbox().clone(), endpoint.qp(), region)?;
        let patience_ns = shared.patience_ns();
        let hello = shared.identity.say();
        let connecting = endpoint.connect(address, &hello);
        let said = shared.runtime.within(patience_ns, connecting).await;
        let said = said.map_err(|Elapsed| LinkError::Late { patience_ns })??;
        let identity = Identity::hear(Side::Server, &said)?;
        if identity.name != *peer {
            let (expected, found) = (peer.clone(), identity.name);
            return Err(Unacceptable::OtherNode { expected, found }.into());
        }
        identity.check(&shared.configuration())?;
        let incarnation = identity.incarnation;
        Ok(Self {
            endpoint,
            mailbox,
            region,
            incarnation,
        })
    }

    /// Asks in each round, and at once when a configuration comes into force, until the session is of no more use.
    async fn converse(&self, shared: &Shared, peer: &NodeName) {
        while is_peer(shared, peer) && self.is_current(shared, peer) {
            let sent = shared.agent.borrow_mut().ask(peer, shared.now());
            let request = Request::Ask(sent.ask.clone());
            let Some(answer) = self.exchange(shared, peer, &request).await else {
                return;
            };
            let now = shared.now();
            shared.agent.borrow_mut().hear(&sent, &answer, now);
            shared.announce();
            let is_behind = answer.configuration.epoch < sent.ask.configuration.epoch;
            if is_behind && self.tell_news(shared, peer).await.is_none() {
                return;
            }
            let round = shared.agent.borrow().round_ns();
            let next = next_round(shared.now(), round);
            let sleep = shared.runtime.sleep_until(next);
            let pause = select(sleep, shared.changed.heard());
            // A peer says nothing unasked, so only the end of the connection ends the pause early.
            if let Selected::Second(_) = select(pause, self.mailbox.next()).await {
                return;
            }
        }
    }

    /// Sends the configuration in force to a peer that is behind. Returns `None` if the session is of no more use.
    async fn tell_news(&self, shared: &Shared, peer: &NodeName) -> Option<()> {
        let configuration = shared.configuration();
        for mut piece in pieces(&configuration) {
            piece.serial = shared.agent.borrow_mut().next_serial();
            let request = Request::Piece(piece);
            let answer = self.exchange(shared, peer, &request).await?;
            if answer.configuration.epoch >= configuration.epoch {
                break;
            }
        }
        Some(())
    }

    /// Sends a request and waits for its answer. Returns `None` if no answer came in time, or the answer means nothing.
    async fn exchange(
        &self,
        shared: &Shared,
        peer: &NodeName,
        request: &Request,
    ) -> Option<Answer> {
        self.send(&request.encode()).ok()?;
        let answer = self.mailbox.next();
        let answer = shared.runtime.within(shared.patience_ns(), answer).await;
        match Answer::decode(&answer.ok()??) {
            Ok(answer) => Some(answer),
            Err(malformed) => {
                let reason = format!("{peer}: {malformed}");
                shared.tell(MemberEvent::PeerTrouble { reason });
                None
            }
        }
    }

    fn is_current(&self, shared: &Shared, peer: &NodeName) -> bool {
        let configuration = shared.configuration();
        let node = configuration.nodes.get(peer);
        node.is_some_and(|node| node.incarnation == self.incarnation)
    }

    /// Sends a message. The previous message was answered, so its bytes may be overwritten.
    fn send(&self, message: &[u8]) -> Result<(), DeviceError> {
        let port = self.endpoint.port();
        port.device()
            .memory(self.region)
            .write(MAILBOX_SIZE, message);
        let local = LocalSpan {
            region: self.region,
            offset: MAILBOX_SIZE,
            size: message.len() as u32,
        };
        port.post(self.endpoint.qp(), [Operation::Send { local }])
    }
}
