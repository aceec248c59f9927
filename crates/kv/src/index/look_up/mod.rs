//! The look-up of a key, without I/O: a state machine that names the place to read next and judges the bytes read
//! there.
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
//! A driver has access to the memory: the driver reads the place that a [`LookUpStep`] names and hands the bytes over,
//! until the step is an end. The drivers of a client read in the call, with posted READs, and for many keys in one
//! batch; the driver of the server reads its own memory.
//!
//! A key's *remembered* location names a record that is read together with its bucket. The bucket alone says whether
//! the record is the key's; otherwise the look-up continues from that bucket as if it had begun there.
//!
//! A [`Wanted`] judges the bytes behind a word: readers want the [`WholeRecord`] of a key.

use std::ops::Range;

use stonecast_base::{LINE_SIZE, mutant};
use stonecast_log::{Expiry, Form, LogFormat, Record, RecordHeader, check_read, read_of_key};

use super::Generations;
use crate::wire::{Bucket, Candidates, KeyHash, Word};

/// The place where a key was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub word: Word,
    /// Buckets between the key's home and its word.
    pub distance: u64,
}

/// The record that a look-up searches for behind a word.
pub(crate) trait Wanted {
    /// The facts about the record once it is found.
    type Found;

    /// Bytes to read first of the record behind `word`; 0 if the word points outside the log. `None` if no record
    /// behind the word is wanted.
    fn read_size(&self, word: Word) -> Option<usize>;

    /// Judges the bytes from the start of the record behind `word`.
    fn judge(&self, word: Word, bytes: &[u8]) -> Judged<Self::Found>;

    /// Like [`Wanted::judge`], for drivers that use only the wanted record.
    #[inline(always)]
    fn found(&self, word: Word, bytes: &[u8]) -> Option<Self::Found> {
        match self.judge(word, bytes) {
            Judged::Found(found) => Some(found),
            _ => None,
        }
    }
}

/// A judgement of the bytes behind a word.
pub(crate) enum Judged<Found> {
    /// The wanted record.
    Found(Found),
    /// The record of another key with the same fingerprint.
    OtherKey,
    /// A record of this many bytes; the bytes at hand are only its start.
    Short(usize),
    /// Bytes that cannot lie behind a word.
    Fault(String),
}

/// The next need of a look-up, or its end.
pub(crate) enum LookUpStep<Found> {
    /// Read this bucket, and hand it to [`LookUp::bucket`].
    Bucket(u64),
    /// Read `size` bytes from this position of the log, and hand them to [`LookUp::record`].
    Record {
        /// Byte position in the log.
        position: u64,
        /// Number of bytes to read.
        size: usize,
    },
    /// The bytes read so far are the start of a record of `size` bytes: read the other bytes too, and hand all of them
    /// to [`LookUp::record`].
    Rest {
        /// Byte position of the record in the log.
        position: u64,
        /// Bytes of the whole record.
        size: usize,
    },
    /// The wanted record was found.
    Found(Found),
    /// The key is not in the index.
    Absent,
    /// A bucket on the way is marked as moved: another table has taken over its content.
    Moved,
    /// The bytes behind [`LookUp::word`] are not a valid record. The word is old, or the record is damaged.
    Fault(String),
}

/// The bytes to read, with one doorbell, for a remembered location, and to hand to [`LookUp::recalled`].
pub(crate) struct Recall {
    /// Byte position of the record in the log.
    pub position: u64,
    /// Bytes of the record.
    pub size: usize,
    /// Buckets from the key's home on.
    pub buckets: usize,
}

/// The look-up of one key in one table: a state machine without I/O.
pub(crate) struct LookUp<W> {
    wanted: W,
    hash: KeyHash,
    bits: u32,
    home: u64,
    /// The bucket that is searched, its bytes, and its words that have not been followed.
    bucket: u64,
    line: [u8; LINE_SIZE],
    left: Candidates,
    /// Buckets that may still be read.
    buckets_left: u64,
    /// The word that is being followed, and its place in the bucket.
    word: Word,
    slot: usize,
    /// Whether the word is that of a remembered location.
    is_recalled: bool,
}

impl<W: Wanted> LookUp<W> {
    /// The look-up of the key with `hash` in a table of 2^`bits` buckets. The first bucket is [`LookUp::home`].
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

