//! The order in which a cache forgets.

/// A clock: a hand goes round over slots, and takes the first one that nobody has asked for since the hand passed it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    hand: usize,
}

impl Clock {
    /// The index of the slot to forget, of `count`. The last slot is to take its place (`swap_remove`). `keeps` says
    /// whether a slot was asked for, and forgets that it was, or whether it has to stay. `None`: all slots stay.
    pub fn next(&mut self, count: usize, mut keeps: impl FnMut(usize) -> bool) -> Option<usize> {
        for _ in 0..2 * count {
            let index = self.hand % count;
            // The slot that takes its place is a new one.
            self.hand = index + 1;
            if !keeps(index) {
                return Some(index);
            }
        }
        None
    }
}
