//! The part of a record that a reader needs: the version and the value of a key, if this is the
//! key's record.
//!
//! The function reaches the same verdict as [`check_read`](super::check_read) followed by a
//! comparison of the key, in as few steps as possible, and only for the expected record. For any
//! other record the check names the fault. One word holds everything that a reader knows
//! beforehand, and is compared at once:
//!
//! ```text
//!   facts   | expiry? | generation, low 10 of 29 bits | rule | token? | size of the key | what: a value of so many bytes |
//!             no        known                                           known             bounds the rest
//! ```
//!
//! A record with an expiry is left to the check as well, so that a record without one costs nothing more.
//!
//! Invariant: the function trusts no record before it has compared the tag; before that, the
//! record's own facts decide only how many of the bytes the tag is computed over.

use stonecast_base::mutant;
use zerocopy::FromBytes as _;

use super::{
    GENERATION_LOW_MASK, GENERATION_SHIFT, HAS_EXPIRY, HAS_TOKEN, HEADER_SIZE_MIN, KEY_SIZE_MASK,
    KEY_SIZE_MAX, KEY_SIZE_SHIFT, MOVED, PUT_FROM, RULE_SHIFT, StartBytes, TAGGED_FROM,
    VALUE_SIZE_MAX, VERSION, WHAT_MASK, has_moment,
};
use crate::format::LogFormat;
use crate::stamp::Links;

/// The published record of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading<'a> {
    /// The sequence of the record: the version of the key.
    pub sequence: u64,
    /// Generation of the segment.
    pub generation: u32,
    /// Start of the value among the bytes of the record.
    pub start: usize,
    /// The value.
    pub value: &'a [u8],
}

/// The record of `key`, if `bytes`, at least a unit, start with a stamped whole record that gives
/// the key a value for good and belongs at `position` in a segment of a generation with these low bits.
/// `None`: another record, one with an expiry, a damaged one, or none; see [`check_read`](super::check_read).
#[inline(always)]
pub fn read_of_key<'a>(
    format: &LogFormat,
    position: u64,
    generation_low: u16,
    key: &[u8],
    bytes: &'a [u8],
) -> Option<Reading<'a>> {
    const {
        // The lower bit of a rule says whether there is a moment.
        assert!(
            VERSION & MOVED == 1
                && has_moment(VERSION)
                && has_moment(MOVED)
                && !has_moment(0)
                && !has_moment(2)
        );
    }
    const KEY_SIZE: u64 = KEY_SIZE_MASK << KEY_SIZE_SHIFT;
    const GENERATION_LOW: u64 = (GENERATION_LOW_MASK as u64) << GENERATION_SHIFT;
    if !(1..=KEY_SIZE_MAX).contains(&key.len()) {
        return None;
    }
    let (start, _) = StartBytes::ref_from_prefix(bytes).ok()?;
    let is_unchecked = mutant!(TagNotCheckedByReader);
    let facts = start.facts.get();
    let known =
        (key.len() as u64 - 1) << KEY_SIZE_SHIFT | u64::from(generation_low) << GENERATION_SHIFT;
    let value_size = (facts & WHAT_MASK).wrapping_sub(PUT_FROM) as usize;
    if (facts ^ known)
        & (if is_unchecked {
            KEY_SIZE | HAS_EXPIRY
        } else {
            KEY_SIZE | HAS_EXPIRY | GENERATION_LOW
        })
        != 0
        || value_size > VALUE_SIZE_MAX
    {
        return None;
    }
    let has_token = facts & HAS_TOKEN != 0;
    if has_token && start.more.first_chunk() == Some(&[0; 8]) {
        return None;
    }
    // Places among the tagged bytes.
    let key_start = HEADER_SIZE_MIN - TAGGED_FROM
        + 8 * (usize::from(has_token) + (facts >> RULE_SHIFT & 1) as usize);
    let value_start = key_start + key.len();
    let tagged = bytes[TAGGED_FROM..].get(..value_start + value_size)?;
    let tag = format.tag(
        position,
        Links::from_word(start.links.get()).opening.into(),
        tagged,
    );
    let sequence = start.sequence.get();
    if (start.tag.get() != tag && !is_unchecked)
        || sequence == 0
        || !are_equal(&tagged[key_start..][..key.len()], key)
    {
        return None;
    }
    let (generation, start) = (
        (facts >> GENERATION_SHIFT) as u32,
        TAGGED_FROM + value_start,
    );
    Some(Reading {
        sequence,
        generation,
        start,
        value: &tagged[value_start..],
    })
}

/// Whether two keys of the same length are equal, without a loop for the most common lengths.
#[inline(always)]
fn are_equal(left: &[u8], right: &[u8]) -> bool {
    /// Whether the first and the last `SIZE` bytes, which may overlap, are equal.
    #[inline(always)]
    fn ends<const SIZE: usize>(left: &[u8], right: &[u8]) -> bool {
        left.first_chunk::<SIZE>() == right.first_chunk()
            && left.last_chunk::<SIZE>() == right.last_chunk()
    }
    match right.len() {
        8..=16 if left.len() == right.len() => ends::<8>(left, right),
        17..=32 if left.len() == right.len() => ends::<16>(left, right),
        _ => left == right,
    }
}
