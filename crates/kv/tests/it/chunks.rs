//! Values in chunks: whole or not at all, on every path, and gone with the record that names them.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, join, select};
use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_kv::limits::VALUE_SIZE_MAX;
use stonecast_kv::{Client, Condition, Expiry, PutRules, StoreError, Values, Written};
use stonecast_log::{Draft, Form, Kind, LogFormat, Record, RecordHeader};
use stonecast_media::OpenMode;

use crate::expiry::world::{End, MS, SECOND, Stage};
use crate::fabric::{Provider, on_every_provider};
use crate::meddling::{self, Forge, Meddler};
use crate::world::{World, in_cluster, in_shards, key, value};

/// Longer than any record of a pool whose segments have 256 KiB, with chunks of 64 KiB.
const LONG: usize = 400_000;

async fn get(client: &Client, key: &[u8]) -> Option<(Vec<u8>, u64)> {
    let mut read = Vec::new();
    let version = client.get(key, &mut read).await.unwrap();
    version.map(|version| (read, version))
}

/// All keys with their values, by an iteration.
async fn entries(client: &Client) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries = client.entries().await.unwrap();
    let (mut page, mut all) = (Vec::new(), Vec::new());
    loop {
        entries.next(client, &mut page).await.unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(page.drain(..).map(|entry| (entry.key, entry.value)));
    }
}

#[test]
fn a_long_value_is_read_back_whole_on_every_path_and_counts_as_one_key() {
    on_every_provider(|| {
        World::default().run(async |world| {
            let client = world.client().await;
            for (n, size) in [(1 << 20) + 1, (4 << 20) + 7, 9_000_000]
                .into_iter()
                .enumerate()
            {
                let (name, content) = (key(n as u64), value(n as u64, size));
                let version = client.put(&name, &content).await.unwrap();
                assert!(get(&client, &name).await == Some((content.clone(), version)));
                let server = world.server.borrow().upgrade().unwrap();
                let mut read = Vec::new();
                assert_eq!(server.peek(&name, &mut read).unwrap(), Some(version));
                assert!(read == content, "{size} bytes in the server's process");
                assert_eq!(client.stat().await.unwrap().keys, 1);
                client.put(b"short", b"value").await.unwrap();
                let mut values = Values::default();
                let keys: [&[u8]; 4] = [b"short", &name, b"none", &name];
                client.multi_get(&keys, &mut values).await.unwrap();
                assert!(
                    values.get(1) == Some((&content, version)) && values.get(1) == values.get(3)
                );
                assert!(values.get(0).is_some() && values.get(2).is_none());
                let found = entries(&client).await;
                assert_eq!(found.len(), 2, "no chunk is an entry");
                assert!(found.iter().any(|(_, value)| *value == content));
                assert!(client.delete(b"short").await.unwrap());
                assert!(client.delete(&name).await.unwrap());
                assert_eq!(get(&client, &name).await, None);
                assert_eq!(client.stat().await.unwrap().live_bytes, 0);
            }
        });
    });
}

#[test]
fn the_longest_value_is_stored_and_a_longer_one_is_refused_with_the_limit() {
    World {
        capacity: 64 << 20,
        ..World::default()
    }
    .run(async |world| {
        let client = world.client().await;
        let mut content = value(1, VALUE_SIZE_MAX);
        client.put(b"key", &content).await.unwrap();
        assert!(get(&client, b"key").await.unwrap().0 == content);
        content.push(0);
        let refused = client.put(b"key", &content).await.unwrap_err();
        assert!(
            matches!(
                refused,
                StoreError::ValueSize {
                    max: 16_777_216,
                    ..
                }
            ),
            "{refused}"
        );
    });
}

