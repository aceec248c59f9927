//! Every platform that can be described, not only the published ones: each question has an answer, and the answer is
//! right.

use stonecast_media::{Ddio, PersistenceDomain, ReceiveBuffers};
use stonecast_persist::litmus::prove;
use stonecast_persist::search::{Scope, Searcher};
use stonecast_persist::{
    FlushKind, NoPlan, Operation, Platform, PlatformProfile, Transport, Update, plan,
    plan_answered, plan_for,
};

const SWITCH: [bool; 2] = [false, true];

/// All combinations of the axes.
pub fn platforms() -> Vec<Platform> {
    let mut all = vec![Platform {
        persistence: PersistenceDomain::Volatile,
        ddio: Ddio::On,
        receive_buffers: ReceiveBuffers::Dram,
        transport: Transport::InfiniBand,
        flush: FlushKind::Read,
        atomic_write: false,
        relaxed_ordering: false,
        trusted_nic_buffers: false,
    }];
    fn vary<T: Copy>(all: &mut Vec<Platform>, choices: &[T], set: fn(Platform, T) -> Platform) {
        *all = all
            .iter()
            .flat_map(|platform| choices.iter().map(|choice| set(*platform, *choice)))
            .collect();
    }
    vary(&mut all, PersistenceDomain::ALL, |platform, persistence| {
        Platform {
            persistence,
            ..platform
        }
    });
    vary(&mut all, Ddio::ALL, |platform, ddio| Platform {
        ddio,
        ..platform
    });
    vary(
        &mut all,
        ReceiveBuffers::ALL,
        |platform, receive_buffers| Platform {
            receive_buffers,
            ..platform
        },
    );
    vary(&mut all, Transport::ALL, |platform, transport| Platform {
        transport,
        ..platform
    });
    vary(&mut all, FlushKind::ALL, |platform, flush| Platform {
        flush,
        ..platform
    });
    vary(&mut all, &SWITCH, |platform, atomic_write| Platform {
        atomic_write,
        ..platform
    });
    vary(&mut all, &SWITCH, |platform, relaxed_ordering| Platform {
        relaxed_ordering,
        ..platform
    });
    vary(&mut all, &SWITCH, |platform, trusted_nic_buffers| {
        Platform {
            trusted_nic_buffers,
            ..platform
        }
    });
    all
}

#[test]
fn every_platform_gets_a_plan_that_is_sound_minimal_and_the_cheapest_or_a_reason() {
    let mut searcher = Searcher::default();
    let (mut plans, mut contradictions, mut volatile) = (0, 0, 0);
    for platform in platforms() {
        for operation in Operation::ALL {
            for update in Update::ALL {
                match plan_for(&platform, *operation, *update) {
                    Ok(plan) => {
                        let proof = prove(&plan);
                        assert!(
                            proof.sound,
                            "{platform:?} {operation} {update:?}: {} is unsound",
                            plan.program()
                        );
                        assert!(
                            proof.is_minimal(),
                            "{platform:?} {operation} {update:?}: {} has an unnecessary step",
                            plan.program()
                        );
                        let found = searcher
                            .cheapest(&platform, *operation, *update, Scope::Pure)
                            .expect("the plan is sound");
                        assert_eq!(
                            plan.cost(),
                            found.cost(),
                            "{platform:?} {operation} {update:?}: {} or {found}",
                            plan.program()
                        );
                        plans += 1;
                    }
                    Err(NoPlan::NothingSurvives) => {
                        assert_eq!(platform.persistence, PersistenceDomain::Volatile);
                        assert_eq!(
                            searcher.cheapest(&platform, *operation, *update, Scope::Pure),
                            None
                        );
                        volatile += 1;
                    }
                    Err(NoPlan::Contradiction(_)) => contradictions += 1,
                }
            }
        }
    }
    assert_eq!(plans + contradictions + volatile, 960 * 12);
    assert!(
        plans > 1000 && volatile > 0 && contradictions > 0,
        "{plans} plans, {volatile} volatile, {contradictions} contradictions"
    );
}

#[test]
fn every_shipped_profile_gets_a_proved_plan_for_each_operation_and_update() {
    for profile in PlatformProfile::shipped() {
        for operation in Operation::ALL {
            for update in [Update::Single, Update::Compound { large: false }] {
                let plan = plan(&profile, *operation, update)
                    .unwrap_or_else(|reason| panic!("{}: {reason}", profile.name()));
                let proof = prove(&plan);
                assert!(
                    proof.sound && proof.is_minimal(),
                    "{}: {}",
                    profile.name(),
                    plan.program()
                );
            }
        }
    }
}

#[test]
fn the_plan_with_an_answer_is_sound_on_every_platform_and_is_the_plan_where_none_is_one_sided() {
    let mut plans = 0;
    for platform in platforms() {
        let Ok(plan) = plan_answered(&platform) else {
            assert!(plan_for(&platform, Operation::Write, Update::Single).is_err());
            continue;
        };
        let proof = prove(&plan);
        assert!(proof.sound, "{platform:?}: {}", plan.program());
        let cheapest = plan_for(&platform, Operation::Write, Update::Single).expect("there is one");
        if !cheapest.is_one_sided() {
            assert!(proof.is_minimal(), "{platform:?}: {}", plan.program());
            assert_eq!(plan.program(), cheapest.program(), "{platform:?}");
        }
        plans += 1;
    }
    assert!(plans > 100, "{plans} plans");
}
