//! Runs seeds on several threads, and passes their reports on in the order of the seeds.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use stonecast_check::{Adjustment, Report, Scenario, run_adjusted};

use crate::failure::Failure;

thread_local! {
    /// Message and place of this thread's last broken assertion.
    static BROKEN: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Silences broken assertions: while this value lives they are findings of a run, not defects of
/// this program.
pub struct QuietPanics {
    before: Option<Hook>,
}

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Sync + Send + 'static>;

impl QuietPanics {
    /// Silences broken assertions from now on.
    pub fn begin() -> Self {
        let before = panic::take_hook();
        panic::set_hook(Box::new(|info| {
            let place = info
                .location()
                .map(|location| format!(" ({}:{})", location.file(), location.line()));
            let message = info.payload_as_str().unwrap_or("no message");
            BROKEN.set(format!("{message}{}", place.unwrap_or_default()));
        }));
        Self {
            before: Some(before),
        }
    }
}

impl Drop for QuietPanics {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            panic::set_hook(before);
        }
    }
}

/// Runs one seed. A broken assertion is a violation like others.
pub fn run_one(scenario: &Scenario, seed: u64, adjustment: &Adjustment) -> Report {
    let run = AssertUnwindSafe(|| run_adjusted(scenario, seed, adjustment));
    panic::catch_unwind(run).unwrap_or_else(|_| Report::broken(scenario, seed, BROKEN.take()))
}

/// Runs `seeds` on `threads` threads. `take` gets every report, in the order of the seeds; its
/// first failure ends the campaign.
pub fn run(
    scenario: &Scenario,
    seeds: std::ops::Range<u64>,
    threads: usize,
    adjustment: &Adjustment,
    mut take: impl FnMut(Report) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let next = AtomicU64::new(seeds.start);
    let (sender, reports) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next, end) = (sender.clone(), &next, seeds.end);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // There is no receiver when the campaign has ended.
                    if seed >= end
                        || sender
                            .send((seed, run_one(scenario, seed, adjustment)))
                            .is_err()
                    {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut turn = seeds.start;
        for (seed, report) in reports {
            early.insert(seed, report);
            while let Some(report) = early.remove(&turn) {
                turn += 1;
                take(report)?;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use stonecast_check::scenario;

    use super::*;

    #[test]
    fn reports_come_in_the_order_of_their_seeds_and_do_not_depend_on_threads() {
        let scenario = scenario("kv").expect("it is there");
        let small = Adjustment {
            operations: Some(30),
            ..Adjustment::default()
        };
        let reports = |threads| {
            let mut reports = Vec::new();
            let all = run(scenario, 5..13, threads, &small, |report| {
                reports.push(report);
                Ok(())
            });
            assert!(all.is_ok());
            reports
        };
        let alone = reports(1);
        assert_eq!(
            alone.iter().map(|report| report.seed).collect::<Vec<_>>(),
            (5..13).collect::<Vec<_>>()
        );
        assert_eq!(alone, reports(4));
    }

    #[test]
    fn a_campaign_ends_when_nobody_wants_its_reports() {
        let scenario = scenario("kv").expect("it is there");
        let small = Adjustment {
            operations: Some(2),
            ..Adjustment::default()
        };
        let mut taken = 0;
        let ended = run(scenario, 0..u64::MAX, 2, &small, |_| {
            taken += 1;
            if taken < 3 {
                Ok(())
            } else {
                Err(Failure::Silent)
            }
        });
        assert!(matches!(ended, Err(Failure::Silent)) && taken == 3);
    }
}
