//! The messages between requester and responder of a plan.
//!
//! ```text
//!    0  u64  tag: XXH3-64 of everything after the tag
//!    8  u32  size of the message in bytes, this header included
//!   12  u16  kind: 1 places, 2 values, 3 acknowledgement
//!   14  u16  count of parts: 1 or 2; 0 in an acknowledgement
//!   16  u64  number of the message in its session, from 1
//!   24       parts: u64 offset in the responder's data, u32 size, u32 zero
//!    .       values, one after the other, each padded with zeros to a multiple of 8
//! ```
//!
//! All numbers are little-endian. The tag covers the size, so a message that a power cut tore in a persistent receive
//! buffer is not a message: a message is there whole or not at all. The tag protects against accidents, not against an
//! attacker, because a requester may write the responder's data anyway.

use stonecast_base::Span;
use stonecast_base::hash::xxh3_64;

/// Bytes before the parts.
pub(crate) const HEADER_SIZE: usize = 24;
/// Bytes of a part's place.
pub(crate) const PLACE_SIZE: usize = 16;
/// The most parts of an update.
pub(crate) const PARTS_MAX: usize = 2;
/// Seed of the tags, which distinguishes them from those of other formats ("persist" and a version).
const TAG_SEED: u64 = u64::from_le_bytes(*b"persist1");

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The message names places where bytes were written.
    Places = 1,
    /// The message names places and carries their bytes.
    Values = 2,
    /// The message acknowledges an update.
    Acknowledgement = 3,
}

/// A whole message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Framed {
    /// The kind.
    pub kind: Kind,
    /// The number of the message in its session.
    pub number: u64,
    /// Places in the responder's data.
    pub places: Vec<Span>,
    /// For [`Kind::Values`], the range of each value in the message.
    pub values: Vec<std::ops::Range<usize>>,
}

/// Bytes of a message with the values of `sizes`.
pub(crate) fn values_size(sizes: impl Iterator<Item = usize>) -> usize {
    HEADER_SIZE
        + sizes
            .map(|size| PLACE_SIZE + size.next_multiple_of(8))
            .sum::<usize>()
}

/// A message without values.
pub(crate) fn without_values(kind: Kind, number: u64, places: &[Span]) -> Vec<u8> {
    encode(kind, number, places, &[])
}

/// A message with the bytes of each place.
pub(crate) fn with_values(number: u64, parts: &[(u64, &[u8])]) -> Vec<u8> {
    let places: Vec<Span> = parts
        .iter()
        .map(|(offset, bytes)| Span::new(*offset, bytes.len() as u64))
        .collect();
    let values: Vec<&[u8]> = parts.iter().map(|(_, bytes)| *bytes).collect();
    encode(Kind::Values, number, &places, &values)
}

fn encode(kind: Kind, number: u64, places: &[Span], values: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_SIZE];
    for place in places {
        let size = u32::try_from(place.size).expect("a part is shorter than 4 GiB");
        bytes.extend_from_slice(&place.offset.to_le_bytes());
        bytes.extend_from_slice(&u64::from(size).to_le_bytes());
    }
    for value in values {
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    let size = u32::try_from(bytes.len()).expect("a message is shorter than 4 GiB");
    bytes[8..12].copy_from_slice(&size.to_le_bytes());
    bytes[12..14].copy_from_slice(&(kind as u16).to_le_bytes());
    bytes[14..16].copy_from_slice(&(places.len() as u16).to_le_bytes());
    bytes[16..24].copy_from_slice(&number.to_le_bytes());
    let tag = xxh3_64(TAG_SEED, &bytes[8..]);
    bytes[..8].copy_from_slice(&tag.to_le_bytes());
    bytes
}

