//! The nodes to which a primary sends entries: copies that are awaited, and joiners.

use std::collections::{BTreeMap, BTreeSet};

use stonecast_base::mutant;
use stonecast_cluster::NodeName;

use crate::joining::{Joining, Stage};
use crate::sending::{Connection, Progress};

/// The copies of a shard and its joiners, as its primary knows them. The primary is one of the copies.
///
/// ```text
///   joiner ──(admit)──▶ awaited ──(named)──▶ awaited and named
/// ```
///
/// Awaited and named differ while a compare-and-set may have named a joiner and its outcome is unknown. The primary
/// waits for such a copy, because that copy may become the heir. The copy does not count for the fewest copies, because
/// an heir may not know of it.
#[derive(Debug)]
pub(crate) struct Peers {
    awaited: BTreeMap<NodeName, Progress>,
    named: BTreeSet<NodeName>,
    joiners: BTreeMap<NodeName, Joining>,
    /// The last connection that brought entries, for each node that no longer gets entries.
    earlier: BTreeMap<NodeName, Connection>,
}

impl Peers {
    /// Begins with the copies `in_sync`, all of which have everything up to `settled`.
    pub fn new(in_sync: BTreeSet<NodeName>, settled: u64) -> Self {
        let progress = |name: &NodeName| (name.clone(), Progress::up_to(settled));
        Self {
            awaited: in_sync.iter().map(progress).collect(),
            named: in_sync,
            joiners: BTreeMap::new(),
            earlier: BTreeMap::new(),
        }
    }

    /// The progress of `node`, if the primary sends entries to `node`.
    pub fn progress(&mut self, node: &NodeName) -> Option<&mut Progress> {
        let joining = self.joiners.get_mut(node);
        let open = joining.filter(|joining| joining.stage >= Stage::Appending);
        let joining = open.map(|joining| &mut joining.progress);
        joining.or_else(|| self.awaited.get_mut(node))
    }

    /// The progress of the copies that are awaited.
    pub fn progresses(&self) -> impl Iterator<Item = (&NodeName, &Progress)> {
        self.awaited.iter()
    }

    /// Copies that count for the fewest copies.
    pub fn count(&self) -> usize {
        match mutant!(AwaitedCounted) {
            true => self.awaited.len(),
            false => self.named.len(),
        }
    }

    /// The versions up to which the copies that are awaited have everything, in ascending order.
    pub fn persisted(&self) -> Vec<u64> {
        let persisted = self.awaited.values().map(Progress::persisted);
        let mut persisted: Vec<_> = persisted.collect();
        persisted.sort_unstable();
        persisted
    }

    /// The version up to which all joiners have everything; `u64::MAX` without joiners.
    pub fn persisted_by_joiners(&self) -> u64 {
        let persisted = self.joiners.values().map(|one| one.progress.persisted());
        persisted.min().unwrap_or(u64::MAX)
    }

    pub fn is_awaited(&self, node: &NodeName) -> bool {
        self.awaited.contains_key(node)
    }

    pub fn joining(&mut self, joiner: &NodeName) -> Option<&mut Joining> {
        self.joiners.get_mut(joiner)
    }

    pub fn fill(&mut self, joiner: &NodeName, horizon: u64, join: u64) {
        if let Some(earlier) = self.joiners.remove(joiner) {
            assert!(earlier.join < join, "joins have ascending numbers");
            self.leaves(joiner, &earlier.progress);
        }
        let dropped = self.earlier.get(joiner).copied();
        let joining = Joining::above(horizon, join, dropped);
        self.joiners.insert(joiner.clone(), joining);
    }

    fn leaves(&mut self, node: &NodeName, progress: &Progress) {
        self.earlier.insert(node.clone(), progress.connection());
    }

    /// Awaits `joiner` from here on, if it has everything that is published. Returns whether the primary awaits
    /// `joiner`.
    pub fn admit(&mut self, joiner: &NodeName, published: u64) -> bool {
        let joining = self.joiners.get(joiner);
        if joining.is_some_and(|joining| joining.is_filled(published)) {
            if mutant!(NamedBeforeAwaited) {
                return true;
            }
            let joining = self.joiners.remove(joiner).expect("it was looked at");
            self.awaited.insert(joiner.clone(), joining.progress);
        }
        self.is_awaited(joiner)
    }

    pub fn named(&mut self, copy: &NodeName) {
        self.named.insert(copy.clone());
    }

    pub fn removed(&mut self, node: &NodeName) {
        let joining = self.joiners.remove(node).map(|joining| joining.progress);
        if let Some(progress) = self.awaited.remove(node).or(joining) {
            self.leaves(node, &progress);
        }
        self.named.remove(node);
    }
}
