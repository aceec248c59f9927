//! A minimal server of one segment, and a scan of its work.

use stonecast_base::{Corruption, Span};
use stonecast_log::{
    Condition, Draft, Form, Found, Heritage, Kind, LogFormat, RECORD_START_SIZE, RecordHeader,
    STAMP_SIZE, ScanPolicy, SegmentReport, SegmentState, SegmentVerdict, Stamp, UNIT_SIZE, Visitor,
    check, scan_segment,
};
use stonecast_media::Region as _;

use crate::facts::format;
use crate::memory::Memory;

/// Bytes of the segment that most tests use: 256 units.
pub const SEGMENT_SIZE: u64 = 16 * 1024;
/// The segment is not the first of the log, so that positions and units differ.
pub const SEGMENT: u32 = 1;

/// A published record, owned. Place, sequence and opening identify it; the rest is its content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub unit: u32,
    pub sequence: u64,
    pub opening: u16,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

pub fn pool() -> LogFormat {
    format(SEGMENT_SIZE, 3)
}

pub fn log() -> Memory {
    Memory::new(SEGMENT_SIZE * 3)
}

/// Collects the findings of a scan.
#[derive(Default)]
pub struct Collect(pub Vec<Entry>);

impl Visitor for Collect {
    fn records(&mut self, batch: &[Found<'_>]) {
        self.0.extend(batch.iter().map(entry));
    }
}

pub fn entry(found: &Found<'_>) -> Entry {
    let (_, unit) = pool().locate(found.position);
    let header = &found.header;
    Entry {
        unit,
        sequence: header.sequence(),
        opening: header.opening(),
        key: found.key.to_vec(),
        value: found.value.to_vec(),
    }
}

/// A scan by the strict rules.
pub fn scan(memory: &Memory) -> Result<(SegmentVerdict, Vec<Entry>), Corruption> {
    scan_with(memory, None, ScanPolicy::default())
}

pub fn scan_with(
    memory: &Memory,
    from: Option<&SegmentState>,
    policy: ScanPolicy,
) -> Result<(SegmentVerdict, Vec<Entry>), Corruption> {
    let mut found = Collect::default();
    let verdict = scan_segment(memory, &pool(), "log", SEGMENT, from, policy, &mut found)?;
    Ok((verdict, found.0))
}

/// The parts of a verdict on a segment in use.
pub fn used(verdict: SegmentVerdict) -> (SegmentState, SegmentReport) {
    match verdict {
        SegmentVerdict::Used(state, report) => (state, report),
        SegmentVerdict::Free { .. } | SegmentVerdict::Appended { .. } => {
            panic!("the segment is in use for records")
        }
    }
}

/// Bytes of the log at which a unit of the segment starts.
pub fn position(unit: u32) -> u64 {
    pool().position(SEGMENT, unit)
}

/// Bytes before the key of a record without token and condition.
pub const KEY_START: u64 = 40;

pub struct Server<'m> {
    pub memory: &'m Memory,
    pub format: LogFormat,
    pub state: SegmentState,
    pub opening: u32,
    pub next_sequence: u64,
    unpersisted: Vec<Span>,
}

impl<'m> Server<'m> {
    /// The first use of the segment: its header is persisted with the first batch.
    pub fn first_use(memory: &'m Memory, opening: u32) -> Self {
        Self::first_use_in(pool(), memory, opening)
    }

    /// The first use of the segment in a pool with this format.
    pub fn first_use_in(format: LogFormat, memory: &'m Memory, opening: u32) -> Self {
        let state = SegmentState::fresh(SEGMENT, 1);
        let header = state.write_header(memory, &format);
        Self {
            memory,
            format,
            state,
            opening,
            next_sequence: 1,
            unpersisted: vec![header],
        }
    }

    /// Recovers and continues to serve; every step is durable when this returns.
    pub fn recover(memory: &'m Memory, opening: u32) -> Result<(Self, Vec<Entry>), Corruption> {
        let (verdict, found) = scan(memory)?;
        let SegmentVerdict::Used(mut state, report) = verdict else {
            return Ok((Self::first_use(memory, opening), found));
        };
        memory.persist(state.unsealed(&pool()).as_slice());
        memory.persist(&state.settle(memory, &pool()));
        let next_sequence = report.sequence_max.max(state.heritage.sequence_floor) + 1;
        Ok((
            Self {
                memory,
                format: pool(),
                state,
                opening,
                next_sequence,
                unpersisted: Vec::new(),
            },
            found,
        ))
    }

