//! Structures with keys: random histories, and readers beside transactions that are applied a word at a time.

use std::collections::{BTreeMap, BTreeSet};

use rand::{Rng as _, RngExt as _};
use stonecast_base::{Random, SliceExt as _, Span, random_from_seed};
use stonecast_media::Region as _;
use stonecast_structures::shapes::btree::{InnerNodes, Page, Seek};
use stonecast_structures::shapes::hash::Directory;
use stonecast_structures::shapes::{
    Answer, Description, Lookup, Many, Place, Remembered, Rooted, Roots, Stale, Step, Structure,
    StructureKind, Traversal, drive,
};
use stonecast_structures::{Comparison, Key as _, Run, Verb};

use super::in_call;
use super::store::{FIRST, SLAB_SIZE, Store};

/// Bytes of a bucket.
const BUCKET_SIZE: u64 = 128;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The kinds of structures with keys.
pub fn kinds() -> impl Iterator<Item = StructureKind> {
    StructureKind::ALL
        .into_iter()
        .filter(|kind| kind.has_keys())
}

/// The kinds with keys that are there to be compared with.
const CLASSIC: [StructureKind; 3] = [
    StructureKind::SkipList,
    StructureKind::Bst,
    StructureKind::MvBst,
];

/// The kinds that a program should use.
pub fn usual_kinds() -> impl Iterator<Item = StructureKind> {
    kinds().filter(|kind| !CLASSIC.contains(kind))
}

fn description(kind: StructureKind) -> Description {
    Description {
        kind,
        key_size_max: 100,
        value_size: 40,
        schema: 0,
    }
}

fn store_of(kind: StructureKind, slabs: u64) -> Store {
    Store::new(slabs, description(kind))
}

fn in_order(kind: StructureKind) -> bool {
    kind != StructureKind::HashTable
}

fn any_key(random: &mut Random, keys: u64) -> Vec<u8> {
    let number = random.random_range(0..keys);
    // Some keys are long.
    let text = match number % 16 {
        0 => "long".repeat(20),
        _ => String::new(),
    };
    (text, number).encoded()
}

fn any_value(random: &mut Random) -> Vec<u8> {
    let size = match random.random_range(0..40) {
        0 => 3000,
        1..4 => 400,
        _ => random.random_range(0..60),
    };
    let mut value = vec![0; size];
    random.fill_bytes(&mut value);
    value
}

const VERBS: [Verb; 5] = [
    Verb::Insert,
    Verb::InsertIfAbsent,
    Verb::Update,
    Verb::Remove,
    Verb::CompareAndUpdate,
];

/// The value of an operation: that of a comparison expects the value of the key, or something else.
fn operand(random: &mut Random, map: &Map, verb: Verb, key: &[u8], value: Vec<u8>) -> Vec<u8> {
    if verb != Verb::CompareAndUpdate {
        return value;
    }
    let known = map.get(key).filter(|_| random.random_range(0..4) > 0);
    let comparison = Comparison {
        expected: known.map_or(&b"something else"[..], |value| value),
        new: &value,
    };
    comparison.encode()
}

/// The answer of a map.
fn model(map: &mut Map, verb: Verb, key: &[u8], value: &[u8]) -> Answer {
    let existed = map.contains_key(key);
    match verb {
        Verb::CompareAndUpdate => {
            let Comparison { expected, new } = Comparison::parse(value).expect("it is one");
            let is_expected = map.get(key).is_some_and(|value| value == expected);
            if is_expected {
                map.insert(key.to_vec(), new.to_vec());
            }
            return Answer::Changed(is_expected);
        }
        Verb::Remove => drop(map.remove(key)),
        Verb::InsertIfAbsent if existed => {}
        Verb::Update if !existed => {}
        _ => drop(map.insert(key.to_vec(), value.to_vec())),
    }
    Answer::Existed(existed)
}

/// A verb, with more inserts than removals while the map is small.
fn any_verb(random: &mut Random, grows: bool) -> Verb {
    match random.random_range(0..4) {
        0 if grows => Verb::Insert,
        0 => Verb::Remove,
        _ => VERBS[random.random_range(0..VERBS.len())],
    }
}

