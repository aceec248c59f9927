//! Keys that expire: on every path, by clocks that drift and are set back, through restarts, power cuts and cleaning.

mod history;
pub mod world;

use futures_util::future::join_all;
use stonecast_kv::{Condition, Expiry, PutRules, StoreError, Values, Written};

use crate::fabric::on_every_provider;
use crate::world::{World, in_cluster, key, value};
use world::{End, MS, SECOND, Stage, is_there, put_for};

const DAY: u64 = 86_400 * SECOND;

/// The seeded bug `ExpiryIgnoredByReader`.
#[test]
pub fn an_expired_key_is_absent_on_every_path() {
    Stage::tell(16, async |stage| {
        let client = stage.client().await;
        client.put(b"stays", b"1").await.unwrap();
        let expires = put_for(&client, b"goes", b"2", 5000).await;
        let mut read = Vec::new();
        let found = client.find(b"goes", &mut read).await.unwrap().unwrap();
        assert_eq!((&*read, found.expires), (&b"2"[..], Some(expires)));
        assert!(is_there(&client, b"goes").await && stage.peek(b"goes"));
        stage.pass(5100 * MS).await;
        assert!(!is_there(&client, b"goes").await && !stage.peek(b"goes"));
        assert_eq!(client.find(b"goes", &mut read).await.unwrap(), None);
        let mut values = Values::default();
        let keys: [&[u8]; 3] = [b"goes", b"stays", b"goes"];
        client.multi_get(&keys, &mut values).await.unwrap();
        let there: Vec<_> = (0..3).map(|index| values.get(index).is_some()).collect();
        assert_eq!(there, [false, true, false]);
        let mut entries = client.entries().await.unwrap();
        let mut page = Vec::new();
        entries.next(&client, &mut page).await.unwrap();
        let names: Vec<_> = page.iter().map(|entry| &*entry.key).collect();
        assert_eq!(names, [b"stays"]);
        assert!(!client.delete(b"goes").await.unwrap());
        let late = client
            .put_if(b"goes", b"3", Condition::Version(found.version))
            .await;
        assert_eq!(late.unwrap(), Written::Conflict(None));
        let touched = client.touch(b"goes", None, None).await.unwrap();
        assert_eq!(touched, Written::Conflict(None));
        assert_eq!(client.stat().await.unwrap().keys, 1);
        put_for(&client, b"soon", b"4", 1000).await;
        stage.pause(2 * SECOND);
        stage.pass(1100 * MS).await;
        assert!(!is_there(&client, b"soon").await, "nobody removes it now");
    });
}

/// So many keys expire at once that the server decides on writes before it has removed them. The seeded bug
/// `ExpiredIsPresent`.
#[test]
pub fn a_write_on_condition_of_absence_is_done_from_the_moment_on() {
    Stage::tell(16, async |stage| {
        let client = stage.client().await;
        let names: Vec<_> = (0..1000).map(key).collect();
        let now_ms = client.server_time_ms().await.unwrap();
        let rules = PutRules {
            condition: Condition::None,
            expires: Some(Expiry::at_ms(now_ms + 60_000).unwrap()),
        };
        for name in &names {
            client.put_if(name, b"1", rules).await.unwrap();
        }
        stage.pass(59 * SECOND).await;
        stage.pause(2 * SECOND);
        stage.pass(1100 * MS).await;
        let writes = names.iter().rev().map(async |name| {
            let written = client.put_if(name, b"2", Condition::Absent).await.unwrap();
            assert!(matches!(written, Written::Done(_)), "{written:?}");
        });
        join_all(writes).await;
        assert!(is_there(&client, &names[0]).await, "the new value stays");
    });
}

#[test]
fn a_plain_put_removes_the_moment_and_a_touch_changes_it() {
    Stage::tell(16, async |stage| {
        let client = stage.client().await;
        put_for(&client, b"put", b"1", 1000).await;
        client.put(b"put", b"2").await.unwrap();
        let expires = put_for(&client, b"touched", b"1", 1000).await;
        let mut read = Vec::new();
        let version = client
            .find(b"touched", &mut read)
            .await
            .unwrap()
            .unwrap()
            .version;
        let later = stonecast_kv::Expiry::at_ms(expires.ms() + 60_000);
        let stale = client.touch(b"touched", later, Some(version + 1)).await;
        assert_eq!(stale.unwrap(), Written::Conflict(Some(version)));
        let done = client.touch(b"touched", later, Some(version)).await;
        assert!(matches!(done.unwrap(), Written::Done(_)));
        stage.pass(2 * SECOND).await;
        assert!(is_there(&client, b"put").await && is_there(&client, b"touched").await);
        stage.pass(60 * SECOND).await;
        assert!(is_there(&client, b"put").await && !is_there(&client, b"touched").await);
    });
}

