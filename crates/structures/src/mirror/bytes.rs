//! The bytes that both copies of a pool have in common.

use stonecast_base::{LINE_SIZE, Span, hash, mutant};
use stonecast_media::Region;

use crate::backend::STANDING;

/// Bytes of a piece of the pool that is compared, and copied if it differs.
pub(super) const PIECE_SIZE: u64 = 16 << 10;

/// Bytes of a word, which a WRITE changes as a whole.
const WORD_SIZE: u64 = 8;

/// The parts of `spans` that both copies have in common, in their order in the pool, as few as possible. The rest of a
/// line is left out: a front-end may have put its next record there, in the other copy first.
pub(super) fn common(spans: &[Span]) -> Vec<Span> {
    let unit = match mutant!(LinesCopied) {
        true => LINE_SIZE as u64,
        false => WORD_SIZE,
    };
    let mut words: Vec<Span> = spans.iter().map(|span| span.widen(unit)).collect();
    words.sort_unstable();
    let mut common: Vec<Span> = Vec::with_capacity(words.len());
    for span in words.into_iter().flat_map(outside_standing) {
        match common.last_mut() {
            Some(last) if span.offset <= last.offset + last.size => {
                let end = (span.offset + span.size).max(last.offset + last.size);
                last.size = end - last.offset;
            }
            _ => common.push(span),
        }
    }
    common
}

/// The parts of a span in front of the standing and behind it.
fn outside_standing(span: Span) -> impl Iterator<Item = Span> {
    let end = span.offset + span.size;
    let behind = STANDING.offset + STANDING.size;
    [
        (span.offset, end.min(STANDING.offset)),
        (span.offset.max(behind), end),
    ]
    .into_iter()
    .filter(|(start, end)| start < end)
    .map(|(start, end)| Span::new(start, end - start))
}

/// A digest of the bytes of `span` that both copies have in common.
pub(super) fn digest(region: &dyn Region, span: Span) -> u128 {
    let mut bytes = vec![0; span.size as usize];
    region.read(span.offset, &mut bytes);
    if let Some(own) = span.overlap(STANDING) {
        let start = (own.offset - span.offset) as usize;
        bytes[start..start + own.size as usize].fill(0);
    }
    hash::xxh3_128(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_merged_and_the_standing_of_a_copy_is_left_out() {
        let spans = [
            Span::new(4096, 64),
            Span::new(0, 4096),
            Span::new(4170, 8),
            Span::new(8192, 64),
        ];
        let behind = STANDING.offset + STANDING.size;
        assert_eq!(
            common(&spans),
            [
                Span::new(0, STANDING.offset),
                Span::new(behind, 4096 + 64 - behind),
                Span::new(4168, 16),
                Span::new(8192, 64)
            ]
        );
        assert_eq!(common(&[Span::new(128, 64)]), []);
    }

    /// Needs the words of a record without the rest of its line.
    #[test]
    fn a_record_is_copied_without_the_place_of_the_next_one() {
        let record = Span::new(8192, 72);
        assert_eq!(common(&[record]), [record]);
    }
}
