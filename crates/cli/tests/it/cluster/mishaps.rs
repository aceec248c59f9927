//! Nodes are killed, or stand still for longer than their leases, while clients write.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::RngExt as _;

use crate::support::not_run;

use super::etcd::Etcd;
use super::gateways;
use super::servers::{NODES, Servers, connect, read, write};

/// A client that counts up under keys of its own, until it is told to stop. Returns the count under each key that was
/// acknowledged last.
fn count_up(url: &str, writer: u32, stops: &AtomicBool) -> Vec<u64> {
    let client = connect(url);
    let mut acknowledged = vec![0; 16];
    let mut longest = Duration::ZERO;
    for turn in 1_u64.. {
        if stops.load(Ordering::Relaxed) {
            break;
        }
        for (number, known) in acknowledged.iter_mut().enumerate() {
            let begun = Instant::now();
            write(&client, &format!("{writer}/{number}"), turn);
            longest = longest.max(begun.elapsed());
            *known = turn;
        }
        let key = format!("{writer}/{}", turn % 16);
        let found = read(&client, &key);
        assert_eq!(found, turn.to_string().as_bytes(), "{key}");
    }
    println!("writer {writer}: the longest write took {longest:?}");
    acknowledged
}

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

/// Kills nodes, and stops some of them for longer than their leases, while clients write through the library and
/// through gateways.
fn goes_on(etcd: Option<Etcd>) {
    let mut servers = Servers::start(etcd);
    let stops = AtomicBool::new(false);
    let seed: u64 = std::env::var("NODE_SEED").map_or(std::process::id().into(), |seed| {
        seed.parse().expect("a number")
    });
    println!("NODE_SEED={seed}");
    let mut random = stonecast_base::random_from_seed(seed);
    let url = servers.url();
    let ports = Mutex::new(NODES.map(|node| servers.port(node, "redis://")));
    let (counts, histories) = std::thread::scope(|scope| {
        let (url, stops, ports) = (&url, &stops, &ports);
        let writers: Vec<_> = (0..2)
            .map(|writer| scope.spawn(move || count_up(url, writer, stops)))
            .collect();
        let counters: Vec<_> = (0..2)
            .map(|client| scope.spawn(move || gateways::increment(ports, client, stops)))
            .collect();
        for mishap in 0..mishaps() {
            std::thread::sleep(Duration::from_millis(random.random_range(50..700)));
            let index = random.random_range(0..3);
            let node = NODES[index];
            let pause = Duration::from_millis(random.random_range(150..450));
            // A third of the nodes stand still for longer than their leases, and go on.
            if mishap % 3 == 2 {
                servers.stop(node, pause);
            } else {
                servers.kill(node);
                std::thread::sleep(pause);
                servers.start_again(node);
                ports.lock().expect("no writer panics")[index] = servers.port(node, "redis://");
            }
        }
        std::thread::sleep(Duration::from_millis(500));
        stops.store(true, Ordering::Relaxed);
        let counts = writers
            .into_iter()
            .map(|it| it.join().expect("every write is done"));
        let counts: Vec<_> = counts.collect();
        let histories = counters
            .into_iter()
            .map(|it| it.join().expect("gateways answer"));
        (counts, histories.collect::<Vec<_>>())
    });
    let client = connect(&url);
    for (writer, counts) in counts.iter().enumerate() {
        println!("writer {writer}: {:?}", counts.first());
        for (number, count) in counts.iter().enumerate() {
            let key = format!("{writer}/{number}");
            let found = read(&client, &key);
            assert_eq!(found, count.to_string().as_bytes(), "{key}");
        }
    }
    gateways::judge(&histories, |key| {
        let value = read(&client, key);
        String::from_utf8(value)
            .expect("a number")
            .parse()
            .expect("a number")
    });
}