/// The pool has room for two such values: each overwrite needs the room of an earlier one. The seeded bug
/// `ChunksOutliveHead`.
#[test]
pub fn the_room_of_chunks_comes_back_with_the_end_of_their_value() {
    for shards in [1, 3] {
        in_shards(shards, || {
            World::small().run(async |world| {
                let client = world.client().await;
                let mut random = random_from_seed(51);
                for round in 0..40 {
                    let content = value(round, LONG + random.random_range(0..1000));
                    match round % 4 {
                        0 => client.put(b"key", &content).await.unwrap(),
                        1 => {
                            client.put(b"key", b"short").await.unwrap();
                            client.put(b"key", &content).await.unwrap()
                        }
                        2 => {
                            client.delete(b"key").await.unwrap();
                            client.put(b"key", &content).await.unwrap()
                        }
                        _ => {
                            let rules = Condition::Version(get(&client, b"key").await.unwrap().1);
                            let late = Condition::Version(1);
                            let late = client.put_if(b"key", &content, late).await.unwrap();
                            assert!(matches!(late, Written::Conflict(Some(_))));
                            match client.put_if(b"key", &content, rules).await.unwrap() {
                                Written::Done(version) => version,
                                conflict => panic!("{conflict:?}"),
                            }
                        }
                    };
                    assert!(get(&client, b"key").await.unwrap().0 == content, "{round}");
                }
            });
        });
    }
}

#[test]
fn values_in_chunks_are_there_after_a_restart_of_any_kind() {
    let story = || {
        for end in [crate::world::End::Close, crate::world::End::Kill] {
            let world = World::small();
            let put = async |world: &World| {
                let client = world.client().await;
                client.put(b"key", &value(1, LONG)).await.unwrap();
                client.put(b"key", &value(2, LONG)).await.unwrap();
                client.put(b"short", b"value").await.unwrap();
            };
            world.run_until(end, put);
            world.run(async |world| {
                let client = world.client().await;
                assert!(get(&client, b"key").await.unwrap().0 == value(2, LONG));
                assert_eq!(client.stat().await.unwrap().keys, 2);
                // Chunks of the first value were found again.
                for round in 3..10 {
                    client.put(b"key", &value(round, LONG)).await.unwrap();
                    assert!(get(&client, b"key").await.unwrap().0 == value(round, LONG));
                }
            });
        }
    };
    story();
    in_cluster(story);
}

#[test]
fn a_pool_with_chunks_says_so_to_programs_that_do_not_know_them() {
    let world = World::small();
    let has_chunks = |world: &World| {
        let pool = world.open_pool_for(OpenMode::Inspect);
        pool.record_features()
            .has(stonecast_media::RecordFeature::Chunks)
    };
    world.run(async |world| {
        let client = world.client().await;
        client.put(b"key", b"value").await.unwrap();
    });
    assert!(!has_chunks(&world));
    world.run(async |world| {
        let client = world.client().await;
        client.put(b"key", &value(1, LONG)).await.unwrap();
    });
    assert!(has_chunks(&world));
}

/// A put whose client dies after some of the chunks.
async fn abandon(stage: &Stage, content: &[u8], after_ns: u64) {
    let (client, process) = stage.client_and_process().await;
    let put = pin!(client.put(b"abandoned", content));
    let dying = async {
        stage.pass(after_ns).await;
        process.kill();
    };
    match select(put, pin!(dying)).await {
        Either::Left(_) => panic!("the put takes longer"),
        Either::Right(_) => {}
    }
}

#[test]
fn chunks_that_no_record_names_go_with_time_and_at_a_start() {
    Stage::tell(12, async |stage| {
        let content = value(1, 1_500_000);
        for restarts in [false, true] {
            let client = stage.client().await;
            abandon(stage, &content, 400_000).await;
            stage.pass(MS).await;
            let stat = client.stat().await.unwrap();
            assert!(stat.live_bytes > 60_000, "{stat:?}");
            assert_eq!((stat.keys, get(&client, b"abandoned").await), (0, None));
            match restarts {
                true => {
                    stage.restart(End::Kill, 0).await;
                    stage.pass(10 * MS).await;
                }
                false => stage.pass(630 * SECOND).await,
            }
            let client = stage.client().await;
            client.put(b"awake", b"").await.unwrap();
            stage.pass(2 * SECOND).await;
            client.delete(b"awake").await.unwrap();
            assert_eq!(client.stat().await.unwrap().live_bytes, 0, "{restarts}");
        }
    });
}

/// The seeded bug `NamedChunkExpires`.
#[test]
pub fn chunks_that_a_record_names_outlive_their_time() {
    Stage::tell(12, async |stage| {
        let client = stage.client().await;
        let content = value(1, LONG);
        client.put(b"key", &content).await.unwrap();
        for round in 0..2 {
            stage.pass(660 * SECOND).await;
            let client = stage.client().await;
            client.put(b"awake", b"").await.unwrap();
            stage.pass(2 * SECOND).await;
            assert!(get(&client, b"key").await.unwrap().0 == content, "{round}");
            stage.restart(End::PowerCut, 0).await;
        }
    });
}