    /// Limits the search to `buckets` buckets; a key farther from home counts as absent.
    pub fn within(mut self, buckets: u64) -> Self {
        self.buckets_left = self.buckets_left.min(buckets);
        self
    }

    /// The bucket where the search begins.
    #[inline(always)]
    pub fn home(&self) -> u64 {
        self.home
    }

    /// The bytes to read to begin with `location`, remembered from an earlier look-up. `None`: begin with the home
    /// bucket.
    #[inline(always)]
    pub fn recall(&mut self, location: Location) -> Option<Recall> {
        let Location { word, distance } = location;
        let size = self.wanted.read_size(word)?;
        // The bucket behind the last one is the first. That is rare, so the key is looked up from its home.
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

    /// Takes the bytes that [`LookUp::recall`] asked for: the buckets from the home on, and the record.
    #[inline(always)]
    pub fn recalled(&mut self, buckets: &[[u8; LINE_SIZE]], record: &[u8]) -> LookUpStep<W::Found> {
        if buckets.iter().any(|line| Bucket::parse(line).is_moved()) {
            return LookUpStep::Moved;
        }
        let (Some(home), Some(last)) = (buckets.first(), buckets.last()) else {
            return LookUpStep::Bucket(self.home);
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
    pub fn bucket(&mut self, line: &[u8; LINE_SIZE]) -> LookUpStep<W::Found> {
        if Bucket::parse(line).is_moved() {
            return LookUpStep::Moved;
        }
        self.enter(line);
        self.follow(line)
    }

    /// Takes the bytes of the record that the latest step asked for.
    #[inline(always)]
    pub fn record(&mut self, bytes: &[u8]) -> LookUpStep<W::Found> {
        match self.wanted.judge(self.word, bytes) {
            Judged::Found(found) => LookUpStep::Found(found),
            Judged::Short(size) => LookUpStep::Rest {
                position: self.word.position(),
                size,
            },
            // The location may be older than the key's word in the bucket.
            Judged::OtherKey | Judged::Fault(_) if self.is_recalled => {
                self.is_recalled = false;
                self.follow_on()
            }
            Judged::OtherKey => self.follow_on(),
            Judged::Fault(found) => LookUpStep::Fault(found),
        }
    }

    /// The find that [`LookUp::record`] would return, for drivers that give up on every other outcome. No part of the
    /// look-up has to be kept for later, so the look-up stays in registers.
    #[inline(always)]
    pub fn found(&self, bytes: &[u8]) -> Option<W::Found> {
        self.wanted.found(self.word, bytes)
    }

    /// The word that was followed last.
    #[inline(always)]
    pub fn word(&self) -> Word {
        self.word
    }

    /// Bucket and slot of the word that was followed last. Not for a remembered word.
    #[inline(always)]
    pub fn place(&self) -> (u64, u64) {
        (self.bucket, self.slot as u64)
    }

    /// The location of the word that was followed last. Not for a remembered word.
    pub fn location(&self) -> Location {
        Location {
            word: self.word,
            distance: self.bucket.wrapping_sub(self.home),
        }
    }

    /// Whether the remembered location led to the record that was found.
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

    /// Like [`LookUp::follow`], with the stored bytes of the bucket.
    fn follow_on(&mut self) -> LookUpStep<W::Found> {
        let line = self.line;
        self.follow(&line)
    }

    /// The next word of this bucket that may belong to the key, or the next bucket. `line` holds the bytes of this
    /// bucket: a driver that gives up after one record has them, so they need not be stored.
    #[inline(always)]
    fn follow(&mut self, line: &[u8; LINE_SIZE]) -> LookUpStep<W::Found> {
        let bucket = Bucket::parse(line);
        while let Some((slot, word)) = bucket.next_of(&mut self.left) {
            (self.slot, self.word) = (slot, word);
            match self.wanted.read_size(word) {
                None => {}
                Some(0) => return LookUpStep::Fault("a position outside the log".to_owned()),
                Some(size) => {
                    return LookUpStep::Record {
                        position: word.position(),
                        size,
                    };
                }
            }
        }
        if !bucket.leads_on() || self.buckets_left == 0 {
            return LookUpStep::Absent;
        }
        self.bucket = (self.bucket + 1) & ((1 << self.bits) - 1);
        LookUpStep::Bucket(self.bucket)
    }
}

/// The search for the record that gives `key` its value, checked whole.
#[derive(Clone, Copy)]
pub(crate) struct WholeRecord<'a> {
    /// Format of the log.
    pub format: &'a LogFormat,
    /// The key.
    pub key: &'a [u8],
    /// Receives the generation of every valid record.
    pub generations: &'a Generations,
}

/// A record of the key that was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundRecord {
    /// Version of the key.
    pub version: u64,
    /// Range of the value in the bytes of the record.
    pub value: Range<usize>,
    /// The moment from which on the key is absent. A look-up knows no time: its driver judges.
    pub expires: Option<Expiry>,
    /// The part of a value that the record holds.
    pub form: Form,
}

impl FoundRecord {
    /// Whether the record is the whole value of a key that does not expire.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.expires.is_none() && self.form == Form::Whole
    }
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
            None => self.judge_other(word, bytes, false),
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
            expires: None,
            form: Form::Whole,
        })
    }
}

