use std::cell::Cell;
use std::collections::BTreeMap;

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_log::{Condition, Draft, Form, Kind, LogFormat, record_size};
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

const KEYS: KeyMap = KeyMap {
    seed: FORMAT.tag_key,
    shards: 1,
};

fn memory(size: u64) -> Rc<dyn Region> {
    Rc::new(MappedRegion::create_memory("index-test", size, Sealing::None).unwrap())
}

/// A log with a record for each key, and the index over it.
struct World {
    log: Rc<dyn Region>,
    end: u64,
    index: Index,
    /// The tables that a reader may hold, and the index of the one that the reader holds.
    tables: Vec<(Rc<dyn Region>, u32)>,
    held: usize,
    model: BTreeMap<u64, u64>,
}

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

fn hash(n: u64) -> KeyHash {
    KEYS.route(&key(n)).hash
}

/// Memory of a table in which a client follows right behind the server: the client's CAS comes between a store and the
/// next step.
struct Raced {
    memory: Rc<dyn Region>,
    /// The word that the client expects, and the word that the client publishes.
    rival: Cell<Option<(Word, Word)>>,
    /// CASes that the client has won.
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
            form: Form::Whole,
            condition: Condition::None,
            token: 0,
            expires: None,
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

    /// Acts like a publishing client: changes the word of a present key, if the word is not claimed. Returns whether
    /// the word was changed.
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
            record_at(&*self.log, KEYS, word.position(), &mut scratch)
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
                "a marked bucket sends its reader to a table that exists"
            );
            self.held = self.tables.len() - 1;
        }
    }

    fn key_at(&self, word: Word) -> KeyHash {
        record_at(&*self.log, KEYS, word.position(), &mut Vec::new())
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
        if let GrowthStep::Switched = self.index.step(buckets, &*self.log, KEYS) {
            let table = self.index.table();
            self.tables.push((table.memory().clone(), table.bits()));
        }
    }
}

/// Fails without any of the marks in `before_change`, the copies in `replace`, `insert` and `remove`, and the copying
/// before the switch: a reader finds an old version or a deleted key, or misses a present key.
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
            "the index grew from 2^{lowest} to 2^{highest} buckets"
        );
        for n in 0..30_000 {
            assert_eq!(world.read(n), world.model.get(&n).copied());
        }
    }
}

/// Fails without the claims of copied words, and if clients may publish while the old table is marked: a reader finds a
/// word in the old table that a client has replaced in the new one.
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

/// Fails unless the store that adds a word to a copied bucket adds a claimed word: between that store and a later claim
/// a client would publish, and the larger table would get the earlier word.
#[test]
fn a_publication_over_a_new_key_is_there_when_the_index_has_grown() {
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

/// Fails if `BUCKETS_PER_OPERATION` is too small: the old table must not fill before the copying is done.
#[test]
fn an_index_that_advances_its_growth_with_each_key_never_fills() {
    let mut world = World::new(INDEX_BITS_MIN);
    for n in 0..200_000 {
        assert!(world.index.len() + 1 < world.index.capacity());
        world.put(n);
        world.tend(4);
    }
}

#[test]
fn an_index_that_is_moved_in_one_step_keeps_every_key() {
    let mut world = World::new(14);
    (0..50_000).for_each(|n| world.put(n));
    for bits in [20, 13, 14] {
        world
            .index
            .move_to(memory(Table::size(bits)), bits, &*world.log, KEYS);
        assert_eq!(world.index.table().bits(), bits);
        assert!((0..50_000).all(|n| {
            world
                .find(n)
                .is_some_and(|(_, word)| Some(&word.position()) == world.model.get(&n))
        }));
    }
}

/// Fails without the fallback of `copy`: damage turns into absence.
#[test]
fn a_word_whose_record_is_damaged_is_copied_and_still_found() {
    let mut world = World::new(INDEX_BITS_MIN);
    (0..100).for_each(|n| world.put(n));
    let damaged = world.model[&50];
    world.log.write(damaged, &[0xff; 64]);
    world
        .index
        .move_to(memory(Table::size(8)), 8, &*world.log, KEYS);
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
