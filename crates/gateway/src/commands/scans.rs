//! Iterations over all keys, kept between the pages of `SCAN`.

use std::collections::VecDeque;

use stonecast_kv::Entries;

/// Iterations that have begun and not ended.
#[derive(Default)]
pub struct Scans {
    /// The cursor that was returned, and the iteration behind it. The one used last is last.
    under_way: VecDeque<(u64, Entries)>,
}

/// Iterations that each thread keeps. Each has 24 bytes for each key of the store.
const SCANS_MAX: usize = 4;
impl Scans {
    /// Takes the iteration behind a cursor, if it was kept.
    pub fn take(&mut self, cursor: u64) -> Option<Entries> {
        let index = self
            .under_way
            .iter()
            .position(|(at, _)| *at == cursor && cursor != 0)?;
        self.under_way.remove(index).map(|(_, entries)| entries)
    }

    /// Keeps an iteration behind the cursor that was returned; the oldest makes way.
    pub fn keep(&mut self, cursor: u64, entries: Entries) {
        if self.under_way.len() == SCANS_MAX {
            self.under_way.pop_front();
        }
        self.under_way.push_back((cursor, entries));
    }
}
