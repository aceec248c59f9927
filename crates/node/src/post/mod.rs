//! The post between nodes: letters in one direction for each session.
//!
//! ```text
//!   hello     greeting 12    16 bytes nonce of the cluster    incarnation u64    name of the sender's node, to the end
//!   welcome   greeting 12
//! ```
//!
//! A node connects to a peer when it has something to say, and both sides keep the session. A letter that cannot be
//! sent is dropped, with all letters that wait behind it: their senders repeat the important ones. The node that a
//! hello names is believed, as for appends, if the configuration names it in this start.

mod hello;
mod incoming;
mod outgoing;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Poll};

use stonecast_base::Nanoseconds;
use stonecast_cluster::{Configuration, NodeName};
use stonecast_fabric::{ConnectionRequest, Port, Runtime};
use stonecast_session::Queues;

pub use hello::Hello;
use hello::{GREETING, Known};
use incoming::Incoming;
use outgoing::Outgoing;

/// The most letters on their way in each session.
const LETTERS: u32 = 4;
/// The most letters that wait for a session. Further letters are dropped.
const WAITING_MAX: usize = 256;
const QUEUES: Queues = Queues {
    send_capacity: LETTERS,
    receive_capacity: LETTERS,
    shared_receive_queue: None,
    windows: false,
    rnr_retry_count: 100,
    rnr_retry_delay_ns: 100_000,
};

/// The node that the post belongs to.
pub struct Sender {
    pub hello: Hello,
    /// Longest time until a peer accepts.
    pub patience_ns: Nanoseconds,
    /// Time for which a peer may have no buffer for a letter, at least.
    pub unready_ns: Nanoseconds,
}

impl Sender {
    /// The queues of a session by which this node sends.
    fn queues(&self) -> Queues {
        let retries = self.unready_ns.div_ceil(QUEUES.rnr_retry_delay_ns);
        let retries = u32::try_from(retries).unwrap_or(u32::MAX);
        Queues {
            rnr_retry_count: retries.max(QUEUES.rnr_retry_count),
            ..QUEUES
        }
    }
}

/// The letters between this node and its peers.
pub struct Post {
    port: Rc<Port>,
    runtime: Rc<dyn Runtime>,
    sender: Sender,
    outgoing: RefCell<BTreeMap<NodeName, Outgoing>>,
    incoming: RefCell<BTreeMap<NodeName, Incoming>>,
    known: RefCell<Known>,
}

impl Post {
    pub fn new(port: &Rc<Port>, runtime: &Rc<dyn Runtime>, sender: Sender) -> Self {
        Self {
            port: port.clone(),
            runtime: runtime.clone(),
            sender,
            outgoing: RefCell::default(),
            incoming: RefCell::default(),
            known: RefCell::default(),
        }
    }

    /// From here on, takes letters only from the nodes of `configuration`, each in the start that
    /// the configuration names.
    pub fn enter(&self, configuration: &Configuration) {
        let nodes = configuration.nodes.iter();
        let next: Known = nodes
            .map(|(name, node)| (name.clone(), node.incarnation))
            .collect();
        let before = self.known.replace(next);
        let known = self.known.borrow();
        let stays = |peer: &NodeName| known.get(peer) == before.get(peer);
        self.incoming.borrow_mut().retain(|peer, _| stays(peer));
        let mut outgoing = self.outgoing.borrow_mut();
        outgoing.retain(|peer, way| way.is_carried || known.contains_key(peer));
    }

    /// Sends a letter to a node, at the first of `addresses` that accepts. A letter that waits already goes out once: a
    /// node that repeats itself while its peer stands still would keep the peer busy with words that it has heard.
    pub fn send(self: &Rc<Self>, to: &NodeName, addresses: &[String], letter: Vec<u8>) {
        let mut outgoing = self.outgoing.borrow_mut();
        let way = outgoing.entry(to.clone()).or_default();
        if way.letters.len() < WAITING_MAX && !way.letters.contains(&letter) {
            way.letters.push_back(letter);
        }
        if !std::mem::replace(&mut way.is_carried, true) {
            let carrying = outgoing::carry(self.clone(), to.clone(), addresses.to_vec());
            self.runtime.spawn(Box::pin(carrying));
        }
    }

    /// Accepts a peer that said hello. An earlier session of that peer ends.
    pub fn accept(&self, request: ConnectionRequest, said: &[u8]) {
        let judged = Hello::judge(said, self.sender.hello.nonce, &self.known.borrow());
        match judged {
            Ok(Hello { name, .. }) => {
                let session = Incoming::accept(&self.port, request, &GREETING.say(&[]));
                if let Some(session) = session {
                    self.incoming.borrow_mut().insert(name, session);
                }
            }
            // A peer that is gone does not hear the reason.
            Err(refused) => _ = self.port.device().reject(request, &refused.to_string()),
        }
    }

    /// The reason why no letter reached `peer` lately.
    pub fn trouble(&self, peer: &NodeName) -> Option<String> {
        let outgoing = self.outgoing.borrow();
        outgoing.get(peer)?.trouble.clone()
    }

    /// The number of letters that wait for `peer`.
    pub fn waiting(&self, peer: &NodeName) -> usize {
        let outgoing = self.outgoing.borrow();
        outgoing.get(peer).map_or(0, |way| way.letters.len())
    }

    /// Whether letters have come; if not, the next one wakes `context`.
    pub fn poll_news(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut incoming = self.incoming.borrow_mut();
        let polled = incoming.values_mut().map(|way| way.poll_news(context));
        match polled.filter(Poll::is_ready).count() {
            0 => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }

    /// The letters that have come, with their senders.
    pub fn take(&self) -> Vec<(NodeName, Vec<u8>)> {
        let mut incoming = self.incoming.borrow_mut();
        let mut letters = Vec::new();
        incoming.retain(|peer, session| {
            let came = session.take();
            letters.extend(
                came.letters
                    .into_iter()
                    .map(|letter| (peer.clone(), letter)),
            );
            came.goes_on
        });
        letters
    }
}
