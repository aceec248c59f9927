//! The end of a log, as the owner of the tenure appends to it.

use smallvec::SmallVec;
use stonecast_base::Span;

use super::area::LogArea;
use super::scan::Mark;
use crate::wire::{Chain, Kind, LogKey, record_size};

/// A record that has its place in the log. The caller writes the bytes there, and then makes them durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// The bytes of the record.
    pub bytes: Vec<u8>,
    /// The places of the bytes in the pool, one after the other.
    pub pieces: SmallVec<[Span; 2]>,
    /// Log sequence number of the record.
    pub lsn: u64,
    /// Position after the record.
    pub end: u64,
}

/// The log has no room for the record until earlier records are trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{size} bytes of records, and {room} bytes of the log are free")]
pub struct LogFull {
    /// Bytes of the record, and the bytes that have to stay free behind it.
    pub size: u64,
    /// Bytes that are free.
    pub room: u64,
}

/// Makes the records of a tenure, in order.
#[derive(Clone, Debug)]
pub struct TenureWriter {
    key: LogKey,
    area: LogArea,
    end: Mark,
    trimmed: u64,
}

impl TenureWriter {
    /// Appends behind `end` to the log in `area`, whose records below `trimmed` are not needed.
    pub fn new(key: LogKey, area: LogArea, end: Mark, trimmed: u64) -> Self {
        assert!(trimmed <= end.position && end.position - trimmed <= area.size);
        Self {
            key,
            area,
            end,
            trimmed,
        }
    }

    /// The end of the log.
    pub fn end(&self) -> &Mark {
        &self.end
    }

    /// The chain of tags and numbers that the next record continues.
    pub fn chain(&self) -> &Chain {
        &self.end.chain
    }

    /// Bytes that are free.
    pub fn room(&self) -> u64 {
        self.area.size - (self.end.position - self.trimmed)
    }

    /// Notes that records below this position are no longer needed. A lower position than before changes nothing.
    pub fn note_trimmed(&mut self, position: u64) {
        self.trimmed = self.trimmed.max(position).min(self.end.position);
    }

    /// Gives the next record its place. `reserved` bytes stay free behind it.
    ///
    /// # Errors
    /// [`LogFull`]: nothing was changed.
    pub fn append(&mut self, kind: Kind, body: &[u8], reserved: u64) -> Result<Append, LogFull> {
        let (size, room) = (record_size(body.len()), self.room());
        if size + reserved > room {
            let size = size + reserved;
            return Err(LogFull { size, room });
        }
        let lsn = self.end.chain.lsn;
        let bytes = self.end.chain.append(self.key, kind, body);
        let pieces = self.area.pieces(self.end.position, size).collect();
        self.end.position += size;
        Ok(Append {
            bytes,
            pieces,
            lsn,
            end: self.end.position,
        })
    }
}
