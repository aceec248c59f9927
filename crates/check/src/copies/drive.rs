//! One run: writes, power cuts of some machines, and an examination of what a cut of any of them would leave at each moment.

use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};
use stonecast_fabric_sim::{Fate, Fault, LocalClock, Survivor, World};

use crate::copies::setup::Setup;
use crate::copies::subject::Copies;
use crate::explorer::Explorer;
use crate::history::NodeId;
use crate::lab::Lab;
use crate::oracles::acknowledged::Allowed;
use crate::report::Report;
use crate::stage::{Node, Stage};
use crate::subject::Subject as _;
use crate::violation::Violation;
use crate::wrecks::Wrecks;

/// One in this many moments is examined, where not all are.
const MOMENTS: u32 = 20;

struct Run {
    stage: Stage<Copies>,
    random: Random,
    explorer: Explorer<Copies>,
    allowed: Allowed,
    /// Numbers of answers after which the power of some machines is cut.
    cuts: Vec<u64>,
    /// Stores and answers at the last look at a crash.
    seen: (u64, u64),
}

/// Runs `setup`.
pub(crate) fn run(scenario: &'static str, setup: &Setup) -> Report {
    let mut run = Run::new(scenario, setup);
    while !run.stage.clients_are_done() && run.stage.step() {
        run.cut_power_if_due();
        run.look_at_crash();
    }
    run.stage.report.crash_states = run.explorer.states;
    let cuts = [
        (Fault::RecoveryCrash, run.explorer.cut),
        (Fault::TornWrite, run.explorer.torn),
    ];
    for (fault, count) in cuts {
        let hits = &mut run.stage.report.faults_hit;
        *hits.entry(fault.class().name).or_default() += count;
    }
    run.stage.into_report()
}

impl Run {
    fn new(scenario: &'static str, setup: &Setup) -> Self {
        let world = World::new(setup.seed);
        let mut random = random_from_seed(setup.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let subject = Copies::new(setup.clone());
        let nodes = setup.machines.iter().map(|&options| {
            let machine = world.machine(options);
            Node::new(machine, world.module(machine, Survivor::default()))
        });
        let nodes: Vec<Node> = nodes.collect();
        let report = Report {
            sizes: setup.sizes(),
            options: setup.describe(),
            ..Report::new(scenario, setup.seed)
        };
        let mut stage = Stage::new(world, subject.clone(), nodes, report);
        subject.nodes().for_each(|node| stage.start(node));
        let lab = Rc::new(Lab::new(subject, setup.machines.iter().copied()));
        let explorer = Explorer::new(lab, setup.effort, random.random());
        let cuts = (0..setup.power_cuts).map(|_| random.random_range(1..setup.operations.max(2)));
        let cuts = cuts.collect();
        stage.start_client(0, setup.machines[0], LocalClock::default(), random.random());
        Self {
            stage,
            random,
            explorer,
            allowed: Allowed::default(),
            cuts,
            seen: (0, 0),
        }
    }

    fn answers(&self) -> u64 {
        self.stage.subject.testimony.history.borrow().answers()
    }

    /// Cuts the power of some machines, of all at times.
    fn cut_power_if_due(&mut self) {
        let answers = self.answers();
        let all_run = self.stage.nodes.iter().all(Node::is_running);
        if !all_run || self.cuts.pop_if(|after| *after <= answers).is_none() {
            return;
        }
        let wrecks = self.stage.wrecks();
        let mut fates: Vec<Fate> = (0..wrecks.undecided())
            .map(|unit| wrecks.whole(unit))
            .collect();
        let chosen = self.random.random_range(1..1_u64 << wrecks.machines());
        let is_cut = |machine: usize| chosen >> machine & 1 == 1;
        for machine in (0..wrecks.machines()).filter(|&machine| is_cut(machine)) {
            for unit in wrecks.units(machine) {
                fates[unit].stores = self.random.random_range(0..=wrecks.stores(unit));
            }
        }
        let what = format!("power is cut; {}", self.tell(&wrecks, &fates));
        let survivors = (0..).zip(wrecks.survivors(&fates));
        let cut = survivors.filter(|(node, _)| is_cut(*node as usize));
        self.stage.cut_power(cut.collect(), what);
        self.stage.count("power_cuts");
        self.stage.world.hit(Fault::PowerCut);
    }

    /// Examines what a power cut of any machines at this moment would leave.
    fn look_at_crash(&mut self) {
        let now = (self.stage.stores(), self.answers());
        let is_new = std::mem::replace(&mut self.seen, now) != now;
        let setup = &self.stage.subject.setup;
        if !is_new || !setup.every_moment && self.random.random_range(0..MOMENTS) != 0 {
            return;
        }
        let subject = self.stage.subject.clone();
        self.allowed.update(&subject.testimony.history.borrow());
        let wrecks = self.stage.wrecks();
        self.stage.world.hit(Fault::PowerCut);
        if let Some(finding) = self.explorer.explore(&wrecks, &self.allowed) {
            let left = self.tell(&wrecks, &finding.fates);
            let event = self.stage.world.events();
            let Violation { oracle, found } = finding.violation;
            self.stage.mark(format!(
                "if the power is cut here: {left}; then {oracle}: {found}"
            ));
            let text = format!("{found} (power cut after event {event}: {left})");
            self.stage.report.note(Violation::new(oracle, text));
        }
    }

    fn tell(&self, wrecks: &Wrecks, fates: &[Fate]) -> String {
        wrecks.describe(fates, |machine| self.stage.subject.name(machine as NodeId))
    }
}
