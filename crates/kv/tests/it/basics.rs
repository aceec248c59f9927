//! The store as one client sees it.

use stonecast_kv::{Condition, StoreError, Values, Written};

use crate::fabric::on_every_provider;
use crate::world::{World, key, value};

#[test]
pub fn a_put_is_read_back_and_a_deleted_key_is_gone() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let client = world.client().await;
            let mut read = Vec::new();
            assert_eq!(client.get(b"a", &mut read).await.unwrap(), None);
            let first = client.put(b"a", b"one").await.unwrap();
            assert_eq!(client.get(b"a", &mut read).await.unwrap(), Some(first));
            assert_eq!(read, b"one");
            let second = client.put(b"a", b"two").await.unwrap();
            assert!(second > first, "versions grow");
            assert_eq!(client.get(b"a", &mut read).await.unwrap(), Some(second));
            assert_eq!(read, b"two");
            assert!(client.delete(b"a").await.unwrap());
            assert_eq!(client.get(b"a", &mut read).await.unwrap(), None);
            assert!(
                !client.delete(b"a").await.unwrap(),
                "there is nothing left to delete"
            );
            let third = client.put(b"a", b"three").await.unwrap();
            assert!(
                third > second,
                "a key that is put again gets a newer version"
            );
        });
    });
}

#[test]
pub fn values_of_every_size_are_read_back_whole() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let client = world.client().await;
            let around = |n: usize| n.saturating_sub(70)..n + 8;
            let sizes: Vec<usize> = around(64)
                .chain(around(128))
                .chain(around(1024))
                .chain(around(4096))
                .chain([65_536, 1 << 20])
                .collect();
            for &size in &sizes {
                client
                    .put(&key(size as u64), &value(size as u64, size))
                    .await
                    .unwrap();
            }
            let mut read = Vec::new();
            for &size in &sizes {
                assert!(
                    client
                        .get(&key(size as u64), &mut read)
                        .await
                        .unwrap()
                        .is_some()
                );
                assert!(read == value(size as u64, size), "value of {size} bytes");
            }
            let keys: Vec<Vec<u8>> = sizes.iter().map(|&size| key(size as u64)).collect();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let mut values = Values::default();
            client.multi_get(&keys, &mut values).await.unwrap();
            for (index, &size) in sizes.iter().enumerate() {
                assert!(
                    values.get(index).unwrap().0 == value(size as u64, size),
                    "value of {size} bytes"
                );
            }
        });
    });
}

#[test]
fn keys_and_values_beyond_the_limits_are_refused_with_the_limit() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let client = world.client().await;
            assert!(matches!(
                client.put(b"", b"").await,
                Err(StoreError::KeySize { size: 0, max: 1024 })
            ));
            assert!(matches!(
                client.put(&[1; 1025], b"").await,
                Err(StoreError::KeySize {
                    size: 1025,
                    max: 1024
                })
            ));
            assert!(matches!(
                client.delete(&[]).await,
                Err(StoreError::KeySize { .. })
            ));
            assert!(matches!(
                client.get(&[], &mut Vec::new()).await,
                Err(StoreError::KeySize { .. })
            ));
            let long = vec![0; (16 << 20) + 1];
            assert!(matches!(
                client.put(b"k", &long).await,
                Err(StoreError::ValueSize {
                    max: 16_777_216,
                    ..
                })
            ));
            client.put(&[1; 1024], &long[..1 << 20]).await.unwrap();
            client.put(b"k", b"").await.unwrap();
            assert_eq!(
                client
                    .get(b"k", &mut Vec::new())
                    .await
                    .unwrap()
                    .map(|v| v > 0),
                Some(true),
                "an empty value is a value"
            );
        });
    });
}

