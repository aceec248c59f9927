//! The state that all threads of a server share.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

use stonecast_media::{PersistentRegion, Region};
use stonecast_persist::execute::Commit;

use super::RowanOptions;
use super::entry::{Entry, UNIT};
use super::index::{Index, Located};
use super::placement::Placement;
use super::segments::{LogKind, Segments, State};
use crate::PublishedError;

/// Bits of a time stamp that name the server.
const SERVER_BITS: u32 = 3;
/// Bytes between the version counters of shards: a cache line each.
const COUNTER: u64 = 64;

/// The state of a server.
pub(crate) struct Store {
    pub options: RowanOptions,
    pub server: u32,
    pub placement: Rc<Placement>,
    pub memory: Rc<dyn PersistentRegion>,
    pub commit: Commit,
    pub segments: Segments,
    index: Index,
    /// The version counter of each shard, in DRAM.
    counters: Rc<dyn Region>,
    /// Versions of each shard whose copies are under way.
    open: RefCell<Vec<BTreeSet<u64>>>,
    /// Full segments of backups' logs that no digest thread has read.
    undigested: RefCell<VecDeque<u32>>,
    commits: RefCell<Commits>,
    /// The latest time stamp that this server gave to each key whose PUT is under way, of the store like HermesKV.
    stamps: RefCell<HashMap<u64, u64>>,
}

/// Facts about the copies of the entries of other servers.
#[derive(Default)]
struct Commits {
    /// For each shard, the version up to which every entry has its copies.
    known: Vec<u64>,
    /// Digested segments with the latest version of each shard in them.
    waiting: Vec<(u32, BTreeMap<u16, u64>)>,
}

impl Store {
    /// Bytes of DRAM for `options`: the indexes, and the version counters behind them.
    pub fn dram_size(options: &RowanOptions) -> u64 {
        let shards = Placement::new(options).shards();
        Index::size(Index::buckets(options.keys, shards), shards) + u64::from(shards) * COUNTER
    }

    /// The state of `server` with empty indexes in `dram`.
    pub fn new(
        options: RowanOptions,
        server: u32,
        placement: Rc<Placement>,
        memory: Rc<dyn PersistentRegion>,
        commit: Commit,
        dram: Rc<dyn Region>,
    ) -> Self {
        let shards = placement.shards();
        let buckets = Index::buckets(options.keys, shards);
        let commits = Commits {
            known: vec![0; shards.into()],
            waiting: Vec::new(),
        };
        Self {
            segments: Segments::open(memory.clone(), &options),
            index: Index::new(dram.clone(), buckets),
            counters: dram,
            open: RefCell::new(vec![BTreeSet::new(); shards.into()]),
            undigested: RefCell::default(),
            commits: RefCell::new(commits),
            stamps: RefCell::default(),
            options,
            server,
            placement,
            memory,
            commit,
        }
    }

    /// Whether this server has cleaning threads.
    pub fn is_cleaned(&self) -> bool {
        self.options.cleaners > 0
    }

    /// Whether this server is the primary of a shard.
    pub fn is_primary(&self, shard: u16) -> bool {
        self.placement.primary(shard) == self.server
    }

    /// Whether every copy of a shard takes requests.
    pub fn is_symmetric(&self) -> bool {
        self.options.replication.is_symmetric()
    }

    /// Whether this server takes requests for a shard.
    pub fn serves(&self, shard: u16) -> bool {
        self.is_primary(shard)
            || self.is_symmetric() && self.placement.backups(shard).contains(&self.server)
    }

    /// The other servers with a copy of a shard.
    pub fn others(&self, shard: u16) -> Vec<u32> {
        let mut servers = self.placement.backups(shard);
        if !self.is_primary(shard) {
            servers.retain(|&server| server != self.server);
            servers.push(self.placement.primary(shard));
        }
        servers
    }

    fn counter(&self, shard: u16) -> u64 {
        let shards = self.placement.shards();
        let buckets = Index::buckets(self.options.keys, shards);
        Index::size(buckets, shards) + u64::from(shard) * COUNTER
    }

    /// The version of the next entry of a shard, whose copies are under way from now on.
    pub fn begin(&self, shard: u16) -> u64 {
        let version = self.counters.fetch_add(self.counter(shard), 1) + 1;
        self.open.borrow_mut()[usize::from(shard)].insert(version);
        version
    }

    /// Notes that the copies of an entry at `place` are made, or that it was given up.
    pub fn end(&self, shard: u16, version: u64, place: Option<u64>) {
        self.open.borrow_mut()[usize::from(shard)].remove(&version);
        if let Some(place) = place {
            let segment = self.segments.of(place);
            if self.segments.count_pending(segment, false) {
                self.segments.set(segment, State::Committed);
            }
        }
    }

