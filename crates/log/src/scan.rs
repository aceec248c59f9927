//! The scan of a segment: finds every stamped record and judges what is missing.
//!
//! ```text
//!   for each unit from the start:
//!     sequence word 0                      not stamped: next unit
//!     commit tag does not check            not stamped: next unit
//!     record tag does not check            stamped, but not whole: next unit (the links tell what that means)
//!     else                                 a record: judge its links, go on behind it
//! ```
//!
//! The commit tag is checked before any length is believed, so forged headers cost one hash each and lead nowhere.
//!
//! **Judgement.** Below the seal count and XOR must be what the seal says. Above it, a record whose `previous` is not the
//! record found before it has a *gap* before it: stamped records stood there. If any later record says `durable` beyond
//! the start of a gap, a record in the gap had been made durable and is gone, which no crash causes: corruption. Otherwise
//! the gap is what a crash left of batches that nobody was told of.
//!
//! What this cannot see: damage to the records after the last one whose `durable` or seal covers them. They look like the
//! torn tail of a crash. A seal at closing leaves no such records behind; after a crash they are at most those of the
//! last batch of the segment.

use stonecast_base::Corruption;
use stonecast_media::Region;
use zerocopy::FromBytes as _;

use crate::format::{LogFormat, RECORD_HEADER_SIZE, SEGMENT_HEADER_UNITS, UNIT_SIZE};
use crate::record::{RecordHeader, check};
use crate::seal::{RawSegmentHeader, newest_seal};
use crate::segment::SegmentState;
use crate::stamp::Stamp;
use crate::window::Window;

/// A record that a scan found.
pub struct Found<'a> {
    /// Byte position in the log.
    pub position: u64,
    /// Its header.
    pub header: RecordHeader,
    /// Its key.
    pub key: &'a [u8],
}

/// Who is told of the records.
pub trait Visitor {
    /// Some records, in the order of their positions within the segment. In batches, so that the visitor can overlap its
    /// memory accesses.
    fn records(&mut self, batch: &[Found<'_>]);
}

/// How to judge what is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanPolicy {
    /// Count missing records instead of refusing: the medium had a power cycle and never promised to survive one.
    pub tolerate_missing: bool,
}

/// What a segment turned out to be.
#[derive(Clone, Debug)]
pub enum SegmentVerdict {
    /// Not in use. `torn_header`: a crash hit the writing of its header, before anything was written behind it.
    Free {
        /// See above.
        torn_header: bool,
    },
    /// In use.
    Used(SegmentState, SegmentReport),
}

/// What a scan found in a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentReport {
    /// Records found.
    pub records: u64,
    /// Bytes looked at.
    pub bytes_scanned: u64,
    /// Byte position of the first place where stamped records of unacknowledged batches are torn or missing.
    pub torn_tail: Option<u64>,
    /// Records known to be missing, where the policy tolerates that.
    pub missing: u64,
}

/// Records handed to a visitor at a time.
const BATCH: usize = 32;

