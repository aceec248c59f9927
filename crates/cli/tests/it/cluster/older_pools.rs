//! A node starts with an older copy of its pool: it is refused, or filled anew, and nothing is lost.

use std::path::Path;

use crate::support::http_get;

use super::load::{Gateways, Load, keys_of};
use super::servers::{NODES, Servers};

const NODE: &str = "b";
/// Leases that outlast the waits of a process on a busy host: no node but the one of the story loses its copies.
const FLAGS: [&str; 4] = ["--lease", "1s", "--remove-after", "3s"];

/// Copies the files of a pool, into the same files if they are there.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder can be made");
    for entry in std::fs::read_dir(from).expect("the folder is there") {
        let entry = entry.expect("the folder can be read");
        if entry.file_type().expect("it has a type").is_file() {
            let copied = std::fs::copy(entry.path(), to.join(entry.file_name()));
            copied.expect("a file can be copied");
        }
    }
}

fn note_gateways(servers: &mut Servers, gateways: &Gateways) {
    for (index, node) in NODES.iter().enumerate() {
        gateways.moved(index, servers.port(node, "redis://"));
    }
}

/// The number of copies that nodes have found to lack entries.
fn found_lost(servers: &mut Servers) -> u64 {
    let counted = NODES.map(|node| {
        let metrics = http_get(servers.port(node, "http://"), "/metrics").1;
        let mut lines = metrics.lines();
        let line = lines.find(|line| line.starts_with("stonecast_cluster_lost_copies"));
        let (_, count) = line.and_then(|line| line.split_once(' ')).expect("a count");
        count.parse::<u64>().expect("a number")
    });
    counted.iter().sum()
}

/// Needs the other copies: the pool went back as a whole, as by a snapshot of the disk, and says nothing of it. All
/// nodes start at once, so the configuration still counts it as in sync, and names it as the primary of some shards.
#[test]
fn a_pool_that_went_back_while_all_nodes_were_stopped_is_filled_anew() {
    let mut servers = Servers::with_flags(&FLAGS, None);
    servers.wait_until_complete();
    let gateways = servers.gateways();
    let load = Load::start(servers.ways(&gateways), keys_of("back", 16));
    load.goes_on();
    let (pool, older) = (servers.data(NODE), servers.data("older"));
    servers.kill(NODE);
    copy(&pool, &older);
    servers.start_again(NODE);
    note_gateways(&mut servers, &gateways);
    servers.wait_until_complete();
    load.goes_on();

    NODES.iter().for_each(|node| servers.kill(node));
    copy(&older, &pool);
    servers.start_all_again();
    note_gateways(&mut servers, &gateways);
    load.goes_on();
    servers.wait_until_complete();
    load.goes_on();
    assert!(found_lost(&mut servers) > 0, "other copies know better");
    load.end().assert_linearizable();
}

/// Needs the place of the pool in its header: the copy is another file than the one that was served. No flag of a
/// server that is alone is named.
#[test]
fn a_copy_of_the_folder_of_a_node_that_was_not_closed_is_refused_with_the_way_to_replace_it() {
    let mut servers = Servers::with_flags(&FLAGS, None);
    servers.wait_until_complete();
    let gateways = servers.gateways();
    let load = Load::start(servers.ways(&gateways), keys_of("folder", 16));
    load.goes_on();
    let (pool, older) = (servers.data(NODE), servers.data("older"));
    servers.kill(NODE);
    copy(&pool, &older);
    servers.start_again(NODE);
    note_gateways(&mut servers, &gateways);
    load.goes_on();

    servers.kill(NODE);
    std::fs::rename(&pool, servers.data("newer")).expect("a folder can be renamed");
    std::fs::rename(&older, &pool).expect("a folder can be renamed");
    let message = servers.refused(NODE);
    for words in [
        "name the pool that was served",
        "stonecast cluster remove NODE",
        "start the node with a new pool",
    ] {
        assert!(message.contains(words), "{words} in {message}");
    }
    assert!(!message.contains("--accept-copy"), "{message}");
    load.goes_on();
    servers.cluster(&["remove", NODE]).text();
    std::fs::remove_dir_all(&pool).expect("a folder can be removed");
    servers.start_again(NODE);
    note_gateways(&mut servers, &gateways);
    servers.wait_until_complete();
    load.goes_on();
    load.end().assert_linearizable();
}
