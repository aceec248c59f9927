//! Machines that are suspended: their software and their NICs stand still, and their clocks go on.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::Status;
use stonecast_fabric_sim::{MachineOptions, MachineProfile, Process, World};
use stonecast_media::{Ddio, PersistenceDomain};

use crate::support::Stage;

const MS: Nanoseconds = 1_000_000;

/// The moments, in milliseconds of the clock of `process`, at which a task of `process` ran. The task runs once in each
/// millisecond.
fn ticks(process: &Process) -> Rc<RefCell<Vec<Nanoseconds>>> {
    let ticks = Rc::<RefCell<Vec<Nanoseconds>>>::default();
    let (noted, runtime) = (ticks.clone(), process.runtime());
    process.runtime().spawn(Box::pin(async move {
        loop {
            noted.borrow_mut().push(runtime.now() / MS);
            runtime.sleep(MS).await;
        }
    }));
    ticks
}

#[test]
fn the_threads_of_a_suspended_machine_stand_still_and_find_their_clock_gone_on() {
    let world = World::new(1);
    let [suspended, other] =
        [0, 1].map(|_| world.machine(MachineOptions::new(MachineProfile::MODERN)));
    let process = world.process(suspended);
    let all = [process.clone(), process.thread(), world.process(other)];
    let [first, second, elsewhere] = all.each_ref().map(ticks);
    let observer = world.observer();
    world.block_on(observer.sleep(3 * MS + MS / 2));
    world.suspend(suspended, 10 * MS);
    // A shorter suspension within a longer one: the machine goes on at the end of the longer one.
    world.block_on(observer.sleep(2 * MS));
    world.suspend(suspended, MS);
    let late = ticks(&world.process(suspended));
    world.block_on(observer.sleep(10 * MS + MS / 4));
    let expected: Vec<u64> = (0..=3).chain([13, 14, 15]).collect();
    assert_eq!(*first.borrow(), expected);
    assert_eq!(*second.borrow(), expected);
    assert_eq!(*late.borrow(), [13, 14, 15], "started meanwhile");
    assert_eq!(*elsewhere.borrow(), (0..=15).collect::<Vec<_>>());
}

#[test]
fn timers_that_became_due_in_a_suspension_fire_after_it_in_the_order_of_their_deadlines() {
    let world = World::new(1);
    let machine = world.machine(MachineOptions::new(MachineProfile::MODERN));
    let process = world.process(machine);
    let fired = Rc::<RefCell<Vec<(Nanoseconds, Nanoseconds)>>>::default();
    for deadline in [4, 30, 2, 3].map(|ms| ms * MS) {
        let (fired, runtime) = (fired.clone(), process.runtime());
        process.runtime().spawn(Box::pin(async move {
            runtime.sleep_until(deadline).await;
            fired.borrow_mut().push((deadline / MS, runtime.now() / MS));
        }));
    }
    world.block_on(world.observer().sleep(MS));
    world.suspend(machine, 20 * MS);
    world.block_on(world.observer().sleep(40 * MS));
    assert_eq!(*fired.borrow(), [(2, 21), (3, 21), (4, 21), (30, 30)]);
}

/// Needs the silence of the NIC: a NIC that goes on would acknowledge at once.
#[test]
fn messages_to_a_suspended_machine_arrive_when_it_goes_on() {
    let stage = Stage::on(PersistenceDomain::Dmp, Ddio::Off);
    stage.world.suspend(stage.machine, 10 * MS);
    let begun = stage.world.now();
    let write = stage.write(0, 64, 7);
    assert_eq!(stage.submit(&[write]), Status::Success);
    assert!(stage.world.now() >= begun + 10 * MS);
}

/// A suspension does not shorten the pause of a process that a debugger has stopped.
#[test]
fn a_process_that_was_stopped_for_longer_stays_stopped_when_its_machine_goes_on() {
    let world = World::new(1);
    let machine = world.machine(MachineOptions::new(MachineProfile::MODERN));
    let process = world.process(machine);
    let ran_at = Rc::new(Cell::new(0));
    let (noted, runtime) = (ran_at.clone(), process.runtime());
    process.pause(30 * MS);
    process.runtime().spawn(Box::pin(async move {
        noted.set(runtime.now() / MS);
    }));
    world.suspend(machine, 10 * MS);
    world.block_on(world.observer().sleep(40 * MS));
    assert_eq!(ran_at.get(), 30);
}