/// Scans segment `number`, from its start or from where `from` (of a checkpoint) ended, and hands what it finds to
/// `visitor`. `file` names the log in errors. The caller seals the state that comes back, and persists that, before
/// anybody appends.
pub fn scan_segment(
    log: &dyn Region,
    format: &LogFormat,
    file: &str,
    number: u32,
    from: Option<&SegmentState>,
    policy: ScanPolicy,
    visitor: &mut dyn Visitor,
) -> Result<SegmentVerdict, Corruption> {
    let start = u64::from(number) * format.segment_size;
    let damage = |what: &'static str, offset: u64, found: String, expected: String| Corruption {
        what: what.into(),
        file: file.to_owned().into(),
        offset,
        found,
        expected,
    };
    let mut bytes = [0; UNIT_SIZE as usize];
    log.read(start, &mut bytes);
    let header = RawSegmentHeader::read_from_bytes(&bytes).expect("64 bytes are a segment header");
    let Some(generation) = header.check(format, number) else {
        if from.is_none() {
            let mut any = None;
            walk(log, format, number, SEGMENT_HEADER_UNITS, &mut |item| any = any.or(item.position()));
            if any.is_none() {
                return Ok(SegmentVerdict::Free { torn_header: !header.is_zero() });
            }
        }
        let expected = format!("a header of segment {number}, as its records or the checkpoint show");
        return Err(damage("segment header", start, "bytes that do not check".to_owned(), expected));
    };
    let from = from.filter(|state| state.generation == generation);
    let mut judge = Judge::new(format, file, number, from.copied().unwrap_or(SegmentState::fresh(number, generation)), policy);
    let seal = newest_seal(log, format, number, generation);
    if let Some(seal) = &seal {
        judge.state.seal_serial = seal.serial.get();
        judge.state.seal_end = judge.state.seal_end.max(seal.end.get());
    }
    judge.seal = seal.filter(|seal| seal.end.get() > judge.state.end || from.is_none());
    let first = judge.state.end;
    let mut batch: Vec<(u64, RecordHeader, Vec<u8>)> = Vec::new();
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let mut result = Ok(());
    let scanned = walk(log, format, number, first, &mut |item| {
        if result.is_err() {
            return;
        }
        match item {
            Item::Record { unit, position, header, key, stamp, commit_tag } => {
                result = judge.record(unit, &header, stamp, commit_tag);
                if result.is_ok() {
                    let mut kept = keys.pop().unwrap_or_default();
                    kept.clear();
                    kept.extend_from_slice(key);
                    batch.push((position, header, kept));
                    if batch.len() == BATCH {
                        hand_over(visitor, &mut batch, &mut keys);
                    }
                }
            }
            Item::Torn { position, .. } => judge.torn(position),
        }
    });
    result?;
    judge.end()?;
    hand_over(visitor, &mut batch, &mut keys);
    judge.report.bytes_scanned = scanned;
    Ok(SegmentVerdict::Used(judge.state, judge.report))
}

fn hand_over(visitor: &mut dyn Visitor, batch: &mut Vec<(u64, RecordHeader, Vec<u8>)>, keys: &mut Vec<Vec<u8>>) {
    let found: Vec<Found<'_>> =
        batch.iter().map(|(position, header, key)| Found { position: *position, header: *header, key }).collect();
    visitor.records(&found);
    keys.extend(batch.drain(..).map(|(_, _, key)| key));
}

/// What a walk over a segment meets.
pub(crate) enum Item<'a> {
    /// A stamped, whole record.
    Record { unit: u32, position: u64, header: RecordHeader, key: &'a [u8], stamp: Stamp, commit_tag: u64 },
    /// A stamp that checks over a record that does not.
    Torn { position: u64, fault: crate::RecordFault },
}

impl Item<'_> {
    fn position(&self) -> Option<u64> {
        match self {
            Item::Record { position, .. } | Item::Torn { position, .. } => Some(*position),
        }
    }
}

/// Looks at each unit of a segment from `first` on. Returns the bytes looked at.
pub(crate) fn walk(log: &dyn Region, format: &LogFormat, number: u32, first: u32, visit: &mut dyn FnMut(Item<'_>)) -> u64 {
    let start = u64::from(number) * format.segment_size;
    let units = format.units();
    let mut window = Window::new(log, start, format.segment_size);
    let mut unit = first;
    while unit < units {
        let offset = u64::from(unit) * UNIT_SIZE;
        let head: &[u8; RECORD_HEADER_SIZE] = window.bytes(offset, UNIT_SIZE).first_chunk().expect("a unit is a header");
        let stamped = head[8..16] != [0; 8];
        let header = if stamped { RecordHeader::parse(head).ok() } else { None };
        let position = start + offset;
        let stamp = header.and_then(|header| Some((header, Stamp::check(format, position, &header)?)));
        let Some((header, (stamp, commit_tag))) = stamp else {
            unit += 1;
            continue;
        };
        let size = header.size();
        let fault = if offset + size > format.segment_size {
            crate::RecordFault::Short { found: format.segment_size - offset, expected: size }
        } else {
            match check(format, position, header.generation(), window.bytes(offset, size)) {
                Ok(record) => {
                    visit(Item::Record { unit, position, header, key: record.key, stamp, commit_tag });
                    unit += (size / UNIT_SIZE) as u32;
                    continue;
                }
                Err(fault) => fault,
            }
        };
        visit(Item::Torn { position, fault });
        unit += 1;
    }
    u64::from(units - first.min(units)) * UNIT_SIZE
}

/// Judges the records of a segment in order.
struct Judge<'a> {
    format: &'a LogFormat,
    file: &'a str,
    start: u64,
    state: SegmentState,
    /// The seal that is still to be met.
    seal: Option<crate::seal::RawSeal>,
    /// Where the first gap above the seal starts, as a unit.
    gap: Option<u32>,
    policy: ScanPolicy,
    report: SegmentReport,
}

