//! Writes whose outcome a client does not know, and their retries.

use stonecast_fabric::Runtime;
use stonecast_kv::limits::OUTCOMES_MAX;
use stonecast_kv::{
    Client, ClientPolicy, Condition, Effect, ServerOptions, StoreError, Token, Written,
};

use crate::fabric::on_every_provider;
use crate::world::{End, World, key, value};

/// Begins a write and gives it up after `patience_ns`, like a client whose connection breaks. A request that was sent
/// may still take effect.
async fn give_up<T>(
    runtime: std::rc::Rc<dyn Runtime>,
    patience_ns: u64,
    write: impl Future<Output = T>,
) {
    let mut write = std::pin::pin!(write);
    let mut late = std::pin::pin!(runtime.sleep(patience_ns));
    std::future::poll_fn(|context| match write.as_mut().poll(context) {
        std::task::Poll::Ready(_) => std::task::Poll::Ready(()),
        std::task::Poll::Pending => late.as_mut().poll(context),
    })
    .await;
}

async fn version(client: &Client, key: &[u8]) -> Option<u64> {
    client.get(key, &mut Vec::new()).await.unwrap()
}

/// Fails without the token in the record, without the remembered outcome, and without the question before the second
/// attempt.
#[test]
pub fn a_write_that_was_done_is_not_done_again_whatever_was_written_after_it() {
    on_every_provider(|| {
        World::default().run(async |world| {
            // A question over another connection ends the connection of the earlier attempt; these two connections
            // stay.
            let (reader, other) = (world.client().await, world.client().await);
            let client = world.client().await;
            let mut token = client.token();
            let Written::Done(first) = client
                .put_with(&mut token, b"k", b"mine", Condition::None)
                .await
                .unwrap()
            else {
                panic!("nothing stands against it")
            };
            let theirs = other.put(b"k", b"theirs").await.unwrap();
            for again in [&client, &world.client().await] {
                let done = again
                    .put_with(&mut token, b"k", b"mine", Condition::None)
                    .await
                    .unwrap();
                assert_eq!(
                    done,
                    Written::Done(first),
                    "a retry returns the version of the first attempt"
                );
            }
            assert_eq!(
                version(&reader, b"k").await,
                Some(theirs),
                "and changes nothing"
            );

            let client = world.client().await;
            let mut token = client.token();
            assert!(matches!(
                client
                    .delete_with(&mut token, b"k", Condition::None)
                    .await
                    .unwrap(),
                Some(Written::Done(_))
            ));
            let theirs = other.put(b"k", b"new").await.unwrap();
            assert!(matches!(
                client
                    .delete_with(&mut token, b"k", Condition::None)
                    .await
                    .unwrap(),
                Some(Written::Done(_))
            ));
            assert_eq!(
                version(&reader, b"k").await,
                Some(theirs),
                "a delete that was done deletes nothing later"
            );
        });
    });
}

/// Each write adds one to a counter, so a write that is done twice or not at all is noticed. Fails without the end of
/// the earlier attempt's connection (`end_session_called`): a request of that attempt takes effect after the question.
#[test]
pub fn writes_that_are_given_up_at_any_moment_and_retried_elsewhere_are_done_once() {
    on_every_provider(|| {
        for clients in [ClientPolicy::Trusted, ClientPolicy::Copying] {
            let world = World {
                options: ServerOptions {
                    clients,
                    ..ServerOptions::default()
                },
                ..World::default()
            };
            world.run(async |world| {
                for n in 0..60u64 {
                    let unlucky = world.client().await;
                    let mut token = unlucky.token();
                    let (key, value) = (key(n), value(n, 100));
                    give_up(
                        world.runtime(),
                        n * 300,
                        unlucky.put_with(&mut token, &key, &value, Condition::Absent),
                    )
                    .await;
                    let lucky = world.client().await;
                    let done = lucky
                        .put_with(&mut token, &key, &value, Condition::Absent)
                        .await
                        .unwrap();
                    let Written::Done(version) = done else {
                        panic!("write {n} stands against itself: {done:?}")
                    };
                    assert_eq!(
                        lucky.get(&key, &mut Vec::new()).await.unwrap(),
                        Some(version)
                    );
                }
                let stat = world.client().await.stat().await.unwrap();
                assert_eq!((stat.puts, stat.keys), (60, 60), "each was done once");
            });
        }
    });
}

