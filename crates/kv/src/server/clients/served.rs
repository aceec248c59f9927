//! The server's counters for the clients of each path.

use stonecast_log::{Kind, record_size};

use super::sessions::Sessions;
use crate::metrics::{ClientPath, PathMetrics, Report};
use crate::wire::Verdict;

/// The server's counters for the clients of each path.
#[derive(Default)]
pub(in crate::server) struct Served {
    paths: [PathMetrics; ClientPath::ALL.len()],
    /// Batches answered.
    pub batches: u64,
}

impl Served {
    /// The counts, with the number of connected clients.
    pub fn paths(&self, sessions: &Sessions) -> [PathMetrics; ClientPath::ALL.len()] {
        let mut paths = self.paths;
        sessions
            .iter()
            .for_each(|session| paths[session.path as usize].clients += 1);
        paths
    }

    /// Adds a client's report of calls that did not pass the server.
    pub fn take_report(&mut self, path: ClientPath, report: &Report) {
        self.paths[path as usize].take_report(report);
    }

    /// Counts an answered write of `kind`, with the given bytes of key and value.
    pub fn count(
        &mut self,
        path: ClientPath,
        (kind, verdict): (Kind, Verdict),
        (key_size, value_size): (usize, usize),
    ) {
        let path = &mut self.paths[path as usize];
        match (verdict, kind) {
            (Verdict::Done, Kind::Put) => path.puts += 1,
            (Verdict::Done, Kind::Delete) => path.deletes += 1,
            // A busy write is not decided yet.
            (Verdict::Busy, _) => {}
            _ => path.refused += 1,
        }
        if verdict == Verdict::Done {
            path.written_bytes += record_size(key_size, value_size);
        }
    }

    /// Counts a record of `size` bytes that a client published.
    pub fn count_published(&mut self, path: ClientPath, size: u64) {
        let path = &mut self.paths[path as usize];
        path.puts += 1;
        path.written_bytes += size;
    }

    /// Uncounts a publication that a client announced and took back.
    pub fn count_taken_back(&mut self, path: ClientPath, size: u64) {
        let path = &mut self.paths[path as usize];
        path.puts = path.puts.saturating_sub(1);
        path.written_bytes = path.written_bytes.saturating_sub(size);
    }
}
