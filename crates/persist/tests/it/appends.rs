//! Plans of appends, one entry at a time and several under one flush.

use stonecast_media::{Ddio, DeclaredPlatform, PersistenceDomain, ReceiveBuffers};
use stonecast_persist::litmus::{Damage, Verdict, check};
use stonecast_persist::{
    FlushKind, Item, Operation, Plan, Platform, Program, Step, Transport, Update, plan_for,
};

use crate::matrix::platforms;

const APPEND_AND_READ: &str = "rq.append(a) rq.read rq.await(read)";
const ARRIVAL: &str = "rq.append(a) rq.await(append(a))";
const ANSWER: &str = "rq.append(a) rsp.receive(a) rsp.send(ack) rq.receive(ack)";
const WRITE_BACK: &str =
    "rq.append(a) rsp.receive(a) rsp.write_back(a) rsp.send(ack) rq.receive(ack)";

fn of(persistence_domain: PersistenceDomain, ddio: Ddio) -> Platform {
    Platform::of(DeclaredPlatform {
        persistence_domain,
        ddio,
        receive_buffers: ReceiveBuffers::Dram,
    })
}

fn planned(platform: &Platform) -> Plan {
    plan_for(platform, Operation::Append, Update::Single).expect("there is one")
}

/// All plans of appends, each on every platform for which it is made.
fn plans() -> Vec<Plan> {
    let plan = |platform| plan_for(platform, Operation::Append, Update::Single).ok();
    platforms().iter().filter_map(plan).collect()
}

#[test]
fn an_append_is_one_sided_wherever_a_read_or_the_completion_says_that_it_is_durable() {
    use Ddio::{Off, On};
    use PersistenceDomain::{Dmp, Mhp, PageFile, Wsp};
    let native = |flush, platform| Platform { flush, ..platform };
    let relaxed = |platform| Platform {
        relaxed_ordering: true,
        ..platform
    };
    let iwarp = |platform| Platform {
        transport: Transport::Iwarp,
        atomic_write: false,
        ..platform
    };
    let may_reset = |platform| Platform {
        trusted_nic_buffers: false,
        ..platform
    };
    for (platform, expected) in [
        (of(Dmp, Off), APPEND_AND_READ),
        (of(Dmp, On), WRITE_BACK),
        (of(PageFile, Off), WRITE_BACK),
        (of(Mhp, On), APPEND_AND_READ),
        (of(Wsp, On), ARRIVAL),
        (may_reset(of(Wsp, On)), APPEND_AND_READ),
        (iwarp(of(Wsp, On)), APPEND_AND_READ),
        (iwarp(of(Dmp, Off)), APPEND_AND_READ),
        // With relaxed ordering a READ overtakes entries.
        (relaxed(of(Mhp, On)), ANSWER),
        (relaxed(of(Dmp, Off)), WRITE_BACK),
        // A native FLUSH covers no entry, and does not stand in the way of a READ that does.
        (
            native(FlushKind::NativeGlobal, of(Mhp, On)),
            APPEND_AND_READ,
        ),
        (
            native(FlushKind::NativePersistent, of(Dmp, Off)),
            APPEND_AND_READ,
        ),
        (native(FlushKind::NativePersistent, of(Dmp, On)), WRITE_BACK),
    ] {
        assert_eq!(
            planned(&platform).program().to_string(),
            expected,
            "{platform:?}"
        );
    }
}

#[test]
fn an_append_is_never_copied_and_needs_neither_receive_buffers_elsewhere_nor_a_kind_of_flush() {
    for plan in plans() {
        let platform = plan.scenario().platform;
        assert!(
            !plan.steps().contains(&Step::Copy(Item::A)) && !plan.steps().contains(&Step::Flush)
        );
        for receive_buffers in [ReceiveBuffers::Dram, ReceiveBuffers::Pm] {
            for &flush in FlushKind::ALL {
                let other = Platform {
                    receive_buffers,
                    flush,
                    ..platform
                };
                if other.check().is_ok() {
                    assert_eq!(planned(&other).program(), plan.program(), "{other:?}");
                }
            }
        }
    }
}

/// Puts another entry, `b`, beside `a` in the plan for one: both lie under its last wait.
fn under_one_wait(plan: &Plan, a_first: bool) -> Program {
    let second = |step: &Step| step.to_string().replace("(a)", "(b)").parse::<Step>();
    let mut steps = Vec::new();
    for step in plan.steps() {
        let both = match step {
            Step::Append(_) | Step::Receive(_) | Step::WriteBack(_) => {
                vec![*step, second(step).unwrap()]
            }
            // Completions come in order: the one of the latest entry is awaited.
            Step::Await(_) if !a_first => vec![*step],
            Step::Await(_) => vec![second(step).unwrap()],
            _ => vec![*step],
        };
        steps.push(both);
    }
    let in_order = |mut both: Vec<Step>| {
        if !a_first {
            both.reverse();
        }
        both
    };
    Program::new(steps.into_iter().flat_map(in_order))
}

#[test]
fn each_of_several_entries_under_one_wait_is_durable_wherever_it_stands() {
    for plan in plans() {
        for a_first in [true, false] {
            let several = under_one_wait(&plan, a_first);
            let platform = plan.scenario().platform;
            let verdict = check(&platform, &several, Update::Single);
            assert!(verdict.is_sound(), "{platform:?}: {several}: {verdict:?}");
        }
    }
}

/// Needs every step but those of `b`, which the promise about `a` does not concern.
#[test]
fn several_entries_under_one_wait_need_each_step_that_one_of_them_needs() {
    let mut checked = 0;
    for plan in plans() {
        let several = under_one_wait(&plan, true);
        for (index, step) in several.steps().iter().enumerate() {
            let is_of_b = step.to_string().contains("(b)") && !matches!(step, Step::Await(_));
            // The receive of `b`, which lies behind `a`, shows `a`, too.
            if is_of_b || matches!(step, Step::Receive(_)) {
                continue;
            }
            let (platform, without) = (plan.scenario().platform, several.without(index));
            let verdict = check(&platform, &without, Update::Single);
            assert!(
                matches!(verdict, Verdict::Broken(_)),
                "{platform:?}: {several} without {step}: {without}: {verdict:?}"
            );
            checked += 1;
        }
    }
    assert!(checked > 500, "{checked} steps");
}

#[test]
fn an_entry_behind_the_flush_is_not_covered_by_it_and_one_before_is_whatever_follows() {
    let program = |text: &str| text.parse::<Program>().unwrap();
    let platform = of(PersistenceDomain::Dmp, Ddio::Off);
    let followed = program("rq.append(a) rq.read rq.append(b) rq.await(read)");
    assert!(check(&platform, &followed, Update::Single).is_sound());
    let behind = program("rq.append(b) rq.read rq.append(a) rq.await(read)");
    let Verdict::Broken(run) = check(&platform, &behind, Update::Single) else {
        panic!("the answer of the READ says nothing of a");
    };
    let damage = run.power_cut.and_then(|cut| cut.damage());
    assert_eq!(damage, Some(Damage::Lost(Item::A)));
}

#[test]
fn a_compound_update_is_one_entry_in_one_round_trip_on_every_platform() {
    for platform in platforms() {
        for update in [
            Update::Compound { large: false },
            Update::Compound { large: true },
        ] {
            let Ok(plan) = plan_for(&platform, Operation::Append, update) else {
                continue;
            };
            assert_eq!(plan.cost().round_trips, 1, "{}", plan.program());
            assert!(plan.program().to_string().starts_with("rq.append(a,b) "));
        }
    }
}
