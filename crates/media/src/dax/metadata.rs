//! The first 2 MiB of a device: headers, device record, prepared map.
//!
//! ```text
//!   device record     state u64 | process that serves u64 | zeros
//!   prepared map      bit n of word n / 64: bytes n * 256 KiB .. (n + 1) * 256 KiB of the log were prepared
//! ```
//!
//! Each change is written back and fenced before the function that makes the change returns.

use stonecast_base::{KIB, LINE_SIZE, MIB, Span};

use crate::backing::HEADER_COPY_SIZE;
use crate::mapped_region::MappedRegion;
use crate::pool::HEADER_MAGIC;
use crate::write_back::{Processor, store_fence, write_back};
use crate::{Blob, Region, SEGMENT_SIZE_MIN};

/// Bytes before the log: one large page, so that the log starts at a large page.
pub(super) const METADATA_SIZE: u64 = 2 * MIB;
const RECORD: u64 = 2 * HEADER_COPY_SIZE;
const PROCESS: u64 = RECORD + 8;
const MAP: u64 = 64 * KIB;
const MAP_SIZE: u64 = 512 * KIB;
/// Bytes of log for one bit of the map.
const GRAIN: u64 = SEGMENT_SIZE_MIN;

const _: () = assert!(
    crate::CAPACITY_MAX / GRAIN <= 8 * MAP_SIZE,
    "the map has a bit for every part of the largest log"
);

/// The content of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing but zeros.
    Empty,
    /// Data that are not a pool.
    Foreign,
    /// A pool whose creation did not finish.
    Creating,
    /// A pool.
    Pool,
}

const CREATING: u64 = u64::from_le_bytes(*b"stondnew");
const POOL: u64 = u64::from_le_bytes(*b"stonddev");

/// The first 2 MiB of a device, mapped.
#[derive(Debug)]
pub(super) struct Metadata {
    memory: MappedRegion,
    processor: Option<Processor>,
}

/// The place of a header copy.
pub(super) fn header_offset(blob: Blob) -> u64 {
    match blob {
        Blob::HeaderFirst => 0,
        Blob::HeaderSecond => HEADER_COPY_SIZE,
        Blob::Checkpoint => unreachable!("a checkpoint is no header"),
    }
}

impl Metadata {
    /// `memory` is the start of the device.
    pub fn new(memory: MappedRegion) -> Self {
        Self {
            memory,
            processor: Processor::detect(),
        }
    }

    pub fn state(&self) -> State {
        match self.memory.load(RECORD) {
            POOL => State::Pool,
            CREATING => State::Creating,
            // A damaged word must not hide a pool from a check of the remains.
            _ if self.has_header() => State::Pool,
            0 if self.is_zero() => State::Empty,
            _ => State::Foreign,
        }
    }

    fn has_header(&self) -> bool {
        let magic = u64::from_le_bytes(HEADER_MAGIC);
        [Blob::HeaderFirst, Blob::HeaderSecond]
            .iter()
            .any(|copy| self.memory.load(header_offset(*copy)) == magic)
    }

    /// Sets the state, after everything written before is durable.
    pub fn set_state(&self, state: State) {
        let word = match state {
            State::Creating => CREATING,
            State::Pool => POOL,
            State::Empty | State::Foreign => unreachable!("no caller sets a device to {state:?}"),
        };
        self.set_word(RECORD, word);
    }

    /// Clears everything but the state.
    pub fn clear(&self) {
        self.write(0, &vec![0; RECORD as usize]);
        self.write(MAP, &vec![0; MAP_SIZE as usize]);
    }

    /// The bytes of a header copy.
    pub fn header(&self, copy: Blob) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_COPY_SIZE as usize];
        self.memory.read(header_offset(copy), &mut bytes);
        bytes
    }

    pub fn set_header(&self, copy: Blob, bytes: &[u8]) {
        assert!(
            bytes.len() as u64 <= HEADER_COPY_SIZE,
            "a header copy of {} bytes",
            bytes.len()
        );
        self.write(header_offset(copy), bytes);
    }

    /// The process that served the device last.
    pub fn noted_process(&self) -> Option<u32> {
        u32::try_from(self.memory.load(PROCESS))
            .ok()
            .filter(|process| *process > 0)
    }

    /// Notes the serving process if the device holds a pool. Foreign data are not changed.
    pub fn note_process(&self, process: u32) {
        if matches!(self.state(), State::Pool | State::Creating) {
            self.set_word(PROCESS, process.into());
        }
    }

    /// Notes that `span` of the log is prepared and may be written.
    pub fn mark_prepared(&self, span: Span) {
        let grains = span.widen(GRAIN);
        for grain in grains.offset / GRAIN..(grains.offset + grains.size) / GRAIN {
            let (offset, bit) = (MAP + grain / 64 * 8, 1 << (grain % 64));
            let word = self.memory.load(offset);
            if word & bit == 0 {
                self.set_word(offset, word | bit);
            }
        }
    }

    /// The prepared spans of a log of `capacity` bytes, in ascending order.
    pub fn prepared(&self, capacity: u64) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        for grain in 0..capacity.div_ceil(GRAIN) {
            if self.memory.load(MAP + grain / 64 * 8) & 1 << (grain % 64) == 0 {
                continue;
            }
            let start = grain * GRAIN;
            let size = GRAIN.min(capacity - start);
            match spans.last_mut() {
                Some(last) if last.offset + last.size == start => last.size += size,
                _ => spans.push(Span::new(start, size)),
            }
        }
        spans
    }

    fn is_zero(&self) -> bool {
        (0..self.memory.size() / 8).all(|word| self.memory.load(word * 8) == 0)
    }

    fn set_word(&self, offset: u64, word: u64) {
        self.memory.store(offset, word);
        self.persist(Span::new(offset, 8));
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        self.memory.write(offset, bytes);
        self.persist(Span::new(offset, bytes.len() as u64));
    }

    fn persist(&self, span: Span) {
        make_durable(&self.memory, self.processor, span);
    }
}

/// Writes the lines of `span` back and fences. A processor without a write-back instruction only fences: there, a pool
/// whose caches do not survive is refused.
pub(super) fn make_durable(memory: &MappedRegion, processor: Option<Processor>, span: Span) {
    let lines = span.widen(LINE_SIZE as u64);
    match processor {
        Some(processor) => {
            write_back(&processor, memory.address(0, memory.size()), &[lines]);
        }
        None => store_fence(),
    }
}
