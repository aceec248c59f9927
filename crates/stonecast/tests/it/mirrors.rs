//! A back-end of data structures and its mirror in one program. Ends of processes are in the stories of the command
//! line.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use stonecast::structures::{
    AttachError, Builder, Connection, DetachError, End, Error, HashTable, MirrorError,
    PromoteError, Server, ServerHandle, StandingError, StandingFault, StandingRecordError, connect,
    detach, detach_recorded, promote, verify,
};
use stonecast::{Address, Connector, Durability, Effect, ErrorKind};
use stonecast_structures::StandingRecord;
use tempfile::TempDir;

type Stock = HashTable<u64, u64>;

/// Short for a promotion, and long for a thread that waits for a processor.
const LEASE: Duration = Duration::from_millis(1000);
/// Longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(30);
/// Keys of a piece of work.
const KEYS: u64 = 20;

/// The folders of two pools.
struct Places {
    folder: TempDir,
}

impl Places {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn within(folder: &str) -> Self {
        Self {
            folder: TempDir::with_prefix_in("stonecast-test-", folder).unwrap(),
        }
    }

    fn data(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn address(&self, name: &str) -> Address {
        Address::of_pool(&self.data(name))
    }

    fn pool(&self, name: &str) -> Builder {
        Server::builder(self.data(name))
            .durability(Durability::Process)
            .capacity(16 << 20)
            .mirror_lease(LEASE)
    }

    fn serve_mirror(&self, name: &str) -> ServerHandle {
        self.pool(name).as_mirror().serve().unwrap()
    }

    fn serve(&self, name: &str, mirror: &str) -> ServerHandle {
        let pool = self.pool(name).mirror(self.address(mirror));
        pool.serve().unwrap()
    }

    /// The back-end `first` with the mirror `second`, which has everything.
    fn begin(&self) -> (ServerHandle, ServerHandle) {
        let mirror = self.serve_mirror("second");
        let back_end = self.serve("first", "second");
        await_whole(&self.connected("first"));
        (back_end, mirror)
    }

    fn connected(&self, name: &str) -> Connection {
        let end = Instant::now() + LIMIT;
        loop {
            match connect(&self.address(name).to_string()) {
                Ok(connection) => return connection,
                // A mirror that was promoted opens its pool again.
                Err(_) if Instant::now() < end => thread::sleep(Duration::from_millis(1)),
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn promote(&self, name: &str) -> u64 {
        promote(Connector::to(self.address(name)), LIMIT).unwrap()
    }
}

/// Inserts the next keys; each is durable when its call returns.
fn work(connection: &Connection, from: u64) {
    connection
        .run(async |session| {
            let mut stock = session.writer_within::<Stock>("stock", LIMIT).await?;
            for key in from..from + KEYS {
                stock.insert(&key, &(key * 3)).await?;
            }
            Ok::<_, Error>(())
        })
        .unwrap();
}

/// Expects the keys up to this one, and nothing else.
fn expect(connection: &Connection, keys: u64) {
    let found = connection.run(async |session| {
        let mut stock = session.reader::<Stock>("stock").await?;
        let mut found = stock.entries().await?;
        found.sort_unstable();
        Ok::<_, Error>(found)
    });
    let expected: Vec<(u64, u64)> = (0..keys).map(|key| (key, key * 3)).collect();
    assert_eq!(found.unwrap(), expected);
}

fn await_whole(connection: &Connection) {
    connection
        .run(async |session| {
            let pause = std::future::pending::<()>();
            let mut pause = std::pin::pin!(pause);
            while !session.metrics().await?.stat.mirror.is_bound {
                session.within(Duration::from_millis(1), &mut pause).await;
            }
            Ok::<_, Error>(())
        })
        .unwrap();
}

fn reason(error: &stonecast::Error) -> &MirrorError {
    match error.kind() {
        ErrorKind::Mirror(reason) => reason,
        kind => panic!("{kind:?}"),
    }
}

/// Needs the name of the mirror's own pool, whatever was copied into it: the last back-end would not know its mirror
/// again.
#[test]
fn a_mirror_takes_the_place_of_its_back_end_which_returns_as_the_mirror() {
    let places = Places::new();
    let (back_end, mirror) = places.begin();
    work(&places.connected("first"), 0);
    back_end.shutdown().unwrap();
    assert_eq!(places.promote("second"), 2);
    let connection = places.connected("second");
    expect(&connection, KEYS);
    work(&connection, KEYS);
    assert_eq!(places.promote("second"), 2, "it is the back-end already");

    // The back-end of generation 2 is opened with its own mirror, and follows itself.
    drop(connection);
    mirror.shutdown().unwrap();
    let mirror = places.serve_mirror("first");
    let back_end = places.serve("second", "first");
    let connection = places.connected("second");
    expect(&connection, 2 * KEYS);
    work(&connection, 2 * KEYS);
    await_whole(&connection);
    drop(connection);
    back_end.shutdown().unwrap();
    assert_eq!(places.promote("first"), 3);
    expect(&places.connected("first"), 3 * KEYS);

    mirror.shutdown().unwrap();
    let mirror = places.serve_mirror("second");
    let back_end = places.serve("first", "second");
    await_whole(&places.connected("first"));
    mirror.shutdown().unwrap();
    drop(back_end);
    let _mirror = places.serve_mirror("second");
    let _back_end = places.serve("first", "second");
    let connection = places.connected("first");
    expect(&connection, 3 * KEYS);
    work(&connection, 3 * KEYS);
}

/// Needs the plan of each medium: a mirror in files answers when it has synced them.
#[test]
fn a_mirror_in_memory_or_in_files_has_what_its_back_end_has_acknowledged() {
    let (memory, files) = (Durability::Process, Durability::Power);
    for (folder, of_back_end, of_mirror) in [
        ("/dev/shm", memory, memory),
        ("/var/tmp", memory, files),
        ("/var/tmp", files, files),
    ] {
        let places = Places::within(folder);
        let pool = |name, durability| {
            let pool = places.pool(name).durability(durability);
            // A sync may take its time.
            pool.mirror_lease(2 * LEASE)
        };
        let mirror = pool("second", of_mirror).as_mirror().serve().unwrap();
        let back_end = pool("first", of_back_end).mirror(places.address("second"));
        let back_end = back_end.serve().unwrap();
        let connection = places.connected("first");
        await_whole(&connection);
        work(&connection, 0);
        drop((connection, back_end));
        places.promote("second");
        let connection = places.connected("second");
        expect(&connection, KEYS);
        work(&connection, KEYS);
        drop((connection, mirror));
    }
}

/// Needs the word of a bound pool, and of a mirror, that they are.
#[test]
fn pools_with_a_mirror_are_served_as_what_they_are_and_refused_as_anything_else() {
    let places = Places::new();
    let (back_end, mirror) = places.begin();
    work(&places.connected("first"), 0);

    let refused = connect(&mirror.address().to_string());
    let Err(Error::IsMirror {
        generation: 1,
        is_whole: true,
    }) = refused
    else {
        panic!("{:?}", refused.map(|_| ()));
    };
    let early = promote(Connector::to(places.address("second")), 2 * LEASE).unwrap_err();
    assert!(matches!(reason(&early), MirrorError::NotInTime { .. }));
    assert_eq!(early.effect(), Effect::Unknown { token: None });
    work(&places.connected("first"), KEYS);

    drop((back_end, mirror));
    let alone = places.pool("first").serve().err().unwrap();
    assert!(matches!(
        reason(&alone),
        MirrorError::Standing(StandingError::Bound)
    ));
    let as_back_end = places.pool("second").serve().err().unwrap();
    let is_mirror = |error: &MirrorError| {
        matches!(error, MirrorError::Standing(StandingError::IsMirror { .. }))
    };
    assert!(is_mirror(reason(&as_back_end)), "{as_back_end}");
    let verified = verify(&places.data("second"), &places.data("copy")).unwrap_err();
    assert!(is_mirror(reason(&verified)), "{verified}");
    let found = verify(&places.data("first"), &places.data("copy")).unwrap();
    assert_eq!((found.len(), &found[0].damage), (1, &None));

    let both = places.pool("third").as_mirror();
    let both = both.mirror(places.address("first")).serve().err().unwrap();
    assert!(matches!(reason(&both), MirrorError::Both));
    let own = places.pool("third").serve().unwrap();
    own.shutdown().unwrap();
    let own = places.pool("third").as_mirror().serve().err().unwrap();
    assert!(matches!(reason(&own), MirrorError::OwnContent { .. }));
    let cluster: Address = "cluster:file:/nowhere".parse().unwrap();
    let cluster = places.pool("fourth").mirror(cluster).serve().err().unwrap();
    assert!(matches!(reason(&cluster), MirrorError::OtherKind { .. }));
    assert!(!places.data("fourth").exists(), "nothing was made");
    let nobody = promote(Connector::to(places.address("third")), LIMIT).unwrap_err();
    let MirrorError::Promote { reason: why, .. } = reason(&nobody) else {
        panic!("{nobody}");
    };
    assert!(matches!(why, PromoteError::Connect(_)), "{why}");
}

/// Needs the end of a back-end that has lost its mirror, and the statement that a detachment takes.
#[test]
fn a_back_end_without_its_mirror_acknowledges_nothing_until_it_is_detached() {
    let places = Places::new();
    let (back_end, mirror) = places.begin();
    work(&places.connected("first"), 0);
    let connection = places.connected("first");
    let refused = connection.run(async |session| {
        let mut stock = session.writer_within::<Stock>("stock", LIMIT).await?;
        mirror.shutdown().unwrap();
        stock.insert(&KEYS, &(KEYS * 3)).await.map(drop)
    });
    assert!(refused.is_err(), "nothing is durable in both");
    drop(connection);
    let end = back_end.shutdown().unwrap_err();
    assert!(matches!(reason(&end), MirrorError::Lost(_)), "{end}");

    let absent = detach(&places.data("nowhere")).unwrap_err();
    assert!(!places.data("nowhere").exists(), "{absent}");
    let of_mirror = detach(&places.data("second")).unwrap_err();
    let MirrorError::Detach { reason: why, .. } = reason(&of_mirror) else {
        panic!("{of_mirror}");
    };
    assert!(matches!(why, DetachError::IsMirror), "{why}");
    assert_eq!(detach(&places.data("first")).unwrap(), 2);
    let back_end = places.pool("first").serve().unwrap();
    let connection = places.connected("first");
    let told = connection.run(async |session| session.metrics().await);
    assert_eq!(told.unwrap().stat.mirror.generation, 0, "it has no mirror");
    work(&connection, 0);
    drop((connection, back_end));

    // The statement was false: both are back-ends of generation 2, and each refuses the other.
    let mirror = places.serve_mirror("second");
    assert_eq!(places.promote("second"), 2);
    let refused = places.pool("first").mirror(places.address("second"));
    let refused = refused.serve().err().unwrap();
    let MirrorError::Attach { reason: why, .. } = reason(&refused) else {
        panic!("{refused}");
    };
    assert!(matches!(why, AttachError::Superseded { .. }), "{why}");
    expect(&places.connected("second"), KEYS);
    drop(mirror);
}

/// Needs the geometry of the content: a larger mirror would give slabs of its own size.
#[test]
fn a_mirror_that_is_larger_goes_on_with_the_slabs_of_its_back_end() {
    let places = Places::new();
    let mirror = places.pool("second").capacity(256 << 20).as_mirror();
    let mirror = mirror.quota(8 << 20).serve().unwrap();
    let back_end = places.serve("first", "second");
    let connection = places.connected("first");
    work(&connection, 0);
    await_whole(&connection);
    drop((connection, back_end));
    places.promote("second");
    let connection = places.connected("second");
    expect(&connection, KEYS);
    let metrics = connection.run(async |session| session.metrics().await);
    let metrics = metrics.unwrap();
    assert_eq!((metrics.slab_size, metrics.stat.quota), (1 << 20, 8));
    drop((connection, mirror));
}

impl Places {
    /// A pool whose server shares the standing record in a store in files.
    fn recorded(&self, name: &str) -> Builder {
        self.pool(name).cluster(self.store())
    }

    fn store(&self) -> String {
        format!("file:{}", self.data("record").display())
    }

    fn change_record(&self, change: impl FnOnce(&mut StandingRecord)) {
        let store = stonecast_config_store::open(&self.store()).unwrap();
        let executor = stonecast_config_store::executor();
        let stored = executor.block_on(store.read()).unwrap().unwrap();
        let mut record = StandingRecord::decode(&stored.bytes).unwrap();
        change(&mut record);
        let swap = store.compare_and_set(Some(stored.revision), &record.encode());
        executor.block_on(swap).unwrap();
    }
}

/// Needs the record: nobody promotes the mirror, and no statement is made.
#[test]
fn with_a_standing_record_a_mirror_promotes_itself_and_the_old_back_end_is_told() {
    let places = Places::new();
    let mirror = places.recorded("second").as_mirror().serve().unwrap();
    let back_end = places.recorded("first").mirror(places.address("second"));
    let back_end = back_end.serve().unwrap();
    let connection = places.connected("first");
    await_whole(&connection);
    work(&connection, 0);
    drop(connection);
    back_end.shutdown().unwrap();
    expect(&places.connected("second"), KEYS);

    let old = places.recorded("first").mirror(places.address("second"));
    let old = old.serve().err().unwrap();
    let MirrorError::Attach { reason: why, .. } = reason(&old) else {
        panic!("{old}");
    };
    let AttachError::Record(StandingRecordError { fault, .. }) = why else {
        panic!("{why}");
    };
    let is_told = matches!(fault, StandingFault::Succeeded { generation: 2, .. });
    assert!(is_told, "{fault}");
    for detached in [
        detach_recorded(&places.data("first"), &places.store(), false),
        detach_recorded(&places.data("first"), &places.store(), true),
    ] {
        let refused = detached.unwrap_err();
        let MirrorError::Detach { reason: why, .. } = reason(&refused) else {
            panic!("{refused}");
        };
        let is_named = matches!(why, DetachError::Promoted { generation: 2, .. });
        assert!(is_named, "{why}");
    }
    let refused = detach(&places.data("first")).unwrap_err();
    assert!(refused.to_string().contains("--structures-cluster"));
    drop(mirror);
}

/// Needs the record at the choice of the part: the pool itself says that it is the back-end's, and bound to none.
#[test]
fn a_pool_that_was_succeeded_is_a_mirror_where_its_server_may_be_one() {
    let places = Places::new();
    places
        .recorded("first")
        .serve()
        .unwrap()
        .shutdown()
        .unwrap();
    let served = places.recorded("first").as_mirror().open().unwrap();
    assert!(!served.is_mirror(), "it is the back-end's");
    served.close().unwrap();
    places.change_record(|record| {
        record.generation += 1;
        record.back_end = 77;
    });
    let alone = places.recorded("first").serve().err().unwrap();
    assert!(matches!(reason(&alone), MirrorError::Record(_)), "{alone}");
    let mut served = places.recorded("first").as_mirror().open().unwrap();
    assert!(served.is_mirror(), "it was succeeded");
    let notes = served.standing_notes().unwrap();
    assert_eq!(served.run(&|| true).unwrap(), End::Stopped);
    assert_eq!(notes.take(), None);
    served.close().unwrap();

    let wrong = places.pool("second").cluster("etcd:nowhere");
    let wrong = wrong.serve().err().unwrap();
    assert!(matches!(wrong.kind(), ErrorKind::ConfigStore(_)), "{wrong}");
    assert!(!places.data("second").exists(), "nothing was made");
}
