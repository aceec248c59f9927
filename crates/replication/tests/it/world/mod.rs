//! Three nodes without a network: connections, mail and power are events that chance picks.
//!
//! ```text
//!   primary ──wire: lands, in order──▶ memory of a backup ──flush──▶ reports ──▶ primary
//!   heir ──mail: history and entries──▶ copy ──mail: confirmed──▶ heir
//!   primary ──mail: drop; pulled state──▶ joiner ──mail: pulled──▶ primary
//! ```
//!
//! NICs go on while a process stands still: what is on a wire lands, and is flushed. A configuration is a value here, and changes at once.

mod events;
mod joining;
mod node;
mod oracle;
mod settling;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};
use stonecast_cluster::{Epoch, NodeName, Term};
use stonecast_replication::Lineage;

use node::{Cell, Node};
use oracle::{Index, Key, Oracle};

const NODES: usize = 3;
const KEYS: Key = 3;
const EVENTS: usize = 2_000;

/// What goes wrong in a run: chances of each event, in a thousand.
#[derive(Debug, Default)]
struct Faults {
    power: u32,
    power_everywhere: u32,
    stops: u32,
    connection_ends: u32,
    changes_of_primary: u32,
    /// Of a hundred stops: those in the middle of an append.
    stops_inside: u32,
    /// Of a hundred entries that land.
    two_orders: u32,
    /// Of a hundred letters.
    mail_lost: u32,
    /// Of a hundred changes of primary.
    removes: u32,
}

impl Faults {
    fn draw(random: &mut Random) -> Self {
        let mut upto = |most: u32| match random.random_bool(0.5) {
            true => random.random_range(0..=most),
            false => 0,
        };
        Self {
            power: upto(4),
            power_everywhere: upto(2),
            stops: upto(10),
            connection_ends: upto(12),
            changes_of_primary: 2 + upto(8),
            stops_inside: upto(100),
            two_orders: upto(20),
            mail_lost: upto(40),
            removes: upto(60),
        }
    }
}

/// The one configuration.
struct Configuration {
    term: Term,
    primary: usize,
    in_sync: BTreeSet<usize>,
}

/// One connection for appends.
#[derive(Default)]
struct Wire {
    on_the_way: VecDeque<Cell>,
    /// Not flushed.
    landed: Vec<Cell>,
    reports: VecDeque<u64>,
    /// Its receiver could not quiesce it: what is on the way lands whenever its sender goes on.
    leaks: bool,
}

/// Term of the connection, sender, receiver.
type WireName = (Term, usize, usize);

enum Letter {
    History(Lineage, Vec<Cell>),
    Confirmed,
    /// Of a join, by its number: so is what follows.
    Drop(u64, Lineage),
    Pull(u64, Index),
    Pulled(u64),
}

struct Mail {
    term: Term,
    from: usize,
    to: usize,
    letter: Letter,
}

/// A node that is being filled.
#[derive(Clone, Copy)]
struct Join {
    term: Term,
    number: u64,
    /// The joiner has forgotten its earlier life, and accepts entries.
    dropped: bool,
}

struct World {
    random: Random,
    faults: Faults,
    configuration: Configuration,
    nodes: Vec<Node>,
    wires: BTreeMap<WireName, Wire>,
    mail: Vec<Mail>,
    /// Terms whose primary holds a lease.
    leases: BTreeSet<Term>,
    oracle: Oracle,
    writes: u64,
    takeovers: u64,
    joins: BTreeMap<usize, Join>,
    last_join: u64,
    joined: u64,
    /// Nothing goes wrong any more.
    is_calm: bool,
}

fn name(node: usize) -> NodeName {
    format!("n{node}").parse().expect("a name")
}

fn index_of(name: &NodeName) -> usize {
    name.as_str()[1..].parse().expect("a name of this world")
}

/// What a run did.
pub struct Counts {
    pub answers: u64,
    pub takeovers: u64,
    /// Nodes that came back.
    pub joined: u64,
}

/// A run. Panics where a promise is broken.
pub fn run(seed: u64) -> Counts {
    let mut random = random_from_seed(seed);
    let faults = Faults::draw(&mut random);
    let mut world = World {
        faults,
        configuration: Configuration {
            term: Epoch(1),
            primary: 0,
            in_sync: (0..NODES).collect(),
        },
        nodes: (0..NODES).map(|_| Node::new()).collect(),
        wires: BTreeMap::new(),
        mail: Vec::new(),
        leases: BTreeSet::new(),
        oracle: Oracle::default(),
        writes: 0,
        takeovers: 0,
        joins: BTreeMap::new(),
        last_join: 0,
        joined: 0,
        is_calm: false,
        random,
    };
    for _ in 0..EVENTS {
        world.mishap();
        world.event();
    }
    world.calm_down();
    Counts {
        answers: world.oracle.answers,
        takeovers: world.takeovers,
        joined: world.joined,
    }
}

#[test]
fn what_was_told_stays_true_whatever_befalls_the_nodes() {
    let mut answers = 0;
    let mut takeovers = 0;
    let mut joined = 0;
    for seed in 0..SEEDS {
        let counts = std::panic::catch_unwind(|| run(seed));
        let counts = counts.unwrap_or_else(|_| panic!("seed {seed}"));
        answers += counts.answers;
        takeovers += counts.takeovers;
        joined += counts.joined;
    }
    println!("{SEEDS} seeds, {answers} answers, {takeovers} takeovers, {joined} joins");
    let dull = answers < 30 * SEEDS || takeovers < SEEDS || joined < SEEDS / 4;
    assert!(!dull, "little happens in this world");
}

const SEEDS: u64 = 3_000;
