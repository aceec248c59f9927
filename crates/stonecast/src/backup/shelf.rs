//! Records whose turn has not come: in a scratch file, with 16 bytes of memory each.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use stonecast_kv::{Entry, Expiry};

/// Keeps records by their versions. The scratch file may be unnamed; nothing in it outlives the backup.
pub(super) struct Shelf {
    file: File,
    end: u64,
    /// The place of each record in the file.
    places: BTreeMap<u64, u64>,
}

/// Bytes before key and value: their sizes, and the expiry.
const START_SIZE: usize = 16;

impl Shelf {
    pub fn new(file: File) -> Self {
        Self {
            file,
            end: 0,
            places: BTreeMap::new(),
        }
    }

    pub fn put(&mut self, entry: &Entry) -> io::Result<()> {
        let sizes = [entry.key.len() as u32, entry.value.len() as u32];
        let mut bytes = Vec::with_capacity(START_SIZE + entry.key.len() + entry.value.len());
        sizes
            .iter()
            .for_each(|size| bytes.extend_from_slice(&size.to_le_bytes()));
        bytes.extend_from_slice(&entry.expires.map_or(0, Expiry::ms).to_le_bytes());
        bytes.extend_from_slice(&entry.key);
        bytes.extend_from_slice(&entry.value);
        self.file.write_all_at(&bytes, self.end)?;
        self.places.insert(entry.version, self.end);
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// The record of `version`, which was put and not taken yet.
    pub fn take(&mut self, version: u64) -> io::Result<Entry> {
        let place = self.places.remove(&version);
        let place = place.expect("a hold asks only for what it gave");
        let mut start = [0; START_SIZE];
        self.file.read_exact_at(&mut start, place)?;
        let size = |at: usize| {
            let bytes = start[at..at + 4].try_into().expect("4 bytes");
            u32::from_le_bytes(bytes) as usize
        };
        let expires = u64::from_le_bytes(start[8..].try_into().expect("8 bytes"));
        let mut key = vec![0; size(0) + size(4)];
        self.file
            .read_exact_at(&mut key, place + START_SIZE as u64)?;
        let value = key.split_off(size(0));
        Ok(Entry {
            key,
            value,
            version,
            expires: Expiry::at_ms(expires),
        })
    }
}
