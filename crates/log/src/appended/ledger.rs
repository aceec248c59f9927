//! The durable form of the histories: two slots at the start of each segment that appends fill.
//!
//! ```text
//!   unit   4                4 + n              4 + 2n
//!          | head, rows ... | head, rows ...   | entries
//! ```
//!
//! Beside the histories of shards ([`Lineages`]) a ledger has the meaning of the versions that this node has stamped
//! ([`Versions`]).
//!
//! The serials of ledgers grow by 1 with each ledger of the pool, in any segment: the ledger with the highest serial
//! counts. Of the two slots of a segment, a ledger takes the one without the segment's newest ledger, so a crash during
//! the write leaves the newest ledger whole. The checksum binds a ledger to pool, segment and generation. A segment is
//! posted after a ledger of its generation is durable in it. Later ledgers have the same generation, or the next one,
//! if a crash interrupted a [`Turn`](super::Turn) once or several times. A segment without any of these ledgers is
//! damaged.

use stonecast_base::{Corruption, Span, hash};
use stonecast_lineage::Lineage;
use stonecast_media::Region;
use zerocopy::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::lineages::Lineages;
use super::rows::{ROW_SIZE, Told};
use crate::format::{LogFormat, SEGMENT_HEADER_UNITS, UNIT_SIZE};
use crate::judge::Place;
use crate::layout::layout;
use crate::own::Versions;
use crate::segment::{self, HeaderFound, SegmentKind};
use crate::state::SegmentState;

const MAGIC: [u8; 8] = *b"stonledg";
/// The format of ledgers that this program writes and reads.
const FORMAT: u32 = 2;
/// Units of a segment for each unit of a slot.
const SLOT_SHARE: u32 = 64;
/// Units of the largest slot: 2,728 rows. A shard takes two rows, and one more if the node leads it.
const SLOT_UNITS_MAX: u32 = 1024;
/// Rows for each shard of a cluster: its term, its floor, a cut, and the term in which the node led it. A node may have
/// a copy of every shard, and lead each of them, after the others have died.
const ROWS_OF_SHARD: usize = 4;
const CHECKSUM_OFFSET: usize = std::mem::offset_of!(HeadBytes, checksum);

layout! {
    /// The head of a ledger; its rows follow.
    HeadBytes, LEDGER_FIELDS:
    magic: [u8; 8], "server", "`stonledg`";
    serial: U64, "server", "counts the ledgers of the pool, from 1";
    number: U32, "server", "number of the segment";
    generation: U32, "server", "generation of the segment";
    rows: U32, "server", "rows that follow";
    format: U32, "server", "2; a ledger of format 1 has 0 here";
    reserved: [u8; 16], "server", "zero";
    checksum: U128, "server", "XXH3-128 over bytes 0 to 48, the UUID (16 bytes) and the rows";
}

/// Units of a slot.
fn slot_units(format: &LogFormat) -> u32 {
    (format.segment_units() / SLOT_SHARE).clamp(1, SLOT_UNITS_MAX)
}

/// Rows that a slot holds.
fn rows_max(format: &LogFormat) -> usize {
    let slot_size = u64::from(slot_units(format)) * UNIT_SIZE;
    (slot_size - UNIT_SIZE) as usize / ROW_SIZE
}

/// Whether segments of `format` have room for the ledger of a node that has a copy of each of `shards` shards. A node
/// without this room would end while it takes over the shards of a node that died.
///
/// # Errors
/// [`LedgerFull`]: the segments are too small.
pub fn check_ledger_room(format: &LogFormat, shards: u32) -> Result<(), LedgerFull> {
    let (rows, rows_max) = (shards as usize * ROWS_OF_SHARD, rows_max(format));
    match rows <= rows_max {
        true => Ok(()),
        false => Err(LedgerFull { rows, rows_max }),
    }
}

/// The first unit of a segment that appends may fill.
pub fn first_unit(format: &LogFormat) -> u32 {
    SEGMENT_HEADER_UNITS + 2 * slot_units(format)
}

/// The ledger has more rows than a segment of this size holds, or may have more when other nodes die. Nothing was
/// written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{rows} rows of terms, floors, cuts and versions, and a segment keeps {rows_max}: use larger segments, or fewer shards"
)]
pub struct LedgerFull {
    /// Rows of the ledger.
    pub rows: usize,
    /// Rows that a slot holds.
    pub rows_max: usize,
}

/// The histories of the shards of a pool, the facts about the records that its node stamped, and the segment whose slot
/// holds the newest ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    told: Told,
    serial: u64,
    home: Option<u32>,
}