#[test]
pub fn one_of_two_writes_that_name_the_same_version_is_done() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let (first, second) = (world.client().await, world.client().await);
            assert_eq!(
                first
                    .put_if(b"k", b"x", Condition::Version(1))
                    .await
                    .unwrap(),
                Written::Conflict(None)
            );
            let Written::Done(version) = first.put_if(b"k", b"a", Condition::Absent).await.unwrap()
            else {
                panic!("the key is absent")
            };
            assert_eq!(
                second.put_if(b"k", b"b", Condition::Absent).await.unwrap(),
                Written::Conflict(Some(version))
            );
            let Written::Done(next) = second
                .put_if(b"k", b"b", Condition::Version(version))
                .await
                .unwrap()
            else {
                panic!("the version holds")
            };
            assert_eq!(
                first
                    .put_if(b"k", b"c", Condition::Version(version))
                    .await
                    .unwrap(),
                Written::Conflict(Some(next))
            );
            let mut read = Vec::new();
            first.get(b"k", &mut read).await.unwrap();
            assert_eq!(read, b"b", "a write that conflicted left nothing");
            assert_eq!(
                first
                    .delete_if(b"k", Condition::Version(version))
                    .await
                    .unwrap(),
                Some(Written::Conflict(Some(next)))
            );
            assert!(matches!(
                first
                    .delete_if(b"k", Condition::Version(next))
                    .await
                    .unwrap(),
                Some(Written::Done(_))
            ));
            assert_eq!(
                second
                    .delete_if(b"k", Condition::Version(next))
                    .await
                    .unwrap(),
                None
            );
        });
    });
}

#[test]
pub fn many_keys_are_found_alone_in_batches_and_by_iteration_in_the_order_of_their_commits() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let client = world.client().await;
            let count = 5_000;
            for n in 0..count {
                client.put(&key(n), &value(n, 40)).await.unwrap();
            }
            for n in (0..count).step_by(3) {
                client.put(&key(n), &value(n + 1, 60)).await.unwrap();
            }
            for n in (0..count).step_by(7) {
                assert!(client.delete(&key(n)).await.unwrap());
            }
            let expected = |n: u64| match n {
                n if n.is_multiple_of(7) || n >= count => None,
                n if n.is_multiple_of(3) => Some(value(n + 1, 60)),
                n => Some(value(n, 40)),
            };
            let mut read = Vec::new();
            for n in 0..count + 100 {
                let found = client
                    .get(&key(n), &mut read)
                    .await
                    .unwrap()
                    .map(|_| read.clone());
                assert_eq!(found, expected(n), "key {n}");
            }
            let mut values = Values::default();
            for first in (0..count + 90).step_by(16) {
                let keys: Vec<Vec<u8>> = (first..first + 16).map(key).collect();
                let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                client.multi_get(&keys, &mut values).await.unwrap();
                for n in 0..16 {
                    assert_eq!(
                        values.get(n).map(|(v, _)| v.to_vec()),
                        expected(first + n as u64),
                        "key {}",
                        first + n as u64
                    );
                }
            }
            let mut entries = client.entries().await.unwrap();
            let (mut batch, mut seen, mut last) = (Vec::new(), 0, 0);
            loop {
                entries.next(&client, &mut batch).await.unwrap();
                if batch.is_empty() {
                    break;
                }
                for entry in &batch {
                    assert!(entry.version > last, "versions ascend");
                    last = entry.version;
                    let n = u64::from_be_bytes(entry.key[4..].try_into().unwrap());
                    assert_eq!(Some(entry.value.clone()), expected(n));
                    seen += 1;
                }
            }
            let present = (0..count).filter(|&n| expected(n).is_some()).count() as u64;
            assert_eq!(seen, present);
            assert_eq!(client.stat().await.unwrap().keys, present);
            // The same listing in pages, the lowest versions first.
            let (mut from, mut pages, mut versions) = (0, 0, Vec::new());
            loop {
                let mut page = client.entries_from(from, 100).await.unwrap();
                pages += 1;
                assert!(page.len() <= 100);
                let next = page.next_version();
                loop {
                    page.next(&client, &mut batch).await.unwrap();
                    if batch.is_empty() {
                        break;
                    }
                    versions.extend(batch.iter().map(|entry| entry.version));
                }
                match next {
                    Some(version) => from = version,
                    None => break,
                }
            }
            assert_eq!(
                (versions.len() as u64, pages),
                (present, present.div_ceil(100))
            );
            assert!(versions.is_sorted_by(|one, next| one < next));
        });
    });
}
