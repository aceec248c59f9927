//! Filling the index from records that a scan finds, in any order.
//!
//! For each key the record with the highest sequence wins. Deletes are kept in the index as words too until everything
//! was seen, because an older put of the same key may come later; then they are taken out.
//!
//! Random memory accesses dominate, so each batch goes through in three passes: prefetch the buckets, prefetch the keys
//! that the words in them point to, then decide.

use std::rc::Rc;

use stonecast_base::mutant;
use stonecast_log::{Found, Kind, LogFormat, RECORD_HEADER_SIZE, RecordHeader, Visitor};
use stonecast_media::Region;

use crate::index::Index;
use crate::word::{KeyHash, Word};

/// See the module documentation.
pub(crate) struct Rebuild {
    log: Rc<dyn Region>,
    tag_key: u64,
    index: Index,
    tombstones: Vec<(KeyHash, u64)>,
    hashes: Vec<KeyHash>,
    sequence_max: u64,
    live_bytes: u64,
    overflow: u64,
}

/// What a rebuild made.
pub(crate) struct Rebuilt {
    pub index: Index,
    /// Highest sequence number seen.
    pub sequence_max: u64,
    /// Bytes of the records that the index points to.
    pub live_bytes: u64,
    /// Keys for which the index had no room.
    pub overflow: u64,
}

/// What stands at a position of the log: enough to compare keys and versions.
pub(crate) struct Resident {
    pub header: RecordHeader,
    pub same_key: bool,
}

/// Reads header and key at `position` and compares the key. `None` where no record header is. `scratch` is reused.
pub(crate) fn resident(log: &dyn Region, position: u64, key: &[u8], scratch: &mut Vec<u8>) -> Option<Resident> {
    let size = (RECORD_HEADER_SIZE + key.len()).min(usize::try_from(log.size() - position).unwrap_or(usize::MAX));
    scratch.resize(size, 0);
    log.read(position, scratch);
    let header = RecordHeader::parse(scratch.get(..RECORD_HEADER_SIZE)?.try_into().expect("64 bytes")).ok()?;
    let same_key = header.key_size() == key.len() && scratch[RECORD_HEADER_SIZE..] == *key;
    Some(Resident { header, same_key })
}

impl Rebuild {
    /// Continues from `index`, which holds what a checkpoint knew.
    pub fn new(log: Rc<dyn Region>, format: &LogFormat, index: Index, sequence_max: u64, live_bytes: u64) -> Self {
        let tag_key = format.tag_key;
        Self { log, tag_key, index, tombstones: Vec::new(), hashes: Vec::new(), sequence_max, live_bytes, overflow: 0 }
    }

    /// Takes the deletes out and hands the index over.
    pub fn finish(mut self) -> Rebuilt {
        for (hash, position) in std::mem::take(&mut self.tombstones) {
            // A tombstone that lost against a later put is no longer pointed to.
            if let Some((place, _)) = self.index.find(hash, |word| word.position() == position || mutant!(TombstoneWinsAlways)) {
                self.index.remove(hash, place);
            }
        }
        Rebuilt { index: self.index, sequence_max: self.sequence_max, live_bytes: self.live_bytes, overflow: self.overflow }
    }

    fn insert(&mut self, found: &Found<'_>, hash: KeyHash, scratch: &mut Vec<u8>) {
        let header = &found.header;
        self.sequence_max = self.sequence_max.max(header.sequence());
        let word = Word::new(found.position, header.generation(), hash, header.size());
        let log = &*self.log;
        let mut old = None;
        let place = self.index.find(hash, |word| match resident(log, word.position(), found.key, scratch) {
            Some(resident) if resident.same_key => {
                old = Some(resident.header);
                true
            }
            _ => false,
        });
        match (place, old) {
            (Some((place, _)), Some(old)) => {
                if (old.sequence() >= header.sequence()) != mutant!(OlderVersionRecovered) {
                    return;
                }
                if old.kind() == Kind::Put {
                    self.live_bytes = self.live_bytes.saturating_sub(old.size());
                }
                self.index.replace(place, word);
            }
            _ if self.index.len() < self.index.capacity() => self.index.insert(hash, word),
            _ => {
                self.overflow += 1;
                return;
            }
        }
        match header.kind() {
            Kind::Put => self.live_bytes += header.size(),
            Kind::Delete => self.tombstones.push((hash, found.position)),
        }
    }
}

impl Visitor for Rebuild {
    fn records(&mut self, batch: &[Found<'_>]) {
        let mut hashes = std::mem::take(&mut self.hashes);
        hashes.clear();
        hashes.extend(batch.iter().map(|found| KeyHash::of(self.tag_key, found.key)));
        hashes.iter().for_each(|&hash| self.index.prefetch(hash));
        for (&hash, found) in hashes.iter().zip(batch) {
            for word in self.index.candidates(hash) {
                self.log.prefetch(word.position(), (RECORD_HEADER_SIZE + found.key.len()) as u64);
            }
        }
        let mut scratch = Vec::new();
        for (&hash, found) in hashes.iter().zip(batch) {
            self.insert(found, hash, &mut scratch);
        }
        self.hashes = hashes;
    }
}
