//! The bytes that both copies of a pool have in common.

use stonecast_base::{LINE_SIZE, Span, hash};
use stonecast_media::Region;

use crate::backend::STANDING;

/// Bytes of a piece of the pool that is compared, and copied if it differs.
pub(super) const PIECE_SIZE: u64 = 16 << 10;

/// The parts of `spans` that both copies have in common, in their order in the pool, as few as possible.
pub(super) fn common(spans: &[Span]) -> Vec<Span> {
    let mut lines: Vec<Span> = spans
        .iter()
        .map(|span| span.widen(LINE_SIZE as u64))
        .collect();
    lines.sort_unstable();
    let mut common: Vec<Span> = Vec::with_capacity(lines.len());
    for span in lines.into_iter().flat_map(outside_standing) {
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
                Span::new(behind, 4096 + 128 - behind),
                Span::new(8192, 64)
            ]
        );
        assert_eq!(common(&[Span::new(128, 64)]), []);
    }
}
