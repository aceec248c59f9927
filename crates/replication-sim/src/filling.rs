//! Joins: a node that was removed comes back with nothing, and the primary fills it.

use stonecast_cluster::Term;
use stonecast_replication::{Lineage, ShardCopy};

use crate::node::Leader;
use crate::settling::{Letter, Way};
use crate::state::State;
use crate::world::{NODES, World, name};

impl World {
    /// Takes a step towards another copy, if `node` is the primary of the configuration.
    pub(crate) fn fill(&mut self, node: usize, shard: u32) {
        let group = self.configuration.group(shard);
        let Some(joiner) = group.missing() else {
            return;
        };
        if self.nodes[node].leads(shard) != Some(group.term) {
            return;
        }
        let way = Way {
            shard,
            term: group.term,
            from: node,
            to: joiner,
        };
        let leader = self.nodes[node].leader(shard).expect("it leads");
        let filling = leader.filling.filter(|&(filled, _)| filled == joiner);
        match filling {
            Some(_) if self.chance(20) => self.begin_to_fill(way),
            Some((_, join)) => self.go_on_filling(way, join),
            None if self.chance(150) => self.begin_to_fill(way),
            None => {}
        }
    }

    fn begin_to_fill(&mut self, way: Way) {
        self.grants.last_join += 1;
        let join = self.grants.last_join;
        self.connect_anew(way.from, way.to);
        let leader = self.nodes[way.from].leader(way.shard).expect("it leads");
        // A joiner that is awaited and not yet named also begins again.
        leader.primary.removed(&name(way.to));
        let lineage = leader.primary.fill(&name(way.to), join);
        leader.filling = Some((way.to, join));
        self.post(way, Letter::Drop(join, lineage));
    }

    fn go_on_filling(&mut self, way: Way, join: u64) {
        let joiner = name(way.to);
        let published = self.nodes[way.from].held(way.shard).state.clone();
        let leader = self.nodes[way.from].leader(way.shard).expect("it leads");
        if !leader.primary.admit(&joiner) {
            return self.post(way, Letter::Pull(join, published));
        }
        // The compare-and-set may not reach the store, may fail there, or may succeed unheard.
        if self.chance(300) || self.nodes[way.from].epoch != self.configuration.epoch {
            return;
        }
        self.configuration
            .change(way.shard, |group| _ = group.in_sync.insert(way.to));
        self.lossy.remove(&(way.shard, way.to));
        self.outcome.counts.joins += 1;
        self.show(format!(
            "n{} is a copy of shard {} again",
            way.to, way.shard
        ));
        if !self.chance(300) {
            self.hear_configuration(way.from);
        }
    }

    /// Lets the joiner durably forget its copy. The joiner's memory still has entries of its earlier life.
    pub(crate) fn drop_copy(&mut self, way: Way, join: u64, lineage: Lineage) {
        if !self.is_present(way) || join <= self.nodes[way.to].held(way.shard).join {
            return;
        }
        for peer in (0..NODES).filter(|&peer| peer != way.to) {
            self.quiesce(way.to, peer, way.term);
        }
        let joining = &mut self.nodes[way.to];
        joining.memory.forget_some(way.shard, &mut self.random);
        self.transit.arriving.remove(&(way.to, way.shard));
        let held = joining.held(way.shard);
        held.join = join;
        held.lineage = lineage.clone();
        held.base = State::default();
        held.state = State::default();
        held.begin(ShardCopy::new(way.shard, lineage));
        joining.scan(way.shard, &mut self.random);
        self.post(way.back(), Letter::Dropped(join));
    }

    /// Whether the receiver of a letter knows of no later term than that of the letter.
    fn is_present(&self, way: Way) -> bool {
        self.nodes[way.to].known.group(way.shard).term == way.term
    }

    /// Lets the primary hear that the joiner has forgotten its copy, and append to the joiner.
    pub(crate) fn hear_dropped(&mut self, way: Way, join: u64) {
        if let Some(leader) = self.leader_in(way.to, way.shard, way.term) {
            leader.primary.dropped(&name(way.from), join);
        }
    }

    /// Lets the joiner take the pulled words, unless it has later ones, and keep them durably.
    pub(crate) fn take_pulled(&mut self, way: Way, join: u64, pulled: &State) {
        let held = self.nodes[way.to].held(way.shard);
        if held.join == join && held.lineage.term == way.term {
            held.keep_pulled(pulled);
            self.post(way.back(), Letter::Pulled(join));
        }
    }

    /// Lets the primary hear that the joiner has kept the pulled words.
    pub(crate) fn hear_pulled(&mut self, way: Way, join: u64) {
        if let Some(leader) = self.leader_in(way.to, way.shard, way.term) {
            leader.primary.pulled(&name(way.from), join);
        }
    }

    fn leader_in(&mut self, node: usize, shard: u32, term: Term) -> Option<&mut Leader> {
        let leader = self.nodes[node].leader(shard);
        leader.filter(|leader| leader.primary.term() == term)
    }
}

impl Way {
    /// The way of the answer to a letter.
    pub fn back(self) -> Self {
        Self {
            from: self.to,
            to: self.from,
            ..self
        }
    }
}
