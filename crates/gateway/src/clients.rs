//! The connections of all threads, for `CLIENT LIST` and `CLIENT KILL`.
//!
//! Each connection has a card, which it shows to all threads from its begin to its end. A connection is ended by
//! shutting its socket down: its own thread then finds the end of the peer.

use std::collections::BTreeMap;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use crate::acl::DEFAULT_USER;

/// The facts of a connection that all threads know.
#[derive(Debug)]
pub struct Card {
    /// Unique number of the connection.
    pub id: u64,
    /// Address of the client.
    pub peer: SocketAddr,
    /// Address of the gateway.
    pub local: SocketAddr,
    /// Time between the start of the gateway and that of the connection.
    pub began_at: Duration,
    said: Mutex<Said>,
}

/// The names that a client has given, and its protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The name of the connection.
    pub name: Vec<u8>,
    /// Name and version of the client's library.
    pub library: [Vec<u8>; 2],
    /// Whether the client speaks RESP3.
    pub is_resp3: bool,
    /// The name of the user.
    pub user: Vec<u8>,
}

impl Card {
    /// The card of a connection that begins.
    pub fn new(id: u64, peer: SocketAddr, local: SocketAddr, began_at: Duration) -> Self {
        Self {
            id,
            peer,
            local,
            began_at,
            said: Mutex::new(Said {
                user: DEFAULT_USER.to_vec(),
                ..Said::default()
            }),
        }
    }

    /// Notes the words of the client about itself.
    pub fn note(&self, said: Said) {
        *lock(&self.said) = said;
    }

    /// Whether the user of the connection has this name.
    pub fn is_of(&self, user: &[u8]) -> bool {
        lock(&self.said).user == user
    }

    /// The line of `CLIENT LIST`, at a time since the start of the gateway.
    pub fn line(&self, now: Duration) -> String {
        let said = lock(&self.said).clone();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!(
            "id={} addr={} laddr={} name={} age={} db=0 user={} resp={} lib-name={} lib-ver={}\n",
            self.id,
            self.peer,
            self.local,
            text(&said.name),
            now.saturating_sub(self.began_at).as_secs(),
            text(&said.user),
            if said.is_resp3 { 3 } else { 2 },
            text(&said.library[0]),
            text(&said.library[1]),
        )
    }
}

/// A connection as all threads know it.
type Known = (Arc<Card>, Arc<TcpStream>);

/// The connections of all threads, by number.
#[derive(Debug, Default)]
pub struct Clients {
    all: Mutex<BTreeMap<u64, Known>>,
    /// Numbers that were given.
    given: AtomicU64,
}

/// The place of a connection among all, up to its end.
#[derive(Debug)]
pub struct Listed {
    clients: Arc<Clients>,
    card: Arc<Card>,
}

impl Clients {
    /// A number that no connection has had.
    pub fn number(&self) -> u64 {
        self.given.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Adds a connection.
    pub fn add(self: &Arc<Self>, card: Arc<Card>, socket: Arc<TcpStream>) -> Listed {
        lock(&self.all).insert(card.id, (card.clone(), socket));
        Listed {
            clients: self.clone(),
            card,
        }
    }

    /// The cards of all connections, in the order of their begin.
    pub fn cards(&self) -> Vec<Arc<Card>> {
        let all = lock(&self.all);
        all.values().map(|(card, _)| card.clone()).collect()
    }

    /// Whether the peer of connection number `id` has ended it, even if bytes that were sent before are still unread.
    pub fn has_left(&self, id: u64) -> bool {
        let all = lock(&self.all);
        let Some((_, socket)) = all.get(&id) else {
            return true;
        };
        let now = rustix::time::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut polled = [PollFd::new(&**socket, PollFlags::RDHUP)];
        poll(&mut polled, Some(&now)).is_ok_and(|found| found > 0)
    }

    /// Ends the connections of a user, except number `own`.
    pub fn end_of_user(&self, name: &[u8], own: u64) {
        for card in self.cards() {
            if card.id != own && card.is_of(name) {
                self.end(card.id);
            }
        }
    }

    /// Ends connection number `id`. Returns whether there was one.
    pub fn end(&self, id: u64) -> bool {
        let all = lock(&self.all);
        let Some((_, socket)) = all.get(&id) else {
            return false;
        };
        // A socket that cannot be shut down has ended.
        let _ = socket.shutdown(Shutdown::Both);
        true
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        lock(&self.clients.all).remove(&self.card.id);
    }
}

/// No thread leaves the data half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
