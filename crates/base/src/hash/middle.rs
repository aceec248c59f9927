//! XXH3 with 64 bits for inputs of middle length, as straight-line code.
//!
//! ```text
//!   bytes    0 .. 128              128 .. n x 16          n x 16 .. end
//!            eight blocks          none to seven more     (a part of a block)
//!            |-- sum, spread --|   |-- added, with the block that ends the input: sum, spread --|
//! ```
//!
//! Most records of a store of small values have this length, and the tag is the largest part of a reader's computation.
//! The library's implementation handles any length and secret. Here both are known at compile time, which halves the
//! instructions. The value is the same: XXH3 is a specified algorithm, and a test compares the two implementations.

use std::ops::RangeInclusive;

use xxhash_rust::const_xxh3::const_custom_default_secret;

/// The middle lengths of the specification.
pub(super) const SIZES: RangeInclusive<usize> = 129..=240;

/// Bytes of a block.
const BLOCK: usize = 16;
/// Blocks that every input has.
const FIRST_BLOCKS: usize = 8;
/// Start of the secret for the blocks after the first eight.
const LATER_FROM: usize = 3;
/// Start of the secret for the last block.
const LAST_FROM: usize = 136 - 17;
/// The specification's `PRIME64_1`.
const PRIME: u64 = 0x9e37_79b1_85eb_ca87;
/// Factor that spreads a sum over all bits.
const SPREAD: u64 = 0x1656_6791_9e37_79f9;

/// The specification's secret.
const SECRET: [u8; 192] = const_custom_default_secret(0);

/// The hash of bytes whose length is in [`SIZES`].
#[inline(always)]
pub(super) fn xxh3_64(seed: u64, bytes: &[u8]) -> u64 {
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let (first, later) = blocks
        .split_first_chunk::<FIRST_BLOCKS>()
        .expect("longer than eight blocks");
    let last = bytes.last_chunk().expect("longer than a block");
    let mut sum = (bytes.len() as u64).wrapping_mul(PRIME);
    sum = sum
        .wrapping_add(mixed::<0>(first[0], seed))
        .wrapping_add(mixed::<16>(first[1], seed));
    sum = sum
        .wrapping_add(mixed::<32>(first[2], seed))
        .wrapping_add(mixed::<48>(first[3], seed));
    sum = sum
        .wrapping_add(mixed::<64>(first[4], seed))
        .wrapping_add(mixed::<80>(first[5], seed));
    sum = sum
        .wrapping_add(mixed::<96>(first[6], seed))
        .wrapping_add(mixed::<112>(first[7], seed));
    sum = spread(sum);
    for (block, secret) in later.iter().zip(LATER) {
        sum = sum.wrapping_add(mixed_with(*block, secret, seed));
    }
    spread(sum.wrapping_add(mixed::<LAST_FROM>(*last, seed)))
}

/// Secrets of the blocks after the first eight.
const LATER: [[u64; 2]; 7] = {
    let mut secrets = [[0; 2]; 7];
    let mut index = 0;
    while index < secrets.len() {
        secrets[index] = secret_at(LATER_FROM + index * BLOCK);
        index += 1;
    }
    secrets
};

/// Two words of the secret.
const fn secret_at(at: usize) -> [u64; 2] {
    [word(SECRET.split_at(at).1), word(SECRET.split_at(at + 8).1)]
}

/// The summand of a block, with the secret at `AT`.
#[inline(always)]
fn mixed<const AT: usize>(block: [u8; BLOCK], seed: u64) -> u64 {
    mixed_with(block, const { secret_at(AT) }, seed)
}

#[inline(always)]
fn mixed_with(block: [u8; BLOCK], secret: [u64; 2], seed: u64) -> u64 {
    // Both words form one number here: the compiler would pack single words into vectors and unpack them for the
    // multiplication, which takes twice as many instructions.
    let secret =
        u128::from(secret[0].wrapping_add(seed)) | u128::from(secret[1].wrapping_sub(seed)) << 64;
    let words = u128::from_le_bytes(block) ^ secret;
    let product = u128::from(words as u64) * (words >> 64);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
const fn spread(sum: u64) -> u64 {
    let sum = (sum ^ sum >> 37).wrapping_mul(SPREAD);
    sum ^ sum >> 32
}

/// The first eight bytes as a little-endian number.
#[inline(always)]
const fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => panic!("a word has eight bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_of_middle_length_have_the_same_value_as_in_the_library() {
        let bytes: Vec<u8> = (0..300u32)
            .map(|index| (index.wrapping_mul(0x9e37_79b1) >> 24) as u8)
            .collect();
        for size in SIZES {
            for (start, seed) in [(0, 0), (1, 1), (7, u64::MAX), (59, 0x0123_4567_89ab_cdef)] {
                let input = &bytes[start..start + size];
                assert_eq!(
                    xxh3_64(seed, input),
                    xxhash_rust::xxh3::xxh3_64_with_seed(input, seed),
                    "{size} bytes, seed {seed:#x}"
                );
            }
        }
    }
}
