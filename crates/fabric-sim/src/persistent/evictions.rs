//! Lines that leave the caches by themselves. Where a machine saves its caches, nobody writes lines back, and they reach
//! the medium when another line needs their place.
//!
//! It decides what the medium is counted to have received, never what survives: there, what is in the caches does.

/// Dirty lines that the caches keep: 256 KiB, what the ways of a last-level cache that are open to DDIO keep of one stream
/// of writes.
const LINES: usize = 4096;
/// No line.
const NONE: u64 = u64::MAX;

/// See the module documentation. Takes no room before the first store.
#[derive(Default)]
pub(crate) struct Evictions {
    lines: Vec<u64>,
}

impl Evictions {
    /// A store to `line`. Returns the line that has to leave for it, if one has.
    pub fn store(&mut self, line: u64) -> Option<u64> {
        if self.lines.is_empty() {
            self.lines = vec![NONE; LINES];
        }
        let place = &mut self.lines[line as usize % LINES];
        let before = std::mem::replace(place, line);
        (before != line && before != NONE).then_some(before)
    }

    /// Empties the caches: every line that they had, in order of place.
    pub fn drain(&mut self) -> impl Iterator<Item = u64> + use<> {
        std::mem::take(&mut self.lines)
            .into_iter()
            .filter(|line| *line != NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_stored_to_over_and_over_leaves_once() {
        let mut evictions = Evictions::default();
        let mut left: Vec<u64> = (0..100).filter_map(|_| evictions.store(7)).collect();
        assert_eq!(left, []);
        left.extend(evictions.store(7 + LINES as u64));
        assert_eq!(left, [7]);
        left.extend(evictions.drain());
        assert_eq!(left, [7, 7 + LINES as u64]);
        assert_eq!(evictions.drain().count(), 0);
    }
}
