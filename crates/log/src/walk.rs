//! Searches a segment for its stamped records, with anything else between them.
//!
//! ```text
//!   examine a unit:   commit tag zero, or another generation        next unit
//!                     lengths or codes impossible, does not fit     next unit
//!                     not stamped by the server                     next unit
//!                     stamped, and the bytes do not fit the tag     torn; next unit
//!                     stamped and whole                             a record; the unit after it
//!                     the same, and void                            a link of the chain, and nothing else; the unit after it
//! ```
//!
//! The room between records may hold anything: an unfinished write of a dead client, values full of
//! bytes that look like records, remains of a torn batch. So the walk trusts no length before it
//! has checked the stamp, which costs the same for every header. Stamped records never overlap, so
//! the walk takes time in proportion to the segment, however many forged headers there are.
//!
//! The segment is copied piece by piece, and only the copy is examined.

use stonecast_base::{Corruption, mutant};
use stonecast_media::Region;

use crate::format::{LogFormat, UNIT_SIZE};
use crate::record::{RECORD_START_SIZE, Record, RecordFault, RecordHeader, check_tag, untagged};
use crate::stamp::{Stamp, Standing, may_be_stamped};

/// Bytes copied at once: few enough for the second-level cache, enough to make the cost of the call
/// negligible.
const WINDOW_SIZE: usize = 256 * 1024;
/// Records passed on at once: enough for a receiver to overlap its memory accesses.
const BATCH: usize = 32;

/// A stamped record that a walk has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// Bytes from the start of the log.
    pub position: u64,
    /// The header, with the stamp.
    pub header: RecordHeader,
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Whether the record was taken back: it is a link of its segment's chain and has no meaning for its key.
    pub is_void: bool,
}

/// The segment to walk.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub region: &'a dyn Region,
    pub format: &'a LogFormat,
    pub number: u32,
    /// The generation whose records count; `None` if the header is lost and any generation counts.
    pub generation: Option<u32>,
}

/// Receives the findings of a walk, in ascending order of position.
pub(crate) trait Sink {
    /// Receives some records.
    fn records(&mut self, batch: &[Found<'_>]) -> Result<(), Corruption>;
    /// Receives a stamped header whose record is not whole.
    fn torn(
        &mut self,
        position: u64,
        header: &RecordHeader,
        fault: RecordFault,
    ) -> Result<(), Corruption>;
}

/// The result of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Walked {
    pub bytes: u64,
    /// Whether a unit outside the records has something where a commit tag would be.
    pub remains: bool,
}

enum Look {
    Nothing,
    Remains,
    Torn(RecordHeader, RecordFault),
    /// This many bytes are needed to decide.
    More(usize),
}

/// Walks from unit `from` to the end of the segment.
pub(crate) fn walk(
    source: Source<'_>,
    from: u32,
    sink: &mut dyn Sink,
) -> Result<Walked, Corruption> {
    walk_until(source, from, source.format.segment_units(), sink)
}

/// Passes to `visit` the stamped records, including void ones, that start at or above unit `from`
/// and below `until`, in ascending order, in batches. Returns the unit from which to continue. The
/// segment is in generation `generation`, and nothing writes to it.
pub fn walk_some(
    region: &dyn Region,
    format: &LogFormat,
    (number, generation): (u32, u32),
    (from, until): (u32, u32),
    visit: &mut dyn FnMut(&[Found<'_>]),
) -> u32 {
    let source = Source {
        region,
        format,
        number,
        generation: Some(generation),
    };
    let mut sink = Visit { visit };
    let walked = walk_until(source, from, until, &mut sink)
        .unwrap_or_else(|error| unreachable!("a visit never fails: {error}"));
    from + (walked.bytes / UNIT_SIZE) as u32
}

struct Visit<'v> {
    visit: &'v mut dyn FnMut(&[Found<'_>]),
}

