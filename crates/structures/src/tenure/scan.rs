//! Reads the log of a tenure in order.

use stonecast_base::mutant;
use stonecast_media::Region;

use super::area::LogArea;
use crate::wire::{Chain, HEADER_SIZE, LogKey, Record, RecordFault};

/// A place between two records of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Position after the record before.
    pub position: u64,
    /// The chain that the record at this position must continue.
    pub chain: Chain,
}

/// Reads records from a mark on. Each record is copied before it is examined, because its writer may change it at any
/// moment.
#[derive(Clone, Debug)]
pub struct LogScan {
    key: LogKey,
    area: LogArea,
    at: Mark,
}

impl LogScan {
    /// Reads the log in `area` from `at` on.
    pub fn new(key: LogKey, area: LogArea, at: Mark) -> Self {
        Self { key, area, at }
    }

    /// The end of the records that were read.
    pub fn at(&self) -> &Mark {
        &self.at
    }

    /// The next record, if it stands below `limit`. The scan moves after a record that checks, and otherwise keeps its
    /// place.
    ///
    /// # Errors
    /// [`RecordFault`]: the log ends here, or the next record has not arrived yet.
    pub fn next(&mut self, region: &dyn Region, limit: u64) -> Result<Record, RecordFault> {
        let position = self.at.position;
        let room = limit.saturating_sub(position);
        if room < HEADER_SIZE as u64 {
            let size = HEADER_SIZE as u64;
            return Err(RecordFault::Room { size, room });
        }
        let mut header = [0; HEADER_SIZE];
        self.area.read(region, position, &mut header);
        let size = self.at.chain.size_of(&header, room)?;
        let mut bytes = vec![0; size as usize];
        self.area.read(region, position, &mut bytes);
        let mut record = self.at.chain.check(self.key, &bytes, position)?;
        if mutant!(RecordReadAgain) {
            self.area.read(region, position, &mut bytes);
            record.body = bytes[HEADER_SIZE..HEADER_SIZE + record.body.len()].to_vec();
        }
        self.at.position = record.end();
        Ok(record)
    }
}
