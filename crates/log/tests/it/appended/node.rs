//! A node whose segments a device fills, and entries that prove themselves.

use std::collections::BTreeMap;

use stonecast_base::{Span, hash};
use stonecast_lineage::{Epoch, Lineage, Point};
use stonecast_log::{
    ArrivalScan, Bounds, EntryFacts, EntryFormat, Ledger, Lineages, LogFormat, SegmentState, Turn,
    Turned, UNIT_SIZE,
};
use stonecast_media::Region as _;

use crate::facts::format;
use crate::memory::Memory;

/// 256 units a segment: a ledger slot has 4, and entries begin at unit 12.
pub const SEGMENT_SIZE: u64 = 16 * 1024;
pub const SEGMENTS: u32 = 4;
pub const FIRST: u32 = 12;
pub const UNITS: u32 = 256;
pub const SHARD: u32 = 5;
const KEY: u64 = 0x51ed;
const HEADER: usize = 64;

pub fn pool() -> LogFormat {
    format(SEGMENT_SIZE, SEGMENTS)
}

pub fn log() -> Memory {
    Memory::new(SEGMENT_SIZE * u64::from(SEGMENTS))
}

/// Entries of the tests: tag, digest of the body, shard, size, term, version, mark.
pub struct Format;

impl EntryFormat for Format {
    fn header(&self, line: &[u8; HEADER]) -> Option<EntryFacts> {
        let word = |index: usize| u64::from_le_bytes(*line[index * 8..].first_chunk().unwrap());
        let facts = EntryFacts {
            shard: word(2) as u32,
            size: (word(2) >> 32) as u32,
            term: Epoch(word(3)),
            version: word(4),
            is_mark: word(5) == 1,
        };
        (word(0) == hash::xxh3_64(KEY, &line[8..])).then_some(facts)
    }

    fn is_whole(&self, entry: &[u8]) -> bool {
        entry[8..16] == hash::xxh3_64(KEY, &entry[HEADER..]).to_le_bytes()
    }
}

/// The bytes of an entry of `SHARD` with `body`.
pub fn entry(term: u64, version: u64, body: &[u8]) -> Vec<u8> {
    entry_of(SHARD, term, version, false, body)
}

pub fn entry_of(shard: u32, term: u64, version: u64, is_mark: bool, body: &[u8]) -> Vec<u8> {
    let size = (HEADER + body.len()) as u64;
    let digest = hash::xxh3_64(KEY, body);
    let words = [
        digest,
        u64::from(shard) | size << 32,
        term,
        version,
        u64::from(is_mark),
        0,
        0,
    ];
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut bytes = hash::xxh3_64(KEY, &words).to_le_bytes().to_vec();
    bytes.extend_from_slice(&words);
    bytes.extend_from_slice(body);
    bytes
}

pub fn units(bytes: &[u8]) -> u32 {
    (bytes.len() as u64).div_ceil(UNIT_SIZE) as u32
}

/// The terms and versions of the entries found, by position.
pub type Found = BTreeMap<u64, (u64, u64)>;

/// The history of a shard in term 1, in which everything up to `version` is settled.
pub fn settled(version: u64) -> Lineage {
    let term = Epoch(1);
    Lineage {
        term,
        floor: Point { term, version },
        ..Lineage::default()
    }
}

/// Takes all steps of a turn, and makes each durable.
pub fn turn(memory: &Memory, mut turn: Turn, ledger: &mut Ledger) -> SegmentState {
    loop {
        match turn.step(memory, &pool(), &Format, ledger).unwrap() {
            Turned::Persist(spans) => memory.persist(&spans),
            Turned::Done(state) => return state,
        }
    }
}

/// A segment that was posted for the first time.
pub fn posted(memory: &Memory, number: u32, ledger: &mut Ledger) -> SegmentState {
    let first = Turn::to_appends(number, None, Default::default());
    turn(memory, first, ledger)
}

/// Places an entry, as a device does, and returns its span.
pub fn place(memory: &Memory, number: u32, unit: u32, bytes: &[u8]) -> Span {
    let position = pool().position(number, unit);
    memory.write(position, bytes);
    Span::new(position, bytes.len() as u64).widen(UNIT_SIZE)
}

/// Takes one step of a scan, with a budget and a bound that suffice for everything.
pub fn look(memory: &Memory, scan: &mut ArrivalScan, lineages: &Lineages) -> Vec<(u32, u64)> {
    look_within(memory, scan, lineages, Bounds::even(10_000, UNITS))
}

/// The units and versions of the entries that a step of a scan finds, in the order of the step.
pub fn look_within(
    memory: &Memory,
    scan: &mut ArrivalScan,
    lineages: &Lineages,
    bounds: Bounds,
) -> Vec<(u32, u64)> {
    let mut found = Vec::new();
    let place = (memory as &dyn stonecast_media::Region, &pool());
    scan.step(place, &Format, lineages, bounds, &mut |arrival| {
        let (_, unit) = pool().locate(arrival.position);
        found.push((unit, arrival.facts.version));
    });
    found
}
