//! The body of a transaction: entries, each of which replaces whole words of the domain's memory.
//!
//! Entries are applied in the order in which they are listed. Their words are absolute values, so applying them again
//! changes nothing.

use stonecast_base::Span;

use super::record::BODY_SIZE_MAX;

/// Bytes of the header of an entry.
const HEADER_SIZE: usize = 8;
/// Bits of the header that hold the number of words; the other bits hold the first word.
const COUNT_BITS: u32 = 21;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
/// Bytes of the longest entry.
pub const ENTRY_SIZE_MAX: usize = BODY_SIZE_MAX - HEADER_SIZE;

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Bytes from the start of the pool; a multiple of 8.
    pub offset: u64,
    /// The new content: at least 8 bytes, in whole words.
    pub bytes: &'a [u8],
}

impl Entry<'_> {
    /// The bytes of the pool that the entry replaces.
    pub fn span(&self) -> Span {
        Span::new(self.offset, self.bytes.len() as u64)
    }
}

/// The body of a transaction that is being made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries(Vec<u8>);

/// The reason why a body is not a list of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryFault {
    /// The body ends inside an entry.
    #[error("an entry of {size} bytes where {left} are left")]
    Cut {
        /// Bytes of the entry.
        size: usize,
        /// Bytes of the body from the start of the entry.
        left: usize,
    },
    /// An entry replaces nothing.
    #[error("an empty entry for offset {offset}")]
    Empty {
        /// The place that the entry names.
        offset: u64,
    },
    /// An entry names memory that the transaction may not change.
    #[error("an entry for {} bytes at offset {}, which its writer may not change", .0.size, .0.offset)]
    Foreign(Span),
}

impl Entries {
    /// Adds an entry at the end.
    ///
    /// # Panics
    /// Panics if place or size are not whole words, if `bytes` is empty, or if the place is beyond 2^46 bytes.
    pub fn push(&mut self, offset: u64, bytes: &[u8]) {
        assert!(
            offset.is_multiple_of(8) && bytes.len().is_multiple_of(8) && !bytes.is_empty(),
            "{} bytes at {offset} are no whole words",
            bytes.len()
        );
        let (word, count) = (offset / 8, bytes.len() as u64 / 8);
        assert!(word < 1 << (64 - COUNT_BITS) && count <= COUNT_MASK);
        self.0
            .extend_from_slice(&(word << COUNT_BITS | count).to_le_bytes());
        self.0.extend_from_slice(bytes);
    }

    /// Adds an entry of one word.
    pub fn push_word(&mut self, offset: u64, word: u64) {
        self.push(offset, &word.to_le_bytes());
    }

    /// Adds the entries of `other` after these.
    pub fn append(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    /// Removes all entries. The memory stays for others.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether the body has no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The body of the transaction.
    pub fn body(&self) -> &[u8] {
        &self.0
    }

    /// The entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        parse(&self.0).map(|entry| entry.expect("entries are made whole"))
    }
}

/// The entries of a transaction's body, in order. Ends after the first fault.
pub(crate) fn parse(body: &[u8]) -> impl Iterator<Item = Result<Entry<'_>, EntryFault>> {
    let mut rest = body;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let entry = first(rest);
        rest = match &entry {
            Ok(entry) => &rest[HEADER_SIZE + entry.bytes.len()..],
            Err(_) => &[],
        };
        Some(entry)
    })
}

fn first(body: &[u8]) -> Result<Entry<'_>, EntryFault> {
    let cut = |size| EntryFault::Cut {
        size,
        left: body.len(),
    };
    let (header, rest) = body.split_first_chunk().ok_or(cut(HEADER_SIZE))?;
    let header = u64::from_le_bytes(*header);
    let (offset, size) = (
        (header >> COUNT_BITS) * 8,
        (header & COUNT_MASK) as usize * 8,
    );
    if size == 0 {
        return Err(EntryFault::Empty { offset });
    }
    let bytes = rest.get(..size).ok_or(cut(HEADER_SIZE + size))?;
    Ok(Entry { offset, bytes })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn entries_are_read_in_the_order_in_which_they_were_listed() {
        let mut entries = Entries::default();
        entries.push(1 << 45, &[7; 24]);
        let mut more = Entries::default();
        more.push_word(8, 9);
        entries.append(&more);
        let read: Vec<Entry<'_>> = entries.iter().collect();
        assert_eq!(read[0].span(), Span::new(1 << 45, 24));
        assert_eq!(
            read[1],
            Entry {
                offset: 8,
                bytes: &9_u64.to_le_bytes()
            }
        );
        assert_eq!(read.len(), 2);
    }

    #[test]
    fn a_body_that_ends_inside_an_entry_is_refused() {
        let mut entries = Entries::default();
        entries.push_word(64, 1);
        entries.push(72, &[1; 16]);
        let body = entries.body();
        for size in 1..body.len() {
            let is_whole = size == 16;
            let is_read = parse(&body[..size]).all(|entry| entry.is_ok());
            assert_eq!(is_read, is_whole, "{size} bytes");
        }
        let empty = (64_u64 / 8) << COUNT_BITS;
        let fault = parse(&empty.to_le_bytes()).next().unwrap().unwrap_err();
        assert_eq!(fault, EntryFault::Empty { offset: 64 });
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let read: usize = parse(&body).flatten().map(|entry| HEADER_SIZE + entry.bytes.len()).sum();
            prop_assert!(read <= body.len());
        }
    }
}
