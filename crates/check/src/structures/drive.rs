//! One run: front-ends write and read while they, the back-end and its power fail, and the states that a power cut
//! would leave are examined at some moments.

use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random, random_from_seed};
use stonecast_fabric_sim::{LocalClock, MachineOptions, MachineProfile, Process, World};

use super::front_end;
use super::setup::{CLIENTS, Mishap, Setup};
use super::subject::{LEASE_NS, Structures};
use crate::explorer::Explorer;
use crate::lab::Lab;
use crate::linearizability::STATES_MAX;
use crate::moments::Moments;
use crate::partitions::partition;
use crate::report::Report;
use crate::stage::Stage;

/// Durations of hanging processes: shorter and longer than a lease.
const PAUSE_NS: std::ops::Range<Nanoseconds> = 100_000..8_000_000;

struct Run {
    stage: Stage<Structures>,
    random: Random,
    explorer: Explorer<Structures>,
    mishaps: Vec<(u64, Mishap)>,
    moments: Moments,
}

/// Runs `setup`.
pub(crate) fn run(scenario: &'static str, setup: &Setup) -> Report {
    let mut run = Run::new(scenario, setup);
    while !run.stage.clients_are_done() && run.stage.step() {
        run.do_due_mishap();
        run.look_at_crash();
    }
    if run.stage.is_sound() {
        let subject = run.stage.subject.clone();
        run.stage.visit_alone(front_end_machine(), |process, done| {
            Box::pin(async move {
                front_end::read_all(subject, process).await;
                done.set(true);
            })
        });
    }
    if run.stage.is_sound() {
        let subject = run.stage.subject.clone();
        if let Err(violation) = subject.judge_history(STATES_MAX) {
            run.stage.report.note(violation);
        }
    }
    run.stage.note_explored(&run.explorer);
    run.stage.into_report()
}

fn front_end_machine() -> MachineOptions {
    MachineOptions::new(MachineProfile::MODERN)
}

impl Run {
    fn new(scenario: &'static str, setup: &Setup) -> Self {
        let world = World::new(setup.seed);
        let mut random = random_from_seed(setup.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let subject = Structures::new(setup.clone());
        let machines = [setup.machine].into_iter();
        let report = Report {
            sizes: setup.sizes(),
            options: setup.describe(),
            ..Report::new(scenario, setup.seed)
        };
        let mut stage = Stage::begin(world, subject.clone(), machines.clone(), report);
        let lab = Rc::new(Lab::new(subject, machines));
        let explorer = Explorer::new(lab, setup.effort, random.random());
        for client in 0..CLIENTS {
            let clock = LocalClock::default();
            stage.start_client(client, front_end_machine(), clock, random.random());
        }
        Self {
            stage,
            random,
            explorer,
            mishaps: setup.mishaps.clone(),
            moments: Moments::new(setup.every_moment),
        }
    }

    fn do_due_mishap(&mut self) {
        let answers = self.stage.answers();
        if !self.stage.nodes[0].is_running() {
            return;
        }
        let Some((_, mishap)) = self.mishaps.pop_if(|(after, _)| *after <= answers) else {
            return;
        };
        let client = self.random.random_range(0..CLIENTS);
        match mishap {
            Mishap::BackEndKilled => {
                self.stage.kill(0);
                self.stage.count("back_end_kills");
            }
            Mishap::PowerCut => self.stage.cut_power_of_some(&mut self.random),
            Mishap::FrontEndKilled => {
                self.stage.clients[client as usize].process.kill();
                self.stage.mark(format!("front-end {client} is killed"));
                self.stage.count("front_end_kills");
                let (clock, seed) = (LocalClock::default(), self.random.random());
                self.stage
                    .start_client(client, front_end_machine(), clock, seed);
            }
            Mishap::LinksCut => {
                let stage = &mut self.stage;
                let front_ends = stage.clients.iter().map(|client| client.machine);
                let front_ends: Vec<_> = front_ends.collect();
                let back_end = stage.nodes[0].machine;
                let cut = partition(&stage.world, back_end, &front_ends, &mut self.random);
                stage.mark(format!("a partition {cut}"));
                stage.count("partitions");
            }
            Mishap::FrontEndPaused => {
                let process = self.stage.clients[client as usize].process.clone();
                let duration = self.pause(&process, &format!("front-end {client}"));
                self.stage.count("front_end_pauses");
                if duration > LEASE_NS {
                    self.stage.count("front_end_pauses_past_the_lease");
                }
            }
            Mishap::BackEndPaused => {
                let process = self.stage.nodes[0].process().expect("it runs").clone();
                let duration = self.pause(&process, "the back-end");
                self.stage.count("back_end_pauses");
                if duration > LEASE_NS {
                    self.stage.count("back_end_pauses_past_the_lease");
                }
            }
        }
    }

    /// Lets a process hang for a while, and returns for how long.
    fn pause(&mut self, process: &Process, name: &str) -> Nanoseconds {
        let duration = self.random.random_range(PAUSE_NS);
        process.pause(duration);
        self.stage.mark(format!("{name} hangs for {duration} ns"));
        duration
    }

    /// Examines the states that a power cut at this moment would leave.
    fn look_at_crash(&mut self) {
        let now = self.stage.stores_and_answers();
        if self.moments.is_due(now, &mut self.random) {
            let ledger = self.stage.subject.ledger.borrow().clone();
            self.stage.examine(&mut self.explorer, &ledger);
        }
    }
}
