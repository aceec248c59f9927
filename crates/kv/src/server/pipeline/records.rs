//! Records that clients wrote: each record is copied once, and checked against the rights of its client.

use stonecast_base::{LINE_SIZE, Span, mutant};
use stonecast_fabric::Received;
use stonecast_log::{
    Condition, Form, KEY_SIZE_MAX, Kind, LogFormat, Record, RecordHeader, SEGMENT_HEADER_UNITS,
    STAMP_SIZE, UNIT_SIZE, VALUE_SIZE_MAX, check, record_size,
};
use stonecast_media::Region;

use super::batch::{RequestBatch, Source, Write};
use crate::server::clients::Session;
use crate::server::journal::{Journal, Placed};
use crate::server::shards::Shards;
use crate::wire::limits::STAGING_SIZE;
use crate::wire::staging::staging_position;
use crate::wire::{ChunkName, Head, split_immediate};

/// The place that a client names for its record, after the check that the client may write there.
struct Spot<'s> {
    /// The staging memory of the record; `None` if the record lies in the log.
    staging: Option<&'s dyn Region>,
    /// Offset of the record in that memory.
    offset: u64,
    /// The position to which the record's tag is bound.
    position: u64,
    unit: u32,
    /// Segment and generation, if the record lies in the log.
    segment: Option<(u32, u32)>,
}

/// Copies and checks a record that a client wrote, which is of the term that the client has named for its shard.
/// `None`: the record is invalid.
#[inline]
pub(super) fn take_record(
    (session, journal, shards): (&Session, &mut Journal, &Shards),
    batch: &mut RequestBatch,
    arrival: &Received,
) -> Option<Write> {
    // The client writes only the bytes after the place of the stamp.
    let size = STAMP_SIZE as u64 + u64::from(arrival.placement.size);
    if size > record_size(KEY_SIZE_MAX, VALUE_SIZE_MAX) {
        return None;
    }
    let spot = find_spot(session, journal, arrival, size)?;
    let start = batch.bytes.len();
    let log: &dyn Region = &**journal.log();
    let memory = spot.staging.unwrap_or(log);
    // Records begin and end with whole lines, which are copied in the shortest way.
    let lines = size.next_multiple_of(LINE_SIZE as u64);
    memory.read(spot.offset, batch.bytes.add(lines as usize));
    let copy = &batch.bytes[start..][..size as usize];
    let format = journal.format();
    let Some(record) = checked(format, &spot, journal.opening(), copy) else {
        batch.bytes.truncate(start);
        return None;
    };
    let header = record.header;
    let key_start = start + header.key_start();
    let value_start = key_start + record.key.len();
    let source = match spot.segment {
        Some((segment, generation)) => Source::Placed(Placed {
            segment,
            unit: spot.unit,
            generation,
            size: header.size(),
            whole_size: size,
            tag: header.tag(),
        }),
        None => Source::Staged(start),
    };
    let mut write = Write::new(
        source,
        (Kind::Put, header.condition(), header.token()),
        shards.route_of(header.form(), record.key),
        (key_start, value_start),
        (value_start, value_start + record.value.len()),
    );
    write.content.expires = header.expires();
    write.content.form = header.form();
    write.on_node.term = session.terms.of(write.route.shard);
    Some(write)
}

/// The place of the `size` bytes that the client of `session` says it wrote. `None`: the client may not write there.
fn find_spot<'s>(
    session: &'s Session,
    journal: &mut Journal,
    arrival: &Received,
    size: u64,
) -> Option<Spot<'s>> {
    let (slot, unit) = split_immediate(arrival.immediate);
    if let Some(staging) = &session.staging {
        let offset = u64::from(unit) * UNIT_SIZE;
        let fits = Span::new(offset, size).fits(STAGING_SIZE);
        return fits.then(|| Spot {
            staging: Some(&*staging.memory),
            offset,
            position: staging_position(unit),
            unit,
            segment: None,
        });
    }
    let lease = session.leases.get(usize::from(slot))?;
    let extent = Some(lease.object()).filter(|extent| !extent.publishes)?;
    let end = u64::from(unit).checked_add(size.div_ceil(UNIT_SIZE))?;
    // Published records lie below the segment's end, and no client may overwrite them.
    let (first, generation) = journal.end(extent.segment);
    let format = journal.format();
    let allowed = unit >= first && end <= format.segment_size / UNIT_SIZE;
    let position = format.position(extent.segment, unit);
    allowed.then_some(Spot {
        staging: None,
        offset: position,
        position,
        unit,
        segment: Some((extent.segment, generation)),
    })
}

/// The record in `bytes`, if it is whole, is a put, and fits its place.
fn checked<'b>(
    format: &LogFormat,
    spot: &Spot<'_>,
    opening: u32,
    bytes: &'b [u8],
) -> Option<Record<'b>> {
    let generation = spot.segment.map_or(0, |(_, generation)| generation);
    let record = match mutant!(TagNotCheckedByServer) {
        true => unchecked(bytes),
        false => check(format, spot.position, (generation, opening), bytes).ok(),
    };
    // A record takes the units that its longest form would need, which may exceed the bytes written. A record that the
    // server places begins after the header of a segment at the earliest.
    let start_max = match spot.segment {
        Some(_) => spot.position % format.segment_size,
        None => u64::from(SEGMENT_HEADER_UNITS) * UNIT_SIZE,
    };
    let fits = |header: &RecordHeader| {
        start_max + header.size() <= format.segment_size || mutant!(LongRecordTaken)
    };
    // A record that claims to be moved is no put: only the server moves records, and the time of the move decides their
    // order in the segment.
    let is_put = |header: &RecordHeader| header.kind() == Kind::Put && header.moved_at().is_none();
    let allowed = |header: &RecordHeader| {
        header.whole_size() == bytes.len() as u64 && fits(header) && is_put(header)
    };
    record.filter(|record| allowed(&record.header) && is_well_formed(record))
}

/// Whether a part of a value has the name or the numbers that such parts have. A chunk is kept for a time, and is
/// written once.
fn is_well_formed(record: &Record<'_>) -> bool {
    let header = &record.header;
    match header.form() {
        Form::Whole => true,
        Form::Head => Head::read(record.value).is_some(),
        Form::Chunk => {
            ChunkName::read(record.key).is_some()
                && header.expires().is_some()
                && !record.value.is_empty()
                && header.condition() == Condition::Absent
        }
    }
}

/// A record with only the checks that a read of it needs: for a mutant.
fn unchecked(bytes: &[u8]) -> Option<Record<'_>> {
    let header = RecordHeader::parse(bytes.first_chunk()?).ok()?;
    let value = header.key_start() + header.key_size();
    let key = bytes.get(header.key_start()..value)?;
    Some(Record {
        header,
        key,
        value: bytes.get(value..value + header.value_size())?,
    })
}
