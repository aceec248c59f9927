//! Pools of several domains.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Span, random_from_seed};
use stonecast_media::Region as _;
use stonecast_structures::shapes::{
    Description, Place, Places, ReadRoots, Step, Structure, StructureKind, Traversal, drive,
};
use stonecast_structures::{
    Append, DomainError, DomainName, DomainWriter, Executor, Grant, Key as _, LogKey, Medium,
    Operation, PoolGeometry, Served, StageFault, Stopped, StructurePool, Verb,
};

use crate::memory::Memory;
use crate::pool::{Pool, medium, medium_of, now};

const KEY: LogKey = LogKey(0xfeed);
const GEOMETRY: PoolGeometry = PoolGeometry {
    domains: 4,
    slab_size: 1 << 15,
    slab_count: 12,
};

fn new_pool() -> (Rc<Pool>, StructurePool) {
    let memory = Pool::new(Memory::new(GEOMETRY.pool_size()));
    let pool = now(StructurePool::create(medium(&memory), GEOMETRY));
    (memory, pool.expect("the memory is sound"))
}

fn open(memory: &Rc<Pool>) -> Result<StructurePool, DomainError> {
    open_on(medium(memory))
}

fn open_on(medium: Rc<Medium>) -> Result<StructurePool, DomainError> {
    now(StructurePool::open(medium, &mut |place, territory| {
        Box::new(Executor::new(KEY, place, territory.clone()))
    }))
}

fn copied(memory: &Memory, span: Span) -> Option<Vec<u8>> {
    if !span.fits(GEOMETRY.pool_size()) {
        return None;
    }
    let mut bytes = vec![0; span.size.next_multiple_of(8) as usize];
    memory.read(span.offset, &mut bytes);
    bytes.truncate(span.size as usize);
    Some(bytes)
}

/// A domain with two slabs, and its writer.
struct Owner {
    number: u32,
    grant: Grant,
    writer: DomainWriter,
}

impl Owner {
    fn new(memory: &Pool, pool: &mut StructurePool) -> Self {
        let number = now(pool.create_domain()).unwrap().expect("there is room");
        for _ in 0..2 {
            now(pool.give_slab(number)).unwrap().expect("there is room");
        }
        let grant = now(pool.grant(number)).unwrap().expect("there is room");
        let domain = pool.domain(number).expect("it was made");
        let read = &mut |span| copied(memory.memory(), span);
        let of = (grant, domain.territory());
        let writer = DomainWriter::new(KEY, number, of, read).unwrap();
        Self {
            number,
            grant,
            writer,
        }
    }

    fn put(&self, memory: &Pool, record: &Append) {
        let before = record.end - record.bytes.len() as u64;
        self.grant
            .area
            .write(memory.memory(), before, &record.bytes);
    }

    fn stage(&mut self, memory: &Pool, operation: &Operation<'_>) -> Result<(), StageFault> {
        let read = &mut |span| copied(memory.memory(), span);
        let staged = self.writer.stage(operation, read)?;
        self.put(memory, &staged.record.expect("it has no token"));
        Ok(())
    }

    fn create(&mut self, memory: &Pool, name: &str) {
        let description = Description {
            kind: StructureKind::HashTable,
            key_size_max: 8,
            value_size: 16,
            schema: 0,
        };
        let operation = Operation {
            token: 0,
            structure: 0,
            verb: Verb::Create,
            key: name.as_bytes(),
            value: &description.encode(),
        };
        self.stage(memory, &operation).unwrap();
    }

    fn insert(&mut self, memory: &Pool, key: u64, value: u64) -> Result<(), StageFault> {
        let operation = Operation {
            token: 0,
            structure: 1,
            verb: Verb::Insert,
            key: &key.encoded(),
            value: &value.to_le_bytes(),
        };
        self.stage(memory, &operation)
    }

    fn publish(&mut self, memory: &Pool, pool: &mut StructurePool) {
        let record = self.writer.publish().expect("something is staged");
        self.put(memory, &record);
        let domain = pool.domain(self.number).expect("it was made");
        let taken = now(domain.take()).unwrap();
        self.writer.note_applied(taken.applied);
    }
}

