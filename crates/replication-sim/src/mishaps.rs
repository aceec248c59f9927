//! Mishaps of nodes.

use stonecast_replication::{Entry, Judgement, Kind, ShardCopy};

use crate::configuration::Group;
use crate::memory::{Cell, earlier_append_key};
use crate::node::{Role, any};
use crate::state::Write;
use crate::world::{NODES, SHARDS, World};

impl World {
    /// Perhaps lets something go wrong.
    pub(crate) fn mishap(&mut self) {
        let node = any(&mut self.random, NODES);
        if self.chance(self.faults.power) && self.nodes[node].is_up {
            self.power_fails(node);
        }
        if self.chance(self.faults.power_everywhere) {
            (0..NODES).for_each(|node| self.power_fails(node));
        }
        if self.chance(self.faults.deaths) && self.nodes[node].is_up {
            self.process_dies(node);
        }
        if self.chance(self.faults.stops) && self.nodes[node].is_up {
            self.nodes[node].stopped = true;
            self.nodes[node].inside = self.chance(10 * self.faults.stops_inside);
            self.outcome.befell("host_hung");
        }
        if self.chance(60) {
            self.nodes[any(&mut self.random, NODES)].stopped = false;
        }
        if self.chance(4) {
            self.nodes[node].is_isolated = false;
        }
        if self.chance(self.faults.connection_ends) {
            self.connection_ends();
        }
        if self.chance(self.faults.foreign) {
            self.foreign_entry(node);
        }
        let shard = any(&mut self.random, SHARDS as usize) as u32;
        let suspects = !self.nodes[self.configuration.group(shard).primary].runs();
        if self.chance(self.faults.changes_of_primary) || suspects && self.chance(20) {
            self.change_primary(shard, true);
        }
        if self.chance(self.faults.isolations) {
            self.isolate_primary(shard);
        }
        if self.chance(self.faults.removes / 8) {
            self.remove_backup(shard);
        }
    }

    fn power_fails(&mut self, node: usize) {
        self.outcome.befell("power_cut");
        self.show(format!("the power of n{node} fails"));
        self.nodes[node].dies();
        let memory = &mut self.nodes[node].memory;
        for _ in 0..memory.power_fails(self.faults.torn, &mut self.random) {
            self.outcome.befell("torn_write");
        }
        self.transit.wires.process_ends(node);
        self.transit.mail.retain(|mail| mail.way.from != node);
        self.letters_end(node);
        if self.chance(10 * self.faults.lost) {
            let shard = any(&mut self.random, SHARDS as usize) as u32;
            self.lose_entry(node, shard);
        }
    }

    fn process_dies(&mut self, node: usize) {
        self.outcome.befell("process_killed");
        self.show(format!("the process of n{node} dies"));
        self.nodes[node].dies();
        self.transit.wires.process_ends(node);
        self.letters_end(node);
    }

    /// Lets a device lose an entry that its node knows to be on all copies. No copy can notice any other loss.
    fn lose_entry(&mut self, node: usize, shard: u32) {
        let group = self.configuration.group(shard);
        let others = self.lossy.iter().any(|&(lossy, _)| lossy == shard);
        if others || group.in_sync.len() < 2 || !group.in_sync.contains(&node) {
            return;
        }
        let losing = &mut self.nodes[node];
        let lineage = losing.held(shard).lineage.clone();
        let words = losing.memory.durable_words(shard);
        let mut counting = words
            .iter()
            .filter(|word| lineage.judge(word.point) == Judgement::Counts);
        let Some(last) = counting.next_back() else {
            return;
        };
        let mut left = losing.memory.clone();
        left.lose(shard, last.point);
        let found = left.entries_after(0, shard);
        let copy = ShardCopy::recover(shard, lineage, found).expect("the term was entered");
        if copy.end().version < copy.needed() {
            losing.memory = left;
            self.lossy.insert((shard, node));
            self.outcome.befell("lost_write");
            self.show(format!(
                "the device of n{node} loses {} of shard {shard}",
                last.point
            ));
        }
    }

    /// Puts an entry of the cluster before it was restored into the memory of a node, behind the last one.
    fn foreign_entry(&mut self, node: usize) {
        let shard = any(&mut self.random, SHARDS as usize) as u32;
        let Some(copy) = self.nodes[node].held(shard).copy() else {
            return;
        };
        let (end, term) = (copy.end(), copy.lineage().term);
        if term.0 == 0 {
            return;
        }
        let entry = Entry {
            shard,
            term,
            version: end.version + 1,
            previous: end.version,
            horizon: end.version,
            kind: Kind::Record,
        };
        let write = Write {
            number: u64::MAX,
            key: 0,
            present: true,
        };
        let mut cell = Cell::new(&earlier_append_key(node), entry, Some(write));
        cell.durable = true;
        self.nodes[node].memory.land(cell);
        self.outcome.befell("hostile_client");
    }

    pub(crate) fn start_somebody(&mut self) {
        let Some(node) = (0..NODES).find(|&node| !self.nodes[node].is_up) else {
            return;
        };
        self.nodes[node].start(&mut self.random);
        self.hear_configuration(node);
        for shard in 0..SHARDS {
            let Role::Copy(copy) = self.nodes[node].role(shard) else {
                continue;
            };
            let is_named = self.configuration.group(shard).in_sync.contains(&node);
            if let Err(incomplete) = copy.is_complete()
                && is_named
            {
                self.withdraw(node, shard, incomplete);
            }
        }
    }

    /// Makes a copy in sync the primary of the next configuration, by compare-and-set. The old primary may be removed.
    pub(crate) fn change_primary(&mut self, shard: u32, with_removals: bool) {
        let group = self.configuration.group(shard);
        let old = group.primary;
        let up = |&node: &usize| self.nodes[node].is_up;
        let in_sync: Vec<_> = group.in_sync.iter().copied().filter(up).collect();
        if in_sync.is_empty() {
            return;
        }
        let may_remove = with_removals && group.in_sync.len() > 2;
        let heir = in_sync[any(&mut self.random, in_sync.len())];
        let removes = self.chance(10 * self.faults.removes);
        self.configuration.name_primary(shard, heir);
        if removes && may_remove && heir != old {
            let leave = |group: &mut Group| _ = group.in_sync.remove(&old);
            self.configuration.change(shard, leave);
        }
        self.show(format!(
            "the configuration names n{heir} primary of shard {shard}"
        ));
    }

    /// Lets the primary of the configuration have a copy removed.
    fn remove_backup(&mut self, shard: u32) {
        let group = self.configuration.group(shard);
        let (primary, term) = (group.primary, group.term);
        let backup = group.in_sync.iter().copied().find(|&copy| copy != primary);
        let leads = self.nodes[primary].runs() && self.nodes[primary].leads(shard) == Some(term);
        let Some(backup) = backup.filter(|_| leads) else {
            return;
        };
        let leave = |group: &mut Group| _ = group.in_sync.remove(&backup);
        self.configuration.change(shard, leave);
        self.show(format!(
            "the configuration is without n{backup} in shard {shard}"
        ));
        self.hear_configuration(primary);
    }
}
