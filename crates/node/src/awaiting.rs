//! Copies that take no entry although their nodes are there: a primary does not await them for ever.
//!
//! A copy whose log has no free segment takes nothing, and may have nothing to commit, so its own patience with the
//! medium does not end. Its node grants leases meanwhile, so the node is not removed for its silence. A primary or
//! an heir that holds its lease, and waits without any progress for longer than a copy may take to end by itself, has
//! the configuration drop the copies that are behind. A node that stood still counts that time as one part of the
//! patience.

use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::{NodeName, NotACopy, Term};
use stonecast_replication::{LeaseSays, Step};

use crate::heading::lease_says;
use crate::node::Shared;
use crate::own_commits::PATIENCE_PARTS;
use crate::shard::{Role, Shard};
use crate::state::State;
use crate::store::Store;

/// The time for which a shard has waited for copies without progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standstill {
    progress: u64,
    /// Parts of the patience that have passed since the last progress.
    parts: u64,
    /// The time at which the last of these parts began.
    counted_at: Nanoseconds,
}

impl Standstill {
    /// Notes at `now` that the shard waits, with a `progress` that is another number when the wait has made some.
    /// Returns whether there was none for `patience_ns`.
    fn lasts(&mut self, progress: u64, now: Nanoseconds, patience_ns: Nanoseconds) -> bool {
        if progress != self.progress || self.counted_at == 0 {
            (self.progress, self.parts, self.counted_at) = (progress, 0, now);
        }
        if now >= self.counted_at + patience_ns / PATIENCE_PARTS {
            self.parts += 1;
            self.counted_at = now;
        }
        self.parts > PATIENCE_PARTS
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs the parts: a node that stood still itself would take its copies for full.
    #[test]
    fn a_node_that_stood_still_waits_for_its_copies_a_while_longer() {
        let mut standstill = Standstill::default();
        assert!(!standstill.lasts(7, 100, 800));
        assert!(!standstill.lasts(7, 1_000_000, 800), "one part");
        let ends = (1..20).position(|part| standstill.lasts(7, 1_000_000 + part * 100, 800));
        assert_eq!(ends, Some(7));
        assert!(!standstill.lasts(8, 2_000_000, 800), "a write was done");
    }
}
