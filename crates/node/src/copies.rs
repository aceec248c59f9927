//! The copies of the shards whose primary a node is, for the operator: which of them lag, and how far joins are.

use stonecast_base::Nanoseconds;
use stonecast_cluster::{Group, NodeName};
use stonecast_media::Durability;

use crate::node::Node;
use crate::shard::{Leads, Role};
use crate::state::{State, number_of};
use crate::store::Store;

/// The part that a copy plays for its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The primary, which serves the shard.
    Leads,
    /// The primary of the configuration, which does not serve the shard: it has no lease, or is an heir on its way.
    TakesOver,
    /// A copy that the primary waits for.
    InSync,
    /// A copy that the primary fills.
    Filled,
    /// A copy that is to be filled, and waits for its turn.
    Waits,
}

/// A copy of a shard, as the primary of the shard sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyStatus {
    /// Number of the shard.
    pub shard: u32,
    /// The node that keeps the copy.
    pub node: NodeName,
    /// The part of the copy.
    pub part: Part,
    /// Whether the node promises that the copy survives a loss of power.
    pub survives_power: bool,
    /// Entries that the copy has not reported.
    pub behind_entries: u64,
    /// Bytes of these entries, as far as they are writes of this term.
    pub behind_bytes: u64,
    /// Time since the first of these writes was stamped.
    pub waits_ns: Nanoseconds,
    /// Time since the node last answered this one.
    pub silent_ns: Nanoseconds,
    /// Bytes of published records that a copy being filled has received.
    pub filled_bytes: u64,
    /// Bytes that such a copy lacks, as an estimate.
    pub left_bytes: u64,
}

/// All copies of the shards whose primary `node` is by the configuration, its own included, in the order of the shards.
pub fn copies_of<S: Store>(node: &Node<S>) -> Vec<CopyStatus> {
    let shared = &node.shared;
    let silence = |node: &NodeName| shared.member.silence(node);
    copies_in(&shared.state.borrow(), shared.runtime.now(), silence)
}

/// The copies, in the order of the shards. `silence` is the time since a node last answered this one.
fn copies_in<C>(
    state: &State<C>,
    now: Nanoseconds,
    silence: impl Fn(&NodeName) -> Nanoseconds,
) -> Vec<CopyStatus> {
    let configuration = &*state.configuration;
    let led = configuration.groups.iter();
    let led = led.filter(|group| group.primary == state.me);
    let led = led.filter_map(|group| Some((number_of(configuration, &group.subject)?, group)));
    let copies = led.flat_map(|(number, group)| {
        let nodes = group.copies();
        nodes.map(move |node| copy_of(state, (number, group), node, now))
    });
    let heard = |copy: CopyStatus| CopyStatus {
        silent_ns: silence(&copy.node),
        ..copy
    };
    copies.map(heard).collect()
}

/// The copy of a shard on `node`.
fn copy_of<C>(
    state: &State<C>,
    (number, group): (u32, &Group),
    node: &NodeName,
    now: Nanoseconds,
) -> CopyStatus {
    let leads = match state.shards.get(&number).map(|shard| &shard.role) {
        Some(Role::Leads(leads)) => Some(&**leads),
        _ => None,
    };
    let part = match (leads, group.in_sync.contains(node)) {
        (Some(_), true) if *node == state.me => Part::Leads,
        (None, true) if *node == state.me => Part::TakesOver,
        (_, true) => Part::InSync,
        (_, false) => Part::Waits,
    };
    let mut copy = CopyStatus {
        shard: number,
        node: node.clone(),
        part,
        survives_power: state.promise(node) == Some(Durability::Power),
        behind_entries: 0,
        behind_bytes: 0,
        waits_ns: 0,
        silent_ns: 0,
        filled_bytes: 0,
        left_bytes: 0,
    };
    match (leads, group.joining.get(node)) {
        (Some(leads), Some(join)) => copy.count_join(leads, join.0),
        (Some(leads), None) => copy.count_behind(leads, now),
        (None, _) => {}
    }
    copy
}

impl CopyStatus {
    /// Counts how far the join of this number is.
    fn count_join<C>(&mut self, leads: &Leads<C>, number: u64) {
        let join = leads.joins.get(&self.node);
        if let Some(join) = join.filter(|join| join.number == number) {
            self.part = Part::Filled;
            (self.filled_bytes, self.left_bytes) = join.progress();
        }
    }

    /// Counts the entries that the copy lacks.
    fn count_behind<C>(&mut self, leads: &Leads<C>, now: Nanoseconds) {
        let primary = &leads.primary;
        let entries = primary.behind().find(|(node, _)| **node == self.node);
        self.behind_entries = entries.map_or(0, |(_, entries)| entries);
        let persisted = primary.persisted_by();
        let persisted = persisted.filter(|(node, _)| **node == self.node);
        for (_, persisted) in persisted {
            let lacks = leads.unsettled.iter();
            let mut lacks = lacks.filter(|write| write.version > persisted).peekable();
            let stamped_at = lacks.peek().map_or(now, |write| write.stamped_at);
            self.waits_ns = now.saturating_sub(stamped_at);
            self.behind_bytes = lacks.map(|write| write.room).sum();
        }
    }
}
