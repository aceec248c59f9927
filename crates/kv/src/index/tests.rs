use std::cell::Cell;
use std::collections::BTreeMap;

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_log::{Condition, Draft, Kind, LogFormat, record_size};
use stonecast_media::{MappedRegion, Sealing};

use super::*;
use crate::wire::{CONTROL_OFFSET, MOVED};

const FORMAT: LogFormat = LogFormat {
    uuid: 1,
    tag_key: 7,
    secret: None,
    segment_size: 1 << 30,
    segment_count: 1,
};

fn memory(size: u64) -> Rc<dyn Region> {
    Rc::new(MappedRegion::create_memory("index-test", size, Sealing::None).unwrap())
}

/// A log with a record for each key, and the index over it.
struct World {
    log: Rc<dyn Region>,
    end: u64,
    index: Index,
    /// The tables that a reader may hold, and which of them it holds.
    tables: Vec<(Rc<dyn Region>, u32)>,
    held: usize,
    model: BTreeMap<u64, u64>,
}

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

fn hash(n: u64) -> KeyHash {
    KeyHash::of(FORMAT.tag_key, &key(n))
}

/// Memory of a table in which a client is right behind the server: its CAS comes between a store and whatever follows.
struct Raced {
    memory: Rc<dyn Region>,
    /// The word that the client expects, and the one that it publishes instead.
    rival: Cell<Option<(Word, Word)>>,
    /// CASes that it has won.
    won: Cell<u32>,
}

impl Region for Raced {
    fn size(&self) -> u64 {
        self.memory.size()
    }
    fn read(&self, offset: u64, into: &mut [u8]) {
        self.memory.read(offset, into);
    }
    fn write(&self, offset: u64, from: &[u8]) {
        self.memory.write(offset, from);
    }
    fn load(&self, offset: u64) -> u64 {
        self.memory.load(offset)
    }
    fn store(&self, offset: u64, value: u64) {
        self.memory.store(offset, value);
        if let Some((expected, new)) = self.rival.get()
            && self
                .memory
                .compare_exchange(offset, expected.0, new.0)
                .is_ok()
        {
            self.rival.set(None);
            self.won.set(self.won.get() + 1);
        }
    }
    fn compare_exchange(&self, offset: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.memory.compare_exchange(offset, current, new)
    }
    fn fetch_add(&self, offset: u64, add: u64) -> u64 {
        self.memory.fetch_add(offset, add)
    }
}

impl World {
    fn new(bits: u32) -> Self {
        Self::over(memory(Table::size(bits)), bits)
    }

    fn over(first: Rc<dyn Region>, bits: u32) -> Self {
        Self {
            log: memory(64 << 20),
            end: 256,
            index: Index::new(first.clone(), bits),
            tables: vec![(first, bits)],
            held: 0,
            model: BTreeMap::new(),
        }
    }

    /// Writes a record of the key, and names it.
    fn record_at(&self, n: u64, position: u64) -> Word {
        let key = key(n);
        let draft = Draft {
            kind: Kind::Put,
            condition: Condition::None,
            token: 0,
            key: &key,
            value: &[],
        };
        let mut record = Vec::new();
        draft.encode(&FORMAT, position, 1, 1, &mut record);
        self.log.write(position, &record);
        Word::new(position, 1, hash(n), record_size(8, 0))
    }

    fn put(&mut self, n: u64) {
        let word = self.record_at(n, self.end);
        while self.index.len() + 1 >= self.index.capacity() {
            if let Some(bits) = self.index.larger() {
                self.index.begin_growth(memory(Table::size(bits)));
            }
            self.step(u64::MAX);
        }
        match self.find(n) {
            Some(found) => assert!(
                self.index.replace(hash(n), found, word),
                "no other writer changes it"
            ),
            None => self.index.insert(hash(n), word),
        }
        self.model.insert(n, self.end);
        self.end += record_size(8, 0);
    }

    /// Does what a publishing client does: changes the word of a key that is there, if the word is not claimed, and nothing else.
    /// Returns whether it could.
    fn publish(&mut self, n: u64) -> bool {
        let Some((place, word)) = self.find(n).filter(|_| self.index.may_be_published()) else {
            return false;
        };
        if word != word.natural(record_size(8, 0)) {
            return false;
        }
        let new = self.record_at(n, self.end);
        assert!(
            self.index.table().exchange(place, word, new),
            "no other writer changes it"
        );
        self.model.insert(n, self.end);
        self.end += record_size(8, 0);
        true
    }

