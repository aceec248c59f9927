//! Pipelines: replies in order, one batch for the store, and a connection sees its own writes.

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};
use stonecast_media::Durability;

use crate::support::{Reply, World, options};

/// Needs the writes of a step to be under way together: one after the other, each write takes a sync.
#[test]
fn a_pipeline_of_writes_is_one_batch_to_the_store() {
    let world = World::of(options(), Durability::Power, 64 << 20);
    let mut client = world.client();
    client.words("SET warm up");
    let persists = || world.with_store_client(async |store| store.stat().await.unwrap().persists);
    let before = persists();
    let commands: Vec<String> = (0..128)
        .map(|number| format!("SET key:{number} {number}"))
        .collect();
    let replies = client.pipeline(commands.iter().map(String::as_str));
    assert!(replies.iter().all(|reply| *reply == Reply::simple("OK")));
    let syncs = persists() - before;
    assert!(syncs <= 16, "{syncs} syncs for 128 writes");
}

/// Needs keys that are only overwritten to share a step: with a step for each repetition, each repetition takes a sync.
#[test]
fn a_pipeline_that_overwrites_few_keys_repeatedly_is_one_batch_too_and_the_last_values_stay() {
    let world = World::of(options(), Durability::Power, 64 << 20);
    let mut client = world.client();
    client.words("SET warm up");
    let persists = || world.with_store_client(async |store| store.stat().await.unwrap().persists);
    let before = persists();
    let commands: Vec<String> = (0..128)
        .map(|number| format!("SET key:{} {number}", number % 4))
        .collect();
    let replies = client.pipeline(commands.iter().map(String::as_str));
    assert!(replies.iter().all(|reply| *reply == Reply::simple("OK")));
    let syncs = persists() - before;
    assert!(syncs <= 16, "{syncs} syncs for 128 writes");
    let values = ["124", "125", "126", "127"].map(Reply::bulk);
    assert_eq!(
        client.words("MGET key:0 key:1 key:2 key:3"),
        Reply::Array(values.to_vec())
    );
}

#[test]
fn commands_on_one_key_are_done_in_their_order() {
    let world = World::start();
    let mut client = world.client();
    let replies = client.pipeline([
        "SET a 1",
        "GET a",
        "INCR a",
        "INCR a",
        "GET b",
        "SET b x",
        "APPEND a 0",
        "GETDEL a",
        "GET a",
        "SET a 9",
        "SET a 10",
        "GET a",
        "SETNX a 5",
        "GETSET a 7",
        "DEL a b",
        "GET a",
    ]);
    let bulk = |text: &str| Reply::bulk(text);
    let ok = || Reply::simple("OK");
    assert_eq!(
        replies,
        [
            ok(),
            bulk("1"),
            Reply::Integer(2),
            Reply::Integer(3),
            Reply::NoBulk,
            ok(),
            Reply::Integer(2),
            bulk("30"),
            Reply::NoBulk,
            ok(),
            ok(),
            bulk("10"),
            Reply::Integer(0),
            bulk("10"),
            Reply::Integer(2),
            Reply::NoBulk,
        ]
    );
}

/// Needs an error to answer the command whose key caused the error, and not an earlier command without a key.
#[test]
fn errors_in_a_pipeline_of_reads_answer_their_own_commands() {
    let world = World::start();
    let mut client = world.client();
    client.words("MSET a 1 b 2");
    let long = format!("GET {}", "x".repeat(1025));
    // The key of the second GET is empty.
    let commands = [
        "PING",
        "GET ",
        "GET a",
        "SELECT 0",
        "SELECT 1",
        "MGET a b",
        &long,
        "ECHO hello",
        "MGET a  b",
        "EXISTS a b a",
        "STRLEN nothing",
        "EXISTS  a",
        "TYPE a",
    ];
    let alone: Vec<Reply> = commands.iter().map(|line| client.words(line)).collect();
    assert!(alone[1].error().contains("key"), "{alone:?}");
    for seed in 0..50 {
        println!("seed {seed}");
        let mut random = random_from_seed(seed);
        let drawn: Vec<usize> = (0..random.random_range(1..100))
            .map(|_| random.random_range(0..commands.len()))
            .collect();
        let replies = client.pipeline(drawn.iter().map(|&index| commands[index]));
        for (&index, reply) in drawn.iter().zip(replies) {
            assert_eq!(reply, alone[index], "{}", commands[index]);
        }
    }
}

#[test]
fn a_pipeline_longer_than_a_batch_is_answered_as_a_whole() {
    let mut options = options();
    options.limits.pipeline_depth = 10;
    let world = World::with(options);
    let mut client = world.client();
    let commands: Vec<String> = (0..1005).map(|number| format!("ECHO {number}")).collect();
    let replies = client.pipeline(commands.iter().map(String::as_str));
    let numbers: Vec<String> = replies
        .iter()
        .map(|reply| reply.text().to_owned())
        .collect();
    assert_eq!(
        numbers,
        (0..1005)
            .map(|number| number.to_string())
            .collect::<Vec<_>>()
    );
}

/// Requests are cut at every place, so that each state between two reads occurs.
#[test]
fn requests_in_pieces_are_understood_wherever_they_are_cut() {
    let world = World::start();
    let whole =
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nva\r\ne\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    for cut in 1..whole.len() {
        let mut client = world.client();
        client.send(&whole[..cut]);
        client.send(&whole[cut..]);
        assert_eq!(client.reply(), Reply::simple("OK"));
        assert_eq!(client.reply(), Reply::simple("PONG"));
        assert_eq!(client.reply(), Reply::bulk("va\r\ne"));
    }
}

