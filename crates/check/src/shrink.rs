//! Searches for the shortest schedule that fails in the same way.
//!
//! ```text
//!   every moment            finds the earliest power cut that fails
//!   without fault F         for each that was hit, as long as it still fails
//!   clients, lanes,         one, two, four, ... until it fails, then between the last two
//!   operations, keys
//!   again, until nothing is gained or the tries are used up
//! ```
//!
//! A smaller run is another run with other draws. The smaller run counts if the same oracle is violated.

use crate::adjustment::Adjustment;
use crate::report::Report;

/// Runs that a search may make.
pub const TRIES_MAX: u32 = 400;

/// The smallest failing run that was found.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The difference from the seed's choices.
    pub adjustment: Adjustment,
    /// The report of the run.
    pub report: Report,
    /// Runs that the search made.
    pub tries: u32,
}

/// Shrinks the failing run `report`, made with `adjustment`, as far as `run` still fails.
pub fn shrink(
    adjustment: &Adjustment,
    report: &Report,
    run: impl FnMut(&Adjustment) -> Report,
) -> Shrunk {
    let best = Shrunk {
        adjustment: adjustment.clone(),
        report: report.clone(),
        tries: 0,
    };
    let mut search = Search { best, run };
    if !search.oracle().is_empty() {
        search.search();
    }
    search.best
}

struct Search<R> {
    best: Shrunk,
    run: R,
}

impl<R: FnMut(&Adjustment) -> Report> Search<R> {
    fn oracle(&self) -> &'static str {
        self.best
            .report
            .violations
            .first()
            .map_or("", |violation| violation.oracle)
    }

    fn search(&mut self) {
        loop {
            let tries = self.best.tries;
            let before = self.best.adjustment.clone();
            self.leave_faults_out();
            self.lower(Size::CLIENTS);
            self.lower(Size::LANES);
            self.lower(Size::OPERATIONS);
            self.lower(Size::KEYS);
            if !self.best.adjustment.every_moment {
                self.try_out(|adjustment| adjustment.every_moment = true);
            }
            if self.best.adjustment == before
                || self.best.tries >= TRIES_MAX
                || self.best.tries == tries
            {
                return;
            }
        }
    }

    /// Runs with a changed adjustment, and keeps it if it fails in the same way.
    fn try_out(&mut self, change: impl FnOnce(&mut Adjustment)) -> bool {
        if self.best.tries >= TRIES_MAX {
            return false;
        }
        self.best.tries += 1;
        let mut adjustment = self.best.adjustment.clone();
        change(&mut adjustment);
        let report = (self.run)(&adjustment);
        let same = report
            .violations
            .first()
            .is_some_and(|violation| violation.oracle == self.oracle());
        if same {
            (self.best.adjustment, self.best.report) = (adjustment, report);
        }
        same
    }

    fn leave_faults_out(&mut self) {
        let hit = self
            .best
            .report
            .faults_hit
            .iter()
            .filter(|(_, count)| **count > 0);
        let names: Vec<&'static str> = hit.map(|(name, _)| *name).collect();
        // Most failures need few faults: try first without all of them.
        if names.len() > 1 && self.try_out(|adjustment| adjustment.without.extend(&names)) {
            return;
        }
        for name in names {
            self.try_out(|adjustment| _ = adjustment.without.insert(name));
        }
    }

    /// Lowers one size: doubles from one until the run fails, then halves the distance to the last
    /// size that did not fail.
    fn lower(&mut self, size: Size) {
        let drawn = (size.of_report)(&self.best.report);
        let present = (size.limit)(&self.best.adjustment).map_or(drawn, |limit| limit.min(drawn));
        let (mut low, mut high, mut trial) = (0, present, 1);
        while trial < present {
            if self.try_out(|adjustment| (size.set)(adjustment, trial)) {
                high = trial;
                break;
            }
            low = trial;
            trial *= 2;
        }
        while high.saturating_sub(low) > 1 {
            let middle = low + (high - low) / 2;
            if self.try_out(|adjustment| (size.set)(adjustment, middle)) {
                high = middle;
            } else {
                low = middle;
            }
        }
    }
}

/// A size that can be lowered.
#[derive(Clone, Copy)]
struct Size {
    of_report: fn(&Report) -> u64,
    limit: fn(&Adjustment) -> Option<u64>,
    set: fn(&mut Adjustment, u64),
}

impl Size {
    const CLIENTS: Self = Self {
        of_report: |report| report.sizes.clients.into(),
        limit: |adjustment| adjustment.clients.map(u64::from),
        set: |adjustment, to| adjustment.clients = Some(to as u32),
    };
    const LANES: Self = Self {
        of_report: |report| report.sizes.lanes.into(),
        limit: |adjustment| adjustment.lanes.map(u64::from),
        set: |adjustment, to| adjustment.lanes = Some(to as u32),
    };
    const KEYS: Self = Self {
        of_report: |report| report.sizes.keys.into(),
        limit: |adjustment| adjustment.keys.map(u64::from),
        set: |adjustment, to| adjustment.keys = Some(to as u32),
    };
    const OPERATIONS: Self = Self {
        of_report: |report| report.sizes.operations,
        limit: |adjustment| adjustment.operations,
        set: |adjustment, to| adjustment.operations = Some(to),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Sizes;
    use crate::violation::Violation;

    /// A run of 4 clients that fails when at least two clients do at least 37 operations and fault
    /// `b` is enabled.
    fn fake(adjustment: &Adjustment) -> Report {
        let sizes = Sizes {
            clients: Adjustment::at_most(adjustment.clients, 4),
            lanes: Adjustment::at_most(adjustment.lanes, 3),
            keys: Adjustment::at_most(adjustment.keys, 20),
            operations: Adjustment::at_most(adjustment.operations, 1000),
        };
        let mut report = Report {
            sizes,
            ..Report::new("fake", 1)
        };
        for fault in ["a", "b", "c"] {
            report
                .faults_hit
                .insert(fault, u64::from(!adjustment.without.contains(fault)));
        }
        if sizes.clients >= 2 && sizes.operations >= 37 && !adjustment.without.contains("b") {
            report.note(Violation::new("it holds", format!("{sizes:?}")));
        } else if sizes.operations < 3 {
            report.note(Violation::new("another one", String::new()));
        }
        report
    }

    /// Fails without the comparison of oracles: if any violation counted, the search would end at two operations of
    /// another failure.
    #[test]
    fn the_shortest_schedule_that_fails_in_the_same_way_is_found() {
        let adjustment = Adjustment::default();
        let shrunk = shrink(&adjustment, &fake(&adjustment), fake);
        let sizes = Sizes {
            clients: 2,
            lanes: 1,
            keys: 1,
            operations: 37,
        };
        assert_eq!(shrunk.report.sizes, sizes);
        assert_eq!(shrunk.adjustment.without, ["a", "c"].into());
        assert!(
            shrunk.adjustment.every_moment && shrunk.tries < 100,
            "{shrunk:?}"
        );
        assert_eq!(shrunk.report.violations[0].oracle, "it holds");
    }

    #[test]
    fn a_search_ends_when_its_tries_are_used_up() {
        let mut runs = 0;
        let shrunk = shrink(
            &Adjustment::default(),
            &fake(&Adjustment::default()),
            |adjustment| {
                runs += 1;
                let mut report = fake(adjustment);
                // There is always one operation fewer than requested, so every step gains.
                report.sizes.operations = report.sizes.operations.saturating_sub(1).max(500);
                report
            },
        );
        assert!(runs <= TRIES_MAX && shrunk.tries == runs);
    }
}
