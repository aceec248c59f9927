//! How a node that was removed comes back: with nothing, and filled by the primary.

use stonecast_cluster::Term;
use stonecast_replication::{Lineage, ShardCopy};

use super::node::{Role, SHARD};
use super::oracle::Index;
use super::{Join, Letter, Mail, NODES, World, name};

impl World {
    /// Takes a step towards having another copy. Only the primary of the configuration does.
    pub fn fill(&mut self, node: usize) {
        let term = self.configuration.term;
        let leads = self.configuration.primary == node && self.nodes[node].epoch == term;
        let in_sync = &self.configuration.in_sync;
        let joiner = (0..NODES).find(|node| !in_sync.contains(node));
        let (Some(joiner), true) = (joiner, leads && self.nodes[node].leads()) else {
            return;
        };
        let begins_anew = self.chance(20);
        let join = self.joins.get(&joiner).copied();
        match join.filter(|join| join.term == term && !begins_anew) {
            None if self.chance(150) => self.begin_to_fill(node, joiner, term),
            Some(join) if join.dropped => self.go_on_filling(node, joiner, join),
            _ => {}
        }
    }

    fn begin_to_fill(&mut self, node: usize, joiner: usize, term: Term) {
        let Role::Primary(primary, _) = &mut self.nodes[node].role else {
            unreachable!("the node leads");
        };
        // A joiner that is awaited, and was not named yet, begins anew, too.
        primary.removed(&name(joiner));
        let lineage = primary.fill(&name(joiner));
        self.wires.remove(&(term, node, joiner));
        self.last_join += 1;
        let join = Join {
            term,
            number: self.last_join,
            dropped: false,
        };
        self.joins.insert(joiner, join);
        self.post(join, node, joiner, |number| Letter::Drop(number, lineage));
    }

    fn go_on_filling(&mut self, node: usize, joiner: usize, join: Join) {
        let Role::Primary(primary, _) = &mut self.nodes[node].role else {
            unreachable!("the node leads");
        };
        if primary.admit(&name(joiner)) {
            self.configuration.in_sync.insert(joiner);
            self.joins.remove(&joiner);
            self.joined += 1;
        } else if primary.may_pull(&name(joiner)) {
            let published = self.nodes[node].index.clone();
            self.post(join, node, joiner, |number| Letter::Pull(number, published));
        }
    }

    fn post(&mut self, join: Join, from: usize, to: usize, letter: impl FnOnce(u64) -> Letter) {
        self.mail.push(Mail {
            term: join.term,
            from,
            to,
            letter: letter(join.number),
        });
    }

    /// The joiner forgets what it had, durably. Its memory still has entries of its earlier life.
    pub fn drop_copy(&mut self, number: u64, term: Term, node: usize, lineage: Lineage) {
        let join = self
            .joins
            .get_mut(&node)
            .filter(|join| join.number == number);
        let (Some(join), true) = (join, self.nodes[node].epoch <= term) else {
            return;
        };
        join.dropped = true;
        for peer in (0..NODES).filter(|&peer| peer != node) {
            self.quiesce(node, peer, term);
        }
        let held = &mut self.nodes[node];
        held.epoch = term;
        held.lineage = lineage.clone();
        held.base.clear();
        held.index.clear();
        held.role = Role::Copy(ShardCopy::new(SHARD, lineage));
        held.scanned = 0;
        held.scan(&mut self.random);
    }

    /// The joiner takes what it pulled, unless it has something later, and keeps it durably.
    pub fn take_pulled(&mut self, number: u64, mail_from: usize, node: usize, pulled: Index) {
        let join = self.joins.get(&node).copied();
        let Some(join) = join.filter(|join| join.number == number && join.dropped) else {
            return;
        };
        let held = &mut self.nodes[node];
        for index in [&mut held.base, &mut held.index] {
            for (&key, &word) in &pulled {
                let known = index.entry(key).or_insert(word);
                if word.point > known.point {
                    *known = word;
                }
            }
        }
        self.post(join, node, mail_from, Letter::Pulled);
    }

    /// The primary hears that the joiner has kept what it pulled.
    pub fn hear_pulled(&mut self, number: u64, joiner: usize, node: usize) {
        let join = self.joins.get(&joiner);
        if join.is_some_and(|join| join.number == number)
            && let Role::Primary(primary, _) = &mut self.nodes[node].role
        {
            primary.pulled(&name(joiner));
        }
    }
}
