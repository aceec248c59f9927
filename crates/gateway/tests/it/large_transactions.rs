//! Transactions of many keys, and of long values.

use crate::support::{Client, Reply, World};

/// More keys than a transaction may change.
const MANY: usize = 10_000;
/// Bytes of a value that is stored in chunks, and that a queue of commands takes all the same.
const LONG: usize = 1_500_000;

/// Begins a transaction that reads many keys, every second of which is there.
fn read_many(client: &mut Client) {
    assert_eq!(client.words("MULTI"), Reply::simple("OK"));
    let reads: Vec<String> = (0..MANY).map(|n| format!("GET key{n}")).collect();
    let queued = client.pipeline(reads.iter().map(String::as_str));
    assert!(queued.iter().all(|reply| *reply == Reply::simple("QUEUED")));
}

fn assert_has_read_many(replies: &[Reply]) {
    for (n, reply) in replies[..MANY].iter().enumerate() {
        let expected = match n % 2 {
            0 => Reply::bulk(n.to_string()),
            _ => Reply::NoBulk,
        };
        assert_eq!(*reply, expected, "key{n}");
    }
}

/// Needs keys that are only read to count less than changed ones: a default pipeline of redis-py is such a transaction.
#[test]
fn a_transaction_reads_more_keys_than_it_may_change() {
    let world = World::start();
    let mut client = world.client();
    let there: Vec<usize> = (0..MANY).step_by(2).collect();
    for some in there.chunks(1000) {
        let pairs: Vec<String> = some.iter().map(|n| format!("key{n} {n}")).collect();
        assert_eq!(
            client.words(&format!("MSET {}", pairs.join(" "))),
            Reply::simple("OK")
        );
    }
    read_many(&mut client);
    let read = client.words("EXEC");
    assert_eq!(read.list().len(), MANY);
    assert_has_read_many(read.list());
    // Beside changes, which rest on what is read.
    read_many(&mut client);
    client.words("INCR key8");
    client.words("SET new 1");
    let changed = client.words("EXEC");
    assert_has_read_many(changed.list());
    assert_eq!(
        changed.list()[MANY..],
        [Reply::Integer(9), Reply::simple("OK")]
    );
    // Beside a watched key.
    client.words("WATCH new");
    read_many(&mut client);
    world.client().words("SET new 2");
    assert_eq!(client.words("EXEC"), Reply::NoArray);
    // Beyond the limit.
    client.words("MULTI");
    let all: Vec<String> = (0..20_000).map(|n| format!("key{n}")).collect();
    client.words(&format!("MGET {}", all.join(" ")));
    assert_eq!(
        client.words("EXEC").error(),
        "ERR 20000 keys changed or read by one transaction, MSETNX, RENAME or COPY: at most 16384; nothing was done"
    );
}

#[test]
fn a_long_value_is_read_in_a_transaction_and_every_other_command_of_several_keys_refuses_it() {
    let world = World::start();
    let mut client = world.client();
    let long = "x".repeat(LONG);
    client.call(["SET", "long", &long]);
    client.words("MSET short s other o");
    let replies = client.pipeline(["MULTI", "GET long", "STRLEN long", "GET short", "EXEC"]);
    let size = Reply::Integer(LONG as i64);
    let read = [Reply::bulk(&long), size.clone(), Reply::bulk("s")];
    assert_eq!(replies[4].list(), read);
    let refused = |reply: Reply| {
        let error = reply.error();
        let starts = error
            .strip_prefix("ERR ")
            .and_then(|rest| rest.split(' ').next());
        let bytes: usize = starts.and_then(|it| it.parse().ok()).expect(error);
        assert!(bytes > LONG, "{error}");
        assert!(
            error.contains("at most 1048576 in this pool") && error.ends_with("nothing was done"),
            "{error}"
        );
    };
    for command in [
        "RENAME long new",
        "RENAMENX long new",
        "RENAME long short",
        "COPY long new",
        "COPY long short REPLACE",
    ] {
        refused(client.words(command));
    }
    refused(client.call(["MSETNX", "new", &long, "newer", "n"]));
    for commands in [
        &["MULTI", "SET new n", "RENAME long short", "EXEC"][..],
        &["MULTI", "SET new n", "APPEND long y", "EXEC"],
    ] {
        let replies = client.pipeline(commands.iter().copied());
        refused(replies.into_iter().next_back().unwrap());
    }
    client.words("MULTI");
    client.words("SET new n");
    client.call(["SET", "short", &long]);
    refused(client.words("EXEC"));
    // A command that needs no other value of the key is done.
    assert_eq!(client.words("RENAMENX long short"), Reply::Integer(0));
    assert_eq!(client.words("COPY long short"), Reply::Integer(0));
    assert_eq!(client.words("RENAME long long"), Reply::simple("OK"));
    assert_eq!(client.words("RENAME short long"), Reply::simple("OK"));
    client.call(["SET", "long", &long]);
    let replies = client.pipeline(["MULTI", "DEL long", "SET short s", "EXEC"]);
    assert_eq!(replies[3].list(), [Reply::Integer(1), Reply::simple("OK")]);
    let found = client.words("MGET long short other new newer");
    let [none, s, o] = [Reply::NoBulk, Reply::bulk("s"), Reply::bulk("o")];
    assert_eq!(found.list(), [none.clone(), s, o, none.clone(), none]);
}
