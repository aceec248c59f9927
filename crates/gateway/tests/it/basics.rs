//! The effect and the reply of each command, in both protocols.

use std::time::{Duration, Instant};

use stonecast_media::Durability;

use crate::support::{Client, Reply, World, options};

const OK: &str = "OK";

#[test]
fn values_are_stored_read_and_deleted() {
    let world = World::start();
    let mut client = world.client();
    assert_eq!(client.words("GET a"), Reply::NoBulk);
    assert_eq!(client.words("SET a one"), Reply::simple(OK));
    assert_eq!(client.words("GET a"), Reply::bulk("one"));
    assert_eq!(client.words("MSET a 1 b 2 a 3"), Reply::simple(OK));
    assert_eq!(
        client.words("MGET a x b"),
        Reply::Array(vec![Reply::bulk("3"), Reply::NoBulk, Reply::bulk("2")])
    );
    assert_eq!(client.words("EXISTS a b x a"), Reply::Integer(3));
    assert_eq!(client.words("DEL a a x"), Reply::Integer(1));
    assert_eq!(client.words("UNLINK b"), Reply::Integer(1));
    assert_eq!(client.words("DBSIZE"), Reply::Integer(0));
}

#[test]
fn keys_and_values_are_any_bytes() {
    let world = World::start();
    let mut client = world.client();
    let key: Vec<u8> = (0..=255).collect();
    let value: Vec<u8> = (0..=255).rev().cycle().take(100_000).collect();
    assert_eq!(client.call([b"SET", &key[..], &value]), Reply::simple(OK));
    assert_eq!(client.call([b"GET", &key[..]]), Reply::Bulk(value.clone()));
    assert_eq!(
        client.call([b"STRLEN", &key[..]]),
        Reply::Integer(value.len() as i64)
    );
    assert_eq!(client.words("SET empty ").bytes_or_ok(), OK.as_bytes());
    assert_eq!(client.words("GET empty"), Reply::bulk(""));
}

impl Reply {
    fn bytes_or_ok(&self) -> &[u8] {
        match self {
            Reply::Simple(text) => text.as_bytes(),
            other => other.bytes(),
        }
    }
}

#[test]
fn values_up_to_the_limit_of_the_store_are_stored_and_longer_values_are_refused_with_the_limit() {
    let world = World::start();
    let mut client = world.client();
    let value = vec![b'x'; 16 << 20];
    assert_eq!(client.call([b"SET", &b"k"[..], &value]), Reply::simple(OK));
    assert_eq!(client.words("GET k"), Reply::Bulk(value.clone()));
    let refused = client.call([b"SET", &b"k"[..], &[&value[..], b"x"].concat()]);
    assert_eq!(
        refused.error(),
        "ERR value of 16777217 bytes: values have at most 16777216 bytes; nothing was done. Split the value over several keys"
    );
    assert_eq!(client.words("APPEND k x").error(), refused.error());
    assert_eq!(client.words("STRLEN k"), Reply::Integer(16 << 20));
    let refused = client.call([b"GET", &[b'k'; 1025][..]]);
    assert_eq!(
        refused.error(),
        "ERR key of 1025 bytes: keys have 1 to 1024 bytes; nothing was done. Shorten the key, or take its hash as the key"
    );
    assert_eq!(
        client.call(["SET", "", "x"]).error(),
        "ERR key of 0 bytes: keys have 1 to 1024 bytes; nothing was done. Name a key"
    );
}

#[test]
fn one_bad_key_does_not_fail_the_others_of_its_pipeline() {
    let world = World::start();
    let mut client = world.client();
    client.words("SET a 1");
    let long = "k".repeat(1025);
    let get_long = format!("GET {long}");
    let replies = client.pipeline([
        "GET a",
        &get_long,
        "GET a",
        &format!("MGET a {long}"),
        "PING",
    ]);
    assert_eq!(replies[0], Reply::bulk("1"));
    assert!(replies[1].error().starts_with("ERR key of 1025 bytes"));
    assert_eq!(replies[2], Reply::bulk("1"));
    assert!(replies[3].error().starts_with("ERR key of 1025 bytes"));
    assert_eq!(replies[4], Reply::simple("PONG"));
}

