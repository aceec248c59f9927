//! Many clients at a time: honest ones that meet on the same keys, copying ones, and hostile ones.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future as _;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_fabric::{Access, LocalSpan, Operation, ReceiveQueue, ReceiveRequest, Status};
use stonecast_kv::{ClientPolicy, Condition, ServerOptions, StoreError, Written};

use crate::bare::{bare_queue_pair, proper_hello};
use crate::crash::check;
use crate::fabric::on_every_provider;
use crate::world::{World, key, value};

/// Values by key and version.
type ByVersion = BTreeMap<(u64, u64), Vec<u8>>;

/// Clients write and read a few keys at the same time. Each read must return a value that was written under its
/// version, and no reader sees a key go back.
pub fn meet_on_few_keys(policy: ClientPolicy, seed: u64) {
    let world = World {
        options: ServerOptions {
            clients: policy,
            ..ServerOptions::default()
        },
        ..World::default()
    };
    world.run(async |world| {
        let written: Rc<RefCell<ByVersion>> = Rc::default();
        let running = Rc::new(Cell::new(0));
        for task in 0..12 {
            let client = world.client().await;
            let (written, running) = (written.clone(), running.clone());
            running.set(running.get() + 1);
            world.runtime().spawn(Box::pin(async move {
                let mut random = random_from_seed(seed * 100 + task);
                let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
                let mut read = Vec::new();
                for _ in 0..300 {
                    let n = random.random_range(0..6);
                    if random.random_bool(0.4) {
                        let fresh = value(random.random(), random.random_range(0..300));
                        let version = client.put(&key(n), &fresh).await.unwrap();
                        assert!(
                            written.borrow_mut().insert((n, version), fresh).is_none(),
                            "every version is given once"
                        );
                        assert!(
                            seen.insert(n, version) < Some(version),
                            "a write is newer than all that was seen before"
                        );
                    } else if let Some(version) = client.get(&key(n), &mut read).await.unwrap() {
                        assert!(
                            seen.insert(n, version) <= Some(version),
                            "a key never goes back"
                        );
                        // A visible version is not in the table as long as its writer has no answer.
                        if let Some(expected) = written.borrow().get(&(n, version)) {
                            assert!(
                                *expected == read,
                                "version {version} of key {n} has the value that was written"
                            );
                        }
                    }
                }
                running.set(running.get() - 1);
            }));
        }
        while running.get() > 0 {
            world.runtime().sleep(100_000).await;
        }
        let mut last: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        for ((n, _), bytes) in written.take() {
            last.insert(n, bytes);
        }
        check(&world.client().await, &last, 8).await;
    });
}

#[test]
pub fn clients_that_meet_on_the_same_keys_see_each_others_writes_in_order() {
    on_every_provider(|| {
        for seed in 0..4 {
            meet_on_few_keys(ClientPolicy::Trusted, seed);
        }
    });
}

#[test]
fn clients_that_may_not_write_the_log_have_the_same_store_through_staging_memory() {
    on_every_provider(|| {
        for seed in 0..4 {
            meet_on_few_keys(ClientPolicy::Copying, seed);
        }
        let options = ServerOptions {
            clients: ClientPolicy::Copying,
            ..ServerOptions::default()
        };
        let world = World {
            options,
            ..World::default()
        };
        let big = value(1, 1 << 20);
        world.run(async |world| {
            let client = world.client().await;
            for n in 0..12 {
                client.put(&key(n), &big).await.unwrap();
            }
            let mut read = Vec::new();
            for n in 0..12 {
                client.get(&key(n), &mut read).await.unwrap();
                assert!(read == big);
            }
            let Written::Conflict(Some(_)) = client
                .put_if(&key(1), b"x", Condition::Absent)
                .await
                .unwrap()
            else {
                panic!("the key is there")
            };
        });
        let model = (0..12).map(|n| (n, big.clone())).collect();
        world.run(async |world| check(&world.client().await, &model, 20).await);
    });
}

#[test]
pub fn a_counter_loses_no_increment_when_all_clients_use_conditional_puts() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let done = Rc::new(Cell::new(0));
            for _ in 0..8 {
                let client = world.client().await;
                let done = done.clone();
                world.runtime().spawn(Box::pin(async move {
                    let mut read = Vec::new();
                    for _ in 0..50 {
                        loop {
                            let present = client.get(b"counter", &mut read).await.unwrap();
                            let count = if present.is_some() {
                                u64::from_le_bytes(read[..].try_into().unwrap())
                            } else {
                                0
                            };
                            let condition = present.map_or(Condition::Absent, Condition::Version);
                            let written = client
                                .put_if(b"counter", &(count + 1).to_le_bytes(), condition)
                                .await
                                .unwrap();
                            if matches!(written, Written::Done(_)) {
                                break;
                            }
                        }
                    }
                    done.set(done.get() + 1);
                }));
            }
            while done.get() < 8 {
                world.runtime().sleep(100_000).await;
            }
            let mut read = Vec::new();
            world
                .client()
                .await
                .get(b"counter", &mut read)
                .await
                .unwrap();
            assert_eq!(u64::from_le_bytes(read[..].try_into().unwrap()), 400);
        });
    });
}

#[test]
pub fn many_operations_of_one_client_are_in_flight_at_once_and_all_are_answered() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let client = world.client().await;
            let done = Rc::new(Cell::new(0u64));
            for n in 0..1000 {
                let (client, done) = (client.clone(), done.clone());
                world.runtime().spawn(Box::pin(async move {
                    client.put(&key(n), &value(n, 5000)).await.unwrap();
                    if n % 2 == 0 {
                        assert!(client.delete(&key(n)).await.unwrap());
                    }
                    done.set(done.get() + 1);
                }));
            }
            while done.get() < 1000 {
                world.runtime().sleep(100_000).await;
            }
            assert_eq!(client.stat().await.unwrap().keys, 500);
        });
    });
}

