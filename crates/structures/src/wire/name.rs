//! Names of lock domains.

use stonecast_base::hash::xxh3_64;

use super::record::LogKey;
use super::text::ShortText;

/// Bytes of a name on the medium: size, text, checksum.
pub(crate) const NAME_SIZE: u64 = 80;

/// The name of a lock domain: UTF-8, at most 64 bytes. A domain may have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainName(ShortText);

impl DomainName {
    /// No name.
    pub const NONE: Self = Self(ShortText::EMPTY);

    /// The name with this text; `None`: the text is empty or too long.
    ///
    /// ```
    /// use stonecast_structures::DomainName;
    ///
    /// assert_eq!(DomainName::new("orders").unwrap().as_str(), "orders");
    /// assert!(DomainName::new("").is_none() && DomainName::new(&"x".repeat(65)).is_none());
    /// ```
    pub fn new(text: &str) -> Option<Self> {
        let name = ShortText::new(text).filter(|_| !text.is_empty());
        name.map(Self)
    }

    /// The text; empty: the domain has no name.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The name of a domain as its page has it.
    pub(crate) fn encode(&self, key: LogKey) -> Vec<u8> {
        let mut bytes = u64::from(self.0.size).to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.0.text);
        let checksum = xxh3_64(key.0, &bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The name in the page of a domain; `None`: the name is damaged.
    pub(crate) fn decode(key: LogKey, bytes: &[u8]) -> Option<Self> {
        let (bytes, checksum) = bytes.split_last_chunk::<8>()?;
        if xxh3_64(key.0, bytes) != u64::from_le_bytes(*checksum) {
            return None;
        }
        Self::of_words(bytes)
    }

    /// The name as words of a message: its size, and its text.
    pub(crate) fn to_words(self) -> [u64; 9] {
        self.0.to_words()
    }

    /// The name in size and text, one after the other.
    pub(crate) fn of_words(bytes: &[u8]) -> Option<Self> {
        ShortText::of_words(bytes).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_written_and_damage_is_noticed() {
        let key = LogKey(7);
        for name in [DomainName::NONE, DomainName::new("Größe/2").unwrap()] {
            let bytes = name.encode(key);
            assert_eq!(bytes.len() as u64, NAME_SIZE);
            assert_eq!(DomainName::decode(key, &bytes), Some(name));
            for place in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[place] ^= 4;
                assert_eq!(DomainName::decode(key, &damaged), None, "byte {place}");
            }
            let words = name.to_words().map(u64::to_le_bytes).concat();
            assert_eq!(DomainName::of_words(&words), Some(name));
        }
        assert_eq!(DomainName::of_words(&[0xff; 72]), None);
    }
}
