//! Looking a key up, without I/O: which place to read next, and what the bytes read there say.
//!
//! ```text
//!   Bucket --moved--------------------------------------------------------> Moved
//!     |    \--a word with the key's fingerprint--> Record --of the key----> Found
//!     |                                              | ^  \--longer--> Rest, and judged again
//!     |                                              | |   \--neither a record of the key nor of another--> Fault
//!     |                    another key: next word ---' '--- next bucket of the chain, if there is one
//!     '--no word left, and no later bucket holds words of this one----------> Absent
//! ```
//!
//! A driver has access to the memory: it reads what a [`Step`] names and hands the bytes over, until the
//! step is an end. The client does so in the call, with READs that it posts, and for many keys in one batch; the server
//! does so in its own memory.
//!
//! A key's *remembered* location names a record that is read together with its bucket. The bucket alone says whether the
//! record is the key's; otherwise the look-up continues from that bucket as if it had begun there.
//!
//! A [`Wanted`] judges the bytes behind a word: readers want the [`WholeRecord`] of a key.

use std::ops::Range;

use stonecast_base::{LINE_SIZE, mutant};
use stonecast_log::{LogFormat, RecordHeader, check_read, read_of_key};

use super::Generations;
use crate::wire::{Bucket, Candidates, KeyHash, Word};

/// Where a key was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub word: Word,
    /// Buckets from its home to its word.
    pub distance: u64,
}

/// What is looked for behind a word.
pub(crate) trait Wanted {
    /// What is known of it once it is found.
    type Found;

    /// Bytes to read at first of the record behind `word`; `None`: whatever lies there is not wanted. 0: it points outside the log.
    fn read_size(&self, word: Word) -> Option<usize>;

    /// What the bytes from the start of the record behind `word` are.
    fn judge(&self, word: Word, bytes: &[u8]) -> Judged<Self::Found>;

    /// The same for drivers that have no use for anything but what is wanted.
    #[inline(always)]
    fn found(&self, word: Word, bytes: &[u8]) -> Option<Self::Found> {
        match self.judge(word, bytes) {
            Judged::Found(found) => Some(found),
            _ => None,
        }
    }
}

/// What the bytes behind a word are.
pub(crate) enum Judged<Found> {
    /// What is wanted.
    Found(Found),
    /// The record of another key with the same fingerprint.
    OtherKey,
    /// A record of so many bytes, which are not all here.
    Short(usize),
    /// Nothing that may stand behind a word.
    Fault(String),
}

/// What a look-up needs next, or how it has ended.
pub(crate) enum Step<Found> {
    /// Read this bucket, and hand it to [`LookUp::bucket`].
    Bucket(u64),
    /// Read so many bytes from this position of the log, and hand them to [`LookUp::record`].
    Record {
        /// Byte position in the log.
        position: u64,
        /// Bytes.
        size: usize,
    },
    /// The bytes read so far are the start of a record that takes `size`: read the others too, and hand all to
    /// [`LookUp::record`].
    Rest {
        /// Byte position of the record in the log.
        position: u64,
        /// Bytes of the whole record.
        size: usize,
    },
    /// The key's.
    Found(Found),
    /// The key is not in the index.
    Absent,
    /// A bucket on the way is marked: another table has what this one had.
    Moved,
    /// Behind [`LookUp::word`] is no record that checks. The word is old, or the record is damaged.
    Fault(String),
}

/// What to read, with one doorbell, for a remembered location: to be handed to [`LookUp::recalled`].
pub(crate) struct Recall {
    /// Byte position of the record in the log.
    pub position: u64,
    /// Bytes of the record.
    pub size: usize,
    /// Buckets from the key's home on.
    pub buckets: usize,
}

/// The look-up of one key in one table. See the module documentation.
pub(crate) struct LookUp<W> {
    wanted: W,
    hash: KeyHash,
    bits: u32,
    home: u64,
    /// The bucket that is looked through, its bytes, and its words that have not been followed.
    bucket: u64,
    line: [u8; LINE_SIZE],
    left: Candidates,
    /// Buckets that are still read, at most.
    buckets_left: u64,
    /// The word that is followed, and its place in the bucket.
    word: Word,
    slot: usize,
    /// Whether the word is that of a remembered location.
    is_recalled: bool,
}

