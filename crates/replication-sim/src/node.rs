//! A node: its durable state, and the work of its process for each shard.

use std::mem::replace;

use rand::RngExt as _;
use stonecast_base::{Random, SliceExt as _};
use stonecast_cluster::{Epoch, NodeName, Term};
use stonecast_replication::{Judgement, Lineage, Primary, ShardCopy, Takeover};

use crate::clients::{Call, Told};
use crate::configuration::Configuration;
use crate::memory::{Memory, nonce};
use crate::state::{State, Word};
use crate::world::{SHARDS, name};

/// The part that a process plays for a shard.
pub enum Role {
    Down,
    Copy(ShardCopy),
    Heir(Box<Takeover>),
    Leader(Box<Leader>),
}

/// A primary, and the state that its process keeps beside the primary.
pub struct Leader {
    pub primary: Primary<(Call, Told)>,
    /// The state by which the primary decides: the result of all writes that were stamped.
    pub decided: State,
    pub has_been_granted: bool,
    /// The joiner, and the number of its join.
    pub filling: Option<(usize, u64)>,
}

impl Leader {
    /// Hears whether the configuration that is in force names `copy`.
    pub fn hear_of(&mut self, copy: &NodeName, is_named: bool) {
        if is_named {
            self.primary.named(copy);
            self.filling = self.filling.filter(|_| !self.awaits(copy));
        } else if !self.awaits(copy) {
            self.primary.removed(copy);
        }
    }

    /// Whether `copy` is the joiner, which no configuration names yet.
    fn awaits(&self, copy: &NodeName) -> bool {
        self.filling
            .is_some_and(|(joiner, _)| name(joiner) == *copy)
    }
}

/// A shard on a node.
pub struct Held {
    pub shard: u32,
    /// Durable: the history of the shard.
    pub lineage: Lineage,
    /// Durable: the number of the last join.
    pub join: u64,
    /// Durable: the state at the floor.
    pub base: State,
    pub state: State,
    /// A floor, and the state up to that floor, on their way to the device.
    raising: Option<(Lineage, State)>,
    /// The place in the memory up to which the copy has looked.
    scanned: u64,
    pub role: Role,
}

pub struct Node {
    /// Durable: the epoch of the last configuration that the node learned.
    pub epoch: Epoch,
    /// The configuration of that epoch.
    pub known: Configuration,
    pub memory: Memory,
    pub shards: Vec<Held>,
    pub is_up: bool,
    pub stopped: bool,
    /// The process stands still in the middle of an append, which lands when the process goes on.
    pub inside: bool,
    /// Clients reach the node, and neither letters nor configurations do.
    pub is_isolated: bool,
    /// The last version that the worker gave, to any of its shards.
    pub counter: u64,
}

impl Node {
    pub fn new(number: usize) -> Self {
        Self {
            epoch: Epoch(0),
            known: Configuration::first(),
            memory: Memory::of(number),
            shards: (0..SHARDS).map(Held::new).collect(),
            is_up: true,
            stopped: false,
            inside: false,
            is_isolated: false,
            counter: 0,
        }
    }

    pub fn runs(&self) -> bool {
        self.is_up && !self.stopped
    }

    /// Whether the process stands still in the middle of an append.
    pub fn is_inside(&self) -> bool {
        self.stopped && self.inside
    }

    pub fn held(&mut self, shard: u32) -> &mut Held {
        &mut self.shards[shard as usize]
    }

    pub fn role(&self, shard: u32) -> &Role {
        &self.shards[shard as usize].role
    }

    pub fn leader(&mut self, shard: u32) -> Option<&mut Leader> {
        match &mut self.held(shard).role {
            Role::Leader(leader) => Some(leader),
            _ => None,
        }
    }

    pub fn leads_something(&self) -> bool {
        let mut shards = self.shards.iter();
        shards.any(|held| matches!(held.role, Role::Leader(_)))
    }

    /// The term in which this node leads `shard`.
    pub fn leads(&self, shard: u32) -> Option<Term> {
        match self.role(shard) {
            Role::Leader(leader) => Some(leader.primary.term()),
            _ => None,
        }
    }

    /// Looks at the landed entries in any order, because entries of several senders become visible in no order.
    pub fn scan(&mut self, shard: u32, random: &mut Random) {
        let memory = &self.memory;
        self.shards[shard as usize].scan(memory, random);
    }

    /// Digests up to `most` entries, in the order that the copy gives.
    pub fn digest(&mut self, shard: u32, most: usize) {
        let memory = &self.memory;
        self.shards[shard as usize].digest(memory, most);
    }

