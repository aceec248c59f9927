//! The time of a shard on a node of a cluster.
//!
//! ```text
//!   leads    asks -> a mark is due -> its record is on all copies -> the time continues up to the mark
//!   copies   the records of marks say which moments have passed at the primary
//! ```
//!
//! A mark is a record of the shard, so every way that brings records to a node brings the marks: entries, the history
//! of an heir, a recovery. A page for a joiner names the highest mark. An heir begins at the highest mark that the heir
//! knows, or at its own clock if that is later: no later time was ever reported. An heir reports no time before a mark
//! of its own term is on all copies, since the marks of earlier terms may be nowhere else.
//!
//! Marks lie [`GRID_MS`] apart, so the marks of several shards are the same, and the header of the pool changes once
//! for all of them.

use std::cell::Cell;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_fabric::Runtime;

use super::flow::RunningTime;

/// Time by which a mark is raised ahead. An heir may be ahead of its predecessor by that much and [`GRID_MS`], so keys
/// expire that much too early.
const STEP_MS: u64 = 1000;
/// Marks are multiples of this time.
const GRID_MS: u64 = STEP_MS / 2;
/// Pause before the next attempt to stamp a mark.
const AGAIN_NS: Nanoseconds = 5_000_000;

/// The part of the time that a mark says has passed: the format of the log has this number, since copies judge by it.
pub(super) const fn passed_at(mark_ms: u64) -> u64 {
    mark_ms.saturating_sub(STEP_MS + GRID_MS)
}

/// The time of one shard.
#[derive(Default)]
pub(super) struct ShardTime {
    /// The highest mark that a predecessor may have told.
    least_ms: Cell<u64>,
    /// The time that has passed at the primary, as records on all copies say, or as this node told while it led the
    /// shard.
    passed_ms: Cell<u64>,
    led: Option<LedTime>,
}

/// The time of a shard that this node leads.
struct LedTime {
    flow: RunningTime,
    /// The mark that is on all copies; 0: none of this term.
    settled_ms: Cell<u64>,
    /// The highest mark that was stamped in this term; 0: none.
    stamped_ms: Cell<u64>,
    /// Whether a mark has to be stamped, and the time of the last attempt.
    is_due: Cell<bool>,
    tried_at: Cell<Option<Nanoseconds>>,
    /// The latest moment of the keys that were removed in this term.
    removed_ms: Cell<u64>,
}

impl ShardTime {
    /// A shard whose predecessors may have told the time up to `least_ms`.
    pub fn after(least_ms: u64) -> Self {
        Self {
            least_ms: Cell::new(least_ms),
            ..Self::default()
        }
    }

    /// The highest mark that a predecessor may have told.
    pub fn least_ms(&self) -> u64 {
        self.least_ms.get()
    }

    /// Notes a mark that is on its way to all copies, or there.
    pub fn raise_least(&self, mark_ms: u64) {
        self.least_ms.set(self.least_ms.get().max(mark_ms));
    }

    /// Notes a mark whose record is on all copies.
    pub fn note_settled(&self, mark_ms: u64) {
        self.raise_least(mark_ms);
        let passed = match mutant!(CopyAhead) {
            true => mark_ms,
            false => passed_at(mark_ms),
        };
        self.passed_ms.set(self.passed_ms.get().max(passed));
        if let Some(led) = &self.led {
            led.settled_ms.set(led.settled_ms.get().max(mark_ms));
        }
    }

    /// Begins to lead the shard.
    pub fn lead(&mut self, runtime: &dyn Runtime) {
        let least_ms = match mutant!(HeirForgetsMark) {
            true => 0,
            false => self.least_ms.get(),
        };
        let settled = match mutant!(HeirTellsAtOnce) {
            true => self.least_ms.get(),
            false => 0,
        };
        self.led = Some(LedTime {
            flow: RunningTime::from(least_ms, runtime),
            settled_ms: Cell::new(settled),
            stamped_ms: Cell::new(settled),
            is_due: Cell::new(false),
            tried_at: Cell::new(None),
            removed_ms: Cell::new(0),
        });
    }

    /// Notes that this node no longer leads the shard. The time that has passed stays: keys were removed by that time,
    /// and the cleaner keeps their records as tombstones only as long as they have expired.
    pub fn resign(&mut self, runtime: &dyn Runtime) {
        if !mutant!(PassedForgotten) {
            self.passed_ms.set(self.now_ms(runtime));
        }
        self.led = None;
    }

    /// Whether this node leads the shard.
    pub fn is_led(&self) -> bool {
        self.led.is_some()
    }

