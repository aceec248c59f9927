//! The order in which a cache forgets.

/// A clock: a hand goes round over slots, and takes the first slot without a request since the hand last passed it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    hand: usize,
}

impl Clock {
    /// The index of the slot to forget, of `count`. The last slot takes its place (`swap_remove`). `keeps` returns
    /// whether a slot has to stay or was requested, and clears the mark of the request. `None`: all slots stay.
    pub fn next(&mut self, count: usize, mut keeps: impl FnMut(usize) -> bool) -> Option<usize> {
        for _ in 0..2 * count {
            let index = self.hand % count;
            // The slot that takes the place is a new slot.
            self.hand = index + 1;
            if !keeps(index) {
                return Some(index);
            }
        }
        None
    }
}
