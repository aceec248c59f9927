//! Fills the index from records that a scan finds, in any order.
//!
//! For each key, the record with the highest sequence wins, and of several copies the one that was moved last. Until all records
//! were seen, the index also contains words of deletes, because an older put of the same key may follow; then these words are
//! removed.
//!
//! Random memory accesses dominate, so each batch takes three passes: prefetch the buckets, prefetch the keys of their words,
//! then decide.

use std::rc::Rc;

use stonecast_base::mutant;
use stonecast_log::{Found, Kind, LogFormat, RECORD_START_SIZE, RecordHeader, Visitor};
use stonecast_media::{Backing, MediaError, Region};

use crate::index::{Index, Table};
use crate::server::recovery::checkpoint::Checkpoint;
use crate::server::shard::outcomes::Outcomes;
use crate::server::space::occupancy::Occupancy;
use crate::wire::{KeyHash, Word};

/// See the module documentation.
pub(crate) struct Rebuild {
    backing: Rc<dyn Backing>,
    log: Rc<dyn Region>,
    index: Index,
    outcomes: Outcomes,
    tombstones: Vec<(KeyHash, u64)>,
    hashes: Vec<KeyHash>,
    sequence_max: u64,
    live_bytes: u64,
    occupancy: Vec<Occupancy>,
    format: LogFormat,
    /// Whether clients will change words of the index.
    is_shared: bool,
    failure: Option<MediaError>,
}

/// The result of a rebuild.
pub(crate) struct Rebuilt {
    pub index: Index,
    /// The outcomes of the latest writes with tokens.
    pub outcomes: Outcomes,
    /// Highest sequence number seen.
    pub sequence_max: u64,
    /// Bytes of the records that the index points to.
    pub live_bytes: u64,
    /// The occupancy of each segment, by its number.
    pub occupancy: Vec<Occupancy>,
}

/// A table that exceeds the need of its keys by more than this is made anew, since a small table is faster for readers.
const SPARE_BITS_MAX: u32 = 1;

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

/// The part of a record of the log that comparisons of keys and versions need.
pub(crate) struct Resident {
    pub header: RecordHeader,
    pub same_key: bool,
}

/// Reads header and key at `position` and compares the key. `None` if no record header is there. `scratch` is reused.
pub(crate) fn resident(
    log: &dyn Region,
    position: u64,
    key: &[u8],
    scratch: &mut Vec<u8>,
) -> Option<Resident> {
    let size = (RECORD_START_SIZE + key.len())
        .min(usize::try_from(log.size() - position).unwrap_or(usize::MAX));
    scratch.resize(size, 0);
    log.read(position, scratch);
    let header = RecordHeader::parse(scratch.first_chunk()?).ok()?;
    let same_key = header.key_size() == key.len() && scratch[header.key_start()..].starts_with(key);
    Some(Resident { header, same_key })
}

impl Rebuild {
    /// Continues from `index`, which has the content of `checkpoint`.
    pub fn new(
        backing: Rc<dyn Backing>,
        log: Rc<dyn Region>,
        format: &LogFormat,
        (index, is_shared): (Index, bool),
        checkpoint: Checkpoint,
    ) -> Self {
        let Checkpoint {
            sequence,
            live_bytes,
            outcomes,
            segments: _,
            mut occupancy,
        } = checkpoint;
        occupancy.resize(format.segment_count as usize, Occupancy::EMPTY);
        Self {
            backing,
            log,
            index,
            outcomes,
            tombstones: Vec::new(),
            hashes: Vec::new(),
            sequence_max: sequence,
            live_bytes,
            occupancy,
            format: *format,
            is_shared,
            failure: None,
        }
    }

