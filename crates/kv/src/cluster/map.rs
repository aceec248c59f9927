//! The map of a cluster: which node leads each shard, and in which term. The client reads the map
//! from the configuration store when it connects, and again when a node has refused a request or
//! was not reached.
//!
//! ```text
//!   a call fails ----- read 1 ------> believed by all calls that failed before it began
//!       another fails      ---------> read 2, a pause after the beginning of read 1
//! ```
//!
//! The number of reads therefore does not grow with the number of calls that fail at the same time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_cluster::{
    ConfigStore, Configuration, Group, HashRange, Node, NodeName, Revision, Term,
};
use stonecast_fabric::Runtime;
use stonecast_media::Durability;

use super::error::ClusterError;
use super::options::PAUSE_NS;
use crate::client::FairLock;

/// One configuration, in which all shards are placed.
pub(super) struct Map {
    configuration: Configuration,
    revision: Revision,
}

/// The place of a shard.
pub(super) struct Primary<'a> {
    pub name: &'a NodeName,
    pub node: &'a Node,
    pub term: Term,
}

/// The copies that an acknowledged write has, at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copies {
    /// Copies beside that of the primary.
    pub backups: u32,
    /// Whether the primary's copy survives power loss.
    pub primary_survives_power: bool,
    /// Copies beside that of the primary that survive power loss.
    pub backups_that_survive_power: u32,
}

/// The latest map that this client knows.
pub(super) struct Maps {
    store: Rc<dyn ConfigStore>,
    runtime: Rc<dyn Runtime>,
    latest: RefCell<Rc<Map>>,
    /// Held by the one call that reads.
    reading: FairLock,
    /// Requests to the store so far.
    reads: Cell<u64>,
    /// The number of the latest request that was answered, counted from 1.
    answered: Cell<u64>,
    /// The time before which no request is sent.
    pause_until: Cell<Nanoseconds>,
}

impl Map {
    /// Length of the lease of a primary.
    pub fn lease_ns(&self) -> Nanoseconds {
        self.configuration.policy.lease.duration_ns
    }

    /// Number of shards.
    pub fn shards(&self) -> u32 {
        self.configuration.policy.shards
    }

    /// A shard of each primary, in the order of the shards.
    pub fn first_shards(&self) -> impl Iterator<Item = u32> {
        let mut seen = BTreeSet::new();
        (0..self.shards()).filter(move |&shard| seen.insert(self.place(shard).name))
    }

    /// Whether writes to all shards survive a power loss.
    pub fn survives_power(&self) -> bool {
        let mut groups = self.configuration.groups.iter();
        groups.all(|group| self.configuration.survives(group) == Durability::Power)
    }

    /// The copies that every acknowledged write of `shards` has.
    pub fn copies(&self, shards: impl Iterator<Item = u32>) -> Option<Copies> {
        let on_disk = |name: &NodeName| {
            self.configuration.nodes[name].survives.parse() == Ok(Durability::Power)
        };
        let of_shard = |shard| {
            let group = self.group(shard);
            Copies {
                backups: group.backups().count() as u32,
                primary_survives_power: on_disk(&group.primary),
                backups_that_survive_power: group.backups().filter(|name| on_disk(name)).count()
                    as u32,
            }
        };
        shards.map(of_shard).reduce(Copies::and)
    }

    fn group(&self, shard: u32) -> &Group {
        let first = HashRange::even(shard, self.shards()).first;
        let group = self.configuration.group_of_hash(first);
        group.expect("ranges cover all hashes, as decoding has checked")
    }

    /// The place of `shard`.
    pub fn place(&self, shard: u32) -> Primary<'_> {
        let group = self.group(shard);
        Primary {
            name: &group.primary,
            node: &self.configuration.nodes[&group.primary],
            term: group.term,
        }
    }
}

impl Copies {
    /// The copies that two writes both have.
    fn and(self, other: Self) -> Self {
        let survive = self.backups_that_survive_power;
        Self {
            backups: self.backups.min(other.backups),
            primary_survives_power: self.primary_survives_power && other.primary_survives_power,
            backups_that_survive_power: survive.min(other.backups_that_survive_power),
        }
    }
}

impl Primary<'_> {
    /// Whether both have the same primary, in the same term.
    pub fn leads_like(&self, other: &Primary<'_>) -> bool {
        (self.name, self.term) == (other.name, other.term)
    }
}

impl Maps {
    /// Reads the configuration in `store`.
    pub async fn read(
        store: Rc<dyn ConfigStore>,
        runtime: Rc<dyn Runtime>,
    ) -> Result<Self, ClusterError> {
        let map = read(&*store).await?;
        Ok(Self {
            store,
            runtime,
            latest: RefCell::new(Rc::new(map)),
            reading: FairLock::default(),
            reads: Cell::new(1),
            answered: Cell::new(1),
            pause_until: Cell::new(0),
        })
    }