#[test]
fn a_broken_request_ends_the_connection_after_the_replies_before_it() {
    let world = World::start();
    let mut client = world.client();
    client.send("SET a 1\r\nGET a\r\n*1\r\n!bang\r\nGET a\r\n");
    assert_eq!(client.reply(), Reply::simple("OK"));
    assert_eq!(client.reply(), Reply::bulk("1"));
    assert_eq!(
        client.reply().error(),
        "ERR Protocol error: expected '$', got '!'"
    );
    assert!(client.has_ended());
}

/// Needs the end of a batch at QUIT, for every cut of the pipeline into batches. An error after QUIT is not reported.
#[test]
fn commands_before_quit_are_done_and_commands_after_quit_are_not() {
    for depth in [1, 2, 3, 1024] {
        let mut options = options();
        options.limits.pipeline_depth = depth;
        let world = World::with(options);
        for behind in [
            "SET after 1\r\n",
            "SET before 2\r\nGET before\r\nFLUSHALL\r\n",
            "*1\r\n!bang\r\n",
            "POST / HTTP/1.1\r\n",
        ] {
            let mut client = world.client();
            client.send(format!("SET before 1\r\nGET before\r\nQUIT\r\n{behind}"));
            assert_eq!(client.reply(), Reply::simple("OK"), "{depth} {behind}");
            assert_eq!(client.reply(), Reply::bulk("1"), "{depth} {behind}");
            assert_eq!(client.reply(), Reply::simple("OK"), "{depth} {behind}");
            assert!(client.has_ended(), "{depth} {behind}");
            let mut other = world.client();
            assert_eq!(
                other.words("EXISTS after"),
                Reply::Integer(0),
                "{depth} {behind}"
            );
            assert_eq!(
                other.words("GET before"),
                Reply::bulk("1"),
                "{depth} {behind}"
            );
        }
    }
}

/// The model of a store with one connection: keys and their values.
type Model = std::collections::BTreeMap<String, String>;

/// A random command, done on the model, and the expected reply.
fn draw(random: &mut Random, model: &mut Model) -> (String, Reply) {
    let key = format!("k{}", random.random_range(0..6));
    let number = random.random_range(0..1000);
    let optional = |value: Option<String>| value.map_or(Reply::NoBulk, Reply::bulk);
    match random.random_range(0..10) {
        0 | 1 => (format!("GET {key}"), optional(model.get(&key).cloned())),
        2 | 3 => {
            model.insert(key.clone(), number.to_string());
            (format!("SET {key} {number}"), Reply::simple("OK"))
        }
        4 => (
            format!("DEL {key}"),
            Reply::Integer(model.remove(&key).is_some().into()),
        ),
        5 => {
            let sum = model
                .get(&key)
                .map_or(0, |value| value.parse::<i64>().unwrap())
                + number;
            model.insert(key.clone(), sum.to_string());
            (format!("INCRBY {key} {number}"), Reply::Integer(sum))
        }
        6 => {
            let before = model.insert(key.clone(), number.to_string());
            (format!("GETSET {key} {number}"), optional(before))
        }
        7 => {
            let is_new = !model.contains_key(&key);
            model
                .entry(key.clone())
                .or_insert_with(|| number.to_string());
            (
                format!("SETNX {key} {number}"),
                Reply::Integer(is_new.into()),
            )
        }
        8 => {
            let list = ["k0", "k3", "k5"].map(|key| optional(model.get(key).cloned()));
            ("MGET k0 k3 k5".to_owned(), Reply::Array(list.to_vec()))
        }
        _ => {
            model.insert("k1".to_owned(), number.to_string());
            model.insert("k4".to_owned(), number.to_string());
            (format!("MSET k1 {number} k4 {number}"), Reply::simple("OK"))
        }
    }
}

/// Needs the pipeline to be cut into steps wherever one command depends on another.
#[test]
fn a_random_pipeline_is_answered_as_if_its_commands_came_one_by_one() {
    let world = World::start();
    for seed in 0..30 {
        println!("seed {seed}");
        let mut client = world.client();
        client.words("FLUSHDB");
        let mut random = random_from_seed(seed);
        let mut model = Model::new();
        for _ in 0..20 {
            let length = random.random_range(1..60);
            let drawn: Vec<(String, Reply)> =
                (0..length).map(|_| draw(&mut random, &mut model)).collect();
            let replies = client.pipeline(drawn.iter().map(|(command, _)| command.as_str()));
            for ((command, expected), reply) in drawn.iter().zip(replies) {
                assert_eq!(reply, *expected, "{command}");
            }
        }
    }
}

#[test]
fn many_connections_pipeline_at_once_and_each_connection_gets_its_own_replies() {
    let world = World::start();
    std::thread::scope(|scope| {
        for connection in 0..16 {
            let mut client = world.client();
            scope.spawn(move || {
                for round in 0..50 {
                    let commands: Vec<String> = (0..20)
                        .flat_map(|n| {
                            [
                                format!("SET c{connection}:{n} {round}"),
                                format!("GET c{connection}:{n}"),
                                format!("ECHO {round}:{n}"),
                            ]
                        })
                        .collect();
                    let replies = client.pipeline(commands.iter().map(String::as_str));
                    for (n, replies) in replies.chunks(3).enumerate() {
                        assert_eq!(replies[0], Reply::simple("OK"));
                        assert_eq!(replies[1], Reply::bulk(round.to_string()));
                        assert_eq!(replies[2], Reply::bulk(format!("{round}:{n}")));
                    }
                }
            });
        }
    });
}
