//! The known states of one wreck, by the units that recoveries read.
//!
//! ```text
//!   unit 3 was read first --- nothing of it survived --- unit 7 was read next --- its first store survived --- examined
//!                         \-- all of it did         --- examined: that recovery read nothing more
//! ```
//!
//! Two states are equivalent if a recovery meets the same fates in all units that it reads, so the
//! second one need not be recovered.
//!
//! Invariant: the next unit read follows from the fates of the units read before.

use std::collections::BTreeMap;

use stonecast_fabric_sim::Fate;

/// A tree of the known states. `T` is the result of a recovery.
pub(crate) struct Known<T> {
    nodes: Vec<Node<T>>,
}

struct Node<T> {
    /// The unit read next; none at the end of a recovery.
    unit: Option<u32>,
    next: BTreeMap<Fate, usize>,
    /// The result, at the end of a recovery.
    found: Option<T>,
}

impl<T> Node<T> {
    const NEW: Self = Self {
        unit: None,
        next: BTreeMap::new(),
        found: None,
    };
}

impl<T> Known<T> {
    /// An empty tree.
    pub fn new() -> Self {
        Self {
            nodes: vec![Node::NEW],
        }
    }

    /// The result of recovering `fates`, if an earlier recovery read the same.
    pub fn find(&self, fates: &[Fate]) -> Option<&T> {
        let mut node = &self.nodes[0];
        while let Some(unit) = node.unit {
            node = &self.nodes[*node.next.get(&fates[unit as usize])?];
        }
        node.found.as_ref()
    }

    /// Notes that a recovery of `fates` read the units `read`, in this order, and gave the result
    /// `found`.
    pub fn learn(&mut self, fates: &[Fate], read: &[u32], found: T) {
        let mut at = 0;
        for &unit in read {
            let free = self.nodes.len();
            let node = &mut self.nodes[at];
            let before = *node.unit.get_or_insert(unit);
            assert!(
                before == unit,
                "a recovery that has read the same reads the same next: unit {before}, now {unit}"
            );
            at = *node.next.entry(fates[unit as usize]).or_insert(free);
            if at == free {
                self.nodes.push(Node::NEW);
            }
        }
        self.nodes[at].found = Some(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(stores: &[u32]) -> Vec<Fate> {
        stores
            .iter()
            .map(|&stores| Fate { stores, torn: 0 })
            .collect()
    }

    #[test]
    fn states_that_differ_only_in_unread_units_are_one() {
        let mut known = Known::new();
        assert_eq!(known.find(&fates(&[0, 0, 0])), None);
        // A recovery reads the first unit and, if something of that unit survived, also the last one.
        known.learn(&fates(&[0, 0, 0]), &[0], "nothing");
        known.learn(&fates(&[1, 0, 0]), &[0, 2], "a");
        assert_eq!(known.find(&fates(&[0, 1, 1])), Some(&"nothing"));
        assert_eq!(known.find(&fates(&[1, 1, 0])), Some(&"a"));
        assert_eq!(known.find(&fates(&[1, 0, 1])), None);
        assert_eq!(known.find(&fates(&[2, 0, 0])), None);
        known.learn(&fates(&[1, 0, 1]), &[0, 2], "a, c");
        assert_eq!(known.find(&fates(&[1, 7, 1])), Some(&"a, c"));
    }

    #[test]
    fn a_recovery_that_reads_nothing_undecided_stands_for_all() {
        let mut known = Known::new();
        known.learn(&fates(&[0, 0]), &[], ());
        assert_eq!(known.find(&fates(&[1, 1])), Some(&()));
    }

    #[test]
    #[should_panic(expected = "reads the same next")]
    fn a_recovery_that_does_not_follow_from_what_it_reads_is_noticed() {
        let mut known = Known::new();
        known.learn(&fates(&[0, 0]), &[0, 1], ());
        known.learn(&fates(&[0, 0]), &[1, 0], ());
    }
}
