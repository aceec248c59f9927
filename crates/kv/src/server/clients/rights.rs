//! Clients that publish overwrites themselves: their rights, their intents, and the segments that they leave behind.
//! `docs/design/0022` explains why this is sound.
//!
//! ```text
//!   grant     windows on index (atomics), counter (atomics), ring (write)          until the client asks again, or is gone
//!   lend      an extent in which it stamps its own records
//!   drain     its intents                    before a tombstone's horizon, before a segment is freed, between batches
//!   take over the extent, once it cannot be written any more                      a dead client's records that no word names become void
//! ```

use std::cell::Cell;
use std::rc::Rc;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_fabric::{Access, MemoryRegion, Port, QueuePair, Runtime};
use stonecast_log::UNIT_SIZE;
use stonecast_media::{Durability, Pool, Region};
use stonecast_session::{Lease, Lessor, Opening};

use super::{Clients, Served, Sessions};
use crate::error::StoreError;
use crate::metrics::ClientPath;
use crate::server::State;
use crate::server::journal::Sequences;
use crate::server::shard::{Shard, SharedTable};
use crate::server::space::Space;
use crate::wire::intent::{Intent, RING_SIZE, intent_offset};
use crate::wire::{Answer, RightsGrant, Route, Verdict};

/// Pause between two checks whether the clients of the earlier server are gone.
const PUBLISHERS_LOOK_NS: Nanoseconds = 10_000_000;
/// Number of checks: two seconds in all. A client that has not run by then is stopped.
const PUBLISHERS_LOOKS_MAX: u32 = 200;

/// The intents of a client.
pub(super) struct Ring {
    memory: Rc<dyn Region>,
    taken: Cell<u64>,
    /// The client's records with a lower sequence are published or void: a client publishes one record after the other.
    unsettled: Cell<u64>,
    /// The path by which the client reaches the store.
    path: ClientPath,
}

/// Rights of a client to publish.
pub(super) struct PublishingRights {
    ring: Rc<Ring>,
    region: MemoryRegion,
    /// Intents taken when the client last advanced, and that time.
    seen: (u64, Nanoseconds),
}

/// A segment that a client returned or lost.
pub(super) struct Returned {
    pub segment: u32,
    pub stamper: Stamper,
}

/// The author of the stamps in such a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamper {
    Server,
    /// A client with no publication in progress.
    Client,
    /// A client whose rights were taken away, perhaps in the middle of a publication.
    DeadClient,
}

impl Ring {
    /// Takes the next intent, if there is one.
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

/// The reason why clients cannot publish here, if they cannot.
pub(in crate::server) fn publishing_refusal(
    pool: &Pool,
    atomic_with_processor: bool,
) -> Option<&'static str> {
    match pool.durability() {
        Durability::Power => Some(
            "the pool promises to survive power loss, and the plan for that needs the server; create a pool with durability process",
        ),
        Durability::Process if !atomic_with_processor => Some(
            "atomics of this fabric's devices are not atomic with those of the processor; listen on shared memory",
        ),
        // Clients take versions from the counter, so a version that is missing from the history
        // could not be noticed.
        Durability::Process if pool.cluster_seed().is_some() && !mutant!(PublishedPastCopies) => {
            Some("the pool is of a cluster; create a pool of one node")
        }
        // The rights open one index, and an intent names no shard.
        Durability::Process if pool.shards() > 1 => {
            Some("the pool has several shards; create a pool with one shard")
        }
        Durability::Process => None,
    }
}

