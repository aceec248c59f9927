//! Detects whether batches come one at a time, so that the thread may wait for one in the call.
//!
//! ```text
//!   a batch that let others run has ended, and no other was waited for meanwhile    the next IN_CALL_MAX may be
//!   two were waited for at once, or one was late                                    none, until one that let others run ends alone
//! ```
//!
//! A thread that waits in the call lets no other task run. So the existence of other tasks shows only when they run,
//! which happens every so often.
//!
//! Invariants:
//! - One of `IN_CALL_MAX` + 1 batches in a row lets others run.
//! - Each late batch in a row quadruples the number of batches that must let others run before the next wait in the
//!   call, so that little is lost if READs take longer than a wait in the call is worth.
//! - While a task waits for another batch, no thread waits in the call, so batches of several tasks run concurrently.

use std::cell::Cell;

/// Batches in a row that are awaited in the call. A READ of a card takes some microseconds, so others wait for a few
/// dozen.
const IN_CALL_MAX: u32 = 16;
/// The most batches that must let others run after a late batch.
const PENANCE_MAX: u32 = 1 << 12;

/// Detects whether batches come one at a time.
#[derive(Default)]
pub(crate) struct Solitude {
    /// Batches that a task waits for.
    waited: Cell<u32>,
    /// Whether two batches were awaited at once since the last moment without any.
    crowded: Cell<bool>,
    /// Batches that may still be awaited in the call.
    left: Cell<u32>,
    /// Batches that must still let others run because one was late.
    penance: Cell<u32>,
    /// The penance imposed last; 0 if the last batch awaited in the call was in time.
    penance_last: Cell<u32>,
}

impl Solitude {
    /// Notes that a task begins to wait for a batch and lets others run.
    pub fn begin(&self) {
        let waited = self.waited.get() + 1;
        self.waited.set(waited);
        if waited > 1 {
            self.crowded.set(true);
        }
    }

    /// Notes that the wait for the batch has ended. `gave_way`: whether other tasks ran meanwhile.
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

    /// Whether a batch could be awaited in the call at this moment.
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.left.get() > 0 && self.waited.get() == 0
    }

    /// Whether a batch may be awaited in the call; if so, the batch counts.
    #[inline]
    pub fn may_wait(&self) -> bool {
        let alone = self.is_alone();
        if alone {
            self.left.set(self.left.get() - 1);
        }
        alone
    }

    /// Notes that a batch that was awaited in the call was in time.
    #[inline]
    pub fn in_time(&self) {
        self.penance_last.set(0);
    }

    /// Notes that a batch was late. Others may be as slow.
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

    /// One batch, in the call if allowed; returns whether it was.
    fn one(solitude: &Solitude) -> bool {
        let in_call = solitude.may_wait();
        if !in_call {
            solitude.begin();
            solitude.end(true);
        }
        in_call
    }

    /// Needs the count of the batches left: without it a loop of READs never lets other tasks run.
    #[test]
    fn one_batch_of_a_row_lets_others_run() {
        let solitude = Solitude::default();
        assert!(!one(&solitude), "nothing is known yet");
        for _ in 0..3 {
            (0..IN_CALL_MAX).for_each(|_| assert!(one(&solitude)));
            assert!(!one(&solitude));
        }
    }

    /// Needs both checks for other tasks: without the first a task delays the waiting ones, without the second each of
    /// several tasks has the thread to itself.
    #[test]
    fn concurrent_batches_are_not_awaited_in_the_call() {
        let solitude = Solitude::default();
        assert!(!one(&solitude));
        solitude.begin();
        assert!(!solitude.may_wait(), "another batch is outstanding");
        solitude.begin();
        solitude.end(true);
        solitude.end(true);
        assert!(!one(&solitude), "other batches may come again");
        assert!(one(&solitude), "there were no other batches");
    }

    #[test]
    fn a_batch_that_ended_at_once_proves_nothing_about_others() {
        let solitude = Solitude::default();
        solitude.begin();
        solitude.end(false);
        assert!(!solitude.may_wait());
    }

    /// Needs the growing penance: without it every second READ is awaited in the call and comes late if READs are slow.
    #[test]
    fn after_a_late_batch_others_run_and_longer_after_each_further_one() {
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
            "one batch in time clears the penance"
        );
    }
}
