//! A node that leads shards: one log of several segments, one counter of versions, and a ledger.

use std::collections::{BTreeMap, BTreeSet};

use stonecast_base::{Corruption, Span};
use stonecast_lineage::{Epoch, Lineage, Point};
use stonecast_log::{
    Condition, Draft, Form, Found, Heritage, History, Kind, Ledger, LogFormat, OwnRecords,
    OwnVerdict, STAMP_SIZE, ScanPolicy, SegmentState, SegmentVerdict, Stamp, Turn, Turned,
    UNIT_SIZE, Unsettled, Visitor, check, relocate, scan_segment,
};
use stonecast_media::Region as _;

use crate::appended::Format;
use crate::facts::format;
use crate::memory::Memory;
use crate::server::Collect;

pub const SEGMENT_SIZE: u64 = 64 * 1024;
/// The first segment holds the ledger; the others hold records.
pub const SEGMENTS: u32 = 5;
const HOME: u32 = 0;

pub fn pool() -> LogFormat {
    format(SEGMENT_SIZE, SEGMENTS)
}

/// The shard of a key, which the tests put into the first byte.
pub fn shard_of(key: &[u8]) -> u32 {
    key[0].into()
}

/// The first key of a shard.
pub fn key_of(shard: u32) -> [u8; 2] {
    [shard as u8, b'k']
}

pub struct Node {
    pub memory: Memory,
    pub ledger: Ledger,
    pub unsettled: Unsettled,
    pub segments: BTreeMap<u32, SegmentState>,
    /// The next version to give.
    pub next: u64,
    /// The lowest and the highest version that was stamped in each segment.
    reach: BTreeMap<u32, (u64, u64)>,
    home: SegmentState,
    opening: u32,
    unpersisted: Vec<Span>,
}

/// The result of reading a log.
pub struct Look {
    pub ledger: Ledger,
    pub history: History,
    /// Positions of records that count with or without other records.
    pub counts: BTreeSet<u64>,
    /// Positions of void records, by version.
    pub void: Vec<(u64, u64)>,
    home: SegmentState,
    segments: BTreeMap<u32, SegmentState>,
}

impl Node {
    /// A node whose log has a ledger that says nothing.
    pub fn new() -> Self {
        let memory = Memory::new(SEGMENT_SIZE * u64::from(SEGMENTS));
        let mut ledger = Ledger::default();
        let mut turn = Turn::to_appends(HOME, None, Heritage::default());
        let home = loop {
            match turn.step(&memory, &pool(), &Format, &mut ledger).unwrap() {
                Turned::Persist(spans) => memory.persist(&spans),
                Turned::Done(state) => break state,
            }
        };
        Self {
            memory,
            ledger,
            unsettled: Unsettled::default(),
            segments: BTreeMap::new(),
            next: 1,
            reach: BTreeMap::new(),
            home,
            opening: 1,
            unpersisted: Vec::new(),
        }
    }

    /// Whether a record of a few units finds room in a segment.
    pub fn has_room(&self, number: u32) -> bool {
        let end = self.segments.get(&number).map_or(4, |state| state.end);
        end + 4 <= pool().segment_units()
    }

    /// Stamps a record of `shard` at the end of a segment. Returns the version and the position of the record.
    pub fn stamp(&mut self, number: u32, shard: u32) -> (u64, u64) {
        let version = self.next;
        self.next += 1;
        let position = self.write(number, (&key_of(shard), &[7; 50]), version, false);
        self.reach.entry(number).or_insert((version, 0)).1 = version;
        self.unsettled.note(version, shard);
        (version, position)
    }

    /// Writes a record that was stamped elsewhere, with its version. Everything stamped here has to be durable
    /// before.
    pub fn digest(&mut self, number: u32, shard: u32, version: u64) -> u64 {
        assert!(self.unpersisted.is_empty());
        self.write(number, (&key_of(shard), &[9; 50]), version, true)
    }

