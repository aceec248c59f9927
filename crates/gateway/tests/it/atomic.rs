//! Commands that read and write are atomic against every other client, one-sided ones included.

use std::collections::BTreeSet;

use stonecast_kv::{Condition, Written};
use stonecast_media::Durability;

use crate::support::{Client, Reply, World, options, request};

/// Needs the write to name the version that was read: a plain put loses increments.
#[test]
fn no_increment_is_lost_between_gateway_connections_and_one_sided_clients() {
    let world = World::start();
    let store = world.store_address();
    let (connections, rounds) = (4, 100);
    std::thread::scope(|scope| {
        for _ in 0..connections {
            let mut client = world.client();
            scope.spawn(move || {
                for _ in 0..rounds {
                    assert!(matches!(client.words("INCR counter"), Reply::Integer(_)));
                    client.pipeline(["INCRBY counter 10", "INCR counter", "DECR counter"]);
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(move || {
                crate::support::with_store_client(store, async |client| {
                    let mut value = Vec::new();
                    for _ in 0..rounds {
                        loop {
                            let version = client.get(b"counter", &mut value).await.unwrap();
                            let number: i64 = version.map_or(0, |_| {
                                std::str::from_utf8(&value).unwrap().parse().unwrap()
                            });
                            let condition = version.map_or(Condition::Absent, Condition::Version);
                            let sum = (number + 1000).to_string();
                            if matches!(
                                client
                                    .put_if(b"counter", sum.as_bytes(), condition)
                                    .await
                                    .unwrap(),
                                Written::Done(_)
                            ) {
                                break;
                            }
                        }
                    }
                });
            });
        }
    });
    let expected = connections * rounds * 11 + 2 * rounds * 1000;
    assert_eq!(
        world.client().words("GET counter"),
        Reply::bulk(expected.to_string())
    );
}

/// Needs increments of several connections to share a write: otherwise each would wait for a sync of its own.
#[test]
fn increments_that_wait_for_each_other_are_written_together() {
    let world = World::of(options(), Durability::Power, 256 << 20);
    let mut clients: Vec<Client> = (0..50).map(|_| world.client()).collect();
    let puts = || world.with_store_client(async |client| client.stat().await.unwrap().puts);
    let before = puts();
    let rounds = 20;
    let mut answers = BTreeSet::new();
    for _ in 0..rounds {
        clients
            .iter_mut()
            .for_each(|client| client.send("INCR counter\r\n"));
        for client in &mut clients {
            assert!(answers.insert(client.reply().integer()), "counted twice");
        }
    }
    assert_eq!(answers, (1..=50 * rounds).collect());
    let written = puts() - before;
    assert!(
        written < 50 * rounds as u64 / 2,
        "{written} writes of {} increments",
        50 * rounds
    );
}

/// Needs each command to see the earlier commands of the same write, including commands that change nothing or delete.
/// Also needs a value that is too long to be refused alone.
#[test]
fn commands_that_share_a_write_are_done_one_after_the_other() {
    let world = World::of(options(), Durability::Power, 256 << 20);
    let mut clients: Vec<Client> = (0..40).map(|_| world.client()).collect();
    let long = vec![b'x'; 1 << 20];
    for round in 0..5 {
        let key = format!("key:{round}");
        for (index, client) in clients.iter_mut().enumerate() {
            client.send(match index % 4 {
                0 => request(["INCR", &key]),
                1 => request(["SET", &key, "5", "NX"]),
                2 => request(["GETDEL", &key]),
                _ => request([b"APPEND", key.as_bytes(), &long]),
            });
        }
        let (mut added, mut taken) = (0, 0);
        for (index, client) in clients.iter_mut().enumerate() {
            match (index % 4, client.reply()) {
                (0, Reply::Integer(number)) => added += usize::from(number == 1),
                (1, Reply::Simple(_)) => added += 1,
                (2, Reply::Bulk(_)) => taken += 1,
                (3, Reply::Integer(size)) => added += usize::from(size == 1 << 20),
                (0, Reply::Error(error)) => assert!(error.contains("not an integer"), "{error}"),
                (3, Reply::Error(error)) => assert!(error.contains("1048576"), "{error}"),
                (1 | 2, Reply::NoBulk) => {}
                other => panic!("{other:?}"),
            }
        }
        let left = usize::from(world.client().words(&format!("GET {key}")) != Reply::NoBulk);
        assert_eq!(
            added,
            taken + left,
            "each value was made once and taken once"
        );
    }
}

#[test]
fn one_of_many_clients_that_create_a_key_succeeds() {
    let world = World::start();
    for round in 0..20 {
        let won: usize = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..6)
                .map(|index| {
                    let mut client = world.client();
                    scope.spawn(move || match index % 2 {
                        0 => {
                            client.words(&format!("SETNX lock:{round} {index}"))
                                == Reply::Integer(1)
                        }
                        _ => {
                            client.words(&format!("SET lock:{round} {index} NX"))
                                == Reply::simple("OK")
                        }
                    })
                })
                .collect();
            tries
                .into_iter()
                .map(|outcome| usize::from(outcome.join().unwrap()))
                .sum()
        });
        assert_eq!(won, 1);
    }
}

