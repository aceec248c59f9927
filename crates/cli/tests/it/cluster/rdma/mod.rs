//! Nodes that reach each other over RDMA, in the machine of `cargo xtask guest`: each node has a device and a user of
//! its own at one switch, and the clients have the last device.
//!
//! ```text
//!   nodes     the processes, their pools and their links
//!   cuts      the power of the whole machine is cut under load
//! ```
//!
//! The stories are about the same pools, one story after the other, so each of them but the first one begins with a
//! start of all nodes after all were killed.

mod cuts;
mod nodes;

use std::time::Duration;

use nodes::{Nodes, PATIENCE};

use super::load::{Load, Ways, keys_of};

/// Keys of the clients of a story.
const KEYS: usize = 8;

/// Starts clients on keys that begin with `name`. No story uses the same pools with the same name.
fn start_load(nodes: &Nodes, name: &str) -> Load {
    let ways = Ways {
        connector: nodes.connector(),
        gateways: None,
        patience: PATIENCE,
        pause: Duration::ZERO,
    };
    Load::start(ways, keys_of(name, KEYS))
}

/// Needs the whole time of a session's start between machines: with 3 ms no node links its copies. A copy that lacks an
/// acknowledged write is seen when the other two nodes are gone.
#[test]
#[ignore = "needs the devices of the guest: cargo xtask guest --only verbs-cluster"]
fn primaries_are_killed_and_come_back_and_the_last_copy_has_every_acknowledged_write() {
    let mut nodes = Nodes::start();
    let load = start_load(&nodes, "copies");
    load.goes_on();
    let first = nodes.leader();
    nodes.kill(first);
    load.goes_on();
    let second = nodes.leader();
    nodes.kill(second);
    load.goes_on();
    nodes.start_again(first);
    nodes.start_again(second);
    nodes.wait_until_complete();
    nodes.wait_until_told();
    load.end().assert_linearizable();
}

#[test]
#[ignore = "needs the devices of the guest: cargo xtask guest --only verbs-cluster"]
fn clients_go_on_while_the_link_of_a_node_is_cut_and_then_down_and_the_node_comes_back_as_a_copy() {
    let nodes = Nodes::start();
    let load = start_load(&nodes, "links");
    load.goes_on();
    let leader = nodes.leader();
    nodes.cut(leader);
    load.goes_on();
    assert_ne!(nodes.leader(), leader, "an heir leads");
    nodes.heal(leader);
    nodes.wait_until_complete();
    load.goes_on();
    let leader = nodes.leader();
    nodes.take_down(leader);
    load.goes_on();
    assert_ne!(nodes.leader(), leader, "an heir leads");
    nodes.bring_up(leader);
    nodes.wait_until_complete();
    load.goes_on();
    load.end().assert_linearizable();
}

/// A machine without power sends nothing, not even the end of its connections.
#[test]
#[ignore = "needs the devices of the guest: cargo xtask guest --only verbs-cluster"]
fn clients_go_on_while_the_machine_of_the_primary_is_silent_and_its_process_is_gone() {
    let mut nodes = Nodes::start();
    let load = start_load(&nodes, "silence");
    load.goes_on();
    let leader = nodes.leader();
    nodes.cut(leader);
    nodes.kill(leader);
    load.goes_on();
    nodes.heal(leader);
    nodes.start_again(leader);
    nodes.wait_until_complete();
    load.goes_on();
    load.end().assert_linearizable();
}