#[test]
fn a_long_value_expires_as_a_whole() {
    Stage::tell(12, async |stage| {
        let client = stage.client().await;
        let content = value(1, LONG);
        let now_ms = client.server_time_ms().await.unwrap();
        let rules = PutRules::from(Expiry::at_ms(now_ms + 5000).unwrap());
        client.put_if(b"key", &content, rules).await.unwrap();
        assert!(get(&client, b"key").await.unwrap().0 == content);
        let hour = Expiry::at_ms(now_ms + 3_600_000);
        client.touch(b"key", hour, None).await.unwrap();
        stage.pass(700 * SECOND).await;
        assert!(get(&client, b"key").await.unwrap().0 == content);
        stage.pass(2_950 * SECOND).await;
        assert_eq!(get(&client, b"key").await, None);
        client.put(b"awake", b"").await.unwrap();
        stage.pass(2 * SECOND).await;
        client.delete(b"awake").await.unwrap();
        assert_eq!(client.stat().await.unwrap().live_bytes, 0);
    });
}

/// The put takes longer than chunks are kept, since its client stands still. The seeded bug `HeadWithoutChunks`.
#[test]
pub fn a_put_whose_chunks_are_gone_is_refused_and_leaves_the_earlier_value() {
    Stage::tell(24, async |stage| {
        let (client, process) = stage.client_and_process().await;
        let other = stage.client().await;
        let (first, second) = (value(1, LONG), value(2, 1_500_000));
        client.put(b"key", &first).await.unwrap();
        let putting = async {
            let put = client.put(b"key", &second).await;
            let refused = put.unwrap_err();
            assert!(matches!(refused, StoreError::ChunksGone), "{refused}");
        };
        let waiting = async {
            while stage.server().stat().live_bytes < 2 * LONG as u64 {
                stage.pass(10_000).await;
            }
            process.pause(660 * SECOND);
            stage.pass(630 * SECOND).await;
            other.put(b"awake", b"").await.unwrap();
            stage.pass(60 * SECOND).await;
        };
        join(putting, waiting).await;
        assert!(get(&client, b"key").await.unwrap().0 == first);
        client.put(b"key", &second).await.unwrap();
        assert!(get(&client, b"key").await.unwrap().0 == second);
    });
}

/// Readers beside a writer that overwrites, shortens and removes a value see each of its states whole.
#[test]
fn readers_beside_a_writer_see_whole_values() {
    Stage::tell(24, async |stage| {
        let (writer, reader) = (stage.client().await, stage.client().await);
        let contents: Vec<_> = (0..4)
            .map(|n| value(n, LONG - 30_000 * n as usize))
            .collect();
        let is_over = std::cell::Cell::new(false);
        let writing = async {
            for round in 0..30 {
                match round % 5 {
                    4 => drop(writer.delete(b"key").await.unwrap()),
                    n => drop(writer.put(b"key", &contents[n]).await.unwrap()),
                }
            }
            is_over.set(true);
        };
        let reading = async {
            let mut seen = 0;
            while !is_over.get() {
                if let Some((found, _)) = get(&reader, b"key").await {
                    assert!(contents.contains(&found));
                    seen += 1;
                }
            }
            assert!(seen > 10, "{seen}");
        };
        join(writing, reading).await;
    });
}

/// The power fails at every part of a put, and keeps any of the lines that were not durable.
#[test]
fn no_power_cut_tears_a_value() {
    let (mut done, mut undone) = (0, 0);
    for part in 0..40_u64 {
        Stage::tell(16, async |stage| {
            let client = stage.client().await;
            let (first, second) = (value(1, LONG), value(2, LONG + 5_000));
            client.put(b"key", &first).await.unwrap();
            let cut = async {
                stage.pass(part * 8_000).await;
                let mut random = random_from_seed(part);
                stage.lose_power(&mut random).await;
            };
            let (put, ()) = join(client.put(b"key", &second), cut).await;
            let client = stage.client().await;
            let found = get(&client, b"key").await.unwrap().0;
            assert!(found == first || found == second, "part {part}");
            assert!(
                found == second || put.is_err(),
                "part {part}: an acknowledged value is lost"
            );
            done += u64::from(found == second);
            undone += u64::from(found == first);
            client.put(b"key", &second).await.unwrap();
            assert!(get(&client, b"key").await.unwrap().0 == second);
            assert_eq!(client.stat().await.unwrap().keys, 1);
        });
    }
    assert!(done > 3 && undone > 10, "{done} done, {undone} undone");
}

