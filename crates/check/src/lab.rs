//! Recovery of the survivors of all machines, in a separate world for each try, so that the world under test continues
//! undisturbed.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_fabric_sim::{Fate, Machine, MachineOptions, Module, ReadOrder, Survivor, World};

use crate::subject::{Seat, Subject};
use crate::violation::Violation;
use crate::wrecks::Wrecks;

/// The promise that is broken when a store refuses the state after a crash.
pub(crate) const REFUSED: &str = "every crash can be recovered";

/// Recovers wrecks of a store's machines.
pub(crate) struct Lab<S> {
    subject: Rc<S>,
    options: Vec<MachineOptions>,
}

/// A recovery in progress.
pub(crate) struct Bench<S: Subject> {
    world: World,
    machines: Vec<Machine>,
    pub seats: Vec<Seat>,
    beside: Rc<S::Beside>,
    outcome: Outcome<S>,
}

/// What a power cut of all machines leaves: the states of their modules, and what stays beside these.
pub(crate) struct Remains<S: Subject> {
    pub wrecks: Wrecks,
    pub beside: S::Beside,
}

/// The result of a recovery, once it has ended.
type Outcome<S> = Rc<RefCell<Option<Found<S>>>>;
/// The contents that a recovery found, or the promise that it broke.
pub(crate) type Found<S> = Result<<S as Subject>::Contents, Violation>;

impl<S: Subject> Lab<S> {
    /// A lab for wrecks of machines with `options`, one for each node.
    pub fn new(subject: Rc<S>, options: impl IntoIterator<Item = MachineOptions>) -> Self {
        let options = options.into_iter();
        Self {
            subject,
            options: options
                .map(|options| MachineOptions {
                    cores: 1,
                    ..options
                })
                .collect(),
        }
    }

    /// What stays if everything ends at this moment of the run, with `wrecks` of the machines.
    pub fn remains(&self, wrecks: Wrecks) -> Remains<S> {
        let beside = self.subject.beside();
        Remains { wrecks, beside }
    }

    /// Recovers `survivors`, one for each machine, and reads everything. What is beside the modules is that of the
    /// present moment of the run.
    pub fn recover(&self, survivors: Vec<Survivor>) -> Found<S> {
        self.begin(survivors, self.subject.beside()).end()
    }

    /// Recovers the state that `fates` leave of `remains`.
    pub fn recover_state(&self, remains: &Remains<S>, fates: &[Fate]) -> Found<S> {
        self.begin_state(remains, fates).end()
    }

    /// Recovers the state that `fates` leave of `remains`. Also returns the undecided units that the
    /// recovery read, in the order of their first reads.
    pub fn recover_watched(&self, remains: &Remains<S>, fates: &[Fate]) -> (Found<S>, Vec<u32>) {
        let bench = self.begin_state(remains, fates);
        let read = ReadOrder::default();
        remains.wrecks.watch(bench.modules(), &read);
        (bench.end(), read.take())
    }

    /// Begins to recover the state that `fates` leave of `remains`, step by step.
    pub fn begin_state(&self, remains: &Remains<S>, fates: &[Fate]) -> Bench<S> {
        self.begin(remains.wrecks.survivors(fates), remains.beside.clone())
    }

    /// Begins to recover `survivors`, step by step.
    pub fn begin(&self, survivors: Vec<Survivor>, beside: S::Beside) -> Bench<S> {
        assert_eq!(survivors.len(), self.options.len(), "one for each machine");
        let world = World::new(1);
        let (mut machines, mut seats) = (Vec::new(), Vec::new());
        for (node, (&options, survivor)) in (0..).zip(self.options.iter().zip(survivors)) {
            let machine = world.machine(options);
            let module = world.module(machine, survivor);
            seats.push(Seat::new(node, world.observing_process(machine), &module));
            machines.push(machine);
        }
        let outcome = Outcome::<S>::default();
        let beside = Rc::new(beside);
        let recovery = self.subject.clone();
        let recovery = recovery.recover(seats.clone(), beside.clone());
        let told = outcome.clone();
        world.observer().spawn(Box::pin(async move {
            let result = recovery.await;
            *told.borrow_mut() = Some(result);
        }));
        Bench {
            world,
            machines,
            seats,
            beside,
            outcome,
        }
    }
}

impl<S: Subject> Bench<S> {
    /// Executes the next event. A process that reads unreadable memory ends.
    pub fn step(&self) -> bool {
        let more = self.world.step();
        if self.world.machine_checks() > 0 && self.outcome.borrow().is_none() {
            let text = "its process ended because it read unreadable memory".to_owned();
            *self.outcome.borrow_mut() = Some(Err(Violation::new(REFUSED, text)));
        }
        more
    }

    /// Runs the recovery to its end, and returns its result.
    pub fn end(&self) -> Found<S> {
        loop {
            if let Some(outcome) = self.outcome() {
                return outcome;
            }
            assert!(self.step(), "a recovery ends or waits for something");
        }
    }

    /// The result of the recovery, if it has ended.
    pub fn outcome(&self) -> Option<Found<S>> {
        self.outcome.borrow().clone()
    }

    /// What a power cut of all machines at this moment may leave.
    pub fn remains(&self) -> Remains<S> {
        let wrecks = self.machines.iter().zip(&self.seats);
        let wrecks = wrecks.map(|(&machine, seat)| self.world.wreck(machine, &seat.module));
        Remains {
            wrecks: Wrecks::new(wrecks.collect()),
            beside: (*self.beside).clone(),
        }
    }

    fn modules(&self) -> impl Iterator<Item = &Module> {
        self.seats.iter().map(|seat| &*seat.module)
    }
}
