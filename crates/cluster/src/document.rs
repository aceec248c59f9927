//! A configuration as bytes.
//!
//! ```text
//!   stonecast-configuration 4 9f8e…32 hexadecimal digits…\n     format version, XXH3-128 of the rest, seeded with the version
//!   { "nonce": …, "epoch": …, … }\n                            JSON, for people to read
//! ```
//!
//! Format 3 lacks the seed of the hashes of keys, and is read as the configuration of a cluster that keeps no keys.
//! Format 2 also lacks copies that leave, and is read as a configuration in which none does. Its tag has no seed.
//!
//! The tag finds accidents, not attackers: a program that may write to the store may write a configuration.

use std::str;

use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};

use crate::check::Inconsistency;
use crate::configuration::Configuration;
use crate::store::VALUE_SIZE_MAX;

const MAGIC: &str = "stonecast-configuration";
/// The format that this program writes.
const VERSION: u32 = 4;
/// The oldest format that this program reads. The format lacks [`Group::leaving`](crate::Group) and the seed of the
/// hashes.
const OLDEST: u32 = 2;
/// The first format with the seed of the hashes.
const WITH_HASH_SEED: u32 = 4;
/// Longest document, in bytes: a store may answer with any bytes.
const SIZE_MAX: usize = VALUE_SIZE_MAX;

/// Bytes that are not a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// Bytes that do not begin like a configuration.
    #[error("this is no configuration of a cluster: it does not begin with `{MAGIC} VERSION TAG`")]
    NotOne,
    /// A document that is longer than any configuration.
    #[error(
        "this is no configuration of a cluster: it has {size} bytes, and {SIZE_MAX} are the most"
    )]
    TooLong {
        /// The number of bytes.
        size: usize,
    },
    /// A document of a newer program.
    #[error(
        "the configuration has format {found}, and this program reads formats {OLDEST} to {VERSION}: use the program that wrote it, or a newer one"
    )]
    Newer {
        /// The format of the document.
        found: u32,
    },
    /// A document of an older program.
    #[error(
        "the configuration has format {found}, and this program reads formats {OLDEST} to {VERSION}: create the cluster anew, or use the program that wrote it"
    )]
    Older {
        /// The format of the document.
        found: u32,
    },
    /// Bytes that differ from the written bytes.
    #[error(
        "the configuration is damaged: its tag is {found:032x}, and its {size} bytes from byte {offset} give {expected:032x}"
    )]
    Damaged {
        /// Offset of the tagged bytes.
        offset: usize,
        /// Number of the tagged bytes.
        size: usize,
        /// The tag in the document.
        found: u128,
        /// The tag of the bytes.
        expected: u128,
    },
    /// Fields that are missing, unknown or of another type.
    #[error("the configuration cannot be read: {reason}")]
    Malformed {
        /// The fault, and its place.
        reason: String,
    },
    /// The configuration contradicts itself.
    #[error("the configuration contradicts itself: {0}")]
    Inconsistent(Inconsistency),
}

impl Configuration {
    /// Encodes the configuration as bytes.
    ///
    /// # Panics
    ///
    /// Panics if the configuration contradicts itself: such a configuration is never written.
    pub fn encode(&self) -> Vec<u8> {
        self.check()
            .expect("no change gives a configuration that contradicts itself");
        let mut body = serde_json::to_vec(self).expect("a configuration has names as keys");
        body.push(b'\n');
        let mut document =
            format!("{MAGIC} {VERSION} {:032x}\n", tag_of(VERSION, &body)).into_bytes();
        document.append(&mut body);
        document
    }

    /// Decodes the configuration in `document`.
    pub fn decode(document: &[u8]) -> Result<Self, DocumentError> {
        if document.len() > SIZE_MAX {
            return Err(DocumentError::TooLong {
                size: document.len(),
            });
        }
        let end = document.iter().position(|&byte| byte == b'\n');
        let end = end.ok_or(DocumentError::NotOne)?;
        let (version, tag) = parse_head(&document[..end]).ok_or(DocumentError::NotOne)?;
        if version < OLDEST {
            return Err(DocumentError::Older { found: version });
        }
        if version > VERSION {
            return Err(DocumentError::Newer { found: version });
        }
        let found = tag.ok_or(DocumentError::NotOne)?;
        let (offset, body) = (end + 1, &document[end + 1..]);
        let expected = tag_of(version, body);
        if found != expected {
            return Err(DocumentError::Damaged {
                offset,
                size: body.len(),
                found,
                expected,
            });
        }
        let configuration: Self =
            serde_json::from_slice(body).map_err(|error| DocumentError::Malformed {
                reason: error.to_string(),
            })?;
        let leaves = configuration
            .groups
            .iter()
            .any(|group| !group.leaving.is_empty());
        if version == OLDEST && leaves {
            return Err(DocumentError::Malformed {
                reason: format!("format {OLDEST} has no field `leaving`"),
            });
        }
        if version < WITH_HASH_SEED && configuration.policy.hash_seed.is_some() {
            return Err(DocumentError::Malformed {
                reason: format!("format {version} has no field `hash_seed`"),
            });
        }
        configuration.check().map_err(DocumentError::Inconsistent)?;
        Ok(configuration)
    }
}

/// The tag of a body. Its seed binds the version: a damaged version makes no document of another format.
fn tag_of(version: u32, body: &[u8]) -> u128 {
    if version == OLDEST {
        xxh3_128(body)
    } else {
        xxh3_128_with_seed(body, version.into())
    }
}

/// Parses version and tag. The head of another version may end differently, so its tag is not parsed.
fn parse_head(head: &[u8]) -> Option<(u32, Option<u128>)> {
    let mut words = str::from_utf8(head).ok()?.split(' ');
    if words.next() != Some(MAGIC) {
        return None;
    }
    let version = words.next()?.parse().ok()?;
    let tag = words
        .next()
        .filter(|tag| tag.len() == 32 && words.next().is_none());
    let tag = tag.and_then(|text| {
        let tag = u128::from_str_radix(text, 16).ok()?;
        // A tag has one spelling: a document that differs in a byte is another document.
        (format!("{tag:032x}") == text).then_some(tag)
    });
    Some((version, tag))
}
