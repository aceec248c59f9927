//! The memory of one machine: two places for each key, and its platform's means to persist them.

use std::rc::Rc;

use stonecast_base::Span;
use stonecast_fabric_sim::SimBacking;
use stonecast_media::{DeclaredPlatform, MediaError, PersistError, PersistentRegion};
use stonecast_persist::execute::{Commit, Layout, Persisted};

use crate::region;
use crate::values::{ValueId, decode};

/// Bytes of a place.
const PLACE_SIZE: u64 = 256;
/// Places of a key: a write never touches the place of the latest finished record.
const PLACES: u64 = 2;
/// Bytes of the region.
const CAPACITY: u64 = 1 << 16;

/// The data of a machine, in its memory.
pub(super) const LAYOUT: Layout = Layout {
    data: Span::new(4096, CAPACITY - 4096),
    receive_buffers: None,
    buffer_size: 512,
};

/// Longest record.
pub(super) const RECORD_SIZE_MAX: usize = PLACE_SIZE as usize;

/// The place of the next write of `key` after `done` finished writes, as an offset in the data.
pub(super) fn place(key: u32, done: u64) -> u64 {
    (u64::from(key) * PLACES + done % PLACES) * PLACE_SIZE
}

/// The memory of one machine.
pub(super) struct Memory {
    pub region: Rc<dyn PersistentRegion>,
    commit: Commit,
}

/// A whole record: its value, its place among the places of its key, and its bytes.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub value: ValueId,
    place: u64,
    bytes: Vec<u8>,
}

impl Memory {
    /// Opens the content of the module behind `backing`.
    pub fn open(backing: &SimBacking, platform: DeclaredPlatform) -> Result<Self, MediaError> {
        let (region, commit) = region::open(backing, platform, CAPACITY)?;
        Ok(Self { region, commit })
    }

    /// The newest whole record of `key`.
    pub fn newest(&self, key: u32) -> Option<Record> {
        let places = (0..PLACES).map(|count| place(key, count));
        places
            .filter_map(|place| self.record_at(place))
            .max_by_key(|record| record.value)
    }

    fn record_at(&self, place: u64) -> Option<Record> {
        let mut bytes = vec![0; PLACE_SIZE as usize];
        self.region.read(LAYOUT.data.offset + place, &mut bytes);
        let size = u32::from_le_bytes(*bytes[4..].first_chunk()?) as usize;
        bytes.truncate(size);
        let value = decode(&bytes)?;
        Some(Record {
            value,
            place,
            bytes,
        })
    }

    /// Stores a record of another machine, and persists it.
    pub async fn take(&self, record: &Record) -> Result<Persisted, PersistError> {
        let offset = LAYOUT.data.offset + record.place;
        self.region.write(offset, &record.bytes);
        let span = Span::new(offset, record.bytes.len() as u64);
        self.commit.persist(&*self.region, &[span]).await
    }
}
