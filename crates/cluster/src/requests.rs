//! The requests of an operator. A request changes the configuration and moves no byte: the nodes act on the new
//! configuration.
//!
//! ```text
//!   request    the copy that is to come joins, the copy that is to go leaves     one change
//!   filling    the primary fills the joiner, and names it as in sync             finish_join
//!   leaving    the copy goes once as many others are in sync as the policy asks  relieved, leave
//! ```
//!
//! Only one request lowers the number of complete copies: [`Configuration::dismiss`] takes a node out at once.

use std::collections::{BTreeMap, BTreeSet};

use crate::changes::Refusal;
use crate::configuration::{Configuration, Group, NodeState, Subject};
use crate::name::NodeName;
use crate::placement::NotPlaced;

/// The number of copies of each node that stay or are to come.
type Loads = BTreeMap<NodeName, usize>;

impl Configuration {
    /// Lets `node` take copies from here on: first copies that groups lack, then copies of the nodes that keep most, up
    /// to the share of `node`. A draining node that is added keeps the copies that it still has.
    pub fn add(&self, node: &NodeName) -> Result<Self, Refusal> {
        if self.node(node)?.state == NodeState::Member {
            return Err(in_state(node, NodeState::Member));
        }
        let mut next = self.next();
        next.become_state(node, NodeState::Member);
        for group in &mut next.groups {
            group.leaving.remove(node);
            while group.kept().count() > usize::from(self.policy.replicas) {
                // The last joiner was meant to replace the copy of `node`. A group without joiners has all of its
                // copies in sync, and keeps them.
                if group.joining.pop_last().is_none() {
                    break;
                }
            }
        }
        next.fill();
        next.give_share(node);
        Ok(next.checked())
    }

    /// Asks for all copies of `node` to go to other nodes. The request is refused unless enough members remain for all
    /// copies.
    pub fn drain(&self, node: &NodeName) -> Result<Self, Refusal> {
        if self.node(node)?.state == NodeState::Draining {
            return Err(in_state(node, NodeState::Draining));
        }
        let mut next = self.next();
        next.become_state(node, NodeState::Draining);
        let (nodes, replicas) = (next.members().count(), usize::from(self.policy.replicas));
        if nodes < replicas && self.groups_of(node).next().is_some() {
            return Err(NotPlaced { replicas, nodes }.into());
        }
        for group in &mut next.groups {
            group.joining.remove(node);
            if group.in_sync.contains(node) {
                group.leaving.insert(node.clone());
            }
        }
        next.fill();
        Ok(next.checked())
    }

    /// Takes `node` out of the cluster. The request is refused if a group would have fewer copies in sync than writes
    /// need. Other members are filled in place of `node`, if there are any.
    ///
    /// `node` need not consent: it leaves all groups at once, so its peers fence it. If `node` starts again, it is a
    /// new node.
    pub fn dismiss(&self, node: &NodeName) -> Result<Self, Refusal> {
        for group in self.groups_of(node) {
            self.spare_copy(group, node)?;
        }
        let mut next = self.remove(node)?;
        next.nodes.remove(node);
        next.fill();
        Ok(next.checked())
    }

    /// Asks for a copy of `subject` to move to `to`, a member. The copy comes from `from`. Without `from` it comes from
    /// a node whose leave costs the group no power zone, if possible, and among these from the node that keeps most
    /// copies. A group that lacks copies gives none away unless `from` is given.
    pub fn move_copy(
        &self,
        subject: &Subject,
        from: Option<&NodeName>,
        to: &NodeName,
    ) -> Result<Self, Refusal> {
        let state = self.node(to)?.state;
        if state != NodeState::Member {
            return Err(in_state(to, state));
        }
        let index = self.index_of(subject)?;
        let group = &self.groups[index];
        if group.has_copy(to) {
            let (node, subject) = (to.clone(), subject.clone());
            return Err(Refusal::HasCopy { node, subject });
        }
        if let Some(node) = group.joining.keys().chain(&group.leaving).next() {
            let (node, subject) = (node.clone(), subject.clone());
            return Err(Refusal::Moves { node, subject });
        }
        if let Some(node) = from.filter(|from| !group.in_sync.contains(*from)) {
            let (node, subject) = (node.clone(), subject.clone());
            return Err(Refusal::NotInSync { node, subject });
        }
        let leaving = match from {
            Some(from) => Some(from.clone()),
            None if self.lacking(group) > 0 => None,
            None => self.dispensable(group, to, &self.loads()),
        };
        let mut next = self.next();
        next.begin_move(index, leaving, to);
        Ok(next.checked())
    }

