//! Everything of a run, and the loop of events.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};
use stonecast_cluster::{NodeName, Term};

use crate::clients::Clients;
use crate::configuration::Configuration;
use crate::following::Arriving;
use crate::node::{Node, any};
use crate::oracle::Oracle;
use crate::outcome::{Outcome, Step};
use crate::settling::Mail;
use crate::setup::{Faults, Setup};
use crate::wires::Wires;

/// The number of nodes of a world.
pub const NODES: usize = 3;
/// The number of shards of a world: with two, a worker counts versions for several shards.
pub const SHARDS: u32 = 2;
/// The number of events after which no further fault occurs, even if clients lack answers.
const EVENTS_MAX: u64 = 4_000;

/// A run on its way.
pub struct World {
    pub(crate) random: Random,
    pub(crate) setup: Setup,
    pub(crate) faults: Faults,
    pub(crate) configuration: Configuration,
    pub(crate) nodes: Vec<Node>,
    pub(crate) transit: Transit,
    pub(crate) grants: Grants,
    pub(crate) clients: Clients,
    pub(crate) oracle: Oracle,
    /// Shards and nodes whose device has lost an entry: such a copy must be filled again.
    pub(crate) lossy: BTreeSet<(u32, usize)>,
    /// Whether faults have ended.
    pub(crate) is_calm: bool,
    pub(crate) outcome: Outcome,
}

/// Everything on its way between nodes.
#[derive(Default)]
pub(crate) struct Transit {
    pub wires: Wires,
    pub mail: Vec<Mail>,
    /// Letters that still have entries to bring, by receiver and shard.
    pub arriving: BTreeMap<(usize, u32), Arriving>,
}

/// Everything that was granted.
#[derive(Default)]
pub(crate) struct Grants {
    /// Shards and terms whose primary holds a lease.
    pub leases: Vec<(u32, Term)>,
    pub last_join: u64,
}

/// The name of a node.
pub fn name(node: usize) -> NodeName {
    format!("n{node}").parse().expect("a name")
}

/// The number of the node called `name`.
pub fn number(name: &NodeName) -> usize {
    name.as_str()[1..].parse().expect("a name of this world")
}

impl World {
    /// A world in which nothing has happened.
    pub fn new(setup: &Setup) -> Self {
        Self {
            random: random_from_seed(setup.seed),
            faults: setup.faults,
            configuration: Configuration::first(),
            nodes: (0..NODES).map(Node::new).collect(),
            transit: Transit::default(),
            grants: Grants::default(),
            clients: Clients::new(setup.clients),
            oracle: Oracle::default(),
            lossy: BTreeSet::new(),
            is_calm: false,
            outcome: Outcome::default(),
            setup: setup.clone(),
        }
    }

    /// The record of the run so far, even after a panic.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// The record of the run.
    pub fn into_outcome(self) -> Outcome {
        self.outcome
    }

    /// Runs to the end, at which all copies agree.
    ///
    /// # Panics
    /// If a promise is broken.
    pub fn run(&mut self) {
        while self.outcome.counts.events < EVENTS_MAX
            && self.outcome.counts.calls < self.setup.calls
        {
            self.mishap();
            self.event();
        }
        self.calm_down();
    }

    pub(crate) fn chance(&mut self, of_a_thousand: u32) -> bool {
        self.random.random_ratio(of_a_thousand.min(1_000), 1_000)
    }

    pub(crate) fn show(&mut self, what: String) {
        self.outcome.show(Step::Other(what));
    }

    /// Lets one event happen.
    pub(crate) fn event(&mut self) {
        self.outcome.counts.events += 1;
        let shard = any(&mut self.random, SHARDS as usize) as u32;
        let node = self.busy_node(shard);
        match any(&mut self.random, 31) {
            0 => self.start_somebody(),
            1 | 2 | 26 | 27 => self.call(),
            3..=5 => self.work(node, |world| world.send(node)),
            6..=8 => self.land(),
            9 | 10 => self.flush(),
            11 => self.work(node, |world| world.hear_reports(node)),
            12 => self.work(node, |world| world.persist_here(node, shard)),
            13 => self.work(node, |world| world.settle(node, shard)),
            14 => self.work(node, |world| {
                world.nodes[node].scan(shard, &mut world.random);
                world.nodes[node].digest(shard, 2);
            }),
            15 if self.chance(300) => self.work(node, |world| {
                world.nodes[node].raise_floor(shard, &mut world.random);
            }),
            16 | 17 => self.read_mail(),
            28 | 29 => self.arrive(),
            30 if self.chance(600) => self.grant_lease(shard),
            18 | 19 => self.work(node, |world| world.take_over(node, shard)),
            20 => self.end_leases(),
            21 | 22 => self.work(node, |world| {
                world.hear_reports(node);
                world.settle(node, shard);
            }),
            23 => self.work(node, |world| world.fill(node, shard)),
            24 => self.work(node, |world| world.move_away(node, shard)),
            25 if self.chance(300) && !self.nodes[node].is_isolated => {
                self.work(node, |world| world.hear_configuration(node));
            }
            _ => {}
        }
    }

    /// Picks a node. The primary of the configuration is busier than others, and so is an earlier primary that does not
    /// know its successor.
    fn busy_node(&mut self, shard: u32) -> usize {
        let group = self.configuration.group(shard);
        let (primary, term) = (group.primary, group.term);
        let mut nodes = self.nodes.iter();
        let late = nodes.position(|node| node.leads(shard).is_some_and(|led| led < term));
        match any(&mut self.random, 6) {
            0..3 => primary,
            3 => late.unwrap_or(primary),
            _ => any(&mut self.random, NODES),
        }
    }

    /// An event in which no client calls and no lease ends.
    pub(crate) fn quiet_event(&mut self) {
        self.outcome.counts.events += 1;
        let shard = any(&mut self.random, SHARDS as usize) as u32;
        let node = any(&mut self.random, NODES);
        match any(&mut self.random, 8) {
            0 => self.send(node),
            1 => self.land(),
            2 => self.flush(),
            3 => self.hear_reports(node),
            4 => self.persist_here(node, shard),
            5 => self.settle(node, shard),
            6 => self.hear_configuration(node),
            _ => {
                self.nodes[node].scan(shard, &mut self.random);
                self.nodes[node].digest(shard, 2);
            }
        }
    }

    fn work(&mut self, node: usize, what: impl FnOnce(&mut Self)) {
        if self.nodes[node].runs() {
            what(self);
        }
    }
}