    fn write(
        &mut self,
        number: u32,
        (key, value): (&[u8], &[u8]),
        sequence: u64,
        is_moved: bool,
    ) -> u64 {
        let state = self.segments.entry(number).or_insert_with(|| {
            let state = SegmentState::fresh(number, 1);
            let header = state.write_header(&self.memory, &pool());
            self.unpersisted.push(header);
            state
        });
        let (unit, place) = (state.end, (state.generation, self.opening));
        let position = pool().position(number, unit);
        let draft = Draft {
            kind: Kind::Put,
            form: Form::Whole,
            condition: Condition::None,
            token: 0,
            expires: None,
            key,
            value,
        };
        let mut bytes = Vec::new();
        let mut tag = draft.encode(&pool(), position, place.0, place.1, &mut bytes);
        let record = check(&pool(), position, place, &bytes).expect("it was just encoded");
        let size = record.header.size();
        if is_moved {
            let mut moved = Vec::new();
            tag = relocate(
                &pool(),
                record,
                (position, place.0, place.1),
                self.next,
                &mut moved,
            );
            bytes = moved;
        }
        self.memory
            .write(position + STAMP_SIZE as u64, &bytes[STAMP_SIZE..]);
        let stamp = Stamp {
            sequence,
            previous: state.last,
            durable: state.durable,
            opening: self.opening,
        };
        let commit_tag = stamp.write(&self.memory, &pool(), position, state.generation, tag, size);
        state.note_stamped(unit, (size / UNIT_SIZE) as u32, commit_tag);
        self.unpersisted
            .push(Span::new(position, bytes.len() as u64));
        position
    }

    /// Makes everything stamped durable.
    pub fn persist(&mut self) {
        self.memory.persist(&self.unpersisted);
        self.unpersisted.clear();
        self.segments
            .values_mut()
            .for_each(SegmentState::note_durable);
    }

    /// Seals the durable records.
    pub fn seal(&mut self) {
        for state in self
            .segments
            .values_mut()
            .filter(|state| state.needs_seal())
        {
            let span = state.seal(&self.memory, &pool());
            self.memory.persist(&[span]);
        }
    }

    /// Makes the ledger durable.
    pub fn keep_ledger(&mut self) {
        let span = self.write_ledger();
        self.memory.persist(&[span]);
    }

    /// Writes the ledger, which a power cut may take.
    pub fn write_ledger(&mut self) -> Span {
        self.ledger
            .write(&self.memory, &pool(), &self.home)
            .expect("a few rows")
    }

    /// The history of `shard` in the ledger.
    pub fn lineage(&self, shard: u32) -> Lineage {
        self.ledger
            .lineages()
            .of(shard)
            .cloned()
            .unwrap_or_default()
    }

    /// Leads `shard` in `term`. The history of `shard` ends at `end`: earlier terms have nothing above.
    pub fn lead(&mut self, shard: u32, term: u64, end: u64) {
        let mut lineage = self.lineage(shard);
        if end > lineage.end().version {
            lineage.cuts.insert(lineage.term, end);
        }
        lineage.term = Epoch(term);
        self.lead_in(shard, lineage, end);
    }

    /// Leads `shard` in the open term of `lineage`. The versions up to `end` were given before.
    pub fn lead_in(&mut self, shard: u32, lineage: Lineage, end: u64) {
        let (term, newest) = (lineage.term, self.unsettled.newest_of(shard));
        self.ledger.keep(shard, lineage, newest);
        let versions = self.ledger.versions_mut();
        versions.skip(self.next, end);
        self.next = self.next.max(end + 1);
        versions.lead(shard, term, self.next - 1);
        self.keep_ledger();
    }

    /// Keeps the history of an heir of `shard`, durably.
    pub fn adopt(&mut self, shard: u32, lineage: Lineage) {
        let newest = self.unsettled.newest_of(shard);
        self.ledger.keep(shard, lineage, newest);
        self.keep_ledger();
    }

    /// Drops everything of `shard`, durably.
    pub fn drop_shard(&mut self, shard: u32, lineage: Lineage) {
        self.ledger.drop_shard(shard, lineage, self.next);
        self.next += 1;
        self.keep_ledger();
    }

