//! Copies that follow an heir: the history comes first, then the entries, some at a time.

use std::collections::VecDeque;

use stonecast_replication::Lineage;

use crate::memory::Cell;
use crate::node::{Role, any};
use crate::settling::{Letter, Way};
use crate::world::{NODES, World};

/// The most entries of a letter that land at once.
const ENTRIES_AT_ONCE: usize = 4;

/// The rest of a letter whose history the receiver has adopted.
pub struct Arriving {
    pub way: Way,
    cells: VecDeque<Cell>,
}

impl World {
    /// Lets a copy hear the history of an heir: the copy takes the epoch, quiesces and adopts. The entries come later.
    pub(crate) fn follow(&mut self, way: Way, lineage: &Lineage, cells: Vec<Cell>) {
        let (node, shard, term) = (way.to, way.shard, way.term);
        if self.nodes[node].known.group(shard).term != term {
            return;
        }
        for peer in (0..NODES).filter(|&peer| peer != node) {
            self.quiesce(node, peer, term);
        }
        if self.nodes[node]
            .held(shard)
            .step_down()
            .adopt(lineage)
            .is_ok()
        {
            let cells = cells.into();
            self.transit
                .arriving
                .insert((node, shard), Arriving { way, cells });
        }
    }

    /// Lets more of a letter land, or loses the rest of the letter. A copy that has everything makes it durable and
    /// confirms.
    pub(crate) fn arrive(&mut self) {
        let receivers: Vec<_> = self.transit.arriving.keys().copied().collect();
        if receivers.is_empty() {
            return;
        }
        let (node, shard) = receivers[any(&mut self.random, receivers.len())];
        if !self.nodes[node].runs() {
            return;
        }
        let mut arriving = self
            .transit
            .arriving
            .remove(&(node, shard))
            .expect("it arrives");
        if self.chance(10 * self.faults.mail_lost) {
            return self.outcome.befell("partition");
        }
        let count = any(&mut self.random, ENTRIES_AT_ONCE + 1);
        let landing = arriving.cells.len().min(count);
        for cell in arriving.cells.drain(..landing) {
            self.nodes[node].memory.land(cell);
        }
        if !self.keep_history(arriving.way) && !arriving.cells.is_empty() {
            self.transit.arriving.insert((node, shard), arriving);
        }
    }

    /// Lets the copy keep the history that it has adopted, if every entry is there. Returns `false` if an entry is
    /// missing.
    fn keep_history(&mut self, way: Way) -> bool {
        let following = &mut self.nodes[way.to];
        following.scan(way.shard, &mut self.random);
        let held = following.held(way.shard);
        let Role::Copy(copy) = &mut held.role else {
            return true;
        };
        if copy.lineage().term != way.term {
            return true;
        }
        let Some(kept) = copy.to_keep().cloned() else {
            return false;
        };
        copy.kept(way.term);
        held.keep(kept);
        following.memory.persist_all();
        self.post(way.back(), Letter::Confirmed);
        true
    }

    /// Loses the rest of all letters from `node` and to it.
    pub(crate) fn letters_end(&mut self, node: usize) {
        self.transit
            .arriving
            .retain(|_, arriving| arriving.way.from != node && arriving.way.to != node);
    }
}
