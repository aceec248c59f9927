//! One run: lets everything happen, ends servers and clients in the middle, looks at what power cuts would leave, and judges
//! the history in the end.

use std::cell::Cell;
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random, random_from_seed};
use stonecast_fabric_sim::{Fate, Process, World};

use crate::direct::client::{self, Work};
use crate::direct::explorer::Explorer;
use crate::direct::host::{self, Host};
use crate::direct::keys;
use crate::direct::lab::Lab;
use crate::direct::setup::Setup;
use crate::oracles::acknowledged::Allowed;
use crate::oracles::linearizability;
use crate::report::Report;
use crate::timeline::Notes;
use crate::violation::Violation;

/// How long a machine or process is gone.
const DOWN_NS: Nanoseconds = 300_000;
/// Events of a run at most: one that takes longer makes no progress.
const EVENTS_MAX: u64 = 20_000_000;

/// What can happen, as reports call it.
pub(crate) const SERVER_KILLED: &str = "server_killed";
pub(crate) const POWER_CUT: &str = "power_cut";
pub(crate) const CLIENT_KILLED: &str = "client_killed";
/// All of it.
pub(crate) const FAULTS: &[&str] = &[SERVER_KILLED, POWER_CUT, CLIENT_KILLED];

/// Somebody's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Server,
    Power,
    Client,
}

struct Run {
    world: World,
    work: Rc<Work>,
    host: Host,
    clients: Vec<(Process, Rc<Cell<bool>>)>,
    random: Random,
    /// Ends to come: after so many answers.
    ends: Vec<(u64, End)>,
    /// When the server starts again.
    restart_at: Option<Nanoseconds>,
    explorer: Explorer,
    allowed: Allowed,
    crash_points: u32,
    /// What was last looked at: stores and answers.
    seen: (u64, u64),
    /// Demands what no store promises.
    canary: bool,
    notes: Notes,
    report: Report,
}

/// Runs `setup`.
pub(crate) fn run(scenario: &'static str, setup: &Setup, canary: bool) -> Report {
    let mut run = Run::new(scenario, setup);
    run.canary = canary;
    run.work_off();
    run.finish();
    run.report
}

