//! A standing record as bytes.
//!
//! ```text
//!   stonecast-standing 1 9f8e…32 hexadecimal digits…     format version, XXH3-128 of the rest after the version
//!   content 6ba7b810…                                    names the content
//!   generation 2                                         counts the back-ends of the content
//!   back-end 6ba7b811…                                   the pool that is the back-end's
//!   mirror 6ba7b812… | none                              the pool without which the back-end acknowledges nothing
//!   openings 7                                           counts the swaps; each decides those that are under way
//! ```
//!
//! The tag detects accidents, not attacks: a program that may write to the store may write a record.

use std::fmt::Write as _;

use stonecast_base::hash::xxh3_128;

use super::fault::StandingFault;

const MAGIC: &str = "stonecast-standing";
/// The format that this program writes and reads.
const VERSION: u32 = 1;

/// The value that a back-end and its mirror share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandingRecord {
    /// The name of the content.
    pub content: u128,
    /// The number of back-ends that the content has had.
    pub generation: u64,
    /// The name of the pool that is the back-end's.
    pub back_end: u128,
    /// The name of the pool without which the back-end acknowledges nothing; 0: none.
    pub mirror: u128,
    /// The number of swaps of the record.
    pub openings: u64,
}

impl StandingRecord {
    /// The same record of another opening.
    pub(super) fn opened_again(self) -> Self {
        Self {
            openings: self.openings + 1,
            ..self
        }
    }

    /// The record as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let Self {
            content,
            generation,
            back_end,
            mirror,
            openings,
        } = self;
        let mut body =
            format!("content {content:032x}\ngeneration {generation}\nback-end {back_end:032x}\n");
        let written = match mirror {
            0 => writeln!(body, "mirror none"),
            mirror => writeln!(body, "mirror {mirror:032x}"),
        };
        written.expect("a text takes all of it");
        writeln!(body, "openings {openings}").expect("a text takes all of it");
        let tag = tag_of(&body);
        format!("{MAGIC} {VERSION} {tag:032x}\n{body}").into_bytes()
    }

    /// The record in `bytes`.
    ///
    /// # Errors
    /// [`StandingFault`]: the bytes are not a record, or are damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, StandingFault> {
        let text = std::str::from_utf8(bytes).map_err(|_| StandingFault::NotOne)?;
        let (head, body) = text.split_once('\n').ok_or(StandingFault::NotOne)?;
        let mut words = head.split(' ');
        if words.next() != Some(MAGIC) {
            return Err(StandingFault::NotOne);
        }
        let version = words.next().and_then(|word| word.parse::<u32>().ok());
        let version = version.ok_or(StandingFault::NotOne)?;
        if version != VERSION {
            return Err(StandingFault::OtherFormat { found: version });
        }
        let record = parse(body).ok_or(StandingFault::Damaged)?;
        // A record has one spelling, tag and all.
        match record.encode() == bytes {
            true => Ok(record),
            false => Err(StandingFault::Damaged),
        }
    }
}

fn tag_of(body: &str) -> u128 {
    xxh3_128(format!("{VERSION}\n{body}").as_bytes())
}

fn parse(body: &str) -> Option<StandingRecord> {
    let mut lines = body.lines();
    let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
    let name = |text: &str| u128::from_str_radix(text, 16).ok();
    Some(StandingRecord {
        content: name(field("content")?)?,
        generation: field("generation")?.parse().ok()?,
        back_end: name(field("back-end")?)?,
        mirror: match field("mirror")? {
            "none" => 0,
            mirror => name(mirror)?,
        },
        openings: field("openings")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: StandingRecord = StandingRecord {
        content: 1 << 100 | 2,
        generation: 3,
        back_end: 4,
        mirror: 0,
        openings: 5,
    };

    #[test]
    fn a_record_is_read_as_it_was_written_and_no_byte_of_it_may_differ() {
        for record in [
            RECORD,
            StandingRecord {
                mirror: 7,
                ..RECORD
            },
        ] {
            let bytes = record.encode();
            assert_eq!(StandingRecord::decode(&bytes), Ok(record));
            for place in 0..bytes.len() {
                let mut other = bytes.clone();
                other[place] ^= 1;
                assert!(StandingRecord::decode(&other).is_err(), "byte {place}");
            }
            let shorter = &bytes[..bytes.len() - 1];
            assert_eq!(StandingRecord::decode(shorter), Err(StandingFault::Damaged));
        }
    }

    #[test]
    fn other_values_of_a_store_are_told_by_name() {
        for other in [&b""[..], b"\xff\n", b"stonecast-configuration 4 00\n{}\n"] {
            assert_eq!(StandingRecord::decode(other), Err(StandingFault::NotOne));
        }
        let newer = StandingFault::OtherFormat { found: 2 };
        assert_eq!(
            StandingRecord::decode(b"stonecast-standing 2 00\n"),
            Err(newer)
        );
    }
}
