//! The end of a run: no further fault occurs, clients are answered, and all copies come to agree.

use crate::node::Role;
use crate::outcome::Step;
use crate::setup::Faults;
use crate::state::State;
use crate::world::{NODES, SHARDS, World};

/// The number of events within which nodes without faults must have settled everything.
const CALM_EVENTS: usize = 40_000;
/// The number of answers that each client gets when nothing goes wrong.
const CALM_ANSWERS: u64 = 2;

impl World {
    pub(crate) fn calm_down(&mut self) {
        self.faults = Faults::default();
        self.is_calm = true;
        self.outcome.show(Step::Healed);
        for node in &mut self.nodes {
            node.stopped = false;
            node.is_isolated = false;
        }
        self.clients.forget_answers();
        for _ in 0..CALM_EVENTS {
            self.event();
            let answered = self.clients.fewest_answers() >= CALM_ANSWERS;
            if answered && (0..SHARDS).all(|shard| self.is_healthy(shard)) {
                return self.copies_agree();
            }
        }
        panic!("nobody is answered any more: {}", self.tell_shards());
    }

    /// The groups of all shards, and the part that each node plays, for people.
    fn tell_shards(&self) -> String {
        let of_node = |shard: u32, node: usize| match self.nodes[node].role(shard) {
            Role::Down => format!("n{node} is down"),
            Role::Copy(copy) => format!("n{node} is a copy up to {}", copy.end()),
            Role::Heir(takeover) => format!("n{node} takes over: {:?}", takeover.next()),
            Role::Leader(leader) => {
                let (last, horizon) = (leader.primary.last(), leader.primary.horizon());
                format!(
                    "n{node} leads, {horizon} of {last} done, fills {:?}",
                    leader.filling
                )
            }
        };
        let of_shard = |shard: u32| {
            let nodes = (0..NODES).map(|node| of_node(shard, node));
            let nodes: Vec<_> = nodes.collect();
            format!(
                "{:?}; {}",
                self.configuration.group(shard),
                nodes.join("; ")
            )
        };
        let shards: Vec<_> = (0..SHARDS).map(of_shard).collect();
        shards.join("\n")
    }

    /// The configuration's primary serves, holds its lease, stamps, and has all copies.
    fn is_healthy(&self, shard: u32) -> bool {
        let group = self.configuration.group(shard);
        let has_lease = self.grants.leases.contains(&(shard, group.term));
        let leads = self.nodes[group.primary].leads(shard) == Some(group.term);
        has_lease && leads && group.in_sync.len() == NODES
    }

    /// Waits until every copy has everything that its primary has stamped.
    fn copies_agree(&mut self) {
        for _ in 0..CALM_EVENTS {
            self.quiet_event();
            if (0..SHARDS).all(|shard| self.agrees(shard)) {
                return self.show_copies();
            }
        }
        panic!(
            "the copies do not come to have everything: {}",
            self.tell_shards()
        );
    }

    fn agrees(&self, shard: u32) -> bool {
        let primary = self.configuration.group(shard).primary;
        let Role::Leader(leader) = self.nodes[primary].role(shard) else {
            panic!("n{primary} has ended without a fault");
        };
        let state = |node: &crate::node::Node| node.shards[shard as usize].state == leader.decided;
        self.nodes.iter().all(state)
    }

    fn show_copies(&mut self) {
        let of_node = |(number, state): (usize, &State)| {
            let mut words: Vec<_> = state.done.values().copied().collect();
            words.sort_by_key(|word| word.point);
            (number, words)
        };
        let of_shard = |shard: u32| {
            let in_sync = self.configuration.group(shard).in_sync.iter();
            let states =
                in_sync.map(|&node| (node, &self.nodes[node].shards[shard as usize].state));
            states.map(of_node).collect()
        };
        self.outcome.copies = (0..SHARDS).map(of_shard).collect();
    }
}
