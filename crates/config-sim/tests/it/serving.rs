//! The service without faults.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_cluster::{ConfigStore as _, Revision, StoreError, Swap, VALUE_SIZE_MAX};

use crate::scene::{Scene, revision};

#[test]
fn a_value_is_changed_only_by_a_caller_that_expects_its_revision() {
    let scene = Scene::new(1, 2);
    let [first, second] = [0, 1].map(|caller| scene.callers[caller].store.clone());
    scene.world.block_on(async {
        assert_eq!(first.read().await, Ok(None));
        let conflict = first.compare_and_set(revision(1), b"early").await;
        assert_eq!(conflict, Ok(Swap::Conflict), "nothing is stored");
        let stored = first.compare_and_set(None, b"one").await;
        assert_eq!(stored, Ok(Swap::Done(Revision(1))));
        let conflict = second.compare_and_set(None, b"other").await;
        assert_eq!(conflict, Ok(Swap::Conflict));
        let stored = second.compare_and_set(revision(1), b"two").await;
        assert_eq!(stored, Ok(Swap::Done(Revision(2))));
        let read = first.read().await.unwrap().unwrap();
        assert_eq!((read.revision, &*read.bytes), (Revision(2), &b"two"[..]));
    });
}

#[test]
fn one_of_two_simultaneous_callers_wins() {
    let scene = Scene::new(2, 2);
    let outcomes = Rc::new(RefCell::new(Vec::new()));
    for caller in &scene.callers {
        let (store, outcomes) = (caller.store.clone(), outcomes.clone());
        caller.runtime.spawn(Box::pin(async move {
            let swap = store.compare_and_set(None, b"mine").await;
            outcomes.borrow_mut().push(swap.unwrap());
        }));
    }
    while scene.world.step() {}
    outcomes
        .borrow_mut()
        .sort_by_key(|swap| *swap == Swap::Conflict);
    assert_eq!(
        *outcomes.borrow(),
        [Swap::Done(Revision(1)), Swap::Conflict]
    );
}

#[test]
fn a_watch_returns_the_next_value_however_long_that_takes() {
    let scene = Scene::new(3, 2);
    let [watcher, writer] = [0, 1].map(|caller| scene.callers[caller].store.clone());
    let seen = Rc::new(RefCell::new(Vec::new()));
    let noted = seen.clone();
    scene.callers[0].runtime.spawn(Box::pin(async move {
        let mut since = None;
        while since < revision(2) {
            let stored = watcher.changed(since).await.unwrap();
            since = Some(stored.revision);
            noted.borrow_mut().push(stored.revision);
        }
    }));
    let runtime = scene.callers[1].runtime.clone();
    scene.world.block_on(async {
        for expected in [None, revision(1)] {
            // The pause is longer than a caller waits for one answer.
            runtime.sleep(100_000_000).await;
            writer.compare_and_set(expected, b"value").await.unwrap();
        }
    });
    while scene.world.step() {}
    assert_eq!(*seen.borrow(), [Revision(1), Revision(2)]);
}

#[test]
fn the_longest_value_is_stored_and_a_longer_one_is_refused() {
    let scene = Scene::new(4, 1);
    let store = scene.callers[0].store.clone();
    scene.world.block_on(async {
        let longest = vec![7; VALUE_SIZE_MAX];
        let stored = store.compare_and_set(None, &longest).await;
        assert_eq!(stored, Ok(Swap::Done(Revision(1))));
        assert_eq!(store.read().await.unwrap().unwrap().bytes, longest);
        let longer = vec![7; VALUE_SIZE_MAX + 1];
        let refused = store.compare_and_set(revision(1), &longer).await;
        let Err(StoreError::Refused { reason, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert!(reason.contains("too many"), "{reason}");
    });
}
