//! Clients that outlive their server.

use stonecast_kv::StoreError;

use crate::fabric::{Provider, on_every_provider};
use crate::world::{End, World, key, value};

/// Fails unless `Space::new` asks `Backing::earlier_writers_are_gone`: the second server appends to the segment that a
/// client of the first server still has mapped for writing.
#[test]
fn an_extent_leased_by_a_killed_server_is_leased_to_nobody_while_its_client_lives() {
    let world = World {
        provider: Provider::SharedMemory,
        ..World::small()
    };
    let mut survivor = None;
    world.run_until(End::Kill, async |world| {
        let client = world.client().await;
        client.put(&key(1), b"first").await.unwrap();
        survivor = Some(client);
    });
    world.run_until(End::Kill, async |world| {
        let client = world.client().await;
        client.put(&key(2), b"second").await.unwrap();
        let stat = client.stat().await.unwrap();
        assert_eq!(
            stat.segments_full, 1,
            "the segment of the first run is left alone: {stat:?}"
        );
        let mut read = Vec::new();
        assert!(
            client.get(&key(1), &mut read).await.unwrap().is_some(),
            "the client's published record is there"
        );
    });
    drop(survivor);
    world.run(async |world| {
        let client = world.client().await;
        client.put(&key(3), b"third").await.unwrap();
        let stat = client.stat().await.unwrap();
        assert_eq!(
            stat.segments_full, 0,
            "without mappings the rests of segments are used again: {stat:?}"
        );
    });
}

/// Fails without `Space::release_earlier_run` before any *no space*.
#[test]
fn segments_of_an_earlier_run_are_cleaned_as_soon_as_its_last_client_is_gone() {
    let world = World {
        provider: Provider::SharedMemory,
        ..World::small()
    };
    let keys = (world.capacity / 2) >> 10;
    let mut survivor = None;
    world.run_until(End::Kill, async |world| {
        let client = world.client().await;
        for n in 0..keys {
            client.put(&key(n), &value(n, 900)).await.unwrap();
        }
        survivor = Some(client);
    });
    world.run_until(End::Kill, async |world| {
        let client = world.client().await;
        let overwrite = async || {
            for n in 0..8 * keys {
                client.put(&key(n % keys), &value(n, 900)).await?;
            }
            Ok::<_, StoreError>(())
        };
        let refused = overwrite().await;
        assert!(
            matches!(refused, Err(StoreError::NoSpace { .. })),
            "half of the pool is left alone: {refused:?}"
        );
        drop(survivor.take());
        overwrite().await.expect("there is room again");
    });
}

/// Fails unless `make_room` requests the lease in a task of its own.
#[test]
fn puts_that_are_given_up_during_the_request_for_a_lease_lose_no_lease() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let client = world.client().await;
            for n in 0..20 {
                let (key, value) = (key(n), value(n, 100));
                let mut put = Box::pin(client.put(&key, &value));
                // One poll sends the request for a lease, or the record.
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                let _ = put.as_mut().poll(&mut context);
                drop(put);
            }
            world.runtime().sleep(1_000_000).await;
            client.put(b"k", b"v").await.unwrap();
            assert!(client.stat().await.unwrap().segments_taken <= 2);
        });
    });
}
