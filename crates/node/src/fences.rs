//! Peers that are kept out while a shard takes the entries that they have left in the memory.

use std::collections::{BTreeMap, BTreeSet};

use stonecast_backup::{Intake, Silence};
use stonecast_cluster::NodeName;

/// The fences of a node. One queue pair of a peer carries all shards, so a fence for one shard keeps the peer out for
/// all of them; the peer connects again when no shard asks for the fence any more.
#[derive(Debug, Default)]
pub struct Fences {
    /// Peers that are kept out, each with whether a shard has asked for that in this turn.
    kept_out: BTreeMap<NodeName, bool>,
}

impl Fences {
    /// Keeps `peer` out, until a turn in which no shard asks for the fence. Returns whether entries of `peer` may still
    /// land in the intake, whose entries the caller has already taken.
    pub fn ask(&mut self, intake: &mut Intake, peer: &NodeName) -> Silence {
        let before = self.kept_out.insert(peer.clone(), true);
        if before.is_none() {
            intake.fence(peer);
        }
        intake.silence(peer)
    }

    /// Whether no peer is kept out.
    pub fn are_none(&self) -> bool {
        self.kept_out.is_empty()
    }

    /// Ends a turn: readmits the peers of `known` whose fence no shard has asked for.
    pub fn end_turn(&mut self, intake: &mut Intake, known: &BTreeSet<NodeName>) {
        self.kept_out.retain(|peer, asked| {
            let stays = std::mem::replace(asked, false);
            if !stays && known.contains(peer) {
                intake.allow(peer.clone());
            }
            stays
        });
    }

    /// Whether `peer` is kept out.
    pub fn keep_out(&self, peer: &NodeName) -> bool {
        self.kept_out.contains_key(peer)
    }
}
