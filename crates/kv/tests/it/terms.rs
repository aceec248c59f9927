//! Terms: a server serves only requests of the term in which it leads their shard.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};

use stonecast_kv::{Client, Condition, Effect, StoreError, Token, Written};
use stonecast_lineage::Epoch;

use crate::fabric::on_every_provider;
use crate::world::{World, in_shards, key};

const SHARDS: u32 = 3;
const SHARDS_MAX: u32 = 64;
const KEY: &[u8] = b"key";

/// Has the server lead each shard in `term`, or none.
fn lead(world: &World, epoch: u64, term: Option<u64>) {
    let server = world.server.borrow().upgrade().expect("a story runs");
    for shard in 0..SHARDS {
        server.lead(Epoch(epoch), shard, term.map(Epoch));
    }
}

/// Tells `story` to a client in term 3 of the shard of [`KEY`].
fn told(story: impl AsyncFn(&World, &Client)) {
    in_shards(SHARDS, || {
        on_every_provider(|| {
            World::default().run(async |world| {
                lead(world, 3, Some(3));
                let refused = world.try_client().await.err().expect("term 0 is over");
                assert_not_primary(&refused, 3);
                let client = client_in(world, 3).await;
                story(world, &client).await;
            });
        });
    });
}

/// A client that has entered `term` of the shard of [`KEY`].
async fn client_in(world: &World, term: u64) -> Client {
    let (port, runtime) = world.port();
    let (first, address) = ((1, Epoch(term)), world.address());
    let client = Client::connect_to(first, Default::default(), port, runtime, &address).await;
    let client = client.unwrap();
    let shard = client.shard_of(KEY);
    client.enter(shard, Epoch(term)).await.unwrap();
    client
}

fn assert_not_primary(refused: &StoreError, expected: u64) {
    assert!(
        matches!(refused, StoreError::NotPrimary { epoch } if epoch.0 == expected),
        "{refused}"
    );
    assert_eq!(refused.effect(), Effect::None);
}

async fn put(client: &Client, token: &mut Token, value: &[u8]) -> Result<Written, StoreError> {
    client.put_with(token, KEY, value, Condition::None).await
}

/// Polls `future` once: a put that has room is then on its way.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) {
    let mut context = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
}

#[test]
fn every_request_of_a_term_that_is_over_is_refused_and_does_nothing() {
    told(async |world, client| {
        let put = client.put(KEY, b"old").await.unwrap();
        lead(world, 5, Some(5));
        assert_not_primary(&client.put(KEY, b"new").await.unwrap_err(), 5);
        assert_not_primary(&client.put_once(KEY, b"new").await.unwrap_err(), 5);
        assert_not_primary(&client.delete(KEY).await.unwrap_err(), 5);
        let conditional = client.put_if(KEY, b"new", Condition::Absent).await;
        assert_not_primary(&conditional.unwrap_err(), 5);
        let shard = client.shard_of(KEY);
        client.enter(shard, Epoch(5)).await.unwrap();
        let mut value = Vec::new();
        let found = client.get(KEY, &mut value).await.unwrap();
        assert_eq!((found, value), (Some(put), b"old".to_vec()));
        client.put(KEY, b"new").await.unwrap();
    });
}

#[test]
fn a_node_that_leads_a_shard_no_longer_refuses_it_and_serves_the_others() {
    told(async |world, client| {
        let shard = client.shard_of(KEY);
        let mut others = (0..).map(key);
        let other = others.find(|key| client.shard_of(key) != shard).unwrap();
        client
            .enter(client.shard_of(&other), Epoch(3))
            .await
            .unwrap();
        let server = world.server.borrow().upgrade().unwrap();
        server.lead(Epoch(6), shard, None);
        drop(server);
        assert_not_primary(&client.put(KEY, b"new").await.unwrap_err(), 6);
        assert_not_primary(&client.enter(shard, Epoch(6)).await.unwrap_err(), 6);
        client.put(&other, b"value").await.unwrap();
    });
}

