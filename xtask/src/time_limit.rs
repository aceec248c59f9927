//! A run whose time is limited. On a slow machine the steps would take longer than the time that the machine lends, and
//! a run that is cut off says nothing. A limited run leaves out the steps that would not end in time, and names them.
//!
//! The estimate of a step is its budget, times the slowness of the steps before. The emulated machine and the bare
//! system go first: other steps show the same store on the machine itself.

use std::time::{Duration, Instant};

/// The limit of a run, and the run so far.
pub struct TimeLimit {
    begin: Instant,
    limit: Option<Duration>,
    /// The budgets of the steps that have ended, which ran one after the other, and the time at which the last of them
    /// ended.
    ended: Duration,
    taken: Duration,
}

impl TimeLimit {
    /// A run that begins now.
    pub fn new(limit: Option<Duration>) -> Self {
        Self {
            begin: Instant::now(),
            limit,
            ended: Duration::ZERO,
            taken: Duration::ZERO,
        }
    }

    /// The time of the run so far.
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Notes the budget of a step that has ended, and beside which no step was begun before.
    pub fn note(&mut self, budget: Duration) {
        self.ended += budget;
        self.taken = self.elapsed();
    }

    /// Whether steps with these budgets, begun now, would end in time.
    pub fn has_room_for(&self, budgets: Duration) -> bool {
        self.end_before(budgets)
            .is_none_or(|end| Instant::now() <= end)
    }

    /// The moment at which steps with these budgets have to begin. `None`: the run has no limit.
    pub fn end_before(&self, budgets: Duration) -> Option<Instant> {
        let slowness = slowness(self.taken, self.ended);
        let needed = budgets.mul_f64(slowness);
        Some(self.begin + self.limit?.saturating_sub(needed))
    }

    /// The reason for which a step is left out.
    pub fn reason(&self) -> String {
        let minutes = self.limit.unwrap_or_default().as_secs() / 60;
        format!("it would not end within the {minutes} minutes of this run")
    }
}

/// How many times their budgets the steps took. Steps that were faster say nothing about those to come.
fn slowness(taken: Duration, budgets: Duration) -> f64 {
    match budgets.is_zero() {
        true => 1.0,
        false => (taken.as_secs_f64() / budgets.as_secs_f64()).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn begun(minutes_ago: u32, ended: u32, limit: Option<u32>) -> TimeLimit {
        TimeLimit {
            begin: Instant::now() - MINUTE * minutes_ago,
            limit: limit.map(|minutes| MINUTE * minutes),
            ended: MINUTE * ended,
            taken: MINUTE * minutes_ago,
        }
    }

    #[test]
    fn a_run_without_a_limit_has_room_for_every_step() {
        assert!(begun(600, 10, None).has_room_for(MINUTE * 600));
    }

    #[test]
    fn steps_that_would_end_behind_the_limit_have_no_room() {
        let run = begun(20, 20, Some(60));
        assert!(run.has_room_for(MINUTE * 39));
        assert!(!run.has_room_for(MINUTE * 41));
        assert!(run.reason().contains("60 minutes"));
    }

    #[test]
    fn steps_are_expected_to_be_as_slow_as_those_before_and_never_faster_than_their_budgets() {
        let slow = begun(20, 10, Some(60));
        assert!(slow.has_room_for(MINUTE * 19));
        assert!(!slow.has_room_for(MINUTE * 21));
        assert!(!begun(5, 50, Some(60)).has_room_for(MINUTE * 56));
    }

    #[test]
    fn time_in_which_steps_run_beside_each_other_makes_later_steps_no_slower() {
        let mut run = begun(30, 0, Some(60));
        run.note(MINUTE * 30);
        run.begin -= MINUTE * 15;
        assert!(run.has_room_for(MINUTE * 14));
    }
}
