//! The keys of a shard, and the part of a record that comparisons of keys need.

use std::rc::Rc;

use stonecast_base::LINE_SIZE;
use stonecast_log::{Form, RECORD_START_SIZE, RecordHeader};
use stonecast_media::{Backing, MediaError, Region};

use super::outcomes::Outcomes;
use crate::index::{Index, Table};
use crate::wire::{KeyMap, Word};

/// The keys of a shard, as recovery finds them.
pub(crate) struct Keys {
    pub index: Index,
    /// The outcomes of the latest writes with tokens.
    pub outcomes: Outcomes,
    /// Bytes of the records that the index points to.
    pub live_bytes: u64,
}

/// New memory for an index of 2^`bits` buckets; with `is_shared`, trusted clients may change words.
pub(crate) fn index_memory(
    backing: &dyn Backing,
    bits: u32,
    is_shared: bool,
) -> Result<Rc<dyn Region>, MediaError> {
    let (name, size) = ("stonecast-index", Table::size(bits));
    if is_shared {
        backing.volatile_for_all(name, size)
    } else {
        backing.volatile(name, size)
    }
}

impl Keys {
    /// No keys, for one of `shards` shards, in an index of 2^`bits` buckets. With `is_shared`, trusted clients may
    /// change words.
    pub fn empty(
        backing: &dyn Backing,
        (bits, is_shared): (u32, bool),
        shards: u32,
    ) -> Result<Self, MediaError> {
        let memory = index_memory(backing, bits, is_shared)?;
        Ok(Self {
            index: Index::new(memory, bits),
            outcomes: Outcomes::forgotten_up_to(0, shards),
            live_bytes: 0,
        })
    }

    /// Number of keys: chunks of values are none. `has_chunks` says whether there may be any.
    pub fn count(&self, log: &dyn Region, map: KeyMap, has_chunks: bool) -> u64 {
        let mut chunks = 0;
        if has_chunks {
            self.index.each(log, map, |_, header| {
                chunks += u64::from(header.form() == Form::Chunk);
            });
        }
        self.index.len() - chunks
    }
}

/// The part of a record of the log that comparisons of keys and versions need.
pub(crate) struct Resident {
    pub header: RecordHeader,
    pub same_key: bool,
}

/// Reads header and key at `position` and compares the key. `None` if no record header is there. `scratch` is reused.
#[inline]
pub(crate) fn resident(
    log: &dyn Region,
    position: u64,
    key: &[u8],
    scratch: &mut Vec<u8>,
) -> Option<Resident> {
    // Whole lines are copied in the shortest way.
    let size = (RECORD_START_SIZE + key.len())
        .next_multiple_of(LINE_SIZE)
        .min(usize::try_from(log.size() - position).unwrap_or(usize::MAX));
    scratch.resize(size, 0);
    log.read(position, scratch);
    let header = RecordHeader::parse(scratch.first_chunk()?).ok()?;
    let same_key = header.key_size() == key.len() && scratch[header.key_start()..].starts_with(key);
    Some(Resident { header, same_key })
}

/// The header of the record that `word` names; `None`: no record is there.
pub(super) fn header_behind(log: &dyn Region, word: Word) -> Option<RecordHeader> {
    let mut start = [0; RECORD_START_SIZE];
    log.read(word.position(), &mut start);
    RecordHeader::parse(&start).ok()
}
