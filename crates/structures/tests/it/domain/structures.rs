//! A structure of each kind in one domain, under crashes: after each hand-over they hold the result of a prefix of the
//! operations, with everything acknowledged, a retried operation gives its first answer, and every unit of the slabs is
//! free or belongs to one block.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use rand::{Rng as _, RngExt as _};
use stonecast_base::{Random, Span, random_from_seed};
use stonecast_media::Region as _;
use stonecast_structures::shapes::sequence::Cursor;
use stonecast_structures::shapes::{Answer, Audit, Description, ReadRoots, StructureKind, drive};
use stonecast_structures::{
    Append, Comparison, Domain, DomainPlace, DomainWriter, Executor, Group, Key as _, LogArea,
    LogKey, Operation, Run, SlabGeometry, StageFault, Territory, Verb,
};

use crate::memory::Memory;
use crate::pool::{Pool, medium, now};

const PLACE: DomainPlace = DomainPlace {
    number: 9,
    page: 4096,
};
const KEY: LogKey = LogKey(0xfeed);
const SLAB_SIZE: u64 = 1 << 16;
const SLABS: u64 = 5;
const LOG_SIZE: u64 = 1 << 17;
const LOGS: u64 = SLAB_SIZE * (SLABS + 1);
const OWN: u64 = LOGS + 2 * LOG_SIZE;
const POOL_SIZE: u64 = OWN + LOG_SIZE;
/// Units of old versions that a writer keeps.
const RETIRED: u64 = 400;

/// One operation. It names structures by their kind.
#[derive(Clone, Debug)]
enum Call {
    Create(StructureKind),
    Clear(StructureKind),
    Drop(StructureKind),
    Rename(StructureKind),
    Reclaim,
    Change(Change),
    Group(Vec<Change>),
}

/// One operation on a structure.
#[derive(Clone, Debug)]
struct Change {
    kind: StructureKind,
    verb: Verb,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// The number of a structure, how often it was renamed, and its items. A stack has its top last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Content {
    number: u32,
    renamed: usize,
    sequence: VecDeque<Vec<u8>>,
    /// Of a cursor: the next number, and the taken items.
    next: u64,
    taken: Vec<(u64, u64)>,
    map: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// The content of the structures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    created: u32,
    contents: BTreeMap<u8, Content>,
}

