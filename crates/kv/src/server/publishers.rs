//! Clients that publish overwrites themselves: their rights, what they announce, and what they leave behind. Why this is sound:
//! `docs/design/0022`.
//!
//! ```text
//!   grant     windows on index (atomics), counter (atomics), ring (write)          until the client asks anew, or is gone
//!   lend      an extent in which it stamps its own records
//!   drain     its intents                    before a tombstone's horizon, before a segment is freed, between batches
//!   take over the extent, when nobody can write there any more                    void what is not named, where it died
//! ```

use std::cell::Cell;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{Access, MemoryRegion, QueuePair, Runtime};
use stonecast_log::UNIT_SIZE;
use stonecast_media::{Durability, Pool, Region};
use stonecast_session::{Lessor, Opening};

use super::session::{Session, Sessions, ending};
use super::{Server, State};
use crate::error::StoreError;
use crate::metrics::ClientPath;
use crate::wire::intent::{Intent, RING_SIZE, intent_offset};
use crate::wire::{Answer, RightsGrant, Verdict};
use crate::wire::{KeyHash, Word};

/// Pause between two looks whether the clients of the server before are gone.
const PUBLISHERS_LOOK_NS: Nanoseconds = 10_000_000;
/// How often it is looked: for two seconds. A client that has not run by then stands still.
const PUBLISHERS_LOOKS_MAX: u32 = 200;

/// The sequence that is given out next: a word that clients which publish take from, too.
pub(super) struct Sequences(pub Rc<dyn Region>);

impl Sequences {
    /// Bytes of its memory: a page, since that is what is opened to a client.
    pub const SIZE: u64 = 4096;

    /// What is given out next, or was by now.
    pub fn next(&self) -> u64 {
        self.0.load(0)
    }

    /// Takes one.
    pub fn take(&self) -> u64 {
        self.0.fetch_add(0, 1)
    }
}

/// What a client announces.
pub(super) struct Ring {
    memory: Rc<dyn Region>,
    taken: Cell<u64>,
    /// What its client has stamped with a lower sequence than this is published or void: it publishes one record after the other.
    unsettled: Cell<u64>,
    /// How its client came here.
    path: ClientPath,
}

/// Rights of a client to publish.
pub(super) struct PublishingRights {
    ring: Rc<Ring>,
    region: MemoryRegion,
    /// Intents taken when it was last seen that the client goes on, and when that was.
    seen: (u64, Nanoseconds),
}

/// A segment that comes back from a client.
pub(super) struct Returned {
    pub segment: u32,
    pub stamper: Stamper,
}

/// Who has stamped what is in a segment that comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamper {
    Server,
    /// By its client, who has nothing under way in it.
    Client,
    /// By its client, whose rights were taken away in the middle of whatever it was doing.
    DeadClient,
}

impl Ring {
    /// The next intent, once.
    fn take(&self) -> Option<Intent> {
        let number = self.taken.get() + 1;
        let offset = intent_offset(number);
        let words = std::array::from_fn(|word| self.memory.load(offset + word as u64 * 8));
        let intent = Intent::parse(words, number)?;
        self.taken.set(number);
        self.unsettled.set(intent.sequence);
        Some(intent)
    }
}

