//! The gateways of nodes: each serves every key.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Reply, RespClient, http_get};

use super::nodes::{NODES, Servers};

/// Keys that all clients of gateways increment.
const COUNTERS: usize = 8;

/// The increments of one client, by key.
#[derive(Default)]
pub struct History {
    keys: BTreeMap<String, Increments>,
}

/// The increments of one key by one client, in their order.
#[derive(Default)]
struct Increments {
    /// The results of those that were acknowledged.
    acknowledged: Vec<i64>,
    /// The number of those whose outcome is unknown.
    unknown: i64,
}

fn key(number: usize) -> String {
    format!("counter/{number}")
}

/// A client that increments counters through the gateways of the nodes, one after the other, until it is told to stop.
pub fn increment(ports: &Mutex<[SocketAddr; 3]>, first: usize, stops: &AtomicBool) -> History {
    let mut history = History::default();
    let (mut node, mut client) = (first, None);
    for turn in 0.. {
        if stops.load(Ordering::Relaxed) {
            break;
        }
        let connected = client.get_or_insert_with(|| {
            let address = ports.lock().expect("nobody panics")[node % 3];
            RespClient::try_connect(address)
        });
        let key = key(turn % COUNTERS);
        let increments = history.keys.entry(key.clone()).or_default();
        let mut asked = connected.as_mut();
        let sent = asked
            .as_mut()
            .is_some_and(|connected| connected.send(&[vec!["INCR", &key]]));
        let Some(asked) = asked.filter(|_| sent) else {
            // The command was not sent as a whole: the node is away.
            (node, client) = (node + 1, None);
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        match asked.reply() {
            Some(Reply::Line(line)) if line.starts_with(':') => {
                increments
                    .acknowledged
                    .push(line[1..].parse().expect("a number"));
            }
            Some(Reply::Line(line)) if line.starts_with("-ERR ") => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Some(Reply::Line(line)) if line.starts_with("-UNKNOWN ") => increments.unknown += 1,
            Some(other) => panic!("{other:?}"),
            // The node died with the command.
            None => {
                increments.unknown += 1;
                (node, client) = (node + 1, None);
            }
        }
    }
    history
}

/// Increments of one key are linearizable if no result was given twice, each client's results ascend, and the results
/// that nobody was told are no more than the outcomes that are unknown.
pub fn judge(histories: &[History], value_of: impl Fn(&str) -> i64) {
    let mut all = 0;
    for number in 0..COUNTERS {
        let key = key(number);
        let of_key = || {
            histories
                .iter()
                .filter_map(|history| history.keys.get(&key))
        };
        let mut seen = BTreeSet::new();
        for increments in of_key() {
            let results = &increments.acknowledged;
            assert!(
                results.is_sorted_by(|one, next| one < next),
                "{key}: {results:?}"
            );
            for result in results {
                assert!(seen.insert(*result), "{key}: {result} was given twice");
            }
        }
        let (acknowledged, unknown) = (
            seen.len() as i64,
            of_key().map(|it| it.unknown).sum::<i64>(),
        );
        let value = value_of(&key);
        assert!(
            seen.last() <= Some(&value),
            "{key}: {value}, and {:?} was given",
            seen.last()
        );
        assert!(
            (acknowledged..=acknowledged + unknown).contains(&value),
            "{key}: {value} after {acknowledged} increments and {unknown} that are unknown"
        );
        all += acknowledged;
    }
    println!("{all} increments were acknowledged by gateways");
    assert!(all > 0, "the gateways serve");
}

/// Repeats a command until it is done: shards are placed after the start.
fn until_done(client: &mut RespClient, line: &str) -> Reply {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match client.call(line) {
            Reply::Line(line) if line.starts_with("-ERR ") => {
                assert!(Instant::now() < end, "{line}");
                std::thread::sleep(Duration::from_millis(50));
            }
            done => return done,
        }
    }
}

fn number(value: i64) -> Reply {
    Reply::Line(format!(":{value}"))
}

