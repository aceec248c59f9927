//! The post between nodes: letters in one direction for each session.
//!
//! ```text
//!   hello     greeting 12    16 bytes nonce of the cluster    name of the sender's node, to the end
//!   welcome   greeting 12
//! ```
//!
//! A node connects to a peer when it has something to say, and both sides keep the session. A letter that cannot be sent is dropped, with all that wait
//! behind it: its sender repeats what matters. The node that a hello names is believed, as for appends.

mod incoming;
mod outgoing;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_cluster::{NodeName, Nonce};
use stonecast_fabric::{ConnectionRequest, Port, Runtime};
use stonecast_session::{Greeting, Protocol, Queues, Side};

use incoming::Incoming;
use outgoing::Outgoing;

const GREETING: Greeting = Greeting::of(Protocol {
    magic: *b"stcpostn",
    name: "letters between nodes",
    version: 1,
});
const NONCE_SIZE: usize = 16;
/// Letters on their way in each session, at most.
const LETTERS: u32 = 4;
/// Letters that wait for a session, at most: more are dropped.
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
    pub nonce: Nonce,
    pub name: NodeName,
    /// Longest time until a peer accepts.
    pub patience_ns: Nanoseconds,
}

/// See the module documentation.
pub struct Post {
    port: Rc<Port>,
    runtime: Rc<dyn Runtime>,
    sender: Sender,
    outgoing: RefCell<BTreeMap<NodeName, Outgoing>>,
    incoming: RefCell<BTreeMap<NodeName, Incoming>>,
}

impl Post {
    pub fn new(port: &Rc<Port>, runtime: &Rc<dyn Runtime>, sender: Sender) -> Self {
        Self {
            port: port.clone(),
            runtime: runtime.clone(),
            sender,
            outgoing: RefCell::default(),
            incoming: RefCell::default(),
        }
    }

    /// Whether a hello is for the post.
    pub fn is_hello(said: &[u8]) -> bool {
        GREETING.hear(Side::Client, said).is_ok()
    }

    /// Sends a letter to the node that is reached at the first of `addresses` that accepts.
    pub fn send(self: &Rc<Self>, to: &NodeName, addresses: &[String], letter: Vec<u8>) {
        let mut outgoing = self.outgoing.borrow_mut();
        let way = outgoing.entry(to.clone()).or_default();
        if way.letters.len() < WAITING_MAX {
            way.letters.push_back(letter);
        }
        if !std::mem::replace(&mut way.is_carried, true) {
            let carrying = outgoing::carry(self.clone(), to.clone(), addresses.to_vec());
            self.runtime.spawn(Box::pin(carrying));
        }
    }

    /// Accepts a peer that said hello. An earlier session of it ends.
    pub fn accept(&self, request: ConnectionRequest, said: &[u8]) {
        match self.judge(said) {
            Ok(peer) => {
                let session = Incoming::accept(&self.port, request, &GREETING.say(&[]));
                if let Some(session) = session {
                    self.incoming.borrow_mut().insert(peer, session);
                }
            }
            // A peer that is gone does not hear it.
            Err(reason) => _ = self.port.device().reject(request, &reason),
        }
    }

    fn judge(&self, said: &[u8]) -> Result<NodeName, String> {
        let said = GREETING.hear(Side::Client, said);
        let said = said.map_err(|mismatch| mismatch.to_string())?;
        let named = said.split_first_chunk::<NONCE_SIZE>();
        let (nonce, name) = named.ok_or("the hello names nobody")?;
        let (found, known) = (Nonce::from_bytes(*nonce), self.sender.nonce);
        if found != known {
            return Err(format!(
                "a node of cluster {found}, and this one is of {known}"
            ));
        }
        let name = std::str::from_utf8(name).ok();
        let name = name.and_then(|name| name.parse().ok());
        name.ok_or_else(|| "the hello names nobody".to_owned())
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

    fn hello(&self) -> Vec<u8> {
        let mut said = self.sender.nonce.as_bytes().to_vec();
        said.extend_from_slice(self.sender.name.as_str().as_bytes());
        GREETING.say(&said)
    }
}