/// The table of a domain.
fn table(memory: &Memory, pool: &mut StructurePool, number: u32) -> Structure {
    let place = pool.domain(number).expect("it was made").place();
    let roots = ReadRoots::new(KEY, number, place.root_word());
    let roots = drive(roots, |span| copied(memory, span)).unwrap();
    roots.structure(1).expect("it was created")
}

fn items(memory: &Memory, pool: &mut StructurePool, number: u32) -> Vec<(u64, u64)> {
    let table = table(memory, pool, number);
    let contents = table.contents(&mut |span| copied(memory, span)).unwrap();
    let items = contents.items.iter();
    let mut items: Vec<(u64, u64)> = items
        .map(|(key, value)| {
            let value = value[..].try_into().expect("a word");
            (u64::decoded(key).unwrap(), u64::from_le_bytes(value))
        })
        .collect();
    items.sort_unstable();
    items
}

/// Three domains with tables: some operations are applied, some durable and not published, none is trimmed.
fn three_domains() -> (Rc<Pool>, Vec<u32>) {
    let (memory, mut pool) = new_pool();
    let mut numbers = Vec::new();
    for number in 0..3 {
        let mut owner = Owner::new(&memory, &mut pool);
        owner.create(&memory, "table");
        for key in 0..10 {
            owner.insert(&memory, key, key * 100 + number).unwrap();
        }
        owner.publish(&memory, &mut pool);
        for key in 5..15 {
            owner.insert(&memory, key, key * 1000 + number).unwrap();
        }
        now(pool.domain(owner.number).unwrap().take()).unwrap();
        numbers.push(owner.number);
    }
    (memory, numbers)
}

fn expected(number: u32) -> Vec<(u64, u64)> {
    let value = |key: u64| key * if key < 5 { 100 } else { 1000 } + u64::from(number);
    (0..15).map(|key| (key, value(key))).collect()
}

/// Needs the order of hand-overs: the one that has begun comes first, or another one would write over its records.
#[test]
fn a_crash_at_any_moment_of_an_opening_changes_nothing_about_its_result() {
    let (memory, numbers) = three_domains();
    let start = memory.memory().fork();
    for seed in 0..400 {
        let mut random = random_from_seed(seed);
        let mut memory = Pool::new(start.fork());
        let mut crashes = 0;
        let mut pool = loop {
            if crashes < 4 {
                memory.crash_in(random.random_range(0..700));
            }
            let opened = open(&memory);
            let Some(wreck) = memory.take_wreck() else {
                break opened.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            };
            crashes += 1;
            if random.random_range(0..2) == 0 {
                wreck.cut_power(|_, count| random.random_range(0..count));
            }
            memory = Pool::new(wreck);
        };
        for &number in &numbers {
            let found = items(memory.memory(), &mut pool, number);
            assert_eq!(found, expected(number), "seed {seed}, domain {number}");
        }
        // The back-end's own slab, and two of each domain.
        assert_eq!(pool.free_slabs(), 12 - 1 - 6, "seed {seed}");
        let serving = memory.load(PoolGeometry::serving_word().offset);
        assert!(serving.is_multiple_of(2));
    }
}

/// Needs both looks at the serving word, and that a restart makes it odd: a replay shows earlier states.
pub fn a_reader_across_a_restart_never_goes_back() {
    let (memory, mut pool) = new_pool();
    let mut owner = Owner::new(&memory, &mut pool);
    owner.create(&memory, "table");
    for value in 1..4 {
        owner.insert(&memory, 7, value).unwrap();
        owner.publish(&memory, &mut pool);
    }
    let Structure::HashTable(table) = table(memory.memory(), &mut pool, owner.number) else {
        panic!("the structure is a hash table");
    };
    let start = memory.memory().fork();
    for has_begun in [false, true] {
        for steps in 0..300 {
            let memory = Pool::new(start.fork());
            let find = table.find(&7_u64.encoded());
            let mut find = Served::new(find, PoolGeometry::serving_word());
            let mut bytes = Vec::new();
            if has_begun {
                let Step::Read(places) = find.step(&bytes) else {
                    panic!("a reader begins with a read");
                };
                let word = copied(memory.memory(), places[0].span);
                bytes = vec![word.expect("it is in the pool")];
            }
            let (reader, seen) = (memory.clone(), Rc::new(RefCell::new(None)));
            let told = seen.clone();
            memory.happens_in(steps, move || {
                told.replace(Some(go_on(find, bytes, reader.memory())));
            });
            open(&memory).unwrap();
            if let Some(Some(value)) = seen.take() {
                assert_eq!(
                    value,
                    Some(3_u64.to_le_bytes().to_vec()),
                    "after {steps} stores"
                );
            }
        }
    }
}