#[test]
fn the_gateway_of_each_node_serves_the_keys_of_all_nodes() {
    let mut servers = Servers::start(None);
    let mut clients = NODES.map(|node| RespClient::connect(servers.port(node, "redis://")));
    for n in 0..60 {
        let set = format!("SET key/{n} {n}");
        assert!(until_done(&mut clients[n % 3], &set).is_ok());
    }
    for client in &mut clients {
        for n in 0..60 {
            let found = client.call(&format!("GET key/{n}"));
            assert_eq!(found, Reply::bulk(n.to_string()));
        }
        assert_eq!(client.call("DBSIZE"), number(60));
    }
    let [a, b, c] = &mut clients;
    assert_eq!(a.call("INCR key/7"), number(8));
    assert_eq!(b.call("INCRBY key/7 10"), number(18));
    assert_eq!(c.call("SET key/7 x NX"), Reply::Bulk(None));
    assert_eq!(c.call("SET fresh x NX"), Reply::Line("+OK".to_owned()));
    assert_eq!(a.call("DEL fresh key/0 key/1 absent"), number(3));
    assert_eq!(b.call("EXISTS key/0 key/2"), number(1));
    let found = b.call("MGET key/2 key/0 key/7");
    let values = [Some("2"), None, Some("18")];
    let values = values.map(|value| Reply::Bulk(value.map(|value| value.as_bytes().to_vec())));
    assert_eq!(found, Reply::List(values.to_vec()));
    let long = "long".repeat(100_000);
    assert!(c.send(&[vec!["SET", "long", &long]]));
    assert!(c.reply().expect("a reply").is_ok());
    assert_eq!(a.call("GET long"), Reply::bulk(&long));
    overwrites_of_one_pipeline_stay_in_order(a);
    keys_expire(a, b);
    assert_eq!(
        scanned(b),
        58 + 2,
        "each key is found, whichever node has it"
    );
    let admin = servers.port("a", "http://");
    assert_eq!(http_get(admin, "/readyz").0, 200);
    let metrics = http_get(admin, "/metrics").1;
    for name in [
        "store_keys",
        "cluster_leads",
        "cluster_behind_entries",
        "cluster_appended_bytes",
    ] {
        assert!(
            metrics.contains(&format!("stonecast_{name}")),
            "{name} in {metrics}"
        );
    }
}

/// Commands of expiry by the gateways of two nodes, about keys of any node. No key is left.
fn keys_expire(one: &mut RespClient, other: &mut RespClient) {
    let done = Reply::Line("+OK".to_owned());
    for n in 0..10 {
        assert_eq!(one.call(&format!("SET goes/{n} x PX 40")), done);
        assert_eq!(one.call(&format!("SET stays/{n} x EX 100")), done);
        let Reply::Line(left) = other.call(&format!("TTL stays/{n}")) else {
            panic!("TTL returns a number");
        };
        assert!(left == ":100" || left == ":99", "{left}");
        assert_eq!(other.call(&format!("PERSIST stays/{n}")), number(1));
        assert_eq!(one.call(&format!("TTL stays/{n}")), number(-1));
        assert_eq!(one.call(&format!("EXPIRE stays/{n} 1000 XX")), number(0));
        assert_eq!(
            other.call(&format!("PEXPIRE stays/{n} 900000 NX")),
            number(1)
        );
        let value = one.call(&format!("GETEX stays/{n} PERSIST"));
        assert_eq!(value, Reply::bulk("x"));
        assert_eq!(one.call(&format!("DEL stays/{n}")), number(1));
    }
    for n in 0..10 {
        let end = Instant::now() + Duration::from_secs(10);
        while other.call(&format!("GET goes/{n}")) != Reply::Bulk(None) {
            assert!(Instant::now() < end, "the moment has come");
        }
        assert_eq!(one.call(&format!("PTTL goes/{n}")), number(-2));
        // A client may take a key for absent some milliseconds before its server does.
        let lock = format!("SET goes/{n} y NX PX 20");
        while one.call(&lock) != done {
            assert!(Instant::now() < end, "the key is absent");
        }
        while other.call(&format!("EXISTS goes/{n}")) != number(0) {}
    }
}

/// Needs writes of one key not to be in flight together: a node may answer a later one first.
fn overwrites_of_one_pipeline_stay_in_order(client: &mut RespClient) {
    let sets: Vec<_> = (0..50)
        .map(|n| vec!["SET".to_owned(), "one".to_owned(), n.to_string()])
        .collect();
    assert!(client.send(&sets));
    for _ in &sets {
        assert!(client.reply().expect("a reply").is_ok());
    }
    assert_eq!(client.call("GET one"), Reply::bulk("49"));
}

