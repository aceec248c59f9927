//! Nodes are killed, or stand still for longer than their leases, while clients read and write the same keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::RngExt as _;
use stonecast_base::Random;

use crate::support::not_run;

use super::etcd::Etcd;
use super::gateways;
use super::load::{GatewayClient, Gateways, Load, keys_of};
use super::servers::{NODES, Servers, connect, read};

/// The number of times that nodes are killed and stopped: `NODE_KILLS`, or a few.
fn mishaps() -> u32 {
    let asked = std::env::var("NODE_KILLS").ok();
    asked.map_or(15, |asked| asked.parse().expect("a number"))
}

#[test]
fn acknowledged_writes_are_there_whichever_node_is_killed_or_stands_still() {
    goes_on(None);
}

#[test]
fn the_same_holds_when_the_configuration_is_in_an_etcd() {
    match Etcd::start() {
        Some(etcd) => goes_on(Some(etcd)),
        None => not_run("nodes with an etcd", "etcd is not installed"),
    }
}

/// Kills nodes, and stops some of them for longer than their leases, while clients of the library and of gateways work
/// on shared keys, and other clients of gateways increment counters. The calls and answers about each key are
/// linearizable, and each increment was done once.
fn goes_on(etcd: Option<Etcd>) {
    let mut servers = Servers::start(etcd);
    let seed: u64 = std::env::var("NODE_SEED").map_or(std::process::id().into(), |seed| {
        seed.parse().expect("a number")
    });
    println!("NODE_SEED={seed}");
    let mut random = stonecast_base::random_from_seed(seed);
    let (gateways, stops) = (servers.gateways(), AtomicBool::new(false));
    let load = Load::start(servers.ways(&gateways), keys_of("shared", 8));
    let increments = std::thread::scope(|scope| {
        let counters = [0, 1].map(|first| {
            let (client, stops) = (GatewayClient::new(gateways.clone(), first), &stops);
            scope.spawn(move || gateways::increment(client, stops))
        });
        for mishap in 0..mishaps() {
            std::thread::sleep(Duration::from_millis(random.random_range(50..700)));
            befall(&mut servers, &gateways, &mut random, mishap);
        }
        load.goes_on();
        load.wait_until_all_took_part();
        stops.store(true, Ordering::Relaxed);
        counters.map(|counter| counter.join().expect("gateways answer"))
    });
    let record = load.end();
    record.assert_linearizable();
    record.assert_tampering_is_noticed();
    let client = connect(&servers.url());
    gateways::judge(&increments, |key| {
        let value = String::from_utf8(read(&client, key)).expect("a number");
        value.parse().expect("a number")
    });
}

/// A node stands still for longer than its lease and goes on, or is killed and starts again: one of three stands still.
fn befall(servers: &mut Servers, gateways: &Arc<Gateways>, random: &mut Random, mishap: u32) {
    let index = random.random_range(0..NODES.len());
    let (node, pause) = (NODES[index], random.random_range(150..450));
    let pause = Duration::from_millis(pause);
    if mishap % 3 == 2 {
        servers.stop(node, pause);
    } else {
        servers.kill(node);
        std::thread::sleep(pause);
        servers.start_again(node);
        gateways.moved(index, servers.port(node, "redis://"));
    }
}
