//! The states of one wreck that are known already, by what recoveries read of them.
//!
//! ```text
//!   unit 3 was read first --- nothing of it survived --- unit 7 was read next --- its first store survived --- looked at
//!                         \-- all of it did         --- looked at: that recovery read nothing more
//! ```
//!
//! Two states are the same to a recovery that meets in both the same fates of the units that it reads, so the second one
//! need not be recovered.
//!
//! Invariant: which unit is read next follows from the fates of those that were read before.

use std::collections::BTreeMap;

use stonecast_fabric_sim::Fate;

/// See the module documentation. `T` is what a recovery found.
pub(crate) struct Known<T> {
    nodes: Vec<Node<T>>,
}

struct Node<T> {
    /// The unit that is read next; none at the end of a recovery.
    unit: Option<u32>,
    next: BTreeMap<Fate, usize>,
    /// At the end of a recovery: what it found.
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
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self {
            nodes: vec![Node::NEW],
        }
    }

    /// What a recovery of `fates` finds, if it does what one did before.
    pub fn find(&self, fates: &[Fate]) -> Option<&T> {
        let mut node = &self.nodes[0];
        while let Some(unit) = node.unit {
            node = &self.nodes[*node.next.get(&fates[unit as usize])?];
        }
        node.found.as_ref()
    }

    /// A recovery of `fates` read the units `read`, in this order, and found something.
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
    fn states_that_differ_in_what_was_not_read_are_one() {
        let mut known = Known::new();
        assert_eq!(known.find(&fates(&[0, 0, 0])), None);
        // The first unit is read, and where something of it survived, the last one, too.
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
    fn a_recovery_that_does_not_follow_from_what_it_reads_is_told() {
        let mut known = Known::new();
        known.learn(&fates(&[0, 0]), &[0, 1], ());
        known.learn(&fates(&[0, 0]), &[1, 0], ());
    }
}