impl<'a> Judge<'a> {
    fn new(format: &'a LogFormat, file: &'a str, number: u32, state: SegmentState, policy: ScanPolicy) -> Self {
        let start = u64::from(number) * format.segment_size;
        Self { format, file, start, state, seal: None, gap: None, policy, report: SegmentReport::default() }
    }

    fn record(&mut self, unit: u32, header: &RecordHeader, stamp: Stamp, commit_tag: u64) -> Result<(), Corruption> {
        if self.seal.is_some_and(|seal| unit >= seal.end.get()) {
            self.meet_seal()?;
        }
        if header.generation() != self.state.generation {
            let expected = format!("generation {}", self.state.generation);
            return Err(self.damage("record in a segment", unit, format!("generation {}", header.generation()), expected));
        }
        if self.seal.is_none() {
            self.judge_links(unit, stamp)?;
        }
        self.state.note_stamped(unit, (header.size() / UNIT_SIZE) as u32, commit_tag);
        self.report.records += 1;
        Ok(())
    }

    fn judge_links(&mut self, unit: u32, stamp: Stamp) -> Result<(), Corruption> {
        let (last, end) = (self.state.last, self.state.end);
        if stamp.previous != last {
            if stamp.previous < last || stamp.previous >= unit {
                let expected = format!("unit {last}, or one between it and {unit}");
                return self.missing("link to the previous record", unit, format!("unit {}", stamp.previous), expected);
            }
            self.gap.get_or_insert(end);
            self.note_torn(end);
        }
        if let Some(gap) = self.gap.filter(|&gap| stamp.durable > gap) {
            let found = "no record that checks".to_owned();
            let expected = format!(
                "a record: the one at offset {} says that all below {} was durable",
                self.at(unit),
                self.at(stamp.durable)
            );
            self.gap = None;
            return self.missing("durable record", gap, found, expected);
        }
        Ok(())
    }

    /// A stamp over a record that does not check. Whether that is damage, the links of later records or the seal tell.
    fn torn(&mut self, position: u64) {
        let unit = ((position - self.start) / UNIT_SIZE) as u32;
        if self.seal.is_none_or(|seal| unit >= seal.end.get()) {
            self.report.torn_tail.get_or_insert(position);
        }
    }

    fn note_torn(&mut self, unit: u32) {
        let position = self.at(unit);
        self.report.torn_tail.get_or_insert(position);
    }

    /// Everything below the seal was seen.
    fn meet_seal(&mut self) -> Result<(), Corruption> {
        let Some(seal) = self.seal.take() else { return Ok(()) };
        let (count, xor) = (seal.count.get(), seal.xor.get());
        if (self.state.count, self.state.xor) != (count, xor) {
            let found = format!("{} records with XOR {:#018x}", self.state.count, self.state.xor);
            let expected = format!("{count} records with XOR {xor:#018x} below offset {}", self.at(seal.end.get()));
            let lost = u64::from(count.saturating_sub(self.state.count)).max(1);
            if !self.policy.tolerate_missing {
                return Err(self.damage("sealed records", SEGMENT_HEADER_UNITS, found, expected));
            }
            self.report.missing += lost;
        }
        self.state.end = self.state.end.max(seal.end.get());
        self.state.last = 0;
        self.state.durable = self.state.end;
        Ok(())
    }

    fn end(&mut self) -> Result<(), Corruption> {
        self.meet_seal()?;
        self.state.durable = self.state.end;
        Ok(())
    }

    fn missing(&mut self, what: &'static str, unit: u32, found: String, expected: String) -> Result<(), Corruption> {
        if self.policy.tolerate_missing {
            self.report.missing += 1;
            return Ok(());
        }
        Err(self.damage(what, unit, found, expected))
    }

    fn damage(&self, what: &'static str, unit: u32, found: String, expected: String) -> Corruption {
        Corruption { what: what.into(), file: self.file.to_owned().into(), offset: self.at(unit), found, expected }
    }

    fn at(&self, unit: u32) -> u64 {
        assert!(self.format.segment_size > 0);
        self.start + u64::from(unit) * UNIT_SIZE
    }
}