/// The parts of a value that a client sends: each key, value and form.
pub type Sent = Rc<RefCell<Vec<(Form, Vec<u8>, Vec<u8>)>>>;

/// Notes the records that a client sends, and gives each the form and the expiry that `change` says, if it says one.
pub fn change_records(
    format: LogFormat,
    opening: u32,
    log: u64,
    sent: &Sent,
    change: impl Fn(&RecordHeader, &[u8]) -> Option<(Form, Option<Expiry>)> + 'static,
) -> Forge {
    let sent = sent.clone();
    meddling::forge_records(log, move |record, position| {
        let Record { header, key, value } = record;
        let written = (header.form(), key.to_vec(), value.to_vec());
        sent.borrow_mut().push(written);
        let (form, expires) = change(&header, key)?;
        let draft = Draft {
            kind: Kind::Put,
            form,
            condition: header.condition(),
            token: header.token(),
            expires,
            key,
            value,
        };
        let mut forged = Vec::new();
        draft.encode(&format, position, header.generation(), opening, &mut forged);
        Some(forged)
    })
}

/// A client makes parts of a value by hand. Needs chunks to be written once, heads to be refused whose chunks are named
/// already, and the checks of names, numbers and moments.
#[test]
fn a_client_that_writes_parts_of_a_value_by_hand_is_refused_and_harms_nothing() {
    if !Provider::chosen().leases_extents() {
        // The server encodes copied records anew.
        return;
    }
    let world = World::default();
    world.run(async |world| {
        let meddler = Rc::new(Meddler::default());
        let client = meddling::client(world, &meddler).await;
        client.put(b"other", b"1").await.unwrap();
        let (format, opening, log) = meddling::log_of(world, &client);
        let sent = Sent::default();
        let meddle = |form: Option<Form>| {
            let change = move |header: &RecordHeader, _: &[u8]| Some((form?, header.expires()));
            let forge = change_records(format, opening, log, &sent, change);
            meddler.forge.replace(Some(forge));
        };
        meddle(None);
        let content = value(1, (1 << 20) + 5);
        client.put(b"key", &content).await.unwrap();
        let parts = sent.take();
        let (first, head) = (&parts[0], parts.last().unwrap());
        assert_eq!((first.0, head.0), (Form::Chunk, Form::Head));
        let now_ms = client.server_time_ms().await.unwrap();
        let rules = |minutes: u64| PutRules {
            condition: Condition::Absent,
            expires: Expiry::at_ms(now_ms + minutes * 60_000),
        };
        let is_refused = |result: Result<Written, StoreError>| match result {
            Err(StoreError::Invalid | StoreError::ChunksGone) | Ok(Written::Conflict(_)) => {}
            other => panic!("{other:?}"),
        };
        meddle(Some(Form::Head));
        is_refused(client.put_if(b"key", &head.2, Condition::None).await);
        is_refused(client.put_if(b"another", &head.2, Condition::None).await);
        is_refused(
            client
                .put_if(b"another", &[0xff; 24], Condition::None)
                .await,
        );
        meddle(Some(Form::Chunk));
        is_refused(client.put_if(&first.1, b"other bytes", rules(5)).await);
        is_refused(client.put_if(b"no name", b"bytes", rules(5)).await);
        let mut name = first.1.clone();
        name[8] ^= 1;
        is_refused(client.put_if(&name, b"", rules(5)).await);
        is_refused(client.put_if(&name, b"bytes", rules(60)).await);
        is_refused(client.put_if(&name, b"bytes", Condition::Absent).await);
        let late = PutRules {
            condition: Condition::None,
            ..rules(5)
        };
        is_refused(client.put_if(&name, b"bytes", late).await);
        meddler.forge.replace(None);
        client.put(&first.1, b"a key of a user").await.unwrap();
        assert!(get(&client, b"key").await.unwrap().0 == content);
        assert_eq!(get(&client, &first.1).await.unwrap().0, b"a key of a user");
        assert_eq!(entries(&client).await.len(), 3);
    });
}