    /// Whether [`Configuration::take_missing`] has copies for `node`.
    pub fn lacks_copy_of(&self, node: &NodeName) -> bool {
        self.missing_on(node).next().is_some()
    }

    /// Lets `node`, which is there, take copies that groups lack and that no node joins for: the share of `node`, if
    /// other nodes may take some, too. A spare that takes copies is a member from here on. `None`: no copies are
    /// missing for `node`, or `node` drains.
    ///
    /// The other nodes may not be there. A node that repeats the change takes the copies that they leave
    /// in a few changes.
    ///
    /// # Errors
    /// [`Refusal::NoSuchNode`].
    pub fn take_missing(&self, node: &NodeName) -> Result<Option<Self>, Refusal> {
        self.node(node)?;
        let missing: Vec<_> = self.missing_on(node).collect();
        if missing.is_empty() {
            return Ok(None);
        }
        let share = self.share_of(node, missing.len());
        let mut next = self.next();
        next.become_state(node, NodeState::Member);
        for index in missing.into_iter().take(share) {
            next.begin_move(index, None, node);
        }
        Ok(Some(next.checked()))
    }

    /// The number of missing copies that `node` takes: enough to draw level with the other nodes that may take copies.
    /// A node that has its share already takes some of the copies that the others leave.
    fn share_of(&self, node: &NodeName, missing: usize) -> usize {
        let loads = self.loads();
        let takers = loads.iter().filter(|(name, _)| self.lacks_copy_of(name));
        let takers: Vec<_> = takers.map(|(_, load)| load).collect();
        let copies = takers.iter().copied().sum::<usize>() + missing;
        let equal = copies.div_ceil(takers.len());
        let left = missing.div_ceil(2 * takers.len());
        equal.saturating_sub(loads[node]).max(left)
    }

    /// The groups that lack a copy which `node` may keep.
    fn missing_on<'a>(&'a self, node: &'a NodeName) -> impl Iterator<Item = usize> + 'a {
        let known = self.nodes.get(node);
        let stays = known.is_some_and(|known| known.state != NodeState::Draining);
        let groups = self.groups.iter().enumerate().filter(move |_| stays);
        let lacks = move |group: &Group| self.lacking(group) > 0 && !group.has_copy(node);
        groups
            .filter(move |(_, group)| lacks(group))
            .map(|(index, _)| index)
    }

    /// The groups that `node` is to leave and can leave now: as many other nodes are in sync and stay as the policy
    /// asks for.
    pub fn relieved<'a>(&'a self, node: &'a NodeName) -> impl Iterator<Item = &'a Group> {
        let replicas = usize::from(self.policy.replicas);
        let leaves = self
            .groups
            .iter()
            .filter(|group| group.leaving.contains(node));
        leaves.filter(move |group| group.in_sync.difference(&group.leaving).count() >= replicas)
    }

    /// The number of copies that `group` lacks, and that no joining node will bring. A copy that leaves counts as gone.
    pub(crate) fn lacking(&self, group: &Group) -> usize {
        usize::from(self.policy.replicas).saturating_sub(group.kept().count())
    }

    /// Whether each group of `node` has as many copies in sync without it as writes need.
    pub fn can_spare(&self, node: &NodeName) -> bool {
        let mut groups = self.groups_of(node);
        groups.all(|group| self.spare_copy(group, node).is_ok())
    }

    /// Refuses if `group` has too few copies in sync without `node`.
    pub(crate) fn spare_copy(&self, group: &Group, node: &NodeName) -> Result<(), Refusal> {
        let left = group.in_sync.iter().filter(|name| *name != node).count();
        let min_copies = self.policy.min_copies;
        if group.in_sync.contains(node) && left < min_copies.into() {
            return Err(Refusal::TooFewCopies {
                node: node.clone(),
                subject: group.subject.clone(),
                left,
                min_copies,
            });
        }
        Ok(())
    }

    fn become_state(&mut self, node: &NodeName, state: NodeState) {
        self.nodes.get_mut(node).expect("it is known").state = state;
    }

    fn index_of(&self, subject: &Subject) -> Result<usize, Refusal> {
        let found = self
            .groups
            .binary_search_by(|group| group.subject.cmp(subject));
        found.map_err(|_| Refusal::NoSuchGroup {
            subject: subject.clone(),
        })
    }

