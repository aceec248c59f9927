//! The changes of a configuration. Each change gives the next epoch, or the reason for its refusal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use stonecast_base::mutant;
use stonecast_media::Durability;
use uuid::Uuid;

use crate::configuration::{
    Attempt, Configuration, Epoch, Group, Node, NodeState, Nonce, Policy, Subject, Term,
};
use crate::eligibility::{NotACopy, Start};
use crate::name::NodeName;
use crate::placement::{NotPlaced, place};
use crate::shards::HashRange;

/// A change that the configuration does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The name belongs to another pool.
    #[error(
        "{name} is the name of pool {registered}, and this is pool {found}: choose another name, or remove that node first"
    )]
    NameTaken {
        /// The name.
        name: NodeName,
        /// The pool of that name.
        registered: Uuid,
        /// The pool that asks for the name.
        found: Uuid,
    },
    /// The pool has another name.
    #[error("this pool is registered as {registered}: start the node under that name")]
    PoolNamedOtherwise {
        /// The name of the pool.
        registered: NodeName,
    },
    /// The pool that starts has lost the only complete copy. Nothing is changed, so the pool can be mended, and then
    /// starts with its copy.
    #[error(
        "{node} has the only complete copy of {subject}, and it is lost: {reason}: mend the pool, and start the node again, or give the group up"
    )]
    SoleCopy {
        /// The node.
        node: NodeName,
        /// The group.
        subject: Subject,
        /// The reason why the pool is no copy.
        reason: NotACopy,
    },
    /// No node has this name.
    #[error("there is no node {name}: {}", Known(.known))]
    NoSuchNode {
        /// The name.
        name: NodeName,
        /// The nodes that there are.
        known: Vec<NodeName>,
    },
    /// The request has no meaning for a node in its state.
    #[error("{name} is {}{state}", article(.state))]
    InState {
        /// The node.
        name: NodeName,
        /// The state of the node.
        state: NodeState,
    },
    /// A copy comes or goes, and another move would race with it.
    #[error("a copy of {subject} comes or goes already, on {node}: wait until it has")]
    Moves {
        /// The node that joins or leaves.
        node: NodeName,
        /// The group.
        subject: Subject,
    },
    /// Writes need the copy.
    #[error(
        "without {node}, {subject} has {left} copies in sync, and writes need {min_copies}: fill another copy first"
    )]
    TooFewCopies {
        /// The node.
        node: NodeName,
        /// The group.
        subject: Subject,
        /// Copies in sync without the node.
        left: usize,
        /// Fewest copies in sync with which a group takes writes.
        min_copies: u8,
    },
    /// No group has this subject.
    #[error("the cluster keeps no {subject}")]
    NoSuchGroup {
        /// The subject.
        subject: Subject,
    },
    /// The cluster has a group of this subject already.
    #[error("the cluster keeps {subject} already")]
    GroupExists {
        /// The subject.
        subject: Subject,
    },
    /// Only a node in sync has everything.
    #[error("{node} is not in sync with {subject}")]
    NotInSync {
        /// The node.
        node: NodeName,
        /// The group.
        subject: Subject,
    },
    /// Only the primary knows which copies have everything.
    #[error("{node} does not lead {subject}")]
    NotPrimary {
        /// The node.
        node: NodeName,
        /// The group.
        subject: Subject,
    },
    /// The primary has begun to lead again since, and fills its joiners again.
    #[error("{node} leads {subject} since epoch {known}, and its term of epoch {found} is over")]
    EarlierTerm {
        /// The node.
        node: NodeName,
        /// The group.
        subject: Subject,
        /// The term in which the node is said to lead.
        found: Term,
        /// The term in which the node leads.
        known: Term,
    },
    /// Only a node that joins can have joined.
    #[error("{node} does not join {subject}")]
    NotJoining {
        /// The node.
        node: NodeName,
        /// The group.
        subject: Subject,
    },
    /// The node has left since, and joins again. Nothing that the node received before counts.
    #[error("{node} joins {subject} since epoch {known}, and its join of epoch {found} is over")]
    EarlierJoin {
        /// The node.
        node: NodeName,
        /// The group.
        subject: Subject,
        /// The number of the join that is said to have finished.
        found: Epoch,
        /// The number of the join that is under way.
        known: Epoch,
    },
    /// A group with a complete copy is not given up.
    #[error("{node} has a complete copy of {subject}: remove the lost node, and {node} leads")]
    CopyIsKnown {
        /// The node.
        node: NodeName,
        /// The group.
        subject: Subject,
    },
    /// The node has a copy, or joins.
    #[error("{node} has a copy of {subject}, or is being filled")]
    HasCopy {
        /// The node.
        node: NodeName,
        /// The group.
        subject: Subject,
    },
    /// A primary leaves after another node has taken the lead.
    #[error("{node} leads {subject}: another node has to take the lead first")]
    Leads {
        /// The node.
        node: NodeName,
        /// The group.
        subject: Subject,
    },
    /// There are not enough nodes.
    #[error(transparent)]
    NotPlaced(#[from] NotPlaced),
}