/// A peer that connects properly and then sends garbage.
#[test]
fn a_peer_that_sends_garbage_is_answered_with_invalid_and_disturbs_no_client() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let honest = world.client().await;
            honest.put(b"k", b"v").await.unwrap();
            let mut random = random_from_seed(9);
            for round in 0..40 {
                let (port, runtime) = world.port();
                let device = port.device().clone();
                let memory = device.allocate(1 << 16, Access::NONE).unwrap();
                let qp = bare_queue_pair(&port, 64, 64, 10);
                for n in 0..64 {
                    let local = LocalSpan {
                        region: memory,
                        offset: n * 1024,
                        size: 1024,
                    };
                    device
                        .post_receive(ReceiveQueue::Own(qp), &[ReceiveRequest { wr_id: n, local }])
                        .unwrap();
                }
                device
                    .connect(qp, &world.address(), &proper_hello())
                    .unwrap();
                port.activity().await;
                for _ in 0..50 {
                    let size = random.random_range(0..1024u32);
                    let mut bytes: Vec<u8> = (0..size).map(|_| random.random()).collect();
                    if let Some(first) = bytes.first_mut() {
                        *first %= 6;
                    }
                    device.memory(memory).write(0, &bytes);
                    let _ = port.post(
                        qp,
                        [Operation::Send {
                            local: LocalSpan {
                                region: memory,
                                offset: 0,
                                size,
                            },
                        }],
                    );
                    runtime.sleep(2_000).await;
                }
                let mut read = Vec::new();
                assert!(
                    honest.get(b"k", &mut read).await.unwrap().is_some(),
                    "round {round}"
                );
                honest.put(b"k", b"v").await.unwrap();
                if round % 2 == 0 {
                    let _ = device.disconnect(qp);
                }
                let _ = device.destroy_queue_pair(qp);
            }
            honest.put(b"k", b"v").await.unwrap();
        });
    });
}

/// Fails unless the buffers of unread messages are posted again: most messages of each client are unread when the
/// client is gone, and there are 2048 shared buffers.
#[test]
fn clients_that_die_with_messages_unread_take_no_receive_buffers_with_them() {
    const MESSAGES: u32 = 200;
    on_every_provider(|| {
        World::default().run(async |world| {
            for n in 0..24 {
                let (port, runtime) = world.port();
                let device = port.device().clone();
                let memory = device.allocate(64, Access::NONE).unwrap();
                let qp = bare_queue_pair(&port, MESSAGES, 4, 0);
                device
                    .connect(qp, &world.address(), &proper_hello())
                    .unwrap();
                port.activity().await;
                let local = LocalSpan {
                    region: memory,
                    offset: 0,
                    size: 8,
                };
                for _ in 1..MESSAGES {
                    port.post(qp, [Operation::Send { local }]).unwrap();
                }
                // Only the client's device runs meanwhile: the server reads none of the messages.
                let last = [Operation::Send { local }];
                let mut last = pin!(port.submit(qp, &last));
                let mut context = Context::from_waker(Waker::noop());
                let status = (0..2_000).find_map(|_| {
                    port.pump();
                    match last.as_mut().poll(&mut context) {
                        Poll::Ready(status) => Some(status.unwrap()),
                        Poll::Pending => None,
                    }
                });
                // The last operation may be incomplete if it needs a step of the server's side.
                assert!(
                    status.is_none_or(|status| status == Status::Success),
                    "no buffers for client {n}: {status:?}"
                );
                let _ = device.disconnect(qp);
                let _ = device.destroy_queue_pair(qp);
                runtime.sleep(5_000_000).await;
            }
            let next = world.client().await;
            next.put(b"k", b"v").await.unwrap();
        });
    });
}

#[test]
fn a_client_of_another_protocol_version_is_refused_with_both_versions() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let (port, _) = world.port();
            let device = port.device().clone();
            let qp = bare_queue_pair(&port, 4, 4, 1);
            for (hello, words) in [
                (
                    b"stonecdk\x63\0\0\0\0\0\0\0".to_vec(),
                    "client speaks protocol version 99 of the KV store, the server version",
                ),
                (b"GET / HTTP/1.1\r\n".to_vec(), "not a client"),
                (Vec::new(), "not a client"),
            ] {
                device.connect(qp, &world.address(), &hello).unwrap();
                let reason = loop {
                    port.activity().await;
                    match port.take_event() {
                        Some(stonecast_fabric::ConnectionEvent::Rejected { reason, .. }) => {
                            break reason;
                        }
                        Some(event) => panic!("{event:?}"),
                        None => {}
                    }
                };
                assert!(reason.contains(words), "{reason}");
            }
        });
    });
}

#[test]
fn operations_of_a_client_whose_server_is_gone_end_with_an_error_that_names_the_effect() {
    on_every_provider(|| {
        let world = World::default();
        let clients: RefCell<Vec<_>> = RefCell::default();
        world.run(async |world| {
            let client = world.client().await;
            client.put(b"k", b"v").await.unwrap();
            clients.borrow_mut().push(client);
        });
        // The server has closed every session; its clients notice the end and stop.
        let client = clients.borrow_mut().pop().unwrap();
        let _ = client;
        world.run(async |world| {
            let (port, runtime) = world.port();
            let nobody = format!("{}-nobody", world.address());
            let refused = stonecast_kv::Client::connect(port, runtime, &nobody).await;
            assert!(matches!(
                refused,
                Err(StoreError::Refused { .. } | StoreError::Device(_))
            ));
        });
    });
}
