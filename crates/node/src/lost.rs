//! Copies that have lost entries, or take none: the configuration drops them, and their nodes are filled again.
//!
//! ```text
//!   an heir knows of versions that its own copy lacks              the heir reports itself
//!   a copy knows of versions that the history of its heir lacks    the copy reports the heir
//!   a copy that follows lacks entries that were on all copies      the primary, or the heir, reports the copy
//!   a copy takes no entry                                          the primary reports the copy
//! ```
//!
//! A copy whose log has no free segment takes nothing, and may have nothing to commit, so its own patience with the
//! medium does not end. Its node grants leases meanwhile, so the node is not removed for its silence. A primary or
//! an heir that holds its lease, and waits without any progress for longer than a copy may take to end by itself, has
//! the configuration drop the copies that are behind.
//!
//! A start judges its own pool, and a pool that went back to an earlier state looks whole. The other copies know
//! better.

use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_base::mutant;
use stonecast_cluster::{Configuration, NodeName, NotACopy, Refusal, Term};
use stonecast_replication::{LeaseSays, Point, Step};

use crate::heading::lease_says;
use crate::node::Shared;
use crate::shard::{Role, Shard};
use crate::standstill::Standstill;
use crate::state::{State, group_in};
use crate::store::Store;

/// The copies that the configuration is to drop, each with the term of its shard in which the reason was found.
pub type Lost = BTreeMap<(u32, NodeName), (Term, NotACopy)>;

/// The versions that a copy lacks: the copy ends at `found`, and everything up to `horizon` was on all copies.
pub fn gap(found: Point, horizon: u64) -> NotACopy {
    NotACopy::Gap {
        first: found.version + 1,
        horizon,
    }
}

/// Has the configuration take the copy of `node` out of its group.
async fn drop_copy<S: Store>(
    shared: Rc<Shared<S>>,
    (number, node): (u32, NodeName),
    (term, reason): (Term, NotACopy),
) {
    let decide = |present: &Configuration| {
        let group = group_in(present, number).filter(|group| group.term == term);
        let next = match group {
            Some(group) if group.in_sync.contains(&node) => {
                Some(present.lose_copy(&group.subject, &node, reason.clone())?)
            }
            Some(group) if group.joining.contains_key(&node) => {
                Some(present.leave(&group.subject, &node)?)
            }
            Some(_) | None => None,
        };
        Ok::<_, Refusal>(next)
    };
    let dropped = shared.member.change(decide).await;
    shared.end_change(dropped.is_ok()).await;
}

/// Has the configuration drop a copy for which there is a reason.
pub fn step_lost<S: Store>(state: &mut State<S::Call>, shared: &Rc<Shared<S>>) {
    if state.lost.is_empty() {
        return;
    }
    let configuration = state.configuration.clone();
    state.lost.retain(|(number, node), (term, reason)| {
        let group = group_in(&configuration, *number).filter(|group| group.term == *term);
        let is_awaited = matches!(reason, NotACopy::TakesNothing { .. });
        group.is_some_and(|group| {
            group.in_sync.contains(node) || is_awaited && group.joining.contains_key(node)
        })
    });
    let next = state.lost.first_key_value().filter(|_| !state.is_changing);
    if let Some((copy, found)) = next {
        let mut counts = shared.told.counts.get();
        match found.1 {
            NotACopy::TakesNothing { .. } => counts.full += 1,
            _ => counts.lost += 1,
        }
        shared.told.counts.set(counts);
        state.is_changing = true;
        let dropping = drop_copy(shared.clone(), copy.clone(), found.clone());
        shared.runtime.spawn(Box::pin(dropping));
    }
}

/// A wait for copies of a shard.
struct Wait {
    term: Term,
    progress: u64,
    /// The copies that are behind.
    copies: Vec<NodeName>,
}

/// Has the configuration drop the copies for which this node has waited too long.
pub fn step_awaited<S: Store>(state: &mut State<S::Call>, shared: &Shared<S>) {
    let now = shared.runtime.now();
    let waited_ns = shared.options.copy_patience_ns;
    let State {
        shards, lost, me, ..
    } = state;
    for (&number, shard) in shards {
        // Without its lease, the node may wait for a node that is gone.
        let wait = wait_of(shard, me).filter(|wait| {
            lease_says(&shared.member, &shard.subject, wait.term, now) == LeaseSays::Holds
        });
        let Some(wait) = wait else {
            shard.standstill = Standstill::default();
            continue;
        };
        if shard.standstill.lasts(wait.progress, now, waited_ns) && !mutant!(FullCopyAwaited) {
            let found = (wait.term, NotACopy::TakesNothing { waited_ns });
            let copies = wait.copies.into_iter();
            lost.extend(copies.map(|copy| ((number, copy), found.clone())));
        }
    }
}

/// The wait of `me` for the copies of `shard`, as its primary or its heir.
fn wait_of<C>(shard: &Shard<C>, me: &NodeName) -> Option<Wait> {
    match &shard.role {
        Role::Leads(leads) if !leads.primary.is_at_rest() => {
            let behind = leads.primary.behind();
            let behind = behind.filter(|&(name, behind)| name != me && behind > 0);
            Some(Wait {
                term: leads.primary.term(),
                progress: leads.primary.horizon(),
                copies: behind.map(|(name, _)| name.clone()).collect(),
            })
        }
        Role::TakesOver(heir) => match heir.takeover.next() {
            Step::Settle(copies) => Some(Wait {
                term: heir.takeover.term(),
                progress: copies.len() as u64,
                copies: copies.into_iter().collect(),
            }),
            _ => None,
        },
        _ => None,
    }
}

/// Judges a copy that follows by a new connection, and has everything up to `has`. The entries that it had by earlier
/// connections are found by then, and the primary has no entry left that is on all copies.
pub fn judge_copy<C>(
    state: &mut State<C>,
    from: &NodeName,
    (number, term): (u32, Term),
    has: Point,
) {
    let is_in_sync = state
        .group(number)
        .is_some_and(|group| group.in_sync.contains(from));
    let Some(shard) = state.shards.get_mut(&number).filter(|_| is_in_sync) else {
        return;
    };
    let settled = match &mut shard.role {
        Role::Leads(leads) => leads.primary.digested(),
        Role::TakesOver(heir) => heir.takeover.copy().digested(),
        Role::Absent | Role::Joins(_) | Role::Copies(_) => return,
    };
    if has < settled && shard.term() == Some(term) && !mutant!(ShortCopyCounts) {
        let reason = gap(has, settled.version);
        state.lost.insert((number, from.clone()), (term, reason));
    }
}
