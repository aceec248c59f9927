//! Moves: a primary hands its shard over, with its consent.

use stonecast_replication::Consent;

use crate::node::{Role, any};
use crate::settling::{Letter, Way};
use crate::world::World;

impl World {
    /// Takes a step towards a move: a primary drains, ends, has the configuration name its heir, and tells the heir.
    pub(crate) fn move_away(&mut self, node: usize, shard: u32) {
        let moves = self.chance(10 * self.faults.moves);
        let gives_up = self.is_calm || self.chance(50);
        let Some(leader) = self.nodes[node].leader(shard) else {
            return;
        };
        if leader.primary.is_drained() {
            self.hand_over(node, shard);
        } else if gives_up {
            leader.primary.drain(false);
        } else if moves {
            leader.primary.drain(true);
        }
    }

    fn hand_over(&mut self, node: usize, shard: u32) {
        let held = self.nodes[node].held(shard);
        let Role::Leader(leader) = std::mem::replace(&mut held.role, Role::Down) else {
            unreachable!("a primary hands over");
        };
        let term = leader.primary.term();
        held.role = Role::Copy(leader.primary.hand_over());
        let group = self.configuration.group(shard);
        let heirs: Vec<_> = group.in_sync.iter().copied().collect();
        let heir = heirs[any(&mut self.random, heirs.len())];
        // The compare-and-set fails if the configuration has changed.
        if group.term != term || heir == node || self.nodes[node].epoch != self.configuration.epoch
        {
            return;
        }
        self.configuration.name_primary(shard, heir);
        self.hear_configuration(node);
        let to = self.configuration.group(shard).term;
        self.show(format!(
            "n{node} hands shard {shard} over to n{heir} in term {to}"
        ));
        let way = Way {
            shard,
            term: to,
            from: node,
            to: heir,
        };
        // A letter may arrive twice, and late.
        for _ in 0..2 {
            self.post(way, Letter::Consent(Consent { to }));
        }
    }

    /// Lets the heir hear that its predecessor consents.
    pub(crate) fn take_consent(&mut self, way: Way, consent: Consent) {
        let Role::Heir(takeover) = &mut self.nodes[way.to].held(way.shard).role else {
            return;
        };
        takeover.consented(consent);
        self.outcome.counts.moves += 1;
    }
}
