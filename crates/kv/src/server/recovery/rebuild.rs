//! Fills the indexes of all shards from records that a scan finds, in any order.
//!
//! For each key, the record with the highest sequence wins, and of several copies the one that was moved last. Until
//! all records were seen, an index also contains words of deletes, because an older put of the same key may follow;
//! then these words are removed.
//!
//! Random memory accesses dominate, so each batch takes three passes: prefetch the buckets, prefetch the keys of their
//! words, then decide.

use std::rc::Rc;

use stonecast_base::mutant;
use stonecast_log::{Found, Kind, LogFormat, RECORD_START_SIZE, RecordHeader, Visitor};
use stonecast_media::{Backing, MediaError, Region};

use crate::index::Index;
use crate::server::recovery::checkpoint::Checkpoint;
use crate::server::shard::keys::{Keys, index_memory, resident};
use crate::server::space::occupancy::Occupancy;
use crate::wire::{KeyMap, Route, Word};

/// Fills the indexes of all shards from the records of a scan.
pub(crate) struct Rebuild {
    backing: Rc<dyn Backing>,
    log: Rc<dyn Region>,
    shards: Vec<Keys>,
    tombstones: Vec<(Route, u64)>,
    routes: Vec<Route>,
    sequence_max: u64,
    occupancy: Vec<Occupancy>,
    format: LogFormat,
    keys: KeyMap,
    /// Whether clients will change words of the index.
    is_shared: bool,
    failure: Option<MediaError>,
}

/// The result of a rebuild.
pub(crate) struct Rebuilt {
    /// The keys of each shard, by its number.
    pub keys: Vec<Keys>,
    /// Highest sequence number seen.
    pub sequence_max: u64,
    /// The occupancy of each segment, by its number.
    pub occupancy: Vec<Occupancy>,
}

/// A table that exceeds the need of its keys by more than this is rebuilt, since a small table is faster for readers.
const SPARE_BITS_MAX: u32 = 1;

impl Rebuild {
    /// Continues from `shards`, which have the content of `checkpoint`.
    pub fn new(
        backing: Rc<dyn Backing>,
        log: Rc<dyn Region>,
        (format, keys): (&LogFormat, KeyMap),
        (shards, is_shared): (Vec<Keys>, bool),
        checkpoint: Checkpoint,
    ) -> Self {
        let Checkpoint {
            sequence,
            segments: _,
            mut occupancy,
        } = checkpoint;
        occupancy.resize(format.segment_count as usize, Occupancy::EMPTY);
        Self {
            backing,
            log,
            shards,
            tombstones: Vec::new(),
            routes: Vec::new(),
            sequence_max: sequence,
            occupancy,
            format: *format,
            keys,
            is_shared,
            failure: None,
        }
    }

