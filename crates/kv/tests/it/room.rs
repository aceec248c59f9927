//! One client with more operations than its send queue holds.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use stonecast_kv::Values;

use crate::fabric::on_every_provider;
use crate::world::{World, key, value};

const KEYS: u64 = 64;
const READERS: u64 = 40;
const WRITERS: u64 = 300;

/// Fails unless READs wait for room: the READs, or the writes beside them, find the send queue full.
#[test]
fn more_reads_than_the_send_queue_holds_wait_for_each_other_and_writes_find_room_beside_them() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let client = Rc::new(world.client().await);
            for n in 0..KEYS {
                client.put(&key(n), &value(n, 100)).await.unwrap();
            }
            let done = Rc::new(Cell::new(0));
            for reader in 0..READERS {
                let (client, done) = (client.clone(), done.clone());
                world.runtime().spawn(Box::pin(async move {
                    let keys: Vec<Vec<u8>> = (0..KEYS).map(|n| key((n + reader) % KEYS)).collect();
                    let asked: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                    let mut values = Values::default();
                    client.multi_get(&asked, &mut values).await.unwrap();
                    assert!((0..asked.len()).all(|index| values.get(index).is_some()));
                    done.set(done.get() + 1);
                }));
            }
            for writer in 0..WRITERS {
                let (client, done) = (client.clone(), done.clone());
                world.runtime().spawn(Box::pin(async move {
                    client.put(&key(KEYS + writer), b"beside").await.unwrap();
                    done.set(done.get() + 1);
                }));
            }
            while done.get() < READERS + WRITERS {
                world.runtime().sleep(100_000).await;
            }
        });
    });
}

/// Fails unless a READ goes ahead after a long wait: no completion tells of READs that were given up.
#[test]
fn reads_that_are_given_up_occupy_no_room() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let client = world.client().await;
            client.put(b"k", b"v").await.unwrap();
            let mut found = Vec::new();
            for _ in 0..2_000 {
                let mut into = Vec::new();
                let mut get = pin!(client.get(b"k", &mut into));
                let _given_up = poll_fn(|context| Poll::Ready(get.as_mut().poll(context))).await;
            }
            assert!(client.get(b"k", &mut found).await.unwrap().is_some());
            assert_eq!(found, b"v");
        });
    });
}