impl Sink for Visit<'_> {
    fn records(&mut self, batch: &[Found<'_>]) -> Result<(), Corruption> {
        (self.visit)(batch);
        Ok(())
    }

    fn torn(&mut self, _: u64, _: &RecordHeader, _: RecordFault) -> Result<(), Corruption> {
        Ok(())
    }
}

/// Walks from unit `from` until a record ends at or above unit `until`.
fn walk_until(
    source: Source<'_>,
    from: u32,
    until: u32,
    sink: &mut dyn Sink,
) -> Result<Walked, Corruption> {
    let Source {
        region,
        format,
        number,
        ..
    } = source;
    let units = format.segment_units();
    let mut walked = Walked::default();
    let mut window = Vec::new();
    let mut unit = from;
    let mut size = RECORD_START_SIZE;
    while unit < until {
        // The window starts at the current unit and holds at least the bytes needed to judge it.
        let rest = (units - unit) as usize * UNIT_SIZE as usize;
        let wanted = (until - unit) as usize * UNIT_SIZE as usize;
        window.resize(size.max(WINDOW_SIZE.min(wanted)).min(rest), 0);
        region.read(format.position(number, unit), &mut window);
        size = RECORD_START_SIZE;
        let mut batch: Vec<Found<'_>> = Vec::with_capacity(BATCH);
        let mut bytes = &window[..];
        while !bytes.is_empty() {
            let position = format.position(number, unit);
            let step = match look(&source, position, rest_of_segment(units, unit), bytes) {
                Ok((Record { header, key, value }, is_void)) => {
                    batch.push(Found {
                        position,
                        header,
                        key,
                        value,
                        is_void,
                    });
                    if batch.len() == BATCH {
                        sink.records(&batch)?;
                        batch.clear();
                    }
                    header.size_units()
                }
                Err(Look::Nothing) => 1,
                Err(Look::Remains) => {
                    walked.remains = true;
                    1
                }
                Err(Look::Torn(header, fault)) => {
                    sink.records(&batch)?;
                    batch.clear();
                    sink.torn(position, &header, fault)?;
                    walked.remains = true;
                    1
                }
                Err(Look::More(needed)) => {
                    size = needed;
                    break;
                }
            };
            unit += step;
            bytes = &bytes[(step as usize * UNIT_SIZE as usize).min(bytes.len())..];
        }
        sink.records(&batch)?;
    }
    walked.bytes = u64::from(unit - from) * UNIT_SIZE;
    Ok(walked)
}

fn rest_of_segment(units: u32, unit: u32) -> u64 {
    u64::from(units - unit) * UNIT_SIZE
}

/// Judges the bytes at `position`. `bytes` extends to the end of the window, in whole units; `rest`
/// bytes are left in the segment.
#[inline]
fn look<'a>(
    source: &Source<'_>,
    position: u64,
    rest: u64,
    bytes: &'a [u8],
) -> Result<(Record<'a>, bool), Look> {
    let line = bytes
        .first_chunk::<RECORD_START_SIZE>()
        .expect("a window has whole units");
    if !may_be_stamped(line) {
        return Err(Look::Nothing);
    }
    let header = RecordHeader::parse(line).map_err(|_| Look::Remains)?;
    let generation = source.generation.unwrap_or(header.generation());
    let possible = header.generation() == generation && header.size() <= rest;
    let standing = if possible {
        Stamp::judge(&header, source.format, position, generation)
    } else {
        Standing::Unstamped
    };
    if standing == Standing::Unstamped {
        return Err(Look::Remains);
    }
    let is_void = standing == Standing::Void;
    if header.size() > bytes.len() as u64 {
        return Err(Look::More(header.size() as usize));
    }
    if mutant!(TornTailAccepted) {
        return untagged(header, bytes)
            .map(|record| (record, is_void))
            .map_err(|fault| Look::Torn(header, fault));
    }
    let record = check_tag(source.format, position, header.opening(), header, bytes);
    record
        .map(|record| (record, is_void))
        .map_err(|fault| Look::Torn(header, fault))
}