    fn delete(&mut self, n: u64) {
        if let Some(found) = self.find(n) {
            self.index.remove(hash(n), found);
        }
        self.model.remove(&n);
    }

    fn find(&self, n: u64) -> Option<(Place, Word)> {
        let mut scratch = Vec::new();
        self.index.find(hash(n), |word| {
            record_at(&*self.log, FORMAT.tag_key, word.position(), &mut scratch)
                .is_some_and(|(found, _)| found == hash(n))
        })
    }

    /// Looks up as a reader does: one-sided, and switching to the current table only if a bucket is marked.
    fn read(&mut self, n: u64) -> Option<u64> {
        loop {
            let (memory, bits) = self.tables[self.held].clone();
            let table = Table::new(memory, bits);
            let mut bucket = hash(n).bucket(bits);
            loop {
                let control = table.memory().load(bucket * 64 + CONTROL_OFFSET);
                if control & MOVED != 0 {
                    break;
                }
                if let Some(word) = table
                    .words_of(bucket)
                    .find(|word| word.matches(hash(n)) && self.key_at(*word) == hash(n))
                {
                    return Some(word.position());
                }
                if control == 0 {
                    return None;
                }
                bucket = (bucket + 1) & (table.buckets() - 1);
            }
            assert!(
                self.held + 1 < self.tables.len(),
                "a marked bucket sends its reader to a table that there is"
            );
            self.held = self.tables.len() - 1;
        }
    }

    fn key_at(&self, word: Word) -> KeyHash {
        record_at(&*self.log, FORMAT.tag_key, word.position(), &mut Vec::new())
            .unwrap()
            .0
    }

    fn tend(&mut self, buckets: u64) {
        if let Some(bits) = self.index.wants() {
            self.index.begin_growth(memory(Table::size(bits)));
        }
        self.step(buckets);
    }

    fn step(&mut self, buckets: u64) {
        if let Step::Switched = self.index.step(buckets, &*self.log, FORMAT.tag_key) {
            let table = self.index.table();
            self.tables.push((table.memory().clone(), table.bits()));
        }
    }
}

/// Needs: the marks in `before_change`, the copies in `replace`, `insert` and `remove`, and the copying before the switch.
/// Without any one of them a reader finds an old version, a deleted key, or misses one that is there.
#[test]
fn readers_see_every_change_at_once_while_the_index_grows_twelve_times() {
    for seed in 0..4 {
        let mut world = World::new(2);
        let mut random = random_from_seed(seed);
        for step in 0..60_000u64 {
            let n = random.random_range(0..30_000);
            if random.random_bool(0.1) {
                world.delete(n);
            } else {
                world.put(n);
            }
            assert_eq!(
                world.read(n),
                world.model.get(&n).copied(),
                "seed {seed} step {step}"
            );
            let other = random.random_range(0..30_000);
            assert_eq!(
                world.read(other),
                world.model.get(&other).copied(),
                "seed {seed} step {step}"
            );
            if step % 16 == 0 {
                world.tend(random.random_range(1..200));
            }
        }
        assert_eq!(world.index.len(), world.model.len() as u64);
        let (lowest, highest) = (world.tables[0].1, world.index.table().bits());
        assert!(
            highest >= lowest + 10,
            "it grew from 2^{lowest} to 2^{highest} buckets"
        );
        for n in 0..30_000 {
            assert_eq!(world.read(n), world.model.get(&n).copied());
        }
    }
}

/// Needs the claims of copied words, and that no client may publish while the old table is marked: otherwise a reader finds there a word
/// that a client has replaced in the new one.
#[test]
fn readers_see_at_once_what_clients_publish_while_the_index_grows() {
    for seed in 0..4 {
        let mut world = World::new(2);
        world.index.share();
        let (mut random, mut published) = (random_from_seed(seed), 0);
        for step in 0..60_000u64 {
            let n = random.random_range(0..30_000);
            match random.random_range(0..10) {
                0 => world.delete(n),
                1..5 if world.publish(n) => published += 1,
                _ => world.put(n),
            }
            assert_eq!(
                world.read(n),
                world.model.get(&n).copied(),
                "seed {seed} step {step}"
            );
            let other = random.random_range(0..30_000);
            assert_eq!(
                world.read(other),
                world.model.get(&other).copied(),
                "seed {seed} step {step}"
            );
            if step % 16 == 0 {
                world.tend(random.random_range(1..200));
            }
        }
        assert!(published > 1000, "{published}");
        assert_eq!(world.index.len(), world.model.len() as u64);
        for n in 0..30_000 {
            assert_eq!(world.read(n), world.model.get(&n).copied());
        }
    }
}

