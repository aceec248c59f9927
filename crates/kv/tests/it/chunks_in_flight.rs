//! Values whose chunks are in flight together: a few round trips, and nothing left of a put that fails or is given up.

use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, join, select};
use stonecast_kv::limits::VALUE_SIZE_MAX;
use stonecast_kv::{Client, Condition, Expiry, StoreError, Values, Written};
use stonecast_log::{Form, RecordHeader};

use crate::chunks::{Sent, change_records};
use crate::expiry::world::{End, MS, ROUND_TRIP, Stage};
use crate::fabric::Provider;
use crate::meddling::{self, Meddler};
use crate::world::{World, value};

/// Longer than any record of a pool whose segments have 256 KiB: seven chunks.
const LONG: usize = 400_000;

async fn get(client: &Client, key: &[u8]) -> Option<Vec<u8>> {
    let mut read = Vec::new();
    let version = client.get(key, &mut read).await.unwrap();
    version.map(|_| read)
}

async fn live_bytes(client: &Client) -> u64 {
    client.stat().await.unwrap().live_bytes
}

/// The live bytes with each of `contents` in turn, of which the last one stays.
async fn live_bytes_with<const N: usize>(client: &Client, contents: [&Vec<u8>; N]) -> Vec<u64> {
    let mut sizes = Vec::new();
    for content in contents {
        client.put(b"key", content).await.unwrap();
        sizes.push(live_bytes(client).await);
    }
    sizes
}

/// The round trips that the client has waited for in `call`.
async fn round_trips(stage: &Stage, call: impl Future<Output = ()>) -> u64 {
    let start = stage.now();
    call.await;
    (stage.now() - start) / ROUND_TRIP
}

/// Fails if a chunk waits for the one before it, or a part of a record for the part before it. A put in small segments
/// waits for a lease after each four chunks.
#[test]
fn a_long_value_takes_a_few_round_trips() {
    const LARGE: u64 = 4 << 20;
    const SMALL: u64 = 256 << 10;
    for (size, segment_size, of_put, of_get) in [
        (1 << 20, LARGE, 1, 5),
        (VALUE_SIZE_MAX, LARGE, 7, 28),
        (VALUE_SIZE_MAX, SMALL, 66, 56),
    ] {
        let segments = (64 << 20) / segment_size;
        Stage::tell_far_away((segments, segment_size), async |stage| {
            let client = stage.client().await;
            let content = value(1, size);
            client.put(b"key", &content).await.unwrap();
            let put = async { _ = client.put(b"key", &content).await.unwrap() };
            assert_eq!(round_trips(stage, put).await, of_put, "put of {size} bytes");
            let mut read = Vec::new();
            let get = async { assert!(client.get(b"key", &mut read).await.unwrap().is_some()) };
            assert_eq!(round_trips(stage, get).await, of_get, "GET of {size} bytes");
            assert!(read == content);
        });
    }
}

/// The chunks before and after the refused one are in the log. Fails if the client abandons the upload while chunks are
/// on their way, or if the server looks for no chunk behind the first one that is missing.
#[test]
fn nothing_is_left_of_a_put_of_which_one_chunk_is_refused() {
    if !Provider::chosen().leases_extents() {
        // The server encodes copied records anew.
        return;
    }
    World::small().run(async |world| {
        let meddler = Rc::new(Meddler::default());
        let client = meddling::client(world, &meddler).await;
        let (first, second) = (value(1, LONG), value(2, LONG));
        client.put(b"key", &first).await.unwrap();
        let (format, opening, log) = meddling::log_of(world, &client);
        let before = live_bytes(&client).await;
        for number in [0, 2, 6] {
            let sent = Sent::default();
            let late = move |header: &RecordHeader, name: &[u8]| {
                let is_it = header.form() == Form::Chunk && name[16..] == u32::to_le_bytes(number);
                let late = Expiry::at_ms(header.expires()?.ms() + 3_600_000);
                is_it.then_some((Form::Chunk, late))
            };
            let forge = change_records(format, opening, log, &sent, late);
            meddler.forge.replace(Some(forge));
            let refused = client.put(b"key", &second).await.unwrap_err();
            assert!(matches!(refused, StoreError::Invalid), "{refused}");
            assert_eq!(sent.borrow().len(), 7, "all chunks were in flight");
            assert_eq!(live_bytes(&client).await, before, "chunk {number}");
            assert!(get(&client, b"key").await.unwrap() == first);
        }
        meddler.forge.replace(None);
        client.put(b"key", &second).await.unwrap();
        assert!(get(&client, b"key").await.unwrap() == second);
    });
}

