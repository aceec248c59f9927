//! Revokes keys: first the key opens nothing for later requests, then every requester that had checked it earlier must
//! have left. See [`crate::announcement`] for the argument.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use stonecast_base::Nanoseconds;
use stonecast_fabric::{DeviceError, QueuePair, Rkey};
use stonecast_media::MappedRegion;

use crate::announcement::{Inside, has_left, look};
use crate::clock;
use crate::connection::Connection;
use crate::control::{Line, Token};
use crate::device::State;
use crate::primitive::Memory;
use crate::socket;

/// Number of immediate repetitions of a check: a copy of a few hundred bytes is over by then.
const SPINS: u32 = 200;

/// A key that opens nothing, though a requester may still be inside.
#[derive(Debug)]
pub(crate) struct Revocation {
    since: Nanoseconds,
    waits: Vec<Wait>,
}

/// A peer that was inside.
#[derive(Debug)]
struct Wait {
    token: Token,
    peer: String,
    area: Rc<MappedRegion>,
    word: u64,
    inside: Inside,
}

/// The remains of the connection of a destroyed queue pair whose peer was in the middle of an operation.
#[derive(Debug)]
pub(crate) struct Zombie {
    line: Line,
    area: Rc<MappedRegion>,
    word: u64,
    inside: Inside,
    /// The place of its append intent, and the queue.
    intent: u64,
    srq: Option<u32>,
}

/// Keys and connections that open nothing, and the requesters inside that have not left.
pub(crate) struct Leaving {
    pub(crate) zombies: Vec<Zombie>,
    revocations: BTreeMap<Rkey, Revocation>,
    /// Tasks that wait for requesters.
    waiting: Vec<Waker>,
    /// The time for which a task waits.
    timeout_ns: Nanoseconds,
}

impl Leaving {
    pub(crate) fn new(timeout_ns: Nanoseconds) -> Self {
        Self {
            zombies: Vec::new(),
            revocations: BTreeMap::new(),
            waiting: Vec::new(),
            timeout_ns,
        }
    }

    /// Whether no peer is awaited.
    pub(crate) fn is_empty(&self) -> bool {
        self.revocations.is_empty() && self.zombies.is_empty() && self.waiting.is_empty()
    }

    /// Whether a task waits.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether the append intent of a requester of the queue `srq` names `start`.
    pub(crate) fn claims(&self, srq: u32, start: u64) -> bool {
        let mut users = self.zombies.iter().filter(|zombie| zombie.srq == Some(srq));
        users.any(|zombie| zombie.claims() == start)
    }

    /// Forgets the other end of `token`, which is gone, so none of its requests is inside.
    pub(crate) fn release_dead(&mut self, token: Token) {
        self.zombies.retain(|zombie| zombie.line.token != token);
        for revocation in self.revocations.values_mut() {
            revocation.waits.retain(|wait| wait.token != token);
        }
    }

    /// Hangs up on requesters that have left.
    fn end_connections(&mut self) {
        self.zombies.retain(|zombie| {
            let left = has_left(&*zombie.area, zombie.word, zombie.inside);
            if left {
                socket::end(&zombie.line.socket);
            }
            !left
        });
    }
}

impl Zombie {
    /// Hangs up. The peer is in the middle of an operation, so its end is awaited.
    pub(crate) fn new(connection: Connection, inside: Inside, srq: Option<u32>) -> Self {
        socket::end_sending(&connection.line.socket);
        let word = connection.inward.announcement();
        let intent = connection.inward.intent();
        Self {
            line: connection.line,
            area: connection.area,
            word,
            inside,
            intent,
            srq,
        }
    }

    /// The append intent.
    fn claims(&self) -> u64 {
        Memory::load(&*self.area, self.intent)
    }
}

impl State {
    pub(crate) fn poll_invalidate(
        &mut self,
        rkey: Rkey,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), DeviceError>> {
        if self.keys.get(rkey).is_none() {
            let released = self.keys.was_released(rkey);
            let unknown = DeviceError::NoSuch {
                what: "key",
                index: rkey.0.into(),
            };
            return Poll::Ready(if released { Ok(()) } else { Err(unknown) });
        }
        if !self.leaving.revocations.contains_key(&rkey) {
            self.revoke(rkey);
        }
        for _ in 0..SPINS {
            if self.try_release(rkey) {
                return Poll::Ready(Ok(()));
            }
            std::hint::spin_loop();
        }
        let revocation = &self.leaving.revocations[&rkey];
        if clock::now().saturating_sub(revocation.since) >= self.leaving.timeout_ns {
            let peer = revocation
                .waits
                .first()
                .map(|wait| wait.peer.clone())
                .unwrap_or_default();
            return Poll::Ready(Err(DeviceError::Unquiesced { peer }));
        }
        self.leaving.waiting.push(context.waker().clone());
        Poll::Pending
    }

