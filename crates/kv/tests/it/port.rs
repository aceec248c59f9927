//! Ports that serve one client after the other.

use std::rc::Rc;

use stonecast_kv::{Client, StoreError};

use crate::fabric::{Provider, on_every_provider};
use crate::world::World;

/// Needs: the task that takes arrivals ends with its client. Without that it keeps the port, and takes the next client's
/// arrivals.
#[test]
fn a_port_serves_one_client_after_the_other_and_is_free_when_the_last_one_goes() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let (port, runtime) = world.port();
            for n in 0..20u8 {
                let client = Client::connect(port.clone(), runtime.clone(), &world.address())
                    .await
                    .unwrap();
                client.put(b"k", &[n]).await.unwrap();
                if n % 2 == 0 {
                    client.close().await;
                }
            }
            world.runtime().sleep(1_000_000).await;
            assert_eq!(
                Rc::strong_count(&port),
                1,
                "nobody keeps the port of a client that is gone"
            );
        });
    });
}

/// Needs `Made`: without it each refused connection leaves a queue pair and megabytes of memory on the device.
#[test]
fn a_connection_that_fails_leaves_nothing_behind() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let (port, runtime) = world.port();
            let nobody = format!("{}-nobody", world.address());
            let before = port
                .device()
                .allocate(64, stonecast_fabric::Access::NONE)
                .unwrap();
            for _ in 0..50 {
                let refused = Client::connect(port.clone(), runtime.clone(), &nobody).await;
                assert!(matches!(
                    refused,
                    Err(StoreError::Refused { .. } | StoreError::Device(_))
                ));
            }
            let after = port
                .device()
                .allocate(64, stonecast_fabric::Access::NONE)
                .unwrap();
            if Provider::chosen() == Provider::SharedMemory {
                // It gives the places of what was freed again; the upper half of an index counts how often.
                assert!(
                    after.index & 0xffff < 8,
                    "regions are left behind: {before:?} {after:?}"
                );
            }
            let client = Client::connect(port.clone(), runtime, &world.address())
                .await
                .unwrap();
            client.put(b"k", b"v").await.unwrap();
            drop(client);
            world.runtime().sleep(1_000_000).await;
            assert_eq!(Rc::strong_count(&port), 1);
        });
    });
}
