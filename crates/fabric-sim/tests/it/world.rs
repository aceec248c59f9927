//! Time, cores and clocks.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use stonecast_fabric::{Operation, Status};
use stonecast_fabric_sim::{LocalClock, MachineOptions, MachineProfile, World};
use stonecast_media::{Ddio, PersistenceDomain};

use crate::support::Stage;

/// One history of a busy pair of machines; returns its final values.
fn history(seed_of_work: u64) -> (u64, u64, u64) {
    use rand::RngExt as _;
    let stage = Stage::on(PersistenceDomain::Dmp, Ddio::Off);
    let mut random = stonecast_base::random_from_seed(seed_of_work);
    for _ in 0..100 {
        let size = random.random_range(1..5000);
        let batch = [
            stage.write(random.random_range(0..100_000), size, 1),
            stage.read(0),
        ];
        assert_eq!(stage.submit(&batch), Status::Success);
    }
    (stage.world.hash(), stage.world.events(), stage.world.now())
}

#[test]
fn the_same_work_gives_the_same_events_and_other_work_gives_others() {
    assert_eq!(history(1), history(1));
    assert_ne!(history(1).0, history(2).0);
}

/// Needs the charge of a handler's work: on cores that are free at once, both tasks would end at the same time.
#[test]
fn tasks_of_one_core_take_turns_and_tasks_of_two_cores_run_concurrently() {
    let elapsed = |cores: usize| {
        let world = World::new(1);
        let machine = world.machine(MachineOptions {
            cores,
            ..MachineOptions::new(MachineProfile::MODERN)
        });
        let ends = Rc::new(RefCell::new(Vec::new()));
        for _ in 0..2 {
            let process = world.process(machine);
            let (runtime, ends) = (process.runtime(), ends.clone());
            let device = process.open_device();
            process.runtime().spawn(Box::pin(async move {
                use stonecast_fabric::Device as _;
                let region = device
                    .allocate(1 << 20, stonecast_fabric::Access::NONE)
                    .unwrap();
                for _ in 0..10 {
                    device.memory(region).write(0, &[1; 1 << 20]);
                    runtime.sleep(0).await;
                }
                ends.borrow_mut().push(runtime.now());
            }));
        }
        while world.step() {}
        *ends.borrow().iter().max().unwrap()
    };
    let (one, two) = (elapsed(1), elapsed(2));
    assert!(
        one > two * 19 / 10 && one < two * 21 / 10,
        "{one} ns on one core, {two} ns on two"
    );
}

#[test]
fn a_process_sees_its_own_clock_and_wakes_by_it() {
    let world = World::new(1);
    let process = world.process(world.machine(MachineOptions::new(MachineProfile::MODERN)));
    process.set_clock(LocalClock {
        ahead_ns: 5_000_000,
        drift_ppm: 100_000,
    });
    let runtime = process.runtime();
    let start = runtime.now();
    assert_eq!(start, 5_000_000);
    world.block_on(async {
        let done = Rc::new(RefCell::new(None));
        let (slept, sleeper) = (done.clone(), process.runtime());
        process.runtime().spawn(Box::pin(async move {
            sleeper.sleep(11_000_000).await;
            *slept.borrow_mut() = Some(());
        }));
        let observer = world.observer();
        while done.borrow().is_none() {
            observer.sleep(100_000).await;
        }
    });
    assert!(
        (10_000_000..10_300_000).contains(&world.now()),
        "eleven of its milliseconds are ten in virtual time: {}",
        world.now()
    );
}

#[test]
fn a_killed_process_does_nothing_more() {
    let world = World::new(1);
    let process = world.process(world.machine(MachineOptions::new(MachineProfile::MODERN)));
    let count = Rc::new(RefCell::new(0));
    let (counted, runtime) = (count.clone(), process.runtime());
    process.runtime().spawn(Box::pin(async move {
        loop {
            *counted.borrow_mut() += 1;
            runtime.sleep(1000).await;
        }
    }));
    world.block_on(world.observer().sleep(10_500));
    process.kill();
    let then = *count.borrow();
    assert!((10..=11).contains(&then), "{then}");
    assert_eq!(Rc::strong_count(&count), 1, "its tasks are gone");
    world.block_on(world.observer().sleep(10_000));
    assert_eq!(*count.borrow(), then);
}

/// The time is at least the longest of a message's times, and the whole path is included: far from nothing, far from a
/// wait.
#[test]
fn a_round_trip_takes_the_time_of_its_parts() {
    for profile in MachineProfile::ALL {
        let stage = Stage::new(
            profile,
            crate::support::platform(PersistenceDomain::Dmp, Ddio::On),
        );
        stage.submit(&[stage.read(0)]);
        let start = stage.world.now();
        stage.submit(&[stage.read(0)]);
        let elapsed = stage.world.now() - start;
        let p = &profile;
        let parts = p.nic_doorbell_ns
            + 4 * p.nic_processing_ns
            + 2 * p.wire_ns
            + p.pcie_read_ns
            + p.pcie_write_ns;
        let more = 2 * p.nic_message_ps / 1000 + p.media_read_ns + 10 + p.cpu_notice_ns;
        assert!(
            (parts..parts + more + 200).contains(&elapsed),
            "{}: {elapsed} ns, its parts {parts} ns",
            profile.name
        );
    }
}

/// Needs the time that a read-modify-write occupies the NIC: the bus takes many at a time.
#[test]
fn read_modify_writes_take_their_time_in_the_nic_one_after_the_other() {
    const COUNT: u64 = 16;
    let elapsed = |nic_atomic_ps: u64| {
        let mut profile = MachineProfile::MODERN;
        profile.nic_atomic_ps = nic_atomic_ps;
        let platform = crate::support::platform(PersistenceDomain::Dmp, Ddio::On);
        let stage = Stage::new(profile, platform);
        let add = Operation::FetchAndAdd {
            local: stage.local(8),
            remote: stage.at(0),
            add: 1,
        };
        stage.submit(&[add]);
        let start = stage.world.now();
        stage.submit(&[add; COUNT as usize]);
        stage.world.now() - start
    };
    let (without, with) = (elapsed(0), elapsed(100_000));
    let more = with - without;
    assert!(
        (COUNT * 75..=COUNT * 100).contains(&more),
        "{more} ns more for {COUNT} of 100 ns"
    );
}

/// A pause of a simulated thread is the absence of its event, so a wake creates the event at the moment of the wake.
#[test]
fn a_task_that_another_process_wakes_runs_at_that_moment() {
    let world = World::new(1);
    let machine = world.machine(MachineOptions::new(MachineProfile::MODERN));
    let (sleeper, client) = (world.process(machine), world.process(machine));
    let (answer, awaited) = futures_channel::oneshot::channel();
    let (runtime, seen) = (sleeper.runtime(), Rc::new(Cell::new(None)));
    let noted = seen.clone();
    sleeper.runtime().spawn(Box::pin(async move {
        let sent: u64 = awaited.await.expect("the client answers");
        noted.set(Some(runtime.now() - sent));
    }));
    let clock = client.runtime();
    client.runtime().spawn(Box::pin(async move {
        clock.sleep(77_777).await;
        answer.send(clock.now()).expect("the asking task waits");
    }));
    while world.step() {}
    assert_eq!(seen.get(), Some(0));
}