#[test]
fn an_absent_value_is_the_null_of_each_protocol() {
    let world = World::start();
    let mut client = world.client();
    assert_eq!(client.words("GET nothing"), Reply::NoBulk);
    let Reply::Map(greeting) = client.words("HELLO 3") else {
        panic!("a map")
    };
    let about = |name: &str| {
        greeting
            .iter()
            .find(|(key, _)| key.text() == name)
            .map(|(_, value)| value.clone())
            .unwrap()
    };
    assert_eq!(about("proto"), Reply::Integer(3));
    assert_eq!(about("mode"), Reply::bulk("standalone"));
    assert_eq!(about("role"), Reply::bulk("master"));
    assert_eq!(about("modules"), Reply::Array(Vec::new()));
    assert_eq!(client.words("GET nothing"), Reply::Null);
    assert_eq!(client.words("SET a 1 XX"), Reply::Null);
    assert_eq!(client.words("GETDEL nothing"), Reply::Null);
    assert_eq!(
        client.words("MGET nothing"),
        Reply::Array(vec![Reply::Null])
    );
    assert_eq!(client.words("RANDOMKEY"), Reply::Null);
    assert!(matches!(client.words("HELLO 2"), Reply::Array(list) if list.len() == 14));
    assert_eq!(client.words("GET nothing"), Reply::NoBulk);
    assert_eq!(
        client.words("HELLO 9").error(),
        "NOPROTO unsupported protocol version"
    );
}

#[test]
fn inline_commands_are_understood() {
    let world = World::start();
    let mut client = world.client();
    client.send("PING\r\nset greeting \"hello world\"\nGET greeting\r\n");
    assert_eq!(client.reply(), Reply::simple("PONG"));
    assert_eq!(client.reply(), Reply::simple(OK));
    assert_eq!(client.reply(), Reply::bulk("hello world"));
}

#[test]
fn the_commands_that_clients_send_when_they_connect_are_answered() {
    let world = World::start();
    let mut client = world.client();
    assert_eq!(
        client.words("CLIENT SETINFO lib-name redis-py"),
        Reply::simple(OK)
    );
    assert_eq!(
        client.words("CLIENT SETINFO lib-ver 8.1.0"),
        Reply::simple(OK)
    );
    assert_eq!(client.words("CLIENT SETNAME worker"), Reply::simple(OK));
    assert_eq!(client.words("CLIENT GETNAME"), Reply::bulk("worker"));
    let id = client.words("CLIENT ID").integer();
    let info = client.words("CLIENT INFO");
    assert!(
        info.text().starts_with(&format!("id={id} addr=127.0.0.1:")),
        "{info:?}"
    );
    assert!(
        info.text().contains(" name=worker ")
            && info.text().ends_with("lib-name=redis-py lib-ver=8.1.0\n"),
        "{info:?}"
    );
    let refused = client.words("CLIENT MAINT_NOTIFICATIONS ON");
    assert_eq!(
        refused.error(),
        "ERR CLIENT MAINT_NOTIFICATIONS is not supported by this store"
    );
    assert_eq!(client.words("SELECT 0"), Reply::simple(OK));
    assert_eq!(
        client.words("CONFIG GET save"),
        Reply::Array(vec![Reply::bulk("save"), Reply::bulk("")])
    );
    assert_eq!(
        client.words("CONFIG GET appendonly"),
        Reply::Array(vec![Reply::bulk("appendonly"), Reply::bulk("no")])
    );
    assert!(client.words("INFO").text().contains("\r\nloading:0\r\n"));
    assert!(!client.words("INFO keyspace").text().contains("loading"));
    assert_eq!(
        client.words("COMMAND COUNT").integer() as usize,
        client.words("COMMAND").list().len()
    );
    assert_eq!(client.words("RESET"), Reply::simple("RESET"));
    assert_eq!(client.words("CLIENT GETNAME"), Reply::NoBulk);
    assert_eq!(client.words("QUIT"), Reply::simple(OK));
    assert!(client.has_ended());
}

#[test]
fn waiting_says_what_is_true() {
    for (durability, persisted) in [(Durability::Power, 1), (Durability::Process, 0)] {
        let world = World::of(options(), durability, 64 << 20);
        let mut client = world.client();
        client.words("SET a 1");
        assert_eq!(
            client.words("WAITAOF 1 0 100"),
            Reply::Array(vec![Reply::Integer(persisted), Reply::Integer(0)])
        );
        assert_eq!(
            client.words("WAIT 1 0"),
            Reply::Integer(0),
            "nothing to wait for, however long"
        );
        client.words("MULTI");
        client.words("WAIT 1 100");
        assert_eq!(client.words("EXEC"), Reply::Array(vec![Reply::Integer(0)]));
        let asked = client.words("CONFIG GET appendfsync");
        assert_eq!(
            asked.list()[1],
            Reply::bulk(if persisted == 1 { "always" } else { "no" })
        );
    }
}

