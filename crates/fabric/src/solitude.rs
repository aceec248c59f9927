//! Whether batches come one at a time, so that the thread may wait for one in the call.
//!
//! ```text
//!   a batch that let others run has ended, and no other was waited for meanwhile    the next IN_CALL_MAX may be
//!   two were waited for at once, or one was late                                    none, until one that let others run ends alone
//! ```
//!
//! Who waits in the call lets nobody else run, so whether there is somebody else shows only when others run, which is every
//! so often.
//!
//! Invariants:
//! - Of `IN_CALL_MAX` + 1 batches in a row one lets others run.
//! - Each batch in a row that is late quadruples how many must let others run before the next may be waited for, so that
//!   little is lost where READs take longer than anybody wants to wait in the call.
//! - While somebody waits for another batch nothing is waited for in the call, so batches of several tasks are on their
//!   way side by side.

use std::cell::Cell;

/// Batches in a row that are waited for in the call. A READ of a card takes some microseconds, so others wait for some ten.
const IN_CALL_MAX: u32 = 16;
/// Most batches that must let others run after one that was late.
const PENANCE_MAX: u32 = 1 << 12;

/// See the module documentation.
#[derive(Default)]
pub(crate) struct Solitude {
    /// Batches that somebody waits for.
    waited: Cell<u32>,
    /// Since nobody waited last, two were waited for at once.
    crowded: Cell<bool>,
    /// Batches that may still be waited for in the call.
    left: Cell<u32>,
    /// Batches that must still let others run because one was late.
    penance: Cell<u32>,
    /// How many there were the last time; 0: the last one that was waited for in the call was not late.
    penance_last: Cell<u32>,
}

impl Solitude {
    /// Somebody begins to wait for a batch, and lets others run.
    pub fn begin(&self) {
        let waited = self.waited.get() + 1;
        self.waited.set(waited);
        if waited > 1 {
            self.crowded.set(true);
        }
    }

    /// Nobody waits for it any more. `gave_way`: others had a turn meanwhile.
    pub fn end(&self, gave_way: bool) {
        let waited = self.waited.get().strict_sub(1);
        self.waited.set(waited);
        if waited > 0 {
            return;
        }
        if self.crowded.replace(false) {
            self.left.set(0);
        } else if gave_way {
            let penance = self.penance.get().saturating_sub(1);
            self.penance.set(penance);
            if penance == 0 {
                self.left.set(IN_CALL_MAX);
            }
        }
    }

    /// Whether a batch could be waited for in the call now.
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.left.get() > 0 && self.waited.get() == 0
    }

    /// Whether a batch may be waited for in the call; it counts.
    #[inline]
    pub fn may_wait(&self) -> bool {
        let alone = self.is_alone();
        if alone {
            self.left.set(self.left.get() - 1);
        }
        alone
    }

    /// One that was waited for in the call was not late.
    #[inline]
    pub fn in_time(&self) {
        self.penance_last.set(0);
    }

    /// One was late. Others may be as slow.
    pub fn in_vain(&self) {
        let penance = (self.penance_last.get() * 4).clamp(1, PENANCE_MAX);
        self.penance_last.set(penance);
        self.penance.set(penance);
        self.left.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One batch, in the call if it may be; whether it was.
    fn one(solitude: &Solitude) -> bool {
        let in_call = solitude.may_wait();
        if !in_call {
            solitude.begin();
            solitude.end(true);
        }
        in_call
    }

    /// Needs the count of those that are left: without it a loop of READs never lets anybody run.
    #[test]
    fn one_of_a_row_lets_others_run() {
        let solitude = Solitude::default();
        assert!(!one(&solitude), "nothing is known yet");
        for _ in 0..3 {
            (0..IN_CALL_MAX).for_each(|_| assert!(one(&solitude)));
            assert!(!one(&solitude));
        }
    }

    /// Needs both looks at the others: without the first a task holds up those that wait, without the second each of several
    /// tasks has the thread for itself.
    #[test]
    fn batches_that_are_on_their_way_side_by_side_are_not_waited_for_in_the_call() {
        let solitude = Solitude::default();
        assert!(!one(&solitude));
        solitude.begin();
        assert!(!solitude.may_wait(), "another one is on its way");
        solitude.begin();
        solitude.end(true);
        solitude.end(true);
        assert!(!one(&solitude), "there may be others again");
        assert!(one(&solitude), "there were none");
    }

    #[test]
    fn a_batch_that_ended_at_once_says_nothing_of_others() {
        let solitude = Solitude::default();
        solitude.begin();
        solitude.end(false);
        assert!(!solitude.may_wait());
    }

    /// Needs the growing penance: without it a READ is waited for in vain each second time where they are slow.
    #[test]
    fn after_one_that_was_late_others_run_and_the_longer_the_more_were_late() {
        let solitude = Solitude::default();
        assert!(!one(&solitude) && one(&solitude));
        for wanted in [1, 4, 16, 64, 256, 1024, 4096, 4096] {
            assert!(solitude.may_wait());
            solitude.in_vain();
            let count = (0..).take_while(|_| !one(&solitude)).count();
            assert_eq!(count, wanted);
        }
        solitude.in_time();
        assert!(solitude.may_wait());
        solitude.in_vain();
        assert!(
            !one(&solitude) && one(&solitude),
            "one that came in time makes good for all"
        );
    }
}
