//! Clusters at the start of a story.

use std::str::FromStr as _;

use stonecast_base::{Random, random_from_seed};
use stonecast_cluster::{Attempt, Configuration, Found, Node, NodeName, Policy, Start, Subject};
use stonecast_media::{Ddio, DeclaredPlatform, Durability, PersistenceDomain, ReceiveBuffers};
use uuid::Uuid;

pub const NONCE: Uuid = Uuid::from_u128(0x5707_eca5);

pub fn name(text: &str) -> NodeName {
    NodeName::from_str(text).unwrap()
}

pub fn random(seed: u64) -> Random {
    random_from_seed(seed)
}

pub fn an_attempt() -> Attempt {
    Attempt {
        writer: "test".to_owned(),
        number: Uuid::from_u128(1),
    }
}

pub fn node(pool: u128) -> Node {
    node_that_survives(pool, Durability::Power)
}

pub fn node_that_survives(pool: u128, durability: Durability) -> Node {
    let platform = DeclaredPlatform {
        persistence_domain: PersistenceDomain::Dmp,
        ddio: Ddio::Off,
        receive_buffers: ReceiveBuffers::Pm,
    };
    let addresses = vec![format!("shm:/run/{pool}.sock")];
    Node::new(Uuid::from_u128(pool), durability, platform, addresses)
}

/// A start of the node of `pool`. Nothing is missing from the pool.
pub fn start(pool: u128) -> Start {
    start_of(node(pool))
}

/// A start of `node`. Nothing is missing from its pool.
pub fn start_of(node: Node) -> Start {
    Start {
        node,
        cluster: Some(NONCE),
        found: Found::nothing(),
    }
}

/// Three nodes, a, b and c, of pools 1, 2 and 3, without groups.
pub fn three_nodes(policy: Policy) -> Configuration {
    let mut configuration = Configuration::create(NONCE, policy, an_attempt());
    for (pool, text) in (1..).zip(["a", "b", "c"]) {
        configuration = configuration.register(&name(text), &start(pool)).unwrap();
    }
    configuration
}

/// Three copies of each of four shards.
pub fn placed() -> Configuration {
    three_nodes(Policy::new(3, 4)).place_shards().unwrap()
}

/// The first shard.
pub fn shard(configuration: &Configuration) -> Subject {
    configuration.groups[0].subject.clone()
}
