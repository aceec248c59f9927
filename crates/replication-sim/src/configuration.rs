//! The configuration: one value that changes by compare-and-set.

use std::collections::BTreeSet;

use stonecast_cluster::{Epoch, NodeName, Term};

use crate::world::{NODES, SHARDS, name};

/// A configuration.
#[derive(Clone, Debug)]
pub struct Configuration {
    pub epoch: Epoch,
    /// The groups, by the numbers of their shards.
    pub groups: Vec<Group>,
}

/// The copies of a shard.
#[derive(Clone, Debug)]
pub struct Group {
    /// The epoch of the change that named the primary.
    pub term: Term,
    pub primary: usize,
    pub in_sync: BTreeSet<usize>,
}

impl Group {
    pub fn names(&self) -> BTreeSet<NodeName> {
        self.in_sync.iter().map(|&node| name(node)).collect()
    }

    /// A node that keeps no copy.
    pub fn missing(&self) -> Option<usize> {
        (0..NODES).find(|node| !self.in_sync.contains(node))
    }
}

impl Configuration {
    /// The configuration in which all nodes keep copies of all shards. The nodes lead the shards in
    /// turn.
    pub fn first() -> Self {
        let group = |shard: u32| Group {
            term: Epoch(1),
            primary: shard as usize % NODES,
            in_sync: (0..NODES).collect(),
        };
        Self {
            epoch: Epoch(1),
            groups: (0..SHARDS).map(group).collect(),
        }
    }

    pub fn group(&self, shard: u32) -> &Group {
        &self.groups[shard as usize]
    }

    /// The next configuration, in which `change` was made to the group of `shard`.
    pub fn change(&mut self, shard: u32, change: impl FnOnce(&mut Group)) {
        self.epoch = Epoch(self.epoch.0 + 1);
        change(&mut self.groups[shard as usize]);
    }

    /// The next configuration, in which `heir` leads `shard` in a term of its own.
    pub fn name_primary(&mut self, shard: u32, heir: usize) {
        let term = Epoch(self.epoch.0 + 1);
        self.change(shard, |group| {
            group.term = term;
            group.primary = heir;
        });
    }
}
