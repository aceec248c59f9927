//! The choices of a run, drawn from its seed.

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};

/// The choices of a run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The seed.
    pub seed: u64,
    /// Keys of each shard.
    pub keys: u8,
    /// Clients that call at the same time.
    pub clients: u32,
    /// The number of calls after which no further fault occurs.
    pub calls: u64,
    /// The fewest copies of a write.
    pub min_copies: usize,
    /// The mishaps.
    pub faults: Faults,
}

/// Chances of mishaps: events in a thousand, unless a field states another unit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The power of a node fails.
    pub power: u32,
    /// The power of all nodes fails.
    pub power_everywhere: u32,
    /// A process dies, and its machine continues.
    pub deaths: u32,
    /// A process stands still.
    pub stops: u32,
    /// Stops in the middle of an append, of a hundred stops.
    pub stops_inside: u32,
    /// A connection ends.
    pub connection_ends: u32,
    /// Entries that overtake an earlier one, of a hundred that land.
    pub two_orders: u32,
    /// Letters that get lost, of a hundred.
    pub mail_lost: u32,
    /// Cells that survive torn, of a hundred that are not durable in a power cut.
    pub torn: u32,
    /// Power cuts in which a device loses a durable entry, of a hundred.
    pub lost: u32,
    /// An entry of the cluster before it was restored comes to lie in the memory of a node.
    pub foreign: u32,
    /// Another node is made primary.
    pub changes_of_primary: u32,
    /// Changes that remove the old primary, of a hundred changes of primary.
    pub removes: u32,
    /// A primary hands its shard over.
    pub moves: u32,
    /// A primary is removed and does not hear of it: clients reach that primary, but neither letters nor
    /// configurations do.
    pub isolations: u32,
}

impl Setup {
    /// The choices of `seed`.
    pub fn new(seed: u64) -> Self {
        let random = &mut random_from_seed(seed);
        Self {
            seed,
            keys: 3,
            clients: random.random_range(3..10),
            calls: 150,
            min_copies: random.random_range(1..4),
            faults: Faults::draw(random),
        }
    }
}

impl Faults {
    /// Leaves out the mishaps of `class`, a fault class of the simulated world.
    pub fn leave_out(&mut self, class: &str) {
        match class {
            "power_cut" => (self.power, self.power_everywhere) = (0, 0),
            "process_killed" => self.deaths = 0,
            "host_hung" => self.stops = 0,
            "nic_reset" => self.connection_ends = 0,
            "read_on_other_queue_pair" => self.two_orders = 0,
            "partition" => (self.mail_lost, self.isolations) = (0, 0),
            "torn_write" => self.torn = 0,
            "lost_write" => self.lost = 0,
            "hostile_client" => self.foreign = 0,
            _ => {}
        }
    }

    fn draw(random: &mut Random) -> Self {
        let mut upto = |most: u32| match random.random_bool(0.5) {
            true => random.random_range(0..=most),
            false => 0,
        };
        Self {
            power: upto(3),
            power_everywhere: upto(2),
            deaths: upto(3),
            stops: upto(10),
            stops_inside: upto(100),
            connection_ends: upto(12),
            two_orders: upto(20),
            mail_lost: upto(40),
            torn: upto(60),
            lost: upto(60),
            foreign: upto(10),
            changes_of_primary: 2 + upto(8),
            removes: upto(60),
            moves: upto(80),
            isolations: upto(4),
        }
    }
}