    /// The latest map.
    pub fn latest(&self) -> Rc<Map> {
        self.latest.borrow().clone()
    }

    /// The name of the configuration store.
    pub fn store_name(&self) -> String {
        self.store.name().to_owned()
    }

    /// Requests to the configuration store so far.
    pub fn reads(&self) -> u64 {
        self.reads.get()
    }

    /// The map of a read that begins after this call, so that it is not older than any write that was acknowledged
    /// before.
    pub async fn current(&self) -> Result<Rc<Map>, ClusterError> {
        let begun_before = self.reads.get();
        while self.answered.get() <= begun_before {
            self.renew(&self.latest()).await?;
        }
        Ok(self.latest())
    }

    /// Reads the configuration again, unless a read that began after this call has been answered. Returns whether the
    /// map is a later one than `seen`.
    pub async fn renew(&self, seen: &Rc<Map>) -> Result<bool, ClusterError> {
        let begun_before = self.reads.get();
        let _turn = self.reading.lock().await;
        if !Rc::ptr_eq(&self.latest(), seen) {
            return Ok(true);
        }
        if self.answered.get() > begun_before {
            return Ok(false);
        }
        self.runtime.sleep_until(self.pause_until.get()).await;
        let pause_until = self.runtime.now().saturating_add(PAUSE_NS);
        self.pause_until.set(pause_until);
        self.reads.set(self.reads.get() + 1);
        let map = read(&*self.store).await?;
        self.answered.set(self.reads.get());
        if map.shards() != seen.shards() {
            return Err(ClusterError::Shards {
                store: self.store.name().to_owned(),
                found: map.shards(),
                expected: seen.shards(),
            });
        }
        let is_later = map.revision > seen.revision;
        if is_later {
            *self.latest.borrow_mut() = Rc::new(map);
        }
        Ok(is_later)
    }
}

async fn read(store: &dyn ConfigStore) -> Result<Map, ClusterError> {
    let name = || store.name().to_owned();
    let stored = store.read().await.map_err(ClusterError::Configuration)?;
    let stored = stored.ok_or_else(|| ClusterError::NoConfiguration { store: name() })?;
    let configuration = Configuration::decode(&stored.bytes).map_err(|source| {
        let store = name();
        ClusterError::Unreadable { store, source }
    })?;
    // The groups cover all hashes, or no group exists.
    if configuration.group_of_hash(0).is_none() {
        return Err(ClusterError::NotPlaced { store: name() });
    }
    Ok(Map {
        configuration,
        revision: stored.revision,
    })
}

#[cfg(test)]
mod tests {
    use stonecast_cluster::{Attempt, Nonce, Policy, Start};
    use stonecast_media::{Ddio, DeclaredPlatform, PersistenceDomain, ReceiveBuffers};
    use uuid::Uuid;

    use super::*;

    /// Three nodes, of which `b` survives the death of processes alone. Each leads one of three shards.
    fn map() -> Map {
        let attempt = Attempt {
            writer: "test".to_owned(),
            number: Uuid::from_u128(1),
        };
        let nonce = Nonce::from_u128(1);
        let mut configuration = Configuration::create(nonce, Policy::new(3, 3), attempt);
        for (pool, text) in (1..).zip(["a", "b", "c"]) {
            let survives = match text {
                "b" => Durability::Process,
                _ => Durability::Power,
            };
            let platform = DeclaredPlatform {
                persistence_domain: PersistenceDomain::Dmp,
                ddio: Ddio::Off,
                receive_buffers: ReceiveBuffers::Dram,
            };
            let address = vec![format!("sim:{text}")];
            let node = Node::new(Uuid::from_u128(pool), survives, platform, address);
            let name = text.parse().unwrap();
            configuration = configuration.register(&name, &Start::first(node)).unwrap();
        }
        Map {
            configuration: configuration.place_shards().unwrap(),
            revision: Revision(1),
        }
    }

    /// Needs the promise of each node: a copy on a node that survives no power loss is on no disk.
    #[test]
    fn the_copies_of_writes_to_several_shards_are_those_that_each_of_them_has() {
        let map = map();
        let leads = |name: &str| {
            let leads = |&shard: &u32| map.place(shard).name.to_string() == name;
            (0..3).find(leads).expect("each node leads a shard")
        };
        let (a, b, c) = (leads("a"), leads("b"), leads("c"));
        for (shards, primary_survives_power, backups_that_survive_power) in [
            (&[a][..], true, 1),
            (&[b], false, 2),
            (&[a, c], true, 1),
            (&[a, b, c], false, 1),
        ] {
            let copies = Copies {
                backups: 2,
                primary_survives_power,
                backups_that_survive_power,
            };
            assert_eq!(
                map.copies(shards.iter().copied()),
                Some(copies),
                "{shards:?}"
            );
        }
        assert_eq!(map.copies([].into_iter()), None);
    }
}
