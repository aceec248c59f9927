//! The gateways of nodes: each serves every key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Reply, RespClient, http_get};

use super::load::{Fate, GatewayClient};
use super::servers::{NODES, SHARDS, Servers};

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
pub fn increment(mut client: GatewayClient, stops: &AtomicBool) -> History {
    let mut history = History::default();
    for turn in 0.. {
        if stops.load(Ordering::Relaxed) {
            break;
        }
        let key = key(turn % COUNTERS);
        let increments = history.keys.entry(key.clone()).or_default();
        match client.ask(vec!["INCR", &key]) {
            Fate::Done(Reply::Line(line)) if line.starts_with(':') => {
                let result = line[1..].parse().expect("a number");
                increments.acknowledged.push(result);
            }
            Fate::Done(other) => panic!("{other:?}"),
            Fate::Refused => {}
            Fate::Unknown => increments.unknown += 1,
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
    let mut servers = Servers::undisturbed(SHARDS);
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
    for family in ["shard_power_durable{shard=", "copy_behind_bytes{shard="] {
        let family = format!("stonecast_cluster_{family}");
        assert!(metrics.contains(&family), "{family} in {metrics}");
    }
    let page = include_str!("../../../../../docs/gateway.md");
    let lines = metrics.lines();
    let types = lines.filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    for name in types {
        let name = name.trim_end_matches("_total");
        assert!(
            page.contains(&format!("`{name}`")),
            "{name} is in docs/gateway.md"
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
        // A takeover puts the time of the shard ahead.
        let seconds: u32 = left[1..].parse().expect("a number");
        assert!((60..=100).contains(&seconds), "{left}");
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
        // A client may take a key for absent some milliseconds before another one and its server do.
        while one.call(&format!("PTTL goes/{n}")) != number(-2) {
            assert!(Instant::now() < end, "the moment has come");
        }
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

/// Needs the declarations of the pools: a pool that survives processes alone is no disk.
#[test]
fn waitaof_says_on_which_disks_the_writes_of_a_connection_are() {
    let mut servers = Servers::undisturbed_on_disks(&["a", "b"]);
    let mut client = RespClient::connect(servers.port("a", "redis://"));
    assert!(until_done(&mut client, "SET key 1").is_ok());
    assert_eq!(client.call("WAIT 2 60000"), number(2));
    let (here, elsewhere) = match servers.leaders()[0].as_str() {
        "c" => (0, 2),
        _ => (1, 1),
    };
    assert_eq!(
        client.call(&format!("WAITAOF {here} {elsewhere} 60000")),
        Reply::List(vec![number(here), number(elsewhere)])
    );
    let began = Instant::now();
    assert_eq!(
        client.call("WAITAOF 0 3 300"),
        Reply::List(vec![number(here), number(elsewhere)])
    );
    assert!(
        began.elapsed() >= Duration::from_millis(300),
        "it waits for its limit"
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

/// Sends a transaction in one piece, as the default pipeline of redis-py does. Returns the reply to its `EXEC`.
fn transaction(client: &mut RespClient, commands: &[&str]) -> Reply {
    let all = ["MULTI"].iter().chain(commands).chain(&["EXEC"]);
    let all: Vec<Vec<&str>> = all.map(|line| line.split(' ').collect()).collect();
    assert!(client.send(&all));
    let mut replies: Vec<Reply> = all
        .iter()
        .map(|_| client.reply().expect("a reply"))
        .collect();
    let last = replies.pop().expect("EXEC has a reply");
    assert_eq!(replies[0], Reply::Line("+OK".to_owned()));
    for reply in &replies[1..] {
        assert_eq!(*reply, Reply::Line("+QUEUED".to_owned()));
    }
    last
}

fn ok() -> Reply {
    Reply::Line("+OK".to_owned())
}

#[test]
fn gateways_of_a_cluster_with_one_shard_do_every_transaction() {
    let mut servers = Servers::undisturbed(1);
    let mut clients = NODES.map(|node| RespClient::connect(servers.port(node, "redis://")));
    assert!(until_done(&mut clients[0], "SET stock 7").is_ok());
    let [a, b, c] = &mut clients;
    let commands = [
        "DECR stock",
        "SET order one NX",
        "SET lock x PX 100000",
        "PTTL absent",
        "GET order",
    ];
    let done = vec![number(6), ok(), ok(), number(-2), Reply::bulk("one")];
    assert_eq!(transaction(b, &commands), Reply::List(done));
    assert_eq!(b.call("WAIT 2 60000"), number(2), "the writes of EXEC");
    assert_eq!(c.call("GET stock"), Reply::bulk("6"));
    assert_eq!(a.call("WATCH stock"), ok());
    assert_eq!(c.call("SET stock 5"), ok());
    let lost = transaction(a, &["SET stock 0", "SET other 1"]);
    assert_eq!(lost, Reply::List(Vec::new()), "the watched key has changed");
    assert_eq!(a.call("EXISTS other"), number(0));
    assert_eq!(b.call("MSETNX order two fresh 1"), number(0));
    assert_eq!(b.call("EXISTS fresh"), number(0));
    assert_eq!(b.call("MSETNX x 1 y 2 z 3"), number(1));
    assert_eq!(c.call("RENAME x renamed"), ok());
    assert_eq!(c.call("COPY renamed copied"), number(1));
    let found = transaction(a, &["GET x", "GET renamed", "GET copied"]);
    let values = [Reply::Bulk(None), Reply::bulk("1"), Reply::bulk("1")];
    assert_eq!(found, Reply::List(values.to_vec()));
    assert_eq!(a.call("MULTI"), ok());
    assert_eq!(a.call("DISCARD"), ok());
    batch_of_the_command_line(&servers);
}

/// `stonecast batch` writes to a cluster as to a server.
fn batch_of_the_command_line(servers: &Servers) {
    let mut batch = crate::support::command();
    batch.args(["batch", "--json", "--connect", &servers.url()]);
    let lines =
        b"{\"key\":\"y\",\"expect\":\"present\",\"value\":\"4\"}\n{\"key\":\"z\",\"delete\":true}";
    let done = crate::support::run(batch, lines).json();
    assert_eq!((&done["keys"], &done["changes"]), (&2.into(), &2.into()));
    let mut again = crate::support::command();
    again.args(["batch", "--json", "--connect", &servers.url()]);
    let lines = b"{\"key\":\"y\",\"value\":\"5\"}\n{\"key\":\"z\",\"expect\":\"present\"}";
    let refused = crate::support::run(again, lines).json_failure(6, "conflict");
    assert_eq!(refused["key"], "z");
}

/// Needs the shards of the keys: a client that hears the error knows that nothing was done.
#[test]
fn keys_of_several_shards_are_refused_as_redis_cluster_refuses_them() {
    let mut servers = Servers::undisturbed(SHARDS);
    let mut client = RespClient::connect(servers.port("a", "redis://"));
    let is_crossing = |reply: &Reply| match reply {
        Reply::Line(line) => line.starts_with("-CROSSSLOT the keys "),
        _ => false,
    };
    assert!(until_done(&mut client, "SET first 1").is_ok());
    let (mut beside, mut apart) = (Vec::new(), Vec::new());
    for n in 0..200 {
        let other = format!("other/{n}");
        let reply = until_done(&mut client, &format!("MSETNX {other} 1 absent/first 1"));
        match is_crossing(&reply) {
            true => apart.push(other),
            false => {
                assert_eq!(reply, number(1));
                assert_eq!(client.call(&format!("DEL {other} absent/first")), number(2));
                beside.push(other);
            }
        }
        if beside.len() > 1 && !apart.is_empty() {
            break;
        }
    }
    let ([one, two, ..], [other, ..]) = (&beside[..], &apart[..]) else {
        panic!("six shards: {beside:?} and {apart:?}");
    };
    let (set, set_two) = (format!("SET {one} 1"), format!("SET {two} 1"));
    let refused = transaction(&mut client, &[&set, &set_two, &format!("SET {other} 1")]);
    assert!(is_crossing(&refused), "{refused:?}");
    let read = transaction(
        &mut client,
        &[&format!("GET {one}"), &format!("GET {other}")],
    );
    assert!(is_crossing(&read), "no moment of two shards: {read:?}");
    let exist = format!("EXISTS {one} {two} {other}");
    assert_eq!(client.call(&exist), number(0), "nothing was done");
    let done = transaction(&mut client, &[&set, &set_two]);
    assert_eq!(done, Reply::List(vec![ok(), ok()]));
    assert_eq!(client.call(&exist), number(2));
}

/// Each transaction moves an amount from one key to another. The sum stays, whatever becomes of the transactions that
/// nobody has answered.
#[test]
fn transactions_stay_whole_when_the_primary_of_their_keys_is_killed() {
    let mut servers = Servers::of_shards(1);
    let mut client = RespClient::connect(servers.port("a", "redis://"));
    assert!(until_done(&mut client, "MSET from 0 to 0").is_ok());
    for victim in ["b", "c", "a"] {
        let port = servers.port(if victim == "a" { "b" } else { "a" }, "redis://");
        let mut client = RespClient::connect(port);
        let (mut done, mut rounds) = (0, 0);
        let end = Instant::now() + Duration::from_secs(60);
        while done < 40 {
            assert!(Instant::now() < end, "{done} are done without {victim}");
            rounds += 1;
            if rounds == 10 {
                servers.kill(victim);
            }
            match transaction(&mut client, &["DECRBY from 3", "INCRBY to 3"]) {
                Reply::List(_) => done += 1,
                Reply::Line(line) if line.starts_with("-ERR ") || line.starts_with("-UNKNOWN ") => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                other => panic!("{other:?}"),
            }
            let Reply::List(values) = transaction(&mut client, &["GET from", "GET to"]) else {
                continue;
            };
            let values = values.iter().map(|value| match value {
                Reply::Bulk(Some(value)) => String::from_utf8_lossy(value).parse::<i64>(),
                other => panic!("{other:?}"),
            });
            assert_eq!(values.map(|value| value.expect("a number")).sum::<i64>(), 0);
        }
        servers.start_again(victim);
    }
}
