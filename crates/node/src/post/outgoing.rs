//! A session by which this node sends letters to a peer.

use std::collections::VecDeque;
use std::rc::Rc;

use stonecast_cluster::NodeName;
use stonecast_fabric::{LocalSpan, MemoryRegion, Operation, Status};
use stonecast_session::{Endpoint, Side};

use super::{GREETING, Post};
use crate::letter::LETTER_SIZE;

/// The letters to one peer.
#[derive(Default)]
pub struct Outgoing {
    pub letters: VecDeque<Vec<u8>>,
    /// Whether a task carries them.
    pub is_carried: bool,
    /// The reason why the last letter was not sent.
    pub trouble: Option<String>,
    session: Option<Session>,
}

struct Session {
    endpoint: Endpoint,
    memory: MemoryRegion,
}

/// Sends all letters to `peer`. Letters that cannot be sent are dropped.
pub async fn carry(post: Rc<Post>, peer: NodeName, addresses: Vec<String>) {
    let mut session = with(&post, &peer, |way| way.session.take());
    while let Some(letter) = with(&post, &peer, |way| way.letters.pop_front()) {
        let sent = send(&post, &addresses, session.take(), &letter).await;
        let trouble = match sent {
            Ok(goes_on) => {
                session = Some(goes_on);
                None
            }
            Err(trouble) => {
                with(&post, &peer, |way| way.letters.clear());
                Some(trouble)
            }
        };
        with(&post, &peer, |way| way.trouble = trouble);
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

/// Sends a letter by `session`, or otherwise by a new session, and returns the session.
///
/// # Errors
/// The reason, in words for people.
async fn send(
    post: &Post,
    addresses: &[String],
    session: Option<Session>,
    letter: &[u8],
) -> Result<Session, String> {
    let session = match session {
        Some(session) => session,
        None => connect(post, addresses).await?,
    };
    session.send(letter).await?;
    Ok(session)
}

async fn connect(post: &Post, addresses: &[String]) -> Result<Session, String> {
    let mut trouble = "the configuration names no address".to_owned();
    for address in addresses {
        let patience_ns = post.sender.patience_ns;
        let connecting = Session::connect(post, address);
        let connected = post.runtime.within(patience_ns, connecting).await;
        let silent = |_elapsed| Err(format!("no word from {address} for {patience_ns} ns"));
        match connected.unwrap_or_else(silent) {
            Ok(session) => return Ok(session),
            Err(reason) => trouble = reason,
        }
    }
    Err(trouble)
}

impl Session {
    async fn connect(post: &Post, address: &str) -> Result<Self, String> {
        let endpoint = Endpoint::new(&post.port, post.sender.queues()).map_err(words)?;
        let memory = endpoint.allocate(LETTER_SIZE.into()).map_err(words)?;
        let said = endpoint.connect(address, &post.sender.hello.say()).await;
        let said = said.map_err(words)?;
        GREETING.hear(Side::Server, &said).map_err(words)?;
        Ok(Self { endpoint, memory })
    }

    async fn send(&self, letter: &[u8]) -> Result<(), String> {
        let port = self.endpoint.port();
        port.device().memory(self.memory).write(0, letter);
        let local = LocalSpan {
            region: self.memory,
            offset: 0,
            size: letter.len() as u32,
        };
        let send = Operation::Send { local };
        let sent = port.submit(self.endpoint.qp(), &[send]).await;
        match sent.map_err(words)? {
            Status::Success => Ok(()),
            failed => Err(failed.to_string()),
        }
    }
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}