/// Waits until no client of an earlier server can publish: a record published after the scan of the log would be
/// acknowledged and lost. Clients notice the end of their server when they run next.
pub(in crate::server) async fn wait_for_publishers(
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

/// Grants rights to publish, and takes the intents of their holders.
pub(in crate::server) struct Publishing {
    port: Rc<Port>,
    runtime: Rc<dyn Runtime>,
    /// The epoch of all leases: that of the opening of the pool.
    epoch: u64,
    secret: [u64; 2],
    /// The counter from which clients take sequences, if they may publish.
    counter: Option<MemoryRegion>,
    /// The rings of clients that publish.
    rings: Vec<Rc<Ring>>,
    /// Clients that have to ask for their rights again before they publish.
    unused: Vec<QueuePair>,
}

impl Publishing {
    /// Registers the memory of the sequence, if clients may publish.
    pub fn new(
        (port, runtime): (Rc<Port>, Rc<dyn Runtime>),
        pool: &Pool,
        counter: Option<MemoryRegion>,
    ) -> Self {
        Self {
            port,
            runtime,
            epoch: pool.opening().into(),
            secret: pool.secret(),
            counter,
            rings: Vec::new(),
            unused: Vec::new(),
        }
    }

    /// Opens table, counter and a ring to the client of `qp`. An error holds the partial rights that have to end, or
    /// nothing if the device has no memory.
    fn grant(
        &mut self,
        (qp, path): (QueuePair, ClientPath),
        (table, counter): (&SharedTable, MemoryRegion),
        sequences: &Sequences,
    ) -> Result<(Lease<PublishingRights>, RightsGrant), Option<Lease<PublishingRights>>> {
        let device = self.port.device();
        let size = RING_SIZE.next_multiple_of(4096);
        let region = device.allocate(size, Access::NONE).map_err(|_| None)?;
        let ring = Rc::new(Ring {
            memory: device.memory(region),
            taken: Cell::new(0),
            unsettled: Cell::new(sequences.next()),
            path,
        });
        let now = self.runtime.now();
        let rights = PublishingRights {
            ring: ring.clone(),
            region,
            seen: (0, now),
        };
        let lessor = Lessor {
            port: &self.port,
            epoch: self.epoch,
        };
        let openings = [
            Opening::whole(table.region, Access::REMOTE_ATOMIC),
            Opening::whole(counter, Access::REMOTE_ATOMIC),
            Opening::whole(region, Access::REMOTE_WRITE.and(Access::REMOTE_READ)),
        ];
        let lease = lessor.grant(qp, rights, &openings, now);
        let lease = lease.map_err(|(part, _)| Some(part))?;
        let [index_rkey, counter_rkey, ring_rkey] =
            *lease.windows().as_array().expect("a window for each");
        self.rings.push(ring);
        let granted = RightsGrant {
            table: table.number,
            index_rkey: index_rkey.0,
            counter_address: counter.address,
            counter_rkey: counter_rkey.0,
            ring_address: region.address,
            ring_rkey: ring_rkey.0,
            secret: self.secret,
        };
        Ok((lease, granted))
    }

    /// Takes the intents of all clients. Returns whether there were any.
    pub fn drain(&mut self, served: &mut Served, space: &mut Space, shard: &mut Shard) -> bool {
        let mut any = false;
        for ring in &self.rings {
            let before = ring.taken.get();
            while let Some(intent) = ring.take() {
                settle_intent(&intent, ring.path, (served, space, shard));
            }
            if ring.taken.get() != before {
                ring.memory.store(0, ring.taken.get());
                any = true;
            }
        }
        let unsettled = self.rings.iter().map(|ring| ring.unsettled.get());
        space.set_unsettled(unsettled.min().unwrap_or(u64::MAX));
        any
    }

    /// Forgets a ring that no client can write to.
    pub(super) fn forget(&mut self, ended: &Rc<Ring>) {
        self.rings.retain(|ring| !Rc::ptr_eq(ring, ended));
    }

    /// Finds clients that did not use their rights for so long that they will ask again before the next use. Returns
    /// the number of these clients, which lose their rights with the next `settle_returned`.
    pub fn find_unused(&mut self, sessions: &mut Sessions, unused_ns: Nanoseconds) -> usize {
        let now = self.runtime.now();
        let before = self.unused.len();
        for (qp, session) in sessions.iter_mut() {
            let Some(lease) = session.rights.as_mut() else {
                continue;
            };
            let rights = lease.object_mut();
            let taken = rights.ring.taken.get();
            if taken != rights.seen.0 {
                rights.seen = (taken, now);
            } else if now.saturating_sub(rights.seen.1) >= unused_ns {
                self.unused.push(qp);
            }
        }
        self.unused.len() - before
    }

    /// Takes the clients that were found not to use their rights.
    pub fn take_unused(&mut self) -> Vec<QueuePair> {
        std::mem::take(&mut self.unused)
    }
}

/// Accounts for an intent.
fn settle_intent(
    intent: &Intent,
    path: ClientPath,
    (served, space, shard): (&mut Served, &mut Space, &mut Shard),
) {
    let Intent {
        before,
        after,
        sequence,
        units,
        is_taken_back,
    } = *intent;
    let (old, new) = ((before, units.0 * UNIT_SIZE), (after, units.1 * UNIT_SIZE));
    if is_taken_back {
        shard.note_exchange(new.1, old.1);
        space.note_not_published(old, new);
        served.count_taken_back(path, new.1);
    } else {
        shard.note_exchange(old.1, new.1);
        space.note_published(old, new, sequence);
        served.count_published(path, new.1);
    }
}

/// Takes the intents of all clients. Returns whether there were any.
pub(in crate::server) fn drain_intents(state: &mut State) -> bool {
    let State {
        clients: Clients {
            publishing, served, ..
        },
        journal,
        shards,
        ..
    } = state;
    publishing.drain(served, &mut journal.space, shards.published_mut())
}

/// Gives the client of `qp` new rights to publish, in place of earlier ones.
pub(in crate::server) fn grant_rights(state: &mut State, qp: QueuePair) -> Answer {
    state.clients.end_rights(qp);
    let Clients {
        sessions,
        publishing,
        departures,
        ..
    } = &mut state.clients;
    let session = sessions.get_mut(qp);
    let session = session.filter(|session| session.staging.is_none());
    let (Some(counter), Some(session)) = (publishing.counter, session) else {
        return Verdict::Invalid.into();
    };
    if !state.shards.published().index().may_be_published() {
        return Verdict::Busy.into();
    }
    let opened = (state.shards.published().table(), counter);
    match publishing.grant((qp, session.path), opened, &state.journal.sequences) {
        Ok((lease, granted)) => {
            session.rights = Some(lease);
            Answer::Rights(granted)
        }
        Err(part) => {
            part.into_iter()
                .for_each(|part| departures.end_unheld(part));
            Verdict::Busy.into()
        }
    }
}

/// Takes over a segment in which a client has stamped records, before another appender gets that segment.
pub(super) fn take_over(state: &mut State, returned: &Returned) {
    if returned.stamper == Stamper::Server {
        return;
    }
    // The client's last intents are taken before the segment is judged.
    drain_intents(state);
    let State {
        journal, shards, ..
    } = state;
    let mut live = 0;
    let died = returned.stamper == Stamper::DeadClient;
    journal.take_over(returned.segment, &mut |found| {
        if !died {
            return false;
        }
        let Route { shard, hash } = shards.route(found.key);
        let is_named = shards.of(shard).word_of_record(hash, found).is_some();
        live += if is_named { found.header.size() } else { 0 };
        !is_named
    });
    if died {
        journal.space.set_live(returned.segment, live);
    }
}

impl PublishingRights {
    /// The ring, once the client can announce nothing more.
    pub fn into_ring(self) -> Rc<Ring> {
        self.ring
    }

    /// The memory of the ring.
    pub fn region(&self) -> MemoryRegion {
        self.region
    }
}
