//! An intake without peers and without a task.

use std::rc::Rc;

use stonecast_backup::{Intake, Lent, Pool};
use stonecast_fabric_sim::{Fate, Machine, Module, SimBacking, Survivor, World};
use stonecast_media::Backing as _;

use super::recovery::{Left, recover};
use super::{COMPLETIONS, KEY, Setup};

/// An intake that only the story calls.
pub struct Alone {
    pub world: World,
    machine: Machine,
    module: Rc<Module>,
    pub intake: Intake,
}

impl Alone {
    pub fn start(seed: u64, setup: &Setup) -> Self {
        let world = World::new(seed);
        let machine = world.machine(setup.machine());
        let module = world.module(machine, Survivor::default());
        let region = SimBacking::new(&module).open_log(setup.log()).unwrap();
        let port = world.process(machine).port(COMPLETIONS).unwrap();
        let pool = Pool {
            region: region.clone(),
            appended: region.clone(),
            format: setup.format(),
            key: KEY,
            ledger: setup.share(Default::default(), region),
            segments: Vec::new(),
            earlier_writers_are_gone: true,
        };
        let intake = Intake::start(&port, pool, &setup.options(1)).unwrap();
        Self {
            world,
            machine,
            module,
            intake,
        }
    }

    pub fn lend_two(&mut self) {
        for number in 0..2 {
            let (before, heritage) = (None, Default::default());
            self.intake.lend(Lent {
                number,
                before,
                heritage,
            });
        }
    }

    /// The least that a power cut leaves.
    pub fn cut_power(&self, setup: &Setup) -> Left {
        let wreck = self.world.wreck(self.machine, &self.module);
        let fates = vec![Fate::default(); wreck.undecided()];
        self.module.restart(wreck.survivor(&fates));
        let region = SimBacking::new(&self.module).open_log(setup.log()).unwrap();
        recover(&*region, &setup.format())
    }
}
