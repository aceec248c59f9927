//! Plans executed in the simulated world, with a hypothetical power cut after every event.
//!
//! ```text
//!   stage.rs     two machines, updates one after the other, power cuts     log.rs   the promises of the log
//!   appends.rs   two machines, entries in a pipeline, power cuts
//! ```

mod appends;
mod log;
mod stage;

use stonecast_media::{
    Ddio, DeclaredPlatform, Durability, Means, PersistenceDomain, ReceiveBuffers,
};
use stonecast_persist::execute::{Commit, UpdateEffect};
use stonecast_persist::{
    FlushKind, Operation, Platform, Program, Scenario, Step, Transport, Update, plan_for,
    published_platforms, scenarios,
};

use stage::{Outcome, Run, run};

/// Longest wait of a message behind other traffic: several times its undisturbed time.
const STALL_NS_MAX: u64 = 4_000;
/// Number of orders of waiting that are tried.
const SEEDS: u64 = 6;
/// The most orders of waiting that are tried until one shows a loss.
const SEEDS_MAX: u64 = 64;

fn second_size(update: Update) -> Option<usize> {
    match update {
        Update::Single => None,
        Update::Compound { large: false } => Some(8),
        Update::Compound { large: true } => Some(64),
    }
}

/// A scenario in words.
fn name(scenario: &Scenario) -> String {
    let Scenario {
        platform,
        operation,
        update,
    } = scenario;
    let large = if *update == (Update::Compound { large: true }) {
        " (large)"
    } else {
        ""
    };
    let Platform {
        persistence,
        ddio,
        receive_buffers,
        transport,
        flush,
        ..
    } = platform;
    format!(
        "{persistence} ddio={ddio} {receive_buffers} {transport} {flush}: {operation} {}{large}",
        update.word()
    )
}

/// The program of the scenario's plan.
fn planned(scenario: &Scenario) -> Program {
    plan_for(&scenario.platform, scenario.operation, scenario.update)
        .expect("the scenario has a plan")
        .program()
        .clone()
}

fn run_once(scenario: &Scenario, program: &Program, seed: u64, stall_ns_max: u64) -> Outcome {
    let Scenario {
        platform, update, ..
    } = *scenario;
    run(&Run {
        platform,
        program,
        second_size: second_size(update),
        appends: 3,
        seed,
        stall_ns_max,
    })
}

/// Checks that the plan keeps its promise whichever messages wait, and returns the number of states.
fn keeps_its_promise(scenario: &Scenario) -> u64 {
    let program = planned(scenario);
    let look = |seed, stall| match run_once(scenario, &program, seed, stall) {
        Outcome::Sound { states } => states,
        other => panic!(
            "{} seed {seed} stall {stall}: {program}: {other:?}",
            name(scenario)
        ),
    };
    look(0, 0) + (0..SEEDS).map(|seed| look(seed, STALL_NS_MAX)).sum::<u64>()
}

/// The plan's steps whose absence broke no promise in any power cut.
fn without_effect(scenario: &Scenario, seeds: u64, stall_ns_max: u64) -> Vec<Step> {
    let program = planned(scenario);
    let breaks = |weakened: &Program| {
        (0..seeds).any(|seed| {
            matches!(
                run_once(scenario, weakened, seed, stall_ns_max),
                Outcome::Broken(_)
            )
        })
    };
    let steps = program.steps().iter().enumerate();
    steps
        .filter(|(index, _)| !breaks(&program.without(*index)))
        .map(|(_, step)| *step)
        .collect()
}

/// Scenarios of the simulated world beyond the taxonomy: iWARP, native flushes, relaxed ordering, a page-granular file,
/// a `b` that is too long for an ATOMIC_WRITE.
fn extended() -> Vec<Scenario> {
    use PersistenceDomain::{Dmp, PageFile, Wsp};
    let mut platforms = published_platforms();
    for base in published_platforms() {
        platforms.push(Platform {
            transport: Transport::Iwarp,
            atomic_write: false,
            ..base
        });
        platforms.push(Platform {
            atomic_write: false,
            ..base
        });
        platforms.push(Platform {
            relaxed_ordering: true,
            ..base
        });
        platforms.push(Platform {
            relaxed_ordering: true,
            flush: FlushKind::NativePersistent,
            ..base
        });
        platforms.push(Platform {
            flush: FlushKind::NativeGlobal,
            ..base
        });
        platforms.push(Platform {
            flush: FlushKind::NativePersistent,
            ..base
        });
        if base.persistence == Wsp {
            platforms.push(Platform {
                trusted_nic_buffers: false,
                ..base
            });
        }
        if base.persistence == Dmp && base.receive_buffers == ReceiveBuffers::Dram {
            platforms.push(Platform {
                persistence: PageFile,
                ..base
            });
        }
    }
    let mut all = Vec::new();
    for platform in platforms {
        assert_eq!(platform.check(), Ok(()));
        for &operation in Operation::PUBLISHED {
            all.extend(Update::ALL.iter().map(|&update| Scenario {
                platform,
                operation,
                update,
            }));
        }
    }
    let published = scenarios();
    all.retain(|scenario| !published.contains(scenario));
    all
}

