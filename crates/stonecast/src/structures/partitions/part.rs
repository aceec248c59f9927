//! The part of a structure that a back-end has: its name says which, of how many, and under which seed keys are hashed.
//!
//! ```text
//!   orders.2-of-3.0123456789abcdef        the second of three partitions of `orders`
//!   orders.2-of-3.0123456789abcdef.new    the same while the structure is being made: it holds nothing
//! ```
//!
//! The name is given by the operation that makes the structure, so no part is without these facts. All parts are made
//! under their new names before the first one is renamed, and an entry is written when all of them are renamed. So if
//! any part has its last name, each back-end of the structure has one.

use stonecast_base::hash::xxh3_64;

use crate::structures::error::Error;

/// Back-ends of a structure, at most.
pub(super) const PARTITIONS_MAX: usize = 256;
/// Bytes of the longest name of a structure.
const NAME_SIZE_MAX: usize = 64;
const NEW: &str = ".new";

/// How many partitions a structure has, and the seed that assigns keys to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hashing {
    pub count: usize,
    pub seed: u64,
}

impl Hashing {
    /// The index of the partition of an encoded key.
    pub fn partition_of(&self, key: &[u8]) -> usize {
        let hash = xxh3_64(self.seed, key);
        // The high half of the product: each partition has the same share of all hashes.
        ((u128::from(hash) * self.count as u128) >> 64) as usize
    }
}

/// A part of a structure, as its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NamedPart {
    /// From 0.
    pub index: usize,
    pub hashing: Hashing,
    /// Whether the structure is being made.
    pub is_new: bool,
}

impl NamedPart {
    /// The name of this part of the structure `base`.
    pub fn name(&self, base: &str) -> String {
        let Hashing { count, seed } = self.hashing;
        let end = if self.is_new { NEW } else { "" };
        format!("{base}.{}-of-{count}.{seed:016x}{end}", self.index + 1)
    }

    /// The part of the structure `base` that has this name; `None`: the name belongs to another structure.
    pub fn parse(base: &str, name: &str) -> Option<Self> {
        let facts = name.strip_prefix(base)?.strip_prefix('.')?;
        let whole = facts.strip_suffix(NEW);
        let (place, seed) = whole.unwrap_or(facts).split_once('.')?;
        let (number, count) = place.split_once("-of-")?;
        let part = Self {
            index: number.parse::<usize>().ok()?.checked_sub(1)?,
            hashing: Hashing {
                count: count.parse().ok()?,
                seed: u64::from_str_radix(seed, 16).ok()?,
            },
            is_new: whole.is_some(),
        };
        // Another spelling of a number is another name.
        (part.name(base) == name).then_some(part)
    }

    fn in_words(self) -> String {
        let (number, count) = (self.index + 1, self.hashing.count);
        let state = if self.is_new { "an unfinished " } else { "" };
        format!("{state}partition {number} of {count}")
    }
}

/// Whether a name leaves room for the facts.
pub(super) fn check_name(name: &str, base: &str) -> Result<(), Error> {
    let longest = NamedPart {
        index: PARTITIONS_MAX - 1,
        hashing: Hashing {
            count: PARTITIONS_MAX,
            seed: 0,
        },
        is_new: true,
    };
    match longest.name(base).len() > NAME_SIZE_MAX {
        true => Err(Error::Name {
            name: name.to_owned(),
        }),
        false => Ok(()),
    }
}

/// The state of a structure, as the parts of all back-ends show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Every back-end has its part.
    Whole(Hashing),
    /// The structure has no entries yet. Parts under this seed are being made.
    Unfinished(Option<u64>),
}

