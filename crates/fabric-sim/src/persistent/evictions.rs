//! Lines that leave the caches by themselves. If a machine saves its caches, no code writes lines back, and they reach
//! the medium when another line needs their place.
//!
//! This model decides the bytes that the medium is counted to have received, never what survives: on such a machine the
//! caches survive.

/// Dirty lines that the caches keep: 256 KiB, the share that the ways of a last-level cache open to DDIO keep of one
/// stream of writes.
const LINES: usize = 4096;
/// No line.
const NONE: u64 = u64::MAX;

/// Takes no room before the first store.
#[derive(Default)]
pub(crate) struct Evictions {
    lines: Vec<u64>,
}

impl Evictions {
    /// Stores to `line`. Returns the line that has to leave to make room, if there is one.
    pub fn store(&mut self, line: u64) -> Option<u64> {
        if self.lines.is_empty() {
            self.lines = vec![NONE; LINES];
        }
        let place = &mut self.lines[line as usize % LINES];
        let before = std::mem::replace(place, line);
        (before != line && before != NONE).then_some(before)
    }

    /// Empties the caches, and returns every line that they had, in the order of places.
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
    fn a_line_that_is_stored_to_repeatedly_leaves_once() {
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
