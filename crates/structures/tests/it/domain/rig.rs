//! A domain of a few registers, its writers, and the test's knowledge of them.

use std::rc::Rc;

use stonecast_base::Span;
use stonecast_media::Region;
use stonecast_structures::{
    Append, Domain, DomainPlace, Entries, Execute, Grant, Kind, Leftover, LogArea, LogKey,
    Operation, SlabGeometry, TenureWriter, Territory, Verb,
};

use crate::memory::Memory;
use crate::pool::{Pool, medium};

pub const REGISTERS: u64 = 4;
pub const PLACE: DomainPlace = DomainPlace {
    number: 3,
    page: 4096,
};
pub const SLAB_SIZE: u64 = 4096;
const SLABS: u64 = 8192;
/// The slab of another domain.
pub const FOREIGN: u64 = SLABS + SLAB_SIZE;
/// Bytes of the ring of a tenure: it wraps after a dozen records.
pub const LOG_SIZE: u64 = 2048;
/// Bytes of the back-end's ring: room for three transactions.
const OWN_SIZE: u64 = 256;
const OWN: u64 = 16384;
const AREAS: u64 = OWN + 1024;
pub const AREA_COUNT: u64 = 6;
const POOL_SIZE: u64 = AREAS + AREA_COUNT * LOG_SIZE;

pub const KEY: LogKey = LogKey(0xfeed);

/// An operation: it multiplies a register by 3 and adds an amount, so that neither order nor repetition goes unnoticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub register: u64,
    pub amount: u64,
}

pub type Registers = [u64; REGISTERS as usize];

impl Step {
    pub fn apply(self, registers: &mut Registers) {
        let register = &mut registers[self.register as usize];
        *register = register.wrapping_mul(3).wrapping_add(self.amount);
    }

    fn body(self) -> Vec<u8> {
        let operation = Operation {
            token: 0,
            structure: 1,
            verb: Verb::Update,
            key: &[self.register as u8],
            value: &self.amount.to_le_bytes(),
        };
        operation.encode()
    }

    fn parse(body: &[u8]) -> Self {
        let operation = Operation::parse(body).expect("the operation counts");
        Self {
            register: operation.key[0].into(),
            amount: u64::from_le_bytes(operation.value.try_into().expect("a word")),
        }
    }
}

pub fn register_offset(register: u64) -> u64 {
    SLABS + register * 64
}

/// The content of the registers.
pub fn registers(memory: &dyn Region) -> Registers {
    std::array::from_fn(|register| memory.load(register_offset(register as u64)))
}

/// The registers after `steps`.
pub fn folded<'a>(steps: impl IntoIterator<Item = &'a Step>) -> Registers {
    let mut registers = Registers::default();
    for step in steps {
        step.apply(&mut registers);
    }
    registers
}

/// Executes left over steps in the registers.
#[derive(Default)]
pub struct Executor {
    /// The registers with the steps of the open transaction.
    now: Option<Registers>,
    entries: Entries,
    steps: usize,
}

/// Steps of a transaction of the back-end.
const STEPS_MAX: usize = 3;

impl Execute for Executor {
    fn execute(&mut self, memory: &dyn Region, operation: Leftover<'_>) -> bool {
        if self.steps == STEPS_MAX {
            return false;
        }
        let step = Step::parse(operation.body);
        let now = self.now.get_or_insert_with(|| registers(memory));
        step.apply(now);
        let offset = register_offset(step.register);
        self.entries.push_word(offset, now[step.register as usize]);
        self.steps += 1;
        true
    }

    fn close(&mut self) -> Entries {
        (self.now, self.steps) = (None, 0);
        std::mem::take(&mut self.entries)
    }
}

pub fn territory() -> Territory {
    Territory {
        root: PLACE.root_word(),
        geometry: SlabGeometry::new(SLABS, SLAB_SIZE),
        slabs: [0].into(),
    }
}

