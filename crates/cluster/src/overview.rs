//! The state of a cluster, derived from its configuration: the copies of each node, the failures that an
//! acknowledgement survives, and the needs of the cluster.
//!
//! A configuration lags behind the present moment: it still names a node that has just failed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use stonecast_media::Durability;

use crate::configuration::{Configuration, Group, NodeState, Subject};
use crate::name::NodeName;

/// The state of a cluster.
#[derive(Clone, Debug)]
pub struct Overview<'a> {
    /// The copies of each node.
    pub held: BTreeMap<&'a NodeName, Held>,
    /// The groups, gathered by their copies. Groups that lack the most copies come first.
    pub placements: Vec<Placement<'a>>,
    /// The failures that every acknowledged write survives: the promise of the weakest copy in sync. `None` without a
    /// group.
    pub survives: Option<Durability>,
    /// The nodes in sync that promise no more than `survives`, if others promise more.
    pub weakest: BTreeSet<&'a NodeName>,
    /// The needs of the cluster, the most urgent first.
    pub needs: Vec<Need>,
}

/// Numbers of groups of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Groups that the node leads.
    pub leads: usize,
    /// Groups with which the node is in sync, including those that it leads.
    pub in_sync: usize,
    /// Groups that the node joins.
    pub joins: usize,
    /// Groups that the node leaves. The node stays in sync with the groups until it has left.
    pub leaves: usize,
}

/// Groups with the same copies.
#[derive(Clone, Debug)]
pub struct Placement<'a> {
    /// One of the groups: all have its primary, its nodes in sync, its joiners and its leavers.
    pub group: &'a Group,
    /// The numbers of the shards among the groups, as ranges.
    pub shards: Vec<RangeInclusive<u32>>,
    /// The names of the back-ends among the groups.
    pub back_ends: Vec<&'a str>,
    /// The number of copies that each group lacks and that no joining node will bring.
    pub missing: usize,
}

impl Placement<'_> {
    /// The number of shards among the groups.
    pub fn shard_count(&self) -> usize {
        self.shards.iter().map(|range| range.clone().count()).sum()
    }
}

/// A need of a cluster, or a step that it is taking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// Groups with fewer copies in sync than writes need.
    WritesRefused {
        /// Number of groups.
        groups: usize,
        /// Copies in sync of the group that has the fewest.
        fewest: usize,
    },
    /// There are too few nodes to place the shards.
    Nodes {
        /// Nodes that have to register.
        missing: usize,
    },
    /// Enough nodes are registered, but the shards are not placed yet.
    Placing,
    /// Groups lack copies that no joining node will bring.
    Copies {
        /// Number of groups.
        groups: usize,
        /// Spares that keep nothing.
        spares: Vec<NodeName>,
    },
    /// Copies that are being filled.
    Filling {
        /// Number of copies.
        copies: usize,
    },
    /// Copies that go once others have replaced them.
    Leaving {
        /// Number of copies.
        copies: usize,
    },
    /// Draining nodes that no longer keep a copy.
    Drained {
        /// The names of the nodes.
        nodes: Vec<NodeName>,
    },
    /// Spares that keep nothing, although no copy is missing.
    Spares {
        /// The names of the nodes.
        nodes: Vec<NodeName>,
    },
}

