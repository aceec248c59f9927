//! One run: writes, power cuts of some machines, and an examination of the states that a cut of any machines would
//! leave at each moment.

use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};
use stonecast_fabric_sim::{LocalClock, World};

use crate::copies::setup::Setup;
use crate::copies::subject::Copies;
use crate::explorer::Explorer;
use crate::lab::Lab;
use crate::moments::Moments;
use crate::oracles::acknowledged::Allowed;
use crate::report::Report;
use crate::stage::{Node, Stage};

struct Run {
    stage: Stage<Copies>,
    random: Random,
    explorer: Explorer<Copies>,
    allowed: Allowed,
    /// Numbers of answers after which the power of some machines is cut.
    cuts: Vec<u64>,
    moments: Moments,
}

/// Runs `setup`.
pub(crate) fn run(scenario: &'static str, setup: &Setup) -> Report {
    let mut run = Run::new(scenario, setup);
    while !run.stage.clients_are_done() && run.stage.step() {
        run.cut_power_if_due();
        run.look_at_crash();
    }
    run.stage.note_explored(&run.explorer);
    run.stage.into_report()
}

impl Run {
    fn new(scenario: &'static str, setup: &Setup) -> Self {
        let world = World::new(setup.seed);
        let mut random = random_from_seed(setup.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let subject = Copies::new(setup.clone());
        let machines = setup.machines.iter().copied();
        let report = Report {
            sizes: setup.sizes(),
            options: setup.describe(),
            ..Report::new(scenario, setup.seed)
        };
        let mut stage = Stage::begin(world, subject.clone(), machines.clone(), report);
        let lab = Rc::new(Lab::new(subject, machines));
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
            moments: Moments::new(setup.every_moment),
        }
    }

    /// Cuts the power of some machines, or of all.
    fn cut_power_if_due(&mut self) {
        let answers = self.stage.answers();
        let all_run = self.stage.nodes.iter().all(Node::is_running);
        if !all_run || self.cuts.pop_if(|after| *after <= answers).is_none() {
            return;
        }
        self.stage.cut_power_of_some(&mut self.random);
    }

    /// Examines the states that a power cut of any machines at this moment would leave.
    fn look_at_crash(&mut self) {
        let now = self.stage.stores_and_answers();
        if self.moments.is_due(now, &mut self.random) {
            let subject = self.stage.subject.clone();
            self.allowed.update(&subject.testimony.history.borrow());
            self.stage.examine(&mut self.explorer, &self.allowed);
        }
    }
}