    /// Removes the words of deletes and returns the index.
    pub fn finish(mut self) -> Result<Rebuilt, MediaError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        for (hash, position) in std::mem::take(&mut self.tombstones) {
            // No word points to a tombstone that lost against a later put.
            if let Some(found) = self.index.find(hash, |word| {
                word.position() == position || mutant!(TombstoneWinsAlways)
            }) {
                self.index.remove(hash, found);
            }
        }
        let bits = Index::bits_for(self.index.len());
        if self.index.table().bits() > bits + SPARE_BITS_MAX {
            let memory = index_memory(&*self.backing, bits, self.is_shared)?;
            self.index
                .move_to(memory, bits, &*self.log, self.format.tag_key);
        }
        let Self {
            index,
            outcomes,
            sequence_max,
            live_bytes,
            occupancy,
            ..
        } = self;
        Ok(Rebuilt {
            index,
            outcomes,
            sequence_max,
            live_bytes,
            occupancy,
        })
    }

    fn insert(&mut self, found: &Found<'_>, hash: KeyHash, scratch: &mut Vec<u8>) {
        let header = &found.header;
        self.sequence_max = self.sequence_max.max(header.sequence());
        if !mutant!(OutcomesNotRecovered) {
            self.outcomes.note(header.token(), header.sequence());
        }
        self.note_found(found);
        let word = Word::new(found.position, header.generation(), hash, header.size());
        let log = &*self.log;
        let mut old = None;
        let place = self.index.find(hash, |word| {
            match resident(log, word.position(), found.key, scratch) {
                Some(resident) if resident.same_key => {
                    old = Some((resident.header, word.position()));
                    true
                }
                _ => false,
            }
        });
        match (place, old) {
            (Some(place), Some((old, old_position))) => {
                if (age(&old) >= age(header)) != mutant!(OlderVersionRecovered) {
                    if header.kind() == Kind::Put {
                        self.occupancy_at(found.position)
                            .note_death(0, header.sequence());
                    }
                    return;
                }
                if old.kind() == Kind::Put {
                    self.live_bytes = self.live_bytes.saturating_sub(old.size());
                    self.occupancy_at(old_position)
                        .note_death(old.size(), old.sequence());
                }
                self.index.replace(hash, place, word);
            }
            _ => {
                if let Err(failure) = self.make_room() {
                    self.failure = Some(failure);
                    return;
                }
                self.index.insert(hash, word);
            }
        }
        match header.kind() {
            Kind::Put => {
                self.live_bytes += header.size();
                self.occupancy_at(found.position).live += header.size() as i64;
            }
            Kind::Delete => self.tombstones.push((hash, found.position)),
        }
    }

    /// Notes a record, whether its key's word names the record or not.
    fn note_found(&mut self, found: &Found<'_>) {
        let Found {
            position, header, ..
        } = found;
        let occupancy = self.occupancy_at(*position);
        occupancy.written_at = occupancy.written_at.max(header.written_at());
        if header.kind() == Kind::Delete {
            occupancy.note_tombstone(header.size(), header.sequence());
        }
    }

    /// The occupancy of the segment at `position`. Words of the index point into the log: words of a checkpoint were checked, and
    /// all others were found there.
    fn occupancy_at(&mut self, position: u64) -> &mut Occupancy {
        &mut self.occupancy[self.format.locate(position).0 as usize]
    }

    /// Makes room in the index for one more key. Deleted keys take room until all records were seen.
    fn make_room(&mut self) -> Result<(), MediaError> {
        if self.index.len() >= self.index.capacity() {
            let bits = self.index.table().bits() + 1;
            let memory = index_memory(&*self.backing, bits, self.is_shared)?;
            self.index
                .move_to(memory, bits, &*self.log, self.format.tag_key);
        }
        Ok(())
    }
}

/// The order that decides between two records of a key: the later version wins, and of copies of one version the copy that was
/// moved last, because the cleaner needs no more room for that copy.
fn age(header: &RecordHeader) -> (u64, Option<u64>) {
    (header.sequence(), header.moved_at())
}

impl Visitor for Rebuild {
    fn records(&mut self, batch: &[Found<'_>]) {
        let mut hashes = std::mem::take(&mut self.hashes);
        hashes.clear();
        hashes.extend(
            batch
                .iter()
                .map(|found| KeyHash::of(self.format.tag_key, found.key)),
        );
        hashes.iter().for_each(|&hash| self.index.prefetch(hash));
        for (&hash, found) in hashes.iter().zip(batch) {
            for word in self.index.candidates(hash) {
                self.log.prefetch(
                    word.position(),
                    (RECORD_START_SIZE + found.key.len()) as u64,
                );
            }
        }
        let mut scratch = Vec::new();
        for (&hash, found) in hashes.iter().zip(batch) {
            // Records after a failure are only checked for their own damage.
            if self.failure.is_none() {
                self.insert(found, hash, &mut scratch);
            }
        }
        self.hashes = hashes;
    }
}
