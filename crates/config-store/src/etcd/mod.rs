//! A configuration in an etcd: one key.
//!
//! ```text
//!   mod.rs      choice of the endpoint, meaning of an answer for the store
//!   seen        facts from the answers, and the members that they vouch for
//!   member      one request to one endpoint: bounds, credentials
//!   http        POSTs over kept connections, within bounds
//!   login       user and password
//!   tls         certificates and keys from files, and failed handshakes
//!   files       files with and without secrets, and their faults
//!   messages    requests and answers of etcd's JSON gateway
//!   error       failures, and whether a transaction may have been done
//! ```
//!
//! The revision of a value is the key's `mod_revision`. A compare-and-set is one transaction that compares it; a watch
//! is a stream that begins directly after a read.
//!
//! Invariants:
//! - A transaction is sent once. A transaction that may have reached an etcd is never sent to another.
//! - A transaction goes only to an endpoint that has proven in a read, since the last failure there, that it belongs to
//!   this cluster. For a first value that read comes directly before.
//! - Revisions do not go back: an answer that is older than the state seen before its request was sent is refused.

mod error;
mod files;
mod http;
mod login;
mod member;
mod messages;
mod seen;
mod tls;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use stonecast_cluster::{Revision, Stored, Swap};

use self::error::{EtcdError, Sent};
pub use self::files::UnusableFile;
use self::login::Login;
use self::member::Member;
use self::messages::Key;
use self::seen::Seen;

use crate::address::EtcdAddress;
use crate::backend::{Backend, Failure};

/// Time limits for an etcd.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The limit for a connection.
    pub connect: Duration,
    /// The limit for the whole answer to a read or a transaction.
    pub answer: Duration,
    /// The time that a watch listens before it reads by itself: a silent etcd is noticed after that time.
    pub listen: Duration,
}

impl Bounds {
    /// One second, three, and five.
    pub const DEFAULT: Self = Self {
        connect: Duration::from_secs(1),
        answer: Duration::from_secs(3),
        listen: Duration::from_secs(5),
    };
}

/// The store as used by one of its threads. A clone shares its connections and its knowledge.
#[derive(Clone)]
pub struct EtcdStore {
    key: Key,
    members: Vec<Member>,
    /// The member to ask.
    current: usize,
    seen: Arc<Mutex<Seen>>,
}

impl EtcdStore {
    /// The store at `address`. Reads its files, and sends no request yet.
    pub fn new(address: &EtcdAddress, bounds: Bounds) -> Result<Self, UnusableFile> {
        let tls = address.tls.as_ref().map(tls::read).transpose()?;
        let login = address.credentials.as_ref().map(Login::new).transpose()?;
        let endpoints = address.endpoints.iter();
        Ok(Self {
            key: Key::new(&address.key),
            members: endpoints
                .map(|endpoint| {
                    Member::new(endpoint, address, bounds, tls.as_ref(), login.as_ref())
                })
                .collect(),
            current: 0,
            seen: Arc::new(Mutex::new(Seen::new(address.endpoints.len()))),
        })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("no holder panics")
    }

    /// The newest value from the current member, and etcd's revision. The member counts as known if this succeeds, and
    /// as unknown if it fails.
    fn read_of_current(&mut self) -> Result<(Option<Stored>, u64), EtcdError> {
        let before = self.seen().before(self.current);
        let member = &mut self.members[self.current];
        let range = member.range(&self.key);
        let mut seen = self.seen();
        let checked = range.and_then(|range| {
            seen.check(&self.members[self.current].endpoint, &range.header, before)?;
            Ok((range.stored, range.header.revision))
        });
        match &checked {
            Ok(_) => seen.proven(self.current, before),
            Err(_) => seen.failed(self.current),
        }
        checked
    }

    /// Asks one member after the other, beginning with the member that answered last, as long as `ask` allows the next
    /// one.
    fn failing_over<T>(
        &mut self,
        mut ask: impl FnMut(&mut Self) -> Result<T, EtcdError>,
    ) -> Result<T, Failure> {
        let (mut reasons, mut is_passing) = (Vec::new(), false);
        let first = self.seen().answering;
        self.current = first;
        for _ in 0..self.members.len() {
            match ask(self) {
                Ok(answer) => {
                    self.seen().answering = self.current;
                    return Ok(answer);
                }
                Err(error) if error.is_of_one_endpoint() => {
                    is_passing |= error.is_passing();
                    reasons.push(error.to_string());
                }
                Err(error) => {
                    if matches!(error, EtcdError::Unknown(_)) {
                        self.pass_over_current();
                    }
                    return Err(error.into());
                }
            }
            self.current = self.next();
        }
        let reasons = reasons.join("; ");
        Err(match is_passing {
            true => Failure::Passing(reasons),
            false => Failure::Lasting(reasons),
        })
    }

    /// Makes the next request begin with the next member.
    fn pass_over_current(&self) {
        self.seen().answering = self.next();
    }

    fn next(&self) -> usize {
        (self.current + 1) % self.members.len()
    }

    fn swap_of_current(
        &mut self,
        expected: Option<Revision>,
        bytes: &[u8],
    ) -> Result<Swap, EtcdError> {
        let is_known = self.seen().knows(self.current);
        // The comparison of revisions distinguishes an etcd that lost its values from one that has them, but not if no
        // revision is expected.
        if !is_known || expected.is_none() {
            self.read_of_current()?;
        }
        let before = self.seen().before(self.current);
        let member = &mut self.members[self.current];
        let swapped = member.swap(&self.key, expected.map_or(0, |expected| expected.0), bytes);
        let mut seen = self.seen();
        let (header, done) = swapped.inspect_err(|_| seen.failed(self.current))?;
        let checked = seen.check(&self.members[self.current].endpoint, &header, before);
        checked.map_err(|error| error.after(Sent::Yes))?;
        Ok(match done {
            true => Swap::Done(Revision(header.revision)),
            false => Swap::Conflict,
        })
    }
}

impl Backend for EtcdStore {
    fn read(&mut self) -> Result<Option<Stored>, Failure> {
        Ok(self.failing_over(Self::read_of_current)?.0)
    }

    fn swap(&mut self, expected: Option<Revision>, bytes: &[u8]) -> Result<Swap, Failure> {
        self.failing_over(|store| store.swap_of_current(expected, bytes))
    }

    fn watch(&mut self, known: Option<Revision>) -> Result<Option<Revision>, Failure> {
        let (stored, revision) = self.failing_over(Self::read_of_current)?;
        let newest = stored.map(|stored| stored.revision);
        if newest != known {
            return Ok(newest);
        }
        let endpoint = self.members[self.current].endpoint.clone();
        let heard = self.members[self.current].listen(&self.key, revision + 1);
        let has_event = heard.inspect_err(|_| {
            self.seen().failed(self.current);
            self.pass_over_current();
        })?;
        let (stored, _) = self.failing_over(Self::read_of_current)?;
        let newest = stored.map(|stored| stored.revision);
        if has_event && newest == known {
            let reason = "it told of a change, and there is none".to_owned();
            return Err(EtcdError::WatchEnded { endpoint, reason }.into());
        }
        Ok(newest)
    }
}
