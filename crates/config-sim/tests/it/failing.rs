//! The service under faults.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use stonecast_cluster::{ConfigStore as _, Revision, StoreError, Swap};
use stonecast_config_sim::{ServiceFaults, SimConfigStore};
use stonecast_fabric::Runtime;

use crate::scene::{SEATS, Scene, revision};

const ALWAYS: u64 = 1_000_000;

#[test]
fn a_compare_and_set_whose_answer_is_lost_has_an_unknown_outcome_and_was_done() {
    let scene = Scene::new(1, 1);
    let store = scene.callers[0].store.clone();
    scene.service.set_faults(ServiceFaults {
        answer_lost_per_million: ALWAYS,
        ..ServiceFaults::default()
    });
    let swap = scene.world.block_on(store.compare_and_set(None, b"one"));
    assert!(matches!(swap, Err(StoreError::Unknown { .. })), "{swap:?}");
    assert_eq!(scene.service.value().unwrap().bytes, b"one");
    let read = scene.world.block_on(store.read());
    assert!(matches!(read, Err(StoreError::Refused { .. })), "{read:?}");
}

#[test]
fn a_compare_and_set_may_take_effect_after_its_caller_gave_up() {
    let scene = Scene::new(2, 1);
    let store = scene.callers[0].store.clone();
    scene.service.set_faults(ServiceFaults {
        swap_late_per_million: ALWAYS,
        late_ns_max: 10_000_000_000,
        ..ServiceFaults::default()
    });
    let swap = scene.world.block_on(store.compare_and_set(None, b"one"));
    assert!(matches!(swap, Err(StoreError::Unknown { .. })), "{swap:?}");
    assert_eq!(scene.service.value(), None, "not yet");
    while scene.world.step() {}
    assert_eq!(scene.service.value().unwrap().bytes, b"one");
}

#[test]
fn a_service_without_a_leader_refuses_and_serves_again_behind_the_next_seat() {
    let scene = Scene::new(3, 1);
    let (store, runtime) = (scene.callers[0].store.clone(), &scene.callers[0].runtime);
    scene.service.fail_over_for(50_000_000);
    scene.world.block_on(async {
        let swap = store.compare_and_set(None, b"one").await;
        assert!(matches!(swap, Err(StoreError::Refused { .. })), "{swap:?}");
        runtime.sleep(60_000_000).await;
        let swap = store.compare_and_set(None, b"one").await;
        assert_eq!(swap, Ok(Swap::Done(Revision(1))));
    });
    assert_eq!(scene.service.leader(), Some(1));
    assert!(scene.world.fault_hits()["manager_failover"] >= 1);
}

/// Fails without the random choice among undecided compare-and-sets: a failover that keeps all of them, or none, hides
/// half of the outcomes that a caller has to survive.
#[test]
fn a_failover_takes_over_some_undecided_compare_and_sets_and_loses_the_rest() {
    let (mut kept, mut lost) = (0, 0);
    for seed in 0..40 {
        let scene = Scene::new(seed, 1);
        let store = scene.callers[0].store.clone();
        scene.service.set_faults(ServiceFaults {
            swap_late_per_million: ALWAYS,
            late_ns_max: 1_000_000_000,
            ..ServiceFaults::default()
        });
        let swap = scene.world.block_on(store.compare_and_set(None, b"one"));
        assert!(swap.is_err() || scene.service.value().is_some());
        if swap.is_ok() || scene.service.value().is_some() {
            continue;
        }
        scene.service.fail_over();
        while scene.world.step() {}
        match scene.service.value() {
            Some(_) => kept += 1,
            None => lost += 1,
        }
    }
    assert!(kept > 5 && lost > 5, "{kept} kept, {lost} lost");
}

#[test]
fn a_partition_separates_a_caller_from_the_leader_and_other_seats_do_not_redirect() {
    let scene = Scene::new(4, 2);
    let cut_off = &scene.callers[0];
    let until = 200_000_000;
    let (from, to) = (Some(cut_off.machine), Some(scene.seats[0]));
    scene.world.block(from, to, 0, until);
    scene.world.block(to, from, 0, until);
    let swap = scene
        .world
        .block_on(cut_off.store.compare_and_set(None, b"one"));
    assert!(matches!(swap, Err(StoreError::Refused { .. })), "{swap:?}");
    let other = scene.callers[1].store.clone();
    let swap = scene.world.block_on(other.compare_and_set(None, b"two"));
    assert_eq!(swap, Ok(Swap::Done(Revision(1))));
    scene.world.heal();
    let read = scene.world.block_on(cut_off.store.read());
    assert_eq!(read.unwrap().unwrap().bytes, b"two");
}

#[test]
fn a_seat_that_dies_is_followed_by_the_next_one_and_may_come_back() {
    let scene = Scene::new(5, 1);
    let (store, runtime) = (scene.callers[0].store.clone(), &scene.callers[0].runtime);
    scene.world.block_on(async {
        for count in 0..SEATS as u64 + 1 {
            let leader = scene.service.leader().unwrap();
            let swap = store
                .compare_and_set((count > 0).then_some(Revision(count)), b"value")
                .await;
            assert_eq!(swap, Ok(Swap::Done(Revision(count + 1))));
            scene.service.kill(leader);
            runtime.sleep(1_000_000_000).await;
            let machine = scene.seats[leader];
            scene
                .service
                .restart(&scene.world, leader, machine)
                .unwrap();
            assert_ne!(scene.service.leader(), Some(leader));
        }
    });
}

