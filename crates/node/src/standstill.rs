//! The time for which a shard waits for its copies. A node that stood still counts that time as one part of the
//! patience.

use stonecast_base::Nanoseconds;

use crate::own_commits::PATIENCE_PARTS;

/// The time for which a shard has waited for copies without progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standstill {
    progress: u64,
    /// Parts of the patience that have passed since the last progress.
    parts: u64,
    /// The time at which the last of these parts began.
    counted_at: Nanoseconds,
}

impl Standstill {
    /// Notes at `now` that the shard waits, with a `progress` that is another number when the wait has made some.
    /// Returns whether there was none for `patience_ns`.
    pub fn lasts(&mut self, progress: u64, now: Nanoseconds, patience_ns: Nanoseconds) -> bool {
        if progress != self.progress || self.counted_at == 0 {
            (self.progress, self.parts, self.counted_at) = (progress, 0, now);
        }
        if now >= self.counted_at + patience_ns / PATIENCE_PARTS {
            self.parts += 1;
            self.counted_at = now;
        }
        self.parts > PATIENCE_PARTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs the parts: a node that stood still itself would take its copies for full.
    #[test]
    fn a_node_that_stood_still_waits_for_its_copies_a_while_longer() {
        let mut standstill = Standstill::default();
        assert!(!standstill.lasts(7, 100, 800));
        assert!(!standstill.lasts(7, 1_000_000, 800), "one part");
        let ends = (1..20).position(|part| standstill.lasts(7, 1_000_000 + part * 100, 800));
        assert_eq!(ends, Some(7));
        assert!(!standstill.lasts(8, 2_000_000, 800), "a write was done");
    }
}