/// The message at the start of `bytes`, if it is whole.
pub(crate) fn parse(bytes: &[u8]) -> Option<Framed> {
    let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let (tag, second, number) = (word(0)?, word(8)?, word(16)?);
    let (size, kind, count) = (
        (second as u32) as usize,
        (second >> 32) as u16,
        usize::from((second >> 48) as u16),
    );
    let bytes = bytes.get(..size)?;
    if tag != xxh3_64(TAG_SEED, bytes.get(8..)?) || count > PARTS_MAX {
        return None;
    }
    let kind = [Kind::Places, Kind::Values, Kind::Acknowledgement]
        .into_iter()
        .find(|known| *known as u16 == kind)?;
    let mut places = Vec::with_capacity(count);
    for part in bytes
        .get(HEADER_SIZE..HEADER_SIZE + count * PLACE_SIZE)?
        .chunks_exact(PLACE_SIZE)
    {
        let word = |at: usize| {
            u64::from_le_bytes(*part[at..].first_chunk().expect("a place has two words"))
        };
        places.push(Span::new(word(0), u64::from(u32::try_from(word(8)).ok()?)));
    }
    let mut values = Vec::new();
    let mut end = HEADER_SIZE + count * PLACE_SIZE;
    if kind == Kind::Values {
        for place in &places {
            let value = end..end.checked_add(place.size as usize)?;
            end = value.end.checked_next_multiple_of(8)?;
            values.push(value);
        }
    }
    (end == size).then_some(Framed {
        kind,
        number,
        places,
        values,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_back() {
        let places = [Span::new(4096, 64), Span::new(8, 8)];
        let message = parse(&without_values(Kind::Places, 7, &places)).unwrap();
        assert_eq!(
            (message.kind, message.number, message.places.as_slice()),
            (Kind::Places, 7, places.as_slice())
        );
        let bytes = with_values(9, &[(4096, &[1; 61]), (8, &[2; 8])]);
        assert_eq!(bytes.len(), values_size([61, 8].into_iter()));
        let message = parse(&bytes).unwrap();
        assert_eq!((message.kind, message.number), (Kind::Values, 9));
        assert_eq!(message.places, [Span::new(4096, 61), Span::new(8, 8)]);
        let found: Vec<&[u8]> = message
            .values
            .iter()
            .map(|value| &bytes[value.clone()])
            .collect();
        assert_eq!(found, [&[1; 61][..], &[2; 8]]);
        let message = parse(&without_values(Kind::Acknowledgement, 3, &[])).unwrap();
        assert_eq!(
            (message.kind, message.number, message.places.len()),
            (Kind::Acknowledgement, 3, 0)
        );
    }

    /// Needs the tag: without it, a message whose last words never arrived passes for a shorter value.
    #[test]
    fn a_message_with_any_changed_or_missing_byte_is_rejected() {
        let whole = with_values(9, &[(4096, &[1; 61]), (8, &[2; 8])]);
        for position in 0..whole.len() {
            let mut broken = whole.clone();
            broken[position] ^= 0x10;
            assert_eq!(parse(&broken), None, "byte {position}");
            assert_eq!(parse(&whole[..position]), None, "{position} bytes");
        }
        let mut longer = whole.clone();
        longer.extend_from_slice(&[0xee; 100]);
        assert!(
            parse(&longer).is_some(),
            "a receive buffer is longer than its message"
        );
    }

    #[test]
    fn fields_under_a_valid_tag_are_checked_nevertheless() {
        let retagged = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = with_values(9, &[(4096, &[1; 16])]);
            change(&mut bytes);
            let tag = xxh3_64(TAG_SEED, &bytes[8..]);
            bytes[..8].copy_from_slice(&tag.to_le_bytes());
            parse(&bytes)
        };
        assert!(retagged(&|_| {}).is_some());
        for (position, value) in [
            (8, 0xff),
            (12, 0),
            (12, 9),
            (14, 3),
            (14, 2),
            (32, 0xff),
            (36, 1),
            (39, 0xff),
        ] {
            assert_eq!(
                retagged(&|bytes| bytes[position] = value),
                None,
                "byte {position} is {value}"
            );
        }
        assert_eq!(
            retagged(&|bytes| bytes[8] = 8),
            None,
            "a size inside the header"
        );
    }
}