/// One call of a caller, with the moments of its beginning and its end.
#[derive(Debug)]
struct Call {
    begin: u64,
    end: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Read(Option<Revision>),
    Swapped { won: Revision, value: Vec<u8> },
}

/// Reads and changes the value until a number of calls are answered, and notes every answer.
async fn work(
    store: Rc<SimConfigStore>,
    runtime: Rc<dyn Runtime>,
    (caller, calls): (usize, usize),
    log: Rc<RefCell<Vec<Call>>>,
) {
    let mut expected = None;
    for attempt in 0..calls {
        let begin = runtime.now();
        let what = if attempt % 2 == 0 {
            let Ok(stored) = store.read().await else {
                continue;
            };
            expected = stored.map(|stored| stored.revision);
            What::Read(expected)
        } else {
            let value = format!("{caller}/{attempt}").into_bytes();
            let Ok(Swap::Done(won)) = store.compare_and_set(expected, &value).await else {
                continue;
            };
            What::Swapped { won, value }
        };
        let end = runtime.now();
        log.borrow_mut().push(Call { begin, end, what });
    }
}

/// Judges a log: each revision is won once, by its value, and no call returns an older revision than a call that ended
/// before it began.
fn judge(log: &[Call]) {
    let mut winners = BTreeMap::new();
    for call in log {
        if let What::Swapped { won, value } = &call.what {
            let before = winners.insert(*won, value);
            assert_eq!(before, None, "{won:?} was won twice");
        }
    }
    let seen = |call: &Call| match &call.what {
        What::Read(revision) => *revision,
        What::Swapped { won, .. } => Some(*won),
    };
    for call in log {
        let earlier = log.iter().filter(|earlier| earlier.end < call.begin);
        let newest = earlier.filter_map(seen).max();
        assert!(seen(call) >= newest, "{call:?} saw less than {newest:?}");
    }
}

/// Lets four callers work while the service and its network fail as drawn from `seed`, and judges the answers.
fn run(seed: u64) -> (u64, BTreeMap<&'static str, u64>) {
    let scene = Scene::new(seed, 4);
    let log = Rc::new(RefCell::new(Vec::new()));
    scene.service.set_faults(ServiceFaults::drawn(seed));
    for (number, caller) in scene.callers.iter().enumerate() {
        let (store, runtime) = (caller.store.clone(), caller.runtime.clone());
        let task = work(store, runtime, (number, 30), log.clone());
        caller.runtime.spawn(Box::pin(task));
    }
    let observer = scene.world.observer();
    scene.world.block_on(async {
        for round in 0..3 {
            observer.sleep(20_000_000 + 7_000_000 * (seed % 5)).await;
            match (seed + round) % 3 {
                0 => scene.service.fail_over(),
                1 => scene.service.kill(scene.service.leader().unwrap_or(0)),
                _ => {
                    let caller = scene.callers[round as usize].machine;
                    scene.world.block(Some(caller), None, 0, 40_000_000);
                }
            }
        }
    });
    while scene.world.step() {}
    judge(&log.borrow());
    // After healing, with a leader, the service serves.
    scene.world.heal();
    scene.service.set_faults(ServiceFaults::default());
    for seat in 0..SEATS {
        scene.service.kill(seat);
        scene
            .service
            .restart(&scene.world, seat, scene.seats[seat])
            .unwrap();
    }
    while scene.world.step() {}
    let caller = &scene.callers[0];
    let read = scene.world.block_on(caller.store.read()).unwrap();
    assert_eq!(read, scene.service.value(), "seed {seed}");
    (scene.world.hash(), scene.world.fault_hits())
}

#[test]
fn whatever_fails_each_revision_is_won_once_and_no_read_returns_an_overwritten_value() {
    let mut hits = BTreeMap::new();
    for seed in 0..60 {
        println!("seed {seed}");
        for (name, count) in run(seed).1 {
            *hits.entry(name).or_insert(0) += count;
        }
    }
    println!("{hits:?}");
    assert!(hits["manager_failover"] > 10, "the service failed over");
    assert!(hits["partition"] > 0, "callers were cut off");
    assert_eq!(run(7).0, run(7).0, "a seed decides everything");
}

#[test]
fn a_watch_survives_failovers_and_lost_answers() {
    let scene = Scene::new(6, 2);
    let [watcher, writer] = [0, 1].map(|caller| scene.callers[caller].store.clone());
    let watching = scene.callers[0].runtime.clone();
    let seen = Rc::new(RefCell::new(None));
    let noted = seen.clone();
    watching.spawn(Box::pin(async move {
        *noted.borrow_mut() = Some(watcher.changed(None).await.unwrap().revision);
    }));
    scene.service.fail_over_for(60_000_000);
    let runtime = scene.callers[1].runtime.clone();
    scene.world.block_on(async {
        runtime.sleep(100_000_000).await;
        scene.service.set_faults(ServiceFaults {
            answer_lost_per_million: ALWAYS,
            ..ServiceFaults::default()
        });
        let _unknown = writer.compare_and_set(None, b"one").await;
        scene.service.set_faults(ServiceFaults::default());
    });
    while scene.world.step() {}
    assert_eq!(*seen.borrow(), revision(1));
}
