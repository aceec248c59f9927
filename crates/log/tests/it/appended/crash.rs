//! Any history of appends, looks, takeovers, reuse and power cuts, even in the middle of a turn: a scan finds every
//! entry that was persisted and is needed, and never reports a settled or void entry again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rand::RngExt as _;
use stonecast_base::{Span, random_from_seed};
use stonecast_lineage::{Epoch, Lineage, Point};
use stonecast_log::{
    Bounds, Buffers, Heritage, Ledger, ScanPolicy, SegmentState, SegmentVerdict, Turn, Turned,
    scan_segment,
};
use stonecast_media::Region;

use super::node::{FIRST, Format, Found, SEGMENTS, SHARD, UNITS, entry, log, place, pool, units};
use crate::memory::Memory;
use crate::server::Collect;

const STEPS: u32 = 60;
const SEEDS: u64 = 1_500;

/// An entry in the memory of the node.
#[derive(Clone, Debug)]
struct Placed {
    position: u64,
    id: (u64, u64),
    span: Span,
    persisted: bool,
}

/// A node with one shard, the primary that appends to it, and the facts that neither may forget.
struct History {
    memory: Memory,
    random: Box<dyn FnMut(u64) -> u64>,
    ledger: Ledger,
    buffers: Buffers,
    /// The states of segments that are blank, by number; `None`: never used.
    blank: BTreeMap<u32, Option<SegmentState>>,
    /// Posted segments, and the unit at which the device places the next entry in the first of them.
    posted: VecDeque<u32>,
    unit: u32,
    /// The entries that were appended in the present use of each segment.
    placed: BTreeMap<u32, Vec<Placed>>,
    /// The primary: its term, the entries that it stamped, and the versions that it has still to send.
    primary: Primary,
    /// The version up to which everything is durably settled.
    settled: u64,
    /// The version up to which the node has digested everything.
    digested: u64,
    void: BTreeSet<(u64, u64)>,
    told: Found,
}

#[derive(Default)]
struct Primary {
    term: u64,
    /// Bytes of each entry of the history that counts, by version.
    entries: BTreeMap<u64, Vec<u8>>,
    term_of: BTreeMap<u64, u64>,
    to_send: VecDeque<u64>,
    /// Whether the primary has stamped in its term.
    has_served: bool,
    /// Entries that heirs which never served have cut off, with their terms: the next heir may have them.
    cut_off: BTreeMap<u64, (u64, Vec<u8>)>,
}

impl Primary {
    fn last(&self) -> u64 {
        self.entries.keys().next_back().copied().unwrap_or(0)
    }

    fn point(&self, version: u64) -> Point {
        let term = Epoch(self.term_of.get(&version).copied().unwrap_or(0));
        Point { term, version }
    }

