//! `MULTI`, `EXEC`, `WATCH` and `MSETNX`.

use stonecast_gateway::Password;

use crate::support::{Reply, World, options, request};

const ABORTED: &str = "EXECABORT Transaction discarded because of previous errors.";

fn queued() -> Reply {
    Reply::simple("QUEUED")
}

fn ok() -> Reply {
    Reply::simple("OK")
}

#[test]
fn the_commands_of_a_transaction_are_done_as_a_whole_and_answered_together() {
    let world = World::start();
    let mut client = world.client();
    client.words("MSET a 1 gone x");
    let replies = client.pipeline([
        "MULTI",
        "SET b before",
        "INCR a",
        "GET a",
        "MGET a b none",
        "APPEND b !",
        "DEL gone none",
        "EXISTS gone a",
        "INCR b",
        "MSET c 1 d 2",
        "MSETNX d 3 e 3",
        "MSETNX f 4",
        "PING",
        "EXEC",
        "MGET a b gone c d e f",
    ]);
    assert_eq!(replies[0], ok());
    assert!(replies[1..13].iter().all(|reply| *reply == queued()));
    let done = replies[13].list();
    assert_eq!(done[0], ok());
    assert_eq!(done[1], Reply::Integer(2));
    assert_eq!(done[2], Reply::bulk("2"));
    assert_eq!(
        done[3].list(),
        [Reply::bulk("2"), Reply::bulk("before"), Reply::NoBulk]
    );
    assert_eq!(done[4], Reply::Integer(7));
    assert_eq!(done[5], Reply::Integer(1));
    assert_eq!(done[6], Reply::Integer(1));
    // As in Redis, an error of one command does not undo the others.
    assert!(done[7].error().contains("not an integer"));
    assert_eq!(done[8], ok());
    assert_eq!(done[9], Reply::Integer(0));
    assert_eq!(done[10], Reply::Integer(1));
    assert_eq!(done[11], Reply::simple("PONG"));
    let values: Vec<_> = replies[14].list().to_vec();
    let bulk = |text: &str| Reply::bulk(text);
    assert_eq!(
        values,
        [
            bulk("2"),
            bulk("before!"),
            Reply::NoBulk,
            bulk("1"),
            bulk("2"),
            Reply::NoBulk,
            bulk("4")
        ]
    );
}

/// Needs the commands to be kept beyond their batch.
#[test]
fn a_transaction_may_come_command_by_command() {
    let mut options = options();
    options.limits.pipeline_depth = 1;
    let world = World::with(options);
    let mut client = world.client();
    for (command, reply) in [
        ("MULTI", ok()),
        ("SET a 1", queued()),
        ("INCRBY a 5", queued()),
    ] {
        assert_eq!(client.words(command), reply);
    }
    assert_eq!(world.client().words("EXISTS a"), Reply::Integer(0));
    assert_eq!(client.words("EXEC").list(), [ok(), Reply::Integer(6)]);
    assert_eq!(client.words("EXEC").error(), "ERR EXEC without MULTI");
    assert_eq!(client.words("DISCARD").error(), "ERR DISCARD without MULTI");
    client.words("MULTI");
    assert_eq!(client.words("EXEC").list(), []);
}

#[test]
fn a_command_with_an_error_in_it_aborts_the_transaction() {
    let world = World::start();
    for wrong in [
        "nonsense",
        "SET a",
        "INCRBY a x",
        "INFO",
        "SCAN 0",
        "FLUSHDB",
        "CLIENT ID",
        "HELLO 3",
        "SELECT 7",
    ] {
        let mut client = world.client();
        let replies = client.pipeline(["MULTI", "SET a 1", wrong, "EXEC", "EXISTS a"]);
        replies[2].error();
        assert_eq!(replies[3].error(), ABORTED, "{wrong}");
        assert_eq!(replies[4], Reply::Integer(0), "{wrong}");
    }
    let mut client = world.client();
    let replies = client.pipeline(["MULTI", "CLIENT ID", "EXEC"]);
    assert_eq!(
        replies[1].error(),
        "ERR CLIENT is not supported in a transaction by this store"
    );
    // Neither of these aborts the transaction.
    let replies = client.pipeline(["MULTI", "MULTI", "WATCH a", "SET a 1", "EXEC"]);
    assert_eq!(replies[1].error(), "ERR MULTI calls can not be nested");
    assert_eq!(replies[2].error(), "ERR WATCH inside MULTI is not allowed");
    assert_eq!(replies[4].list(), [ok()]);
}