    /// Frees the segment, needed records or not, and continues in its next generation. Everything stamped
    /// is durable.
    pub fn free(&mut self) {
        let heritage = Heritage {
            tokens_lost: 0,
            sequence_floor: self.next_sequence - 1,
        };
        let (next, seal) = self.state.begin_reuse(self.memory, &self.format, heritage);
        self.memory.persist(&[seal]);
        self.memory
            .persist(&[next.write_header(self.memory, &self.format)]);
        self.state = next;
    }

    pub fn room(&self) -> u32 {
        self.format.segment_units() - self.state.end
    }

    fn position(&self, unit: u32) -> u64 {
        self.format.position(self.state.number, unit)
    }

    /// A client writes a record, which is not stamped.
    pub fn place(&self, unit: u32, key: &[u8], value: &[u8]) -> Vec<u8> {
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
        draft.encode(
            &self.format,
            self.position(unit),
            self.state.generation,
            self.opening,
            &mut bytes,
        );
        self.memory.write(
            self.position(unit) + STAMP_SIZE as u64,
            &bytes[STAMP_SIZE..],
        );
        bytes
    }

    /// A client writes a record `skip` units above the end, and the server stamps it.
    pub fn put_above(&mut self, skip: u32, key: &[u8], value: &[u8]) -> Entry {
        let unit = self.state.end + skip;
        let bytes = self.place(unit, key, value);
        let of = (self.state.generation, self.opening);
        let record =
            check(&self.format, self.position(unit), of, &bytes).expect("it was just encoded");
        let (tag, size) = (record.header.tag(), record.header.size());
        let sequence = self.next_sequence;
        let stamp = Stamp {
            sequence,
            previous: self.state.last,
            durable: self.state.durable,
            opening: self.opening,
        };
        let commit_tag = stamp.write(
            self.memory,
            &self.format,
            self.position(unit),
            self.state.generation,
            tag,
            size,
        );
        self.state
            .note_stamped(unit, (size / UNIT_SIZE) as u32, commit_tag);
        self.unpersisted
            .push(Span::new(self.position(unit), record.header.whole_size()));
        self.next_sequence += 1;
        Entry {
            unit,
            sequence,
            opening: self.opening as u16,
            key: key.to_vec(),
            value: value.to_vec(),
        }
    }

    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Entry {
        self.put_above(0, key, value)
    }

    /// Makes everything stamped durable, so that it may be acknowledged.
    pub fn persist(&mut self) {
        self.memory.persist(&self.unpersisted);
        self.unpersisted.clear();
        self.state.note_durable();
    }

    /// A batch of one record, made durable.
    pub fn put_durably(&mut self, key: &[u8], value: &[u8]) -> Entry {
        let entry = self.put(key, value);
        self.persist();
        entry
    }

    pub fn seal(&mut self) {
        if self.state.needs_seal() {
            let span = self.state.seal(self.memory, &self.format);
            self.memory.persist(&[span]);
        }
    }
}

/// Stamps the record that a client placed at `unit`, whatever the state of the segment is.
pub fn stamp_placed(memory: &Memory, format: &LogFormat, unit: u32, stamp: Stamp) {
    let mut line = [0; RECORD_START_SIZE];
    memory.read(position(unit), &mut line);
    let header = RecordHeader::parse(&line).expect("a record was placed");
    stamp.write(
        memory,
        format,
        position(unit),
        1,
        header.tag(),
        header.size(),
    );
}

/// Damages the record at `unit` so that its tag fails; its stamp stays.
pub fn damage_body(memory: &Memory, unit: u32) {
    memory.flip(position(unit) + KEY_START, 3);
}

/// Erases the record at `unit`, as a power cut does when none of its bytes were written.
pub fn erase(memory: &Memory, entry: &Entry) {
    let mut line = [0; RECORD_START_SIZE];
    memory.read(position(entry.unit), &mut line);
    let size = RecordHeader::parse(&line)
        .expect("a record is there")
        .size();
    memory.write(position(entry.unit), &vec![0; size as usize]);
    memory.persist(&[Span::new(position(entry.unit), size)]);
}
