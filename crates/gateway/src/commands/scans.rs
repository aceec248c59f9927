//! Iterations over all keys, kept between the pages of `SCAN`.

use std::collections::VecDeque;

use super::backend::Entries;

/// Iterations that have begun and not ended.
#[derive(Default)]
pub struct Scans {
    /// Cursors that were returned, each with the iteration that continues from it. The cursor that was used last is
    /// last.
    under_way: VecDeque<(u64, Entries)>,
}

/// The most iterations that each thread keeps. Each iteration takes 24 bytes for each key of the store.
const SCANS_MAX: usize = 4;
impl Scans {
    /// Takes the iteration that continues from a cursor, if the iteration was kept.
    pub fn take(&mut self, cursor: u64) -> Option<Entries> {
        let index = self
            .under_way
            .iter()
            .position(|(at, _)| *at == cursor && cursor != 0)?;
        self.under_way.remove(index).map(|(_, entries)| entries)
    }

    /// Keeps an iteration under the cursor that was returned; the oldest makes way.
    pub fn keep(&mut self, cursor: u64, entries: Entries) {
        if self.under_way.len() == SCANS_MAX {
            self.under_way.pop_front();
        }
        self.under_way.push_back((cursor, entries));
    }
}
