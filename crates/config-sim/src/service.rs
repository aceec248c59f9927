//! The service: its seats, and the control of its failures.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{DeviceError, Port, Runtime};
use stonecast_fabric_sim::{Fault, Machine, Process, World};

use crate::council::Council;
use crate::faults::ServiceFaults;
use crate::seat::Seat;
use crate::store::SimConfigStore;

/// The properties of a service without faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceOptions {
    /// Time between the arrival of a compare-and-set and its decision: a message to another seat and back, and a sync
    /// of its log. An assumption.
    pub round_ns: Nanoseconds,
    /// Time for which a caller waits for an answer.
    pub patience_ns: Nanoseconds,
    /// Shortest time without a leader in a failover.
    pub election_ns_min: Nanoseconds,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            round_ns: 200_000,
            patience_ns: 25_000_000,
            election_ns_min: 10_000_000,
        }
    }
}

/// A configuration store in a world, as the driver of the world controls it.
pub struct ConfigService {
    name: String,
    options: ServiceOptions,
    council: Rc<Council>,
    seats: RefCell<Vec<Process>>,
    /// Whether the process of each seat runs.
    alive: RefCell<Vec<bool>>,
    observer: Rc<dyn Runtime>,
    /// Counts failovers: an election that a later failover overtook elects no seat.
    failovers: Cell<u64>,
}

impl ConfigService {
    /// Starts a service called `name` with a seat on each of `machines`. The first seat leads, and nothing is stored.
    ///
    /// # Panics
    ///
    /// If `machines` is empty.
    pub fn start(
        world: &World,
        name: &str,
        machines: &[Machine],
        seed: u64,
        options: ServiceOptions,
    ) -> Result<Rc<Self>, DeviceError> {
        assert!(!machines.is_empty(), "a service needs a machine");
        let council = Rc::new(Council::new(seed));
        let mut seats = Vec::new();
        for (number, &machine) in machines.iter().enumerate() {
            let process = world.process(machine);
            Seat::start(
                number,
                &address(name, number),
                process.clone(),
                council.clone(),
                options.round_ns,
            )?;
            seats.push(process);
        }
        Ok(Rc::new(Self {
            name: name.to_owned(),
            options,
            council,
            alive: RefCell::new(vec![true; seats.len()]),
            seats: RefCell::new(seats),
            observer: world.observer(),
            failovers: Cell::new(0),
        }))
    }

    /// A caller's side of the service, on a port of the caller's process. Each waiting call takes one completion of
    /// both kinds.
    pub fn store(&self, port: &Rc<Port>, runtime: &Rc<dyn Runtime>) -> SimConfigStore {
        let seats = 0..self.seats.borrow().len();
        SimConfigStore::new(
            self.name.clone(),
            seats.map(|number| address(&self.name, number)).collect(),
            port.clone(),
            runtime.clone(),
            self.options.patience_ns,
        )
    }

    /// Sets the rates of the service's faults.
    pub fn set_faults(&self, faults: ServiceFaults) {
        self.council.set_faults(faults);
    }

    /// The value of the service, for oracles: no process in the world sees it in this way.
    pub fn value(&self) -> Option<stonecast_cluster::Stored> {
        self.council.value()
    }

    /// The seat that leads.
    pub fn leader(&self) -> Option<usize> {
        self.council.leader()
    }

    /// Lets the service fail over: no seat leads for a while, and then the next running seat does. Each undecided
    /// compare-and-set takes effect before that seat leads, or never.
    pub fn fail_over(self: &Rc<Self>) {
        let outage = self.council.election(self.options.election_ns_min);
        self.fail_over_for(outage);
    }

    /// Lets the service fail over, without a leader for `outage_ns`.
    pub fn fail_over_for(self: &Rc<Self>, outage_ns: Nanoseconds) {
        let last = self.council.leader().unwrap_or(0);
        if self.council.depose() {
            self.seats.borrow()[last].hit(Fault::ManagerFailover);
        }
        self.failovers.set(self.failovers.get() + 1);
        let (service, number) = (self.clone(), self.failovers.get());
        self.observer.spawn(Box::pin(async move {
            service.observer.sleep(outage_ns).await;
            if service.failovers.get() == number {
                service.elect(last);
            }
        }));
    }

    /// Elects the next running seat after `last`.
    fn elect(&self, last: usize) {
        let alive = self.alive.borrow();
        let next = (1..=alive.len()).map(|step| (last + step) % alive.len());
        if let Some(next) = next.into_iter().find(|&seat| alive[seat]) {
            self.council.elect(next);
        }
    }

    /// Ends the process of a seat. If it leads, the service fails over.
    pub fn kill(self: &Rc<Self>, seat: usize) {
        self.seats.borrow()[seat].kill();
        self.alive.borrow_mut()[seat] = false;
        if self.council.leads(seat) {
            self.fail_over();
        }
    }

    /// Starts a seat whose process has ended, on `machine`. If no other seat runs, the service fails over to this one.
    pub fn restart(
        self: &Rc<Self>,
        world: &World,
        seat: usize,
        machine: Machine,
    ) -> Result<(), DeviceError> {
        let process = world.process(machine);
        Seat::start(
            seat,
            &address(&self.name, seat),
            process.clone(),
            self.council.clone(),
            self.options.round_ns,
        )?;
        self.seats.borrow_mut()[seat] = process;
        self.alive.borrow_mut()[seat] = true;
        if self.council.leader().is_none() {
            self.fail_over();
        }
        Ok(())
    }
}

fn address(name: &str, seat: usize) -> String {
    format!("sim:{name}-{seat}")
}
