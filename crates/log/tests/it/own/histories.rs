//! Any history of stamps, takeovers, floors, reuse and power cuts: each acknowledged record is in the history of its
//! shard, with its term and the version before it; the history has everything that was stamped up to some moment; and a
//! record that once did not count never counts again.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt as _;
use stonecast_base::{Span, random_from_seed};
use stonecast_lineage::{Epoch, Lineage, Point, Term};
use stonecast_log::{History, Link};
use stonecast_media::Region as _;

use super::node::{Look, Node, SEGMENTS, pool};
use crate::crash::cut_power;

const SHARDS: u32 = 3;
const STEPS: u32 = 70;
const SEEDS: u64 = 1_000;

/// The facts about a shard that must not be forgotten.
#[derive(Default)]
struct Shard {
    /// Whether the node leads the shard.
    is_led: bool,
    term: Term,
    /// The end of the history when this term began: everything up to there is on all copies.
    began: u64,
    floor: Point,
    /// The history above the floor, here or elsewhere: versions and their terms.
    history: BTreeMap<u64, Term>,
}

impl Shard {
    /// The last version of the history.
    fn end(&self) -> u64 {
        let last = self.history.keys().next_back();
        last.copied().unwrap_or(self.floor.version)
    }

    fn lineage(&self) -> Lineage {
        let closed = self.history.iter().filter(|(_, term)| **term < self.term);
        Lineage {
            term: self.term,
            floor: self.floor,
            cuts: closed.map(|(&version, &term)| (term, version)).collect(),
            ..Lineage::default()
        }
    }

    fn raise(&mut self, floor: Point) {
        self.floor = floor;
        self.history.retain(|&version, _| version > floor.version);
    }
}

