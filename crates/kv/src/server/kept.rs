//! The records that a backup still has to read, though their keys have later ones.
//!
//! ```text
//!   begin        a client holds a version: that of the last write that was decided
//!   note         a key loses its record: kept, if the record belongs to the held version
//!   page         the client learns the words of kept records, and says how many it has read
//!   wait         the cleaner leaves a segment alone while the client has to read records there
//! ```
//!
//! One client holds at a time; the next one that asks takes its place. A hold is lost when too many records wait, or
//! when the cleaner has waited too long: writers come first.
//!
//! Invariant: the held version consists of the records that the index names with a version up to the held one, and of
//! the noted records.

use std::collections::{BTreeMap, VecDeque};

use stonecast_base::{Nanoseconds, mutant};
use stonecast_fabric::QueuePair;

use crate::wire::limits::{KEPT_MAX, KEPT_WAIT_NS};
use crate::wire::{KEPT_WORDS, KeptPage, Word};

/// The records that a server keeps for the client that holds a version.
#[derive(Default)]
pub(super) struct Kept {
    hold: Option<Hold>,
}

struct Hold {
    owner: QueuePair,
    version: u64,
    /// Keys of the held version, and chunks of values.
    keys: u64,
    chunks: u64,
    /// Words of the records that the client still has to read, in the order in which their keys lost them.
    waiting: VecDeque<Word>,
    /// Words in front of those.
    read: u64,
    /// The segments of the records that wait, with their number.
    segments: BTreeMap<u32, u32>,
    /// The segment for which the cleaner waits, and since when.
    delayed: Option<(u32, Nanoseconds)>,
}

impl Kept {
    /// Lets the client of `owner` hold `version`, at which the store has so many `keys`.
    pub fn begin(&mut self, owner: QueuePair, version: u64, (keys, chunks): (u64, u64)) {
        self.hold = Some(Hold {
            owner,
            version,
            keys,
            chunks,
            waiting: VecDeque::new(),
            read: 0,
            segments: BTreeMap::new(),
            delayed: None,
        });
    }

    /// The client that holds a version.
    pub fn owner(&self) -> Option<QueuePair> {
        self.hold.as_ref().map(|hold| hold.owner)
    }

    /// Ends the hold, or loses it.
    pub fn end(&mut self) {
        self.hold = None;
    }

    /// Notes that a key has lost the record of version `version`, which `word` names, to a write of version `by`.
    /// `segment_of` returns the segment of a word, and is called only while a client holds a version.
    #[inline]
    pub fn note(&mut self, word: Word, segment_of: impl Fn(Word) -> u32, version: u64, by: u64) {
        let Some(hold) = &mut self.hold else { return };
        if version > hold.version || by <= hold.version || mutant!(ReplacedNotKept) {
            return;
        }
        hold.waiting.push_back(word);
        *hold.segments.entry(segment_of(word)).or_default() += 1;
        if hold.waiting.len() > KEPT_MAX {
            self.hold = None;
        }
    }

    /// The next words for the client of `owner`, which has read `read` records in all. `segment_of` returns the segment
    /// of a word. `None`: the client holds no version.
    pub fn page(
        &mut self,
        owner: QueuePair,
        read: u64,
        segment_of: impl Fn(Word) -> u32,
    ) -> Option<KeptPage> {
        let hold = self.hold.as_mut().filter(|hold| hold.owner == owner)?;
        let count = read
            .saturating_sub(hold.read)
            .min(hold.waiting.len() as u64);
        hold.read += count;
        for word in hold.waiting.drain(..count as usize) {
            let number = segment_of(word);
            if let Some(waiting) = hold.segments.get_mut(&number) {
                *waiting -= 1;
                if *waiting == 0 {
                    hold.segments.remove(&number);
                    hold.delayed.take_if(|(delayed, _)| *delayed == number);
                }
            }
        }
        let mut words = [Word::EMPTY; KEPT_WORDS];
        for (into, &word) in words.iter_mut().zip(&hold.waiting) {
            *into = word;
        }
        Some(KeptPage {
            version: hold.version,
            keys: hold.keys,
            chunks: hold.chunks,
            waiting: hold.waiting.len() as u64,
            words,
        })
    }

    /// Whether segment `number` has to stay as it is, for records that wait there. The cleaner asks at `now`, and does
    /// not wait forever.
    pub fn delays(&mut self, number: u32, now: Nanoseconds) -> bool {
        let Some(hold) = &mut self.hold else {
            return false;
        };
        if !hold.segments.contains_key(&number) || mutant!(KeptNotWaitedFor) {
            return false;
        }
        let since = match hold.delayed {
            Some((delayed, since)) if delayed == number => since,
            _ => now,
        };
        hold.delayed = Some((number, since));
        let waits = now < since + KEPT_WAIT_NS;
        if !waits {
            self.hold = None;
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::KeyHash;

    const OWNER: QueuePair = QueuePair(7);

    fn word(position: u64) -> Word {
        Word::new(position, 1, KeyHash(0), 64)
    }

    fn segment_of(word: Word) -> u32 {
        (word.position() >> 20) as u32
    }

    fn held() -> Kept {
        let mut kept = Kept::default();
        kept.begin(OWNER, 10, (3, 1));
        kept
    }

    #[test]
    fn only_records_of_the_held_version_that_later_writes_replace_are_kept() {
        let mut kept = held();
        kept.note(word(64), segment_of, 11, 12);
        kept.note(word(128), segment_of, 9, 10);
        kept.note(word(192), segment_of, 10, 11);
        let page = kept.page(OWNER, 0, segment_of).unwrap();
        assert_eq!((page.waiting, page.words[0]), (1, word(192)));
        assert_eq!((page.version, page.keys), (10, 3));
    }

    #[test]
    fn a_segment_waits_until_its_kept_records_are_read_and_no_longer_than_the_limit() {
        let mut kept = held();
        kept.note(word(3 << 20), segment_of, 1, 11);
        assert!(kept.delays(3, 5) && !kept.delays(4, 5));
        kept.page(OWNER, 1, segment_of).unwrap();
        assert!(!kept.delays(3, 6), "the record was read");
        kept.note(word(3 << 20), segment_of, 2, 12);
        assert!(kept.delays(3, 100) && kept.delays(3, 99 + KEPT_WAIT_NS));
        assert!(!kept.delays(3, 100 + KEPT_WAIT_NS), "writers come first");
        assert!(
            kept.page(OWNER, 1, segment_of).is_none(),
            "the hold is lost"
        );
    }

    #[test]
    fn a_hold_whose_client_does_not_read_is_lost_before_it_takes_more_memory() {
        let mut kept = held();
        for _ in 0..KEPT_MAX {
            kept.note(word(64), segment_of, 1, 11);
        }
        assert!(kept.owner().is_some());
        kept.note(word(64), segment_of, 1, 11);
        assert!(kept.owner().is_none());
    }

    #[test]
    fn a_client_whose_hold_another_one_has_taken_holds_nothing() {
        let mut kept = held();
        kept.begin(QueuePair(8), 12, (3, 1));
        assert!(kept.page(OWNER, 0, segment_of).is_none());
        assert!(kept.page(QueuePair(8), 0, segment_of).is_some());
    }
}
