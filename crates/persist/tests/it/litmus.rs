//! The litmus model against known answers, and the plans against the model.

use stonecast_media::{Ddio, PersistenceDomain, ReceiveBuffers};
use stonecast_persist::litmus::{
    Damage, Frame, Place, Rules, Survival, Verdict, check, check_with, prove, walk, witnesses,
};
use stonecast_persist::{
    Operation, Plan, Platform, Program, Scenario, Update, plan_for, published_platforms, scenarios,
};

/// Each rule is needed: the verdict on its program changes without it.
#[test]
fn a_program_is_unsound_for_a_freedom_and_sound_for_a_promise() {
    for witness in witnesses() {
        let with = check(&witness.platform, &witness.program, witness.update);
        let without = check_with(
            Rules::ALL.without(witness.rule),
            &witness.platform,
            &witness.program,
            witness.update,
        );
        let broken = |verdict: &Verdict| matches!(verdict, Verdict::Broken(_));
        let (unsound, sound) = if witness.rule.is_freedom() {
            (&with, &without)
        } else {
            (&without, &with)
        };
        assert!(
            broken(unsound),
            "{:?}: {} should be unsound: {unsound:?}",
            witness.rule,
            witness.program
        );
        assert!(
            sound.is_sound(),
            "{:?}: {} should be sound: {sound:?}",
            witness.rule,
            witness.program
        );
    }
}

#[test]
fn every_published_scenario_has_a_sound_plan_without_an_unnecessary_step() {
    for scenario in scenarios() {
        let plan = plan_for(&scenario.platform, scenario.operation, scenario.update).unwrap();
        let proof = prove(&plan);
        assert!(proof.sound, "{}", plan.program());
        for necessity in &proof.necessary {
            assert!(
                necessity.run.is_some(),
                "{}: {} is not needed",
                plan.program(),
                necessity.step
            );
        }
        assert!(
            proof.crashes >= proof.states && proof.states > 2,
            "every state was crashed"
        );
    }
}

/// Needs the search for states without a next event: no crash breaks a program that never concludes.
#[test]
fn a_requester_that_waits_for_ever_is_noticed() {
    let platform = published_platforms()[0];
    for program in [
        "rq.send(a) rq.receive(ack)",
        "rq.write(a) rq.await(flush) rq.flush",
        "rq.send(a) rsp.receive(&a) rsp.send(ack) rq.receive(ack)",
    ] {
        let verdict = check(&platform, &program.parse().unwrap(), Update::Single);
        assert!(
            matches!(verdict, Verdict::Stuck(_)),
            "{program}: {verdict:?}"
        );
    }
}

#[test]
fn the_run_without_a_flush_is_shown_from_the_post_to_the_power_cut() {
    let scenario = scenarios().into_iter().find(|scenario| {
        (scenario.platform.persistence, scenario.operation)
            == (PersistenceDomain::Mhp, Operation::Write)
    });
    let proof = prove(&plan_of(&scenario.unwrap()));
    assert_eq!(
        proof.necessary[1].without.to_string(),
        "rq.write(a) rq.await(write(a))"
    );
    assert_eq!(
        proof.necessary[1].counterexample,
        [
            "rq.write(a)",
            "write(a) reaches the responder's NIC",
            "rq.await(write(a))",
            "power cut: nothing survives; the requester has concluded and a is lost",
        ]
    );
    let json = serde_json::to_value(&proof).unwrap();
    let keys: Vec<&str> = json
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    for key in [
        "persistence",
        "ddio",
        "receive_buffers",
        "operation",
        "update",
        "sound",
        "states",
        "crashes",
        "necessary",
    ] {
        assert!(keys.contains(&key), "{keys:?}");
    }
    assert_eq!(json["necessary"][1]["step"], "rq.flush");
    assert_eq!(json["necessary"][1]["counterexample"][0], "rq.write(a)");
}