pub fn area(number: u64) -> LogArea {
    LogArea {
        offset: AREAS + number * LOG_SIZE,
        size: LOG_SIZE,
    }
}

pub fn own() -> LogArea {
    LogArea {
        offset: OWN,
        size: OWN_SIZE,
    }
}

pub fn new_pool() -> Rc<Pool> {
    Pool::new(Memory::new(POOL_SIZE))
}

pub fn created(pool: &Rc<Pool>) -> Domain {
    let made = Domain::create(medium(pool), PLACE, territory());
    crate::pool::now(made).expect("the memory is sound")
}

pub fn opened(pool: &Rc<Pool>) -> Domain {
    crate::pool::now(Domain::open(medium(pool), PLACE, territory())).expect("the page is whole")
}

/// The owner of a tenure: it has a window on the log, and nothing else.
#[derive(Clone)]
pub struct Writer {
    pub grant: Grant,
    pub log: TenureWriter,
    /// The steps that it has staged.
    pub staged: Vec<Step>,
    /// The registers after the transactions so far, and the number of steps in them.
    view: Registers,
    pub published: usize,
    /// Records that are in the log, and may not be durable.
    volatile: Vec<Span>,
    /// Staged steps that are in durable records.
    pub durable: usize,
    /// Staged steps whose ticket has completed.
    pub told: usize,
}

impl Writer {
    pub fn new(grant: Grant, view: Registers) -> Self {
        let log = TenureWriter::new(KEY, grant.area, grant.start, grant.start.position);
        Self {
            grant,
            log,
            staged: Vec::new(),
            view,
            published: 0,
            volatile: Vec::new(),
            durable: 0,
            told: 0,
        }
    }

    fn put(&mut self, memory: &dyn Region, append: &Append) {
        let mut from = &append.bytes[..];
        for piece in &append.pieces {
            let (now, later) = from.split_at(piece.size as usize);
            memory.write(piece.offset, now);
            from = later;
        }
        self.volatile.extend_from_slice(&append.pieces);
    }

    /// Stages a step. Room for its transaction stays free. Returns false if the log is full.
    pub fn stage(&mut self, memory: &dyn Region, step: Step) -> bool {
        let number = self.log.chain().operation + 1;
        let waiting = (self.staged.len() - self.published + 1) as u64;
        let reserved = waiting * 64;
        let append = self
            .log
            .append(Kind::Operation { number }, &step.body(), reserved);
        let Ok(append) = append else { return false };
        self.put(memory, &append);
        self.staged.push(step);
        true
    }

    /// Appends a transaction that covers the next `covers` staged steps.
    pub fn publish(&mut self, memory: &dyn Region, covers: usize) {
        let steps = &self.staged[self.published..self.published + covers];
        let mut entries = Entries::default();
        for step in steps {
            step.apply(&mut self.view);
            let offset = register_offset(step.register);
            entries.push_word(offset, self.view[step.register as usize]);
        }
        self.append_transaction(memory, covers, &entries);
        self.published += covers;
    }

    pub fn append_transaction(&mut self, memory: &dyn Region, covers: usize, entries: &Entries) {
        let last = self.log.chain().covered + covers as u64;
        let kind = Kind::Transaction {
            last,
            covers: covers as u32,
        };
        let append = self.log.append(kind, entries.body(), 0);
        let append = append.expect("the room was reserved");
        self.put(memory, &append);
    }

    /// Makes the records durable, as a one-sided plan does.
    pub fn flush(&mut self, memory: &Memory) {
        memory.persist(&std::mem::take(&mut self.volatile));
        self.durable = self.staged.len();
    }

    /// Completes the tickets of durable steps, if the tenure lasts. The tenure word is read after the records are
    /// durable.
    pub fn complete(&mut self, memory: &dyn Region) {
        let word = memory.load(PLACE.tenure_word().offset);
        if word == u64::from(self.grant.tenure) {
            self.told = self.durable;
        }
    }
}
