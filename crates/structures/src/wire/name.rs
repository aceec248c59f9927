//! Names of lock domains.

use stonecast_base::hash::xxh3_64;

use super::record::LogKey;

/// Bytes of the longest name.
const SIZE_MAX: usize = 64;
/// Bytes of a name on the medium: size, text, checksum.
pub(crate) const NAME_SIZE: u64 = 80;

/// The name of a lock domain: UTF-8, at most 64 bytes. A domain may have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainName {
    size: u8,
    text: [u8; SIZE_MAX],
}

impl DomainName {
    /// No name.
    pub const NONE: Self = Self {
        size: 0,
        text: [0; SIZE_MAX],
    };

    /// The name with this text; `None`: it is empty or too long.
    ///
    /// ```
    /// use stonecast_structures::DomainName;
    ///
    /// assert_eq!(DomainName::new("orders").unwrap().as_str(), "orders");
    /// assert!(DomainName::new("").is_none() && DomainName::new(&"x".repeat(65)).is_none());
    /// ```
    pub fn new(text: &str) -> Option<Self> {
        let is_name = (1..=SIZE_MAX).contains(&text.len());
        is_name.then(|| {
            let mut name = Self::NONE;
            name.size = text.len() as u8;
            name.text[..text.len()].copy_from_slice(text.as_bytes());
            name
        })
    }

    /// The text; empty: the domain has no name.
    pub fn as_str(&self) -> &str {
        let text = &self.text[..usize::from(self.size)];
        std::str::from_utf8(text).expect("checked when the name was made")
    }

    /// The name of a domain as its page has it.
    pub(crate) fn encode(&self, key: LogKey) -> Vec<u8> {
        let mut bytes = u64::from(self.size).to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.text);
        let checksum = xxh3_64(key.0, &bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The name in the page of a domain; `None`: it is damaged.
    pub(crate) fn decode(key: LogKey, bytes: &[u8]) -> Option<Self> {
        let (bytes, checksum) = bytes.split_last_chunk::<8>()?;
        if xxh3_64(key.0, bytes) != u64::from_le_bytes(*checksum) {
            return None;
        }
        Self::of_words(bytes)
    }

    /// The name as words of a message: its size, and its text.
    pub(crate) fn to_words(self) -> [u64; 9] {
        let mut words = [self.size.into(); 9];
        let (text, _) = self.text.as_chunks::<8>();
        for (word, bytes) in words[1..].iter_mut().zip(text) {
            *word = u64::from_le_bytes(*bytes);
        }
        words
    }

    /// The name in size and text, which lie behind each other.
    pub(crate) fn of_words(bytes: &[u8]) -> Option<Self> {
        let (size, text) = bytes.split_first_chunk::<8>()?;
        let size = usize::try_from(u64::from_le_bytes(*size)).ok()?;
        let text: &[u8; SIZE_MAX] = text.try_into().ok()?;
        let (name, rest) = text.split_at_checked(size)?;
        if rest.iter().any(|byte| *byte != 0) {
            return None;
        }
        match size {
            0 => Some(Self::NONE),
            _ => Self::new(std::str::from_utf8(name).ok()?),
        }
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