/// The server is killed while chunks are in flight, at every part of a put.
#[test]
fn a_link_that_is_cut_while_chunks_are_in_flight_tears_no_value_and_leaves_no_chunk() {
    let (mut done, mut undone) = (0, 0);
    for part in 0..24 {
        Stage::tell(16, async |stage| {
            let client = stage.client().await;
            let (first, second) = (value(1, LONG), value(2, LONG / 4 * 3));
            let sizes = live_bytes_with(&client, [&second, &first]).await;
            let cut = async {
                stage.pass(part * 8_000).await;
                stage.restart(End::Kill, 0).await;
            };
            let (put, ()) = join(client.put(b"key", &second), cut).await;
            let client = stage.client().await;
            let found = get(&client, b"key").await.unwrap();
            let is_done = found == second;
            assert!(is_done || found == first && put.is_err(), "part {part}");
            let wanted = sizes[usize::from(!is_done)];
            assert_eq!(live_bytes(&client).await, wanted, "part {part}");
            done += u64::from(is_done);
            undone += u64::from(!is_done);
        });
    }
    assert!(done > 3 && undone > 3, "{done} done, {undone} undone");
}

/// The future of a put is dropped at every part of it. Fails if the client does not abandon the upload, and if it does
/// so only while chunks are on their way.
#[test]
fn a_put_that_is_given_up_leaves_no_chunk() {
    let (mut done, mut undone) = (0, 0);
    for part in 0..24 {
        Stage::tell(16, async |stage| {
            let client = stage.client().await;
            let (first, second) = (value(1, LONG), value(2, LONG / 4 * 3));
            let sizes = live_bytes_with(&client, [&second, &first]).await;
            {
                let put = pin!(client.put(b"key", &second));
                let patience = pin!(stage.pass(part * 8_000));
                let _: Either<_, _> = select(put, patience).await;
            }
            stage.pass(2 * MS).await;
            let found = get(&client, b"key").await.unwrap();
            let is_done = found == second;
            assert!(is_done || found == first, "part {part}");
            let wanted = sizes[usize::from(!is_done)];
            assert_eq!(live_bytes(&client).await, wanted, "part {part}");
            client.put(b"key", &second).await.unwrap();
            assert!(get(&client, b"key").await.unwrap() == second);
            done += u64::from(is_done);
            undone += u64::from(!is_done);
        });
    }
    assert!(done > 3 && undone > 3, "{done} done, {undone} undone");
}

/// Fails if the chunks are sent before the client looks at the key.
#[test]
fn a_put_on_a_condition_that_does_not_hold_sends_no_chunk() {
    Stage::tell_far_away((64, 256 << 10), async |stage| {
        let client = stage.client().await;
        let content = value(1, LONG);
        let version = client.put(b"key", &content).await.unwrap();
        let puts = client.stat().await.unwrap().puts;
        for condition in [Condition::Absent, Condition::Version(version + 1)] {
            let put = client.put_if(b"key", &content, condition);
            let late = async { assert_eq!(put.await.unwrap(), Written::Conflict(Some(version))) };
            assert_eq!(round_trips(stage, late).await, 2, "bucket, and record");
        }
        let put = client.put_if(b"none", &content, Condition::Version(version));
        assert_eq!(put.await.unwrap(), Written::Conflict(None));
        assert_eq!(client.stat().await.unwrap().puts, puts);
        for (key, condition) in [
            (b"key".as_slice(), Condition::Version(version)),
            (b"none", Condition::Absent),
        ] {
            let put = client.put_if(key, &content, condition).await.unwrap();
            assert!(matches!(put, Written::Done(_)), "{put:?}");
        }
    });
}

/// Both clients see that the condition holds before they send their chunks.
#[test]
fn the_server_decides_about_a_condition_when_the_chunks_are_there() {
    Stage::tell(24, async |stage| {
        let (one, other) = (stage.client().await, stage.client().await);
        let contents = [value(1, LONG), value(2, LONG)];
        for condition in [Condition::Absent, Condition::None] {
            let condition = match condition {
                Condition::None => Condition::Version(one.put(b"key", b"short").await.unwrap()),
                absent => absent,
            };
            let puts = join(
                one.put_if(b"key", &contents[0], condition),
                other.put_if(b"key", &contents[1], condition),
            );
            let (first, second) = puts.await;
            let done = [first.unwrap(), second.unwrap()].map(|it| matches!(it, Written::Done(_)));
            assert!(done[0] != done[1], "{done:?}");
            let winner = &contents[usize::from(done[1])];
            assert!(get(&one, b"key").await.unwrap() == *winner);
        }
    });
}

/// Fails if the chunks are read before the size of the value is compared with the room.
#[test]
fn a_value_that_a_read_of_several_keys_has_no_room_for_is_not_read() {
    Stage::tell_far_away((64, 256 << 10), async |stage| {
        let client = stage.client().await;
        let content = value(1, LONG);
        client.put(b"key", &content).await.unwrap();
        client.put(b"short", b"value").await.unwrap();
        let keys: [&[u8]; 2] = [b"short", b"key"];
        let mut values = Values::default();
        let read = client.multi_get_within(&keys, LONG - 1, &mut values);
        let read = round_trips(stage, async { assert_eq!(read.await.unwrap(), 1) });
        assert_eq!(read.await, 2, "all keys at once, and then this one");
        let read = client.multi_get_within(&keys, 2 * LONG, &mut values);
        assert_eq!(read.await.unwrap(), 2);
        assert!(values.get(1).unwrap().0 == content);
    });
}