/// Fails unless the scan notes tokens, and the checkpoint keeps them.
#[test]
pub fn a_restart_of_the_server_forgets_no_outcome() {
    on_every_provider(|| {
        let world = World::default();
        let mut tokens: Vec<(Token, u64)> = Vec::new();
        for end in [End::Kill, End::Close, End::Kill] {
            world.run_until(end, async |world| {
                let client = world.client().await;
                for (n, (token, first)) in tokens.iter_mut().enumerate() {
                    let key = key(n as u64);
                    let later = client.put(&key, b"later").await.unwrap();
                    let done = client
                        .put_with(token, &key, b"again", Condition::None)
                        .await
                        .unwrap();
                    assert_eq!(done, Written::Done(*first), "write {n} was done before");
                    assert_eq!(version(&client, &key).await, Some(later));
                }
                let n = tokens.len() as u64;
                let mut token = client.token();
                let Written::Done(first) = client
                    .put_with(&mut token, &key(n), b"first", Condition::None)
                    .await
                    .unwrap()
                else {
                    panic!("nothing stands against it")
                };
                tokens.push((token, first));
            });
        }
        // The first attempt after the restart sends a write that was never sent before.
        let unsent = world.run(async |world| {
            let client = world.client().await;
            let mut token = client.token();
            drop(client.put_with(&mut token, b"unsent", b"", Condition::None));
            token
        });
        world.run(async |world| {
            let client = world.client().await;
            let mut token = unsent;
            assert!(matches!(
                client
                    .put_with(&mut token, b"unsent", b"", Condition::Absent)
                    .await
                    .unwrap(),
                Written::Done(_)
            ));
        });
    });
}

/// Fails without the horizon: a write that was done long ago would be done again.
#[test]
fn an_outcome_that_is_too_old_is_forgotten_with_an_error_and_never_guessed() {
    let world = World {
        capacity: 256 << 20,
        ..World::default()
    };
    world.run(async |world| {
        let client = world.client().await;
        let mut old = client.token();
        let first = client
            .put_with(&mut old, b"k", b"v", Condition::None)
            .await
            .unwrap();
        for n in 0..OUTCOMES_MAX as u64 {
            let mut token = client.token();
            client
                .put_with(&mut token, &key(n), b"", Condition::None)
                .await
                .unwrap();
        }
        let error = client
            .put_with(&mut old, b"k", b"v", Condition::None)
            .await
            .unwrap_err();
        assert!(
            matches!(error, StoreError::Forgotten) && error.effect() == Effect::Unknown,
            "{error}"
        );
        let Written::Done(first) = first else {
            panic!("nothing stood against it")
        };
        assert_eq!(version(&client, b"k").await, Some(first));
    });
}

/// Fails if a number other than a version moves a client's latest version: a refusal carries the bytes of live records,
/// and a token made after the refusal would seem newer than any write.
#[test]
fn an_outcome_is_forgotten_in_time_even_after_the_pool_was_full() {
    let world = World {
        capacity: 16 << 20,
        segment_size: 256 << 10,
        ..World::default()
    };
    world.run(async |world| {
        let client = world.client().await;
        let mut n = 0;
        loop {
            match client.put(&key(n), &value(n, 90_000)).await {
                Ok(_) => n += 1,
                Err(StoreError::NoSpace { live, .. }) => {
                    assert!(
                        live > 2 * OUTCOMES_MAX as u64,
                        "{live} is above every version"
                    );
                    break;
                }
                Err(error) => panic!("put {n}: {error}"),
            }
        }
        for n in 0..n / 2 {
            assert!(client.delete(&key(n)).await.unwrap());
        }
        let mut old = client.token();
        let done = client.put_with(&mut old, b"k", b"mine", Condition::None);
        assert!(matches!(done.await.unwrap(), Written::Done(_)));
        for _ in 0..OUTCOMES_MAX {
            let mut token = client.token();
            let done = client.put_with(&mut token, b"k", b"theirs", Condition::None);
            assert!(matches!(done.await.unwrap(), Written::Done(_)));
        }
        let theirs = version(&client, b"k").await;
        let again = client.put_with(&mut old, b"k", b"mine", Condition::None);
        let again = again.await;
        assert!(matches!(again, Err(StoreError::Forgotten)), "{again:?}");
        assert_eq!(
            version(&client, b"k").await,
            theirs,
            "the write is not done twice"
        );
    });
}

#[test]
fn a_delete_on_condition_of_absence_deletes_nothing() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let client = world.client().await;
            assert_eq!(
                client.delete_if(b"k", Condition::Absent).await.unwrap(),
                None
            );
            let version = client.put(b"k", b"v").await.unwrap();
            let conflict = client.delete_if(b"k", Condition::Absent).await.unwrap();
            assert_eq!(conflict, Some(Written::Conflict(Some(version))));
        });
    });
}