    /// Begins to persist a floor, or finishes and lets a part of the entries below go.
    pub fn raise_floor(&mut self, shard: u32, random: &mut Random) {
        self.scan(shard, random);
        let held = &mut self.shards[shard as usize];
        let was_begun = held.raising.is_some();
        if !was_begun {
            held.begin_to_raise_floor();
        }
        // Some writes take their time.
        if !was_begun && random.random_bool(0.5) {
            return;
        }
        let Some((kept, base)) = held.raising.take() else {
            return;
        };
        let may_go = match &mut held.role {
            Role::Copy(copy) => copy.floor_kept(kept.clone()),
            Role::Leader(leader) => leader.primary.floor_kept(kept.clone()),
            Role::Heir(takeover) => takeover.copy().floor_kept(kept.clone()),
            Role::Down => unreachable!("a process that runs has a role"),
        };
        if may_go {
            self.memory.forget(shard, kept.floor, random);
        }
        held.base = base;
        held.lineage = kept;
    }

    /// Ends the process, and with it everything that is not in memory.
    pub fn dies(&mut self) {
        self.is_up = false;
        self.stopped = false;
        self.is_isolated = false;
        self.shards
            .iter_mut()
            .for_each(|held| held.role = Role::Down);
    }

    pub fn start(&mut self, random: &mut Random) {
        self.is_up = true;
        self.counter = 0;
        for shard in 0..SHARDS {
            let held = self.held(shard);
            held.state = held.base.clone();
            let lineage = held.lineage.clone();
            held.begin(ShardCopy::new(shard, lineage));
            self.scan(shard, random);
        }
    }

    /// Whether a power cut would leave the write.
    pub fn has_durably(&self, shard: u32, word: Word) -> bool {
        let base = &self.shards[shard as usize].base;
        base.done.get(&word.write.number) == Some(&word)
            || self.memory.has_durably(shard, word.point)
    }

    /// The state that a power cut would leave on this node, judged by history and points alone.
    pub fn durable_state(&self, shard: u32) -> State {
        let held = &self.shards[shard as usize];
        let mut state = held.base.clone();
        for word in self.memory.durable_words(shard) {
            if held.lineage.judge(word.point) == Judgement::Counts {
                state.apply(word);
            }
        }
        state
    }
}

impl Held {
    fn new(shard: u32) -> Self {
        let lineage = Lineage::new(nonce());
        Self {
            shard,
            role: Role::Copy(ShardCopy::new(shard, lineage.clone())),
            lineage,
            join: 0,
            base: State::default(),
            state: State::default(),
            raising: None,
            scanned: 0,
        }
    }

    /// A copy that has looked at nothing.
    pub fn begin(&mut self, copy: ShardCopy) {
        self.role = Role::Copy(copy);
        self.raising = None;
        self.scanned = 0;
    }

    fn begin_to_raise_floor(&mut self) {
        let raised = match &self.role {
            Role::Copy(copy) => copy.raised_floor(),
            Role::Leader(leader) => leader.primary.raised_floor(),
            Role::Heir(_) | Role::Down => None,
        };
        self.raising = raised.map(|lineage| (lineage, self.state.clone()));
    }

    /// Notes that the pulled state is durable. A floor that was on its way says nothing of that state.
    pub fn keep_pulled(&mut self, pulled: &State) {
        self.raising = None;
        self.base.merge(pulled);
        self.state.merge(pulled);
    }

    /// Notes that the history is durable. A floor that was on its way before is durable earlier, and is written over.
    pub fn keep(&mut self, lineage: Lineage) {
        self.raising = None;
        self.lineage = lineage;
    }

    /// Ends the present role, and stays a copy. Calls that waited are lost: their clients repeat them.
    pub fn step_down(&mut self) -> &mut ShardCopy {
        let copy = match replace(&mut self.role, Role::Down) {
            Role::Down => unreachable!("a process that runs has a role"),
            Role::Copy(copy) => copy,
            Role::Heir(takeover) => takeover.abandon(),
            Role::Leader(leader) => leader.primary.resign().copy,
        };
        self.role = Role::Copy(copy);
        self.copy().expect("it was made one")
    }

    pub fn copy(&mut self) -> Option<&mut ShardCopy> {
        match &mut self.role {
            Role::Copy(copy) => Some(copy),
            Role::Heir(takeover) => Some(takeover.copy()),
            Role::Down | Role::Leader(_) => None,
        }
    }

    fn scan(&mut self, memory: &Memory, random: &mut Random) {
        let mut found = memory.entries_after(self.scanned, self.shard);
        found.shuffle(random);
        if let Some(copy) = self.copy() {
            for entry in found {
                copy.take(entry).expect("the term was entered");
            }
            self.scanned = memory.last();
        }
    }

    fn digest(&mut self, memory: &Memory, most: usize) {
        let Role::Copy(copy) = &mut self.role else {
            return;
        };
        for _ in 0..most {
            let Some(entry) = copy.digest() else {
                return;
            };
            self.state.apply(memory.word(self.shard, entry.point()));
        }
    }
}

/// A random number below `count`.
pub fn any(random: &mut Random, count: usize) -> usize {
    random.random_range(0..count)
}