impl<W: Wanted> LookUp<W> {
    /// The look-up of the key with `hash` in a table of 2^`bits` buckets. Begins with the bucket [`LookUp::home`].
    #[inline(always)]
    pub fn new(wanted: W, hash: KeyHash, bits: u32) -> Self {
        let home = hash.bucket(bits);
        Self {
            wanted,
            hash,
            bits,
            home,
            bucket: home,
            line: [0; LINE_SIZE],
            left: Candidates::default(),
            buckets_left: 1 << bits,
            word: Word::EMPTY,
            slot: 0,
            is_recalled: false,
        }
    }

    /// Looks through so many buckets at most; a key farther from home is taken for absent.
    pub fn within(mut self, buckets: u64) -> Self {
        self.buckets_left = self.buckets_left.min(buckets);
        self
    }

    /// The bucket where the key is looked for at first.
    #[inline(always)]
    pub fn home(&self) -> u64 {
        self.home
    }

    /// What to read to begin with `location`, remembered from an earlier look-up. `None`: begin with the home bucket.
    #[inline(always)]
    pub fn recall(&mut self, location: Location) -> Option<Recall> {
        let Location { word, distance } = location;
        let size = self.wanted.read_size(word)?;
        // At the end of the table the next bucket is the first: seldom enough to look the key up.
        if size == 0 || self.home + distance >= 1 << self.bits {
            return None;
        }
        self.word = word;
        Some(Recall {
            position: word.position(),
            size,
            buckets: 1 + distance as usize,
        })
    }

    /// Takes what [`LookUp::recall`] asked for: the buckets from the home on, and the record.
    #[inline(always)]
    pub fn recalled(&mut self, buckets: &[[u8; LINE_SIZE]], record: &[u8]) -> Step<W::Found> {
        if buckets.iter().any(|line| Bucket::parse(line).is_moved()) {
            return Step::Moved;
        }
        let (Some(home), Some(last)) = (buckets.first(), buckets.last()) else {
            return Step::Bucket(self.home);
        };
        self.enter(home);
        if Bucket::parse(last).has(self.word) || mutant!(LocationTrusted) {
            self.is_recalled = true;
            return self.record(record);
        }
        self.follow(home)
    }

    /// Takes the bucket that the latest step asked for.
    #[inline(always)]
    pub fn bucket(&mut self, line: &[u8; LINE_SIZE]) -> Step<W::Found> {
        if Bucket::parse(line).is_moved() {
            return Step::Moved;
        }
        self.enter(line);
        self.follow(line)
    }

    /// Takes the bytes of the record that the latest step asked for.
    #[inline(always)]
    pub fn record(&mut self, bytes: &[u8]) -> Step<W::Found> {
        match self.wanted.judge(self.word, bytes) {
            Judged::Found(found) => Step::Found(found),
            Judged::Short(size) => Step::Rest {
                position: self.word.position(),
                size,
            },
            // The location may be older than the word that the bucket has for the key.
            Judged::OtherKey | Judged::Fault(_) if self.is_recalled => {
                self.is_recalled = false;
                self.follow_on()
            }
            Judged::OtherKey => self.follow_on(),
            Judged::Fault(found) => Step::Fault(found),
        }
    }

    /// The find that [`LookUp::record`] would return. For drivers that give up on every other outcome: nothing of the look-up
    /// has to be kept for later, so all of it stays in registers.
    #[inline(always)]
    pub fn found(&self, bytes: &[u8]) -> Option<W::Found> {
        self.wanted.found(self.word, bytes)
    }

    /// The word that was followed last.
    #[inline(always)]
    pub fn word(&self) -> Word {
        self.word
    }

    /// Bucket and place there of the word that was followed last. Not for a remembered one.
    #[inline(always)]
    pub fn place(&self) -> (u64, u64) {
        (self.bucket, self.slot as u64)
    }

    /// Where the word that was followed last lies. Not for a remembered one.
    pub fn location(&self) -> Location {
        Location {
            word: self.word,
            distance: self.bucket.wrapping_sub(self.home),
        }
    }

    /// Whether the remembered location led to what was found.
    #[inline(always)]
    pub fn is_recalled(&self) -> bool {
        self.is_recalled
    }

    #[inline(always)]
    fn enter(&mut self, line: &[u8; LINE_SIZE]) {
        self.line = *line;
        self.left = Bucket::parse(line).candidates(self.hash);
        self.buckets_left -= 1;
    }

    /// As [`LookUp::follow`], with the bytes that are kept for it.
    fn follow_on(&mut self) -> Step<W::Found> {
        let line = self.line;
        self.follow(&line)
    }