    /// Lets versions of a shard continue after `version`.
    pub fn raise(&self, shard: u16, version: u64) {
        let counter = self.counter(shard);
        let found = self.counters.load(counter);
        self.counters.store(counter, found.max(version));
    }

    /// The version of a shard up to which every entry has its copies.
    pub fn commit_version(&self, shard: u16) -> u64 {
        let open = &self.open.borrow()[usize::from(shard)];
        match open.first() {
            Some(oldest) => oldest - 1,
            None => self.counters.load(self.counter(shard)),
        }
    }

    /// The entry of a key.
    pub fn find(&self, shard: u16, key: u64) -> Option<Located> {
        self.index.find(shard, key)
    }

    /// The bytes of an entry.
    pub fn read(&self, located: &Located) -> Vec<u8> {
        let mut bytes = vec![0; located.units as usize * UNIT];
        self.memory.read(located.place, &mut bytes);
        bytes
    }

    /// Lets the index name the entry at `place`, unless it names a later one of the key. Returns whether it does.
    ///
    /// # Errors
    ///
    /// [`PublishedError::Full`]: the index has no room.
    pub fn publish(&self, entry: &Entry<'_>, place: u64) -> Result<bool, PublishedError> {
        self.publish_as(entry, place, false)
    }

    /// Like [`Store::publish`]; readers wait for [`Store::validate`].
    pub fn invalidate(&self, entry: &Entry<'_>, place: u64) -> Result<bool, PublishedError> {
        self.publish_as(entry, place, true)
    }

    /// Lets readers have the entry of a key, if it is still the latest one.
    pub fn validate(&self, shard: u16, key: u64, version: u64) {
        self.index.validate(shard, key, version as u32);
        let stamps = &mut *self.stamps.borrow_mut();
        if stamps.get(&key) == Some(&version) {
            stamps.remove(&key);
        }
    }

    /// A time stamp above all that this server knows of a key: a count, and the number of the server.
    pub fn stamp(&self, shard: u16, key: u64) -> u64 {
        let found = self.index.find(shard, key);
        let found = found.map_or(0, |located| u64::from(located.version));
        let stamps = &mut *self.stamps.borrow_mut();
        let latest = stamps.entry(key).or_default();
        *latest = ((found.max(*latest) >> SERVER_BITS) + 1) << SERVER_BITS | u64::from(self.server);
        *latest
    }

    fn publish_as(
        &self,
        entry: &Entry<'_>,
        place: u64,
        is_invalid: bool,
    ) -> Result<bool, PublishedError> {
        let new = Located {
            version: entry.version as u32,
            units: entry.units(),
            place,
            is_invalid,
        };
        let replaced = self.index.replace(entry.shard, entry.key, new);
        let Ok(before) = replaced.ok_or(PublishedError::Full)? else {
            return Ok(false);
        };
        if let Some(before) = before {
            self.segments.count_live(before.place, before.units, false);
        }
        self.segments.count_live(place, new.units, true);
        Ok(true)
    }

    /// Lets the index name nothing for the key of `entry`, whose segment is cleaned.
    pub fn forget(&self, entry: &Entry<'_>) {
        self.index
            .forget(entry.shard, entry.key, entry.version as u32);
    }

    /// Notes that a segment is full.
    pub fn note_full(&self, segment: u32) {
        match self.segments.state(segment).1 {
            LogKind::Backup => self.undigested.borrow_mut().push_back(segment),
            LogKind::Primary if self.segments.pending(segment) > 0 => {}
            LogKind::Primary | LogKind::Applied => {
                self.segments.set(segment, State::Committed);
            }
        }
    }

    /// A full segment of a backup's log that no digest thread has read.
    pub fn take_undigested(&self) -> Option<u32> {
        self.undigested.borrow_mut().pop_front()
    }

    /// Full segments that wait for a digest thread.
    pub fn undigested(&self) -> usize {
        self.undigested.borrow().len()
    }

    /// Notes that a segment was digested. The segment is committed when all these versions are.
    pub fn note_digested(&self, segment: u32, versions: BTreeMap<u16, u64>) {
        self.commits.borrow_mut().waiting.push((segment, versions));
        self.settle_commits();
    }

    /// Notes the version of a shard up to which every entry has its copies.
    pub fn note_commit(&self, shard: u16, version: u64) {
        let known = &mut self.commits.borrow_mut().known;
        if let Some(known) = known.get_mut(usize::from(shard)) {
            *known = version.max(*known);
        }
    }

    /// Commits the digested segments all of whose entries have their copies.
    pub fn settle_commits(&self) {
        let Commits { known, waiting } = &mut *self.commits.borrow_mut();
        waiting.retain(|(segment, versions)| {
            let is_committed = versions
                .iter()
                .all(|(&shard, &version)| version <= known[usize::from(shard)]);
            if is_committed {
                self.segments.set(*segment, State::Committed);
            }
            !is_committed
        });
    }
}
