//! A node: what it keeps durably, what is in its memory, and what its process does.

use std::collections::BTreeMap;

use rand::RngExt as _;
use stonecast_base::{Random, SliceExt as _};
use stonecast_cluster::Epoch;
use stonecast_replication::{Entry, Judgement, Lineage, Point, Primary, ShardCopy, Takeover};

use super::oracle::{Call, Index, Word, Write};

pub const SHARD: u32 = 3;

/// An entry in memory.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub entry: Entry,
    pub write: Write,
    pub durable: bool,
}

pub enum Role {
    Down,
    Copy(ShardCopy),
    Heir(Takeover),
    /// Beside the machine: what the primary decides by, which is what it has stamped.
    Primary(Primary<Call>, Index),
}

pub struct Node {
    /// Durable.
    pub epoch: Epoch,
    /// Durable.
    pub lineage: Lineage,
    /// Durable: the index at the floor.
    pub base: Index,
    pub memory: Vec<Cell>,
    /// How much of the memory was looked at.
    pub scanned: usize,
    pub index: Index,
    pub role: Role,
    pub stopped: bool,
    /// The process stands still in the middle of an append, which lands when the process goes on.
    pub inside: bool,
    /// What the worker counts versions by.
    pub counter: u64,
}

impl Node {
    pub fn new() -> Self {
        let lineage = Lineage::default();
        Self {
            epoch: Epoch(0),
            role: Role::Copy(ShardCopy::new(SHARD, lineage.clone())),
            lineage,
            base: BTreeMap::new(),
            memory: Vec::new(),
            scanned: 0,
            index: BTreeMap::new(),
            stopped: false,
            inside: false,
            counter: 0,
        }
    }

    pub fn is_up(&self) -> bool {
        !matches!(self.role, Role::Down)
    }

    pub fn runs(&self) -> bool {
        self.is_up() && !self.stopped
    }

    /// Takes the copy out of whatever role the node has, which ends.
    pub fn take_copy(&mut self) -> ShardCopy {
        match std::mem::replace(&mut self.role, Role::Down) {
            Role::Down => unreachable!("only a node that is up has a role"),
            Role::Copy(copy) => copy,
            Role::Heir(takeover) => takeover.abandon(),
            Role::Primary(primary, _) => primary.resign().copy,
        }
    }

    pub fn copy(&mut self) -> Option<&mut ShardCopy> {
        match &mut self.role {
            Role::Copy(copy) => Some(copy),
            Role::Heir(takeover) => Some(takeover.copy()),
            Role::Down | Role::Primary(..) => None,
        }
    }

    /// Looks at what has landed, in any order: entries become visible in no order across senders.
    pub fn scan(&mut self, random: &mut Random) {
        let mut found: Vec<_> = self.memory[self.scanned..]
            .iter()
            .map(|c| c.entry)
            .collect();
        found.shuffle(random);
        let looked_at = self.memory.len();
        if let Some(copy) = self.copy() {
            for entry in found {
                copy.take(entry).expect("the term was entered");
            }
            self.scanned = looked_at;
        }
    }

    /// The write at a point of this node's history.
    pub fn word(&self, point: Point) -> Word {
        let at = |cell: &&Cell| cell.entry.point() == point;
        let cell = self.memory.iter().find(at).expect("the entry is in memory");
        Word {
            point,
            write: cell.write,
        }
    }

    /// Digests up to `most` entries, in the order that the copy gives.
    pub fn digest(&mut self, most: usize) {
        for _ in 0..most {
            let Role::Copy(copy) = &mut self.role else {
                return;
            };
            let Some(entry) = copy.digest() else {
                return;
            };
            let word = self.word(entry.point());
            self.index.insert(word.write.key, word);
        }
    }

    /// Persists a floor, and forgets a part of what lies below it: segments are used again at different times.
    pub fn raise_floor(&mut self, random: &mut Random) {
        if !matches!(self.role, Role::Copy(_)) {
            return;
        }
        self.scan(random);
        let Role::Copy(copy) = &mut self.role else {
            return;
        };
        // What the copy's history says is durable on this node when the copy has confirmed it, and not before.
        if copy.lineage().term != self.lineage.term {
            return;
        }
        let kept = copy.raised_floor();
        copy.floor_kept(kept.clone());
        self.base = self.index.clone();
        let goes = |cell: &Cell, random: &mut Random| {
            cell.entry.point() <= kept.floor && random.random_bool(0.5)
        };
        self.memory.retain(|cell| !goes(cell, random));
        self.scanned = self.memory.len();
        self.lineage = kept;
    }

    /// The power fails: of what is not durable any part survives.
    pub fn power_fails(&mut self, random: &mut Random) {
        self.role = Role::Down;
        self.memory
            .retain(|cell| cell.durable || random.random_bool(0.5));
        for cell in &mut self.memory {
            cell.durable = true;
        }
    }

    pub fn start(&mut self, random: &mut Random) {
        let copy = ShardCopy::new(SHARD, self.lineage.clone());
        self.role = Role::Copy(copy);
        self.index = self.base.clone();
        self.counter = 0;
        self.stopped = false;
        self.scanned = 0;
        self.scan(random);
    }

    pub fn persist_all(&mut self) {
        for cell in &mut self.memory {
            cell.durable = true;
        }
    }

    /// The index that the durable part of this node amounts to: what a power cut would leave, judged by history and points alone.
    pub fn durable_index(&self) -> Index {
        let counts = |cell: &&Cell| {
            cell.durable && self.lineage.judge(cell.entry.point()) == Judgement::Counts
        };
        let mut cells: Vec<_> = self.memory.iter().filter(counts).collect();
        cells.sort_by_key(|cell| cell.entry.point());
        let mut index = self.base.clone();
        for cell in cells {
            let point = cell.entry.point();
            let word = Word {
                point,
                write: cell.write,
            };
            index.insert(cell.write.key, word);
        }
        index
    }
}
