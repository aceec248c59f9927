//! Stored values, and the results of reads.

use stonecast_base::random_from_seed;
use uuid::Uuid;

use super::Scene;
use crate::change::{ChangeError, Writer, change};
use crate::document::DocumentError;
use crate::store::{Revision, StoreError, Swap, VALUE_SIZE_MAX};

pub async fn a_store_to_which_nobody_wrote_is_empty(scene: Scene) {
    let handle = scene.handle();
    assert_eq!(handle.read().await, None);
    // No value has the first or the last of these revisions, and no revision stands for an empty store.
    for revision in [0, 1, u64::MAX].map(Revision) {
        assert_eq!(handle.swap(Some(revision), b"x").await, Swap::Conflict);
    }
    assert_eq!(handle.read().await, None);
}

pub async fn the_first_value_needs_an_empty_store(scene: Scene) {
    let handle = scene.handle();
    handle.store(None, b"first").await;
    assert_eq!(handle.swap(None, b"second").await, Swap::Conflict);
    assert_eq!(handle.read().await.unwrap().bytes, b"first");
}

pub async fn each_value_has_a_higher_revision_and_every_handle_reads_it(scene: Scene) {
    let handles = [scene.handle(), scene.handle()];
    let mut last = None;
    for turn in 0..12 {
        let bytes = format!("value {turn}").into_bytes();
        let revision = handles[turn % 2].store(last, &bytes).await;
        assert!(last < Some(revision), "{last:?} comes before {revision:?}");
        for handle in &handles {
            let stored = handle.read().await.expect("a value was stored");
            assert_eq!((stored.revision, &stored.bytes), (revision, &bytes));
        }
        last = Some(revision);
    }
}

pub async fn any_bytes_come_back_as_they_were_stored(scene: Scene) {
    let handle = scene.handle();
    let all: Vec<u8> = (0..=255).collect();
    let mut last = None;
    for bytes in [&b""[..], b"\0", b"\n", &all, &all[..255], &all[..254]] {
        last = Some(handle.store(last, bytes).await);
        assert_eq!(handle.read().await.unwrap().bytes, bytes);
    }
}

pub async fn the_longest_value_is_stored_and_a_longer_one_is_refused(scene: Scene) {
    let handle = scene.handle();
    let longest: Vec<u8> = (0..VALUE_SIZE_MAX).map(|at| (at % 251) as u8).collect();
    let revision = handle.store(None, &longest).await;
    let longer = vec![b'x'; VALUE_SIZE_MAX + 1];
    let refused = handle.store.compare_and_set(Some(revision), &longer).await;
    assert!(
        matches!(refused, Err(StoreError::Refused { .. })),
        "a value that is too long is refused: {refused:?}"
    );
    let stored = handle.read().await.unwrap();
    assert_eq!(stored.revision, revision);
    assert!(
        stored.bytes == longest,
        "the value is the one that was stored"
    );
}

pub async fn a_document_of_a_newer_program_is_refused_and_stays(scene: Scene) {
    let handle = scene.handle();
    let newer = b"stonecast-configuration 9 x\nanything";
    let revision = handle.store(None, newer).await;
    let mut writer = Writer::new("older".to_owned(), random_from_seed(1));
    let nonce = Uuid::from_u128(1);
    let changed = change(&*handle.store, &scene.runtime, &mut writer, nonce, |_| {
        unreachable!("a configuration that cannot be read is not decided on")
    });
    let refused = changed.await.expect_err("it cannot be read");
    let expected = DocumentError::Newer { found: 9 };
    assert!(
        matches!(&refused, ChangeError::Document { error, .. } if *error == expected),
        "{refused}"
    );
    let stored = handle.read().await.unwrap();
    assert_eq!((stored.revision, &*stored.bytes), (revision, &newer[..]));
}
