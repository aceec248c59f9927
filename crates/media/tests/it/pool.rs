//! The life of a pool: created, served, closed, killed, inspected, refused.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use stonecast_base::Span;
use stonecast_media::{
    Backing as _, Blob, CAPACITY_MAX, DirectoryBacking, Durability, Means, MediaError, Membership,
    PersistenceDomain, PoolOptions, SEGMENT_SIZE_MAX, SHARDS_MAX, persist_spans,
};

use crate::not_run::not_run;
use crate::support::{
    SEGMENT, create, durable_place, fast_place, inspect, now, options, prepare, serve,
};

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_pool_keeps_its_facts_and_its_bytes_over_openings() {
    let place = fast_place();
    let directory = place.path().join("made/on/the/way");
    let pool = create(&directory, options(Durability::Process)).unwrap();
    let (uuid, tag_key, secret) = (pool.uuid(), pool.tag_key(), pool.secret());
    assert_eq!(
        (pool.opening(), pool.was_clean(), pool.same_power_cycle()),
        (1, true, true)
    );
    assert_eq!(
        (pool.capacity(), pool.segment_size(), pool.segment_count()),
        (8 * SEGMENT, SEGMENT, 8)
    );
    assert_eq!(uuid.get_version_num(), 4);
    assert_eq!(tag_key, 0x1817_1615_1413_1211);
    assert_eq!(secret, [0x201f_1e1d_1c1b_1a19, 0x2827_2625_2423_2221]);
    let span = Span::new(SEGMENT, SEGMENT);
    prepare(&*pool.backing(), span).unwrap();
    pool.log().write(SEGMENT + 100, b"kept");
    now(persist_spans(&*pool.log(), &[span])).unwrap();
    pool.close().unwrap();

    let (pool, repairs) = serve(&directory).unwrap();
    assert_eq!(repairs, []);
    assert_eq!(
        (pool.uuid(), pool.tag_key(), pool.secret()),
        (uuid, tag_key, secret)
    );
    assert_eq!(
        (pool.opening(), pool.was_clean(), pool.same_power_cycle()),
        (2, true, true)
    );
    assert_eq!(
        (pool.platform(), pool.durability()),
        (options(Durability::Process).platform, Durability::Process)
    );
    assert_eq!(pool.log().means(), Means::Process);
    assert_eq!(pool.backing().occupied().unwrap(), [span]);
    let mut found = [0; 4];
    pool.log().read(SEGMENT + 100, &mut found);
    assert_eq!(&found, b"kept");
    drop(pool);

    let (pool, _) = serve(&directory).unwrap();
    assert_eq!(
        (pool.opening(), pool.was_clean()),
        (3, false),
        "a dropped pool is not closed"
    );
    assert_eq!(names(&directory), ["header", "lock", "log"]);
    assert_eq!(
        std::fs::metadata(&directory).unwrap().permissions().mode() & 0o777,
        0o700
    );
    for name in names(&directory) {
        let mode = std::fs::metadata(directory.join(&name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name} holds secrets");
    }
}

/// Needs the feature in the header, and the kernel's locks of descriptions that are still mapped.
#[test]
fn a_pool_tells_its_next_server_whether_publishing_clients_may_still_exist() {
    let place = fast_place();
    let directory = place.path().join("pool");
    let mut pool = create(&directory, options(Durability::Process)).unwrap();
    let client = pool.log();
    drop(pool);
    (pool, _) = serve(&directory).unwrap();
    assert!(!pool.may_be_published(), "no client has published");
    drop(client);
    pool.let_clients_publish().unwrap();
    assert!(
        !pool.may_be_published(),
        "clients of this server do not belong to an earlier server"
    );
    let client = pool.log();
    drop(pool);

    let (pool, repairs) = serve(&directory).unwrap();
    assert_eq!(repairs, []);
    assert!(
        pool.may_be_published(),
        "its server was killed, and its client lives"
    );
    drop(client);
    assert!(!pool.may_be_published());
    let client = pool.log();
    pool.close().unwrap();

    let (pool, _) = serve(&directory).unwrap();
    assert!(
        !pool.may_be_published(),
        "the server that closed it revoked their rights"
    );
    drop(client);
    let header = std::fs::read(directory.join("header")).unwrap();
    assert_eq!(
        header[32], 1,
        "the feature stays: the log may hold void records"
    );
    drop(pool);
}

/// A program of an earlier version would take a segment that appends fill for a free one.
#[test]
fn a_pool_to_which_nodes_append_tells_every_program_that_opens_it() {
    let place = fast_place();
    let directory = place.path().join("pool");
    let mut pool = create(&directory, options(Durability::Process)).unwrap();
    for _ in 0..2 {
        pool.let_nodes_append().unwrap();
    }
    drop(pool);
    let header = std::fs::read(directory.join("header")).unwrap();
    assert_eq!(header[32], 2);
    let (pool, repairs) = serve(&directory).unwrap();
    assert_eq!(repairs, []);
    pool.close().unwrap();
    assert_eq!(std::fs::read(directory.join("header")).unwrap()[32], 2);
}

#[test]
fn a_pool_on_a_disk_survives_power_loss_and_syncs_its_log() {
    let Some(place) = durable_place("a_pool_on_a_disk_survives_power_loss_and_syncs_its_log")
    else {
        return;
    };
    let directory = place.path().join("pool");
    let pool = create(&directory, options(Durability::Power)).unwrap();
    assert_eq!(pool.log().means(), Means::FileSync);
    prepare(&*pool.backing(), Span::new(0, SEGMENT)).unwrap();
    pool.log().write(64, b"durable");
    now(persist_spans(&*pool.log(), &[Span::new(64, 7)])).unwrap();
    drop(pool);
    let (pool, _) = serve(&directory).unwrap();
    let mut found = [0; 7];
    pool.log().read(64, &mut found);
    assert_eq!(&found, b"durable");
    let shared = pool.log();
    let share = shared.share().unwrap();
    assert_eq!((share.file_offset, share.write_sealed), (0, false));
}

/// The checkpoint counts only if nothing can have been lost since it was stored.
#[test]
fn a_clean_pool_that_promises_nothing_about_power_is_not_clean_after_a_power_cycle() {
    let place = fast_place();
    create(place.path(), options(Durability::Process))
        .unwrap()
        .close()
        .unwrap();
    let (pool, _) = inspect(place.path()).unwrap();
    assert!(pool.was_clean() && pool.same_power_cycle());

    // Changes the power cycle in both copies, as a restart of the machine would, and the checksums with it.
    let path = place.path().join("header");
    let mut bytes = std::fs::read(&path).unwrap();
    for copy in bytes.chunks_exact_mut(4096) {
        copy[112] ^= 1;
        crate::damage::put_checksum(copy);
    }
    std::fs::write(&path, bytes).unwrap();
    let (pool, _) = inspect(place.path()).unwrap();
    assert!(!pool.was_clean() && !pool.same_power_cycle());

    // Needs the old power cycle in the header until recovery is done: a partly settled log lacks as much as before.
    drop(serve(place.path()).unwrap());
    let (mut pool, _) = serve(place.path()).unwrap();
    assert!(!pool.was_clean() && !pool.same_power_cycle());
    pool.recovered().unwrap();
    drop(pool);
    let (pool, _) = serve(place.path()).unwrap();
    assert!(pool.same_power_cycle());
}

#[test]
fn a_second_server_is_refused_and_told_which_process_serves() {
    let place = fast_place();
    let pool = create(place.path(), options(Durability::Process)).unwrap();
    let refused = serve(place.path()).err().unwrap();
    assert!(
        matches!(refused, MediaError::InUse { pid: Some(pid), .. } if pid == std::process::id()),
        "{refused}"
    );
    assert!(matches!(
        create(place.path(), options(Durability::Process)),
        Err(MediaError::InUse { .. })
    ));
    drop(pool);
    assert!(serve(place.path()).is_ok());
}

#[test]
fn an_inspection_changes_nothing_and_names_the_serving_process() {
    let place = fast_place();
    let serving = create(place.path(), options(Durability::Process)).unwrap();
    prepare(&*serving.backing(), Span::new(0, SEGMENT)).unwrap();
    let before: Vec<_> = names(place.path())
        .iter()
        .map(|name| std::fs::read(place.path().join(name)).unwrap())
        .collect();

    let backing = DirectoryBacking::inspect(place.path()).unwrap();
    assert_eq!(backing.in_use_by(), Some(std::process::id()));
    let (pool, repairs) = inspect(place.path()).unwrap();
    assert_eq!(
        (pool.opening(), repairs.len(), pool.was_clean()),
        (1, 0, false)
    );
    assert_eq!(pool.backing().occupied().unwrap(), [Span::new(0, SEGMENT)]);
    serving.log().write(640, b"seen");
    let mut seen = [0; 4];
    pool.log().read(640, &mut seen);
    assert_eq!(&seen, b"seen");
    assert!(pool.log().share().is_none());
    serving.log().write(640, &[0; 4]);
    drop(pool);

    let after: Vec<_> = names(place.path())
        .iter()
        .map(|name| std::fs::read(place.path().join(name)).unwrap())
        .collect();
    assert!(before == after);
    drop(serving);
    assert_eq!(backing.in_use_by(), None);
}

#[test]
fn a_place_without_a_pool_is_reported_and_left_unchanged() {
    let place = fast_place();
    for directory in [place.path().to_owned(), place.path().join("missing")] {
        assert!(matches!(
            serve(&directory),
            Err(MediaError::NotFound { .. })
        ));
        assert!(matches!(
            inspect(&directory),
            Err(MediaError::NotFound { .. })
        ));
    }
    assert_eq!(names(place.path()), [""; 0]);
}

#[test]
fn a_pool_is_not_created_over_another_or_over_foreign_files() {
    let place = fast_place();
    create(place.path(), options(Durability::Process)).unwrap();
    assert!(matches!(
        create(place.path(), options(Durability::Process)),
        Err(MediaError::Exists { .. })
    ));

    let foreign = fast_place();
    std::fs::write(foreign.path().join("log"), "lines of another program").unwrap();
    let refused = create(foreign.path(), options(Durability::Process))
        .err()
        .unwrap();
    // A log with data may be the remains of a pool.
    assert!(refused.to_string().contains("log has data"), "{refused}");
    assert_eq!(
        std::fs::read_to_string(foreign.path().join("log")).unwrap(),
        "lines of another program"
    );
}

/// A crash in the middle of a creation leaves a lock, a log without data, and perhaps half a header beside its place.
#[test]
fn a_pool_whose_creation_was_interrupted_is_created_anew() {
    let place = fast_place();
    std::fs::write(place.path().join("lock"), "4711\n").unwrap();
    std::fs::File::create(place.path().join("log"))
        .unwrap()
        .set_len(12345)
        .unwrap();
    let mut half = b"stonpool".to_vec();
    half.resize(4096, 1);
    std::fs::write(place.path().join("header.new"), half).unwrap();
    assert!(matches!(
        serve(place.path()),
        Err(MediaError::NotFound { .. })
    ));
    let pool = create(place.path(), options(Durability::Process)).unwrap();
    assert_eq!(pool.log().size(), 8 * SEGMENT);
    assert_eq!(names(place.path()), ["header", "lock", "log"]);
}

#[test]
fn a_pool_in_memory_cannot_promise_power_and_the_attempt_leaves_nothing() {
    let Ok(place) = tempfile::tempdir_in("/dev/shm") else {
        return not_run(
            "a_pool_in_memory_cannot_promise_power_and_the_attempt_leaves_nothing",
            "no /dev/shm",
        );
    };
    for domain in PersistenceDomain::ALL {
        let mut options = options(Durability::Power);
        options.platform.persistence_domain = *domain;
        let refused = create(place.path(), options).err().unwrap();
        assert!(
            matches!(&refused, MediaError::CannotPromise { .. }),
            "{refused}"
        );
        assert_eq!(names(place.path()), ["lock"]);
    }
    assert!(create(place.path(), options(Durability::Process)).is_ok());
}

/// Needs the refusal in `choose_means`: a page file that is declared to be persistent memory would be fenced, not
/// synced.
#[test]
fn a_declaration_of_persistent_memory_is_refused_where_stores_stay_in_the_page_cache() {
    let Some(place) = durable_place(
        "a_declaration_of_persistent_memory_is_refused_where_stores_stay_in_the_page_cache",
    ) else {
        return;
    };
    for domain in [
        PersistenceDomain::Dmp,
        PersistenceDomain::Mhp,
        PersistenceDomain::Wsp,
        PersistenceDomain::Volatile,
    ] {
        let mut options = options(Durability::Power);
        options.platform.persistence_domain = domain;
        match create(&place.path().join(domain.to_string()), options) {
            Err(MediaError::CannotPromise { .. }) => {}
            Ok(pool) => assert_ne!(
                pool.log().means(),
                Means::FileSync,
                "the build directory is on persistent memory"
            ),
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn sizes_outside_their_limits_are_refused_before_anything_is_created() {
    let place = fast_place();
    let good = options(Durability::Process);
    let sizes = [
        (0, SEGMENT),
        (3 * SEGMENT, SEGMENT),
        (8 * SEGMENT + 1, SEGMENT),
        (8 * SEGMENT, SEGMENT / 2),
        (8 * SEGMENT, 3 * SEGMENT),
        (8 * SEGMENT, 0),
        (8 * SEGMENT_SIZE_MAX, 2 * SEGMENT_SIZE_MAX),
        (CAPACITY_MAX + SEGMENT, SEGMENT),
        (u64::MAX, SEGMENT),
    ];
    for (capacity, segment_size) in sizes {
        let mut options = good.clone();
        (options.capacity, options.segment_size) = (capacity, segment_size);
        assert!(
            matches!(create(place.path(), options), Err(MediaError::Options(_))),
            "{capacity} {segment_size}"
        );
        assert_eq!(names(place.path()), ["lock"]);
    }
}

#[test]
fn blobs_and_volatile_memory_come_from_the_backing() {
    let place = fast_place();
    let pool = create(place.path(), options(Durability::Process)).unwrap();
    let backing = pool.backing();
    assert_eq!(backing.load(Blob::Checkpoint).unwrap(), None);
    backing.store(Blob::Checkpoint, b"an image").unwrap();
    assert_eq!(
        backing.load(Blob::Checkpoint).unwrap().unwrap(),
        b"an image"
    );
    assert_eq!(
        backing.locate(Blob::HeaderSecond),
        (place.path().join("header").display().to_string(), 4096)
    );
    assert_eq!(
        (backing.name(), backing.place()),
        (
            place.path().join("log").display().to_string(),
            place.path().to_owned()
        )
    );

    let memory = backing.volatile("index", 100_000).unwrap();
    memory.store(8, 9);
    assert!(memory.share().unwrap().write_sealed);
    assert_ne!(backing.power_cycle(), 0);
}

/// Needs the check at creation: a server makes an index for each shard.
#[test]
fn a_pool_keeps_its_number_of_shards_and_is_not_made_with_none_or_too_many() {
    let with = |shards| PoolOptions {
        shards,
        ..options(Durability::Process)
    };
    for shards in [1, 2, SHARDS_MAX] {
        let place = fast_place();
        let directory = place.path().join("pool");
        let pool = create(&directory, with(shards)).unwrap();
        assert_eq!(pool.shards(), shards);
        pool.close().unwrap();
        assert_eq!(serve(&directory).unwrap().0.shards(), shards);
        assert_eq!(inspect(&directory).unwrap().0.shards(), shards);
        // A program that knows no shards finds its own header in a pool of one shard.
        let header = std::fs::read(directory.join("header")).unwrap();
        let is_marked = header[48] & 2 != 0;
        let is_named = header[168..172] != [0; 4];
        assert_eq!((is_marked, is_named), (shards > 1, shards > 1));
    }
    for shards in [0, SHARDS_MAX + 1] {
        let place = fast_place();
        let refused = create(&place.path().join("pool"), with(shards));
        assert!(matches!(refused, Err(MediaError::Options(_))));
    }
}

/// Needs the refusal of an unknown incompatible feature in every earlier program: it would take void records for
/// records that count.
#[test]
fn a_pool_of_a_cluster_keeps_the_seed_of_its_cluster_and_the_header_of_any_other_pool_has_none() {
    for seed in [None, Some(0), Some(u64::MAX - 7)] {
        let place = fast_place();
        let directory = place.path().join("pool");
        let options = PoolOptions {
            cluster_seed: seed,
            ..options(Durability::Process)
        };
        let pool = create(&directory, options).unwrap();
        assert_eq!(pool.cluster_seed(), seed);
        pool.close().unwrap();
        assert_eq!(serve(&directory).unwrap().0.cluster_seed(), seed);
        assert_eq!(inspect(&directory).unwrap().0.cluster_seed(), seed);
        let header = std::fs::read(directory.join("header")).unwrap();
        let incompatible = if seed.is_some() { 6 } else { 0 };
        assert_eq!(header[32..40], u64::to_le_bytes(incompatible));
        assert_eq!(header[176..184], seed.unwrap_or(0).to_le_bytes());
    }
}

/// Needs the one header that the pool and its cell share: the pool writes its header again when it is closed.
#[test]
fn the_pool_of_a_node_keeps_its_configuration_and_an_earlier_program_refuses_it() {
    let place = fast_place();
    let directory = place.path().join("pool");
    let options = PoolOptions {
        cluster_seed: Some(5),
        ..options(Durability::Process)
    };
    let mut pool = create(&directory, options).unwrap();
    let cell = pool.membership();
    assert_eq!(cell.load(), None);
    let of_epoch = |epoch| Membership {
        cluster: 0x5707_eca5 << 64,
        epoch,
        attempt: u128::MAX - 3,
        lease_duration_ns: 10_000_000,
        lease_tick_ns: 1_000,
        lease_drift_ppm: 1_000,
    };
    for epoch in [4, 5] {
        cell.store(of_epoch(epoch)).unwrap();
        let stored = inspect(&directory).unwrap().0.membership().load();
        assert_eq!(stored, Some(of_epoch(epoch)));
    }
    pool.let_clients_publish().unwrap();
    cell.store(of_epoch(7)).unwrap();
    drop(cell);
    pool.close().unwrap();
    let (pool, _) = serve(&directory).unwrap();
    assert!(pool.was_clean());
    assert_eq!(pool.membership().load(), Some(of_epoch(7)));
    let header = std::fs::read(directory.join("header")).unwrap();
    assert_eq!(header[32..40], u64::to_le_bytes(15));
}