/// Needs tasks that share a write to part if there is no room for that write: a GETDEL needs no room.
#[test]
fn in_a_full_pool_commands_that_free_room_are_done_beside_commands_that_need_room() {
    let world = World::of(options(), Durability::Power, 32 << 20);
    let mut client = world.client();
    let keys: Vec<String> = (0..10).map(|number| format!("key:{number}")).collect();
    for key in &keys {
        assert_eq!(client.call(["SET", key, "v"]), Reply::simple("OK"));
    }
    for size in [1 << 20, 64 << 10, 4 << 10, 100] {
        let value = vec![b'x'; size];
        let mut number = 0;
        while !matches!(
            client.call([b"SET", format!("{size}:{number}").as_bytes(), &value]),
            Reply::Error(_)
        ) {
            number += 1;
        }
    }
    let mut clients: Vec<Client> = (0..40).map(|_| world.client()).collect();
    let long = "y".repeat(4000);
    for key in &keys {
        for (index, client) in clients.iter_mut().enumerate() {
            client.send(match index % 2 {
                0 => request(["GETDEL", key]),
                _ => request(["SETNX", key, &long]),
            });
        }
        let replies: Vec<Reply> = clients.iter_mut().map(Client::reply).collect();
        for replies in replies.chunks(2) {
            assert!(!matches!(replies[0], Reply::Error(_)), "{:?}", replies[0]);
        }
    }
}

#[test]
fn each_item_is_taken_once() {
    let world = World::start();
    let mut client = world.client();
    for round in 0..20 {
        client.words(&format!("SET item {round}"));
        let taken: usize = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..4)
                .map(|_| {
                    let mut client = world.client();
                    scope.spawn(move || usize::from(client.words("GETDEL item") != Reply::NoBulk))
                })
                .collect();
            tries
                .into_iter()
                .map(|outcome| outcome.join().unwrap())
                .sum()
        });
        assert_eq!(taken, 1);
    }
}

/// Needs the delete of GETDEL to name the version that was read. One-sided clients count up from 1, and each count is
/// taken once, so the counts that were taken and the count that is left add up to all increments.
#[test]
fn getdel_returns_the_value_that_it_deletes() {
    let world = World::start();
    let store = world.store_address();
    let rounds = 2000;
    let taken: i64 = std::thread::scope(|scope| {
        let counting = scope.spawn(move || {
            crate::support::with_store_client(store, async |client| {
                let (mut value, mut done) = (Vec::new(), 0);
                while done < rounds {
                    let version = client.get(b"counter", &mut value).await.unwrap();
                    let number: i64 = version
                        .map_or(0, |_| std::str::from_utf8(&value).unwrap().parse().unwrap());
                    let condition = version.map_or(Condition::Absent, Condition::Version);
                    let next = (number + 1).to_string();
                    done += i64::from(matches!(
                        client
                            .put_if(b"counter", next.as_bytes(), condition)
                            .await
                            .unwrap(),
                        Written::Done(_)
                    ));
                }
            });
        });
        let mut client = world.client();
        let mut taken = 0;
        while !counting.is_finished() {
            if let Reply::Bulk(text) = client.words("GETDEL counter") {
                taken += std::str::from_utf8(&text).unwrap().parse::<i64>().unwrap();
            }
        }
        taken
    });
    let left = match world.client().words("GET counter") {
        Reply::Bulk(text) => std::str::from_utf8(&text).unwrap().parse::<i64>().unwrap(),
        _ => 0,
    };
    assert_eq!(taken + left, rounds);
}

/// Needs the write of SETNX to name the absence that was seen: a one-sided client may come in between.
#[test]
fn one_of_a_gateway_and_a_one_sided_client_that_create_a_key_succeeds() {
    let world = World::start();
    let store = world.store_address();
    let rounds = 1000;
    std::thread::scope(|scope| {
        let one_sided = scope.spawn(move || {
            crate::support::with_store_client(store, async |client| {
                let mut won = Vec::new();
                for round in 0..rounds {
                    let key = format!("lock:{round}");
                    let written = client
                        .put_if(key.as_bytes(), b"one-sided", Condition::Absent)
                        .await
                        .unwrap();
                    won.push(matches!(written, Written::Done(_)));
                }
                won
            })
        });
        let mut client = world.client();
        let won: Vec<bool> = (0..rounds)
            .map(|round| client.words(&format!("SETNX lock:{round} gateway")) == Reply::Integer(1))
            .collect();
        let theirs = one_sided.join().unwrap();
        assert!(
            won.iter().zip(&theirs).all(|(ours, theirs)| ours != theirs),
            "each key has one winner"
        );
    });
}

#[test]
fn swapped_values_form_one_chain() {
    let world = World::start();
    world.client().words("SET chain start");
    let (threads, rounds) = (4, 50);
    let seen: Vec<Vec<String>> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..threads)
            .map(|thread| {
                let mut client = world.client();
                scope.spawn(move || {
                    (0..rounds)
                        .map(|round| {
                            client
                                .words(&format!("GETSET chain {thread}:{round}"))
                                .text()
                                .to_owned()
                        })
                        .collect()
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let all: Vec<String> = seen.into_iter().flatten().collect();
    let different: BTreeSet<&String> = all.iter().collect();
    assert_eq!(
        different.len(),
        threads * rounds,
        "no value is replaced twice"
    );
}

#[test]
fn equal_values_are_compared_at_the_moment_of_the_write() {
    let world = World::start();
    let mut client = world.client();
    client.words("SET k 0");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = world.client();
            scope.spawn(move || {
                let mut done = 0;
                while done < 50 {
                    let seen: i64 = client.words("GET k").text().parse().unwrap();
                    let stored = client.words(&format!("SET k {} IFEQ {seen}", seen + 1));
                    done += i64::from(stored == Reply::simple("OK"));
                }
            });
        }
    });
    assert_eq!(client.words("GET k"), Reply::bulk("200"));
}
