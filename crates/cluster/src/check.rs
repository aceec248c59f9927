//! The invariants of every configuration. A value that breaks one is refused when it is read, and is never written.

use stonecast_media::{DeclaredPlatform, Durability};

use crate::configuration::{Configuration, Epoch, Group, Policy, Subject};
use crate::name::NodeName;

/// A configuration that contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Inconsistency {
    /// A number is out of bounds.
    #[error("{what} is {found}; it has to be {min} to {max}")]
    OutOfBounds {
        /// Name of the number.
        what: &'static str,
        /// The number.
        found: u64,
        /// The lowest allowed number.
        min: u64,
        /// The highest allowed number.
        max: u64,
    },
    /// A word is unknown.
    #[error("node {node}: {reason}")]
    UnknownWord {
        /// The node of the word.
        node: NodeName,
        /// The word, and the known words.
        reason: String,
    },
    /// Two nodes have one pool.
    #[error("the nodes {one} and {other} have the same pool")]
    PoolTwice {
        /// One of the nodes.
        one: NodeName,
        /// The other node.
        other: NodeName,
    },
    /// A group names an unknown node.
    #[error("{subject} has a copy on {node}, which is no node of the cluster")]
    UnknownNode {
        /// The group.
        subject: Subject,
        /// The name of the node.
        node: NodeName,
    },
    /// A primary is not in sync.
    #[error("{node} leads {subject} and is not in sync")]
    PrimaryNotInSync {
        /// The group.
        subject: Subject,
        /// The primary.
        node: NodeName,
    },
    /// A node is in sync and joining at once.
    #[error("{node} is in sync with {subject} and joins it")]
    JoinsTwice {
        /// The group.
        subject: Subject,
        /// The node.
        node: NodeName,
    },
    /// A node leaves a group and is not in sync with the group.
    #[error("{node} leaves {subject} and is not in sync")]
    LeavesNothing {
        /// The group.
        subject: Subject,
        /// The node.
        node: NodeName,
    },
    /// A join has not begun.
    #[error("{node} joins {subject} since epoch {join}, and the epoch is {epoch}")]
    JoinAhead {
        /// The group.
        subject: Subject,
        /// The node.
        node: NodeName,
        /// The number of the join.
        join: Epoch,
        /// The epoch of the configuration.
        epoch: Epoch,
    },
    /// A term has not begun.
    #[error("the term of {subject} is {term}, and the epoch {epoch}")]
    TermAhead {
        /// The group.
        subject: Subject,
        /// The term of the group.
        term: Epoch,
        /// The epoch of the configuration.
        epoch: Epoch,
    },
    /// Groups are out of order, or repeated.
    #[error("{subject} does not come after the group before it")]
    OutOfOrder {
        /// The later group.
        subject: Subject,
    },
    /// Some hashes belong to no group, or to two groups.
    #[error("the ranges of hashes do not follow each other at {at:016x}")]
    Gap {
        /// The first of these hashes.
        at: u64,
    },
    /// The number of ranges differs from the policy.
    #[error("there are {found} ranges of hashes, and the policy says {expected}")]
    ShardCount {
        /// The number of ranges.
        found: usize,
        /// The number of shards in the policy.
        expected: u32,
    },
}

/// Longest lease: a minute.
const LEASE_MAX_NS: u64 = 60_000_000_000;

impl Policy {
    /// Checks that the numbers are within their bounds.
    pub fn check(&self) -> Result<(), Inconsistency> {
        let timing = &self.lease;
        let bounds = [
            (
                "the number of replicas",
                self.replicas.into(),
                1,
                Policy::REPLICAS_MAX.into(),
            ),
            (
                "the fewest copies",
                self.min_copies.into(),
                1,
                self.replicas.into(),
            ),
            (
                "the number of shards",
                self.shards.into(),
                0,
                Policy::SHARDS_MAX.into(),
            ),
            (
                "the lease in nanoseconds",
                timing.duration_ns,
                1_000,
                LEASE_MAX_NS,
            ),
            (
                "the drift of clocks in ppm",
                timing.drift_ppm.into(),
                0,
                100_000,
            ),
            (
                "the tick of clocks in nanoseconds",
                timing.tick_ns,
                0,
                timing.duration_ns / 4,
            ),
            (
                "the time to removal in nanoseconds",
                self.remove_after_ns,
                timing.duration_ns,
                u64::MAX,
            ),
        ];
        let outside = bounds
            .into_iter()
            .find(|&(_, found, min, max)| !(min..=max).contains(&found));
        match outside {
            Some((what, found, min, max)) => Err(Inconsistency::OutOfBounds {
                what,
                found,
                min,
                max,
            }),
            None => Ok(()),
        }
    }
}