/// Ends a look-up that has read `bytes`; `None`: it met a stale place.
fn go_on<T: Traversal<End = stonecast_structures::shapes::hash::Found>>(
    mut find: T,
    mut bytes: Vec<Vec<u8>>,
    memory: &Memory,
) -> Option<Option<Vec<u8>>> {
    loop {
        match find.step(&bytes) {
            Step::Done(found) => return Some(found.into_value()),
            Step::Stale(_) => return None,
            Step::Read(places) => {
                let read = places.into_iter().map(|place| copied(memory, place.span));
                bytes = read.collect::<Option<_>>()?;
            }
        }
    }
}

/// Needs the clearing of the bits: the slab held a log before.
pub fn a_slab_that_is_given_is_free_whatever_it_held_before() {
    let (memory, mut pool) = new_pool();
    let mut owner = Owner::new(&memory, &mut pool);
    owner.create(&memory, "table");
    owner.publish(&memory, &mut pool);
    let territory = pool.domain(owner.number).unwrap().territory().clone();
    let place = pool.domain(owner.number).unwrap().place();
    let mut executor = Executor::new(KEY, place, territory);
    let certainly = Stopped::Certainly;
    now(pool.hand_over(owner.number, certainly, &mut executor)).unwrap();
    let other = now(pool.create_domain()).unwrap().unwrap();
    while let Some(slab) = now(pool.give_slab(other)).unwrap() {
        let slabs = GEOMETRY.slabs();
        let bits = Span::new(slabs.slab(slab).offset, slabs.bits_size());
        let bits = copied(memory.memory(), bits).unwrap();
        assert!(bits.iter().all(|byte| *byte == 0), "slab {slab}");
    }
    assert_eq!(pool.free_slabs(), 0);
}

/// Needs the refusal: a replay of the log writes to the slab.
pub fn a_slab_changes_hands_only_without_a_tenure() {
    let (memory, mut pool) = new_pool();
    let owner = Owner::new(&memory, &mut pool);
    let slab = *pool
        .domain(owner.number)
        .unwrap()
        .territory()
        .slabs
        .last()
        .unwrap();
    let taken = now(pool.take_slab(owner.number, slab));
    assert!(matches!(taken, Err(DomainError::Held { tenure: 1 })));
    let mut pool = open(&memory).unwrap();
    assert!(now(pool.take_slab(owner.number, slab)).unwrap());
    assert!(!now(pool.take_slab(owner.number, slab)).unwrap());
}

/// Needs the question after earlier writers: over shared memory, a front-end that was stopped in a store outlives the
/// back-end.
pub fn a_log_of_an_earlier_run_is_given_to_nobody_until_its_owner_is_gone() {
    let (memory, mut pool) = new_pool();
    let owner = Owner::new(&memory, &mut pool);
    let free = pool.free_slabs();
    drop(pool);
    let is_gone = Rc::new(Cell::new(false));
    let asked = is_gone.clone();
    let medium = medium_of(&memory).until(Rc::new(move || asked.get()));
    let mut pool = open_on(Rc::new(medium)).unwrap();
    assert_eq!(pool.free_slabs(), free, "the log is kept");
    let grant = now(pool.grant(owner.number))
        .unwrap()
        .expect("there is room");
    assert_ne!(grant.area, owner.grant.area);
    is_gone.set(true);
    now(pool.give_slab(owner.number))
        .unwrap()
        .expect("there is room");
    assert_eq!(
        pool.free_slabs(),
        free - 1,
        "one was freed, and two are used"
    );
}