impl Configuration {
    /// The state of the cluster.
    pub fn overview(&self) -> Overview<'_> {
        let promises = self.groups.iter().map(|group| self.survives(group));
        let survives = promises.min_by_key(|&promise| promise == Durability::Power);
        Overview {
            held: self.held(),
            placements: self.placements(),
            survives,
            weakest: self.weakest(),
            needs: self.needs(),
        }
    }

    fn held(&self) -> BTreeMap<&NodeName, Held> {
        let nodes = self.nodes.keys().map(|name| (name, Held::default()));
        let mut held: BTreeMap<_, _> = nodes.collect();
        let mut of = |name, count: fn(&mut Held) -> &mut usize| {
            *count(held.get_mut(name).expect("copies lie on known nodes")) += 1;
        };
        for group in &self.groups {
            of(&group.primary, |held| &mut held.leads);
            group
                .in_sync
                .iter()
                .for_each(|name| of(name, |held| &mut held.in_sync));
            group
                .joining
                .keys()
                .for_each(|name| of(name, |held| &mut held.joins));
            group
                .leaving
                .iter()
                .for_each(|name| of(name, |held| &mut held.leaves));
        }
        held
    }

    fn placements(&self) -> Vec<Placement<'_>> {
        let mut placements: BTreeMap<_, Placement<'_>> = BTreeMap::new();
        for (index, group) in (0..).zip(&self.groups) {
            let joining: Vec<_> = group.joining.keys().collect();
            let missing = self.lacking(group);
            // Groups that lack more come first.
            let key = (
                usize::MAX - missing,
                &group.primary,
                &group.in_sync,
                (joining, &group.leaving),
            );
            let placement = placements.entry(key).or_insert_with(|| Placement {
                group,
                shards: Vec::new(),
                back_ends: Vec::new(),
                missing,
            });
            match &group.subject {
                // The ranges of hashes stand before the back-ends, so the index is the number of the shard.
                Subject::Keys(_) => extend(&mut placement.shards, index),
                Subject::BackEnd(name) => placement.back_ends.push(name),
            }
        }
        placements.into_values().collect()
    }

    fn weakest(&self) -> BTreeSet<&NodeName> {
        let in_sync: BTreeSet<_> = self
            .groups
            .iter()
            .flat_map(|group| &group.in_sync)
            .collect();
        let promise = |name: &NodeName| self.nodes[name].survives.parse();
        let (weak, strong): (BTreeSet<_>, BTreeSet<_>) = in_sync
            .into_iter()
            .partition(|name| promise(name) == Ok(Durability::Process));
        if strong.is_empty() {
            BTreeSet::new()
        } else {
            weak
        }
    }

    fn needs(&self) -> Vec<Need> {
        let mut needs = Vec::new();
        let in_sync = self.groups.iter().map(|group| group.in_sync.len());
        let refused = in_sync.filter(|&copies| copies < self.policy.min_copies.into());
        if let (groups @ 1.., Some(fewest)) = (refused.clone().count(), refused.min()) {
            needs.push(Need::WritesRefused { groups, fewest });
        }
        needs.extend(self.placement_need());
        let spares = self.idle(NodeState::Spare);
        let lacking = self.groups.iter().filter(|group| self.lacking(group) > 0);
        let groups = lacking.count();
        if groups > 0 {
            needs.push(Need::Copies { groups, spares });
        } else if !spares.is_empty() && !self.groups.is_empty() {
            needs.push(Need::Spares { nodes: spares });
        }
        let copies = self.groups.iter().map(|group| group.joining.len()).sum();
        if copies > 0 {
            needs.push(Need::Filling { copies });
        }
        let copies = self.groups.iter().map(|group| group.leaving.len()).sum();
        if copies > 0 {
            needs.push(Need::Leaving { copies });
        }
        let nodes = self.idle(NodeState::Draining);
        if !nodes.is_empty() {
            needs.push(Need::Drained { nodes });
        }
        needs
    }

    /// The nodes in `state` that keep nothing.
    fn idle(&self, state: NodeState) -> Vec<NodeName> {
        let nodes = self.nodes.iter().filter(|(_, node)| node.state == state);
        let idle = nodes.filter(|(name, _)| self.groups_of(name).next().is_none());
        idle.map(|(name, _)| name.clone()).collect()
    }

    /// The need that must be met before the shards are placed.
    fn placement_need(&self) -> Option<Need> {
        let placed = |group: &Group| matches!(group.subject, Subject::Keys(_));
        if self.policy.shards == 0 || self.groups.iter().any(placed) {
            return None;
        }
        let nodes = self.nodes.values();
        let open = nodes.filter(|node| node.state != NodeState::Draining);
        let missing = usize::from(self.policy.replicas).saturating_sub(open.count());
        Some(match missing {
            0 => Need::Placing,
            missing => Need::Nodes { missing },
        })
    }
}

/// Adds `number`, which is higher than all numbers in `ranges`.
fn extend(ranges: &mut Vec<RangeInclusive<u32>>, number: u32) {
    match ranges.last_mut() {
        Some(last) if last.end() + 1 == number => *last = *last.start()..=number,
        _ => ranges.push(number..=number),
    }
}