/// The whole content of a slot.
struct Slot {
    serial: u64,
    generation: u32,
    told: Told,
}

impl Ledger {
    /// Reads the newest ledger of the segments `segments`, which appends fill, in the log that messages call `file`.
    ///
    /// After the death of the process alone, the ledger may be visible and not persisted. The caller writes the ledger
    /// once more and persists it before it confirms a history or relies on a floor found here.
    ///
    /// # Errors
    /// A segment has no ledger of its generation or the next, which no crash leaves, or a ledger has another format.
    pub fn read<'s>(
        region: &dyn Region,
        format: &LogFormat,
        file: &str,
        segments: impl IntoIterator<Item = &'s SegmentState>,
    ) -> Result<Self, Corruption> {
        let mut newest = Self::default();
        for state in segments {
            let read = |slot| read_slot(region, format, state.number, slot);
            let slots = [read(0), read(1)]
                .map(|slot| slot.map_err(|of| other_format(format, file, state, of)));
            let [first, second] = slots;
            let whole = [first?, second?].into_iter().flatten();
            let (mut has_own, mut found) = (false, None);
            for slot in whole {
                has_own |= [state.generation, state.generation + 1].contains(&slot.generation);
                if found
                    .as_ref()
                    .is_none_or(|best: &Slot| best.serial < slot.serial)
                {
                    found = Some(slot);
                }
            }
            let Some(slot) = found.filter(|_| has_own) else {
                return Err(no_ledger(format, file, state));
            };
            if slot.serial > newest.serial {
                newest = Self {
                    told: slot.told,
                    serial: slot.serial,
                    home: Some(state.number),
                };
            }
        }
        Ok(newest)
    }

    /// The histories of all shards of which the node keeps a copy, which decide which entries count.
    pub fn lineages(&self) -> &Lineages {
        &self.told.lineages
    }

    /// Keeps `lineage` as the history of `shard`: with a floor that has risen, with the history of an heir, or with the
    /// term in which the node itself leads. The node has stamped no record of the shard with a version above `given`
    /// that the history may make void: own records that it makes void are void from then on. The change is durable when
    /// a later [`Ledger::write`] is persisted; a turn writes the ledger, too, so the entries of a history are durable
    /// before the history is kept here.
    ///
    /// The caller raises a floor after it has durably written elsewhere everything that it needs at or below the floor.
    pub fn keep(&mut self, shard: u32, lineage: Lineage, given: u64) {
        self.told.versions.cut_off(shard, &lineage, given);
        self.told.lineages.keep(shard, lineage);
    }

    /// Drops the node's copy of `shard`, which begins again with `lineage`, as a joiner or with a
    /// [dropped](Lineage::dropped) history. From then on no record of the shard that lies in the log counts, not even a
    /// digested one. `version` is the next version of the node's counter: no record gets it, and all records written
    /// afterwards have later versions. The change is durable when a later [`Ledger::write`] is persisted; until then
    /// nothing of the new copy is written.
    pub fn drop_shard(&mut self, shard: u32, lineage: Lineage, version: u64) {
        self.told.versions.drop_shard(shard, version);
        self.told.lineages.keep(shard, lineage);
    }

    /// The meaning of the versions that this node has stamped.
    pub fn versions(&self) -> &Versions {
        &self.told.versions
    }

    /// Changes the meaning of versions. The change is durable when a later [`Ledger::write`] is persisted.
    pub fn versions_mut(&mut self) -> &mut Versions {
        &mut self.told.versions
    }

    /// The segment with the newest ledger. The segment keeps its kind until a ledger is persisted in another segment.
    pub fn home(&self) -> Option<u32> {
        self.home
    }

    /// Writes the ledger into the segment of `state`, which has that state's generation or is about to get it. Returns
    /// the span that the caller must persist before anything relies on a change: before it confirms a history, and
    /// before it posts a segment that a floor set free. A crash before that leaves the earlier ledger. The caller
    /// persists the span before it writes another ledger into this segment: that ledger takes the other slot, and a
    /// crash may tear both.
    ///
    /// # Errors
    /// Nothing was written: there are too many rows.
    pub fn write(
        &mut self,
        region: &dyn Region,
        format: &LogFormat,
        state: &SegmentState,
    ) -> Result<Span, LedgerFull> {
        let rows = self.told.encode();
        let rows_max = rows_max(format);
        if rows.len() > rows_max {
            let rows = rows.len();
            return Err(LedgerFull { rows, rows_max });
        }
        let serials = [0, 1].map(|slot| {
            let found = read_slot(region, format, state.number, slot).ok().flatten();
            found.map_or(0, |slot| slot.serial)
        });
        let slot = u32::from(serials[0] > serials[1]);
        self.serial += 1;
        self.home = Some(state.number);
        let mut head = HeadBytes {
            magic: MAGIC,
            serial: self.serial.into(),
            number: state.number.into(),
            generation: state.generation.into(),
            rows: (rows.len() as u32).into(),
            format: FORMAT.into(),
            reserved: [0; 16],
            checksum: U128::ZERO,
        };
        head.checksum = checksum(&head, format, rows.as_bytes()).into();
        let position = slot_position(format, state.number, slot);
        region.write(position, head.as_bytes());
        region.write(position + UNIT_SIZE, rows.as_bytes());
        let size = UNIT_SIZE + rows.as_bytes().len() as u64;
        Ok(Span::new(position, size.next_multiple_of(UNIT_SIZE)))
    }
}

