//! Names of keys, as YCSB's core workload makes them with `insertorder=hashed`.

use std::io::Write as _;

/// Longest name in bytes: `user` and 19 digits.
pub const KEY_NAME_SIZE_MAX: usize = 23;

/// The name of a key. Most names have 23 bytes, and one in ten has 22 or fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyName {
    bytes: [u8; KEY_NAME_SIZE_MAX],
    size: u8,
}

impl KeyName {
    /// The name of key `number`.
    pub fn of(number: u64) -> Self {
        let mut bytes = [0; KEY_NAME_SIZE_MAX];
        let mut rest = bytes.as_mut_slice();
        write!(rest, "user{}", fnv_hash(number) as i64).expect("a hash has at most 19 digits");
        let size = (KEY_NAME_SIZE_MAX - rest.len()) as u8;
        Self { bytes, size }
    }

    /// The bytes of the name.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.size)]
    }
}

/// YCSB's `Utils.fnvhash64`: 64-bit FNV-1a over the eight bytes of `number`, lowest first, without sign.
pub fn fnv_hash(number: u64) -> u64 {
    let hash = number
        .to_le_bytes()
        .into_iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    (hash as i64).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Utils.fnvhash64`.
    #[test]
    fn the_hash_equals_that_of_the_java_class() {
        for (number, expected) in [
            (0, 6284781860667377211),
            (1, 8517097267634966620),
            (255, 8064062821143829734),
            (256, 2056600594528442646),
            (999_999, 2744965632448235251),
            (10_000_000_000, 1201321332300452516),
            (i64::MAX as u64, 8289549613075766851),
            (-1_i64 as u64, 8289690350564177859),
            (i64::MIN as u64, 6284922598155788219),
        ] {
            assert_eq!(fnv_hash(number), expected, "{number}");
        }
    }

    /// `CoreWorkload.buildKeyName`.
    #[test]
    fn a_key_has_the_name_that_the_java_class_gives_it() {
        assert_eq!(KeyName::of(0).as_bytes(), b"user6284781860667377211");
        assert_eq!(KeyName::of(256).as_bytes(), b"user2056600594528442646");
    }

    #[test]
    fn no_two_of_a_million_keys_share_a_name() {
        let mut hashes: Vec<u64> = (0..1_000_000).map(fnv_hash).collect();
        hashes.sort_unstable();
        assert!(hashes.windows(2).all(|pair| pair[0] != pair[1]));
        let shortest = (0..1_000_000)
            .map(|number| KeyName::of(number).as_bytes().len())
            .min();
        assert!(shortest >= Some(15), "{shortest:?}");
    }
}