/// The number of keys that `SCAN` returns, a few at a time.
fn scanned(client: &mut RespClient) -> usize {
    let (mut cursor, mut found) = ("0".to_owned(), BTreeSet::new());
    loop {
        let Reply::List(parts) = client.call(&format!("SCAN {cursor} COUNT 7")) else {
            panic!("SCAN returns a list");
        };
        let [Reply::Bulk(Some(next)), Reply::List(keys)] = &parts[..] else {
            panic!("{parts:?}");
        };
        for key in keys {
            let Reply::Bulk(Some(key)) = key else {
                panic!("{key:?}");
            };
            found.insert(key.clone());
        }
        cursor = String::from_utf8(next.clone()).expect("a number");
        if cursor == "0" {
            return found.len();
        }
    }
}

/// Needs the next attempt at the heir, with the token of the first one.
#[test]
fn a_gateway_goes_on_when_the_primary_of_a_key_is_killed_and_each_increment_is_done_once() {
    let mut servers = Servers::start(None);
    let mut client = RespClient::connect(servers.port("a", "redis://"));
    for n in 0..COUNTERS {
        until_done(&mut client, &format!("SET {} 0", key(n)));
    }
    let leaders = servers.leaders();
    // On a busy machine, one node may lead everything for a while.
    let is_other = |node: &&&str| **node != "a" && leaders.iter().any(|it| it == **node);
    let killed = NODES.iter().find(is_other).unwrap_or(&"b");
    for round in 1..=30 {
        for n in 0..COUNTERS {
            let done = until_done(&mut client, &format!("INCR {}", key(n)));
            assert_eq!(done, number(round), "{}", key(n));
        }
        if round == 10 {
            servers.kill(killed);
        }
    }
}

/// Needs the configuration to be read for each command: a copy that is gone does not count.
#[test]
fn wait_says_how_many_copies_the_writes_of_a_connection_have() {
    let mut servers = Servers::start(None);
    let mut client = RespClient::connect(servers.port("a", "redis://"));
    assert!(until_done(&mut client, "SET key 1").is_ok());
    assert_eq!(
        client.call("WAIT 2 60000"),
        number(2),
        "a primary, and two copies"
    );
    // The pools of these servers survive processes alone.
    assert_eq!(
        client.call("WAITAOF 0 1 50"),
        Reply::List(vec![number(0), number(0)])
    );
    let began = Instant::now();
    assert_eq!(client.call("WAIT 3 300"), number(2));
    assert!(
        began.elapsed() >= Duration::from_millis(300),
        "it waits for its limit"
    );
    assert_ends_with_its_client(&mut servers);
    servers.kill("c");
    assert!(until_done(&mut client, "SET key 2").is_ok());
    let end = Instant::now() + Duration::from_secs(60);
    while client.call("WAIT 2 50") != number(1) {
        assert!(
            Instant::now() < end,
            "the copy of a killed node goes on counting"
        );
    }
    servers.start_again("c");
    assert_eq!(
        client.call("WAIT 2 60000"),
        number(2),
        "the node is filled again"
    );
}

/// Needs the look at the peer: nothing else ends a wait without a limit.
fn assert_ends_with_its_client(servers: &mut Servers) {
    let clients = |client: &mut RespClient| match client.call("CLIENT LIST") {
        Reply::Bulk(Some(lines)) => lines.split(|&byte| byte == b'\n').count(),
        other => panic!("{other:?}"),
    };
    let mut watcher = RespClient::connect(servers.port("b", "redis://"));
    let before = clients(&mut watcher);
    let mut waiting = RespClient::connect(servers.port("b", "redis://"));
    let forever = [vec!["WAIT", "9", "0"], vec!["PING"]];
    assert!(waiting.send(&forever));
    let mut until = |count: usize, what: &str| {
        let end = Instant::now() + Duration::from_secs(30);
        while clients(&mut watcher) != count {
            assert!(Instant::now() < end, "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    until(before + 1, "it connects");
    // The command has arrived, and waits.
    std::thread::sleep(Duration::from_millis(200));
    drop(waiting);
    until(before, "it waits for nobody");
}
