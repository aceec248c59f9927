//! One run: drives the world, ends servers and clients in the middle, examines the states that power cuts would leave,
//! and judges the history at the end.

use std::cell::Cell;
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random, random_from_seed};
use stonecast_fabric_sim::{Fate, Fault, Process, SimBacking, Survivor, World};
use stonecast_media::Pool;

use crate::explorer::{Explorer, Finding};
use crate::kv::answers::judge_history;
use crate::kv::batch;
use crate::kv::client::{self, Work};
use crate::kv::contents::WithBatches;
use crate::kv::damage::Damage;
use crate::kv::keys;
use crate::kv::mishaps::{self, Mishap};
use crate::kv::progress::{self, PROGRESS_NS};
use crate::kv::setup::Setup;
use crate::kv::subject::{Kv, SERVER, Upkeep, everything};
use crate::lab::{Lab, Remains};
use crate::oracles;
use crate::oracles::acknowledged::Allowed;
use crate::report::Report;
use crate::stage::{Node, Stage};
use crate::subject::{Subject as _, Task};
use crate::violation::Violation;
use crate::wrecks::Wrecks;

/// Time for faults: clients that are not done by then must be done soon after everything heals.
const SAFETY_NS: Nanoseconds = 20_000_000_000;
/// Time limit for filling a pool and emptying it again.
const FILLED_NS: Nanoseconds = 60_000_000_000;

pub(super) struct Run {
    pub(super) stage: Stage<Kv>,
    pub(super) work: Rc<Work>,
    pub(super) random: Random,
    pub(super) course: Course,
    pub(super) damage: Damage,
    pub(super) explorer: Explorer<Kv>,
    pub(super) allowed: Allowed,
    /// Moments at which a power cut is still to be examined.
    pub(super) crash_points: u32,
    /// Stores and answers at the last look at a crash.
    pub(super) seen: (u64, u64),
    /// Whether the run demands a promise that no store keeps.
    pub(super) canary: bool,
}

/// The mishaps to come, and observations while they waited.
pub(super) struct Course {
    /// The mishaps, each with the number of answers after which it is due.
    pub(super) mishaps: Vec<(u64, Mishap)>,
    /// Number of times that clocks were set forward.
    pub(super) jumps: u64,
    /// Stores at the last check for due mishaps, and how often a mishap waited for a store.
    pub(super) stores_before: u64,
    pub(super) waited: u32,
    pub(super) behind_a_store: bool,
}

/// Runs `setup`.
pub(crate) fn run(scenario: &'static str, setup: &Setup, canary: bool) -> Report {
    let mut run = Run::new(scenario, setup);
    run.canary = canary;
    run.work_off();
    run.get_on();
    run.finish()
}

/// The server's machine, with a fresh pool.
pub(super) fn server(world: &World, setup: &Setup) -> Node {
    let machine = world.machine(setup.machine);
    let module = world.module(machine, Survivor::default());
    if Damage::remembers(&setup.faults) {
        module.remember();
    }
    let backing = Rc::new(SimBacking::new(&module));
    let pool = Pool::create(backing, setup.pool.clone());
    drop(pool.expect("the declaration fits the machine"));
    Node::new(machine, module)
}

