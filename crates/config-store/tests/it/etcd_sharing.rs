//! Several callers of one store, some of which meet an etcd that does not answer.

use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use stonecast_cluster::{ConfigStore, Revision, StoreError, Swap};
use stonecast_config_store::Bounds;
use stonecast_fabric::{Selected, select};

use crate::support::{Fake, Reply, finish, runtime};

const RANGE: &str = "/v3/kv/range";
const TXN: &str = "/v3/kv/txn";

/// A silence so long that no story mistakes it for an answer.
const PATIENT: Bounds = Bounds {
    connect: Duration::from_secs(1),
    answer: Duration::from_secs(2),
    listen: Duration::from_secs(1),
};

fn open(endpoints: &[&str]) -> Rc<dyn ConfigStore> {
    let address = format!("etcd://{}/k", endpoints.join(","));
    stonecast_config_store::open_within(&address.parse().unwrap(), PATIENT).unwrap()
}

const EMPTY: &str = r#"{"header":{"cluster_id":"7","revision":"9"}}"#;

fn empty() -> Reply {
    Reply::Say(200, EMPTY.to_owned())
}

fn done() -> Reply {
    let answer = r#"{"header":{"cluster_id":"7","revision":"10"},"succeeded":true}"#;
    Reply::Say(200, answer.to_owned())
}

/// An etcd that answers reads, and no transaction.
fn etcd_that_changes_nothing() -> Fake {
    Fake::start(|path, _| match path {
        RANGE => empty(),
        _ => Reply::Silence,
    })
}

#[test]
fn an_unanswered_change_delays_no_read() {
    let fake = etcd_that_changes_nothing();
    let store = open(&[&fake.endpoint]);
    let change = store.compare_and_set(None, b"x");
    let read = async {
        // The transaction is in transit.
        while fake.count(TXN) == 0 {
            store.read().await.unwrap();
        }
        store.read().await
    };
    match finish(select(change, read)) {
        Selected::Second(read) => assert_eq!(read, Ok(None)),
        Selected::First(change) => panic!("the read waited for the change: {change:?}"),
    }
}

#[test]
fn reads_that_wait_for_a_silent_etcd_are_answered_by_one_read() {
    let fake = Fake::start(|_, _| Reply::Silence);
    let store = open(&[&fake.endpoint]);
    let reads = finish(join_all((0..10).map(|_| store.read())));
    for read in reads {
        assert!(matches!(read, Err(StoreError::Refused { .. })), "{read:?}");
    }
    let asked = fake.count(RANGE);
    assert!(asked <= 2, "the first read and one for all others: {asked}");
}

#[test]
fn a_change_during_a_read_is_one_request() {
    let reads = AtomicUsize::new(0);
    let fake = Fake::start(move |path, _| match path {
        RANGE if reads.fetch_add(1, Ordering::Relaxed) == 0 => empty(),
        RANGE => Reply::Silence,
        _ => done(),
    });
    let store = open(&[&fake.endpoint]);
    assert_eq!(finish(store.read()), Ok(None));
    let (executor, runtime) = runtime();
    let change = async {
        while fake.count(RANGE) < 2 {
            runtime.sleep(1_000_000).await;
        }
        store.compare_and_set(Some(Revision(9)), b"x").await
    };
    match executor.block_on(select(change, store.read())) {
        Selected::First(swap) => assert_eq!(swap, Ok(Swap::Done(Revision(10)))),
        Selected::Second(read) => panic!("the change waited for the read: {read:?}"),
    }
    assert_eq!(fake.count(RANGE), 2);
}

#[test]
fn a_change_begins_with_the_member_that_answered_the_last_read() {
    let silent = Fake::start(|_, _| Reply::Silence);
    let good = Fake::start(|path, _| match path {
        RANGE => empty(),
        _ => done(),
    });
    let store = open(&[&silent.endpoint, &good.endpoint]);
    assert_eq!(finish(store.read()), Ok(None));
    let swap = finish(store.compare_and_set(None, b"x"));
    assert_eq!(swap, Ok(Swap::Done(Revision(10))));
    assert_eq!(silent.count(RANGE), 1, "only the read met it");
}

#[test]
fn after_a_change_of_unknown_outcome_the_next_member_is_asked() {
    let silent = etcd_that_changes_nothing();
    let good = Fake::start(|path, _| match path {
        RANGE => empty(),
        _ => done(),
    });
    let store = open(&[&silent.endpoint, &good.endpoint]);
    let swap = finish(store.compare_and_set(None, b"x"));
    assert!(matches!(swap, Err(StoreError::Unknown { .. })), "{swap:?}");
    let asked = silent.count(RANGE);
    assert_eq!(finish(store.read()), Ok(None));
    assert_eq!((silent.count(RANGE), good.count(RANGE)), (asked, 1));
}

/// Needs the count of failures: with a mark alone, the late answer marks the member as known again.
#[test]
fn a_read_that_began_before_a_failure_vouches_for_no_change() {
    let (release, released) = mpsc::channel();
    let mut late = Some(released);
    let mut changes = 0;
    let fake = Fake::start(move |path, _| match path {
        RANGE => match late.take() {
            Some(released) => Reply::Later(released, EMPTY.to_owned()),
            None => empty(),
        },
        _ if changes == 0 => {
            changes += 1;
            Reply::HangUp
        }
        _ => done(),
    });
    let store = open(&[&fake.endpoint]);
    let (executor, runtime) = runtime();
    let failure = async {
        while fake.count(RANGE) == 0 {
            runtime.sleep(1_000_000).await;
        }
        let swap = store.compare_and_set(Some(Revision(9)), b"x").await;
        assert!(matches!(swap, Err(StoreError::Unknown { .. })), "{swap:?}");
        release.send(()).unwrap();
    };
    let (read, ()) = executor.block_on(join(store.read(), failure));
    assert_eq!(read, Ok(None));
    let asked = fake.count(RANGE);
    let swap = executor.block_on(store.compare_and_set(Some(Revision(9)), b"x"));
    assert_eq!(swap, Ok(Swap::Done(Revision(10))));
    assert_eq!(
        fake.count(RANGE),
        asked + 1,
        "a read comes before the change"
    );
}

#[test]
fn a_watch_of_an_etcd_that_refuses_asks_it_after_pauses() {
    let fake = Fake::start(|_, _| Reply::Say(403, r#"{"code":7,"message":"no"}"#.to_owned()));
    let store = open(&[&fake.endpoint]);
    let (executor, runtime) = runtime();
    let watch = async {
        while fake.count(RANGE) < 1_000 {
            let refused = store.changed(None).await;
            assert!(matches!(refused, Err(StoreError::Refused { .. })));
        }
    };
    executor.block_on(select(watch, runtime.sleep(1_500_000_000)));
    // Pauses of 100 ms, 200 ms, 400 ms, and a read before and in each look.
    let asked = fake.count(RANGE);
    assert!((4..=12).contains(&asked), "{asked} requests");
}