    /// The time that has permanently passed: a key that has expired by then is absent on every node from now on.
    pub fn now_ms(&self, runtime: &dyn Runtime) -> u64 {
        let passed = self.passed_ms.get();
        match &self.led {
            Some(led) => passed.max(led.flow.advance(runtime).min(led.bound_ms())),
            None => passed,
        }
    }

    /// The time without regard to a mark.
    pub fn running_ms(&self, runtime: &dyn Runtime) -> u64 {
        match &self.led {
            Some(led) => led.flow.advance(runtime),
            None => self.passed_ms.get(),
        }
    }

    /// Whether nothing can be done before a mark is on all copies.
    pub fn awaits_copies(&self, runtime: &dyn Runtime) -> bool {
        let led = self.led.as_ref();
        led.is_some_and(|led| led.awaits_copies() || led.was_tried(runtime))
    }

    /// The time and the mark that it does not exceed. `None`: the mark that is needed is not on all copies yet. Makes a
    /// mark due if the time comes near the last one.
    pub fn ask(&self, runtime: &dyn Runtime) -> Option<(u64, u64)> {
        let led = self.led.as_ref()?;
        let time = led.flow.advance(runtime);
        if led.stamped_ms.get() < time + STEP_MS / 2 {
            led.is_due.set(true);
        }
        (time < led.bound_ms()).then_some((time, led.bound_ms()))
    }

    /// The mark that is to be stamped now, if one is due.
    pub fn take_due(&self, runtime: &dyn Runtime) -> Option<u64> {
        let led = self.led.as_ref()?;
        let untold = passed_at(led.stamped_ms.get()) < led.removed_ms.get();
        if !(led.is_due.get() || untold) || led.was_tried(runtime) {
            return None;
        }
        let time = led.flow.advance(runtime);
        if !led.is_due.take() && time < led.removed_ms.get() + GRID_MS {
            return None;
        }
        led.tried_at.set(Some(runtime.now()));
        Some((time + STEP_MS).next_multiple_of(GRID_MS))
    }

    /// Notes that the record of a mark was stamped.
    pub fn note_stamped(&self, mark_ms: u64) {
        self.raise_least(mark_ms);
        if let Some(led) = &self.led {
            led.stamped_ms.set(mark_ms);
            led.tried_at.set(None);
        }
    }

    /// Notes that a key that expired at `moment_ms` was removed here: a mark tells the copies, even if no request asks
    /// for a mark.
    pub fn note_removed(&self, moment_ms: u64) {
        if let Some(led) = self.led.as_ref().filter(|_| !mutant!(RemovalUntold)) {
            led.removed_ms.set(led.removed_ms.get().max(moment_ms));
        }
    }
}

impl LedTime {
    fn awaits_copies(&self) -> bool {
        self.stamped_ms.get() > self.settled_ms.get()
    }

    /// Whether the last attempt to stamp a mark was recent, and failed.
    fn was_tried(&self, runtime: &dyn Runtime) -> bool {
        let tried_at = self.tried_at.get();
        tried_at.is_some_and(|at| runtime.now() < at + AGAIN_NS)
    }

