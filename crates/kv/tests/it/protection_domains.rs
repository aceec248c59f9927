//! Clients separated by protection domains: each has receive buffers of its own at the server.

use stonecast_kv::{ClientPolicy, ServerOptions};

use crate::crash::check;
use crate::fabric::{Provider, on};
use crate::sharing::meet_on_few_keys;
use crate::world::{World, key, value};

/// A world whose clients write like clients of other machines.
fn copying() -> World {
    World {
        options: ServerOptions {
            clients: ClientPolicy::Copying,
            ..ServerOptions::default()
        },
        ..World::default()
    }
}

#[test]
fn clients_in_separate_protection_domains_share_the_same_store() {
    on(Provider::ProtectionDomains, || {
        meet_on_few_keys(ClientPolicy::Trusted, 1);
        meet_on_few_keys(ClientPolicy::Copying, 2);
    });
}

/// Fails without `repost_own` for each arrival that was taken over, messages and records alike. A client has 256
/// buffers.
#[test]
fn a_client_with_its_own_receive_buffers_sends_more_messages_than_it_has_buffers() {
    on(Provider::ProtectionDomains, || {
        copying().run(async |world| {
            let client = world.client().await;
            for n in 0..600 {
                client
                    .put(&key(n), &value(n, 40))
                    .await
                    .expect("a buffer for the record");
            }
            for n in 0..300 {
                assert!(
                    client
                        .delete(&key(n))
                        .await
                        .expect("a buffer for the message")
                );
            }
            let left = (300..600).map(|n| (n, value(n, 40))).collect();
            check(&client, &left, 600).await;
        });
    });
}

/// Clients end with messages in flight, in buffers that end with their session. Fails unless the end of a session frees
/// the memory of its receive buffers.
#[test]
fn clients_that_come_and_go_leave_the_others_served() {
    on(Provider::ProtectionDomains, || {
        copying().run(async |world| {
            let steady = world.client().await;
            let regions = world
                .fabric()
                .region_count(0)
                .expect("the reference provider tells");
            for n in 0..40 {
                let passing = world.client().await;
                passing
                    .put(&key(n), &value(n, 100))
                    .await
                    .expect("it is served");
                // One poll sends the record.
                let (key, value) = (key(1000 + n), value(n, 100));
                let mut given_up = Box::pin(passing.put(&key, &value));
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                let _ = given_up.as_mut().poll(&mut context);
                drop(given_up);
                drop(passing);
                let mut read = Vec::new();
                assert!(
                    steady
                        .get(&crate::world::key(n), &mut read)
                        .await
                        .expect("it is served")
                        .is_some()
                );
            }
            world.runtime().sleep(10_000_000).await;
            assert_eq!(
                steady.stat().await.expect("it is served").clients,
                1,
                "the others have gone"
            );
            assert_eq!(
                world.fabric().region_count(0),
                Some(regions),
                "and their memory with them"
            );
        });
    });
}