#[test]
fn a_domain_is_found_by_its_name_also_after_a_restart_and_a_name_is_given_once() {
    let (memory, mut pool) = new_pool();
    let name = |text| DomainName::new(text).unwrap();
    let named = |pool: &mut StructurePool, text| now(pool.open_domain(name(text))).unwrap();
    let orders = named(&mut pool, "orders").unwrap();
    assert_ne!(named(&mut pool, "stock"), Some(orders));
    assert_eq!(named(&mut pool, "orders"), Some(orders));
    let mut pool = open(&memory).unwrap();
    assert_eq!(named(&mut pool, "orders"), Some(orders));
    assert_eq!(pool.name_of(orders), Some(name("orders")));
    assert!(named(&mut pool, "a").is_some() && named(&mut pool, "b").is_some());
    assert_eq!(named(&mut pool, "c"), None, "the pool has four domains");
    assert_eq!(
        named(&mut pool, "a").map(|number| number > orders),
        Some(true)
    );
}

/// Needs the reservation: the log is filled with operations to the last one that fits.
pub fn everything_staged_finds_room_for_its_transaction() {
    let (memory, mut pool) = new_pool();
    let mut owner = Owner::new(&memory, &mut pool);
    owner.create(&memory, "table");
    let mut key = 0;
    let fault = loop {
        match owner.insert(&memory, key % 90, key) {
            Ok(()) => key += 1,
            Err(fault) => break fault,
        }
    };
    assert!(matches!(fault, StageFault::LogFull(_)), "{fault}");
    owner.publish(&memory, &mut pool);
    assert!(key > 50);
}

/// Needs the order of table and root word.
pub fn a_reader_finds_the_structures_of_one_moment_at_every_moment() {
    let (memory, mut pool) = new_pool();
    let mut owner = Owner::new(&memory, &mut pool);
    owner.create(&memory, "first");
    owner.publish(&memory, &mut pool);
    owner.create(&memory, "second");
    let record = owner.writer.publish().expect("something is staged");
    owner.put(&memory, &record);
    let place = pool.domain(owner.number).unwrap().place();
    let start = memory.memory().fork();
    // Each table of the two structures has a segment of 512 words.
    for steps in 0..1_500 {
        // The back-end works on a copy, since the owner's domain would go on otherwise.
        let copy = Pool::new(start.fork());
        let seen = Rc::new(RefCell::new(None));
        let (told, reader) = (seen.clone(), copy.clone());
        copy.happens_in(steps, move || {
            let roots = ReadRoots::new(KEY, place.number, place.root_word());
            let read = drive(roots, |span| copied(reader.memory(), span));
            told.replace(Some(read.map(|roots| roots.rows().len())));
        });
        open(&copy).unwrap();
        if let Some(rows) = seen.take() {
            let rows = rows.unwrap_or_else(|stale| panic!("after {steps} stores: {stale}"));
            assert!(rows <= 2);
        }
    }
}

/// Needs the setting aside: an owner may change its own records after they were made durable.
pub fn a_domain_that_its_owner_has_damaged_concerns_no_other() {
    let (memory, numbers) = three_domains();
    let wreck = memory.memory().fork();
    let slabs = GEOMETRY.slabs();
    // Each domain has two slabs and then a log: the log of the second one is slab 6.
    wreck.flip(slabs.slab(6).offset + 100, 5);
    for _ in 0..2 {
        let memory = Pool::new(wreck.fork());
        let mut pool = open(&memory).expect("the others are whole");
        let damage = pool.damage(numbers[1]).expect("a record is damaged");
        assert!(matches!(damage, DomainError::Gap { .. }), "{damage}");
        for number in [numbers[0], numbers[2]] {
            let found = items(memory.memory(), &mut pool, number);
            assert_eq!(found, expected(number));
        }
        let new = now(pool.create_domain()).unwrap();
        assert_eq!(new, Some(3), "the number of the damaged one is taken");
    }
}

#[test]
fn each_rule_of_the_pool_holds() {
    a_domain_that_its_owner_has_damaged_concerns_no_other();
    a_reader_across_a_restart_never_goes_back();
    a_slab_that_is_given_is_free_whatever_it_held_before();
    a_slab_changes_hands_only_without_a_tenure();
    a_log_of_an_earlier_run_is_given_to_nobody_until_its_owner_is_gone();
    everything_staged_finds_room_for_its_transaction();
    a_reader_finds_the_structures_of_one_moment_at_every_moment();
}