impl State {
    fn after<'a>(calls: impl IntoIterator<Item = &'a Call>) -> Self {
        let mut state = Self::default();
        for call in calls {
            state.apply(call);
        }
        state
    }

    fn name(&self, kind: StructureKind) -> String {
        let renamed = self.contents.get(&(kind as u8));
        format!("{kind:?} {}", renamed.map_or(0, |content| content.renamed))
    }

    fn has(&self, kind: StructureKind) -> bool {
        self.contents.contains_key(&(kind as u8))
    }

    /// The bytes of an operation, on the structures as they are now.
    fn operation(&self, call: &Call) -> (Verb, u32, Vec<u8>, Vec<u8>) {
        let named = |kind| self.name(kind).into_bytes();
        match call {
            Call::Create(kind) => {
                let description = Description {
                    kind: *kind,
                    key_size_max: if kind.has_keys() { 8 } else { 0 },
                    value_size: 40,
                    schema: 1,
                };
                (Verb::Create, 0, named(*kind), description.encode())
            }
            Call::Clear(kind) => (Verb::Clear, 0, named(*kind), Vec::new()),
            Call::Drop(kind) => (Verb::Drop, 0, named(*kind), Vec::new()),
            Call::Rename(kind) => {
                let mut after = self.clone();
                after.apply(call);
                let new = after.name(*kind).into_bytes();
                (Verb::Rename, 0, named(*kind), new)
            }
            Call::Reclaim => (Verb::Reclaim, 0, Vec::new(), 60_u32.to_le_bytes().to_vec()),
            Call::Change(change) => {
                let number = self.contents[&(change.kind as u8)].number;
                (
                    change.verb,
                    number,
                    change.key.clone(),
                    change.value.clone(),
                )
            }
            Call::Group(changes) => {
                let mut group = Group::default();
                for change in changes {
                    group.push(&Operation {
                        token: 0,
                        structure: self.contents[&(change.kind as u8)].number,
                        verb: change.verb,
                        key: &change.key,
                        value: &change.value,
                    });
                }
                (Verb::Group, 0, Vec::new(), group.value().to_vec())
            }
        }
    }

    /// Does an operation. `None`: the model does not know the answer.
    fn apply(&mut self, call: &Call) -> Option<Answer> {
        match call {
            Call::Create(kind) | Call::Clear(kind) => {
                self.created += 1;
                let number = self.created;
                let content = self.contents.entry(*kind as u8).or_default();
                let renamed = content.renamed;
                *content = Content {
                    number,
                    renamed,
                    ..Content::default()
                };
                Some(Answer::Created(number))
            }
            Call::Drop(kind) => {
                self.contents.remove(&(*kind as u8));
                Some(Answer::Done)
            }
            Call::Rename(kind) => {
                let content = self.contents.get_mut(&(*kind as u8));
                content.expect("it was created").renamed += 1;
                Some(Answer::Done)
            }
            Call::Reclaim => None,
            Call::Change(change) => Some(self.change(change)),
            Call::Group(changes) => {
                let answers = changes.iter().map(|change| self.change(change));
                Some(Answer::Group(answers.collect()))
            }
        }
    }

    fn change(&mut self, change: &Change) -> Answer {
        let content = self.contents.get_mut(&(change.kind as u8));
        let content = content.expect("it was created");
        let value = change.value.clone();
        let words = change.key.as_chunks::<8>().0;
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        match (change.verb, change.kind) {
            (Verb::Push, _) => {
                content.sequence.push_back(value);
                return Answer::Added;
            }
            (Verb::Pop, StructureKind::Stack) => {
                return Answer::Taken(content.sequence.pop_back());
            }
            (Verb::Pop, _) => return Answer::Taken(content.sequence.pop_front()),
            (Verb::Take, _) => {
                let (token, number) = (words[0], words[1]);
                let known = content.taken.iter().find(|(known, _)| *known == token);
                if let Some((_, known)) = known {
                    return Answer::Changed(*known == number);
                }
                let is_next = number == content.next;
                if is_next {
                    content.taken.push((token, number));
                    content.next += 1;
                }
                return Answer::Changed(is_next);
            }
            (Verb::Done, _) => {
                let before = content.taken.len();
                content.taken.retain(|(token, _)| *token != words[0]);
                return Answer::Existed(content.taken.len() < before);
            }
            _ => {}
        }
        let (map, key) = (&mut content.map, change.key.clone());
        let existed = map.contains_key(&key);
        match change.verb {
            Verb::Load => {
                let entries = Run::parse(&value).expect("it is a run");
                let last = map.last_key_value().map(|(last, _)| &**last);
                let is_behind = last < Some(entries[0].0);
                if is_behind {
                    let entries = entries.into_iter();
                    map.extend(entries.map(|(key, value)| (key.to_vec(), value.to_vec())));
                }
                return Answer::Changed(is_behind);
            }
            Verb::CompareAndUpdate => {
                let Comparison { expected, new } = Comparison::parse(&value).expect("it is one");
                let is_expected = map.get(&key).is_some_and(|value| value == expected);
                if is_expected {
                    map.insert(key, new.to_vec());
                }
                return Answer::Changed(is_expected);
            }
            Verb::Remove => drop(map.remove(&key)),
            Verb::InsertIfAbsent if existed => {}
            Verb::Update if !existed => {}
            _ => drop(map.insert(key, value)),
        }
        Answer::Existed(existed)
    }
}