    /// Ends a connection and waits for the requester inside; see [`crate::announcement`].
    pub(crate) fn poll_quiesce(
        &mut self,
        qp: QueuePair,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), DeviceError>> {
        if let Err(error) = self.end_for_quiet(qp) {
            return Poll::Ready(Err(error));
        }
        let timeout = self.leaving.timeout_ns;
        let connection = self
            .queue_pair_mut(qp)
            .expect("just looked up")
            .connection
            .as_mut()
            .expect("just looked up");
        for _ in 0..SPINS {
            let Some(quiescing) = connection.quiesce() else {
                return Poll::Ready(Ok(()));
            };
            if clock::now().saturating_sub(quiescing.since) >= timeout {
                let peer = connection.line.peer.to_string();
                return Poll::Ready(Err(DeviceError::Unquiesced { peer }));
            }
            std::hint::spin_loop();
        }
        self.leaving.waiting.push(context.waker().clone());
        Poll::Pending
    }

    /// Ends the connection of a queue pair that has or had one.
    fn end_for_quiet(&mut self, qp: QueuePair) -> Result<(), DeviceError> {
        if self.queue_pair(qp)?.connection.is_none() {
            return Err(DeviceError::Malformed {
                reason: "the queue pair was never connected",
            });
        }
        self.disconnect(qp)
    }

    /// Revokes the key and notes the requesters inside.
    fn revoke(&mut self, rkey: Rkey) {
        let key = *self.keys.get(rkey).expect("the caller looked");
        self.keys.revoke(rkey);
        self.control.with_regions(|regions| {
            if let Some(shared) = regions.get_mut(&key.region) {
                shared.keys.remove(&rkey);
            }
        });
        self.keys.memory().full_fence();
        let mut waits = Vec::new();
        for (handle, qp) in self.qps.iter() {
            let is_open = key.queue_pair == 0 || key.queue_pair == handle;
            let Some(connection) = qp.connection.as_ref().filter(|_| is_open) else {
                continue;
            };
            if let Some(inside) = connection.inside() {
                let word = connection.inward.announcement();
                let area = connection.area.clone();
                waits.push(Wait {
                    token: connection.line.token,
                    peer: connection.line.peer.to_string(),
                    area,
                    word,
                    inside,
                });
            }
        }
        for zombie in &self.leaving.zombies {
            if let Some(inside) = look(&*zombie.area, zombie.word) {
                let area = zombie.area.clone();
                let peer = zombie.line.peer.to_string();
                waits.push(Wait {
                    token: zombie.line.token,
                    peer,
                    area,
                    word: zombie.word,
                    inside,
                });
            }
        }
        self.leaving.revocations.insert(
            rkey,
            Revocation {
                since: clock::now(),
                waits,
            },
        );
    }

    /// Frees the key if no requester is inside.
    fn try_release(&mut self, rkey: Rkey) -> bool {
        let revocation = self
            .leaving
            .revocations
            .get_mut(&rkey)
            .expect("the caller revoked it");
        revocation
            .waits
            .retain(|wait| !has_left(&*wait.area, wait.word, wait.inside));
        if !revocation.waits.is_empty() {
            return false;
        }
        self.leaving.revocations.remove(&rkey);
        self.keys.release(rkey);
        true
    }

    /// Revokes the windows of a destroyed queue pair; no task waits for them.
    pub(crate) fn revoke_windows(&mut self, qp: QueuePair) {
        for rkey in self.keys.select(|key| key.queue_pair == qp.0) {
            if !self.leaving.revocations.contains_key(&rkey) {
                self.revoke(rkey);
            }
            self.try_release(rkey);
        }
    }

    /// Ends the remains of connections and revocations that no task polls. Returns the wakers of tasks that wait for
    /// revocations.
    pub(crate) fn progress_revocations(&mut self) -> Vec<Waker> {
        self.leaving.end_connections();
        let keys: Vec<Rkey> = self.leaving.revocations.keys().copied().collect();
        for rkey in keys {
            self.try_release(rkey);
        }
        std::mem::take(&mut self.leaving.waiting)
    }
}
