//! Destination storage, to which records are applied. Each key has one place, found through the
//! hash table.

use std::rc::Rc;

use stonecast_base::Span;
use stonecast_media::PersistentRegion;

use crate::PublishedError;
use crate::geometry::Geometry;
use crate::table::Table;

/// The destination storage.
pub(super) struct Storage {
    memory: Rc<dyn PersistentRegion>,
    geometry: Geometry,
    table: Table,
    /// The first place that was never used, and the places of deleted keys.
    next: u64,
    free: Vec<u64>,
}

impl Storage {
    pub fn new(memory: Rc<dyn PersistentRegion>, geometry: Geometry) -> Self {
        let table = Table::new(
            memory.clone(),
            geometry.table(),
            geometry.buckets,
            geometry.key_size,
        );
        let next = geometry.region(0).offset;
        Self {
            memory,
            geometry,
            table,
            next,
            free: Vec::new(),
        }
    }

    fn size(&self) -> u64 {
        (self.geometry.key_size + self.geometry.value_size) as u64
    }

    /// The value of `key`.
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let (_, address) = self.table.find(key)?;
        let mut value = vec![0; self.geometry.value_size];
        self.memory.read(address + key.len() as u64, &mut value);
        Some(value)
    }

    /// Whether there is room for one more key.
    pub fn has_room(&self) -> bool {
        let end = self.geometry.region(0).offset + self.geometry.region_size;
        !self.free.is_empty() || self.next + self.size() <= end
    }

    /// Writes key and value to their place; a new key gets an entry. Returns the bytes to make
    /// durable.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Vec<Span>, PublishedError> {
        let found = self.table.find(key);
        let address = match found {
            Some((_, address)) => address,
            None if !self.has_room() => return Err(PublishedError::Full),
            None => self.free.pop().unwrap_or_else(|| {
                self.next += self.size();
                self.next - self.size()
            }),
        };
        self.memory.write(address, &[key, value].concat());
        let mut spans = vec![Span::new(address, self.size())];
        if found.is_none() {
            let place = self.table.insert(key, 0, address)?;
            spans.push(self.table.span_of(place));
        }
        Ok(spans)
    }

    /// Sets the metadata of `key` to 0. Returns the bytes to make durable.
    pub fn delete(&mut self, key: &[u8]) -> Vec<Span> {
        let Some((place, address)) = self.table.find(key) else {
            return Vec::new();
        };
        self.table.remove(place);
        self.free.push(address);
        vec![self.table.span_of(place)]
    }
}
