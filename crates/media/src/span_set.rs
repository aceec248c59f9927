//! A set of bytes, kept as spans that neither touch nor overlap.

use std::collections::BTreeMap;

use stonecast_base::Span;

/// A set of bytes. No span in it may overflow; spans inside a region never do.
#[derive(Debug, Default)]
pub(crate) struct SpanSet {
    /// The end of each span, by its start.
    ends: BTreeMap<u64, u64>,
}

impl SpanSet {
    /// Adds all bytes of `span`.
    pub fn insert(&mut self, span: Span) {
        let (mut start, mut end) = (span.offset, span.offset + span.size);
        if let Some((&before, &until)) = self.ends.range(..=start).next_back()
            && until >= start
        {
            start = before;
            end = end.max(until);
        }
        while let Some((&after, &until)) = self.ends.range(start..=end).next() {
            self.ends.remove(&after);
            end = end.max(until);
        }
        self.ends.insert(start, end);
    }

    /// Whether all bytes of `span` are in the set.
    pub fn covers(&self, span: Span) -> bool {
        let end = span.offset + span.size;
        self.ends
            .range(..=span.offset)
            .next_back()
            .is_some_and(|(_, until)| *until >= end)
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;
    use stonecast_base::random_from_seed;

    use super::*;

    /// Compares the set with a naive set: one flag per byte.
    #[test]
    fn a_set_of_spans_covers_the_same_bytes_as_a_set_of_bytes() {
        let mut random = random_from_seed(1);
        for _ in 0..200 {
            let (mut set, mut naive) = (SpanSet::default(), [false; 64]);
            for _ in 0..12 {
                let offset = random.random_range(0..60_u64);
                let span = Span::new(offset, random.random_range(1..=64 - offset.max(50)));
                set.insert(span);
                naive[span.offset as usize..(span.offset + span.size) as usize].fill(true);
                for start in 0..63_u64 {
                    for size in 1..64 - start {
                        let expected = naive[start as usize..(start + size) as usize]
                            .iter()
                            .all(|byte| *byte);
                        assert_eq!(
                            set.covers(Span::new(start, size)),
                            expected,
                            "{set:?} {start} {size}"
                        );
                    }
                }
            }
            let runs = naive.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
            assert_eq!(set.ends.len(), runs);
        }
    }
}