#[test]
fn a_walk_shows_the_place_of_the_update_and_the_effect_of_a_crash() {
    let scenario = scenarios().into_iter().find(|scenario| {
        let Platform {
            persistence, ddio, ..
        } = scenario.platform;
        (persistence, ddio, scenario.operation)
            == (PersistenceDomain::Dmp, Ddio::On, Operation::Write)
    });
    let run = walk(&plan_of(&scenario.unwrap()));
    let told: Vec<(Place, Survival)> = run
        .frames
        .iter()
        .map(|frame| (frame.pieces[0].place, frame.pieces[0].survival))
        .collect();
    let mut stations = told;
    stations.dedup();
    assert_eq!(
        stations,
        [
            (Place::Nowhere, Survival::Lost),
            (Place::Network, Survival::Lost),
            (Place::Nic, Survival::Lost),
            (Place::IoController, Survival::Lost),
            (Place::Controller, Survival::Kept),
        ]
    );
    let last = run.frames.last().unwrap();
    assert!(last.concluded && last.survivals == [Survival::Kept] && run.power_cut.is_none());
    assert!(
        run.frames
            .iter()
            .all(|frame| !frame.concluded || frame.survivals == [Survival::Kept])
    );
}

/// The path of all requests and answers without data of the update.
#[test]
fn a_walk_shows_flushes_and_answers_in_transit() {
    let ways = |persistence, ddio, operation, name: &str| {
        let scenario = scenarios().into_iter().find(|scenario| {
            let platform = scenario.platform;
            (platform.persistence, platform.ddio, scenario.operation)
                == (persistence, ddio, operation)
        });
        let run = walk(&plan_of(&scenario.unwrap()));
        let signal = |frame: &Frame| {
            let found = frame.signals.iter().find(|signal| signal.name == name);
            let found = found.unwrap_or_else(|| panic!("{name} is not in {frame:?}"));
            (found.place, found.ended)
        };
        let mut way: Vec<_> = run.frames.iter().map(signal).collect();
        way.dedup();
        way
    };
    let (dmp, mhp) = (PersistenceDomain::Dmp, PersistenceDomain::Mhp);
    assert_eq!(
        ways(mhp, Ddio::On, Operation::Write, "flush"),
        [
            (None, false),
            (Some(Place::Network), false),
            (Some(Place::Nic), false),
            (Some(Place::Nowhere), true),
        ]
    );
    assert_eq!(
        ways(dmp, Ddio::On, Operation::Write, "send(&a)"),
        [
            (None, false),
            (Some(Place::Network), false),
            (Some(Place::Nic), false),
            (Some(Place::Dram), false),
        ]
    );
    assert_eq!(
        ways(dmp, Ddio::On, Operation::Write, "ack"),
        [
            (None, false),
            (Some(Place::Network), false),
            (Some(Place::Nowhere), true),
        ]
    );
}

/// A program that is sound on a weaker platform is sound on a stronger one.
#[test]
fn a_stronger_platform_never_breaks_a_plan() {
    for scenario in scenarios() {
        let plan = plan_of(&scenario);
        let stronger = |persistence| Platform {
            persistence,
            ..scenario.platform
        };
        let stronger = match scenario.platform.persistence {
            PersistenceDomain::Dmp => vec![
                stronger(PersistenceDomain::Mhp),
                stronger(PersistenceDomain::Wsp),
            ],
            PersistenceDomain::Mhp => vec![stronger(PersistenceDomain::Wsp)],
            _ => Vec::new(),
        };
        let no_ddio = Platform {
            ddio: Ddio::Off,
            ..scenario.platform
        };
        for platform in stronger.into_iter().chain([no_ddio]) {
            assert!(
                check(&platform, plan.program(), scenario.update).is_sound(),
                "{} on {platform:?}",
                plan.program()
            );
        }
    }
}

/// Persistent receive buffers are not always better: recovery finds the message with `b` while `a` is still in the
/// cache.
#[test]
fn a_pointer_that_rides_in_a_message_needs_volatile_receive_buffers() {
    let program = "rq.write(a) rq.send(b) rsp.receive(b) rsp.write_back(a) rsp.copy(b) rsp.write_back(b) rsp.send(ack) rq.receive(ack)";
    let program: Program = program.parse().unwrap();
    let update = Update::Compound { large: false };
    let on = |receive_buffers| {
        let platform = Platform {
            receive_buffers,
            ..published_platforms()[0]
        };
        check(&platform, &program, update)
    };
    assert!(on(ReceiveBuffers::Dram).is_sound());
    let Verdict::Broken(run) = on(ReceiveBuffers::Pm) else {
        panic!("replay brings b back without a")
    };
    let cut = run.power_cut.as_ref().unwrap();
    assert_eq!(
        (cut.damage(), cut.kept.as_slice()),
        (
            Some(Damage::Reordered),
            ["message(b)".to_owned()].as_slice()
        )
    );
}

fn plan_of(scenario: &Scenario) -> Plan {
    plan_for(&scenario.platform, scenario.operation, scenario.update).unwrap()
}
