//! Four structures in one domain, under crashes: after each hand-over they hold what a prefix of the operations gives, with everything that was told, and
//! every unit of the slabs is free or belongs to one block.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use rand::{Rng as _, RngExt as _};
use stonecast_base::{Random, Span, random_from_seed};
use stonecast_media::Region as _;
use stonecast_structures::shapes::{Answer, Description, ReadRoots, StructureKind, drive};
use stonecast_structures::{
    Allocator, Append, Domain, DomainPlace, DomainWriter, Executor, Key as _, LogArea, LogKey,
    Operation, Pointer, SlabGeometry, StageFault, Territory, UNIT_SIZE, Verb,
};

use crate::memory::Memory;
use crate::pool::{Pool, medium, now};

const PLACE: DomainPlace = DomainPlace {
    number: 9,
    page: 4096,
};
const KEY: LogKey = LogKey(0xfeed);
const SLAB_SIZE: u64 = 1 << 16;
const SLABS: u64 = 3;
const LOG_SIZE: u64 = 1 << 16;
const LOGS: u64 = SLAB_SIZE * (SLABS + 1);
const OWN: u64 = LOGS + 2 * LOG_SIZE;
const POOL_SIZE: u64 = OWN + LOG_SIZE;

const KINDS: [StructureKind; 4] = [
    StructureKind::Stack,
    StructureKind::Queue,
    StructureKind::HashTable,
    StructureKind::BTree,
];

/// One operation on the structure with this number.
#[derive(Clone, Debug)]
struct Call {
    structure: u32,
    verb: Verb,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Call {
    fn operation(&self) -> Operation<'_> {
        Operation {
            token: 0,
            structure: self.structure,
            verb: self.verb,
            key: &self.key,
            value: &self.value,
        }
    }
}

/// What the structures hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    created: usize,
    stack: Vec<Vec<u8>>,
    queue: VecDeque<Vec<u8>>,
    maps: [BTreeMap<Vec<u8>, Vec<u8>>; 2],
}

impl State {
    fn after<'a>(calls: impl IntoIterator<Item = &'a Call>) -> Self {
        let mut state = Self::default();
        for call in calls {
            state.apply(call);
        }
        state
    }

    fn apply(&mut self, call: &Call) -> Answer {
        if call.verb == Verb::Create {
            self.created += 1;
            return Answer::Created(self.created as u32);
        }
        match call.structure {
            1 if call.verb == Verb::Push => self.stack.push(call.value.clone()),
            1 => return Answer::Taken(self.stack.pop()),
            2 if call.verb == Verb::Push => self.queue.push_back(call.value.clone()),
            2 => return Answer::Taken(self.queue.pop_front()),
            number => {
                let map = &mut self.maps[number as usize - 3];
                let existed = map.contains_key(&call.key);
                match call.verb {
                    Verb::Remove => drop(map.remove(&call.key)),
                    Verb::InsertIfAbsent if existed => {}
                    Verb::Update if !existed => {}
                    _ => drop(map.insert(call.key.clone(), call.value.clone())),
                }
                return Answer::Existed(existed);
            }
        }
        Answer::Added
    }

    /// Keys and values of a structure, in its order.
    fn items(&self, structure: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        let pair = |value: &Vec<u8>| (Vec::new(), value.clone());
        match structure {
            1 => self.stack.iter().rev().map(pair).collect(),
            2 => self.queue.iter().map(pair).collect(),
            number => self.maps[number as usize - 3].clone().into_iter().collect(),
        }
    }
}

fn territory() -> Territory {
    Territory {
        root: PLACE.root_word(),
        geometry: SlabGeometry::new(SLAB_SIZE, SLAB_SIZE),
        slabs: (0..SLABS).collect(),
    }
}

fn area(number: u64) -> LogArea {
    LogArea {
        offset: LOGS + number * LOG_SIZE,
        size: LOG_SIZE,
    }
}

fn own() -> LogArea {
    LogArea {
        offset: OWN,
        size: LOG_SIZE,
    }
}

fn copied(memory: &Memory, span: Span) -> Vec<u8> {
    let mut bytes = vec![0; span.size.next_multiple_of(8) as usize];
    memory.read(span.offset, &mut bytes);
    bytes.truncate(span.size as usize);
    bytes
}

fn held(memory: &Memory, span: Span) -> Option<Vec<u8>> {
    territory().holds(span).then(|| copied(memory, span))
}

/// A writer and what it was told.
struct Writer {
    writer: DomainWriter,
    calls: Vec<Call>,
    volatile: Vec<Span>,
    durable: usize,
    told: usize,
    area: u64,
}

