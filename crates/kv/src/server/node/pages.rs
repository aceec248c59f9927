//! Pages: the published records of a shard, part by part, for the store of a joiner.
//!
//! ```text
//!   item      | tag 1 | version | size | body of a record        |
//!             | tag 2 | version | token                          |   the outcome of a write
//!             | tag 3 | version                                  |   earlier outcomes are forgotten
//!             | tag 4 | milliseconds since 1970                  |   the highest mark of the time that was told
//!   bytes       1       8         4 or 8
//! ```
//!
//! Keys come in the order of their hashes, and outcomes after them. A page names the hash from which the next page
//! continues: a table that grows in between changes the places of keys, and not their hashes. Numbers are
//! little-endian.

use stonecast_log::{BodyFault, RECORD_START_SIZE, Record, RecordBody, RecordHeader};
use stonecast_media::Region;
use stonecast_node::Page;

use crate::index::Table;
use crate::server::shard::Shard;
use crate::wire::{KeyHash, KeyMap, Word};

const RECORD: u8 = 1;
const OUTCOME: u8 = 2;
const HORIZON: u8 = 3;
const TIME_MARK: u8 = 4;

/// A part of a page.
pub(super) enum PageItem {
    Record(RecordBody),
    Outcome { version: u64, token: u64 },
    Horizon { version: u64 },
    TimeMark { ms: u64 },
}

/// Bytes of a page that another node has not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PageFault {
    #[error("the page ends within an item")]
    Short,
    #[error("an item of kind {0}, which no node makes")]
    Kind(u8),
    #[error(transparent)]
    Body(#[from] BodyFault),
}

/// The place at which a page begins.
enum From {
    /// The first bucket whose keys are in the page, as the least hash of a key there. A bucket takes the top bits of a
    /// hash, so the lowest bit of this number is 0.
    Hash(u64),
    /// Behind the outcome of this version; the lowest bit is 1.
    Outcome(u64),
}

impl From {
    fn of(number: u64) -> Self {
        match number & 1 {
            0 => Self::Hash(number),
            _ => Self::Outcome(number >> 1),
        }
    }

    fn behind_outcome(version: u64) -> u64 {
        version << 1 | 1
    }
}

/// The part of `shard` that begins at `from`, of about `size` bytes. Its time may have been told up to `told_ms`.
pub(super) fn page(
    (shard, told_ms): (&Shard, u64),
    (log, keys): (&dyn Region, KeyMap),
    from: u64,
    size: usize,
) -> Page {
    match From::of(from) {
        From::Hash(hash) => keys_from(shard, (log, keys), hash, size),
        From::Outcome(version) => outcomes_from((shard, told_ms), version, size),
    }
}

fn keys_from(shard: &Shard, (log, keys): (&dyn Region, KeyMap), hash: u64, size: usize) -> Page {
    let table = shard.index().table();
    let shift = u64::BITS - table.bits();
    let mut bytes = Vec::new();
    let mut bucket = hash >> shift;
    while bucket < table.buckets() && bytes.len() < size {
        put_bucket(table, bucket, (log, keys), &mut bytes);
        bucket += 1;
    }
    let done = bucket as f64 / table.buckets() as f64;
    let next = match bucket < table.buckets() {
        true => bucket << shift,
        false => From::behind_outcome(0),
    };
    Page {
        bytes,
        next: Some(next),
        left: (shard.live_bytes() as f64 * (1.0 - done)) as u64,
    }
}

/// Adds the records of the keys whose home is `bucket`. Their words lie there, or in the following buckets.
fn put_bucket(table: &Table, bucket: u64, (log, keys): (&dyn Region, KeyMap), bytes: &mut Vec<u8>) {
    for word in table.words_near(bucket) {
        let Some((hash, header, record)) = read(log, keys, word) else {
            continue;
        };
        if hash.bucket(table.bits()) == bucket {
            let body = Record::body_of(&header, &record);
            bytes.push(RECORD);
            bytes.extend(header.sequence().to_le_bytes());
            bytes.extend((body.len() as u32).to_le_bytes());
            bytes.extend(body);
        }
    }
}

/// The record that `word` names, with the hash of its key. `None`: a client has damaged it, against the rules.
fn read(log: &dyn Region, keys: KeyMap, word: Word) -> Option<(KeyHash, RecordHeader, Vec<u8>)> {
    let mut start = [0; RECORD_START_SIZE];
    log.read(word.position(), &mut start);
    let header = RecordHeader::parse(&start).ok()?;
    if word.position() + header.whole_size() > log.size() {
        return None;
    }
    let mut record = vec![0; header.whole_size() as usize];
    log.read(word.position(), &mut record);
    let key = record.get(header.key_start()..header.key_start() + header.key_size())?;
    Some((keys.route_of(header.form(), key).hash, header, record))
}

fn outcomes_from((shard, told_ms): (&Shard, u64), behind: u64, size: usize) -> Page {
    let mut bytes = vec![HORIZON];
    bytes.extend(shard.outcomes.horizon().to_le_bytes());
    if told_ms > 0 {
        bytes.push(TIME_MARK);
        bytes.extend(told_ms.to_le_bytes());
    }
    let mut next = None;
    for (version, token) in shard.outcomes.entries_behind(behind) {
        if bytes.len() >= size {
            break;
        }
        bytes.push(OUTCOME);
        bytes.extend(version.to_le_bytes());
        bytes.extend(token.to_le_bytes());
        next = Some(version);
    }
    let last = shard.outcomes.entries_behind(next.unwrap_or(behind)).next();
    Page {
        bytes,
        next: next.filter(|_| last.is_some()).map(From::behind_outcome),
        left: 0,
    }
}

/// The items of a page, in order.
pub(super) fn items(mut bytes: &[u8]) -> Result<Vec<PageItem>, PageFault> {
    let mut items = Vec::new();
    while let Some((&kind, rest)) = bytes.split_first() {
        bytes = rest;
        let version = take_u64(&mut bytes)?;
        items.push(match kind {
            RECORD => {
                let size = take::<4>(&mut bytes)?;
                let size = u32::from_le_bytes(size) as usize;
                let (body, rest) = bytes.split_at_checked(size).ok_or(PageFault::Short)?;
                bytes = rest;
                PageItem::Record(RecordBody::read(version, body)?)
            }
            OUTCOME => PageItem::Outcome {
                version,
                token: take_u64(&mut bytes)?,
            },
            HORIZON => PageItem::Horizon { version },
            TIME_MARK => PageItem::TimeMark { ms: version },
            other => return Err(PageFault::Kind(other)),
        });
    }
    Ok(items)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], PageFault> {
    let (taken, rest) = bytes.split_first_chunk().ok_or(PageFault::Short)?;
    *bytes = rest;
    Ok(*taken)
}

fn take_u64(bytes: &mut &[u8]) -> Result<u64, PageFault> {
    take(bytes).map(u64::from_le_bytes)
}
