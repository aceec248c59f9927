//! The model with one line for each value, compared with two lines: both give the same verdict on every program.

use std::collections::HashSet;

use crate::litmus::explore::{Scratch, is_sound};
use crate::litmus::machine::Machine;
use crate::litmus::rules::{Hardware, Rules};
use crate::litmus::witnesses;
use crate::plan::plan_for;
use crate::platform::Platform;
use crate::program::Program;
use crate::scenario::{Update, scenarios};

fn agree(
    platform: &Platform,
    rules: Rules,
    program: &Program,
    update: Update,
    seen: &mut HashSet<(Hardware, Program)>,
) -> bool {
    let hardware = Hardware::of(platform, rules).for_verdicts();
    if !seen.insert((hardware, program.clone())) {
        return true;
    }
    let verdict = |lines| {
        is_sound(
            &Machine::with_lines(hardware, program, update, lines),
            &mut Scratch::default(),
        )
    };
    verdict(1) == verdict(2)
}

#[test]
fn two_lines_and_one_give_the_same_verdict_on_every_plan_and_weakened_plan_of_every_published_platform()
 {
    let all = scenarios();
    let platforms: Vec<Platform> = all.iter().map(|scenario| scenario.platform).collect();
    let mut seen = HashSet::new();
    for scenario in &all {
        let plan = plan_for(&scenario.platform, scenario.operation, scenario.update).unwrap();
        let weakened = (0..plan.steps().len()).map(|index| plan.program().without(index));
        for program in weakened.chain([plan.program().clone()]) {
            for platform in &platforms {
                let same = agree(platform, Rules::ALL, &program, scenario.update, &mut seen);
                assert!(same, "{program} on {platform:?}");
            }
        }
    }
    assert!(seen.len() > 500, "{} comparisons", seen.len());
}

/// So each rule holds for long values, too.
#[test]
fn two_lines_and_one_give_the_same_verdict_on_every_witness_with_and_without_its_rule() {
    let mut seen = HashSet::new();
    for witness in witnesses() {
        for rules in [Rules::ALL, Rules::ALL.without(witness.rule)] {
            let same = agree(
                &witness.platform,
                rules,
                &witness.program,
                witness.update,
                &mut seen,
            );
            assert!(same, "{:?}: {}", witness.rule, witness.program);
        }
    }
    assert!(seen.len() >= witnesses().len());
}