    /// The next word of this bucket, whose bytes are `line`, that may be the key's, or the next bucket. A driver that gives up
    /// after one record has the line, so nothing is kept for it.
    #[inline(always)]
    fn follow(&mut self, line: &[u8; LINE_SIZE]) -> Step<W::Found> {
        let bucket = Bucket::parse(line);
        while let Some((slot, word)) = bucket.next_of(&mut self.left) {
            (self.slot, self.word) = (slot, word);
            match self.wanted.read_size(word) {
                None => {}
                Some(0) => return Step::Fault("a position outside the log".to_owned()),
                Some(size) => {
                    return Step::Record {
                        position: word.position(),
                        size,
                    };
                }
            }
        }
        if !bucket.leads_on() || self.buckets_left == 0 {
            return Step::Absent;
        }
        self.bucket = (self.bucket + 1) & ((1 << self.bits) - 1);
        Step::Bucket(self.bucket)
    }
}

/// The record that gives `key` its value, checked whole.
#[derive(Clone, Copy)]
pub(crate) struct WholeRecord<'a> {
    /// Of the log.
    pub format: &'a LogFormat,
    /// The key.
    pub key: &'a [u8],
    /// Told of the generation of every record that checks.
    pub generations: &'a Generations,
}

/// A record of the key that was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundRecord {
    /// Of the key.
    pub version: u64,
    /// Where the value lies among the bytes of the record.
    pub value: Range<usize>,
}

impl Wanted for WholeRecord<'_> {
    type Found = FoundRecord;

    #[inline(always)]
    fn read_size(&self, word: Word) -> Option<usize> {
        Some(first_read_size(self.format, word))
    }

    #[inline(always)]
    fn judge(&self, word: Word, bytes: &[u8]) -> Judged<FoundRecord> {
        match self.found(word, bytes) {
            Some(found) => Judged::Found(found),
            None => self.judge_other(word, bytes),
        }
    }

    #[inline(always)]
    fn found(&self, word: Word, bytes: &[u8]) -> Option<FoundRecord> {
        let (position, low) = (word.position(), word.generation_low());
        let reading = read_of_key(self.format, position, low, self.key, bytes)?;
        self.generations.note(reading.generation);
        Some(FoundRecord {
            version: reading.sequence,
            value: reading.start..reading.start + reading.value.len(),
        })
    }
}

impl WholeRecord<'_> {
    /// Judges bytes that are not the key's whole record.
    #[cold]
    fn judge_other(&self, word: Word, bytes: &[u8]) -> Judged<FoundRecord> {
        // A record of any other class is read whole at first.
        if word.is_long()
            && let Some(size) = whole_size(self.format, word, bytes)
        {
            return Judged::Short(size);
        }
        match check_read(self.format, word.position(), word.generation_low(), bytes) {
            Err(fault) => Judged::Fault(fault.to_string()),
            // A word never points to a record that is not published.
            Ok(record) if record.header.sequence() == 0 => {
                Judged::Fault("a record without a stamp".to_owned())
            }
            Ok(record) if record.key == self.key => {
                Judged::Fault("a record that gives the key no value".to_owned())
            }
            Ok(record) => {
                // If it is of a later generation than the word means, the key's own record was here before.
                self.generations.note(record.header.generation());
                Judged::OtherKey
            }
        }
    }
}

/// Bytes to read at first of the record behind `word`: what the word says, cut at the end of the segment. 0: the word points
/// outside the log.
#[inline(always)]
pub(crate) fn first_read_size(format: &LogFormat, word: Word) -> usize {
    let segment_size = format.segment_size;
    if word.position() >= segment_size * u64::from(format.segment_count) {
        return 0;
    }
    // Segments are of a power of two bytes. A division would stand between the loads of bucket and record.
    word.read_size()
        .min(segment_size - (word.position() & (segment_size - 1))) as usize
}

/// The size of the record behind `word` if `bytes` are only its start. `None`: they are all of it, or no record.
pub(crate) fn whole_size(format: &LogFormat, word: Word, bytes: &[u8]) -> Option<usize> {
    let size = RecordHeader::parse(bytes.first_chunk()?).ok()?.size();
    let fits = word.position() % format.segment_size + size <= format.segment_size;
    (fits && size > bytes.len() as u64).then_some(size as usize)
}

#[cfg(test)]
mod tests;
