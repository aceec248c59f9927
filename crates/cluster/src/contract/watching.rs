//! Waiting for a later value.

use futures_util::future::join;

use super::{Scene, drop_on_its_way};

/// Head start of a watch before the writer writes, in nanoseconds. A late watch does not fail a story.
const HEAD_START_NS: u64 = 5_000_000;

pub async fn a_watch_of_an_empty_store_sees_the_first_value(scene: Scene) {
    let (watcher, writer) = (scene.handle(), scene.handle());
    let write = async {
        scene.runtime.sleep(HEAD_START_NS).await;
        writer.store(None, b"first").await
    };
    let (seen, revision) = join(watcher.changed(None), write).await;
    assert_eq!((seen.revision, &*seen.bytes), (revision, &b"first"[..]));
}

pub async fn a_watch_sees_the_next_value_or_a_later_one(scene: Scene) {
    let (watcher, writer) = (scene.handle(), scene.handle());
    let first = writer.store(None, &[0]).await;
    const LAST: u8 = 20;
    let write = async {
        let mut last = first;
        for value in 1..=LAST {
            if value % 4 == 1 {
                scene.runtime.sleep(HEAD_START_NS).await;
            }
            last = writer.store(Some(last), &[value]).await;
        }
        last
    };
    let watch = async {
        let (mut since, mut value) = (first, 0);
        while value < LAST {
            let seen = watcher.changed(Some(since)).await;
            assert!(since < seen.revision, "{since:?} comes before {seen:?}");
            assert!(value < seen.bytes[0], "{value} comes before {seen:?}");
            (since, value) = (seen.revision, seen.bytes[0]);
        }
        since
    };
    let (seen, written) = join(watch, write).await;
    assert_eq!(seen, written);
}

pub async fn a_watch_of_an_old_revision_brings_the_newest_value_at_once(scene: Scene) {
    let handle = scene.handle();
    let first = handle.store(None, b"1").await;
    let second = handle.store(Some(first), b"2").await;
    let third = handle.store(Some(second), b"3").await;
    for since in [None, Some(first), Some(second)] {
        let seen = handle.changed(since).await;
        assert_eq!((seen.revision, &*seen.bytes), (third, &b"3"[..]));
    }
}

pub async fn a_watch_that_was_dropped_is_harmless(scene: Scene) {
    let handle = scene.handle();
    let mut last = handle.store(None, b"0").await;
    for turn in 1..=20u8 {
        drop_on_its_way(handle.store.changed(Some(last))).await;
        let revision = handle.store(Some(last), &[turn]).await;
        let seen = handle.changed(Some(last)).await;
        assert_eq!((seen.revision, &*seen.bytes), (revision, &[turn][..]));
        last = revision;
    }
}

pub async fn a_watched_value_is_not_older_than_a_value_that_this_handle_stored(scene: Scene) {
    let handle = scene.handle();
    let first = handle.store(None, &[0]).await;
    let mut last = first;
    for turn in 1..=20u8 {
        last = handle.store(Some(last), &[turn]).await;
        let seen = handle.changed(Some(first)).await;
        assert_eq!((seen.revision, &*seen.bytes), (last, &[turn][..]));
    }
}