/// Random operations, with everything read back.
pub fn run(kind: StructureKind, seed: u64) {
    let mut random = random_from_seed(seed);
    let mut store = store_of(kind, 16);
    let mut map = Map::new();
    let keys = [20, 600, 3000][(seed % 3) as usize];
    for round in 0..3_000 {
        let grows = round / 700 % 2 == 0;
        let verb = any_verb(&mut random, grows);
        let (key, value) = (any_key(&mut random, keys), any_value(&mut random));
        let value = operand(&mut random, &map, verb, &key, value);
        let answer = store.stage(verb, &key, &value).expect("there is room");
        assert_eq!(answer, model(&mut map, verb, &key, &value));
        if random.random_range(0..20) == 0 {
            store.publish();
            store.apply_all();
            store.reclaim_beyond(4_000);
        }
        if round % 500 == 499 {
            store.publish();
            store.apply_all();
            let items = map.clone().into_iter().collect();
            store.check(items, in_order(kind));
            check_ranges(&store, &map, &mut random);
        }
    }
}

fn items_of(page: &Page) -> Vec<(Vec<u8>, Vec<u8>)> {
    let items = page.items();
    let items = items.map(|(key, value)| (key.to_vec(), value.to_vec()));
    items.collect()
}

/// Reads from a key to the end, and from a key to the start, a leaf at a time.
fn check_ranges(store: &Store, map: &Map, random: &mut Random) {
    let structure = store.structure();
    if structure.page(Seek::Below(None)).is_none() {
        return;
    }
    let read = |seek| {
        let page = structure.page(seek).expect("it has an order");
        drive(page, |span| store.read(span)).expect("the tree is whole")
    };
    let bound = any_key(random, 3_000);
    let mut found = Vec::new();
    let mut next = Some(bound.clone());
    while let Some(from) = next {
        let page = read(Seek::At(from.clone()));
        found.extend(items_of(&page).into_iter().filter(|(key, _)| *key >= from));
        next = page.high;
    }
    let expected: Vec<_> = map.range(bound.clone()..).map(owned).collect();
    assert_eq!(found, expected);
    for bound in [None, Some(bound)] {
        let mut found = Vec::new();
        let mut below = bound.clone();
        loop {
            let page = read(Seek::Below(below.clone()));
            let items = items_of(&page).into_iter().rev();
            let is_below = |key: &Vec<u8>| below.as_ref().is_none_or(|below| key < below);
            found.extend(items.filter(|(key, _)| is_below(key)));
            if page.low.is_empty() {
                break;
            }
            below = Some(page.low);
        }
        let all = map.iter().rev();
        let is_below = |key: &Vec<u8>| bound.as_ref().is_none_or(|bound| key < bound);
        let expected: Vec<_> = all.filter(|(key, _)| is_below(key)).map(owned).collect();
        assert_eq!(found, expected);
    }
}

fn owned((key, value): (&Vec<u8>, &Vec<u8>)) -> (Vec<u8>, Vec<u8>) {
    (key.clone(), value.clone())
}

/// Places that a reader remembers.
type Cache = BTreeMap<(u64, u64), Vec<u8>>;

/// A reader that remembers inner places, and the table of structures.
#[derive(Default)]
struct Reader {
    cache: Cache,
    roots: Option<Roots>,
    /// The decoded places, for reads in the call.
    remembered: Remembered,
    /// Reads that ended in the call.
    in_call: usize,
}

impl Reader {
    /// A reader that keeps no, some or all decoded nodes.
    fn new(random: &mut Random) -> Self {
        let size = [0, 1 << 13, 1 << 20][random.random_range(0..3)];
        Self {
            remembered: Remembered {
                nodes: InnerNodes::new(size),
                directory: Directory::new(size),
            },
            ..Self::default()
        }
    }

    /// Forgets what may be stale.
    fn begin_again(&mut self, random: &mut Random) {
        let in_call = self.in_call;
        *self = Self::new(random);
        self.in_call = in_call;
    }

    fn structure(
        &mut self,
        store: &mut Store,
        random: &mut Random,
    ) -> Result<(Structure, (Span, u64)), Stale> {
        if self.roots.is_none() {
            let mut roots = store.read_roots();
            let read = self.read(store, random, &mut |bytes| roots.step(bytes))?;
            self.roots = Some(read);
        }
        let roots = self.roots.as_ref().expect("it was read");
        let structure = roots.structure(FIRST).expect("it is never dropped");
        Ok((structure, roots.word()))
    }

