//! A session by which this node sends letters to a peer.

use std::collections::VecDeque;
use std::rc::Rc;

use stonecast_cluster::NodeName;
use stonecast_fabric::{LocalSpan, MemoryRegion, Operation, Status};
use stonecast_session::{Endpoint, Side};

use super::{GREETING, Post, QUEUES};
use crate::letter::LETTER_SIZE;

/// The letters to one peer.
#[derive(Default)]
pub struct Outgoing {
    pub letters: VecDeque<Vec<u8>>,
    /// Whether a task carries them.
    pub is_carried: bool,
    session: Option<Session>,
}

struct Session {
    endpoint: Endpoint,
    memory: MemoryRegion,
}

/// Sends all letters to `peer`. Those that cannot be sent are dropped.
pub async fn carry(post: Rc<Post>, peer: NodeName, addresses: Vec<String>) {
    let mut session = with(&post, &peer, |way| way.session.take());
    while let Some(letter) = with(&post, &peer, |way| way.letters.pop_front()) {
        if session.is_none() {
            session = connect(&post, &addresses).await;
        }
        let sent = match &session {
            Some(session) => session.send(&letter).await,
            None => false,
        };
        if !sent {
            session = None;
            with(&post, &peer, |way| way.letters.clear());
        }
    }
    with(&post, &peer, |way| {
        way.session = session;
        way.is_carried = false;
    });
}

fn with<T>(post: &Post, peer: &NodeName, call: impl FnOnce(&mut Outgoing) -> T) -> T {
    let mut outgoing = post.outgoing.borrow_mut();
    call(outgoing.entry(peer.clone()).or_default())
}

async fn connect(post: &Post, addresses: &[String]) -> Option<Session> {
    for address in addresses {
        let patience_ns = post.sender.patience_ns;
        let connecting = Session::connect(post, address);
        let connected = post.runtime.within(patience_ns, connecting).await;
        if let Ok(Some(session)) = connected {
            return Some(session);
        }
    }
    None
}

impl Session {
    async fn connect(post: &Post, address: &str) -> Option<Self> {
        let endpoint = Endpoint::new(&post.port, QUEUES).ok()?;
        let memory = endpoint.allocate(LETTER_SIZE.into()).ok()?;
        let said = endpoint.connect(address, &post.hello()).await.ok()?;
        GREETING.hear(Side::Server, &said).ok()?;
        Some(Self { endpoint, memory })
    }

    async fn send(&self, letter: &[u8]) -> bool {
        let port = self.endpoint.port();
        port.device().memory(self.memory).write(0, letter);
        let local = LocalSpan {
            region: self.memory,
            offset: 0,
            size: letter.len() as u32,
        };
        let send = Operation::Send { local };
        let sent = port.submit(self.endpoint.qp(), &[send]).await;
        sent.is_ok_and(|status| status == Status::Success)
    }
}