/// The nodes that there are, in words.
struct Known<'a>(&'a [NodeName]);

impl fmt::Display for Known<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(NodeName::as_str).collect();
        match names.len() {
            0 => formatter.write_str("no node is registered"),
            _ => write!(formatter, "the nodes are {}", names.join(", ")),
        }
    }
}

fn article(state: &NodeState) -> &'static str {
    if *state == NodeState::Draining {
        ""
    } else {
        "a "
    }
}

impl Configuration {
    /// The first configuration of a cluster, without nodes and groups.
    pub fn create(nonce: Nonce, policy: Policy, attempt: Attempt) -> Self {
        let created = Self {
            nonce,
            epoch: Epoch(1),
            attempt,
            policy,
            nodes: BTreeMap::new(),
            groups: Vec::new(),
        };
        created.checked()
    }

    /// Registers the start of a node, which is new, or whose pool is known under this name.
    ///
    /// - The node leaves each group if its pool is no copy of the group. If the node led such a group, another node in
    ///   sync leads the group.
    /// - The groups that the node still leads get a new term: nothing that the node stamped before its start is
    ///   continued.
    /// - The joins of the node end: a primary that fills the node begins again.
    pub fn register(&self, name: &NodeName, start: &Start) -> Result<Self, Refusal> {
        let node = &start.node;
        if let Some(known) = self.nodes.get(name).filter(|known| known.pool != node.pool) {
            return Err(Refusal::NameTaken {
                name: name.clone(),
                registered: known.pool,
                found: node.pool,
            });
        }
        let of_this_pool = self.nodes.iter().find(|(_, known)| known.pool == node.pool);
        if let Some((registered, _)) = of_this_pool.filter(|(registered, _)| *registered != name) {
            return Err(Refusal::PoolNamedOtherwise {
                registered: registered.clone(),
            });
        }
        let mut next = self.next();
        let node = match self.nodes.get(name) {
            Some(known) => Node {
                incarnation: known.incarnation + 1,
                state: known.state,
                ..node.clone()
            },
            None => node.clone(),
        };
        next.nodes.insert(name.clone(), node);
        for (index, before) in self.groups.iter().enumerate() {
            let group = &mut next.groups[index];
            group.joining.remove(name);
            if group.primary == *name && !mutant!(EpochReused) {
                group.term = next.epoch;
            }
            if !group.in_sync.contains(name) || mutant!(LostCopyCounts) {
                continue;
            }
            let lost = self.judge(start, &before.subject).err();
            if let Some(reason) = lost
                && !next.take_out(index, name)
            {
                return Err(Refusal::SoleCopy {
                    node: name.clone(),
                    subject: before.subject.clone(),
                    reason,
                });
            }
        }
        Ok(next.checked())
    }

    /// Whether the cluster keeps keys, its shards are not placed yet, and there are enough nodes for their copies.
    pub fn is_to_place_shards(&self) -> bool {
        let placed = |group: &Group| matches!(group.subject, Subject::Keys(_));
        let nodes = self.nodes.values();
        let open = nodes
            .filter(|node| node.state != NodeState::Draining)
            .count();
        let is_wanted = self.policy.shards > 0 && !self.groups.iter().any(placed);
        is_wanted && open >= self.policy.replicas.into()
    }

    /// Places the shards on all nodes that do not drain, which are members from here on.
    pub fn place_shards(&self) -> Result<Self, Refusal> {
        let placed = |group: &&Group| matches!(group.subject, Subject::Keys(_));
        if let Some(group) = self.groups.iter().find(placed) {
            return Err(Refusal::GroupExists {
                subject: group.subject.clone(),
            });
        }
        let mut next = self.next();
        let open = |node: &&mut Node| node.state != NodeState::Draining;
        next.nodes
            .values_mut()
            .filter(open)
            .for_each(|node| node.state = NodeState::Member);
        let shards = self.policy.shards;
        let places = place(&next.zones(), shards, self.policy.replicas.into())?;
        let groups = (0..shards).zip(places).map(|(index, nodes)| {
            let subject = Subject::Keys(HashRange::even(index, shards));
            group(subject, next.epoch, nodes)
        });
        let groups: Vec<_> = groups.collect();
        next.groups.splice(0..0, groups);
        Ok(next.checked())
    }

