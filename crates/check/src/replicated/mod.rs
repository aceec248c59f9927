//! Shards with copies on three nodes, by the rules of `stonecast-replication`.
//!
//! The world of `stonecast-replication-sim` runs the nodes. The record of a run goes to the oracles of this crate:
//!
//! ```text
//!   record of a run ──▶ claims of terms ──▶ leaders
//!                   ──▶ calls, answers  ──▶ linearizability; progress after healing
//!                   ──▶ copies in sync  ──▶ agreement, redundancy
//! ```
//!
//! The world judges other promises while it runs, and panics if one is broken. Such a panic is a violation, too.

mod judge;
mod record;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use stonecast_replication_sim::{Outcome, SHARDS, Setup, World};

use self::record::RunRecord;
use crate::adjustment::Adjustment;
use crate::report::{Report, Sizes};
use crate::violation::Violation;

/// Draws the choices of `seed`, within the limits of `adjustment`.
pub(crate) fn setup(seed: u64, adjustment: &Adjustment) -> Setup {
    let drawn = Setup::new(seed);
    let keys = adjustment.keys.map(|keys| keys.div_ceil(SHARDS).max(1));
    let keys = Adjustment::at_most(keys, drawn.keys.into());
    let mut setup = Setup {
        calls: Adjustment::at_most(adjustment.operations, drawn.calls),
        clients: Adjustment::at_most(adjustment.clients, drawn.clients),
        keys: keys.try_into().expect("no more than were drawn"),
        ..drawn
    };
    for class in &adjustment.without {
        setup.faults.leave_out(class);
    }
    setup
}

/// Runs `setup`. [`Adjustment`] explains `canary`.
pub(crate) fn run(scenario: &'static str, setup: &Setup, canary: bool) -> Report {
    let mut world = World::new(setup);
    let broken = catch_unwind(AssertUnwindSafe(|| world.run())).err();
    let outcome = world.outcome();
    let record = RunRecord::of(outcome, setup.keys.into());
    let violations = match broken {
        Some(panic) => vec![Violation::new("the rules hold", message(&*panic))],
        None => judge::judge(outcome, &record, setup.clients, canary),
    };
    let mut report = report(scenario, setup, outcome);
    if !violations.is_empty() {
        report.timeline = record.timeline();
    }
    report.violations = violations;
    report
}

fn report(scenario: &'static str, setup: &Setup, outcome: &Outcome) -> Report {
    let counts = outcome.counts;
    let course = [
        ("takeovers", counts.takeovers),
        ("joins", counts.joins),
        ("moves", counts.moves),
    ];
    Report {
        sizes: Sizes {
            clients: setup.clients,
            lanes: 1,
            keys: u32::from(setup.keys) * SHARDS,
            operations: setup.calls,
        },
        options: vec![
            ("shards", SHARDS.to_string()),
            ("fewest copies of a write", setup.min_copies.to_string()),
        ],
        hash: outcome.hash,
        events: counts.events,
        operations: counts.calls,
        faults_hit: outcome.mishaps.clone(),
        course: course.into(),
        ..Report::new(scenario, setup.seed)
    }
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no message").to_owned()
}