/// The server's clock is fast, and the client's is slow, as far as the store allows. The seeded bug `DriftIgnored`.
#[test]
pub fn a_client_with_a_slow_clock_reads_no_expired_key() {
    Stage::tell(16, async |stage| {
        let client = stage.client().await;
        let expires = put_for(&client, b"key", b"1", 600_000).await;
        let other = stage.client().await;
        while other.server_time_ms().await.unwrap() + 20_000 < expires.ms() {
            stage.pass(5 * SECOND).await;
        }
        assert!(is_there(&client, b"key").await);
        while other.server_time_ms().await.unwrap() + 1000 < expires.ms() {
            stage.pass(100 * MS).await;
        }
        // The server cannot remove the key. The client was last told the time ten minutes ago, and by its clock the key
        // is present.
        stage.pause(5 * SECOND);
        stage.pass(1100 * MS).await;
        assert!(!is_there(&client, b"key").await);
    });
}

/// A GET of a key whose moment is far away asks nobody for the time.
#[test]
fn a_client_that_knows_the_time_reads_keys_that_expire_one_sided() {
    Stage::tell(16, async |stage| {
        let client = stage.client().await;
        put_for(&client, b"key", b"1", 600_000).await;
        assert!(is_there(&client, b"key").await);
        let batches = client.stat().await.unwrap().batches;
        for _ in 0..100 {
            stage.pass(SECOND).await;
            assert!(is_there(&client, b"key").await);
        }
        let more = client.stat().await.unwrap().batches - batches;
        assert!(
            more <= 4,
            "the question for the counts, and reports: {more}"
        );
    });
}

/// The seeded bug `TimeMarkForgotten`.
#[test]
pub fn a_clock_that_is_set_back_between_two_runs_resurrects_nothing() {
    for end in [End::Kill, End::PowerCut] {
        Stage::tell(16, async |stage| {
            let client = stage.client().await;
            put_for(&client, b"key", b"1", 1000).await;
            let expires = put_for(&client, b"later", b"1", 600_000).await;
            stage.pass(1100 * MS).await;
            assert!(!is_there(&client, b"key").await);
            let before = client.server_time_ms().await.unwrap();
            stage.restart(end, DAY).await;
            let client = stage.client().await;
            assert!(!is_there(&client, b"key").await && !stage.peek(b"key"));
            let after = client.server_time_ms().await.unwrap();
            assert!(
                before < after && after < before + 15_000,
                "{before} {after}"
            );
            let mut read = Vec::new();
            let found = client.find(b"later", &mut read).await.unwrap().unwrap();
            assert_eq!(found.expires, Some(expires), "{end:?}");
        });
    }
}

/// The seeded bug `TimeBeyondMark`.
#[test]
pub fn what_was_absent_long_after_the_last_mark_is_absent_after_a_restart() {
    Stage::tell(16, async |stage| {
        let client = stage.client().await;
        put_for(&client, b"key", b"1", 60_000).await;
        stage.pass(61 * SECOND).await;
        assert!(!is_there(&client, b"key").await);
        stage.restart(End::PowerCut, DAY).await;
        let client = stage.client().await;
        assert!(!is_there(&client, b"key").await);
    });
}

/// The seeded bug `WallClockBelieved`.
#[test]
pub fn a_clock_that_is_set_back_in_a_run_resurrects_nothing() {
    Stage::tell(16, async |stage| {
        let client = stage.client().await;
        put_for(&client, b"key", b"1", 1000).await;
        stage.pass(1100 * MS).await;
        assert!(!is_there(&client, b"key").await);
        let before = client.server_time_ms().await.unwrap();
        stage.set_back(DAY);
        stage.pass(SECOND).await;
        let other = stage.client().await;
        assert!(other.server_time_ms().await.unwrap() > before);
        assert!(!is_there(&other, b"key").await);
    });
}

