//! The hashes of the on-media and on-wire formats. All are specified algorithms with implementations in many languages.
//! The result of a hash never changes between versions or processors.

mod middle;
mod sip;

use std::hash::{BuildHasherDefault, Hasher as _};

use siphasher::sip::SipHasher13;
use xxhash_rust::xxh3;

/// Makes the hashes of tables in memory. Unlike the standard library's, this hash draws no key, so that the same seed
/// of a simulated world gives the same trace.
pub type TableHashes = BuildHasherDefault<SipHasher13>;

/// XXH3 with 64 bits and a seed. Fast, and keyed against accidental matches; *not* a defence against an attacker who
/// knows the seed.
// One copy for the whole program: a copy at each of the many callers takes longer to compile and runs no faster.
#[inline(never)]
pub fn xxh3_64(seed: u64, bytes: &[u8]) -> u64 {
    if middle::SIZES.contains(&bytes.len()) {
        middle::xxh3_64(seed, bytes)
    } else {
        xxh3::xxh3_64_with_seed(bytes, seed)
    }
}

/// XXH3 with 128 bits: checksums of headers and checkpoints.
pub fn xxh3_128(bytes: &[u8]) -> u128 {
    xxh3::xxh3_128(bytes)
}

/// SipHash-2-4: a keyed pseudo-random function. Without `key` no one can compute a matching value.
pub fn siphash24(key: [u64; 2], bytes: &[u8]) -> u64 {
    let mut hasher = siphasher::sip::SipHasher24::new_with_keys(key[0], key[1]);
    hasher.write(bytes);
    hasher.finish()
}

/// [`siphash24`] of the bytes of `words`, each in little-endian order.
#[inline]
pub fn siphash24_of_words<const COUNT: usize>(key: [u64; 2], words: [u64; COUNT]) -> u64 {
    sip::siphash24(key, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers: XXH3 of the empty input from its specification, SipHash-2-4 from the appendix of its paper
    /// (key 00..0f, input 00..0e).
    #[test]
    fn the_hashes_give_their_published_values() {
        assert_eq!(xxh3_64(0, b""), 0x2d06_8005_38d3_94c2);
        assert_eq!(xxh3_128(b""), 0x99aa_06d3_0147_98d8_6001_c324_468d_497f);
        let input: Vec<u8> = (0..15).collect();
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(siphash24(key, &input), 0xa129_ca61_49be_45e5);
    }
}