impl Content {
    /// Keys and values, in the order of the structure.
    fn items(&self, kind: StructureKind) -> Vec<(Vec<u8>, Vec<u8>)> {
        let pair = |value: &Vec<u8>| (Vec::new(), value.clone());
        match kind {
            StructureKind::Stack => self.sequence.iter().rev().map(pair).collect(),
            StructureKind::Queue => self.sequence.iter().map(pair).collect(),
            StructureKind::Cursor => {
                let bytes = |word: &u64| word.to_be_bytes().to_vec();
                let taken = self.taken.iter();
                taken
                    .map(|(token, number)| (bytes(token), bytes(number)))
                    .collect()
            }
            _ => self.map.clone().into_iter().collect(),
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

/// A writer and the answers that it was given.
struct Writer {
    writer: DomainWriter,
    calls: Vec<Call>,
    /// The answers to the calls with a token: index of the call, token, operation, answer.
    tokens: Vec<Told>,
    volatile: Vec<Span>,
    durable: usize,
    told: usize,
    area: u64,
}

#[derive(Clone, Debug)]
struct Told {
    /// The number of the call in the history.
    number: usize,
    token: u64,
    operation: (Verb, u32, Vec<u8>, Vec<u8>),
    answer: Answer,
}

struct History {
    random: Random,
    pool: Rc<Pool>,
    domain: Domain,
    decided: Vec<Call>,
    /// The last calls with tokens that count.
    told: Vec<Told>,
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
            told: Vec::new(),
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
        self.executed += ended.replayed.executed;
        if let Some(writer) = self.writer.take() {
            let count = ended.operation as usize - self.decided.len();
            assert!(count >= writer.told, "{count} of {} told", writer.told);
            self.decided.extend_from_slice(&writer.calls[..count]);
            let counts = |told: &Told| told.number < self.decided.len();
            self.told.extend(writer.tokens.into_iter().filter(counts));
        }
        self.check();
    }

    /// Compares everything that the structures hold, and accounts for each unit.
    fn check(&self) {
        let state = State::after(&self.decided);
        let memory = self.pool.memory();
        let roots = ReadRoots::new(KEY, PLACE.number, PLACE.root_word());
        let roots = drive(roots, |span| held(memory, span)).expect("the table is whole");
        assert_eq!(roots.rows().len(), state.contents.len());
        for row in roots.rows() {
            let kind = row.description.kind;
            let content = &state.contents[&(kind as u8)];
            assert_eq!((&row.name, row.number), (&state.name(kind), content.number));
            let structure = roots.structure(row.number).expect("the table names it");
            let contents = structure.contents(&mut |span| held(memory, span));
            let mut contents = contents.expect("the structure is whole");
            if kind == StructureKind::HashTable {
                contents.items.sort();
            }
            let expected = content.items(kind);
            assert_eq!(contents.items, expected, "{row:?}");
            assert_eq!(contents.length, expected.len() as u64);
        }
        let audit = Audit::of(&roots, territory().geometry, 0..SLABS, &mut |span| {
            held(memory, span)
        });
        let audit = audit.expect("the domain is whole");
        assert!(audit.is_sound(), "{audit:?}");
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
            tokens: Vec::new(),
            volatile: Vec::new(),
            durable: 0,
            told: 0,
            area: number,
        });
        self.repeat();
    }

    /// A program that was not told does its last operations again: none of them takes effect twice.
    fn repeat(&mut self) {
        let memory = self.pool.memory();
        let writer = self.writer.as_mut().expect("it was granted");
        let first = self.told.len().saturating_sub(12);
        for told in &self.told[first..] {
            let (verb, structure, key, value) = &told.operation;
            let operation = Operation {
                token: told.token,
                structure: *structure,
                verb: *verb,
                key,
                value,
            };
            let read = &mut |span| held(memory, span);
            let staged = writer.writer.stage(&operation, read);
            let staged = staged.expect("the result is kept");
            assert_eq!((&staged.answer, staged.record), (&told.answer, None));
            assert_eq!(staged.number, told.number as u64 + 1);
        }
    }

    fn any_call(&mut self, state: &State) -> Call {
        let missing = StructureKind::ALL.into_iter();
        if let Some(kind) = missing.clone().find(|kind| !state.has(*kind)) {
            return Call::Create(kind);
        }
        let writer = self.writer.as_ref().expect("a writer calls");
        let roots = writer.writer.roots();
        let is_due = roots.retired_units() > RETIRED || roots.has_ended();
        let random = &mut self.random;
        let kinds: Vec<StructureKind> = missing.collect();
        let kind = kinds[random.random_range(0..kinds.len())];
        match random.random_range(0..60) {
            0..20 if is_due => Call::Reclaim,
            0 => Call::Clear(kind),
            1 => Call::Drop(kind),
            2 => Call::Rename(kind),
            3..12 => {
                let count = random.random_range(0..5);
                Call::Group((0..count).map(|_| any_change(random, state)).collect())
            }
            _ => Call::Change(any_change(random, state)),
        }
    }

