//! Ports that serve one client after the other, and a server beside a client.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::join;
use stonecast_kv::{Client, Closing, Server, StoreError};

use crate::fabric::{Provider, on_every_provider};
use crate::world::{World, key, value};

/// Fails unless the task that receives answers ends with its client: the task keeps the port, and takes the next
/// client's arrivals.
#[test]
fn a_port_serves_one_client_after_the_other_and_is_free_after_the_last_one() {
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

/// Fails without the end of an `Endpoint`: each refused connection leaves a queue pair and megabytes of memory on the
/// device.
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
                // Shared memory reuses the places of freed regions; the upper half of an index counts the uses.
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

/// Fails without an inbox for each client: the second server takes the answers that its own client waits for, or that
/// client takes the requests of the second server's clients.
#[test]
fn a_server_is_a_client_of_another_server_on_its_own_port() {
    on_every_provider(|| {
        let beyond = World::default();
        World::default().run(async |world| {
            let pool = beyond.open_pool().unwrap();
            let (port, address) = world.listener();
            let runtime = world.runtime();
            let server = Server::open(pool, port.clone(), runtime.clone(), beyond.options);
            let (server, _) = server.await.unwrap();
            port.device().listen(&address).unwrap();
            let (server, stop) = (Rc::new(server), Rc::new(Cell::new(false)));
            let (serving, stopped) = (server.clone(), stop.clone());
            runtime.spawn(Box::pin(async move {
                serving.run(&|| stopped.get()).await.unwrap();
            }));
            // One client of the first server is on the port of the second server; the other client belongs to the
            // second server.
            let connect = |port| Client::connect(port, runtime.clone(), &address);
            let first = world.address();
            let onwards = Client::connect(port, runtime.clone(), &first);
            let onwards = onwards.await.unwrap();
            let outside = connect(world.port().0).await.unwrap();
            for n in 0..50 {
                let (key, far, near) = (key(n), value(n, 100), value(n + 1000, 100));
                let far = onwards.put(&key, &far);
                let near = outside.put(&key, &near);
                let (far, near) = join(far, near).await;
                far.unwrap();
                near.unwrap();
            }
            let mut read = Vec::new();
            for n in 0..50 {
                onwards.get(&key(n), &mut read).await.unwrap();
                assert_eq!(read, value(n, 100), "the first server's");
                outside.get(&key(n), &mut read).await.unwrap();
                assert_eq!(read, value(n + 1000, 100), "the second server's");
            }
            drop(outside);
            stop.set(true);
            while Rc::strong_count(&server) > 1 {
                runtime.sleep(1_000_000).await;
            }
            let server = Rc::into_inner(server).unwrap();
            assert_eq!(server.close().await.unwrap(), Closing::Clean);
            onwards
                .put(b"after", b"the end of its server")
                .await
                .unwrap();
        });
    });
}