impl Run {
    fn new(scenario: &'static str, setup: &Setup) -> Self {
        let world = World::new(setup.seed);
        let mut random = random_from_seed(setup.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let names = (0..setup.keys).map(keys::name).collect();
        let work = Work::new(setup.clone(), names);
        let mut host = Host::new(&world, setup);
        host.start(&world);
        let kinds = [(End::Server, setup.server_kills), (End::Power, setup.power_cuts), (End::Client, setup.client_kills)];
        let mut ends: Vec<(u64, End)> = Vec::new();
        for (end, count) in kinds {
            ends.extend((0..count).map(|_| (random.random_range(1..setup.operations.max(2)), end)));
        }
        ends.sort_by_key(|(after, _)| std::cmp::Reverse(*after));
        let lab = Rc::new(Lab::new(setup.machine, setup.keys));
        let explorer = Explorer::new(lab, setup.effort, random.random());
        let mut run = Self {
            world,
            work,
            host,
            clients: Vec::new(),
            random,
            ends,
            restart_at: None,
            explorer,
            allowed: Allowed::default(),
            crash_points: setup.crash_points,
            seen: (0, 0),
            canary: false,
            notes: Notes::default(),
            report: Report { sizes: setup.sizes(), options: setup.describe(), ..Report::new(scenario, setup.seed) },
        };
        (0..setup.clients).for_each(|number| run.start_client(number));
        run
    }

    fn start_client(&mut self, number: u32) {
        let process = self.world.process(self.world.machine(self.work.setup.machine));
        let done = Rc::new(Cell::new(false));
        let (work, life, told, seed) = (self.work.clone(), process.clone(), done.clone(), self.random.random());
        process.runtime().spawn(Box::pin(async move {
            client::live(work, life, number, seed).await;
            told.set(true);
        }));
        match self.clients.get_mut(number as usize) {
            Some(slot) => *slot = (process, done),
            None => self.clients.push((process, done)),
        }
    }

    /// Lets everything happen until all clients are done.
    fn work_off(&mut self) {
        while !self.clients.iter().all(|(_, done)| done.get()) && self.go_on() {
            self.end_somebody();
            self.look_at_crash();
        }
    }

    /// Lets the next thing happen; false when the run is over because of what went wrong.
    fn go_on(&mut self) -> bool {
        if self.restart_at.is_some_and(|at| self.world.now() >= at) {
            self.restart_at = None;
            self.host.start(&self.world);
            self.mark("the server starts again".to_owned());
        }
        let stuck = !self.world.step() || self.world.events() > EVENTS_MAX;
        if stuck {
            self.report
                .note(Violation::new("what is asked for is answered", format!("stuck after {} events", self.world.events())));
        }
        if let Some(ended) = self.host.ended() {
            self.report.violations.extend(host::judge_end(&ended));
            self.restart_later();
        }
        self.notes.pass(self.work.history.borrow().now(), self.world.now(), self.world.events());
        self.report.violations.append(&mut self.work.violations.borrow_mut());
        self.report.violations.is_empty()
    }

    /// Notes for the timeline what no client sees.
    fn mark(&mut self, what: String) {
        self.notes.mark(self.work.history.borrow().now(), self.world.now(), self.world.events(), what);
    }

    /// The server starts again after a while.
    fn restart_later(&mut self) {
        let at = self.world.now() + DOWN_NS;
        self.restart_at = Some(at);
        // Nothing else may be left to happen until then.
        let observer = self.world.observer();
        let sleeper = self.world.observer();
        observer.spawn(Box::pin(async move { sleeper.sleep_until(at).await }));
    }

    fn end_somebody(&mut self) {
        let answers = self.work.history.borrow().answers();
        let Some((_, end)) = self.ends.pop_if(|(after, _)| *after <= answers) else { return };
        match end {
            End::Client => {
                let number = self.random.random_range(0..self.clients.len());
                self.clients[number].0.kill();
                // What it had under way may still be done, by the server that goes on.
                self.start_client(number as u32);
                self.mark(format!("client {number} is killed, and starts again"));
                self.report.hit(CLIENT_KILLED);
            }
            End::Server if self.host.is_running() => {
                self.host.kill();
                self.work.history.borrow_mut().crash();
                self.mark("the server is killed".to_owned());
                self.restart_later();
                self.report.hit(SERVER_KILLED);
            }
            End::Power if self.host.is_running() => {
                let wreck = self.world.wreck(self.host.machine, &self.host.module);
                let fates: Vec<Fate> = (0..wreck.undecided())
                    .map(|unit| {
                        let stores = self.random.random_range(0..=wreck.stores(unit));
                        let torn: u8 = if self.random.random_bool(0.3) { self.random.random() } else { 0 };
                        Fate { stores, torn }
                    })
                    .collect();
                self.host.cut_power(&self.world, wreck.survivor(&fates));
                self.work.history.borrow_mut().crash();
                self.mark(format!("the power of the server is cut; {}", wreck.describe(&fates)));
                self.restart_later();
                self.report.hit(POWER_CUT);
            }
            // It is down already: later.
            End::Server | End::Power => self.ends.push((answers + 10, end)),
        }
    }

    /// Looks at what a power cut now would leave, at as many moments as the setup wants, spread over the run.
    fn look_at_crash(&mut self) {
        if self.crash_points == 0 || !self.host.is_running() {
            return;
        }
        let now = (self.host.module.stores(), self.work.history.borrow().answers());
        if now == self.seen {
            return;
        }
        self.seen = now;
        let setup = &self.work.setup;
        // A write stores and is answered: about two moments for each operation.
        let chance = f64::from(setup.crash_points) / (2.0 * setup.operations as f64);
        if chance < 1.0 && !self.random.random_bool(chance) {
            return;
        }
        self.crash_points = self.crash_points.saturating_sub(1);
        self.allowed.update(&self.work.history.borrow());
        if self.canary {
            self.allowed.demand_newest(&self.work.history.borrow());
        }
        let wreck = self.world.wreck(self.host.machine, &self.host.module);
        if let Some(finding) = self.explorer.explore(&wreck, &self.allowed) {
            let left = wreck.describe(&finding.fates);
            self.mark(format!("if the power of the server is cut here: {left}; then {}", finding.violation));
            let text = format!("{} (power cut after event {}: {left})", finding.violation.found, self.world.events());
            self.report.note(Violation::new(finding.violation.oracle, text));
        }
    }

    /// Reads everything, closes the server, opens it again, and judges.
    fn finish(&mut self) {
        if self.report.violations.is_empty() {
            self.read_everything();
        }
        if self.report.violations.is_empty() {
            self.close_and_open();
        }
        let history = self.work.history.borrow();
        if self.report.violations.is_empty() {
            for key in 0..history.keys() {
                if let Err(found) = linearizability::check(history.of_key(key), None) {
                    let text = format!("key {key}: {} operations are explained, then {:?} is not", found.explained, found.stuck);
                    self.report.violations.push(Violation::new("the history is linearizable", text));
                    break;
                }
            }
        }
        if !self.report.violations.is_empty() {
            self.report.timeline = self.notes.tell(&history);
        }
        self.report.hash = self.world.hash();
        self.report.events = self.world.events();
        self.report.operations = history.operations().len() as u64;
        self.report.crash_states = self.explorer.states;
    }

    fn read_everything(&mut self) {
        let process = self.world.process(self.world.machine(self.work.setup.machine));
        let done = Rc::new(Cell::new(false));
        let (work, reader, told, runtime) = (self.work.clone(), process.clone(), done.clone(), process.runtime());
        process.runtime().spawn(Box::pin(async move {
            client::read_all(work, reader, runtime).await;
            told.set(true);
        }));
        while !done.get() && self.go_on() {}
    }

    /// A store that is closed and opened again has what it had.
    fn close_and_open(&mut self) {
        self.host.stop();
        while self.host.is_running() && self.go_on() {}
        self.restart_at = None;
        if !self.report.violations.is_empty() {
            return;
        }
        self.allowed.update(&self.work.history.borrow());
        let wreck = self.world.wreck(self.host.machine, &self.host.module);
        if let Some(finding) = self.explorer.explore(&wreck, &self.allowed) {
            self.report.note(Violation::new(finding.violation.oracle, format!("{} (after closing)", finding.violation.found)));
        }
    }
}