/// Clears the magics of both slots of segment `number`, unless appends filled it. Clients may have written any values
/// into the slots, and a value that looks like a ledger would settle entries that no floor settled. Returns the spans
/// that the caller must persist before a ledger is written there.
pub(super) fn clear_forged(region: &dyn Region, format: &LogFormat, number: u32) -> Vec<Span> {
    let found = segment::read(region, format, number);
    if let HeaderFound::Valid {
        kind: SegmentKind::Appends,
        ..
    } = found
    {
        return Vec::new();
    }
    let slots = [0, 1].map(|slot| slot_position(format, number, slot));
    slots
        .map(|position| {
            region.store(position, 0);
            Span::new(position, UNIT_SIZE)
        })
        .to_vec()
}

fn slot_position(format: &LogFormat, number: u32, slot: u32) -> u64 {
    format.position(number, SEGMENT_HEADER_UNITS + slot * slot_units(format))
}

fn checksum(head: &HeadBytes, format: &LogFormat, rows: &[u8]) -> u128 {
    let mut bound = head.as_bytes()[..CHECKSUM_OFFSET].to_vec();
    bound.extend_from_slice(&format.uuid.to_be_bytes());
    bound.extend_from_slice(rows);
    hash::xxh3_128(&bound)
}

/// The ledger in a slot; `None`: the slot has no whole ledger. A crash leaves such a slot if it was being written, and
/// an earlier use of the segment may leave two.
///
/// # Errors
/// The ledger is whole, and of the format that is returned.
fn read_slot(
    region: &dyn Region,
    format: &LogFormat,
    number: u32,
    slot: u32,
) -> Result<Option<Slot>, u32> {
    let position = slot_position(format, number, slot);
    let mut head = [0; UNIT_SIZE as usize];
    region.read(position, &mut head);
    let head = HeadBytes::read_from_bytes(&head).expect("a head is one line");
    if head.magic != MAGIC || head.rows.get() as usize > rows_max(format) {
        return Ok(None);
    }
    let mut rows = vec![0; head.rows.get() as usize * ROW_SIZE];
    region.read(position + UNIT_SIZE, &mut rows);
    let is_whole =
        head.number.get() == number && head.checksum.get() == checksum(&head, format, &rows);
    if !is_whole {
        return Ok(None);
    }
    match head.format.get() {
        FORMAT => Ok(Told::decode(&rows).map(|told| Slot {
            serial: head.serial.get(),
            generation: head.generation.get(),
            told,
        })),
        0 => Err(1),
        other => Err(other),
    }
}

fn other_format(format: &LogFormat, file: &str, state: &SegmentState, found: u32) -> Corruption {
    corruption(
        (format, file, state),
        format!("a ledger of format {found}"),
        format!("format {FORMAT}: this program reads no other"),
    )
}

fn no_ledger(format: &LogFormat, file: &str, state: &SegmentState) -> Corruption {
    corruption(
        (format, file, state),
        "no whole ledger of this generation or the next in either slot".to_owned(),
        format!(
            "one of generation {}: it was durable before the header said so",
            state.generation
        ),
    )
}

fn corruption(
    (format, file, state): (&LogFormat, &str, &SegmentState),
    found: String,
    expected: String,
) -> Corruption {
    let place = Place {
        format,
        file,
        number: state.number,
    };
    let what = "ledger of a segment that appends fill";
    place.corruption(what, SEGMENT_HEADER_UNITS, found, expected)
}
