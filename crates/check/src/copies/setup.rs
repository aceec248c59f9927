//! The choices of a run, drawn from its seed.

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_fabric_sim::MachineOptions;

use crate::adjustment::Adjustment;
use crate::explorer::Effort;
use crate::machines;
use crate::report::Sizes;

/// The moment at which a client takes a write for done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// Every copy is persisted, by the plan for each platform.
    Persisted,
    /// Every copy has completed: a mistake that no failure of one machine shows, since another machine has the record.
    Completed,
}

/// The choices of a run.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub seed: u64,
    /// The machines that keep copies; each declares its own platform.
    pub machines: Vec<MachineOptions>,
    pub keys: u32,
    pub operations: u64,
    pub done: Done,
    /// Power cuts after which the run continues, each of some of the machines.
    pub power_cuts: u64,
    /// Whether every moment is examined, or only some.
    pub every_moment: bool,
    pub effort: Effort,
}

impl Setup {
    /// A few writes on two or three machines, a power cut of any of them at every moment.
    pub fn short(seed: u64) -> Self {
        let random = &mut random_from_seed(seed);
        let machines = random.random_range(2..4);
        Self {
            seed,
            machines: (0..machines).map(|_| machines::draw(random)).collect(),
            keys: random.random_range(1..4),
            operations: 6,
            done: Done::Persisted,
            power_cuts: random.random_range(0..2),
            every_moment: true,
            effort: Effort {
                states: 2_000,
                states_again: 10,
                cut_percent: 12,
            },
        }
    }

    /// Applies `adjustment`.
    pub fn adjust(&mut self, adjustment: &Adjustment) {
        self.operations = Adjustment::at_most(adjustment.operations, self.operations).max(1);
        self.keys = Adjustment::at_most(adjustment.keys, self.keys).max(1);
        if adjustment.without.contains("power_cut") {
            self.power_cuts = 0;
        }
        self.every_moment |= adjustment.every_moment;
        if adjustment.canary {
            self.done = Done::Completed;
        }
    }

    /// The size of the run.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            clients: 1,
            lanes: 1,
            keys: self.keys,
            operations: self.operations,
        }
    }

    /// The other choices of the seed, for people.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        let platforms = self.machines.iter().map(machines::describe);
        vec![
            ("machines", platforms.collect::<Vec<_>>().join(", ")),
            ("power cuts", self.power_cuts.to_string()),
        ]
    }
}