impl Run {
    fn new(scenario: &'static str, setup: &Setup) -> Self {
        let world = World::new(setup.seed);
        let mut random = random_from_seed(setup.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let names = (0..setup.keys).map(keys::name).collect();
        let work = Work::new(setup.clone(), names);
        let subject = Kv::new(work.clone());
        let nodes = vec![server(&world, setup)];
        let report = Report {
            sizes: setup.sizes(),
            options: setup.describe(),
            ..Report::new(scenario, setup.seed)
        };
        let mut stage = Stage::new(world, subject.clone(), nodes, report);
        stage.start(SERVER);
        let course = Course {
            mishaps: mishaps::schedule(setup, &mut random),
            jumps: 0,
            stores_before: 0,
            waited: 0,
            behind_a_store: true,
        };
        let lab = Rc::new(Lab::new(subject, [setup.machine]));
        let mut run = Self {
            work,
            course,
            damage: Damage::new(lab.clone(), setup.faults),
            explorer: Explorer::new(lab, setup.effort, random.random()),
            allowed: Allowed::default(),
            crash_points: setup.crash_points,
            seen: (0, 0),
            canary: false,
            stage,
            random,
        };
        run.stage.world.set_faults(setup.faults);
        let clock = mishaps::clock(&run.stage.world, &setup.faults, &mut run.random);
        run.server_mut().set_clock(clock);
        (0..setup.clients).for_each(|number| run.start_client(number));
        run
    }

    pub(super) fn server(&self) -> &Node {
        &self.stage.nodes[SERVER as usize]
    }

    pub(super) fn server_mut(&mut self) -> &mut Node {
        &mut self.stage.nodes[SERVER as usize]
    }

    pub(super) fn start_client(&mut self, number: u32) {
        let setup = &self.work.setup;
        let clock = mishaps::clock(&self.stage.world, &setup.faults, &mut self.random);
        let seed = self.random.random();
        self.stage.start_client(number, setup.machine, clock, seed);
    }

    /// Drives the world until all clients are done. Heals everything if that takes long.
    fn work_off(&mut self) {
        while !self.stage.clients_are_done() && self.stage.step() {
            if self.stage.healed_until.is_none() && self.stage.world.now() > SAFETY_NS {
                self.heal();
            }
            self.bring_about();
            self.look_at_crash();
        }
        // A failed run ends where it failed.
        if self.stage.is_sound() {
            self.heal();
        }
    }

    /// Turns all faults off.
    fn heal(&mut self) {
        if self.stage.healed_until.is_none() {
            self.stage.world.heal();
            self.server().module.limit_space(u64::MAX);
            self.course.mishaps.clear();
            self.stage.mark("everything is healed".to_owned());
        }
        self.stage.healed_until = Some(self.stage.world.now() + PROGRESS_NS);
    }

    /// Demands progress of all clients, and that the leases of dead clients are returned.
    fn get_on(&mut self) {
        if !self.stage.is_sound() {
            return;
        }
        let healed = self.work.testimony.history.borrow().now();
        let mut waiting = Vec::new();
        for (number, client) in (0..).zip(&self.stage.clients) {
            let done = Rc::new(Cell::new(false));
            let future = progress::get_on(
                self.work.clone(),
                client.process.clone(),
                number,
                done.clone(),
            );
            client.process.runtime().spawn(Box::pin(future));
            waiting.push(done);
        }
        while !waiting.iter().all(|done| done.get()) && self.stage.step() {}
        if self.stage.is_sound() {
            let history = self.work.testimony.history.borrow();
            let clients = self.stage.clients.len() as u32;
            let wanted = progress::OPERATIONS as usize;
            let found = oracles::progress::judge(&history, healed, clients, wanted);
            self.stage.report.violations.extend(found);
        }
        self.stage.healed_until = Some(self.stage.world.now() + PROGRESS_NS);
        let work = self.work.clone();
        self.visit_alone(|process, done| Box::pin(progress::wait_for_leases(work, process, done)));
        if let Some(value_size) = self.work.setup.fills_with {
            self.stage.healed_until = Some(self.stage.world.now() + FILLED_NS);
            let work = self.work.clone();
            self.visit_alone(|process, done| {
                Box::pin(progress::fill_and_forget(work, process, value_size, done))
            });
        }
        if self.stage.is_sound() {
            self.damage_live();
        }
        if self.stage.is_sound() {
            self.damage_trail();
        }
    }

    /// Runs one more process, on a machine of its own, until it is done.
    pub(super) fn visit_alone(&mut self, visit: impl FnOnce(Process, Rc<Cell<bool>>) -> Task<()>) {
        self.stage.visit_alone(self.work.setup.machine, visit);
    }

    /// A description of `fates`.
    pub(super) fn tell(&self, wrecks: &Wrecks, fates: &[Fate]) -> String {
        wrecks.describe(fates, |_| self.stage.subject.name(SERVER))
    }

    /// Examines the states that a power cut at this moment would leave. The setup gives the number of such moments,
    /// spread over the run.
    fn look_at_crash(&mut self) {
        if self.crash_points == 0 || !self.server().is_running() {
            return;
        }
        let now = self.stage.stores_and_answers();
        if now == self.seen {
            return;
        }
        self.seen = now;
        let setup = &self.work.setup;
        // A write stores and is answered, which gives about two moments for each operation.
        let chance = f64::from(setup.crash_points) / (2.0 * setup.operations as f64);
        if chance < 1.0 && !self.random.random_bool(chance) {
            return;
        }
        self.crash_points = self.crash_points.saturating_sub(1);
        self.allowed.update(&self.work.testimony.history.borrow());
        if self.canary {
            self.allowed
                .demand_newest(&self.work.testimony.history.borrow());
        }
        let wrecks = self.stage.wrecks();
        self.stage.world.hit(Fault::PowerCut);
        let harmed = self
            .damage
            .after_crash(&self.work, &everything(&wrecks), &mut self.random);
        self.stage.report.violations.extend(harmed);
        let remains = self.explorer.remains(wrecks);
        if let Some(finding) = self.explore(&remains) {
            let left = self.tell(&remains.wrecks, &finding.fates);
            self.stage.mark(format!(
                "if the power of the server is cut here: {left}; then {}",
                finding.violation
            ));
            let text = format!(
                "{} (power cut after event {}: {left})",
                finding.violation.found,
                self.stage.world.events()
            );
            self.stage
                .report
                .note(Violation::new(finding.violation.oracle, text));
        }
    }

    /// Examines the states of `remains`.
    fn explore(&mut self, remains: &Remains<Kv>) -> Option<Finding> {
        let judge = WithBatches {
            allowed: &self.allowed,
            history: &self.work.testimony.history.borrow(),
            batches: &self.work.batches.borrow(),
        };
        self.explorer.explore(remains, &judge)
    }

    /// Reads everything, closes the server, opens it again, and judges.
    fn finish(mut self) -> Report {
        if self.stage.is_sound() {
            self.read_everything();
        }
        if self.stage.is_sound() {
            self.close_and_open();
        }
        if self.stage.is_sound() {
            let history = self.work.testimony.history.borrow();
            let batches = self.work.batches.borrow();
            let found = judge_history(&batch::complete(&history, &batches));
            self.stage.report.violations.extend(found);
        }
        self.count_up();
        self.stage.into_report()
    }

    /// Adds the counts of the run to the report.
    fn count_up(&mut self) {
        let report = &mut self.stage.report;
        report.crash_states = self.explorer.states + self.damage.states;
        for (fault, count) in [
            (Fault::RecoveryCrash, self.explorer.cut),
            (Fault::TornWrite, self.explorer.torn),
            (Fault::AllocationFailure, self.work.refusals.get()),
        ] {
            *report.faults_hit.entry(fault.class().name).or_default() += count;
        }
        let Upkeep { cleaned, growths } = self.stage.subject.upkeep();
        report.course.extend([
            ("segments_cleaned", cleaned.segments),
            ("records_moved", cleaned.moved_records),
            ("tombstones_dropped", cleaned.dropped_tombstones),
            ("segments_abandoned", cleaned.abandoned),
            ("leases_reclaimed", cleaned.reclaimed_leases),
            ("index_growths", growths),
        ]);
    }

    fn read_everything(&mut self) {
        let work = self.work.clone();
        self.visit_alone(move |process, done| {
            Box::pin(async move {
                client::read_all(work, process.clone(), process.runtime()).await;
                done.set(true);
            })
        });
    }

    /// Checks that a store that is closed and opened again has the same content.
    fn close_and_open(&mut self) {
        self.server().stop();
        while self.server().is_running() && self.stage.step() {}
        self.server_mut().stay_down();
        if !self.stage.is_sound() {
            return;
        }
        if self.work.setup.publishes() {
            // A close is not a power cut, so no state has to be explored: the content is complete when the pool is
            // opened again.
            self.stage.start(SERVER);
            self.stage.healed_until = Some(self.stage.world.now() + PROGRESS_NS);
            return self.read_everything();
        }
        self.allowed.update(&self.work.testimony.history.borrow());
        let remains = self.explorer.remains(self.stage.wrecks());
        if let Some(finding) = self.explore(&remains) {
            self.stage.report.note(Violation::new(
                finding.violation.oracle,
                format!("{} (after closing)", finding.violation.found),
            ));
        }
        if self.stage.is_sound() {
            let found =
                self.damage
                    .after_close(&self.work, &everything(&remains.wrecks), &mut self.random);
            self.stage.report.violations.extend(found);
        }
    }
}