    /// Begins to keep copies of a back-end's structures, which `primary` has.
    pub fn add_back_end(&self, name: &str, primary: &NodeName) -> Result<Self, Refusal> {
        let subject = Subject::BackEnd(name.to_owned());
        self.node(primary)?;
        let Err(at) = self
            .groups
            .binary_search_by(|group| group.subject.cmp(&subject))
        else {
            return Err(Refusal::GroupExists { subject });
        };
        let mut next = self.next();
        next.groups
            .insert(at, group(subject, next.epoch, vec![primary.clone()]));
        Ok(next.checked())
    }

    /// Makes `heir`, which is in sync, lead from here on. Its predecessor stays a copy.
    pub fn take_lead(&self, subject: &Subject, heir: &NodeName) -> Result<Self, Refusal> {
        self.with_group(subject, |group, epoch| {
            if mutant!(StrangerPromoted) && group.joining.remove(heir).is_some() {
                group.in_sync.insert(heir.clone());
            }
            if !group.in_sync.contains(heir) {
                return Err(Refusal::NotInSync {
                    node: heir.clone(),
                    subject: subject.clone(),
                });
            }
            group.primary = heir.clone();
            group.term = epoch;
            Ok(())
        })
    }

    /// Begins to fill `node`, which keeps nothing of the group yet. The number of the join, in [`Group::joining`], is
    /// the epoch of this change.
    pub fn begin_join(&self, subject: &Subject, node: &NodeName) -> Result<Self, Refusal> {
        self.node(node)?;
        self.with_group(subject, |group, epoch| {
            if group.has_copy(node) {
                return Err(Refusal::HasCopy {
                    node: node.clone(),
                    subject: subject.clone(),
                });
            }
            group.joining.insert(node.clone(), epoch);
            Ok(())
        })
    }

    /// Names `node` as in sync: `node` has received everything in its join with the number `join`. Only the primary,
    /// `by`, may say so, and only in its term. Before that, the primary waits for its appends to `node`, and its lease
    /// includes a grant of `node` ([`PrimaryLease::admit`](crate::PrimaryLease::admit)). Otherwise `node` could depose
    /// the primary, and remove all nodes that granted the lease, while the lease lasts.
    ///
    /// A node that was removed and joins again while it is filled has dropped the content that it got. Its earlier join
    /// never finishes.
    pub fn finish_join(
        &self,
        subject: &Subject,
        (node, join): (&NodeName, Epoch),
        (by, term): (&NodeName, Term),
    ) -> Result<Self, Refusal> {
        self.with_group(subject, |group, _| {
            if group.primary != *by {
                return Err(Refusal::NotPrimary {
                    node: by.clone(),
                    subject: subject.clone(),
                });
            }
            if group.term != term {
                return Err(Refusal::EarlierTerm {
                    node: by.clone(),
                    subject: subject.clone(),
                    found: term,
                    known: group.term,
                });
            }
            let Some(known) = group.joining.remove(node) else {
                return Err(Refusal::NotJoining {
                    node: node.clone(),
                    subject: subject.clone(),
                });
            };
            if known != join && !mutant!(EarlierJoinCounts) {
                return Err(Refusal::EarlierJoin {
                    node: node.clone(),
                    subject: subject.clone(),
                    found: join,
                    known,
                });
            }
            group.in_sync.insert(node.clone());
            Ok(())
        })
    }

    /// Takes `node` out of this group with its consent: `node` was drained, its rights are revoked, and it keeps
    /// nothing of the group. The change is refused if the group would have fewer copies in sync than writes need.
    pub fn leave(&self, subject: &Subject, node: &NodeName) -> Result<Self, Refusal> {
        self.with_group(subject, |group, _| {
            if group.primary == *node {
                return Err(Refusal::Leads {
                    node: node.clone(),
                    subject: subject.clone(),
                });
            }
            self.spare_copy(group, node)?;
            group.leaving.remove(node);
            if group.joining.remove(node).is_none() && !group.in_sync.remove(node) {
                return Err(Refusal::NotInSync {
                    node: node.clone(),
                    subject: subject.clone(),
                });
            }
            Ok(())
        })
    }

    /// Takes `node` out of this group, because its copy lacks versions that were on all copies, or takes no more
    /// entries, as `reason` says. If
    /// `node` led the group, another node in sync leads it. The pool of `node` may have gone back to an earlier state:
    /// its start found nothing missing.
    ///
    /// # Errors
    /// [`Refusal::SoleCopy`]: no other node is in sync, so none has more.
    pub fn lose_copy(
        &self,
        subject: &Subject,
        node: &NodeName,
        reason: NotACopy,
    ) -> Result<Self, Refusal> {
        let mut groups = self.groups.iter();
        let is_in_sync = |group: &Group| group.subject == *subject && group.in_sync.contains(node);
        let Some(index) = groups.position(is_in_sync) else {
            return Err(Refusal::NotInSync {
                node: node.clone(),
                subject: subject.clone(),
            });
        };
        let mut next = self.next();
        match next.take_out(index, node) {
            true => Ok(next.checked()),
            false => Err(Refusal::SoleCopy {
                node: node.clone(),
                subject: subject.clone(),
                reason,
            }),
        }
    }

