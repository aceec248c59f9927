//! The order of writes that one client has in flight together.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use stonecast_kv::{Client, Condition, StoreError, Written};
use stonecast_media::Durability;

use crate::world::{World, key, value};

/// Fails without the turns of the client: a small record overtakes a large one that waits for its lease.
#[test]
fn puts_in_flight_together_are_committed_in_the_order_of_the_calls() {
    puts_are_committed_in_the_order_of_asking(Durability::Process);
}

/// Fails unless the batch waits for a segment that is being prepared: a put that is sent back instead is overtaken by
/// the next one.
#[test]
fn puts_that_the_server_copies_are_committed_in_order_while_the_server_waits_for_space() {
    puts_are_committed_in_the_order_of_asking(Durability::Power);
}

type Put<'a> = Pin<Box<dyn Future<Output = Result<u64, StoreError>> + 'a>>;

/// A put in flight, or its version.
enum Flying<'a> {
    Put(Put<'a>),
    Done(u64),
}

fn puts_are_committed_in_the_order_of_asking(durability: Durability) {
    let world = World {
        segment_size: 256 << 10,
        durability,
        ..World::default()
    };
    world.run(async |world| {
        let client = &world.client().await;
        let mut flying: VecDeque<Flying<'_>> = VecDeque::new();
        let mut last = 0;
        for n in 0..4_000 {
            // The sizes differ much, so that at the end of most segments a record does not fit and the next one would.
            let size = if n % 5 == 0 { 30_000 } else { 20 };
            let mut put: Put<'_> =
                Box::pin(async move { client.put(&key(n), &value(n, size)).await });
            let done = poll_fn(|context| Poll::Ready(put.as_mut().poll(context))).await;
            assert!(done.is_pending(), "a put waits for the server");
            flying.push_back(Flying::Put(put));
            if flying.len() == 48 {
                take_first(&mut flying, &mut last).await;
            }
        }
        while !flying.is_empty() {
            take_first(&mut flying, &mut last).await;
        }
    });
}

/// Drives all puts until the first is done, which must have a later version than `last`.
async fn take_first(flying: &mut VecDeque<Flying<'_>>, last: &mut u64) {
    let version = poll_fn(|context| {
        for place in flying.iter_mut() {
            if let Flying::Put(put) = place
                && let Poll::Ready(version) = put.as_mut().poll(context)
            {
                *place = Flying::Done(version.expect("there is room"));
            }
        }
        match flying.front() {
            Some(Flying::Done(version)) => Poll::Ready(*version),
            _ => Poll::Pending,
        }
    });
    let version = version.await;
    flying.pop_front();
    assert!(version > *last, "version {version} after {last}");
    *last = version;
}

/// Sends `first` and then `second` before the server takes either of them. Returns the number of persists that made
/// both durable.
async fn persists_of_two<A, B>(
    client: &Client,
    first: impl Future<Output = Result<A, StoreError>>,
    second: impl Future<Output = Result<B, StoreError>>,
) -> u64 {
    let before = client.metrics().await.unwrap().stat.persists;
    let (mut first, mut second) = (Box::pin(first), Box::pin(second));
    poll_fn(|context| {
        assert!(first.as_mut().poll(context).is_pending());
        assert!(second.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    first.await.unwrap_or_else(|error| panic!("{error}"));
    second.await.unwrap_or_else(|error| panic!("{error}"));
    client.metrics().await.unwrap().stat.persists - before
}

/// Fails without the persist before a write that depends on another write of its batch. A crash may keep any part of
/// the bytes of one persist. After such a crash, a delete without the put that it removed is answered as *removed*, and
/// the put that its client repeats stores the key again.
#[test]
fn a_write_that_depends_on_another_one_of_its_batch_is_persisted_after_that_one() {
    let world = World {
        durability: Durability::Power,
        ..World::default()
    };
    world.run(async |world| {
        let client = &world.client().await;
        client.put(b"there", b"1").await.unwrap();
        let delete = async |key| {
            let is_there = client.delete(key).await?;
            assert!(is_there);
            Ok(())
        };
        let put_if_absent = async |key| {
            let mut token = client.token();
            let written = client.put_with(&mut token, key, b"3", Condition::Absent);
            assert!(matches!(written.await?, Written::Done(_)));
            Ok(())
        };
        for (first, second, persists) in [("a", "there", 1), ("there", "there", 2)] {
            let (first, second) = (first.as_bytes(), second.as_bytes());
            let took = persists_of_two(client, client.put(first, b"2"), delete(second)).await;
            assert_eq!(took, persists, "a put, then a delete");
            client.put(b"there", b"1").await.unwrap();
        }
        for (second, persists) in [("b", 1), ("there", 2)] {
            let (delete, put) = (delete(b"there"), put_if_absent(second.as_bytes()));
            let took = persists_of_two(client, delete, put).await;
            assert_eq!(took, persists, "a delete, then a put if absent");
            client.put(b"there", b"1").await.unwrap();
        }
        let put = client.put(b"there", b"2");
        let took = persists_of_two(client, put, client.put(b"there", b"3")).await;
        assert_eq!(took, 1, "the second put does not depend on the first");
    });
}