    /// The primary's history above `floor`.
    fn lineage(&self, floor: u64) -> Lineage {
        let above = self.term_of.range(floor + 1..);
        let closed = above.filter(|(_, term)| **term < self.term);
        Lineage {
            term: Epoch(self.term),
            floor: self.point(floor),
            cuts: closed
                .map(|(&version, &term)| (Epoch(term), version))
                .collect(),
            ..Lineage::default()
        }
    }
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = random_from_seed(seed);
        Self {
            memory: log(),
            random: Box::new(move |below| random.random_range(0..below)),
            ledger: Ledger::default(),
            buffers: Buffers::new(1),
            blank: (0..SEGMENTS).map(|number| (number, None)).collect(),
            posted: VecDeque::new(),
            unit: FIRST,
            placed: BTreeMap::new(),
            primary: Primary {
                term: 1,
                ..Primary::default()
            },
            settled: 0,
            digested: 0,
            void: BTreeSet::new(),
            told: Found::new(),
        }
    }

    fn any(&mut self, below: u64) -> u64 {
        (self.random)(below)
    }

    fn step(&mut self) {
        match self.any(20) {
            0..=8 => self.append(),
            9..=10 => self.persist(),
            11..=12 => self.look(),
            13..=14 => self.settle(),
            15 => self.take_over(),
            16..=17 => self.reuse(),
            18 => self.interrupted_turn(),
            _ => self.power_cut(),
        }
    }

    /// Appends an entry that the primary has still to send, or a new one. The value of a new entry may hold an old
    /// entry.
    fn append(&mut self) {
        if self.buffers.wanted() > 0 {
            self.post();
        }
        let Some(&number) = self.posted.front() else {
            return;
        };
        let version = match self.primary.to_send.pop_front() {
            Some(version) => version,
            None => self.stamp(),
        };
        let bytes = self.primary.entries[&version].clone();
        if self.unit + units(&bytes) > UNITS {
            self.primary.to_send.push_front(version);
            self.buffers.consumed(number);
            self.posted.pop_front();
            self.unit = FIRST;
            return;
        }
        // A message of another sender takes the place before, and never arrives.
        if self.any(6) == 0 && self.unit + 3 + units(&bytes) <= UNITS {
            self.unit += 3;
        }
        let position = pool().position(number, self.unit);
        let span = place(&self.memory, number, self.unit, &bytes);
        self.unit += units(&bytes);
        let id = (self.primary.term_of[&version], version);
        self.placed.entry(number).or_default().push(Placed {
            position,
            id,
            span,
            persisted: false,
        });
    }

    fn stamp(&mut self) -> u64 {
        let (term, version) = (self.primary.term, self.primary.last() + 1);
        let size = [0, 40, 200, 700][self.any(4) as usize];
        let mut body = vec![version as u8; size];
        if self.any(4) == 0 && version > 1 {
            let old = 1 + self.any(version - 1);
            body.resize(64, 0);
            body.extend_from_slice(&self.primary.entries[&old].clone());
        }
        body.truncate(2048);
        let bytes = entry(term, version, &body);
        self.primary.entries.insert(version, bytes);
        self.primary.term_of.insert(version, term);
        self.primary.has_served = true;
        self.primary.cut_off.clear();
        version
    }

    fn post(&mut self) {
        let number = self.blank.keys().next().copied();
        if let Some(number) = number {
            let before = self.blank.remove(&number).expect("it is blank");
            let turn = Turn::to_appends(number, before.as_ref(), Heritage::default());
            let state = super::node::turn(&self.memory, turn, &mut self.ledger);
            self.placed.insert(number, Vec::new());
            self.buffers.posted(&pool(), state);
            self.posted.push_back(number);
        }
    }

    fn persist(&mut self) {
        for placed in self.placed.values_mut().flatten() {
            self.memory.persist(&[placed.span]);
            placed.persisted = true;
        }
    }

    /// Looks for entries, and digests those that follow each other.
    fn look(&mut self) {
        let mut found = Found::new();
        let lineages = self.ledger.lineages().clone();
        let region: &dyn Region = &self.memory;
        self.buffers.step(
            (region, &pool()),
            &Format,
            &lineages,
            Bounds::even(10_000, UNITS),
            &mut |arrival| {
                found.insert(
                    arrival.position,
                    (arrival.facts.term.0, arrival.facts.version),
                );
            },
        );
        for (position, id) in found {
            assert!(id.1 > self.settled, "{id:?} was settled before");
            assert!(!self.void.contains(&id), "{id:?} is void");
            self.told.insert(position, id);
        }
        while self
            .told
            .values()
            .any(|&(_, version)| version == self.digested + 1)
        {
            self.digested += 1;
        }
    }

    /// Writes the digested entries elsewhere, and raises the floor.
    fn settle(&mut self) {
        self.look();
        let version = self.digested;
        if self.buffers.numbers().next().is_none() {
            return;
        }
        self.settled = version;
        self.write_ledger();
    }

    /// A new primary cuts the shard somewhere behind the settled part, or has the entries that an earlier heir, which
    /// never served, has cut off.
    fn take_over(&mut self) {
        self.look();
        if self.buffers.numbers().next().is_none() {
            return;
        }
        match self.any(2) {
            0 => self.revive(),
            _ => self.cut_off(),
        }
        self.primary.term += 1;
        self.primary.has_served = false;
        self.write_ledger();
    }

    fn cut_off(&mut self) {
        let cut = self.settled + self.any(self.digested - self.settled + 1);
        let primary = &mut self.primary;
        for (version, bytes) in primary.entries.split_off(&(cut + 1)) {
            let term = primary.term_of.remove(&version).expect("it was stamped");
            self.void.insert((term, version));
            primary.cut_off.insert(version, (term, bytes));
        }
        let void = &self.void;
        self.told.retain(|_, id| !void.contains(id));
        primary.to_send.retain(|version| *version <= cut);
        self.digested = cut;
    }

    fn revive(&mut self) {
        let revived = self.any(1 + self.primary.cut_off.len() as u64);
        for _ in 0..revived {
            let primary = &mut self.primary;
            let (version, (term, bytes)) = primary.cut_off.pop_first().expect("it was counted");
            self.void.remove(&(term, version));
            primary.entries.insert(version, bytes);
            primary.term_of.insert(version, term);
            primary.to_send.push_back(version);
        }
    }

    fn write_ledger(&mut self) {
        let states: Vec<SegmentState> = self.states();
        let index = self.any(states.len() as u64) as usize;
        let lineage = self.primary.lineage(self.settled);
        self.ledger.keep(SHARD, lineage, 0);
        let span = self.ledger.write(&self.memory, &pool(), &states[index]);
        self.memory.persist(&[span.unwrap()]);
    }

    /// The segments that appends fill, as recovery finds them.
    fn states(&self) -> Vec<SegmentState> {
        let verdicts = (0..SEGMENTS).map(|number| {
            let policy = ScanPolicy::default();
            let mut none = Collect::default();
            let from = None;
            let memory: &dyn Region = &self.memory;
            let verdict = scan_segment(memory, &pool(), "log", number, from, policy, &mut none);
            assert_eq!(none.0, [], "no record was put here");
            verdict.unwrap()
        });
        let states = verdicts.filter_map(|verdict| match verdict {
            SegmentVerdict::Appended { state, .. } => Some(state),
            SegmentVerdict::Free { .. } | SegmentVerdict::Used(..) => None,
        });
        states.collect()
    }

    fn release(&mut self) -> Option<SegmentState> {
        let lineages = self.ledger.lineages().clone();
        let state = *self.buffers.reusable(&lineages).first()?;
        let state = self.buffers.release(state.number, &lineages);
        self.placed.remove(&state.number);
        let gone = |&position: &u64| pool().locate(position).0 == u64::from(state.number);
        self.told.retain(|position, _| !gone(position));
        Some(state)
    }

    fn reuse(&mut self) {
        self.look();
        if let Some(state) = self.release() {
            self.blank.insert(state.number, Some(state));
        }
    }

    /// A turn of a segment that is free again, up to some step, and a power cut.
    fn interrupted_turn(&mut self) {
        let Some((number, before)) = self.blank.pop_first() else {
            return;
        };
        let mut turn = Turn::to_appends(number, before.as_ref(), Heritage::default());
        for _ in 0..self.any(4) {
            let step = turn.step(&self.memory, &pool(), &Format, &mut self.ledger);
            match step.unwrap() {
                Turned::Persist(spans) => self.memory.persist(&spans),
                Turned::Done(_) => break,
            }
        }
        turn.step(&self.memory, &pool(), &Format, &mut self.ledger)
            .unwrap();
        self.power_cut();
    }

    fn power_cut(&mut self) {
        let (seed, habit) = (self.any(1 << 40), self.any(6) as u8);
        crate::crash::cut_power(&self.memory, seed, habit);
        let states = self.states();
        self.ledger = Ledger::read(&self.memory, &pool(), "log", &states).unwrap();
        self.buffers = Buffers::new(1);
        self.blank = (0..SEGMENTS).map(|number| (number, None)).collect();
        for &state in &states {
            self.buffers.adopt(&pool(), state);
            self.blank.remove(&state.number);
        }
        self.posted.clear();
        self.unit = FIRST;
        self.told.clear();
        self.digested = self.settled;
        self.look();
        for placed in self.placed.values().flatten() {
            let needed = placed.id.1 > self.settled && !self.void.contains(&placed.id);
            assert!(
                !needed || !placed.persisted || self.told.get(&placed.position) == Some(&placed.id),
                "{placed:?} was persisted"
            );
        }
        // Entries that survive a power cut are durable.
        let told = &self.told;
        for placed in self.placed.values_mut() {
            placed.retain(|placed| told.contains_key(&placed.position));
            placed.iter_mut().for_each(|placed| placed.persisted = true);
        }
        // The primary connects again, and sends the entries that the node lacks.
        let above = self.primary.entries.range(self.digested + 1..);
        self.primary.to_send = above.map(|(&version, _)| version).collect();
    }
}

/// Runs one history. Panics if a promise is broken.
pub fn run(seed: u64) {
    let mut history = History::new(seed);
    for _ in 0..STEPS {
        history.step();
    }
    history.power_cut();
}

/// Needs each step of a turn and their order, the floors, the cuts, the slots of a ledger, and the look at open units.
#[test]
fn no_crash_loses_what_was_persisted_or_brings_back_what_was_settled_or_void() {
    for seed in 0..SEEDS {
        println!("seed {seed}");
        run(seed);
    }
}
