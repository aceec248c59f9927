//! The parts of nodes that outlive their processes, and the first configuration.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

use stonecast_cluster::{
    Attempt, Configuration, EpochCell, Known, Node as Described, NodeName, Nonce, Pending, Policy,
    Start, Timing,
};
use stonecast_fabric_sim::SimBacking;
use stonecast_media::{Durability, OpenMode, Pool, PoolOptions};
use uuid::Uuid;

use crate::history::NodeId;
use crate::kv_cluster::setup::Setup;

pub(super) const NONCE: Nonce = Nonce::from_u128(0x5707_eca5);
/// The seed by which all nodes hash keys.
const CLUSTER_SEED: u64 = 0x5eed_0f4c_1057_e72b;
pub(super) const SEGMENT_SIZE: u64 = 256 << 10;

/// The epoch of a node, durable at once.
#[derive(Clone, Default)]
pub(super) struct EpochOf(pub Rc<RefCell<Option<Known>>>);

impl EpochCell for EpochOf {
    type Error = Infallible;

    fn load(&self) -> Option<Known> {
        *self.0.borrow()
    }

    fn store<'a>(&'a self, known: Known) -> Pending<'a, Result<(), Self::Error>> {
        Box::pin(async move {
            *self.0.borrow_mut() = Some(known);
            Ok(())
        })
    }
}

pub(super) fn name(node: NodeId) -> NodeName {
    let letter = char::from(b'a' + node as u8);
    letter.to_string().parse().expect("a letter is a name")
}

pub(super) fn address(node: NodeId) -> String {
    format!("sim:node-{}", name(node))
}

/// Makes the pool of a node.
pub(super) fn create(setup: &Setup, node: NodeId, backing: SimBacking) {
    let platform = setup.machines[node as usize].platform;
    let pool = PoolOptions {
        capacity: setup.segments * SEGMENT_SIZE,
        segment_size: SEGMENT_SIZE,
        shards: setup.shards,
        cluster_seed: Some(CLUSTER_SEED),
        platform,
        durability: Durability::Power,
        entropy: [node as u8 + 1; 64],
    };
    let made = Pool::create(Rc::new(backing), pool);
    drop(made.expect("the declaration fits the machine"));
}

/// The node of the pool in `backing`, as it registers.
pub(super) fn described(setup: &Setup, node: NodeId, backing: SimBacking) -> Described {
    let inspected = Pool::open(Rc::new(backing), OpenMode::Inspect);
    let (pool, _) = inspected.expect("the pool was made");
    let platform = setup.machines[node as usize].platform;
    Described::new(
        pool.uuid(),
        Durability::Power,
        platform,
        vec![address(node)],
    )
}

/// The first configuration: nodes are registered, and shards are placed.
pub(super) fn first_configuration(
    setup: &Setup,
    described: impl Iterator<Item = Described>,
) -> Configuration {
    let policy = Policy {
        lease: Timing::DEDICATED_CORES,
        remove_after_ns: setup.remove_after_ns,
        ..Policy::new(setup.replicas, setup.shards)
    };
    let attempt = Attempt {
        writer: "founder".to_owned(),
        number: Uuid::from_u128(1),
    };
    let mut configuration = Configuration::create(NONCE, policy, attempt);
    for (node, described) in (0..).zip(described) {
        let registered = configuration.register(&name(node), &Start::first(described));
        configuration = registered.expect("each name is new");
    }
    configuration
        .place_shards()
        .expect("there are nodes enough")
}