    fn members(&self) -> impl Iterator<Item = &NodeName> {
        let members = self
            .nodes
            .iter()
            .filter(|(_, node)| node.state == NodeState::Member);
        members.map(|(name, _)| name)
    }

    fn loads(&self) -> Loads {
        let mut loads: Loads = self.nodes.keys().map(|name| (name.clone(), 0)).collect();
        for name in self.groups.iter().flat_map(Group::kept) {
            *loads.get_mut(name).expect("copies lie on known nodes") += 1;
        }
        loads
    }

    /// Lets leaving copies of members stay, and begins joins, until no group lacks copies or no member is left for
    /// them.
    fn fill(&mut self) {
        let mut loads = self.loads();
        for index in 0..self.groups.len() {
            for _ in 0..self.lacking(&self.groups[index]) {
                let group = &self.groups[index];
                let of_member = |name: &&NodeName| self.nodes[*name].state == NodeState::Member;
                let stays = group.leaving.iter().find(of_member).cloned();
                let joins = self.best_for(group, &loads);
                if let Some(node) = &stays {
                    self.groups[index].leaving.remove(node);
                } else if let Some(node) = &joins {
                    self.begin_move(index, None, node);
                }
                let Some(node) = stays.or(joins) else { break };
                *loads.get_mut(&node).expect("it is known") += 1;
            }
        }
    }

    /// The member for the next copy of `group`. A member in a power zone without a copy is best, and then a member with
    /// few copies.
    fn best_for(&self, group: &Group, loads: &Loads) -> Option<NodeName> {
        let zones: BTreeSet<_> = group.kept().filter_map(|name| self.zone_of(name)).collect();
        let open = self.members().filter(|name| !group.has_copy(name));
        let shares_power =
            |name: &NodeName| self.zone_of(name).is_some_and(|zone| zones.contains(zone));
        open.min_by_key(|name| (shares_power(name), loads[*name]))
            .cloned()
    }

    /// Moves copies of nodes that keep more than their share to `node`, until it has its own.
    fn give_share(&mut self, node: &NodeName) {
        let mut loads = self.loads();
        let share = loads.values().sum::<usize>() / self.members().count();
        for index in 0..self.groups.len() {
            let group = &self.groups[index];
            let is_calm = group.joining.is_empty() && group.leaving.is_empty();
            if loads[node] >= share || !is_calm || group.has_copy(node) {
                continue;
            }
            let from = self.dispensable(group, node, &loads);
            let is_good =
                |from: &NodeName| loads[from] > share && self.keeps_zones(group, from, node);
            let Some(from) = from.filter(is_good) else {
                continue;
            };
            *loads.get_mut(&from).expect("it is known") -= 1;
            *loads.get_mut(node).expect("it is known") += 1;
            self.begin_move(index, Some(from), node);
        }
    }

    /// The node whose copy `group` gives away for a copy on `to`. A node whose leave costs no power zone is best, then
    /// a node that keeps most copies, then a backup.
    fn dispensable(&self, group: &Group, to: &NodeName, loads: &Loads) -> Option<NodeName> {
        let staying = group.in_sync.difference(&group.leaving);
        let worth = |name: &&NodeName| {
            let is_backup = **name != group.primary;
            (self.keeps_zones(group, name, to), loads[*name], is_backup)
        };
        staying.max_by_key(worth).cloned()
    }

    /// Whether `group` lies in as many power zones after its copy moves from `from` to `to`.
    fn keeps_zones(&self, group: &Group, from: &NodeName, to: &NodeName) -> bool {
        let zones_of = |names: BTreeSet<&NodeName>| {
            let zones = names.into_iter().filter_map(|name| self.zone_of(name));
            zones.collect::<BTreeSet<_>>().len()
        };
        let before: BTreeSet<_> = group.kept().collect();
        let others = before.iter().copied().filter(|name| *name != from);
        let after = others.chain([to]).collect();
        zones_of(after) >= zones_of(before)
    }

    fn zone_of(&self, name: &NodeName) -> Option<&str> {
        self.nodes[name].zone.as_deref()
    }

    fn begin_move(&mut self, index: usize, from: Option<NodeName>, to: &NodeName) {
        let group = &mut self.groups[index];
        group.joining.insert(to.clone(), self.epoch);
        group.leaving.extend(from);
    }
}

fn in_state(name: &NodeName, state: NodeState) -> Refusal {
    Refusal::InState {
        name: name.clone(),
        state,
    }
}