/// Needs a new word of a copied bucket to be claimed by the store that adds it: between that store and a later claim a client would
/// publish, and the larger table would get the earlier word.
#[test]
fn what_a_client_publishes_over_a_key_that_just_came_is_there_when_the_index_has_grown() {
    let bits = INDEX_BITS_MIN;
    let raced = Rc::new(Raced {
        memory: memory(Table::size(bits)),
        rival: Cell::new(None),
        won: Cell::new(0),
    });
    let mut world = World::over(raced.clone(), bits);
    world.index.share();
    world.index.begin_growth(memory(Table::size(bits + 1)));
    world.step((1 << bits) / 2);
    let (keys, size) = (200, record_size(8, 0));
    for n in 0..keys {
        let won = raced.won.get();
        let next = world.end + size;
        let new = world.record_at(n, next);
        raced
            .rival
            .set(Some((Word::new(world.end, 1, hash(n), size), new)));
        world.put(n);
        if raced.won.get() > won {
            world.model.insert(n, next);
        }
        world.end = next + size;
        assert_eq!(
            world.read(n),
            Some(world.model[&n]),
            "key {n} while the index grows"
        );
    }
    raced.rival.set(None);
    (0..2).for_each(|_| world.step(u64::MAX));
    assert!(!world.index.is_growing());
    for n in 0..keys {
        assert_eq!(
            world.read(n),
            Some(world.model[&n]),
            "key {n} in the larger index"
        );
    }
    let won = u64::from(raced.won.get());
    assert!(
        (keys / 4..keys * 3 / 4).contains(&won),
        "half of the buckets were not copied yet: {won}"
    );
}

/// Needs `BUCKETS_PER_OPERATION` not to be too small: the old table must not fill before the copying is done.
#[test]
fn an_index_that_is_tended_once_a_key_never_fills() {
    let mut world = World::new(INDEX_BITS_MIN);
    for n in 0..200_000 {
        assert!(world.index.len() + 1 < world.index.capacity());
        world.put(n);
        world.tend(4);
    }
}

#[test]
fn an_index_that_is_moved_at_once_has_every_key() {
    let mut world = World::new(14);
    (0..50_000).for_each(|n| world.put(n));
    for bits in [20, 13, 14] {
        world
            .index
            .move_to(memory(Table::size(bits)), bits, &*world.log, FORMAT.tag_key);
        assert_eq!(world.index.table().bits(), bits);
        assert!((0..50_000).all(|n| {
            world
                .find(n)
                .is_some_and(|(_, word)| Some(&word.position()) == world.model.get(&n))
        }));
    }
}

/// Needs the fallback of `copy`: without it damage would turn into absence.
#[test]
fn a_word_whose_record_is_damaged_moves_along_and_is_still_found() {
    let mut world = World::new(INDEX_BITS_MIN);
    (0..100).for_each(|n| world.put(n));
    let damaged = world.model[&50];
    world.log.write(damaged, &[0xff; 64]);
    world
        .index
        .move_to(memory(Table::size(8)), 8, &*world.log, FORMAT.tag_key);
    let words = || {
        (0..world.index.table().buckets()).flat_map(|bucket| world.index.table().words_of(bucket))
    };
    assert_eq!(words().filter(|word| word.position() == damaged).count(), 1);
}

#[test]
fn a_table_is_sized_for_its_keys() {
    assert_eq!(Index::bits_for(0), INDEX_BITS_MIN);
    assert_eq!(Index::bits_for(u64::MAX), INDEX_BITS_MAX);
    let words = |bits: u32| (BUCKET_WORDS << bits) as f64;
    for keys in [1_000, 1_000_000, 10_000_000] {
        let load = keys as f64 / words(Index::bits_for(keys));
        assert!(
            (0.3..=0.6).contains(&load),
            "{keys} keys fill {load} of the words"
        );
    }
}
