//! A term has one primary: whatever nodes believe of each other, no two nodes lead a group in the same term.

use std::collections::BTreeMap;

use crate::history::NodeId;
use crate::violation::Violation;

/// The observation that a node led a group in a term: it stamped, served or answered as the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The group.
    pub group: u32,
    /// The term.
    pub term: u64,
    /// The node.
    pub node: NodeId,
}

/// Judges all claims of a run, in any order.
pub fn judge(claims: impl IntoIterator<Item = Claim>) -> Option<Violation> {
    let mut leaders = BTreeMap::new();
    claims.into_iter().find_map(|claim| {
        let Claim { group, term, node } = claim;
        let first = *leaders.entry((group, term)).or_insert(node);
        (first != node).then(|| {
            Violation::new(
                "a term has one primary",
                format!("nodes {first} and {node} both led group {group} in term {term}"),
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim((group, term, node): (u32, u64, NodeId)) -> Claim {
        Claim { group, term, node }
    }

    #[test]
    fn two_nodes_that_lead_a_group_in_one_term_are_found() {
        let good = [(0, 1, 7), (1, 1, 8), (0, 2, 8), (0, 1, 7), (0, 3, 7)];
        assert_eq!(judge(good.map(claim)), None);
        let found = judge(good.into_iter().chain([(0, 2, 7)]).map(claim));
        assert_eq!(
            found.expect("node 8 led that term").found,
            "nodes 8 and 7 both led group 0 in term 2"
        );
    }
}
