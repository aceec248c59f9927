//! Stores in real etcd servers that are killed, stopped, restored and compacted.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::rc::Rc;
use std::time::Duration;

use stonecast_cluster::{ConfigStore, Revision, StoreError, Swap};
use stonecast_config_store::Bounds;
use stonecast_fabric::{Runtime, Selected, select};

use crate::support::{Cluster, finish, missing, not_run, runtime};

const SHORT: Bounds = Bounds {
    connect: Duration::from_millis(500),
    answer: Duration::from_millis(1_500),
    listen: Duration::from_millis(1_000),
};

fn open(address: &str) -> Rc<dyn ConfigStore> {
    stonecast_config_store::open_within(&address.parse().unwrap(), SHORT).unwrap()
}

/// `count` servers; `None`, with a note, if there is no etcd.
fn servers(count: usize, story: &str) -> Option<Cluster> {
    match missing() {
        Some(reason) => {
            not_run(story, reason);
            None
        }
        None => Some(Cluster::start(count)),
    }
}

async fn pause(runtime: &Rc<dyn Runtime>) {
    runtime.sleep(20_000_000).await;
}

/// Counts from 1 to `last` in the store, across all its failures. Returns the number of attempts with an unknown
/// outcome.
async fn count_to(store: &Rc<dyn ConfigStore>, runtime: &Rc<dyn Runtime>, last: u32) -> u32 {
    let mut unknown = 0;
    loop {
        let stored = match store.read().await {
            Ok(stored) => stored,
            Err(_) => {
                pause(runtime).await;
                continue;
            }
        };
        let number = stored.as_ref().map_or(0, |stored| number_in(&stored.bytes));
        if number >= last {
            return unknown;
        }
        let expected = stored.map(|stored| stored.revision);
        let next = (number + 1).to_string();
        match store.compare_and_set(expected, next.as_bytes()).await {
            Ok(Swap::Done(_)) => {}
            Ok(Swap::Conflict) => assert!(unknown > 0, "no other program writes"),
            Err(error) => {
                unknown += u32::from(matches!(error, StoreError::Unknown { .. }));
                pause(runtime).await;
            }
        }
    }
}

fn number_in(bytes: &[u8]) -> u32 {
    std::str::from_utf8(bytes).unwrap().parse().unwrap()
}

/// Watches until the store has `last`. Values ascend.
async fn watch_to(store: &Rc<dyn ConfigStore>, last: u32) -> u32 {
    let (mut since, mut number) = (None, 0);
    let mut seen = 0;
    while number < last {
        let stored = store.changed(since).await.unwrap();
        assert!(since < Some(stored.revision));
        assert!(
            number < number_in(&stored.bytes),
            "{number} comes before {stored:?}"
        );
        (since, number) = (Some(stored.revision), number_in(&stored.bytes));
        seen += 1;
    }
    seen
}

#[test]
fn changes_and_watches_continue_when_the_leader_of_three_is_killed() {
    let story = "etcd_members::changes_and_watches_continue_when_the_leader_of_three_is_killed";
    let Some(mut cluster) = servers(3, story) else {
        return;
    };
    const LAST: u32 = 300;
    let address = cluster.address("counter");
    let (writer, watcher) = (open(&address), open(&address));
    let (executor, runtime) = runtime();
    let counter = count_to(&writer, &runtime, LAST);
    let kill = async {
        let reader = open(&address);
        while reader
            .read()
            .await
            .unwrap()
            .is_none_or(|stored| number_in(&stored.bytes) < 50)
        {
            pause(&runtime).await;
        }
        let leader = cluster.members.iter_mut().find(|member| member.leads());
        leader.expect("one of the three leads").kill();
    };
    let count_and_kill = futures_util::future::join(counter, kill);
    let work = futures_util::future::join(count_and_kill, watch_to(&watcher, LAST));
    let ((unknown, ()), seen) = executor
        .block_on(async { runtime.within(120_000_000_000, work).await })
        .expect("two of three continue");
    println!("{unknown} attempts of unknown outcome, {seen} values seen");
    // The third member returns and catches up, and the second may go.
    let dead = cluster
        .members
        .iter_mut()
        .find(|member| !member.is_running());
    let dead = dead.expect("one was killed");
    dead.start();
    dead.wait_until_ready();
    let other = cluster.members.iter_mut().find(|member| member.leads());
    other.expect("one of the three leads").kill();
    let counter = count_to(&writer, &runtime, LAST + 20);
    executor
        .block_on(async { runtime.within(120_000_000_000, counter).await })
        .expect("two of three continue");
}

#[test]
fn without_a_majority_nothing_is_read_and_no_attempt_is_reported_as_done() {
    let story =
        "etcd_members::without_a_majority_nothing_is_read_and_no_attempt_is_reported_as_done";
    let Some(mut cluster) = servers(3, story) else {
        return;
    };
    let store = open(&cluster.address("k"));
    let swap = finish(store.compare_and_set(None, b"1"));
    let Ok(Swap::Done(revision)) = swap else {
        panic!("all three members are running: {swap:?}");
    };
    cluster.members[1].kill();
    cluster.members[2].kill();
    assert!(finish(store.read()).is_err());
    let swap = finish(store.compare_and_set(Some(revision), b"2"));
    assert!(swap.is_err(), "{swap:?}");
    cluster.members[1].start();
    cluster.members[1].wait_until_ready();
    let stored = finish(store.read()).unwrap().unwrap();
    assert!(stored.bytes == b"1" || stored.bytes == b"2");
}