#[test]
fn every_key_is_found_by_iteration_once() {
    let world = World::start();
    let mut client = world.client();
    assert_eq!(
        client.words("SCAN 0"),
        Reply::Array(vec![Reply::bulk("0"), Reply::Array(Vec::new())])
    );
    let pairs: Vec<String> = (0..1000)
        .flat_map(|number| [format!("key:{number}"), number.to_string()])
        .collect();
    client.call(["MSET".to_owned()].iter().chain(&pairs));
    let (mut cursor, mut found, mut calls) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let page = client.call(["SCAN", &cursor, "COUNT", "100"]);
        let [next, keys] = page.list() else {
            panic!("{page:?}")
        };
        found.extend(keys.list().iter().map(|key| key.text().to_owned()));
        calls += 1;
        cursor = next.text().to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert!(calls >= 9, "{calls} calls");
    found.sort();
    let mut expected: Vec<String> = (0..1000).map(|number| format!("key:{number}")).collect();
    expected.sort();
    assert_eq!(found, expected);
    let Reply::Array(keys) = client.words("KEYS key:99?") else {
        panic!("a list")
    };
    assert_eq!(keys.len(), 10);
    let page = client.words("SCAN 0 MATCH key:1 COUNT 10000");
    assert_eq!(page.list()[1], Reply::Array(vec![Reply::bulk("key:1")]));
    assert!(client.words("RANDOMKEY").text().starts_with("key:"));
    assert_eq!(client.words("FLUSHDB"), Reply::simple(OK));
    assert_eq!(client.words("DBSIZE"), Reply::Integer(0));
}

/// Needs the cursor to have the same meaning on every connection and after other scans: a forgotten iteration is
/// resumed.
#[test]
fn an_iteration_finds_every_key_that_is_present_all_the_time_while_other_clients_write_and_scan() {
    let world = World::start();
    let mut client = world.client();
    let pairs: Vec<String> = (0..500)
        .flat_map(|number| [format!("key:{number}"), "old".to_owned()])
        .collect();
    client.call(["MSET".to_owned()].iter().chain(&pairs));
    let mut others: Vec<_> = (0..6).map(|_| world.client()).collect();
    let (mut cursor, mut found, mut round) = ("0".to_owned(), std::collections::BTreeSet::new(), 0);
    loop {
        let page = client.call(["SCAN", &cursor, "COUNT", "20"]);
        let [next, keys] = page.list() else {
            panic!("{page:?}")
        };
        found.extend(keys.list().iter().map(|key| key.text().to_owned()));
        cursor = next.text().to_owned();
        if cursor == "0" {
            break;
        }
        if round < 10 {
            for (index, other) in others.iter_mut().enumerate() {
                other.words("SCAN 0 COUNT 50");
                other.words(&format!("SET key:{} new", (round * 37 + index * 61) % 500));
            }
        }
        round += 1;
    }
    assert_eq!(found.len(), 500);
}

#[test]
fn a_full_pool_is_reported_and_still_serves_reads_and_deletes() {
    let world = World::of(options(), Durability::Process, 32 << 20);
    let mut client = world.client();
    let value = vec![b'x'; 1 << 20];
    let mut stored = 0;
    let refused = loop {
        match client.call([b"SET", format!("key:{stored}").as_bytes(), &value]) {
            Reply::Simple(_) => stored += 1,
            other => break other,
        }
    };
    assert!(refused.error().starts_with("OOM no space"), "{refused:?}");
    assert!(stored >= 16, "{stored}");
    assert_eq!(client.words("GET key:0"), Reply::Bulk(value));
    assert_eq!(client.words("DEL key:0"), Reply::Integer(1));
    assert_eq!(client.words("GET key:0"), Reply::NoBulk);
}

/// The number of a field of `INFO`.
fn reported(client: &mut Client, name: &str) -> u64 {
    let report = client.words("INFO");
    let prefix = format!("{name}:");
    let line = report
        .text()
        .lines()
        .find_map(|line| line.strip_prefix(&prefix));
    line.unwrap_or_else(|| panic!("{name}")).parse().unwrap()
}

/// Needs the kernel's count: the buffers of requests and replies take only a few KiB.
#[test]
fn info_reports_the_memory_of_the_process() {
    let world = World::start();
    let mut client = world.client();
    let used = reported(&mut client, "used_memory");
    assert!(used > 1 << 20, "{used}");
    assert!(used <= reported(&mut client, "used_memory_rss"));
    let block = vec![1_u8; 256 << 20];
    // Other tests of this process allocate and free memory meanwhile.
    let more = reported(&mut client, "used_memory");
    assert!(
        more > used + (64 << 20),
        "{used}, then {more} with {} more",
        block.len()
    );
}

#[test]
fn info_counts_lookups_and_commands() {
    let world = World::start();
    let mut client = world.client();
    client.pipeline(["SET a 1", "MSET b 2 c 3"]);
    let before = reported(&mut client, "total_commands_processed");
    assert_eq!(before, 3, "the INFO that reports it is the third");
    client.pipeline([
        "GET a",
        "GET x",
        "MGET a b x y",
        "EXISTS a x",
        "STRLEN a",
        "TYPE x",
    ]);
    assert_eq!(reported(&mut client, "keyspace_hits"), 5);
    assert_eq!(reported(&mut client, "keyspace_misses"), 5);
    let deadline = Instant::now() + Duration::from_secs(30);
    while reported(&mut client, "instantaneous_ops_per_sec") == 0 {
        assert!(Instant::now() < deadline, "it does something all the time");
    }
}