    /// The mark up to which the time may be told.
    fn bound_ms(&self) -> u64 {
        match mutant!(TimeBeforeCopies) {
            true => self.stamped_ms.get(),
            false => self.settled_ms.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::Waker;

    use stonecast_fabric::Timer;

    use super::*;
    use crate::server::time::flow::NS_PER_MS;

    /// Clocks that stand until the test moves them.
    #[derive(Default)]
    struct Clocks {
        ms: Cell<u64>,
    }

    impl Runtime for Clocks {
        fn now(&self) -> Nanoseconds {
            self.ms.get() * NS_PER_MS
        }

        fn wall_clock(&self) -> Nanoseconds {
            self.now()
        }

        fn spawn(&self, _: Pin<Box<dyn Future<Output = ()>>>) {
            unreachable!("a time has no task")
        }

        fn wake_at(&self, _: Nanoseconds, _: &Waker) -> Timer {
            unreachable!("a time waits for nothing")
        }

        fn cancel(&self, _: Timer) {}
    }

    /// A shard that is led from `ms` on, whose predecessors may have told the time up to `least_ms`.
    fn led(clocks: &Clocks, least_ms: u64, ms: u64) -> ShardTime {
        clocks.ms.set(ms);
        let mut time = ShardTime::after(least_ms);
        time.lead(clocks);
        time
    }

    /// Needs the wait for all copies. The seeded bug `TimeBeforeCopies`.
    #[test]
    fn a_primary_tells_the_time_once_its_mark_is_on_all_copies() {
        let clocks = Clocks::default();
        let time = led(&clocks, 0, 20_100);
        assert_eq!(time.ask(&clocks), None);
        let mark = time.take_due(&clocks).expect("somebody has asked");
        assert_eq!(mark, 21_500);
        time.note_stamped(mark);
        assert_eq!((time.ask(&clocks), time.now_ms(&clocks)), (None, 0));
        time.note_settled(mark);
        assert_eq!(time.ask(&clocks), Some((20_100, 21_500)));
        assert_eq!(time.now_ms(&clocks), 20_100);
        clocks.ms.set(30_000);
        assert_eq!(time.ask(&clocks), None, "it does not exceed the mark");
        assert_eq!(time.now_ms(&clocks), 21_500);
    }

    /// The marks that an heir knows may be on no other copy. The seeded bug `HeirTellsAtOnce`.
    #[test]
    fn an_heir_tells_no_time_by_the_marks_of_its_predecessors() {
        let clocks = Clocks::default();
        let time = led(&clocks, 90_000, 20_000);
        assert_eq!((time.ask(&clocks), time.now_ms(&clocks)), (None, 0));
        assert_eq!(time.running_ms(&clocks), 90_000);
        time.note_settled(91_000);
        assert_eq!(time.ask(&clocks), Some((90_000, 91_000)));
    }

    /// Needs the distance between mark and time: a copy would remove a key that its primary still gives. The seeded bug
    /// `CopyAhead`.
    #[test]
    fn nothing_has_passed_at_a_copy_that_had_not_passed_at_the_primary() {
        let clocks = Clocks::default();
        for ms in 20_000..20_600 {
            let primary = led(&clocks, 0, ms);
            primary.ask(&clocks);
            let mark = primary.take_due(&clocks).expect("somebody has asked");
            let copy = ShardTime::after(0);
            copy.note_settled(mark);
            let passed = copy.now_ms(&clocks);
            assert!(passed <= ms && passed + STEP_MS >= ms, "{passed} at {ms}");
        }
    }

    /// Needs the time that stays at the end of a term: the cleaner would drop the record of a key that was removed, and
    /// an older value of the key would come back at the next start. The seeded bug `PassedForgotten`.
    #[test]
    fn what_has_passed_at_a_primary_has_passed_when_it_has_resigned() {
        let clocks = Clocks::default();
        let mut time = led(&clocks, 0, 20_000);
        time.note_stamped(21_000);
        time.note_settled(21_000);
        clocks.ms.set(20_300);
        assert_eq!(time.now_ms(&clocks), 20_300);
        time.resign(&clocks);
        clocks.ms.set(20_900);
        assert_eq!(time.now_ms(&clocks), 20_300);
    }

    /// Needs the sum that saturates: the time would go back to 1970.
    #[test]
    fn a_time_at_the_end_of_all_clocks_goes_back_no_faster_than_any_other() {
        let clocks = Clocks::default();
        let time = led(&clocks, u64::MAX, 20_000);
        clocks.ms.set(30_000);
        assert!(time.running_ms(&clocks) >= u64::MAX / NS_PER_MS - 5);
    }

    /// Needs the note of removals: copies would keep the keys until a request asks for the time. The seeded bug
    /// `RemovalUntold`.
    #[test]
    fn copies_learn_that_a_key_was_removed_though_nobody_asks() {
        let clocks = Clocks::default();
        let time = led(&clocks, 0, 20_000);
        time.note_stamped(21_000);
        time.note_settled(21_000);
        time.note_removed(20_200);
        assert_eq!(time.take_due(&clocks), None);
        clocks.ms.set(20_700);
        let mark = time.take_due(&clocks).expect("a key was removed");
        assert!(passed_at(mark) >= 20_200);
        assert_eq!(time.take_due(&clocks), None, "it was tried a moment ago");
        time.note_stamped(mark);
        clocks.ms.set(29_000);
        assert_eq!(time.take_due(&clocks), None, "the copies know");
    }

    #[cfg(feature = "mutants")]
    #[test]
    fn every_seeded_bug_of_the_time_of_a_shard_is_found() {
        use stonecast_base::hunts::by_stories;
        use stonecast_base::mutants::Mutant;

        let stories = [
            (
                Mutant::TimeBeforeCopies,
                a_primary_tells_the_time_once_its_mark_is_on_all_copies as fn(),
            ),
            (
                Mutant::HeirTellsAtOnce,
                an_heir_tells_no_time_by_the_marks_of_its_predecessors,
            ),
            (
                Mutant::CopyAhead,
                nothing_has_passed_at_a_copy_that_had_not_passed_at_the_primary,
            ),
            (
                Mutant::PassedForgotten,
                what_has_passed_at_a_primary_has_passed_when_it_has_resigned,
            ),
            (
                Mutant::RemovalUntold,
                copies_learn_that_a_key_was_removed_though_nobody_asks,
            ),
        ];
        by_stories("kv/time", &stories);
    }
}
