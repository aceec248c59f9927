//! The choices of a run, drawn from its seed.

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_fabric_sim::MachineOptions;

use crate::adjustment::Adjustment;
use crate::explorer::Effort;
use crate::machines;
use crate::report::Sizes;

/// Front-ends that write, and then front-ends that read.
pub(super) const WRITERS: u32 = 2;
pub(super) const CLIENTS: u32 = 3;

/// A mishap at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mishap {
    BackEndKilled,
    /// The back-end hangs, for longer than the leases of its front-ends at times.
    BackEndPaused,
    FrontEndKilled,
    /// A front-end hangs, for longer than its lease at times.
    FrontEndPaused,
    /// Links between the back-end and front-ends are cut, and heal after a while.
    LinksCut,
    PowerCut,
}

/// The choices of a run.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub seed: u64,
    pub machine: MachineOptions,
    /// Bytes of a slab. In small ones logs are trimmed, and slabs are asked for.
    pub slab_size: u64,
    /// Keys of each structure with keys.
    pub keys: u32,
    pub operations: u64,
    /// Mishaps, each with the number of answers after which it comes, the last ones first.
    pub mishaps: Vec<(u64, Mishap)>,
    /// Whether every moment is examined, or only some.
    pub every_moment: bool,
    pub effort: Effort,
    /// The back-end takes visible words for durable: a mistake.
    pub is_mistaken: bool,
}

impl Setup {
    /// Some dozen operations, with a few mishaps.
    pub fn drawn(seed: u64) -> Self {
        let random = &mut random_from_seed(seed);
        let operations = random.random_range(20..140);
        let machine = machines::draw(random);
        let kinds = [
            Mishap::BackEndKilled,
            Mishap::BackEndPaused,
            Mishap::FrontEndKilled,
            Mishap::FrontEndPaused,
            Mishap::LinksCut,
            Mishap::PowerCut,
        ];
        let mut mishaps: Vec<(u64, Mishap)> = (0..random.random_range(0..5))
            .map(|_| {
                let after = random.random_range(1..operations);
                (after, kinds[random.random_range(0..kinds.len())])
            })
            .collect();
        mishaps.sort_by_key(|(after, _)| std::cmp::Reverse(*after));
        Self {
            seed,
            machine,
            slab_size: [1 << 14, 1 << 15, 1 << 17][random.random_range(0..3)],
            keys: random.random_range(1..4),
            operations,
            mishaps,
            every_moment: false,
            effort: Effort {
                states: 4,
                states_again: 2,
                cut_percent: 10,
            },
            is_mistaken: false,
        }
    }

    /// A few operations, every moment of which is examined.
    pub fn short(seed: u64) -> Self {
        let drawn = Self::drawn(seed);
        let random = &mut random_from_seed(seed ^ 0x73_686f_7274);
        let operations = random.random_range(4..12);
        let mut mishaps = drawn.mishaps;
        mishaps.truncate(2);
        for (after, _) in &mut mishaps {
            *after = random.random_range(1..operations);
        }
        mishaps.sort_by_key(|(after, _)| std::cmp::Reverse(*after));
        Self {
            operations,
            mishaps,
            every_moment: true,
            effort: Effort {
                states: 24,
                states_again: 6,
                cut_percent: 10,
            },
            ..drawn
        }
    }

    /// Applies `adjustment`.
    pub fn adjust(&mut self, adjustment: &Adjustment) {
        self.operations = Adjustment::at_most(adjustment.operations, self.operations).max(1);
        self.keys = Adjustment::at_most(adjustment.keys, self.keys).max(1);
        for (name, left_out) in [
            ("power_cut", Mishap::PowerCut),
            ("partition", Mishap::LinksCut),
        ] {
            if adjustment.without.contains(name) {
                self.mishaps.retain(|(_, mishap)| *mishap != left_out);
            }
        }
        self.every_moment |= adjustment.every_moment;
        self.is_mistaken |= adjustment.canary;
    }

    /// The size of the run.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            clients: CLIENTS,
            lanes: 1,
            keys: self.keys,
            operations: self.operations,
        }
    }

    /// The other choices of the seed, for people.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        vec![
            ("back-end", machines::describe(&self.machine)),
            ("slabs", format!("{} bytes", self.slab_size)),
            ("mishaps", format!("{:?}", self.mishaps)),
        ]
    }
}