    /// Removes a silent node from every group: one queue pair carries all copies of the node, so no copy can be fenced
    /// alone.
    ///
    /// The only node in sync stays in its group: no other node has everything.
    pub fn remove(&self, node: &NodeName) -> Result<Self, Refusal> {
        self.node(node)?;
        let mut next = self.next();
        for (index, group) in self.groups.iter().enumerate() {
            if mutant!(FencePerShard) && index > 0 && group.in_sync.contains(node) {
                continue;
            }
            next.take_out(index, node);
        }
        next.nodes.get_mut(node).expect("it is there").state = NodeState::Spare;
        Ok(next.checked())
    }

    /// Sets whether copies are placed on `node`.
    pub fn set_state(&self, node: &NodeName, state: NodeState) -> Result<Self, Refusal> {
        self.node(node)?;
        let mut next = self.next();
        next.nodes.get_mut(node).expect("it is there").state = state;
        Ok(next.checked())
    }

    /// Takes a node that keeps nothing out of the configuration. Its name is free afterwards.
    pub fn forget(&self, node: &NodeName) -> Result<Self, Refusal> {
        self.node(node)?;
        if let Some(group) = self.groups_of(node).next() {
            return Err(Refusal::HasCopy {
                node: node.clone(),
                subject: group.subject.clone(),
            });
        }
        let mut next = self.next();
        next.nodes.remove(node);
        Ok(next.checked())
    }

    /// The failure that an acknowledged write of `group` survives: the promise of the weakest copy in sync.
    pub fn survives(&self, group: &Group) -> Durability {
        let promises = group
            .in_sync
            .iter()
            .map(|name| self.nodes[name].survives.parse());
        let weakest = |promise| promise == Ok(Durability::Process);
        if promises.into_iter().any(weakest) {
            Durability::Process
        } else {
            Durability::Power
        }
    }

    pub(crate) fn node(&self, name: &NodeName) -> Result<&Node, Refusal> {
        let node = self.nodes.get(name);
        node.ok_or_else(|| Refusal::NoSuchNode {
            name: name.clone(),
            known: self.nodes.keys().cloned().collect(),
        })
    }

    fn zones(&self) -> BTreeMap<NodeName, Option<String>> {
        let members = self
            .nodes
            .iter()
            .filter(|(_, node)| node.state == NodeState::Member);
        members
            .map(|(name, node)| (name.clone(), node.zone.clone()))
            .collect()
    }

    /// Takes `node` out of the group at `index`. If `node` leads the group, the node in sync that leads the fewest
    /// groups takes the lead. Returns false if no other node is in sync: `node` stays.
    fn take_out(&mut self, index: usize, node: &NodeName) -> bool {
        let heir = self.heir_without(&self.groups[index], node);
        let group = &mut self.groups[index];
        group.joining.remove(node);
        if group.primary == *node {
            let Some(heir) = heir else { return false };
            group.primary = heir;
            group.term = self.epoch;
        }
        group.in_sync.remove(node);
        group.leaving.remove(node);
        true
    }

    /// The node that leads the fewest groups, among the nodes in sync with `group` without `node`.
    fn heir_without(&self, group: &Group, node: &NodeName) -> Option<NodeName> {
        let leads = |name: &NodeName| {
            self.groups
                .iter()
                .filter(|group| group.primary == *name)
                .count()
        };
        let others = group.in_sync.iter().filter(|name| *name != node);
        others.min_by_key(|name| leads(name)).cloned()
    }

    pub(crate) fn with_group(
        &self,
        subject: &Subject,
        change: impl FnOnce(&mut Group, Epoch) -> Result<(), Refusal>,
    ) -> Result<Self, Refusal> {
        let mut next = self.next();
        let epoch = next.epoch;
        let group = next
            .groups
            .iter_mut()
            .find(|group| group.subject == *subject);
        let group = group.ok_or_else(|| Refusal::NoSuchGroup {
            subject: subject.clone(),
        })?;
        change(group, epoch)?;
        Ok(next.checked())
    }

    pub(crate) fn next(&self) -> Self {
        let mut next = self.clone();
        next.epoch.0 += 1;
        next
    }

    pub(crate) fn checked(self) -> Self {
        self.check()
            .expect("a change gives a configuration that is one");
        self
    }
}

/// A group that is in sync on all of `nodes`. The first node leads.
fn group(subject: Subject, term: Epoch, nodes: Vec<NodeName>) -> Group {
    Group {
        subject,
        term,
        primary: nodes[0].clone(),
        in_sync: BTreeSet::from_iter(nodes),
        joining: BTreeMap::new(),
        leaving: BTreeSet::new(),
    }
}
