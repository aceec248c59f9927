//! Compares all words of a line at once.
//!
//! ```text
//!   line    | word 0       | word 1       | ...           | word 7       |
//!           | lower  upper | lower  upper |               | lower  upper |
//!   result           bit 1          bit 3                          bit 15
//! ```

use std::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_cmpeq_epi32, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32,
    _mm_set_epi64x, _mm_set1_epi64x,
};

/// The words whose upper half, under `mask`, equals `wanted`: bit 2n + 1 stands for word n. The other bits are 0.
///
/// The function does not branch on the words, because no processor could predict which of them match.
#[inline]
pub fn equal_upper_halves(words: [u64; 8], mask: u32, wanted: u32) -> u32 {
    // SAFETY: the instructions belong to SSE2, which every x86-64 processor has.
    unsafe { with_sse2(words, mask, wanted) }
}

#[inline]
#[target_feature(enable = "sse2")]
fn with_sse2(words: [u64; 8], mask: u32, wanted: u32) -> u32 {
    const UPPER: u32 = 0xaaaa;
    let upper = |half: u32| _mm_set1_epi64x((u64::from(half) << 32) as i64);
    let (mask, wanted) = (upper(mask), upper(wanted));
    // The lower halves are masked out: they are equal, and not counted.
    let equal = |first: usize| -> __m128i {
        let pair = _mm_set_epi64x(words[first + 1] as i64, words[first] as i64);
        _mm_cmpeq_epi32(_mm_and_si128(pair, mask), wanted)
    };
    // Each half is all ones or all zeros, so narrowing keeps its value: one bit for each half remains.
    let halves = _mm_packs_epi16(
        _mm_packs_epi32(equal(0), equal(2)),
        _mm_packs_epi32(equal(4), equal(6)),
    );
    _mm_movemask_epi8(halves) as u32 & UPPER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_whose_upper_half_is_the_wanted_one_under_the_mask_has_its_bit() {
        let (mask, wanted) = (0x0fff_f000, 0x0801_7000);
        for subset in 0..256u32 {
            let word = |index: usize| {
                let upper = if subset >> index & 1 != 0 {
                    wanted | 0xf000_0fff
                } else {
                    wanted ^ 0x1000 << (index * 2)
                };
                u64::from(upper) << 32 | u64::from(wanted)
            };
            let expected = (0..8).fold(0, |bits, index| {
                bits | (subset >> index & 1) << (2 * index + 1)
            });
            assert_eq!(
                equal_upper_halves(std::array::from_fn(word), mask, wanted),
                expected
            );
        }
        assert_eq!(
            equal_upper_halves([u64::from(u32::MAX); 8], u32::MAX, 0),
            0xaaaa,
            "lower halves are ignored"
        );
    }
}
