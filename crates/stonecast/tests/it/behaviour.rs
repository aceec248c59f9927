//! The behaviour of the three clients, each against the same store.

use stonecast::{
    Applied, Batch, Condition, Effect, Entry, Expectation, Record, Retry, Write, Written, blocking,
    local,
};

use crate::support::{Place, block_on};

fn entry(value: &str, version: u64) -> Option<Entry> {
    Some(Entry {
        value: value.into(),
        version,
        expires: None,
    })
}

#[test]
fn a_blocking_client_stores_reads_and_removes() {
    let place = Place::new();
    let client = blocking::connect(&place.url()).unwrap();
    assert_eq!(client.get("a").unwrap(), None);
    let first = client.put("a", "one").unwrap();
    assert_eq!(client.get("a").unwrap(), entry("one", first));
    let second = client.put("a", "two").unwrap();
    assert!(second > first, "versions grow");
    let mut value = b"what was there before".to_vec();
    assert_eq!(client.get_into("a", &mut value).unwrap(), Some(second));
    assert_eq!(value, b"two");
    assert!(client.delete("a").unwrap());
    assert!(!client.delete("a").unwrap(), "there is nothing to remove");
    assert_eq!(client.get("a").unwrap(), None);
}

/// Needs the vector back from the driver's thread, whatever the driver found.
#[test]
fn the_vector_of_a_read_keeps_its_memory_on_its_way_between_threads() {
    let place = Place::new();
    block_on(async {
        let client = stonecast::connect(&place.url()).await.unwrap();
        let version = client.put("a", "one").await.unwrap();
        let mut value = Vec::with_capacity(4096);
        let memory = value.as_ptr();
        let found = client.get_into("a", &mut value).await.unwrap();
        assert_eq!((found, &value[..]), (Some(version), &b"one"[..]));
        assert_eq!(client.get_into("b", &mut value).await.unwrap(), None);
        client.get_into("", &mut value).await.unwrap_err();
        assert_eq!((value.as_ptr(), value.capacity()), (memory, 4096));
    });
}

/// `get_into` promises to allocate nothing. The test makes fewer calls than the client makes between two timed ones: a
/// timed call may report to the server.
#[test]
fn a_read_into_memory_that_has_room_allocates_nothing() {
    let place = Place::new();
    let client = stonecast::blocking::connect(&place.url()).unwrap();
    client.put("a", "one").unwrap();
    let mut value = Vec::new();
    client.get_into("a", &mut value).unwrap();
    let allocated = allocation_counter::measure(|| {
        for _ in 0..20 {
            client.get_into("a", &mut value).unwrap();
        }
    });
    assert_eq!(value, b"one");
    assert_eq!(allocated.count_total, 0);
}

#[test]
fn a_condition_that_does_not_hold_changes_nothing_and_tells_the_version() {
    let place = Place::new();
    let client = blocking::connect(&place.url()).unwrap();
    let Written::Done(first) = client.put_if("a", "1", Condition::Absent).unwrap() else {
        panic!("the key was absent");
    };
    let absent = client.put_with("a", "2", Write::new().if_absent()).unwrap();
    assert_eq!(absent, Written::Conflict(Some(first)));
    let other = client.put_with("a", "2", Write::new().if_version(first + 1));
    assert_eq!(other.unwrap(), Written::Conflict(Some(first)));
    let other = client.delete_if("a", Condition::Version(first + 1));
    assert_eq!(other.unwrap(), Written::Conflict(Some(first)));
    assert_eq!(client.get("a").unwrap(), entry("1", first));
    let done = client.delete_if("a", Condition::Version(first)).unwrap();
    assert!(matches!(done, Written::Done(_)));
    let gone = client.delete_if("a", Condition::Version(first)).unwrap();
    assert_eq!(
        gone,
        Written::Conflict(None),
        "an absent key has no version"
    );
}

#[test]
fn many_keys_are_written_and_read_with_one_call_each() {
    let place = Place::new();
    let client = blocking::connect(&place.url()).unwrap();
    let pairs: Vec<_> = (0..100)
        .map(|n| (format!("k{n}"), format!("v{n}")))
        .collect();
    let versions: Vec<u64> = client
        .multi_put(&pairs)
        .unwrap()
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap();
    let keys: Vec<_> = (0..101).map(|n| format!("k{n}")).collect();
    let found = client.multi_get(&keys).unwrap();
    assert_eq!(found[100], None);
    for (n, found) in found[..100].iter().enumerate() {
        assert_eq!(*found, entry(&format!("v{n}"), versions[n]));
    }
}

