//! The litmus model against known answers, and the plans against the model.

use stonecast_persist::litmus::{Rules, Verdict, check, check_with, prove, witnesses};
use stonecast_persist::{plan_for, scenarios};

/// Each rule is needed: its program's verdict turns without it.
#[test]
fn a_program_is_unsound_for_a_freedom_and_sound_for_a_promise() {
    for witness in witnesses() {
        let with = check(&witness.platform, &witness.program, witness.update);
        let without = check_with(Rules::ALL.without(witness.rule), &witness.platform, &witness.program, witness.update);
        let broken = |verdict: &Verdict| matches!(verdict, Verdict::Broken(_));
        let (unsound, sound) = if witness.rule.is_freedom() { (&with, &without) } else { (&without, &with) };
        assert!(broken(unsound), "{:?}: {} should be unsound: {unsound:?}", witness.rule, witness.program);
        assert!(sound.is_sound(), "{:?}: {} should be sound: {sound:?}", witness.rule, witness.program);
    }
}

#[test]
fn every_published_scenario_has_a_sound_plan_of_which_each_step_is_necessary() {
    let (mut states, mut crashes) = (0, 0);
    for scenario in scenarios() {
        let plan = plan_for(&scenario.platform, scenario.operation, scenario.update).unwrap();
        let proof = prove(&plan);
        assert!(proof.sound, "{}", plan.program());
        for necessity in &proof.necessary {
            assert!(necessity.run.is_some(), "{}: {} is not needed", plan.program(), necessity.step);
        }
        states += proof.states;
        crashes += proof.crashes;
    }
    eprintln!("{states} states, {crashes} crashes");
}