/// Judges the parts of each back-end, in the order in which a client names the back-ends.
///
/// # Errors
/// [`Error::Partition`]: the structure has other back-ends, or another order of them.
pub(super) fn judge(name: &str, found: &[Vec<NamedPart>]) -> Result<State, Error> {
    let count = found.len();
    let refused = |index: usize, found: String| Error::Partition {
        name: name.to_owned(),
        back_end: index + 1,
        back_ends: count,
        found,
    };
    let Some(first) = found.iter().flatten().find(|part| !part.is_new) else {
        let is_fitting =
            |(index, part): (usize, &NamedPart)| part.index == index && part.hashing.count == count;
        let each = found.iter().enumerate();
        let fitting = each.flat_map(|(index, parts)| parts.iter().map(move |part| (index, part)));
        let seed = fitting.clone().find(|place| is_fitting(*place));
        return Ok(State::Unfinished(seed.map(|(_, part)| part.hashing.seed)));
    };
    let seed = first.hashing.seed;
    for (index, parts) in found.iter().enumerate() {
        let expected = Hashing { count, seed };
        let is_expected = |part: &&NamedPart| part.index == index && part.hashing == expected;
        if parts.iter().any(|part| is_expected(&part)) {
            continue;
        }
        let same = parts.iter().find(|part| part.hashing.seed == seed);
        return Err(match (same, parts.first()) {
            (Some(part), _) => refused(index, part.in_words()),
            (None, Some(part)) => {
                refused(index, format!("{} of another structure", part.in_words()))
            }
            (None, None) => refused(index, "no partition".to_owned()),
        });
    }
    Ok(State::Whole(Hashing { count, seed }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(index: usize, count: usize, seed: u64, is_new: bool) -> NamedPart {
        let hashing = Hashing { count, seed };
        NamedPart {
            index,
            hashing,
            is_new,
        }
    }

    #[test]
    fn a_name_says_the_part_and_no_other_name_does() {
        for part in [part(0, 1, 0, false), part(255, 256, u64::MAX, true)] {
            let name = part.name("orders");
            assert_eq!(NamedPart::parse("orders", &name), Some(part), "{name}");
        }
        for other in [
            "orders",
            "orders.1-of-3",
            "orders.0-of-3.0123456789abcdef",
            "orders.01-of-3.0123456789abcdef",
            "orders.1-of-3.123456789abcdef",
            "orders.1-of-3.0123456789ABCDEF",
            "orders.1-of-3.0123456789abcdef.old",
            "stock.1-of-3.0123456789abcdef",
        ] {
            assert_eq!(NamedPart::parse("orders", other), None, "{other}");
        }
        assert!(check_name("x", &"x".repeat(32)).is_ok());
        assert!(check_name("x", &"x".repeat(33)).is_err());
    }

    /// Needs the look at every back-end once one of them has a part that is not new: an empty one may be the wrong one.
    #[test]
    fn other_back_ends_and_another_order_are_refused_and_an_interrupted_beginning_goes_on() {
        let whole = |index| vec![part(index, 2, 7, false)];
        let judged = |found: &[Vec<NamedPart>]| judge("orders", found);
        let hashing = Hashing { count: 2, seed: 7 };
        assert_eq!(
            judged(&[whole(0), whole(1)]).unwrap(),
            State::Whole(hashing)
        );
        let renamed = [whole(0), vec![part(1, 2, 7, true)]];
        assert_eq!(judged(&renamed).unwrap(), State::Whole(hashing));
        let refused = |found: &[Vec<NamedPart>]| judged(found).unwrap_err().to_string();
        let words = refused(&[whole(1), whole(0)]);
        assert!(
            words.starts_with("back-end 1 of 2 has partition 2 of 2 of \"orders\""),
            "{words}"
        );
        let words = refused(&[whole(0), Vec::new()]);
        assert!(
            words.starts_with("back-end 2 of 2 has no partition of"),
            "{words}"
        );
        let words = refused(&[whole(0)]);
        assert!(
            words.starts_with("back-end 1 of 1 has partition 1 of 2"),
            "{words}"
        );
        let words = refused(&[whole(0), vec![part(1, 2, 8, false)]]);
        assert!(words.contains("of another structure"), "{words}");
        assert_eq!(
            judged(&[Vec::new(), Vec::new()]).unwrap(),
            State::Unfinished(None)
        );
        let begun = [Vec::new(), vec![part(1, 2, 9, true)]];
        assert_eq!(judged(&begun).unwrap(), State::Unfinished(Some(9)));
        let other = [vec![part(0, 3, 9, true)], Vec::new()];
        assert_eq!(judged(&other).unwrap(), State::Unfinished(None));
    }

    #[test]
    fn keys_are_spread_evenly_and_the_seed_decides() {
        let hashing = Hashing { count: 3, seed: 1 };
        let mut counts = [0; 3];
        let mut moved = 0;
        for key in 0..30_000_u64 {
            let key = key.to_be_bytes();
            counts[hashing.partition_of(&key)] += 1;
            let other = Hashing { seed: 2, ..hashing };
            moved += u32::from(other.partition_of(&key) != hashing.partition_of(&key));
        }
        assert!(
            counts.iter().all(|count| (9_500..10_500).contains(count)),
            "{counts:?}"
        );
        assert!((19_000..21_000).contains(&moved), "{moved}");
    }
}