#[test]
fn a_transaction_is_not_done_if_a_watched_key_has_changed() {
    let world = World::start();
    let (mut client, mut other) = (world.client(), world.client());
    for (before, change) in [
        ("SET a 1", "SET a 2"),
        ("SET a 1", "DEL a"),
        ("DEL a", "SET a 1"),
    ] {
        client.words(before);
        assert_eq!(client.words("WATCH a b"), ok());
        other.words(change);
        let lost = client.pipeline(["MULTI", "SET c 1", "EXEC", "EXISTS c"]);
        assert_eq!(lost[2], Reply::NoArray);
        assert_eq!(lost[3], Reply::Integer(0));
        // Nothing is watched any more.
        let done = client.pipeline(["MULTI", "SET c 1", "EXEC", "DEL c"]);
        assert_eq!(done[2].list(), [ok()]);
        for end in ["UNWATCH", "MULTI\r\nDISCARD"] {
            client.words("WATCH a");
            other.words("SET a 9");
            client.send(format!("{end}\r\n"));
            (0..end.lines().count()).for_each(|_| assert_eq!(client.reply(), ok()));
            let done = client.pipeline(["MULTI", "GET a", "EXEC"]);
            assert_eq!(done[2].list(), [Reply::bulk("9")]);
        }
    }
    // A transaction that reads a watched key, and its own writes before.
    client.words("WATCH a");
    let done = client.pipeline(["MULTI", "INCR a", "EXEC"]);
    assert_eq!(done[2].list(), [Reply::Integer(10)]);
    client.words("WATCH a");
    client.words("SET a 1");
    let lost = client.pipeline(["MULTI", "INCR a", "EXEC"]);
    assert_eq!(lost[2], Reply::NoArray);
    client.words("HELLO 3");
    client.words("WATCH a");
    other.words("SET a 2");
    assert_eq!(client.pipeline(["MULTI", "GET a", "EXEC"])[2], Reply::Null);
    // A transaction that does not name the watched key, or no key at all.
    for commands in [&["MULTI", "EXEC"][..], &["MULTI", "GET b", "EXEC"]] {
        client.words("WATCH a");
        other.words("SET a 3");
        let replies = client.pipeline(commands.iter().copied());
        assert_eq!(replies.last(), Some(&Reply::Null), "{commands:?}");
        client.words("WATCH a");
        let done = client.pipeline(commands.iter().copied());
        assert_eq!(done.last().unwrap().list().len(), commands.len() - 2);
    }
}

#[test]
fn a_key_takes_its_value_and_its_moment_to_another_name() {
    let world = World::start();
    let client = &mut world.client();
    client.words("SET a v EX 100");
    assert_eq!(client.words("RENAME a b"), ok());
    assert_eq!(
        client.words("MGET a b").list(),
        [Reply::NoBulk, Reply::bulk("v")]
    );
    assert_eq!(client.words("COPY b c"), Reply::Integer(1));
    for key in ["b", "c"] {
        let Reply::Integer(left) = client.words(&format!("TTL {key}")) else {
            panic!("no moment")
        };
        assert!((98..=100).contains(&left), "{key}: {left}");
    }
    client.words("SET d other");
    assert_eq!(client.words("RENAMENX b d"), Reply::Integer(0));
    assert_eq!(client.words("COPY b d DB 0"), Reply::Integer(0));
    assert_eq!(client.words("COPY b d REPLACE DB 0"), Reply::Integer(1));
    assert!(
        client
            .words("RENAME gone e")
            .error()
            .contains("no such key")
    );
    assert!(client.words("COPY b b").error().contains("are the same"));
    assert!(
        client
            .words("COPY b d DB 1")
            .error()
            .contains("out of range")
    );
    assert_eq!(client.words("EXISTS b c d e"), Reply::Integer(3));
}

/// RENAMENX conserves values, so every transaction that reads all keys finds both of them.
#[test]
fn values_that_are_renamed_all_the_time_are_neither_lost_nor_doubled() {
    const KEYS: [&str; 4] = ["k0", "k1", "k2", "k3"];
    let world = World::start();
    world.client().words("MSET k0 A k1 B");
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let mut client = world.client();
                scope.spawn(move || {
                    let mut renamed = 0;
                    for step in 0..300 {
                        let (from, to) = (KEYS[(step + writer) % 4], KEYS[(step * 3 + 1) % 4]);
                        match client.words(&format!("RENAMENX {from} {to}")) {
                            Reply::Integer(done) => renamed += done,
                            reply => assert!(reply.error().contains("no such key"), "{reply:?}"),
                        }
                    }
                    renamed
                })
            })
            .collect();
        let mut client = world.client();
        while !writers.iter().all(|writer| writer.is_finished()) {
            let replies = client.pipeline(["MULTI", "MGET k0 k1 k2 k3", "EXEC"]);
            let found = replies[2].list()[0].list().iter();
            let mut values: Vec<_> = found.filter(|value| **value != Reply::NoBulk).collect();
            values.sort_by_key(|value| value.text().to_owned());
            assert_eq!(values, [&Reply::bulk("A"), &Reply::bulk("B")]);
        }
        let renamed: i64 = writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .sum();
        assert!(renamed > 0);
    });
}

