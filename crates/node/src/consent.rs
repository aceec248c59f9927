//! The consent of a primary to its successor, as a copy hears it.

use std::collections::BTreeMap;

use stonecast_cluster::{NodeName, Term};
use stonecast_replication::Point;

/// The consents about a shard. Only the primary of the term before may consent: the heir waits for no lease of another
/// node.
///
/// A node that has missed a configuration may mistake the primary of an earlier term for the present one. The node then
/// accepts no consent, and its heir waits for the end of a lease.
#[derive(Debug, Default)]
pub struct Consents {
    /// The primary in force and its term.
    primary: Option<(NodeName, Term)>,
    /// The primary before the present one.
    before: Option<NodeName>,
    /// The last consent of each node: the term to whose primary it consents, and the point at which it has ended.
    said: BTreeMap<NodeName, (Term, Point)>,
    /// The last term in which a consent made this node release its earlier grants.
    released: Option<Term>,
}

impl Consents {
    /// Notes that a configuration in which `primary` leads in `term` is in force.
    pub fn enter(&mut self, primary: &NodeName, term: Term) {
        if self.primary.as_ref().is_none_or(|known| known.1 < term) {
            let before = self.primary.replace((primary.clone(), term));
            self.before = before.map(|(primary, _)| primary);
        }
    }

    /// Notes that `from` says that it has ended at the point of `consent`, and consents to the
    /// primary of its term.
    pub fn hear(&mut self, from: &NodeName, consent: (Term, Point)) {
        let known = self.said.entry(from.clone()).or_insert(consent);
        *known = consent.max(*known);
    }

    /// The consent to the primary in force, with the point at which the primary before has ended.
    pub fn present(&self) -> Option<(Term, Point)> {
        let (_, term) = self.primary.as_ref()?;
        let said = self.said.get(self.before.as_ref()?)?;
        (said.0 == *term).then_some(*said)
    }

    /// The term in which the grants to earlier primaries are to be released: each is given once.
    pub fn release(&mut self) -> Option<Term> {
        let (term, _) = self.present()?;
        let before = self.released.replace(term);
        (before != Some(term)).then_some(term)
    }
}

#[cfg(test)]
mod tests {
    use stonecast_cluster::Epoch;

    use super::*;

    fn name(text: &str) -> NodeName {
        text.parse().unwrap()
    }

    fn consent(to: u64) -> (Term, Point) {
        let (term, version) = (Epoch(to - 1), 40);
        (Epoch(to), Point { term, version })
    }

    fn led_by_a_then_b() -> Consents {
        let mut consents = Consents::default();
        consents.enter(&name("a"), Epoch(4));
        consents.enter(&name("b"), Epoch(7));
        consents
    }

    /// Needs the look at the sender: the copy would release a grant on which the primary before still counts.
    #[test]
    fn only_the_primary_of_the_term_before_consents() {
        let mut consents = led_by_a_then_b();
        for stranger in ["b", "c"] {
            consents.hear(&name(stranger), consent(7));
            assert_eq!(consents.present(), None, "{stranger}");
        }
        consents.hear(&name("a"), consent(7));
        assert_eq!(consents.present(), Some(consent(7)));
    }

    #[test]
    fn a_consent_that_comes_before_its_configuration_counts_once_in_force() {
        let mut consents = Consents::default();
        consents.enter(&name("a"), Epoch(4));
        consents.hear(&name("a"), consent(7));
        assert_eq!(consents.release(), None);
        consents.enter(&name("b"), Epoch(7));
        assert_eq!(consents.release(), Some(Epoch(7)));
        assert_eq!(consents.release(), None);
    }

    #[test]
    fn a_consent_to_an_earlier_primary_says_nothing_about_a_later_one() {
        let mut consents = led_by_a_then_b();
        consents.hear(&name("a"), consent(7));
        consents.enter(&name("a"), Epoch(9));
        assert_eq!(consents.present(), None);
        consents.hear(&name("b"), consent(9));
        consents.hear(&name("b"), consent(7));
        assert_eq!(consents.present(), Some(consent(9)));
    }
}