#[test]
fn every_published_plan_keeps_its_promise_through_a_power_cut_after_every_event() {
    let states: u64 = scenarios().iter().map(keeps_its_promise).sum();
    println!(
        "{states} states after power cuts, of {} scenarios",
        scenarios().len()
    );
    assert!(
        states > 10_000,
        "power cuts leave many states, not {states}"
    );
}

#[test]
fn every_plan_beyond_the_published_ones_keeps_its_promise_too() {
    let states: u64 = extended().iter().map(keeps_its_promise).sum();
    println!(
        "{states} states after power cuts, of {} scenarios",
        extended().len()
    );
    assert!(
        states > 10_000,
        "power cuts leave many states, not {states}"
    );
}

#[test]
fn every_published_plan_that_lacks_a_step_loses_something() {
    for scenario in scenarios() {
        let idle = without_effect(&scenario, SEEDS_MAX, STALL_NS_MAX);
        assert!(
            idle.is_empty(),
            "{}: {} without {idle:?}",
            name(&scenario),
            planned(&scenario)
        );
    }
}

/// Without traffic, a write is in memory before its completion is at the requester, so that a flush, or the answer of
/// the responder, seems to prove no more than a completion. An idle machine does not show their purpose. It does show
/// the absence of every other step.
#[test]
fn without_traffic_flushes_and_answers_seem_to_be_useless() {
    let mut seem_idle = Vec::new();
    for scenario in scenarios() {
        let idle = without_effect(&scenario, 1, 0);
        let program = planned(&scenario);
        let flushes = program.steps().contains(&Step::Flush);
        let allowed = if flushes {
            idle == [Step::Flush]
        } else {
            idle.iter().all(|step| *step == Step::SendAck)
        };
        assert!(
            allowed,
            "{}: {} without {idle:?}",
            name(&scenario),
            planned(&scenario)
        );
        seem_idle.extend(idle);
    }
    assert!(
        seem_idle.contains(&Step::Flush) && seem_idle.contains(&Step::SendAck),
        "{seem_idle:?}"
    );
}

/// The steps of servers that decide on each update themselves. Needs the write-back where caches are lost.
#[test]
fn committed_data_of_a_server_survive_on_every_platform_that_permits_a_choice() {
    for (persistence_domain, means) in [
        (PersistenceDomain::PageFile, Means::FileSync),
        (PersistenceDomain::Dmp, Means::WriteBack),
        (PersistenceDomain::Mhp, Means::Fence),
        (PersistenceDomain::Wsp, Means::Fence),
    ] {
        for ddio in [Ddio::On, Ddio::Off] {
            let declared = DeclaredPlatform {
                persistence_domain,
                ddio,
                receive_buffers: ReceiveBuffers::Dram,
            };
            let commit = Commit::choose(declared, Durability::Power, means).unwrap();
            let platform = Platform::of(declared);
            let scenario = Scenario {
                platform,
                operation: Operation::Send,
                update: Update::Single,
            };
            for seed in 0..SEEDS {
                let outcome = run_once(&scenario, commit.plan().program(), seed, STALL_NS_MAX);
                assert!(
                    matches!(outcome, Outcome::Sound { .. }),
                    "{}: {outcome:?}",
                    name(&scenario)
                );
            }
        }
    }
}

/// Needs the order in `replay::finish` and the clearing after it: a recovery that is also cut off begins again, and
/// never leaves a second part without the first.
#[test]
fn a_recovery_that_is_interrupted_leaves_everything_to_the_next_one() {
    let mut replayed = 0;
    for scenario in scenarios() {
        let Scenario {
            platform,
            operation,
            update,
        } = scenario;
        if operation == Operation::Send && platform.receive_buffers == ReceiveBuffers::Pm {
            let program = planned(&scenario);
            let run = Run {
                platform,
                program: &program,
                second_size: second_size(update),
                appends: 2,
                seed: 1,
                stall_ns_max: 0,
            };
            replayed += stage::cut_recoveries(&run)
                .unwrap_or_else(|broken| panic!("{}: {broken:?}", name(&scenario)));
        }
    }
    assert!(
        replayed > 50,
        "recoveries had messages to finish, {replayed} of them"
    );
}

/// Needs the arm that makes a failed completion *unknown*: the power fails during the flush, and the requester learns
/// that its peer is gone, not the fate of the update.
#[test]
fn a_flush_without_an_answer_is_neither_done_nor_not_done() {
    for scenario in scenarios()
        .into_iter()
        .filter(|scenario| scenario.update == Update::Single)
    {
        let error = stage::cut_during_the_update(&scenario);
        assert_eq!(
            error.effect(),
            UpdateEffect::Unknown,
            "{}: {error}",
            name(&scenario)
        );
        assert!(error.to_string().contains("is unknown"), "{error}");
    }
}