struct History {
    random: Random,
    pool: Rc<Pool>,
    domain: Domain,
    decided: Vec<Call>,
    writer: Option<Writer>,
    tenures: u64,
    /// Operations that back-ends have executed.
    executed: u64,
}

impl History {
    fn new(seed: u64) -> Self {
        let pool = Pool::new(Memory::new(POOL_SIZE));
        let domain = now(Domain::create(medium(&pool), PLACE, territory()));
        Self {
            random: random_from_seed(seed),
            pool,
            domain: domain.expect("the memory is sound"),
            decided: Vec::new(),
            writer: None,
            tenures: 0,
            executed: 0,
        }
    }

    /// Runs a call of the back-end; `None`: a crash came first, and the domain was handed over.
    fn run<T>(&mut self, call: impl FnOnce(&mut Domain) -> T) -> Option<T> {
        if self.random.random_range(0..5) == 0 {
            let steps = 1_u64 << self.random.random_range(0..11);
            self.pool.crash_in(self.random.random_range(0..steps));
        }
        let ended = call(&mut self.domain);
        match self.pool.take_wreck() {
            None => Some(ended),
            Some(wreck) => {
                self.crash(wreck);
                None
            }
        }
    }

    fn crash(&mut self, wreck: Memory) {
        if self.random.random_range(0..2) == 0 {
            let random = &mut self.random;
            let few = random.random_range(1..9);
            wreck.cut_power(|_, count| match random.random_range(0..few) {
                0 => count - 1,
                _ => random.random_range(0..count),
            });
        }
        self.pool = Pool::new(wreck);
        let opened = now(Domain::open(medium(&self.pool), PLACE, territory()));
        self.domain = opened.expect("the page is whole");
        self.hand_over();
    }

    fn hand_over(&mut self) {
        let raised = self.domain.raise();
        let mut executor = Executor::new(KEY, PLACE, territory());
        let ended = self.run(|domain| now(domain.finish(raised, own(), &mut executor)));
        let Some(ended) = ended else { return };
        let ended = ended.expect("nothing durable is lost");
        self.executed += ended.executed;
        if let Some(writer) = self.writer.take() {
            let count = ended.operation as usize - self.decided.len();
            assert!(count >= writer.told, "{count} of {} told", writer.told);
            self.decided.extend_from_slice(&writer.calls[..count]);
        }
        self.check();
    }

    /// Compares everything that the structures hold, and accounts for each unit.
    fn check(&self) {
        let state = State::after(&self.decided);
        let memory = self.pool.memory();
        let roots = ReadRoots::new(KEY, PLACE.number, PLACE.root_word());
        let roots = drive(roots, |span| held(memory, span)).expect("the table is whole");
        assert_eq!(roots.rows().len(), state.created);
        let mut blocks: Vec<(Pointer, u64)> = roots.block().into_iter().collect();
        for row in roots.rows() {
            let structure = roots.structure(row.number).expect("the table names it");
            let contents = structure.contents(&mut |span| held(memory, span));
            let mut contents = contents.expect("the structure is whole");
            if row.description.kind == StructureKind::HashTable {
                contents.items.sort();
            }
            let expected = state.items(row.number);
            assert_eq!(contents.items, expected, "{row:?}");
            assert_eq!(contents.length, expected.len() as u64);
            blocks.extend(contents.blocks);
        }
        blocks.sort();
        let apart = |pair: &[(Pointer, u64)]| pair[0].0.offset() + pair[0].1 <= pair[1].0.offset();
        assert!(blocks.windows(2).all(apart), "a block is used twice");
        let used = blocks.iter();
        let used: u64 = used
            .map(|(_, size)| size.div_ceil(UNIT_SIZE).next_power_of_two())
            .sum();
        let geometry = territory().geometry;
        let mut allocator = Allocator::new(geometry);
        for slab in 0..SLABS {
            let bits = Span::new(geometry.slab(slab).offset, geometry.bits_size());
            allocator.add_slab(slab, &copied(memory, bits));
        }
        let of_bits = SLABS * geometry.bits_size() / UNIT_SIZE;
        let all = SLABS * geometry.units();
        assert_eq!(
            used + of_bits + allocator.free_units(),
            all,
            "units are lost"
        );
    }

    fn grant(&mut self) {
        let number = self.tenures % 2;
        let Some(grant) = self.run(|domain| now(domain.grant(area(number)))) else {
            return;
        };
        self.tenures += 1;
        let grant = grant.expect("the domain is free");
        let memory = self.pool.memory();
        let read = &mut |span| held(memory, span);
        let of = (grant, &territory());
        let writer = DomainWriter::new(KEY, PLACE.number, of, read);
        self.writer = Some(Writer {
            writer: writer.expect("the table is whole"),
            calls: Vec::new(),
            volatile: Vec::new(),
            durable: 0,
            told: 0,
            area: number,
        });
    }

