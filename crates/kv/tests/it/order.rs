//! The order of writes that one client has in flight together.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use stonecast_kv::StoreError;
use stonecast_media::Durability;

use crate::world::{World, key, value};

/// Needs the turns of the client: without them a small record overtakes a large one that waits for its lease.
#[test]
fn puts_in_flight_together_are_committed_in_the_order_of_asking() {
    puts_are_committed_in_the_order_of_asking(Durability::Process);
}

/// Needs the batch to wait for a segment that is being prepared: what is sent back instead is overtaken by what follows it.
#[test]
fn puts_that_the_server_copies_are_committed_in_the_order_of_asking_while_it_waits_for_space() {
    puts_are_committed_in_the_order_of_asking(Durability::Power);
}

type Put<'a> = Pin<Box<dyn Future<Output = Result<u64, StoreError>> + 'a>>;

/// A put under way, or its version.
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
            // Of very different sizes, so that most segments end with a record that does not fit before one that would.
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

/// Drives all until the first is done, which must have a later version than the `last` one.
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