#[test]
fn an_etcd_that_is_stopped_in_the_middle_leaves_an_unknown_outcome_in_bounded_time() {
    let story = "etcd_members::an_etcd_that_is_stopped_in_the_middle_leaves_an_unknown_outcome_in_bounded_time";
    let Some(cluster) = servers(1, story) else {
        return;
    };
    let store = open(&cluster.address("k"));
    let Ok(Swap::Done(revision)) = finish(store.compare_and_set(None, b"1")) else {
        panic!("the first value is stored");
    };
    cluster.members[0].pause();
    let unknown = finish(store.compare_and_set(Some(revision), b"2"));
    assert!(
        matches!(unknown, Err(StoreError::Unknown { .. })),
        "{unknown:?}"
    );
    let refused = finish(store.read());
    assert!(
        matches!(refused, Err(StoreError::Refused { .. })),
        "{refused:?}"
    );
    cluster.members[0].go_on();
    // The server executes the request that was sent, or drops it with the connection. The next attempt decides.
    cluster.members[0].wait_until_ready();
    let decided = finish(store.compare_and_set(Some(revision), b"3"));
    let expected = match decided {
        Ok(Swap::Done(_)) => b"3",
        Ok(Swap::Conflict) => b"2",
        Err(error) => panic!("the server answers again: {error}"),
    };
    assert_eq!(finish(store.read()).unwrap().unwrap().bytes, expected);
}

#[test]
fn an_etcd_that_lost_its_values_is_an_error_and_not_an_empty_store() {
    let story = "etcd_members::an_etcd_that_lost_its_values_is_an_error_and_not_an_empty_store";
    let Some(mut cluster) = servers(1, story) else {
        return;
    };
    let store = open(&cluster.address("k"));
    finish(store.compare_and_set(None, b"1")).unwrap();
    let server = &mut cluster.members[0];
    server.kill();
    server.forget();
    server.start();
    server.wait_until_ready();
    let refused = finish(store.read()).unwrap_err().to_string();
    assert!(
        refused.contains("is at revision 1, and was at 2"),
        "{refused}"
    );
    let swap = finish(store.compare_and_set(None, b"1"));
    assert!(matches!(swap, Err(StoreError::Refused { .. })), "{swap:?}");
}

#[test]
fn a_watch_sees_a_change_after_earlier_revisions_were_compacted() {
    let story = "etcd_members::a_watch_sees_a_change_after_earlier_revisions_were_compacted";
    let Some(cluster) = servers(1, story) else {
        return;
    };
    let store = open(&cluster.address("k"));
    let mut last = None;
    for _ in 0..5 {
        let Ok(Swap::Done(revision)) = finish(store.compare_and_set(last, b"x")) else {
            panic!("no other program writes");
        };
        last = Some(revision);
    }
    let (executor, runtime) = runtime();
    let change = async {
        pause(&runtime).await;
        let server = &cluster.members[0];
        server
            .post("/v3/kv/compaction", r#"{"revision":"6"}"#)
            .unwrap();
        server
            .post("/v3/kv/put", r#"{"key":"b3RoZXI=","value":"eA=="}"#)
            .unwrap();
        server
            .post("/v3/kv/compaction", r#"{"revision":"7"}"#)
            .unwrap();
        pause(&runtime).await;
        store.compare_and_set(last, b"after").await.unwrap();
        std::future::pending::<()>().await;
    };
    let seen = executor.block_on(select(store.changed(last), change));
    let Selected::First(Ok(stored)) = seen else {
        panic!("the watch reports the change: {seen:?}");
    };
    assert_eq!(
        (stored.revision, &*stored.bytes),
        (Revision(8), &b"after"[..])
    );
}

#[test]
fn an_etcd_with_users_requires_the_right_password() {
    let Some(cluster) = servers(
        1,
        "etcd_members::an_etcd_with_users_requires_the_right_password",
    ) else {
        return;
    };
    cluster.members[0].enable_users();
    let endpoint = &cluster.members[0].endpoint;
    let right = open(&format!("etcd://root:secret@{endpoint}/k"));
    let swap = finish(right.compare_and_set(None, b"1"));
    assert!(matches!(swap, Ok(Swap::Done(_))), "{swap:?}");
    assert_eq!(finish(right.changed(None)).unwrap().bytes, b"1");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    fs::write(&path, "secret\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let file = path.display();
    let in_file = open(&format!("etcd://root@{endpoint}/k?password_file={file}"));
    assert_eq!(finish(in_file.read()).unwrap().unwrap().bytes, b"1");
    for wrong in ["root:guess@", "nobody:secret@", ""] {
        let store = open(&format!("etcd://{wrong}{endpoint}/k"));
        let refused = finish(store.read()).unwrap_err().to_string();
        assert!(
            refused.contains("refuses") && !refused.contains("guess"),
            "{wrong}: {refused}"
        );
        let swap = finish(store.compare_and_set(None, b"2"));
        assert!(
            matches!(swap, Err(StoreError::Refused { .. })),
            "{wrong}: {swap:?}"
        );
    }
}
