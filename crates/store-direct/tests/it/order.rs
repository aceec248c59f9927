//! The order of writes that one client has in flight together.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use stonecast_store_direct::StoreError;

use crate::world::{World, key, value};

/// Needs the turns of the client: without them a small record overtakes a large one that waits for its lease.
#[test]
fn puts_in_flight_together_are_committed_in_the_order_of_asking() {
    type Put<'a> = Pin<Box<dyn Future<Output = Result<u64, StoreError>> + 'a>>;
    let world = World { segment_size: 256 << 10, ..World::default() };
    world.run(async |world| {
        let client = &world.client().await;
        let mut flying: VecDeque<Put<'_>> = VecDeque::new();
        let mut last = 0;
        for n in 0..4_000 {
            // Of very different sizes, so that most segments end with a record that does not fit before one that would.
            let size = if n % 5 == 0 { 30_000 } else { 20 };
            let mut put: Put<'_> = Box::pin(async move { client.put(&key(n), &value(n, size)).await });
            let done = poll_fn(|context| Poll::Ready(put.as_mut().poll(context))).await;
            assert!(done.is_pending(), "a put waits for the server");
            flying.push_back(put);
            if flying.len() == 48 {
                let version = flying.pop_front().expect("there are 48").await.expect("there is room");
                assert!(version > last, "put {n}: version {version} after {last}");
                last = version;
            }
        }
        for put in flying {
            let version = put.await.expect("there is room");
            assert!(version > last, "version {version} after {last}");
            last = version;
        }
    });
}