    /// Raises the floor of `shard`, and notes the records that the floor settles. The caller keeps the ledger.
    pub fn raise(&mut self, shard: u32, floor: Point) {
        let mut lineage = self.lineage(shard);
        lineage.floor = floor;
        lineage.cuts.retain(|&term, _| term >= floor.term);
        let newest = self.unsettled.newest_of(shard);
        self.ledger.keep(shard, lineage, newest);
        let settled = self
            .unsettled
            .settled(self.ledger.lineages(), self.ledger.versions());
        self.ledger.versions_mut().settle(settled);
        self.forget_unreached();
    }

    /// Forgets the ranges of void versions that no segment has.
    fn forget_unreached(&mut self) {
        let reach = &self.reach;
        self.ledger.versions_mut().forget_unreached(|first, last| {
            let mut segments = reach.values();
            segments.any(|&(lowest, highest)| first <= highest && lowest <= last)
        });
    }

    /// Frees a segment, and everything in it is gone.
    pub fn free(&mut self, number: u32) {
        let heritage = Heritage {
            tokens_lost: 0,
            sequence_floor: self.next - 1,
        };
        let state = self.segments.get_mut(&number).expect("it was used");
        let (next, seal) = state.begin_reuse(&self.memory, &pool(), heritage);
        self.memory.persist(&[seal]);
        self.memory
            .persist(&[next.write_header(&self.memory, &pool())]);
        *state = next;
        self.reach.remove(&number);
        self.forget_unreached();
    }

    /// Recovers from the memory, as a store does: makes the found records durable, seals them, and notes them in the
    /// ledger.
    pub fn recover(self, found: Look) -> Self {
        let Look {
            mut ledger,
            history,
            home,
            mut segments,
            ..
        } = found;
        for state in segments.values_mut() {
            self.memory.persist(state.unsealed(&pool()).as_slice());
            self.memory.persist(&state.settle(&self.memory, &pool()));
        }
        history.note_in(ledger.versions_mut());
        let mut node = Self {
            memory: self.memory,
            unsettled: Unsettled::of(&history),
            next: history.given + 1,
            reach: history.reach.clone(),
            segments,
            ledger,
            home,
            opening: self.opening + 1,
            unpersisted: Vec::new(),
        };
        node.keep_ledger();
        node
    }

    /// Reads the log as recovery does.
    pub fn look(&self) -> Result<Look, Corruption> {
        let memory = &self.memory;
        let scan = |number, visitor: &mut dyn Visitor| {
            scan_segment(
                memory,
                &pool(),
                "log",
                number,
                None,
                ScanPolicy::default(),
                visitor,
            )
        };
        let SegmentVerdict::Appended { state: home, .. } = scan(HOME, &mut Collect::default())?
        else {
            panic!("the segment of the ledger keeps its kind");
        };
        let ledger = Ledger::read(memory, &pool(), "log", [&home])?;
        let format = pool();
        let mut reader = Reader {
            own: OwnRecords::new(&format, ledger.versions(), &|_, key| shard_of(key)),
            counts: BTreeSet::new(),
            void: Vec::new(),
        };
        let mut segments = BTreeMap::new();
        for number in HOME + 1..SEGMENTS {
            if let SegmentVerdict::Used(state, _) = scan(number, &mut reader)? {
                reader.own.take_segment(&state);
                segments.insert(number, state);
            }
        }
        let Reader { own, counts, void } = reader;
        let history = own.finish(ledger.lineages(), "log")?;
        Ok(Look {
            ledger,
            history,
            counts,
            void,
            home,
            segments,
        })
    }
}

struct Reader<'a> {
    own: OwnRecords<'a>,
    counts: BTreeSet<u64>,
    void: Vec<(u64, u64)>,
}

impl Visitor for Reader<'_> {
    fn records(&mut self, batch: &[Found<'_>]) {
        for found in batch {
            match self.own.take(found) {
                OwnVerdict::Counts => {
                    self.counts.insert(found.position);
                }
                OwnVerdict::Void => self.void.push((found.header.sequence(), found.position)),
                OwnVerdict::Open => {}
            }
        }
    }
}
