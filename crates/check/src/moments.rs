//! The moments of a run at which the states that a power cut would leave are examined.

use rand::RngExt as _;
use stonecast_base::Random;

/// One moment in this many is examined, unless all are.
const MOMENTS: u32 = 20;

/// Chooses the moments at which power-cut states are examined.
pub(crate) struct Moments {
    every: bool,
    /// Stores and answers at the last look.
    seen: (u64, u64),
}

impl Moments {
    /// All moments, or a draw of them.
    pub fn new(every: bool) -> Self {
        let seen = (0, 0);
        Self { every, seen }
    }

    /// Returns whether to examine the moment after this number of stores and answers. A moment without a new store or
    /// answer has the same states as the one before.
    pub fn is_due(&mut self, stores_and_answers: (u64, u64), random: &mut Random) -> bool {
        let is_new = std::mem::replace(&mut self.seen, stores_and_answers) != stores_and_answers;
        is_new && (self.every || random.random_range(0..MOMENTS) == 0)
    }
}