impl WholeRecord<'_> {
    /// The record of the key, with an expiry or without, if `bytes` are the whole of it.
    #[inline(always)]
    pub fn whole(&self, word: Word, bytes: &[u8]) -> Option<FoundRecord> {
        match self.judge(word, bytes) {
            Judged::Found(found) => Some(found),
            _ => None,
        }
    }

    /// Whether the record gives the key a value, and is left to the complete check: one with an expiry, a head, or a
    /// chunk.
    fn is_other(&self, record: &Record<'_>, wants_chunk: bool) -> bool {
        let header = &record.header;
        record.key == self.key
            && (header.form() == Form::Chunk) == wants_chunk
            && (header.expires().is_some() || header.form() != Form::Whole)
    }

    /// Judges bytes that are not the key's whole record, or one that is left to the complete check.
    #[cold]
    fn judge_other(&self, word: Word, bytes: &[u8], wants_chunk: bool) -> Judged<FoundRecord> {
        // The first read of a record of any other class fetches the whole record.
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
            Ok(record) if self.is_other(&record, wants_chunk) => {
                let header = record.header;
                self.generations.note(header.generation());
                let start = header.key_start() + record.key.len();
                Judged::Found(FoundRecord {
                    version: header.sequence(),
                    value: start..start + record.value.len(),
                    expires: header.expires(),
                    form: header.form(),
                })
            }
            Ok(record)
                if record.key == self.key
                    && record.header.form() == Form::Whole
                    && !wants_chunk =>
            {
                Judged::Fault("a record that gives the key no value".to_owned())
            }
            Ok(record) => {
                // If the record is of a later generation than the word means, the key's own record was here before.
                self.generations.note(record.header.generation());
                Judged::OtherKey
            }
        }
    }
}

/// The search for a chunk of a value, by its name in the place of a key.
#[derive(Clone, Copy)]
pub(crate) struct WholeChunk<'a>(pub WholeRecord<'a>);

impl Wanted for WholeChunk<'_> {
    type Found = FoundRecord;

    fn read_size(&self, word: Word) -> Option<usize> {
        self.0.read_size(word)
    }

    fn judge(&self, word: Word, bytes: &[u8]) -> Judged<FoundRecord> {
        self.0.judge_other(word, bytes, true)
    }
}

/// Bytes to read first of the record behind `word`: the size that the word states, cut at the end of the segment. 0 if
/// the word points outside the log.
#[inline(always)]
pub(crate) fn first_read_size(format: &LogFormat, word: Word) -> usize {
    let segment_size = format.segment_size;
    if word.position() >= segment_size * u64::from(format.segment_count) {
        return 0;
    }
    // The size of a segment is a power of two. A division would delay the load of the record behind the load of the
    // bucket.
    word.read_size()
        .min(segment_size - (word.position() & (segment_size - 1))) as usize
}

/// The size of the record behind `word`, if `bytes` are only its start. `None` if `bytes` are the whole record, or no
/// record.
pub(crate) fn whole_size(format: &LogFormat, word: Word, bytes: &[u8]) -> Option<usize> {
    let size = RecordHeader::parse(bytes.first_chunk()?).ok()?.size();
    let fits = word.position() % format.segment_size + size <= format.segment_size;
    (fits && size > bytes.len() as u64).then_some(size as usize)
}

#[cfg(test)]
mod tests;
