//! Versions and pointers to them.
//!
//! ```text
//!   version   | next 8 | key 8 | size 8 | value |        head   | next 8 | key 8 | size 8 | shortcut 8 |
//! ```

/// Bytes of a unit of allocation.
pub(crate) const UNIT: u64 = 128;
/// Bytes of a version before its value.
pub(crate) const HEADER_SIZE: usize = 24;
/// Offset of the shortcut in a head.
pub(crate) const SHORTCUT: u64 = 24;
/// The size of a key that is absent.
const ABSENT: u64 = u64::MAX;
const OFFSET_BITS: u32 = 44;
const UNITS_BITS: u32 = 8;

/// A place of a version in the memory of its first node; the other copies have the same place on the nodes that follow.
/// The word 0 points nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    pub node: u32,
    pub offset: u64,
    pub units: u64,
}

impl Pointer {
    pub fn to_word(self) -> u64 {
        let place = u64::from(self.node) << UNITS_BITS | self.units;
        place << OFFSET_BITS | self.offset
    }

    pub fn from_word(word: u64) -> Option<Self> {
        let place = word >> OFFSET_BITS;
        (word != 0).then_some(Self {
            node: (place >> UNITS_BITS) as u32,
            offset: word & ((1 << OFFSET_BITS) - 1),
            units: place & ((1 << UNITS_BITS) - 1),
        })
    }

    /// Bytes at the place.
    pub fn size(&self) -> usize {
        (self.units * UNIT) as usize
    }

    /// The nodes with a copy, the first one first.
    pub fn nodes(&self, copies: u32, nodes: u32) -> impl Iterator<Item = u32> + use<> {
        let first = self.node;
        (0..copies).map(move |copy| (first + copy) % nodes)
    }
}

/// The bytes of a version.
pub(crate) fn encode(key: u64, value: Option<&[u8]>) -> Vec<u8> {
    let size = value.map_or(ABSENT, |value| value.len() as u64);
    let words = [0, key, size].map(u64::to_le_bytes);
    [words.concat(), value.unwrap_or_default().to_vec()].concat()
}

/// The word that points to the next version, and the value, of the version in `bytes`.
pub(crate) fn parse(bytes: &[u8]) -> (u64, Option<&[u8]>) {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let value = usize::try_from(word(16)).ok();
    let value = value.and_then(|size| bytes.get(HEADER_SIZE..HEADER_SIZE.checked_add(size)?));
    (word(0), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_and_versions_survive_their_bytes() {
        let pointer = Pointer {
            node: 5,
            offset: 3 << 40,
            units: 2,
        };
        assert_eq!(Pointer::from_word(pointer.to_word()), Some(pointer));
        assert_eq!(Pointer::from_word(0), None);
        assert_eq!(pointer.nodes(3, 6).collect::<Vec<_>>(), [5, 0, 1]);
        assert_eq!(parse(&encode(7, Some(b"value"))), (0, Some(&b"value"[..])));
        assert_eq!(parse(&encode(7, None)), (0, None));
    }
}
