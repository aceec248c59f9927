//! Peers that are kept out while somebody looks at what they have left in the memory.

use std::collections::{BTreeMap, BTreeSet};

use stonecast_backup::{Intake, Silence};
use stonecast_cluster::NodeName;

/// The fences of a node. One queue pair of a peer carries all shards, so a fence for one shard keeps the peer out for all of them; the peer connects again
/// when nobody asks for the fence any more.
#[derive(Debug, Default)]
pub struct Fences {
    /// Peers that are kept out, and whether somebody has asked in this turn.
    kept_out: BTreeMap<NodeName, bool>,
}

impl Fences {
    /// Keeps `peer` out, until nobody asks in a turn. Whether nothing of it lands any more, in the intake whose entries were taken.
    pub fn ask(&mut self, intake: &mut Intake, peer: &NodeName) -> Silence {
        let before = self.kept_out.insert(peer.clone(), true);
        if before.is_none() {
            intake.fence(peer);
        }
        intake.silence(peer)
    }

    /// Ends a turn: lets the peers of `known` in again for whom nobody has asked.
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
