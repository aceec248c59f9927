//! Redundancy is restored: a while after everything has healed, each group has the requested number of copies in sync,
//! or one for each node, on different nodes that are up.

use std::collections::BTreeSet;

use crate::history::NodeId;
use crate::violation::Violation;

/// The copies of a group, as its configuration names them.
#[derive(Clone, Debug)]
pub struct Group {
    /// The number of the group.
    pub number: u32,
    /// The nodes that the configuration names as in sync.
    pub in_sync: Vec<NodeId>,
}

/// Judges all groups. `wanted` is the replication factor, `up` the nodes that can keep copies.
pub fn judge(groups: &[Group], wanted: usize, up: &BTreeSet<NodeId>) -> Option<Violation> {
    let possible = wanted.min(up.len());
    groups.iter().find_map(|group| {
        let named: BTreeSet<NodeId> = group.in_sync.iter().copied().collect();
        let number = group.number;
        let found = if named.len() < group.in_sync.len() {
            format!("group {number} names a node twice: {:?}", group.in_sync)
        } else if let Some(gone) = named.difference(up).next() {
            format!("group {number} counts node {gone}, which is not up")
        } else if named.len() < possible {
            let copies = named.len();
            format!("group {number} has {copies} copies in sync where {possible} are possible")
        } else {
            return None;
        };
        Some(Violation::new("redundancy is restored", found))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(in_sync: &[NodeId], wanted: usize, up: &[NodeId]) -> Option<String> {
        let group = Group {
            number: 5,
            in_sync: in_sync.to_vec(),
        };
        let up = up.iter().copied().collect();
        judge(&[group], wanted, &up).map(|violation| violation.found)
    }

    #[test]
    fn missing_dead_and_repeated_copies_are_found() {
        assert_eq!(judged(&[0, 2, 3], 3, &[0, 1, 2, 3]), None);
        assert_eq!(judged(&[0, 2], 3, &[0, 2]), None, "there are no more nodes");
        assert_eq!(
            judged(&[0, 2], 3, &[0, 1, 2]).as_deref(),
            Some("group 5 has 2 copies in sync where 3 are possible")
        );
        assert_eq!(
            judged(&[0, 4, 2], 3, &[0, 1, 2]).as_deref(),
            Some("group 5 counts node 4, which is not up")
        );
        assert_eq!(
            judged(&[0, 2, 2], 3, &[0, 1, 2]).as_deref(),
            Some("group 5 names a node twice: [0, 2, 2]")
        );
    }
}