/// The older values lie in segments that are hardly ever worth cleaning. The seeded bug `ExpiredLeavesNoTombstone`.
#[test]
pub fn an_expired_key_whose_record_is_cleaned_away_does_not_get_its_older_value_back() {
    Stage::tell(32, async |stage| {
        let client = stage.client().await;
        let names: Vec<_> = (1000..1010).map(key).collect();
        for (number, name) in (0..).zip(&names) {
            client.put(name, b"older").await.unwrap();
            // The rest of the segment is needed for good.
            for needed in 0..120 {
                let needed = number * 120 + needed;
                let bytes = value(needed, 2000);
                client.put(&key(needed), &bytes).await.unwrap();
            }
        }
        let churn = async |round| {
            for number in 2000..2120 {
                let fresh = value(round, 2000);
                client.put(&key(number), &fresh).await.unwrap();
            }
        };
        churn(0).await;
        for name in &names {
            put_for(&client, name, b"newer", 1000).await;
        }
        churn(1).await;
        stage.pass(1100 * MS).await;
        // All later segments keep two records, so the one with the expired records is the best to clean.
        let cleaned = || stage.server().cleaning().segments;
        let mut rounds = 2..;
        while cleaned() < 8 {
            let round = rounds.next().expect("a range without an end");
            for kept in [4000 + round, 5000 + round] {
                client.put(&key(kept), &value(kept, 2000)).await.unwrap();
            }
            churn(round).await;
        }
        stage.restart(End::Kill, 0).await;
        let client = stage.client().await;
        for name in &names {
            assert!(!is_there(&client, name).await);
        }
        assert!(is_there(&client, &key(7)).await);
    });
}

/// Needs the removal of expired keys, and the cleaner that takes their records for tombstones.
#[test]
fn a_pool_that_is_full_of_expired_keys_takes_as_many_again() {
    Stage::tell(16, async |stage| {
        let client = stage.client().await;
        let fill = async |first: u64| {
            let now_ms = client.server_time_ms().await.unwrap();
            let expires = stonecast_kv::Expiry::at_ms(now_ms + 60_000).unwrap();
            for number in first.. {
                let bytes = value(number, 3000);
                match client.put_if(&key(number), &bytes, expires).await {
                    Ok(_) => {}
                    Err(StoreError::NoSpace { .. }) => return number - first,
                    Err(error) => panic!("{error}"),
                }
            }
            unreachable!("a pool ends")
        };
        let filled = fill(0).await;
        assert!(filled > 600, "{filled}");
        stage.pass(70 * SECOND).await;
        assert_eq!(client.stat().await.unwrap().keys, 0);
        let again = fill(1_000_000).await;
        assert!(again * 10 > filled * 9, "{again} of {filled}");
    });
}

/// Needs the walk through the index at the opening. The seeded bug `ExpiredStays`.
#[test]
pub fn a_server_that_starts_again_removes_what_has_expired() {
    Stage::tell(16, async |stage| {
        let client = stage.client().await;
        for number in 0..500 {
            put_for(&client, &key(number), b"1", 60_000).await;
        }
        stage.restart(End::Kill, 0).await;
        let client = stage.client().await;
        assert_eq!(client.stat().await.unwrap().keys, 500);
        stage.pass(70 * SECOND).await;
        assert_eq!(client.stat().await.unwrap().keys, 0);
    });
}

/// On shared memory, GETs end in the call. A key may be absent a little too early, and is never there too late.
#[test]
fn keys_expire_on_every_provider() {
    on_every_provider(|| {
        let world = World::default();
        world.run(async |world| {
            let client = world.client().await;
            client.put(b"stays", b"1").await.unwrap();
            let expires = put_for(&client, b"goes", b"2", 80).await;
            let mut there = 0;
            while is_there(&client, b"goes").await {
                there += 1;
                assert!(is_there(&client, b"stays").await);
            }
            assert!(there > 0);
            let now_ms = client.server_time_ms().await.unwrap();
            assert!(now_ms + 5 >= expires.ms(), "not before its time");
            assert!(!is_there(&client, b"goes").await);
        });
    });
}

/// Such a server tells the time of a server that is alone.
#[test]
fn keys_expire_in_a_pool_of_a_cluster_that_is_served_alone() {
    in_cluster(|| {
        let world = World::default();
        world.run(async |world| {
            let client = world.client().await;
            put_for(&client, b"stays", b"1", 600_000).await;
            put_for(&client, b"goes", b"1", 20).await;
            assert!(is_there(&client, b"stays").await);
            while is_there(&client, b"goes").await {}
        });
    });
}