#[test]
fn an_iteration_finds_every_record_in_the_order_of_the_commits() {
    let place = Place::new();
    let client = blocking::connect(&place.url()).unwrap();
    let mut expected = Vec::new();
    for n in 0..70 {
        let (key, value) = (format!("k{n}").into_bytes(), vec![n; usize::from(n)]);
        let version = client.put(&key, &value).unwrap();
        expected.push(Record {
            key,
            value,
            version,
            expires: None,
        });
    }
    client.put("k3", "at the end now").unwrap();
    let moved = expected.remove(3);
    let found: Vec<Record> = client.entries().unwrap().map(Result::unwrap).collect();
    assert_eq!(found[..69], expected);
    assert_eq!(found[69].key, moved.key);
}

#[test]
fn a_local_connection_has_many_operations_in_flight() {
    let place = Place::new();
    let connection = local::connect(&place.url()).unwrap();
    let versions = connection.run(async |client| {
        let puts = (0..50).map(|n| async move {
            let key = format!("k{n}");
            client.put(key.as_bytes(), b"value").await
        });
        futures_util::future::join_all(puts).await
    });
    assert!(versions.iter().all(Result::is_ok));
    let keys = connection.run(async |client| client.stat().await.unwrap().keys);
    assert_eq!(keys, 50);
    connection.close();
}

#[test]
fn clones_of_a_client_work_from_many_threads() {
    let place = Place::new();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = stonecast::connect(&place.url()).await.unwrap();
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                let client = client.clone();
                tokio::spawn(async move {
                    for n in 0..50 {
                        let key = format!("{task}/{n}");
                        let version = client.put(key.as_str(), "value").await.unwrap();
                        assert_eq!(client.get(key).await.unwrap(), entry("value", version));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let mut entries = client.entries().await.unwrap();
        let mut count = 0;
        loop {
            let batch = entries.next_batch().await.unwrap();
            if batch.is_empty() {
                break;
            }
            count += batch.len();
        }
        assert_eq!(count, 400);
    });
}

/// Needs the driver to finish the jobs under way before it ends.
#[test]
fn operations_requested_before_a_close_are_done() {
    let place = Place::new();
    let client = block_on(stonecast::connect(&place.url())).unwrap();
    let puts: Vec<_> = (0..200)
        .map(|n| {
            let client = client.clone();
            let mut put = Box::pin(async move { client.put(format!("k{n}"), "value").await });
            // The put is requested, and its answer is not awaited. The driver may have answered already.
            let answer = futures_util::FutureExt::now_or_never(&mut put);
            (put, answer)
        })
        .collect();
    client.close();
    for (put, answer) in puts {
        answer.unwrap_or_else(|| block_on(put)).unwrap();
    }
    let late = blocking::connect(&place.url()).unwrap();
    assert_eq!(late.stat().unwrap().keys, 200);
}

#[test]
fn a_write_that_is_retried_takes_effect_once_also_after_a_restart_of_the_server() {
    let mut place = Place::new();
    let token = place.sent_without_answer();
    place.end();
    place.start();
    let client = blocking::connect(&place.url()).unwrap();
    let first = client
        .put_with("a", "one", Write::retry(token.clone()))
        .unwrap();
    assert!(matches!(first, Written::Done(_)));
    let later = client.put("a", "two").unwrap();
    let again = client.put_with("a", "one", Write::retry(token)).unwrap();
    assert_eq!(again, first, "the retry tells the version of the one write");
    assert_eq!(client.get("a").unwrap(), entry("two", later));
}

/// A batch is the same over every client, and its retry is done once.
#[test]
fn a_batch_is_done_as_a_whole_over_every_client() {
    let place = Place::new();
    let client = blocking::connect(&place.url()).unwrap();
    let mut batch = Batch::new();
    batch.put(b"a", b"1").put(b"b", b"2");
    batch.expect(b"c", Expectation::Absent);
    let Applied::Done(versions) = client.apply_with(&batch, Retry::Fresh).unwrap() else {
        panic!("nobody has written c")
    };
    let found = client.multi_get(&["a", "b"]).unwrap();
    let found = found.into_iter().flatten().map(|entry| entry.version);
    assert!(found.eq(versions), "one version for each change");
    block_on(async {
        let client = stonecast::connect(&place.url()).await.unwrap();
        batch.expect(b"a", Expectation::Absent);
        let lost = client.apply(batch.clone()).await.unwrap();
        assert_eq!(lost, Applied::Contradicted { key: b"a".to_vec() });
        batch.put(&[7; 2000], b"");
        let error = client.apply(batch).await.unwrap_err();
        assert_eq!(error.effect(), Effect::None);
    });
}