#[test]
fn a_shard_is_entered_only_in_the_term_in_which_the_node_leads_it() {
    told(async |_, client| {
        let shard = client.shard_of(KEY);
        for term in [0, 2, 4, u64::MAX] {
            assert_not_primary(&client.enter(shard, Epoch(term)).await.unwrap_err(), 3);
        }
        let none = client.enter(SHARDS, Epoch(3)).await.unwrap_err();
        assert!(matches!(none, StoreError::Invalid), "{none}");
        client.put(KEY, b"value").await.unwrap();
    });
}

/// The seeded bug `RequestOutlivesTerm`.
#[test]
pub fn a_put_that_waits_at_its_node_is_refused_once_the_term_is_over_and_the_node_leads_again() {
    told(async |world, client| {
        client.put(KEY, b"old").await.unwrap();
        let mut token = client.token();
        let mut first = Box::pin(put(client, &mut token, b"first"));
        poll_once(pin!(first.as_mut())).await;
        lead(world, 7, Some(7));
        assert_not_primary(&first.await.unwrap_err(), 7);
        client.enter(client.shard_of(KEY), Epoch(7)).await.unwrap();
        let mut value = Vec::new();
        client.get(KEY, &mut value).await.unwrap();
        assert_eq!(value, b"old");
    });
}

/// A lease that the server gives meanwhile is of the later term. The seeded bug `StaysUntilEntered`.
#[test]
pub fn a_client_is_in_no_term_of_a_shard_while_it_asks_for_a_later_one() {
    told(async |world, client| {
        client.put(KEY, b"old").await.unwrap();
        let shard = client.shard_of(KEY);
        lead(world, 5, Some(5));
        let mut entering = Box::pin(client.enter(shard, Epoch(5)));
        poll_once(pin!(entering.as_mut())).await;
        assert_eq!(client.term(shard), None);
        entering.await.unwrap();
        assert_eq!(client.term(shard), Some(Epoch(5)));
        assert_not_primary(&client.enter(shard, Epoch(4)).await.unwrap_err(), 5);
        assert_eq!(client.term(shard), None);
        let mut abandoned = Box::pin(client.enter(shard, Epoch(5)));
        poll_once(pin!(abandoned.as_mut())).await;
        drop(abandoned);
        assert_eq!(client.term(shard), None);
        client.enter(shard, Epoch(5)).await.unwrap();
        client.put(KEY, b"new").await.unwrap();
    });
}

#[test]
fn a_retry_in_a_later_term_learns_that_its_first_attempt_was_done() {
    told(async |world, client| {
        let mut token = client.token();
        let done = put(client, &mut token, b"value").await.unwrap();
        lead(world, 8, Some(8));
        let again = put(client, &mut token, b"value").await;
        assert_not_primary(&again.unwrap_err(), 8);
        client.enter(client.shard_of(KEY), Epoch(8)).await.unwrap();
        let again = put(client, &mut token, b"value").await.unwrap();
        assert_eq!(again, done);
        assert!(matches!(done, Written::Done(_)));
    });
}

/// The versions of the first node are far ahead. With one of them, the second node takes a write that it has forgotten
/// for a write that was never done. The seeded bug `SinceOfConnection`.
#[test]
pub fn a_retry_asks_with_a_version_of_the_node_that_got_the_attempt() {
    // The outcomes that a node with this many shards remembers for each shard.
    const REMEMBERED: u32 = 1024;
    in_shards(SHARDS_MAX, || {
        let mut token = None;
        World::default().run(async |world| {
            let client = world.client().await;
            for _ in 0..2 * REMEMBERED {
                client.put(KEY, b"value").await.unwrap();
            }
            token = Some(client.token());
        });
        let mut token = token.expect("made by the first node");
        World::default().run(async |world| {
            let server = world.server.borrow().upgrade().unwrap();
            (0..SHARDS_MAX).for_each(|shard| server.lead(Epoch(3), shard, Some(Epoch(3))));
            drop(server);
            let client = client_in(world, 3).await;
            put(&client, &mut token, b"first").await.unwrap();
            for _ in 0..=REMEMBERED {
                let later = &mut client.token();
                put(&client, later, b"later").await.unwrap();
            }
            let retry = put(&client, &mut token, b"first").await;
            assert!(matches!(retry, Err(StoreError::Forgotten)), "{retry:?}");
        });
    });
}
