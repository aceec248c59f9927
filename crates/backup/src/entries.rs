//! Entries of replication, in the form in which the log of appends searches for them.

use stonecast_log::{EntryFacts, EntryFormat};
use stonecast_replication::{AppendKey, HEADER_SIZE, Header, Kind};

/// Recognizes the entries made for one pool, while the pool's segments are searched or turned.
pub struct Entries(AppendKey);

impl Entries {
    /// Entries of the pool that has `key`.
    pub fn of(key: AppendKey) -> Self {
        Self(key)
    }

    /// The header of an entry. `None`: these bytes are no entry of the pool; the memory may have changed since a search
    /// found an entry there.
    pub fn header(&self, entry: &[u8]) -> Option<Header> {
        Header::read(&self.0, entry.first_chunk()?).ok()
    }
}

impl EntryFormat for Entries {
    fn header(&self, line: &[u8; HEADER_SIZE]) -> Option<EntryFacts> {
        let header = Header::read(&self.0, line).ok()?;
        let entry = header.entry;
        Some(EntryFacts {
            shard: entry.shard,
            term: entry.term,
            version: entry.version,
            is_mark: entry.kind == Kind::Horizon,
            size: (HEADER_SIZE + header.body_size) as u32,
        })
    }

    fn is_whole(&self, entry: &[u8]) -> bool {
        let line = entry.first_chunk().expect("an entry has a header");
        let header = Header::read(&self.0, line);
        header.is_ok_and(|header| header.check_body(&self.0, &entry[HEADER_SIZE..]).is_ok())
    }
}
