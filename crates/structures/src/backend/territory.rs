//! The memory that the records of a domain may change.

use std::collections::BTreeSet;

use stonecast_base::{Span, mutant};

use crate::space::SlabGeometry;
use crate::wire::{Entries, EntryFault, parse_entries};

/// The memory that the records of a domain may change: its root word, and its slabs.
///
/// The back-end alone decides about slabs. A writer that names the slab of another domain, the page of a domain or any
/// log is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Territory {
    /// The root word of the domain.
    pub root: Span,
    /// The place of the pool's slabs.
    pub geometry: SlabGeometry,
    /// The slabs of the domain.
    pub slabs: BTreeSet<u64>,
}

impl Territory {
    /// Whether a record may change these bytes. An entry lies in one slab.
    pub fn holds(&self, span: Span) -> bool {
        if span == self.root {
            return true;
        }
        let slab = self.geometry.slab_of(span);
        slab.is_some_and(|slab| self.slabs.contains(&slab))
    }

    /// The entries of a transaction, each of which was checked.
    ///
    /// # Errors
    /// [`EntryFault`]: the body is not a list of entries, or an entry names other memory.
    pub fn check(&self, body: &[u8]) -> Result<Entries, EntryFault> {
        let mut entries = Entries::default();
        for entry in parse_entries(body) {
            let entry = entry?;
            if !self.holds(entry.span()) && !mutant!(EntryTrusted) {
                return Err(EntryFault::Foreign(entry.span()));
            }
            entries.push(entry.offset, entry.bytes);
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_holds_its_slabs_and_its_root_word_and_nothing_else() {
        let territory = Territory {
            root: Span::new(64, 8),
            geometry: SlabGeometry::new(8192, 4096),
            slabs: [0, 2].into(),
        };
        for (span, is_held) in [
            (Span::new(64, 8), true),
            (Span::new(64, 16), false),
            (Span::new(72, 8), false),
            (Span::new(8184, 16), false),
            (Span::new(8192, 4096), true),
            (Span::new(12_280, 16), false),
            (Span::new(12_288, 8), false),
            (Span::new(16_384, 8), true),
            (Span::new(1 << 45, 8), false),
        ] {
            assert_eq!(territory.holds(span), is_held, "{span:?}");
        }
    }
}