impl Server {
    /// Why clients cannot publish here, if they cannot.
    pub(super) fn publishing_refusal(
        durability: Durability,
        atomic_with_processor: bool,
    ) -> Option<&'static str> {
        match durability {
            Durability::Power => Some(
                "the pool promises to survive power loss, and the plan for that needs the server; create a pool with durability process",
            ),
            Durability::Process if !atomic_with_processor => Some(
                "atomics of this fabric's devices are not atomic with those of the processor; listen on shared memory",
            ),
            Durability::Process => None,
        }
    }

    /// Waits until no client of a server before this one can publish any more: what it publishes after the log was scanned would
    /// be acknowledged and lost. Clients notice the end of their server when they run next.
    pub(super) async fn wait_for_publishers(
        pool: &Pool,
        runtime: &Rc<dyn Runtime>,
    ) -> Result<(), StoreError> {
        for _ in 0..PUBLISHERS_LOOKS_MAX {
            if !pool.may_be_published() {
                return Ok(());
            }
            runtime.sleep(PUBLISHERS_LOOK_NS).await;
        }
        Err(StoreError::Publishers)
    }

    /// Gives the client of `qp` the rights to publish, anew where it had some.
    pub(super) fn grant_rights(&self, qp: QueuePair) -> Answer {
        let refuse = |verdict| Answer::Verdict {
            verdict,
            version: 0,
        };
        self.end_rights(qp);
        let state = &mut *self.state.borrow_mut();
        let State {
            sessions,
            tables,
            rings,
            counter,
            index,
            sequences,
            ..
        } = state;
        let may_publish = |session: &&mut Session| session.staging.is_none();
        let session = sessions.get_mut(qp).filter(may_publish);
        let (Some(counter), Some(session)) = (*counter, session) else {
            return refuse(Verdict::Invalid);
        };
        if !index.may_be_published() {
            return refuse(Verdict::Busy);
        }
        let table = tables.last().expect("there is always a table");
        let device = self.port.device();
        let Ok(region) = device.allocate(RING_SIZE.next_multiple_of(4096), Access::NONE) else {
            return refuse(Verdict::Busy);
        };
        let ring = Rc::new(Ring {
            memory: device.memory(region),
            taken: Cell::new(0),
            unsettled: Cell::new(sequences.next()),
            path: session.path,
        });
        let now = self.runtime.now();
        let rights = PublishingRights {
            ring: ring.clone(),
            region,
            seen: (0, now),
        };
        let lessor = Lessor {
            port: &self.port,
            epoch: self.pool.opening().into(),
        };
        let openings = [
            Opening::whole(table.region, Access::REMOTE_ATOMIC),
            Opening::whole(counter, Access::REMOTE_ATOMIC),
            Opening::whole(region, Access::REMOTE_WRITE.and(Access::REMOTE_READ)),
        ];
        let lease = match lessor.grant(qp, rights, &openings, now) {
            Ok(lease) => lease,
            Err((part, _)) => {
                self.revocations.begin(ending(Some(part), None));
                return refuse(Verdict::Busy);
            }
        };
        let [index_rkey, counter_rkey, ring_rkey] =
            *lease.windows().as_array().expect("a window for each");
        rings.push(ring);
        session.rights = Some(lease);
        Answer::Rights(RightsGrant {
            table: table.number,
            index_rkey: index_rkey.0,
            counter_address: counter.address,
            counter_rkey: counter_rkey.0,
            ring_address: region.address,
            ring_rkey: ring_rkey.0,
            secret: self.pool.secret(),
        })
    }

    /// Takes all rights to publish away from the client of `qp`, with what it was lent.
    pub(super) fn end_rights(&self, qp: QueuePair) {
        let state = &mut *self.state.borrow_mut();
        let Some(session) = state.sessions.get_mut(qp) else {
            return;
        };
        let Some(rights) = session.rights.take() else {
            return;
        };
        // The client may still return what it was lent.
        let lent = session.leases.reclaim(|lease| lease.object().publishes);
        self.revocations.begin(ending(Some(rights), lent));
    }

    /// Takes what clients have announced. Whether that was anything.
    pub(super) fn drain_intents(&self, state: &mut State) -> bool {
        let State {
            rings,
            space,
            counters,
            paths,
            live_bytes,
            ..
        } = state;
        let mut any = false;
        for ring in rings.iter() {
            let before = ring.taken.get();
            let path = &mut paths[ring.path as usize];
            while let Some(Intent {
                before,
                after,
                sequence,
                units,
                is_taken_back,
            }) = ring.take()
            {
                let (old, new) = ((before, units.0 * UNIT_SIZE), (after, units.1 * UNIT_SIZE));
                let (less, more) = if is_taken_back {
                    (new.1, old.1)
                } else {
                    (old.1, new.1)
                };
                *live_bytes = live_bytes.saturating_add(more).saturating_sub(less);
                if is_taken_back {
                    space.note_not_published(old, new);
                    counters.puts = counters.puts.saturating_sub(1);
                    path.puts = path.puts.saturating_sub(1);
                    path.written_bytes = path.written_bytes.saturating_sub(new.1);
                } else {
                    space.note_published(old, new, sequence);
                    counters.puts += 1;
                    path.puts += 1;
                    path.written_bytes += new.1;
                }
            }
            if ring.taken.get() != before {
                ring.memory.store(0, ring.taken.get());
                any = true;
            }
        }
        space.set_unsettled(
            rings
                .iter()
                .map(|ring| ring.unsettled.get())
                .min()
                .unwrap_or(u64::MAX),
        );
        any
    }

    /// Takes over a segment that a client has stamped. Before it is given to anybody else.
    pub(super) fn take_over(&self, state: &mut State, returned: &Returned) {
        if returned.stamper == Stamper::Server {
            return;
        }
        // What its client said before it was gone is known before it is judged.
        self.drain_intents(state);
        let State {
            space,
            index,
            unpersisted,
            ..
        } = state;
        let mut live = 0;
        let died = returned.stamper == Stamper::DeadClient;
        let changed = space.take_over(returned.segment, &*self.log, &mut |found| {
            if !died {
                return false;
            }
            let header = &found.header;
            let hash = KeyHash::of(self.format.tag_key, found.key);
            let word = Word::new(found.position, header.generation(), hash, header.size());
            let is_named = index.find(hash, |other| other.names(word)).is_some();
            live += if is_named { header.size() } else { 0 };
            !is_named
        });
        unpersisted.extend(changed);
        if died {
            space.set_live(returned.segment, live);
        }
    }

    /// Takes the rights to publish away from clients that did not use them for so long that they ask anew before they do.
    pub(super) fn reclaim_rights(
        &self,
        sessions: &mut Sessions,
        unused_ns: Nanoseconds,
    ) -> Vec<QueuePair> {
        let now = self.runtime.now();
        let mut unused = Vec::new();
        for (qp, session) in sessions.iter_mut() {
            let Some(lease) = session.rights.as_mut() else {
                continue;
            };
            let rights = lease.object_mut();
            let taken = rights.ring.taken.get();
            if taken != rights.seen.0 {
                rights.seen = (taken, now);
            } else if now.saturating_sub(rights.seen.1) >= unused_ns {
                unused.push(qp);
            }
        }
        unused
    }
}

impl PublishingRights {
    /// What the client reports, when it can report no more.
    pub fn into_ring(self) -> Rc<Ring> {
        self.ring
    }

    /// The memory of the ring.
    pub fn region(&self) -> MemoryRegion {
        self.region
    }
}
