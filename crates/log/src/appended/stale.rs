//! The entries of earlier uses that lie in a segment when it is posted.

use crate::format::UNIT_SIZE;

/// The places of entries that no longer counted when their segment was posted. Every other whole entry has arrived
/// since, even if the floors settle it before a search finds it. The type takes 8 bytes for each entry.
#[derive(Clone, Debug, Default)]
pub struct Stale(Vec<(u32, u32)>);

impl Stale {
    /// An entry begins with `line` at `unit`, which lies above all units before.
    pub(super) fn push(&mut self, unit: u32, line: &[u8; UNIT_SIZE as usize]) {
        self.0.push((unit, mark_of(line)));
    }

    /// Whether `line` stood at `unit`. An entry that arrives again exactly where it lay before counts as stale.
    pub(super) fn holds(&self, unit: u32, line: &[u8; UNIT_SIZE as usize]) -> bool {
        let at = self.0.binary_search_by_key(&unit, |&(unit, _)| unit);
        at.is_ok_and(|at| self.0[at].1 == mark_of(line))
    }
}

/// A part of the tag, which stands in the first word of entries: two entries seldom have the same.
fn mark_of(line: &[u8; UNIT_SIZE as usize]) -> u32 {
    u32::from_le_bytes(*line.first_chunk().expect("a line has a word"))
}