    /// Removes the words of deletes and returns the indexes.
    pub fn finish(mut self) -> Result<Rebuilt, MediaError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        for (Route { shard, hash }, position) in std::mem::take(&mut self.tombstones) {
            let index = &mut self.shards[shard as usize].index;
            // No word points to a tombstone that lost against a later put.
            if let Some(found) = index.find(hash, |word| {
                word.position() == position || mutant!(TombstoneWinsAlways)
            }) {
                index.remove(hash, found);
            }
        }
        for Keys { index, .. } in &mut self.shards {
            let bits = Index::bits_for(index.len());
            if index.table().bits() > bits + SPARE_BITS_MAX {
                let memory = index_memory(&*self.backing, bits, self.is_shared)?;
                index.move_to(memory, bits, &*self.log, self.keys);
            }
        }
        let Self {
            shards,
            sequence_max,
            occupancy,
            ..
        } = self;
        Ok(Rebuilt {
            keys: shards,
            sequence_max,
            occupancy,
        })
    }

    /// Notes a record that may count later, by a copy of it.
    pub fn leave_out(&mut self, found: &Found<'_>) {
        self.sequence_max = self.sequence_max.max(found.header.sequence());
        self.note_found(found);
        if found.header.kind() == Kind::Put {
            // No word names the record, and its copy gets another place: a later tombstone of the key is needed as long
            // as the record lies here.
            self.occupancy_at(found.position)
                .note_death(0, found.header.sequence());
        }
    }

    fn insert(&mut self, found: &Found<'_>, route: Route, scratch: &mut Vec<u8>) {
        let (header, Route { shard, hash }) = (&found.header, route);
        self.sequence_max = self.sequence_max.max(header.sequence());
        if !mutant!(OutcomesNotRecovered) {
            let outcomes = &mut self.keys_of(shard).outcomes;
            outcomes.note(header.token(), header.sequence());
        }
        self.note_found(found);
        let word = Word::new(found.position, header.generation(), hash, header.size());
        let log = &*self.log;
        let mut old = None;
        let index = &self.shards[shard as usize].index;
        let place = index.find(hash, |word| {
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
                    let live_bytes = &mut self.keys_of(shard).live_bytes;
                    *live_bytes = live_bytes.saturating_sub(old.size());
                    self.occupancy_at(old_position)
                        .note_death(old.size(), old.sequence());
                }
                self.keys_of(shard).index.replace(hash, place, word);
            }
            _ => {
                if let Err(failure) = self.make_room(shard) {
                    self.failure = Some(failure);
                    return;
                }
                self.keys_of(shard).index.insert(hash, word);
            }
        }
        match header.kind() {
            Kind::Put => {
                self.keys_of(shard).live_bytes += header.size();
                self.occupancy_at(found.position).live += header.size() as i64;
            }
            Kind::Delete => self.tombstones.push((route, found.position)),
        }
    }

    /// Notes a record, whether its key's word names the record or not.
    fn note_found(&mut self, found: &Found<'_>) {
        let Found {
            position, header, ..
        } = found;
        let occupancy = self.occupancy_at(*position);
        occupancy.written_at = occupancy.written_at.max(header.written_at());
        if header.kind() == Kind::Delete && header.time_mark().is_none() {
            occupancy.note_tombstone(header.size(), header.sequence());
        }
    }

    /// The occupancy of the segment at `position`. Words of the index point into the log: words of a checkpoint were
    /// checked, and all others were found there.
    fn occupancy_at(&mut self, position: u64) -> &mut Occupancy {
        &mut self.occupancy[self.format.locate(position).0 as usize]
    }

    fn keys_of(&mut self, shard: u32) -> &mut Keys {
        &mut self.shards[shard as usize]
    }

    /// Makes room in the index of `shard` for one more key. Deleted keys take room until all records were seen.
    fn make_room(&mut self, shard: u32) -> Result<(), MediaError> {
        let index = &mut self.shards[shard as usize].index;
        if index.len() >= index.capacity() {
            let bits = index.table().bits() + 1;
            let memory = index_memory(&*self.backing, bits, self.is_shared)?;
            index.move_to(memory, bits, &*self.log, self.keys);
        }
        Ok(())
    }

    /// The way to the key of a record.
    fn route(&self, found: &Found<'_>) -> Route {
        let route = self.keys.route_of(found.header.form(), found.key);
        match mutant!(RecoveredIntoOneShard) {
            true => Route { shard: 0, ..route },
            false => route,
        }
    }
}

/// The order that decides between two records of a key: the later version wins, and of copies of one version the copy
/// that was moved last, because the cleaner needs no more room for that copy.
fn age(header: &RecordHeader) -> (u64, Option<u64>) {
    (header.sequence(), header.moved_at())
}

impl Visitor for Rebuild {
    fn records(&mut self, batch: &[Found<'_>]) {
        let mut routes = std::mem::take(&mut self.routes);
        routes.clear();
        routes.extend(batch.iter().map(|found| self.route(found)));
        for &Route { shard, hash } in &routes {
            self.shards[shard as usize].index.prefetch(hash);
        }
        for (&Route { shard, hash }, found) in routes.iter().zip(batch) {
            let size = (RECORD_START_SIZE + found.key.len()) as u64;
            let prefetch = |word: Word| self.log.prefetch(word.position(), size);
            let index = &self.shards[shard as usize].index;
            index.each_candidate(hash, prefetch);
        }
        let mut scratch = Vec::new();
        for (&route, found) in routes.iter().zip(batch) {
            // Records after a failure are only checked for their own damage.
            if self.failure.is_none() {
                self.insert(found, route, &mut scratch);
            }
        }
        self.routes = routes;
    }
}
