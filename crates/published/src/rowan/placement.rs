//! The places of shards.

use std::cell::RefCell;

use stonecast_base::hash::xxh3_64;

use super::RowanOptions;

/// The servers of each shard, the primary first. The configuration manager of the paper changes it: here its user does.
pub struct Placement {
    servers: RefCell<Vec<Vec<u32>>>,
}

impl Placement {
    /// The first placement: each server is the primary of as many shards, and the backups of its shards take turns.
    pub fn new(options: &RowanOptions) -> Self {
        let RowanOptions {
            servers,
            shards_each,
            copies,
            ..
        } = *options;
        assert!(
            (1..=servers).contains(&copies),
            "each of {copies} copies has a server of its own"
        );
        let of = |shard: u32| {
            let (primary, turn) = (shard % servers, shard / servers);
            let others = servers.max(2) - 1;
            let backup = |copy: u32| (primary + 1 + (turn + copy) % others) % servers;
            std::iter::once(primary)
                .chain((0..copies - 1).map(backup))
                .collect()
        };
        let servers = RefCell::new((0..servers * shards_each).map(of).collect());
        Self { servers }
    }

    /// The number of shards.
    pub fn shards(&self) -> u16 {
        self.servers.borrow().len() as u16
    }

    /// The shard of a key.
    pub fn shard_of(&self, key: u64) -> u16 {
        (xxh3_64(0, &key.to_le_bytes()) % u64::from(self.shards())) as u16
    }

    /// The primary of a shard.
    pub fn primary(&self, shard: u16) -> u32 {
        self.servers.borrow()[usize::from(shard)][0]
    }

    /// The backups of a shard.
    pub fn backups(&self, shard: u16) -> Vec<u32> {
        self.servers.borrow()[usize::from(shard)][1..].to_vec()
    }

    /// Replaces the servers of a shard.
    pub fn place(&self, shard: u16, servers: &[u32]) {
        self.servers.borrow_mut()[usize::from(shard)] = servers.to_vec();
    }
}