impl Configuration {
    /// Checks all invariants of the configuration.
    pub fn check(&self) -> Result<(), Inconsistency> {
        self.policy.check()?;
        self.check_nodes()?;
        self.check_order()?;
        self.groups
            .iter()
            .try_for_each(|group| self.check_group(group))
    }

    fn check_nodes(&self) -> Result<(), Inconsistency> {
        for (name, node) in &self.nodes {
            let word = |error: stonecast_media::UnknownName| Inconsistency::UnknownWord {
                node: name.clone(),
                reason: error.to_string(),
            };
            node.survives.parse::<Durability>().map_err(word)?;
            DeclaredPlatform::try_from(&node.platform).map_err(word)?;
            let twin = self
                .nodes
                .iter()
                .find(|(other, twin)| *other < name && twin.pool == node.pool);
            if let Some((other, _)) = twin {
                return Err(Inconsistency::PoolTwice {
                    one: other.clone(),
                    other: name.clone(),
                });
            }
        }
        Ok(())
    }

    /// Checks that subjects ascend, and that ranges of hashes cover all hashes or none.
    fn check_order(&self) -> Result<(), Inconsistency> {
        for pair in self.groups.windows(2) {
            if pair[0].subject >= pair[1].subject {
                return Err(Inconsistency::OutOfOrder {
                    subject: pair[1].subject.clone(),
                });
            }
        }
        let ranges: Vec<_> = self
            .groups
            .iter()
            .filter_map(|group| match group.subject {
                Subject::Keys(range) => Some(range),
                Subject::BackEnd(_) => None,
            })
            .collect();
        let Some(last) = ranges.last() else {
            return Ok(());
        };
        if ranges.len() != self.policy.shards as usize {
            return Err(Inconsistency::ShardCount {
                found: ranges.len(),
                expected: self.policy.shards,
            });
        }
        if ranges[0].first != 0 {
            return Err(Inconsistency::Gap { at: 0 });
        }
        if let Some(pair) = ranges
            .windows(2)
            .find(|pair| pair[0].last.checked_add(1) != Some(pair[1].first))
        {
            return Err(Inconsistency::Gap {
                at: pair[0].last.saturating_add(1),
            });
        }
        if last.last != u64::MAX {
            return Err(Inconsistency::Gap { at: last.last + 1 });
        }
        match ranges.iter().find(|range| range.first > range.last) {
            Some(empty) => Err(Inconsistency::Gap { at: empty.first }),
            None => Ok(()),
        }
    }

    fn check_group(&self, group: &Group) -> Result<(), Inconsistency> {
        let subject = || group.subject.clone();
        if let Some(node) = group.copies().find(|name| !self.nodes.contains_key(*name)) {
            return Err(Inconsistency::UnknownNode {
                subject: subject(),
                node: node.clone(),
            });
        }
        if !group.in_sync.contains(&group.primary) {
            return Err(Inconsistency::PrimaryNotInSync {
                subject: subject(),
                node: group.primary.clone(),
            });
        }
        for (node, &join) in &group.joining {
            let (subject, node) = (subject(), node.clone());
            if group.in_sync.contains(&node) {
                return Err(Inconsistency::JoinsTwice { subject, node });
            }
            if join > self.epoch {
                let epoch = self.epoch;
                return Err(Inconsistency::JoinAhead {
                    subject,
                    node,
                    join,
                    epoch,
                });
            }
        }
        if let Some(node) = group.leaving.difference(&group.in_sync).next() {
            return Err(Inconsistency::LeavesNothing {
                subject: subject(),
                node: node.clone(),
            });
        }
        if group.term > self.epoch {
            return Err(Inconsistency::TermAhead {
                subject: subject(),
                term: group.term,
                epoch: self.epoch,
            });
        }
        Ok(())
    }
}
