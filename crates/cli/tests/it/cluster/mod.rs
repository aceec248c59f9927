//! `cluster`: the commands on the configuration of a cluster, on stores in files.

mod compose;
mod creation;
pub mod etcd;
mod etcd_loss;
mod gateways;
mod lag;
mod load;
mod mishaps;
mod nodes;
mod older_pools;
mod page;
mod rdma;
mod requests;
mod servers;
mod status;
mod using;
mod walk;

use std::process::Command;

use stonecast_cluster::{Configuration, Found, Node, NodeName, Revision, Start, Swap};
use stonecast_config_store::{executor, open};
use stonecast_media::{Ddio, DeclaredPlatform, Durability, PersistenceDomain, ReceiveBuffers};
use uuid::Uuid;

use crate::support::{Output, Place, command, run};

/// A store of configurations in a folder of its own, and the commands on it.
struct Cluster {
    place: Place,
}

impl Cluster {
    /// A store without a cluster.
    fn absent() -> Self {
        Self {
            place: Place::in_volatile_memory(),
        }
    }

    /// A cluster of the policy that `flags` ask for, without nodes.
    fn created(flags: &[&str]) -> Self {
        let cluster = Self::absent();
        cluster.run("create", flags).text();
        cluster
    }

    /// The address of the store, seen from the folder.
    const ADDRESS: &'static str = "file:./cluster";

    fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = command();
        command
            .args(["cluster", name])
            .args(arguments)
            .args(["--config-store", Self::ADDRESS])
            .current_dir(self.place.path());
        command
    }

    fn run(&self, name: &str, arguments: &[&str]) -> Output {
        run(self.command(name, arguments), b"")
    }

    /// The store from outside of a command.
    fn address(&self) -> String {
        format!("file:{}/cluster", self.place.path().display())
    }

    fn read(&self) -> (Revision, Configuration) {
        let store = open(&self.address()).expect("the address is good");
        let stored = executor().block_on(store.read());
        let stored = stored.expect("it can be read").expect("it was created");
        let configuration = Configuration::decode(&stored.bytes);
        (stored.revision, configuration.expect("a configuration"))
    }

    fn write(&self, bytes: &[u8]) {
        let store = open(&self.address()).expect("the address is good");
        let (revision, _) = self.read();
        let swap = executor().block_on(store.compare_and_set(Some(revision), bytes));
        assert!(matches!(swap, Ok(Swap::Done(_))), "{swap:?}");
    }

    /// Changes the configuration as a node does.
    fn change(&self, change: impl FnOnce(&Configuration) -> Configuration) {
        let mut next = change(&self.read().1);
        next.attempt.number = Uuid::from_u128(next.epoch.0.into());
        self.write(&next.encode());
    }

    /// Registers the first start of a node, whose pool survives `durability`.
    fn register(&self, text: &str, durability: Durability) {
        let platform = DeclaredPlatform {
            persistence_domain: PersistenceDomain::PageFile,
            ddio: Ddio::On,
            receive_buffers: ReceiveBuffers::Dram,
        };
        let pool = Uuid::from_bytes(*format!("{text:0>16}").as_bytes().first_chunk().expect("16"));
        let node = Node::new(
            pool,
            durability,
            platform,
            vec![format!("shm:./{text}/socket")],
        );
        self.change(|present| {
            let start = Start {
                cluster: Some(present.nonce),
                found: Found::nothing(),
                node,
            };
            present.register(&name(text), &start).expect("it is new")
        });
    }

    /// Three nodes, a, b and c, with copies of all shards.
    fn place(&self) {
        for node in ["a", "b", "c"] {
            self.register(node, Durability::Power);
        }
        self.change(|present| present.place_shards().expect("three nodes"));
    }
}

fn name(text: &str) -> NodeName {
    text.parse().expect("a name")
}