    fn get(
        &mut self,
        store: &mut Store,
        random: &mut Random,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, Stale> {
        let (structure, word) = self.structure(store, random)?;
        if random.random() {
            let of = (&structure, word);
            let found = in_call::find((store, random), of, &mut self.remembered, key);
            if let Some(found) = found {
                self.in_call += 1;
                return Ok(found);
            }
        }
        let mut find = Rooted::new(find_of(&structure, key), word);
        self.read(store, random, &mut |bytes| find.step(bytes))
    }

    /// Drives a traversal whose READs are torn: words are read in any order, and the back-end stores words in between.
    /// Inner places come from the cache.
    fn read<T>(
        &mut self,
        store: &mut Store,
        random: &mut Random,
        find: &mut dyn FnMut(&[Vec<u8>]) -> Step<T>,
    ) -> Result<T, Stale> {
        let mut bytes = Vec::new();
        loop {
            match find(&bytes) {
                Step::Done(end) => return Ok(end),
                Step::Stale(stale) => return Err(stale),
                Step::Read(places) => {
                    bytes.clear();
                    for Place { span, may_be_old } in places {
                        let at = (span.offset, span.size);
                        if may_be_old && let Some(known) = self.cache.get(&at) {
                            bytes.push(known.clone());
                            continue;
                        }
                        let (place, what) = (span, "memory of the domain");
                        let read = read_torn(store, random, span).ok_or(Stale { place, what })?;
                        if may_be_old {
                            self.cache.insert(at, read.clone());
                        }
                        bytes.push(read);
                    }
                }
            }
        }
    }
}

pub fn read_torn(store: &mut Store, random: &mut Random, span: Span) -> Option<Vec<u8>> {
    if !store.may_read(span) {
        return None;
    }
    let pause = random.random_range(0..4) == 0;
    let mut bytes = vec![0; span.size.next_multiple_of(8) as usize];
    let mut words: Vec<usize> = (0..bytes.len() / 8).collect();
    words.shuffle(random);
    for word in words {
        if pause && random.random_range(0..8) == 0 {
            (0..random.random_range(0..12)).for_each(|_| store.apply_word());
        }
        let place = span.offset + word as u64 * 8;
        let content = store.memory.load(place).to_le_bytes();
        bytes[word * 8..][..8].copy_from_slice(&content);
    }
    bytes.truncate(span.size as usize);
    Some(bytes)
}

/// The values that a key has had, each with the number of the operation that gave it.
type KeyHistory = Vec<(usize, Option<Vec<u8>>)>;

/// The amounts of a run.
struct Habit {
    keys: u64,
    /// Operations before each read, at most.
    operations: usize,
    /// Words that are applied before each read, at most.
    words: usize,
}

/// Few keys whose blocks are used again and again, a table of one segment, and one that grows.
const HABITS: [Habit; 3] = [
    Habit {
        keys: 2,
        operations: 3,
        words: 12,
    },
    Habit {
        keys: 200,
        operations: 6,
        words: 200,
    },
    Habit {
        keys: 4_000,
        operations: 30,
        words: 1_000,
    },
];

/// A reader beside a writer: each value is that of some moment of the read, and never older than an earlier one.
pub fn run_beside(kind: StructureKind, seed: u64) {
    let mut random = random_from_seed(seed);
    let habit = &HABITS[(seed % 3) as usize];
    let mut store = store_of(kind, 24);
    let mut reader = Reader::new(&mut random);
    let mut map = Map::new();
    let mut values: BTreeMap<Vec<u8>, KeyHistory> = BTreeMap::new();
    let mut floor: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    let (mut staged, mut reads) = (0, 0);
    let mut recent = Vec::new();
    for _ in 0..400 {
        for _ in 0..random.random_range(0..habit.operations) {
            let verb = any_verb(&mut random, staged < 4_000);
            let (key, value) = (any_key(&mut random, habit.keys), any_value(&mut random));
            let value = operand(&mut random, &map, verb, &key, value);
            store.stage(verb, &key, &value).expect("there is room");
            staged += 1;
            model(&mut map, verb, &key, &value);
            let now = map.get(&key).cloned();
            recent.push(key.clone());
            values.entry(key).or_default().push((staged, now));
        }
        staged += store.reclaim_beyond(12_000);
        store.publish();
        // Whole nodes are many words.
        let words = habit.words + store.words_left() / 2;
        for _ in 0..random.random_range(0..words) {
            store.apply_word();
        }
        let key = match recent.len() {
            0 => any_key(&mut random, habit.keys),
            count => recent[random.random_range(count.saturating_sub(60)..count)].clone(),
        };
        check_page(&mut store, &mut random, &mut reader, (&key, &values));
        let begin = store.applied;
        let Ok(read) = reader.get(&mut store, &mut random, &key) else {
            reader.begin_again(&mut random);
            continue;
        };
        reads += 1;
        let history = values.get(&key).map_or(&[][..], |history| history);
        let mut at = begin.max(floor.get(&key).copied().unwrap_or(0));
        // The value after the first `at` operations, or after any later one that has begun.
        loop {
            let known = history.iter().rev().find(|(number, _)| *number <= at);
            if known.and_then(|(_, value)| value.clone()) == read {
                break;
            }
            let next = history.iter().find(|(number, _)| *number > at);
            at = match next {
                Some((number, _)) if *number <= store.begun => *number,
                _ => panic!("seed {seed}: {key:?} gave a value of no moment of the read"),
            };
        }
        floor.insert(key, at);
    }
    assert!(reads > 100, "seed {seed}: {reads} reads ended");
    let in_call = reader.in_call;
    assert!(in_call > 20, "seed {seed}: {in_call} in the call");
}

/// Needs the places of all keys in one step: a level of the tree costs one round trip, whatever the number of keys.
#[test]
fn a_batch_of_look_ups_takes_as_many_steps_as_the_longest_of_them() {
    for kind in kinds() {
        let mut random = random_from_seed(3);
        let mut store = store_of(kind, 24);
        let mut map = Map::new();
        for _ in 0..3_000 {
            let (key, value) = (any_key(&mut random, 4_000), any_value(&mut random));
            store
                .stage(Verb::Insert, &key, &value)
                .expect("there is room");
            map.insert(key, value);
        }
        store.publish();
        store.apply_all();
        let structure = store.structure();
        let keys: Vec<Vec<u8>> = (0..500).map(|_| any_key(&mut random, 5_000)).collect();
        let (mut single, mut one_by_one) = (Vec::new(), 0);
        for key in &keys {
            let mut steps = 0;
            let counted = |span| {
                steps += 1;
                store.read(span)
            };
            single.push(drive(find_of(&structure, key), counted).unwrap());
            one_by_one = steps.max(one_by_one);
        }
        let finds = keys.iter().map(|key| find_of(&structure, key));
        let mut many = Many::new(finds);
        let (mut bytes, mut rounds) = (Vec::new(), 0);
        let ends = loop {
            match many.step(&bytes) {
                Step::Done(ends) => break ends,
                Step::Stale(stale) => panic!("{stale}"),
                Step::Read(places) => {
                    rounds += 1;
                    let read = places.iter().map(|place| store.read(place.span));
                    bytes = read.collect::<Option<_>>().expect("the domain has it");
                }
            }
        };
        let ends: Vec<Option<Vec<u8>>> = ends.into_iter().map(Result::unwrap).collect();
        assert_eq!(ends, single);
        assert!(
            ends.iter()
                .zip(&keys)
                .all(|(end, key)| end.as_ref() == map.get(key))
        );
        assert_eq!(rounds, one_by_one, "{kind:?}");
    }
}

/// Needs the generation: the block of the first value is used again for the third one, and the reader has the word of
/// the first.
pub fn a_reader_with_an_old_word_sees_no_value_before_it_is_published() {
    let mut store = store_of(StructureKind::HashTable, 2);
    let Structure::HashTable(table) = store.structure() else {
        panic!("the store is a hash table")
    };
    let key = 7_u64.encoded();
    let insert = |store: &mut Store, value: &[u8]| {
        store
            .stage(Verb::Insert, &key, value)
            .expect("there is room");
        store.publish();
    };
    insert(&mut store, b"first");
    store.apply_all();
    let mut find = table.find(&key);
    let mut bytes = Vec::new();
    // Root line, directory, bucket; the item comes next.
    let mut before = 0;
    let item = loop {
        let Step::Read(places) = find.step(&bytes) else {
            panic!("the item was not read");
        };
        let span = places[0].span;
        if before == BUCKET_SIZE {
            break span;
        }
        before = span.size;
        bytes = vec![store.read(span).expect("the domain has it")];
    };
    insert(&mut store, b"second");
    store.apply_all();
    insert(&mut store, b"third");
    let mut is_used_again = false;
    while store.applied < 3 {
        store.apply_word();
        let now = drive(table.find(&key), |span| store.read(span));
        let read = store.read(item).expect("the domain has it");
        is_used_again |= read[16..].windows(5).any(|text| text == b"third");
        if let (Step::Done(old), Ok(now)) = (find.clone().step(&[read]), now) {
            let (old, now) = (old.into_value(), now.into_value());
            assert!(
                old == now || old.as_deref() == Some(b"first"),
                "{old:?} before {now:?}"
            );
        }
    }
    assert!(
        is_used_again,
        "the block of the first value holds the third"
    );
}

#[test]
fn generations_are_needed_by_readers() {
    a_reader_with_an_old_word_sees_no_value_before_it_is_published();
}

/// A leaf that is read beside a writer holds the values that all of its keys had at one moment of the read.
fn check_page(
    store: &mut Store,
    random: &mut Random,
    reader: &mut Reader,
    (key, values): (&[u8], &BTreeMap<Vec<u8>, KeyHistory>),
) {
    let from = store.applied;
    let Ok((structure, word)) = reader.structure(store, random) else {
        return;
    };
    let seek = match random.random_range(0..3) {
        0 => Seek::Below(Some(key.to_vec())),
        _ => Seek::At(key.to_vec()),
    };
    let in_call = match random.random() {
        true => in_call::page(
            (store, random),
            (&structure, word),
            &mut reader.remembered.nodes,
            &seek,
        ),
        false => None,
    };
    let page = match in_call {
        Some(page) => page,
        None => {
            let Some(page) = structure.page(seek) else {
                return;
            };
            let mut page = Rooted::new(page, word);
            let Ok(page) = reader.read(store, random, &mut |bytes| page.step(bytes)) else {
                reader.begin_again(random);
                return;
            };
            page
        }
    };
    let is_low = |key: &Vec<u8>| page.high.as_ref().is_none_or(|high| key < high);
    let of_page: Vec<(&Vec<u8>, &KeyHistory)> = values
        .range(page.low.clone()..)
        .take_while(|(key, _)| is_low(key))
        .collect();
    let state = |at: usize| {
        let known = of_page.iter().filter_map(|(key, history)| {
            let last = history.iter().rev().find(|(number, _)| *number <= at)?;
            Some(((*key).clone(), last.1.clone()?))
        });
        known.collect::<Vec<_>>()
    };
    // Values in blocks are read after the leaf; they are those of the leaf or the read ends as stale.
    let is_right = (from..=store.begun).any(|at| state(at) == items_of(&page));
    assert!(is_right, "a leaf from {:?} was so at no moment", page.low);
}

fn find_of(structure: &Structure, key: &[u8]) -> Lookup {
    structure.find(key).expect("the structure has keys")
}

/// Damaged words: a find gives the right value, or says that something is stale, and a change is done or refused.
/// Neither panics, whatever a tag would say. Returns the reads that gave another value.
pub fn run_damaged(kind: StructureKind, seed: u64) -> usize {
    let mut random = random_from_seed(seed);
    let mut store = store_of(kind, 12);
    let mut map = Map::new();
    for _ in 0..600 {
        let (key, value) = (any_key(&mut random, 400), any_value(&mut random));
        store
            .stage(Verb::Insert, &key, &value)
            .expect("there is room");
        map.insert(key, value);
    }
    store.publish();
    store.apply_all();
    let structure = store.structure();
    let mut wrong = 0;
    for _ in 0..200 {
        let place = 8 * random.random_range(SLAB_SIZE / 8..SLAB_SIZE / 8 + 25_000);
        let word = store.memory.load(place);
        let damaged = match random.random_range(0..3) {
            0 => word ^ 1 << random.random_range(0..64),
            1 => random.next_u64(),
            _ => store
                .memory
                .load(SLAB_SIZE + 8 * random.random_range(0..25_000)),
        };
        store.memory.store(place, damaged);
        let key = any_key(&mut random, 400);
        let find = drive(find_of(&structure, &key), |span| store.read(span));
        wrong += usize::from(find.is_ok_and(|value| value.as_ref() != map.get(&key)));
        let verb = VERBS[random.random_range(0..VERBS.len())];
        let _ = store.stage(verb, &key, &any_value(&mut random));
        if random.random_range(0..20) == 0 {
            let _ = structure.contents(&mut |span| store.read(span));
        }
        store.memory.store(place, word);
        store.next_writer();
    }
    wrong
}

#[test]
fn damage_gives_no_wrong_value() {
    for kind in kinds() {
        for seed in 0..4 {
            assert_eq!(run_damaged(kind, seed), 0, "seed {seed}");
        }
    }
}

/// A hostile writer makes any tag. Needs the bounds of everything that is read.
#[cfg(feature = "mutants")]
#[test]
fn no_bytes_under_a_right_tag_make_a_traversal_panic() {
    use stonecast_base::mutants::{Mutant, plant};
    for planted in [Mutant::BlockTagNotChecked, Mutant::SlotTagNotChecked] {
        for kind in kinds() {
            for seed in 0..6 {
                plant(Some(planted));
                run_damaged(kind, seed);
                plant(None);
            }
        }
    }
}

/// Needs the copies of nodes that the open transaction has made: with its last content, a node is visible before the
/// entries that lead around it.
#[test]
pub fn a_transaction_that_is_applied_a_word_at_a_time_hides_no_other_key_of_a_binary_tree() {
    for seed in 0..6 {
        let mut random = random_from_seed(seed);
        let mut store = store_of(StructureKind::Bst, 4);
        let keys: Vec<Vec<u8>> = (0..80_u64).map(|number| number.encoded()).collect();
        let (lasting, changing): (Vec<_>, Vec<_>) =
            (0..).zip(&keys).partition(|(at, _)| at % 2 == 0);
        for (_, key) in &lasting {
            store.stage(Verb::Insert, key, key).expect("there is room");
        }
        store.publish();
        store.apply_all();
        let structure = store.structure();
        for _ in 0..6 {
            for _ in 0..30 {
                let (_, key) = changing[random.random_range(0..changing.len())];
                let verb = [Verb::Insert, Verb::Remove][random.random_range(0..2)];
                store.stage(verb, key, b"").expect("there is room");
            }
            store.publish();
            while store.words_left() > 0 {
                store.apply_word();
                for (_, key) in &lasting {
                    let find = find_of(&structure, key);
                    // A line or a node of which a word is missing is read again.
                    if let Ok(found) = drive(find, |span| store.read(span)) {
                        assert_eq!(found.as_ref(), Some(*key), "seed {seed}");
                    }
                }
            }
        }
    }
}

/// Whether a look-up finds the key, and whether a range that begins at the key does: a look-up may end on a higher
/// level, and a range ends on level 0. Without those that met a missing word.
fn sightings(store: &Store, structure: &Structure, key: &[u8]) -> Vec<bool> {
    let page = structure.page(Seek::At(key.to_vec()));
    let page = drive(page.expect("a list has an order"), |span| store.read(span));
    let is_first = |page: Page| page.items().next().is_some_and(|(first, _)| first == key);
    let found = drive(find_of(structure, key), |span| store.read(span));
    let found = found.map(|value| value.is_some());
    [page.map(is_first), found].into_iter().flatten().collect()
}

/// Needs the order of links in towers that the open transaction has made: merged into the first content of a tower,
/// they take a key out of level 0 before the higher levels pass it.
#[test]
pub fn a_transaction_that_is_applied_a_word_at_a_time_takes_no_change_of_a_skip_list_back() {
    for seed in 0..3 {
        let mut random = random_from_seed(seed);
        let mut store = store_of(StructureKind::SkipList, 8);
        let mut keys: Vec<Vec<u8>> = (0..80_u64).map(|number| number.encoded()).collect();
        let mut map = Map::new();
        for _ in 0..6 {
            keys.shuffle(&mut random);
            let changed = &keys[..30];
            for key in changed {
                let verb = match map.contains_key(key) {
                    true => Verb::Remove,
                    false => Verb::Insert,
                };
                store.stage(verb, key, key).expect("there is room");
                model(&mut map, verb, key, key);
            }
            store.publish();
            let structure = store.structure();
            let mut seen: BTreeMap<&Vec<u8>, bool> = BTreeMap::new();
            while store.words_left() > 0 {
                store.apply_word();
                for key in changed {
                    for is_there in sightings(&store, &structure, key) {
                        let is_changed = is_there == map.contains_key(key);
                        let was = seen.insert(key, is_changed).unwrap_or(false);
                        assert!(is_changed || !was, "seed {seed}: {key:?} is taken back");
                    }
                }
            }
        }
        store.check(map.into_iter().collect(), true);
    }
}

/// Runs of entries that are loaded behind all keys, among other changes, and runs that belong elsewhere. Readers beside
/// see each loaded key from some moment on, and everything else all the time. Needs the refusal of entries that do not
/// lie behind all keys.
pub fn run_loads(kind: StructureKind, seed: u64) {
    let mut random = random_from_seed(seed);
    let mut store = store_of(kind, 24);
    let mut reader = Reader::new(&mut random);
    let mut map = Map::new();
    let (mut next, mut reads) = (0_u64, 0);
    for round in 0..40 {
        let before: Vec<Vec<u8>> = map.keys().cloned().collect();
        let mut run = Run::default();
        let is_behind = round == 0 || random.random_range(0..5) > 0;
        let first = match is_behind {
            true => next + random.random_range(0..9),
            false => random.random_range(0..next),
        };
        let count = [1, 3, 20, 90][random.random_range(0..4)];
        let keys: Vec<Vec<u8>> = (first..first + count).map(loaded_key).collect();
        let values: Vec<Vec<u8>> = keys.iter().map(|_| any_value(&mut random)).collect();
        for (key, value) in keys.iter().zip(&values) {
            run.push(key, value);
        }
        let is_in_front = map
            .last_key_value()
            .is_some_and(|(last, _)| *last >= keys[0]);
        let answer = store.stage(Verb::Load, &[], run.value());
        let answer = answer.expect("there is room");
        // Between both, it depends on whether a last leaf without keys could have the first one.
        if is_behind {
            assert_eq!(answer, Answer::Changed(true), "seed {seed}");
        }
        if is_in_front {
            assert_eq!(answer, Answer::Changed(false), "seed {seed}");
        }
        let is_loaded = answer == Answer::Changed(true);
        if is_loaded {
            map.extend(keys.iter().cloned().zip(values));
            next = next.max(first + count);
        }
        store.publish();
        let mut seen: BTreeMap<&Vec<u8>, bool> = BTreeMap::new();
        while store.words_left() > 0 {
            (0..random.random_range(1..200)).for_each(|_| store.apply_word());
            let of = match random.random() {
                true => &keys,
                false if before.is_empty() => continue,
                false => &before,
            };
            let key = &of[random.random_range(0..of.len())];
            let Ok(found) = reader.get(&mut store, &mut random, key) else {
                reader.begin_again(&mut random);
                continue;
            };
            reads += 1;
            let was = seen.insert(key, found.is_some()).unwrap_or(false);
            let lasts = was || before.contains(key);
            assert!(found.is_some() || !lasts, "seed {seed}: {key:?} is missing");
            if found.is_some() {
                assert_eq!(found.as_ref(), map.get(key), "seed {seed}: {key:?}");
            }
        }
        for _ in 0..random.random_range(0..12) {
            let key = loaded_key(random.random_range(0..next));
            let verb = [Verb::Remove, Verb::Insert, Verb::Update][random.random_range(0..3)];
            let value = any_value(&mut random);
            store.stage(verb, &key, &value).expect("there is room");
            model(&mut map, verb, &key, &value);
        }
        store.reclaim_beyond(4_000);
        store.publish();
        store.apply_all();
    }
    store.check(map.clone().into_iter().collect(), true);
    check_ranges(&store, &map, &mut random);
    assert!(reads > 50, "seed {seed}: {reads} reads ended");
}

fn loaded_key(number: u64) -> Vec<u8> {
    let text = match number % 16 {
        0 => "long".repeat(20),
        _ => String::new(),
    };
    (number, text).encoded()
}

#[test]
fn entries_are_loaded_behind_all_keys_or_not_at_all_and_readers_miss_none() {
    for kind in [StructureKind::BTree, StructureKind::MvBTree] {
        (0..60).for_each(|seed| run_loads(kind, seed));
    }
}

#[test]
fn a_loaded_tree_has_full_nodes() {
    for kind in [StructureKind::BTree, StructureKind::MvBTree] {
        load_in_order(kind);
    }
}

/// Needs the nodes that are filled before the next one begins, on each level.
fn load_in_order(kind: StructureKind) {
    let mut store = store_of(kind, 24);
    let mut map = Map::new();
    for part in 0..20_u64 {
        let mut run = Run::default();
        for number in part * 100..part * 100 + 100 {
            let (key, value) = (number.encoded(), number.to_le_bytes());
            run.push(&key, &value);
            map.insert(key, value.to_vec());
        }
        let answer = store.stage(Verb::Load, &[], run.value());
        assert_eq!(answer.expect("there is room"), Answer::Changed(true));
        store.publish();
        store.apply_all();
    }
    store.reclaim_beyond(0);
    store.publish();
    store.apply_all();
    let contents = store.structure().contents(&mut |span| store.read(span));
    let contents = contents.expect("the structure is whole");
    let nodes = contents.blocks.iter().filter(|(_, size)| *size == 2048);
    let nodes = nodes.count();
    store.check(map.into_iter().collect(), true);
    // 200 leaves of 10 keys, and their parents.
    assert!(nodes < 222, "{nodes} nodes");
}

#[test]
fn a_map_answers_as_its_model_does_and_loses_no_block() {
    for kind in kinds() {
        (0..9).for_each(|seed| run(kind, seed));
    }
}

#[test]
fn a_reader_beside_a_writer_sees_no_value_of_another_time() {
    for kind in usual_kinds() {
        (0..60).for_each(|seed| run_beside(kind, seed));
    }
    for kind in CLASSIC {
        (0..18).for_each(|seed| run_beside(kind, seed));
    }
}

/// Parts of a table that grows, is changed and read at the same time. Needs the next part to begin behind the segment
/// that was read, whatever has split meanwhile, and the look at each bucket for whether it is dead.
fn run_parts(seed: u64) {
    let mut random = random_from_seed(seed);
    let mut store = store_of(StructureKind::HashTable, 24);
    // Keys from 0 on stay, and odd ones behind them come and go.
    let stay = [10, 700, 2_000][(seed % 3) as usize];
    let value = |key: u64| key.wrapping_mul(0x9e37_79b9).to_le_bytes();
    for key in 0..stay {
        let staged = store.stage(Verb::Insert, &key.encoded(), &value(key));
        staged.expect("there is room");
    }
    store.publish();
    store.apply_all();
    let (mut met, mut next, mut parts) = (BTreeSet::new(), Some(0), 0);
    while let Some(from) = next {
        for _ in 0..random.random_range(0..40) {
            let key = stay + random.random_range(0..4_000);
            let verb = [Verb::Insert, Verb::Insert, Verb::Remove][random.random_range(0..3)];
            let staged = store.stage(verb, &key.encoded(), &value(key));
            staged.expect("there is room");
        }
        store.publish();
        let part = store.structure().part(from).expect("a hash table");
        let Ok(part) = drive(part, |span| read_torn(&mut store, &mut random, span)) else {
            store.apply_all();
            continue;
        };
        parts += 1;
        for (key, found) in part.items {
            let number = u64::from_be_bytes(key.try_into().expect("a number"));
            assert_eq!(found, value(number), "seed {seed}: {number}");
            assert!(met.insert(number), "seed {seed}: {number} twice");
        }
        next = part.next;
    }
    let all = (0..stay).all(|key| met.contains(&key));
    assert!(all, "seed {seed}: a key is missing");
    assert!(stay < 100 || parts > 2, "seed {seed}: {parts} parts");
}

#[test]
fn a_table_is_read_part_by_part_while_it_grows_and_no_key_is_missed_or_met_twice() {
    (0..60).for_each(run_parts);
}
