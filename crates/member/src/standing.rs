//! The moment at which a copy stands for heir, and the nodes that a primary removes.
//!
//! ```text
//!   last grant of this term over --- turn --> stands
//!   term entered, grants of earlier ones over --- length of a lease without a grant of this term --- turn --> stands
//!   silent for remove_after --> removed from all groups, by a primary that shares one
//!   its process is gone     --> the same at once, if each of its groups keeps the copies that writes need
//! ```
//!
//! The compare-and-set decides, and an heir waits for its own grants. So the moment at which a copy stands affects only
//! progress:
//!
//! - A primary gets the length of a lease to ask for its first grant, from the moment at which it can have a grant.
//!   Otherwise two copies that do not hear each other would depose each other as fast as the store lets them.
//! - Copies stand one after the other, in an order that differs from group to group. A node that has resigned comes
//!   last.
//! - A process that is gone answers no request, so no write of its groups is acknowledged until the node is removed.
//!   Its removal is safe at any time, and leaves a node to be filled. Where too few copies would be left, the node gets
//!   the time to start again.
//! - The smaller side of a partition waits: before it stands, as long as others wait before they remove, and before it
//!   removes, twice as long. So the larger side goes on, and a single survivor goes on later.

use std::collections::BTreeMap;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::{Configuration, Grants, Group, NodeName, Refusal, Subject, Term};

use crate::leads::Leads;
use crate::silence::Silence;

/// Turns in the length of a lease: two copies stand at least one turn apart.
const TURNS_PER_LEASE: u64 = 8;

/// The facts on which a decision depends.
pub(crate) struct View<'a> {
    pub node: &'a NodeName,
    pub configuration: &'a Configuration,
    pub grants: &'a Grants,
    pub leads: &'a Leads,
    pub silence: &'a Silence,
}

/// The moments at which the terms of groups were entered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing {
    entered: BTreeMap<Subject, (Term, Nanoseconds)>,
}

impl Standing {
    /// Enters `configuration` at `now`.
    pub fn enter(&mut self, configuration: &Configuration, now: Nanoseconds) {
        let before = std::mem::take(&mut self.entered);
        for group in &configuration.groups {
            let known = before.get(&group.subject);
            let known = known.filter(|(term, _)| *term == group.term);
            let entered = known.copied().unwrap_or((group.term, now));
            self.entered.insert(group.subject.clone(), entered);
        }
    }

    /// The first moment at which this node would stand, as things are.
    pub fn first_due(&self, view: &View<'_>) -> Option<Nanoseconds> {
        let groups = view.configuration.groups.iter().enumerate();
        groups
            .filter_map(|(place, group)| self.stands_at(view, place, group))
            .min()
    }

    /// Returns the configuration in which this node leads the groups for which it stands, and without the nodes that
    /// are lost. `None` if neither is due.
    pub fn decide(
        &self,
        view: &View<'_>,
        now: Nanoseconds,
    ) -> Result<Option<Configuration>, Refusal> {
        let present = view.configuration;
        let mut next = None;
        for (place, group) in present.groups.iter().enumerate() {
            let stands_at = self.stands_at(view, place, group);
            if stands_at.is_some_and(|at| at <= now) {
                let from = next.as_ref().unwrap_or(present);
                let removes = mutant!(RemovedByPause) && group.primary != *view.node;
                next = Some(match removes {
                    true => from.remove(&group.primary)?,
                    false => from.take_lead(&group.subject, view.node)?,
                });
            }
        }
        for node in present.nodes.keys() {
            // Of two dead nodes a group may be able to spare one.
            let from = next.as_ref().unwrap_or(present);
            if view.is_lost(node, from) {
                next = Some(from.remove(node)?);
            }
        }
        Ok(next)
    }

    /// The moment at which this node stands for `group`; `None` if it leads the group, or may not stand.
    fn stands_at(&self, view: &View<'_>, place: usize, group: &Group) -> Option<Nanoseconds> {
        let leads = group.primary == *view.node && !view.leads.has_resigned(group);
        let may = group.in_sync.contains(view.node)
            || mutant!(StrangerPromoted) && group.joining.contains_key(view.node);
        if leads || !may {
            return None;
        }
        let policy = &view.configuration.policy;
        let lease = policy.lease;
        let (_, entered) = *self.entered.get(&group.subject)?;
        let mut over_at = view.grants.over_at(&group.subject);
        if !view
            .grants
            .has_granted(&group.subject, &group.primary, group.term)
        {
            over_at = over_at.max(entered) + lease.awaited(lease.duration_ns);
        }
        let turn = view.rank(place, group) * (lease.duration_ns / TURNS_PER_LEASE);
        let patience = match view.is_minority(group) {
            true => policy.remove_after_ns,
            false => 0,
        };
        Some(over_at + turn + patience)
    }
}

impl View<'_> {
    /// Returns whether `node` has been silent for so long, or is so surely gone, that this node removes it, as the
    /// primary of a group with a copy on `node`.
    fn is_lost(&self, node: &NodeName, next: &Configuration) -> bool {
        let silent = self.silence.of(node);
        let remove_after = self.configuration.policy.remove_after_ns;
        let groups = self.configuration.groups_of(node);
        let mut led = groups
            .filter(|group| group.primary == *self.node && !self.leads.has_resigned(group))
            .peekable();
        if led.peek().is_some() && self.is_gone(node, next) {
            return true;
        }
        led.any(|group| {
            let patience = remove_after * if self.is_minority(group) { 2 } else { 1 };
            silent >= patience
        })
    }

    /// Whether the process of `node` is gone, and each group in `next` has the copies that writes need without it.
    fn is_gone(&self, node: &NodeName, next: &Configuration) -> bool {
        let start = self.configuration.nodes[node].incarnation;
        let is_dead = self.silence.is_dead(node, start);
        is_dead && (next.can_spare(node) || mutant!(DeadBelowMinCopies))
    }

    /// Returns whether this node hears fewer than half of the copies in sync, itself included.
    fn is_minority(&self, group: &Group) -> bool {
        let lease = self.configuration.policy.lease.duration_ns;
        let heard = group
            .in_sync
            .iter()
            .filter(|copy| self.silence.of(copy) <= lease);
        2 * heard.count() < group.in_sync.len()
    }

    /// The number of copies that stand for the group before this copy, if all do.
    fn rank(&self, place: usize, group: &Group) -> u64 {
        let others = group.in_sync.len() - 1;
        let position = group.backups().position(|copy| copy == self.node);
        let rank = position.map_or(others, |position| (position + place) % others);
        rank as u64
    }
}
