//! Clients that publish overwrites themselves: their rights, their intents, and the segments that they leave at their
//! end. `docs/design/0022` explains why this is sound.
//!
//! ```text
//!   grant     windows on index (atomics), counter (atomics), ring (write)          until the client asks again, or is gone
//!   lend      an extent in which it stamps its own records
//!   drain     its intents                    before a tombstone's horizon, before a segment is freed, between batches
//!   take over the extent, once it can no longer be written                        a dead client's records that no word names become void
//! ```

use std::cell::Cell;
use std::rc::Rc;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_fabric::{Access, MemoryRegion, Port, QueuePair, Runtime};
use stonecast_log::UNIT_SIZE;
use stonecast_media::{Durability, Pool};
use stonecast_session::{Lease, Lessor, Opening};

use super::rights::{PublishingRights, Ring};
use super::served::Served;
use super::sessions::Sessions;
use crate::error::StoreError;
use crate::metrics::ClientPath;
use crate::server::journal::Sequences;
use crate::server::shard::{Shard, SharedTable};
use crate::server::space::Space;
use crate::wire::RightsGrant;
use crate::wire::intent::{Intent, RING_SIZE};

/// Pause between two checks whether the clients of the earlier server are gone.
const PUBLISHERS_LOOK_NS: Nanoseconds = 10_000_000;
/// Number of checks: two seconds in all. A client that has not run by then is stopped.
const PUBLISHERS_LOOKS_MAX: u32 = 200;

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
    pub(super) counter: Option<MemoryRegion>,
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
    pub(super) fn grant(
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

    /// Finds clients that have left their rights unused long enough to ask again before the next use. Returns the
    /// number of these clients, which lose their rights with the next `settle_returned`.
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