struct World {
    node: Node,
    random: Box<dyn FnMut(u64) -> u64>,
    shards: BTreeMap<u32, Shard>,
    /// The records that this node stamped and that count, by version: their shards, and their links in the history.
    own: BTreeMap<u64, (u32, Link)>,
    /// Positions of records that came from elsewhere, and their shards.
    digested: BTreeMap<u64, u32>,
    /// The version up to which everything stamped here was acknowledged.
    persisted: u64,
    /// The number of crashes after which a version was missing before a record.
    torn: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = random_from_seed(seed);
        Self {
            node: Node::new(),
            random: Box::new(move |below| random.random_range(0..below)),
            shards: (0..SHARDS).map(|shard| (shard, Shard::default())).collect(),
            own: BTreeMap::new(),
            digested: BTreeMap::new(),
            persisted: 0,
            torn: 0,
        }
    }

    fn any(&mut self, below: u64) -> u64 {
        (self.random)(below)
    }

    fn step(&mut self) {
        match self.any(20) {
            0..=8 => self.stamp(),
            9..=10 => self.persist(),
            11 => self.node.seal(),
            12..=13 => self.raise_floor(),
            14 => self.cut(),
            15..=16 => self.lead(),
            17 => match self.any(3) {
                0 => self.drop_shard(),
                _ => self.free(),
            },
            _ => self.crash(),
        }
    }

    /// A random shard that the node leads, or does not lead.
    fn pick(&mut self, is_led: bool) -> Option<u32> {
        let shards = self
            .shards
            .iter()
            .filter(|(_, shard)| shard.is_led == is_led);
        let shards: Vec<u32> = shards.map(|(&number, _)| number).collect();
        (!shards.is_empty()).then(|| shards[self.any(shards.len() as u64) as usize])
    }

    fn segment(&mut self) -> Option<u32> {
        let number = 1 + self.any(u64::from(SEGMENTS) - 1) as u32;
        self.node.has_room(number).then_some(number)
    }

    fn stamp(&mut self) {
        let (Some(number), Some(segment)) = (self.pick(true), self.segment()) else {
            return;
        };
        let (version, position) = self.node.stamp(segment, number);
        let shard = self.shards.get_mut(&number).unwrap();
        let (term, previous) = (shard.term, shard.end());
        shard.history.insert(version, term);
        let link = Link {
            position,
            term,
            version,
            previous,
        };
        self.own.insert(version, (number, link));
    }

    fn persist(&mut self) {
        self.node.persist();
        self.persisted = self.node.next - 1;
    }

    /// Settles a part of the acknowledged records of a shard, durably, or with a power cut that may take the floor.
    fn raise_floor(&mut self) {
        let number = self.any(SHARDS.into()) as u32;
        let (floor, persisted) = (self.shards[&number].floor.version, self.persisted);
        let own = self.own.range(floor + 1..);
        let points = own.filter(|&(&version, &(shard, _))| shard == number && version <= persisted);
        let point = |(&version, &(_, link)): (&u64, &(u32, Link))| Point {
            term: link.term,
            version,
        };
        let points: Vec<Point> = points.map(point).collect();
        if points.is_empty() {
            return;
        }
        let floor = points[self.any(points.len() as u64) as usize];
        self.node.raise(number, floor);
        if self.any(4) == 0 {
            self.node.write_ledger();
            return self.crash();
        }
        self.node.keep_ledger();
        self.shards.get_mut(&number).unwrap().raise(floor);
    }

    /// Another node takes a shard over, and may lack the last records of this node. That node stamps records of its
    /// own, or dies before it serves: then the next heir has more records, or fewer.
    fn cut(&mut self) {
        let (Some(number), Some(segment)) = (self.pick(true), self.segment()) else {
            return;
        };
        let Shard { floor, began, .. } = self.shards[&number];
        let settled = floor.version.max(began);
        let ours = self.own.range(settled + 1..);
        let ours = ours.filter(|(_, (shard, _))| *shard == number);
        let ends: Vec<u64> = std::iter::once(settled)
            .chain(ours.map(|(&version, _)| version))
            .collect();
        // A cut is never durable before the records below it that count.
        self.persist();
        let history = self.shards[&number].history.clone();
        for _ in 0..1 + self.any(2) {
            let end = ends[self.any(ends.len() as u64) as usize];
            self.own
                .retain(|&version, (shard, _)| *shard != number || version <= end);
            let shard = self.shards.get_mut(&number).unwrap();
            shard.history = history.clone();
            shard.history.retain(|&version, _| version <= end);
            (shard.is_led, shard.term) = (false, Epoch(shard.term.0 + 1));
            self.node.adopt(number, shard.lineage());
        }
        if self.any(2) == 0 {
            let shard = &self.shards[&number];
            let (term, end) = (shard.term, shard.end());
            let version = end + 1 + self.any(6);
            let position = self.node.digest(segment, number, version);
            self.node.persist();
            self.digested.insert(position, number);
            let floor = Point { term, version };
            self.node.raise(number, floor);
            self.node.keep_ledger();
            self.shards.get_mut(&number).unwrap().raise(floor);
        }
    }

    /// The node begins to lead a shard. Terms are far apart, or differ only in their high bits.
    fn lead(&mut self) {
        let Some(number) = self.pick(false) else {
            return;
        };
        let later = [1, 2, 1 << 16][self.any(3) as usize];
        let shard = self.shards.get_mut(&number).unwrap();
        (shard.is_led, shard.term) = (true, Epoch(shard.term.0 + later));
        shard.began = shard.end();
        self.node.lead_in(number, shard.lineage(), shard.end());
    }

    /// The node drops a shard that it does not lead, and joins the shard again with a copy that has everything up to
    /// now.
    fn drop_shard(&mut self) {
        let Some(number) = self.pick(false) else {
            return;
        };
        self.persist();
        let shard = self.shards.get_mut(&number).unwrap();
        let (term, version) = (shard.term, shard.end());
        shard.raise(Point { term, version });
        self.node.drop_shard(number, shard.lineage());
        self.own.retain(|_, (of, _)| *of != number);
        self.digested.retain(|_, of| *of != number);
    }

    /// Frees a segment whose records are settled, and the records are gone.
    fn free(&mut self) {
        self.persist();
        let number = 1 + self.any(u64::from(SEGMENTS) - 1) as u32;
        let settled = self.node.ledger.versions().settled();
        let is_here = |position: u64| pool().locate(position).0 == u64::from(number);
        let held = self
            .own
            .values()
            .any(|(_, link)| is_here(link.position) && link.version > settled);
        let is_used = self
            .node
            .segments
            .get(&number)
            .is_some_and(|state| !state.is_blank());
        if is_used && !held && self.void_is_settled(number) {
            self.node.free(number);
            self.own.retain(|_, (_, link)| !is_here(link.position));
            self.digested.retain(|&position, _| !is_here(position));
        }
    }

    /// Whether no void record in a segment is needed to prove that no version is missing before later records.
    fn void_is_settled(&self, number: u32) -> bool {
        let look = self.node.look().unwrap();
        let settled = self.node.ledger.versions().settled();
        let above = look.void.iter().filter(|(version, _)| *version > settled);
        above
            .map(|&(_, position)| pool().locate(position).0)
            .all(|segment| segment != u64::from(number))
    }

    /// The process dies, or the power fails, perhaps again during the recovery, and several times.
    fn crash(&mut self) {
        let (seed, habit) = (self.any(u64::MAX), self.any(6) as u8);
        cut_power(&self.node.memory, seed, habit);
        let look = self.node.look();
        let look = look.unwrap_or_else(|corruption| panic!("a crash is not damage: {corruption}"));
        self.judge(&look);
        let node = std::mem::replace(&mut self.node, Node::new());
        self.node = node.recover(look);
    }

    /// Damages an acknowledged record at the end of a segment. Later records in the other segments were durable, and
    /// stamps say so.
    fn damage(&mut self) {
        if self.pick(true).is_none() {
            self.lead();
        }
        let numbers = 1..SEGMENTS;
        let mut numbers: Vec<u32> = numbers
            .filter(|&number| self.node.has_room(number))
            .collect();
        let (Some(shard), true) = (self.pick(true), numbers.len() > 1) else {
            return;
        };
        let damaged = numbers.swap_remove(self.any(numbers.len() as u64) as usize);
        let (_, position) = self.node.stamp(damaged, shard);
        self.node.persist();
        for _ in 0..2 {
            self.node.stamp(numbers[0], shard);
            self.node.persist();
        }
        self.node.memory.write(position, &[0; 64]);
        self.node.memory.persist(&[Span::new(position, 64)]);
        assert!(self.node.look().is_err(), "no crash takes what was durable");
    }

    fn judge(&mut self, look: &Look) {
        let History {
            chains,
            settled: below_floors,
            missing,
            ..
        } = &look.history;
        self.torn += u64::from(missing.is_some());
        let settled = look.ledger.versions().settled();
        let mut found: BTreeSet<u64> = below_floors.iter().copied().collect();
        for (&number, chain) in chains {
            for link in chain {
                let stamped = self.own.get(&link.version);
                assert_eq!(stamped, Some(&(number, *link)), "it is as it was stamped");
                found.insert(link.position);
            }
        }
        let in_history = |link: &Link| found.contains(&link.position);
        let open = || self.own.values().filter(|(_, link)| link.version > settled);
        let end = open()
            .filter(|(_, link)| in_history(link))
            .map(|(_, link)| link.version)
            .max();
        let end = end.unwrap_or(settled).max(settled);
        for (number, link) in open() {
            let must = link.version <= self.persisted || link.version <= end;
            assert!(in_history(link) || !must, "{link:?} is of the history");
            let floor = look.ledger.lineages().of(*number).unwrap().floor.version;
            let is_linked = chains.get(number).is_some_and(|chain| chain.contains(link));
            assert!(
                !must || is_linked != (link.version <= floor),
                "{link:?} above its floor is a link"
            );
        }
        let ours = self.own.values().map(|(_, link)| link);
        let count = ours
            .filter(|link| link.version <= settled)
            .map(|link| link.position);
        let count: BTreeSet<u64> = count.chain(self.digested.keys().copied()).collect();
        assert_eq!(
            look.counts, count,
            "what is settled counts, and nothing else"
        );
        for (&number, shard) in &mut self.shards {
            let is_lost = |version| {
                let own = self.own.get(&version);
                version > end && own.is_some_and(|(of, _)| *of == number)
            };
            shard.history.retain(|&version, _| !is_lost(version));
            let lineage = look.ledger.lineages().of(number);
            shard.raise(lineage.map_or_else(Point::default, |lineage| lineage.floor));
            shard.is_led = false;
        }
        // A record that was not found is gone forever.
        self.own.retain(|&version, _| version <= end);
        self.persisted = end;
    }
}

/// Runs a history, and damages a record at its end. Returns the number of crashes after which a version was missing
/// before a record.
pub fn run(seed: u64) -> u64 {
    let mut world = World::new(seed);
    for _ in 0..STEPS {
        world.step();
    }
    world.crash();
    world.damage();
    world.torn
}

#[test]
fn no_crash_makes_a_history_that_was_not_stamped_or_loses_what_was_acknowledged() {
    let torn: u64 = (0..SEEDS).map(run).sum();
    assert!(torn > SEEDS / 10, "{torn} crashes tore a history");
}