    /// Stages a few operations. A writer whose log is full waits until it is trimmed.
    fn stage(&mut self) {
        for _ in 0..self.random.random_range(1..8) {
            let Some(writer) = &self.writer else { return };
            let staged = self.decided.iter().chain(&writer.calls);
            let mut state = State::after(staged);
            let call = self.any_call(&state);
            let operation = state.operation(&call);
            let expected = state.apply(&call);
            let memory = self.pool.memory();
            let token = match self.random.random_range(0..3) {
                0 => self.random.next_u64() | 1,
                _ => 0,
            };
            let writer = self.writer.as_mut().expect("it is there");
            let (verb, structure, key, value) = &operation;
            let staging = Operation {
                token,
                structure: *structure,
                verb: *verb,
                key,
                value,
            };
            let read = &mut |span| held(memory, span);
            match writer.writer.stage(&staging, read) {
                Ok(staged) => {
                    if let Some(expected) = expected {
                        assert_eq!(staged.answer, expected, "{call:?}");
                    }
                    if token != 0 {
                        writer.tokens.push(Told {
                            number: self.decided.len() + writer.calls.len(),
                            token,
                            operation,
                            answer: staged.answer,
                        });
                    }
                    put(memory, writer, &staged.record.expect("the token is new"));
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

fn any_change(random: &mut Random, state: &State) -> Change {
    let kinds = StructureKind::ALL;
    let kind = kinds[random.random_range(0..kinds.len())];
    let verbs = match kind {
        StructureKind::Cursor => &[Verb::Take, Verb::Done][..],
        StructureKind::Stack | StructureKind::Queue => &[Verb::Push, Verb::Push, Verb::Pop],
        StructureKind::BTree | StructureKind::MvBTree if random.random_range(0..4) == 0 => {
            &[Verb::Load]
        }
        _ => &[
            Verb::Insert,
            Verb::InsertIfAbsent,
            Verb::Update,
            Verb::Remove,
            Verb::CompareAndUpdate,
        ],
    };
    let verb = verbs[random.random_range(0..verbs.len())];
    let token = random.random_range(0..12);
    let key = match kind {
        StructureKind::Stack | StructureKind::Queue => Vec::new(),
        _ if verb == Verb::Load => Vec::new(),
        StructureKind::Cursor if verb == Verb::Done => Cursor::done_key(token),
        StructureKind::Cursor => {
            let next = state.contents[&(kind as u8)].next;
            Cursor::take_key(token, next + random.random_range(0..4) / 3)
        }
        _ => random.random_range(0..60_u64).encoded(),
    };
    let mut value = vec![0; random.random_range(0..80)];
    random.fill_bytes(&mut value);
    if verb == Verb::CompareAndUpdate {
        let known = &state.contents[&(kind as u8)].map;
        let comparison = Comparison {
            expected: known.get(&key).map_or(&[], |value| value),
            new: &value,
        };
        value = comparison.encode();
    }
    if verb == Verb::Load {
        value = any_run(random, &state.contents[&(kind as u8)].map);
    }
    Change {
        kind,
        verb,
        key,
        value,
    }
}

/// Entries behind all keys that the tree has ever had, or now and then some that belong elsewhere.
fn any_run(random: &mut Random, map: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    let last = map.last_key_value().map(|(last, _)| &**last);
    let last = last.map(|last| u64::from_be_bytes(last.try_into().expect("a number")));
    let first = match last {
        Some(_) if random.random_range(0..4) == 0 => 0,
        last => last.map_or(1_000, |last| last.max(999) + 1),
    };
    let mut run = Run::default();
    for key in first..first + random.random_range(1..12) {
        run.push(&key.encoded(), &key.to_le_bytes());
    }
    run.value().to_vec()
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