#[test]
fn a_region_that_is_no_pool_or_a_damaged_one_is_refused_with_its_place() {
    let (memory, _) = three_domains();
    let header = memory.memory().fork();
    header.flip(16, 3);
    let error = open(&Pool::new(header))
        .err()
        .expect("the header is damaged");
    assert!(
        error.to_string().contains("header of structures"),
        "{error}"
    );
    let uses = memory.memory().fork();
    uses.flip(4096 * 5 + 8, 60);
    let error = open(&Pool::new(uses)).err().expect("a use is damaged");
    assert!(error.to_string().contains("use of a slab"), "{error}");
    let empty = Pool::new(Memory::new(GEOMETRY.pool_size()));
    let error = open(&empty).err().expect("the region is empty");
    assert!(error.to_string().contains("the magic"), "{error}");
}

/// Asks for a word in each of so many pages behind the pool, one after the other.
struct Sweep(u64);

impl Traversal for Sweep {
    type End = ();

    fn step(&mut self, _: &[Vec<u8>]) -> Step<()> {
        let Some(page) = self.0.checked_sub(1) else {
            return Step::Done(());
        };
        self.0 = page;
        let behind = GEOMETRY.pool_size().next_multiple_of(1 << 16);
        let span = Span::new(behind + (page << 11), 8);
        let may_be_old = false;
        Step::Read(Places::from_iter([Place { span, may_be_old }]))
    }
}

impl Owner {
    /// The value of a key as the writer knows it, and the number of places that it had to read.
    fn get(&mut self, memory: &Pool, key: u64) -> (Option<u64>, usize) {
        let table = self.writer.roots().structure(1).expect("it was created");
        let find = table.find(&key.encoded()).expect("it has keys");
        let mut reads = 0;
        let found = drive(self.writer.recalling(find), |span| {
            reads += 1;
            copied(memory.memory(), span)
        });
        let word = |value: Vec<u8>| u64::from_le_bytes(value[..].try_into().expect("a word"));
        (found.expect("the table is whole").map(word), reads)
    }

    /// Reads so much that the writer forgets everything that it may.
    fn forget(&mut self) {
        let swept = drive(self.writer.recalling(Sweep(3 << 13)), |span| {
            Some(vec![0; span.size as usize])
        });
        swept.expect("nothing is stale");
    }
}

/// Needs the publication that each page was written in last: the answer to one publication says nothing of the pages
/// that a later one, or an operation that is staged, has written again.
#[test]
pub fn a_writer_keeps_what_it_has_written_until_the_publication_that_wrote_it_is_applied() {
    let (memory, mut pool) = new_pool();
    let mut owner = Owner::new(&memory, &mut pool);
    owner.create(&memory, "table");
    for key in 0..3 {
        owner.insert(&memory, key, 10).unwrap();
    }
    let first = owner.writer.publish().expect("something is staged");
    owner.put(&memory, &first);
    let taken = now(pool.domain(owner.number).unwrap().take()).unwrap();
    owner.insert(&memory, 1, 20).unwrap();
    let second = owner.writer.publish().expect("something is staged");
    owner.insert(&memory, 2, 30).unwrap();

    owner.writer.note_applied(taken.applied);
    owner.forget();
    for (key, value) in [(0, 10), (1, 20), (2, 30)] {
        assert_eq!(owner.get(&memory, key).0, Some(value), "key {key}");
    }
    owner.put(&memory, &second);
    let taken = now(pool.domain(owner.number).unwrap().take()).unwrap();
    owner.writer.note_applied(taken.applied);
    owner.forget();
    assert_eq!(owner.get(&memory, 2).0, Some(30));

    // When everything is applied, nothing has to stay.
    owner.publish(&memory, &mut pool);
    owner.forget();
    let (value, reads) = owner.get(&memory, 2);
    assert_eq!(value, Some(30));
    assert!(reads > 0, "nothing was forgotten");
}
