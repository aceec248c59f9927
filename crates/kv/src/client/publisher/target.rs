//! The word of a key that a client overwrites. The look-up reads only the start of the record, up to the end of the
//! key.

use stonecast_log::{Form, LogFormat, RECORD_START_SIZE, RecordHeader, record_size};

use crate::index::{GENERATIONS, Judged, LookUp, Wanted, first_read_size};
use crate::wire::Word;

/// Bytes from the start of a record that hold a key of `key_size` bytes.
pub(super) const fn start_size(key_size: usize) -> usize {
    let size = record_size(key_size, 0) as usize;
    assert!(size >= RECORD_START_SIZE);
    size
}

/// The word of a key, and its place in the index.
pub(super) struct Target {
    /// Number of the index.
    pub table: u32,
    pub bucket: u64,
    pub slot: u64,
    pub word: Word,
    /// Bytes that the record takes.
    pub size: u64,
}

/// The search for a record of `key` that clients may replace: `Some` with the size of that record. `None`: the put is
/// left to the server.
pub(super) struct Overwritable<'a> {
    format: &'a LogFormat,
    key: &'a [u8],
    /// Bytes from the start of a record that hold the key.
    start: usize,
}

impl<'a> Overwritable<'a> {
    #[inline(always)]
    pub fn new(format: &'a LogFormat, key: &'a [u8]) -> Self {
        let start = start_size(key.len());
        Self { format, key, start }
    }
}

impl Wanted for Overwritable<'_> {
    type Found = Option<u64>;

    #[inline(always)]
    fn read_size(&self, word: Word) -> Option<usize> {
        (!word.is_long()).then(|| first_read_size(self.format, word).min(self.start))
    }

    #[inline(always)]
    fn judge(&self, word: Word, start: &[u8]) -> Judged<Option<u64>> {
        let Some(header) = start
            .first_chunk()
            .and_then(|line| RecordHeader::parse(line).ok())
        else {
            return Judged::Found(None);
        };
        let is_keys = header.key_size() == self.key.len()
            && start
                .get(header.key_start()..)
                .is_some_and(|rest| rest.starts_with(self.key));
        if !is_keys {
            return Judged::OtherKey;
        }
        // A word of another class is claimed. After generations have wrapped around, an old word may be stored again.
        // The server drops the chunks that a record names.
        let is_plain = header.form() == Form::Whole
            && word == word.natural(header.size())
            && header.generation() < GENERATIONS;
        Judged::Found(is_plain.then(|| header.size()))
    }
}

impl Target {
    /// The word that `look_up` has found in index number `table`. Its record takes `size` bytes.
    #[inline(always)]
    pub fn new(table: u32, look_up: &LookUp<Overwritable<'_>>, size: u64) -> Self {
        let (bucket, slot) = look_up.place();
        Self {
            table,
            bucket,
            slot,
            word: look_up.word(),
            size,
        }
    }
}