#[test]
fn msetnx_stores_all_or_none() {
    let world = World::start();
    let mut client = world.client();
    assert_eq!(client.words("MSETNX a 1 b 2"), Reply::Integer(1));
    assert_eq!(client.words("MSETNX c 1 b 3"), Reply::Integer(0));
    let values = client.words("MGET a b c");
    assert_eq!(
        values.list(),
        [Reply::bulk("1"), Reply::bulk("2"), Reply::NoBulk]
    );
    client.words("MSETNX a").error();
}

#[test]
fn discard_reset_and_quit_end_a_transaction() {
    let world = World::start();
    for (end, answer) in [("DISCARD", "OK"), ("RESET", "RESET")] {
        let mut client = world.client();
        let replies = client.pipeline(["MULTI", "SET a 1", end, "SET b 1", "DEL b"]);
        assert_eq!(
            replies[1..],
            [queued(), Reply::simple(answer), ok(), Reply::Integer(1)]
        );
    }
    let mut client = world.client();
    client.send("MULTI\r\nSET a 1\r\nQUIT\r\nSET a 1\r\n");
    assert_eq!(client.reply(), ok());
    assert_eq!(client.reply(), queued());
    assert_eq!(client.reply(), ok());
    assert!(client.has_ended());
    assert_eq!(world.client().words("EXISTS a"), Reply::Integer(0));
}

/// As in Redis, a transaction belongs to one connection and begins only after the password.
#[test]
fn a_transaction_belongs_to_one_connection() {
    let mut options = options();
    options.password = Some(Password::new("open sesame"));
    let world = World::with(options);
    let mut client = world.client();
    assert!(client.words("MULTI").error().starts_with("NOAUTH"));
    assert_eq!(client.call(["AUTH", "open sesame"]), ok());
    assert_eq!(client.words("SET a 1"), ok());
    client.words("MULTI");
    let mut other = world.client();
    other.send([request(["AUTH", "open sesame"]), request(["GET", "a"])].concat());
    assert_eq!(other.reply(), ok());
    assert_eq!(other.reply(), Reply::bulk("1"));
    assert_eq!(client.words("GET a"), queued());
    assert_eq!(client.words("RESET"), Reply::simple("RESET"));
    assert!(client.words("EXEC").error().starts_with("NOAUTH"));
}

#[test]
fn a_transaction_beyond_the_limits_does_nothing() {
    let world = World::start();
    let mut client = world.client();
    client.words("MULTI");
    for number in 0..5000 {
        client.words(&format!("SET key{number} 1"));
    }
    let refused = client.words("EXEC");
    assert!(
        refused
            .error()
            .starts_with("ERR 5000 keys changed by one transaction"),
        "{refused:?}"
    );
    client.words("MULTI");
    let value = "x".repeat(700_000);
    (0..2).for_each(|_| assert_eq!(client.call(["SET", "a", &value]), queued()));
    assert!(client.call(["SET", "a", &value]).error().starts_with("OOM"));
    assert_eq!(client.words("EXEC").error(), ABORTED);
    assert_eq!(client.words("DBSIZE"), Reply::Integer(0));
}

/// Needs the expectations of what was read: transfers between accounts lose no unit, and a transaction that reads all
/// accounts sees their sum at one moment.
#[test]
fn transactions_of_many_clients_are_one_after_the_other() {
    let world = World::start();
    world.client().words("MSET a 100 b 100 c 100");
    let address = world.gateway().resp_address().unwrap();
    std::thread::scope(|scope| {
        for (from, to) in [("a", "b"), ("b", "c"), ("c", "a")] {
            scope.spawn(move || {
                let mut client = crate::support::Client::connect(address);
                for _ in 0..60 {
                    let (less, more) = (format!("DECR {from}"), format!("INCR {to}"));
                    let replies = client.pipeline(["MULTI", &less, &more, "EXEC"]);
                    assert_eq!(replies[3].list().len(), 2);
                }
            });
        }
        scope.spawn(move || {
            let mut client = crate::support::Client::connect(address);
            for _ in 0..60 {
                let replies = client.pipeline(["MULTI", "GET a", "MGET b c", "EXEC"]);
                let [a, rest] = replies[3].list() else {
                    panic!("{replies:?}")
                };
                let all = [&rest.list()[0], &rest.list()[1], a];
                let sum: i64 = all.iter().map(|one| number(one)).sum();
                assert_eq!(sum, 300);
            }
        });
    });
}

fn number(reply: &Reply) -> i64 {
    let text = std::str::from_utf8(reply.bytes()).unwrap();
    text.parse().unwrap()
}