    fn any_call(&mut self, created: usize) -> Call {
        if created < KINDS.len() {
            return create(KINDS[created]);
        }
        let random = &mut self.random;
        let structure = random.random_range(1..=4);
        let verbs = match structure {
            1 | 2 => &[Verb::Push, Verb::Push, Verb::Pop][..],
            _ => &[
                Verb::Insert,
                Verb::InsertIfAbsent,
                Verb::Update,
                Verb::Remove,
            ],
        };
        let mut value = vec![0; random.random_range(0..80)];
        random.fill_bytes(&mut value);
        Call {
            structure,
            verb: verbs[random.random_range(0..verbs.len())],
            key: match structure {
                1 | 2 => Vec::new(),
                _ => random.random_range(0..60_u64).encoded(),
            },
            value,
        }
    }

    /// Stages a few operations. A writer whose log is full waits until it is trimmed.
    fn stage(&mut self) {
        for _ in 0..self.random.random_range(1..8) {
            let Some(writer) = &self.writer else { return };
            let staged = self.decided.iter().chain(&writer.calls);
            let mut state = State::after(staged);
            let call = self.any_call(state.created);
            let expected = state.apply(&call);
            let memory = self.pool.memory();
            let writer = self.writer.as_mut().expect("it is there");
            let read = &mut |span| held(memory, span);
            match writer.writer.stage(&call.operation(), read) {
                Ok(staged) => {
                    assert_eq!(staged.answer, expected, "{call:?}");
                    put(memory, writer, &staged.record);
                    writer.calls.push(call);
                }
                Err(StageFault::LogFull(_)) => return,
                Err(fault) => panic!("{fault}"),
            }
        }
    }

    fn take(&mut self) {
        let taken = self.run(|domain| now(domain.take()));
        if let (Some(taken), Some(writer)) = (taken, &mut self.writer) {
            let taken = taken.expect("the writer is honest");
            writer.durable = writer.calls.len();
            writer.told = writer.durable;
            writer.writer.note_applied(taken.applied);
        }
    }

    fn step(&mut self) {
        let Some(writer) = &mut self.writer else {
            return self.grant();
        };
        let memory = self.pool.memory();
        match self.random.random_range(0..14) {
            0..5 => self.stage(),
            5..7 => {
                if let Some(record) = writer.writer.publish() {
                    put(memory, writer, &record);
                }
            }
            7 => {
                memory.persist(&std::mem::take(&mut writer.volatile));
                writer.durable = writer.calls.len();
                writer.told = writer.durable;
            }
            8..11 => self.take(),
            11 => {
                if self.run(|domain| now(domain.trim())).is_some()
                    && let Some(writer) = &mut self.writer
                {
                    writer.writer.note_trimmed(self.domain.trimmed());
                }
            }
            12 => self.hand_over(),
            _ => {
                let wreck = memory.fork();
                self.crash(wreck);
            }
        }
    }
}

fn create(kind: StructureKind) -> Call {
    let has_keys = matches!(kind, StructureKind::HashTable | StructureKind::BTree);
    let description = Description {
        kind,
        key_size_max: if has_keys { 8 } else { 0 },
        value_size: 40,
        schema: 1,
    };
    Call {
        structure: 0,
        verb: Verb::Create,
        key: format!("{kind:?}").into_bytes(),
        value: description.encode(),
    }
}

fn put(memory: &Memory, writer: &mut Writer, record: &Append) {
    let before = record.end - record.bytes.len() as u64;
    area(writer.area).write(memory, before, &record.bytes);
    writer.volatile.extend_from_slice(&record.pieces);
}

/// Runs the history of `seed`. Returns the operations that count, and those that back-ends have executed.
pub fn run(seed: u64) -> (usize, u64) {
    let mut history = History::new(seed);
    for _ in 0..50 {
        history.step();
    }
    history.hand_over();
    (history.decided.len(), history.executed)
}

#[test]
fn structures_hold_a_prefix_after_every_hand_over_and_no_block_is_lost() {
    let (mut all, mut by_back_ends) = (0, 0);
    for seed in 0..400 {
        let ran = std::panic::catch_unwind(|| run(seed));
        let Ok((decided, executed)) = ran else {
            panic!("seed {seed}");
        };
        all += decided;
        by_back_ends += executed;
    }
    assert!(
        all > 10_000 && by_back_ends > 2_000,
        "{all}, {by_back_ends}"
    );
}
