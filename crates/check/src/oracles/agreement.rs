//! Copies agree up to the commit horizon: all copies have the same persisted entries, without gaps. Above the horizon
//! copies may differ.

use std::fmt::Debug;

use crate::history::NodeId;
use crate::violation::Violation;

/// The entries of one copy, by their versions, which ascend.
#[derive(Clone, Debug)]
pub struct Copied<E> {
    /// The node that keeps the copy.
    pub node: NodeId,
    /// The entries: version and content.
    pub entries: Vec<(u64, E)>,
}

/// Judges the entries of all copies of one group up to and including `horizon`.
pub fn judge<E: PartialEq + Debug>(horizon: u64, copies: &[Copied<E>]) -> Option<Violation> {
    let (first, others) = copies.split_first()?;
    let below = |copy: &Copied<E>| {
        copy.entries
            .partition_point(|(version, _)| *version <= horizon)
    };
    others.iter().find_map(|other| {
        let (one, two) = (&first.entries[..below(first)], &other.entries[..below(other)]);
        let same = one.iter().zip(two).take_while(|(one, two)| one == two).count();
        (same < one.len().max(two.len())).then(|| {
            let told = |entries: &[(u64, E)]| match entries.get(same) {
                Some((version, content)) => format!("version {version}: {content:?}"),
                None => "nothing more".to_owned(),
            };
            let text = format!(
                "behind {same} equal entries up to horizon {horizon} node {} has {}, and node {} has {}",
                first.node,
                told(one),
                other.node,
                told(two),
            );
            Violation::new("copies agree up to the commit horizon", text)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(horizon: u64, copies: &[&[(u64, char)]]) -> Option<String> {
        let copies: Vec<_> = (0..)
            .zip(copies)
            .map(|(node, entries)| Copied {
                node,
                entries: entries.to_vec(),
            })
            .collect();
        judge(horizon, &copies).map(|violation| violation.found)
    }

    #[test]
    fn a_gap_a_different_entry_and_a_short_copy_are_found_only_below_the_horizon() {
        let whole: &[(u64, char)] = &[(1, 'a'), (2, 'b'), (4, 'c')];
        assert_eq!(judged(9, &[whole, whole, whole]), None);
        assert_eq!(judged(9, &[whole]), None);
        assert_eq!(
            judged(4, &[whole, whole, &[(1, 'a'), (4, 'c')]]).as_deref(),
            Some(
                "behind 1 equal entries up to horizon 4 node 0 has version 2: 'b', and node 2 has version 4: 'c'"
            )
        );
        assert!(judged(2, &[whole, &[(1, 'a'), (2, 'x')]]).is_some());
        assert!(judged(4, &[whole, &whole[..2]]).is_some());
        assert_eq!(judged(3, &[whole, &whole[..2]]), None);
        assert_eq!(judged(1, &[whole, &[(1, 'a'), (2, 'x')]]), None);
    }
}
