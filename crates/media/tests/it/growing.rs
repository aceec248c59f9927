//! A closed pool gets a larger capacity; a crash in the middle; the pools that do not grow.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use stonecast_base::Span;
use stonecast_media::{
    Content, DirectoryBacking, Durability, Growth, MediaError, Pool, PoolOptions,
};

use crate::support::{SEGMENT, create, fast_place, inspect, options, prepare, serve};

const BEFORE: u64 = 8 * SEGMENT;
const AFTER: u64 = 12 * SEGMENT;
const COPY: usize = 4096;

fn grow(directory: &Path, capacity: u64) -> Result<Growth, MediaError> {
    Pool::grow(&DirectoryBacking::open(directory)?, capacity)
}

/// A closed pool with one word in its last segment.
fn pool() -> tempfile::TempDir {
    let place = fast_place();
    let pool = create(place.path(), options(Durability::Process)).unwrap();
    prepare(&*pool.backing(), Span::new(BEFORE - SEGMENT, SEGMENT)).unwrap();
    pool.log().store(BEFORE - 8, 77);
    pool.close().unwrap();
    place
}

fn log_length(directory: &Path) -> u64 {
    fs::metadata(directory.join("log")).unwrap().len()
}

#[test]
fn a_closed_pool_grows_and_keeps_all_else() {
    let place = pool();
    let (before, _) = inspect(place.path()).unwrap();
    let growth = grow(place.path(), AFTER).unwrap();
    assert_eq!((growth.from, growth.to), (BEFORE, AFTER));
    let (pool, repairs) = inspect(place.path()).unwrap();
    assert_eq!(repairs, []);
    assert!(pool.was_clean() && pool.opening() == before.opening());
    assert_eq!(pool.uuid(), before.uuid());
    assert_eq!((pool.capacity(), pool.segment_count()), (AFTER, 12));

    let (pool, repairs) = serve(place.path()).unwrap();
    assert!(repairs.is_empty() && pool.was_clean());
    let log = pool.log();
    assert_eq!((log.size(), log.load(BEFORE - 8)), (AFTER, 77));
    let last = Span::new(AFTER - SEGMENT, SEGMENT);
    let is_occupied = |pool: &Pool| {
        let occupied = pool.backing().occupied().unwrap();
        occupied.iter().any(|span| span.overlap(last).is_some())
    };
    assert!(!is_occupied(&pool), "the new segments are a hole");
    prepare(&*pool.backing(), last).unwrap();
    log.store(AFTER - 8, 78);
    assert!(is_occupied(&pool));
    pool.close().unwrap();

    let again = grow(place.path(), AFTER).unwrap();
    assert_eq!(
        (again.from, again.to),
        (AFTER, AFTER),
        "a repetition changes nothing"
    );
    let (pool, _) = serve(place.path()).unwrap();
    assert_eq!(pool.log().load(AFTER - 8), 78);
}

/// The header and the length of the log after each step of a growth, and the capacity that counts then.
fn crashes(place: &Path) -> Vec<(&'static str, Vec<u8>, u64, u64)> {
    let old = fs::read(place.join("header")).unwrap();
    grow(place, AFTER).unwrap();
    let new = fs::read(place.join("header")).unwrap();
    // Checksum and generation are new, the capacity is old.
    let torn = |first: &[u8], then: &[u8]| [&first[..64], &then[64..COPY]].concat();
    let [old, new] = [&old, &new].map(|both| both.split_at(COPY));
    assert_eq!(new.0, new.1);
    let both = |first: &[u8], second: &[u8]| [first, second].concat();
    let mut all = vec![
        ("nothing is done", both(old.0, old.1), BEFORE, BEFORE),
        ("the log is longer", both(old.0, old.1), AFTER, BEFORE),
        ("all is done", both(new.0, new.1), AFTER, AFTER),
    ];
    // Which copy is written first depends on the generations.
    all.extend([
        (
            "the first copy is torn",
            both(&torn(new.0, old.0), old.1),
            AFTER,
            BEFORE,
        ),
        ("the first copy is new", both(new.0, old.1), AFTER, AFTER),
        (
            "the second copy is torn behind a new one",
            both(new.0, &torn(new.1, old.1)),
            AFTER,
            AFTER,
        ),
        (
            "the second copy is torn",
            both(old.0, &torn(new.1, old.1)),
            AFTER,
            BEFORE,
        ),
        ("the second copy is new", both(old.0, new.1), AFTER, AFTER),
        (
            "the first copy is torn before a new one",
            both(&torn(new.0, old.0), new.1),
            AFTER,
            AFTER,
        ),
    ]);
    all
}

/// Needs the order of log and header, and the log that may be longer.
#[test]
fn a_crash_at_any_moment_of_a_growth_leaves_a_pool_that_opens_and_grows_again() {
    let place = pool();
    for (what, header, length, capacity) in crashes(place.path()) {
        for repeats in [false, true] {
            let crashed = fast_place();
            fs::copy(place.path().join("log"), crashed.path().join("log")).unwrap();
            let log = fs::File::options()
                .write(true)
                .open(crashed.path().join("log"))
                .unwrap();
            log.set_len(length).unwrap();
            fs::write(crashed.path().join("header"), &header).unwrap();

            let (seen, _) = inspect(crashed.path()).expect(what);
            assert_eq!(seen.capacity(), capacity, "{what}");
            if repeats {
                let growth = grow(crashed.path(), AFTER).expect(what);
                assert_eq!((growth.from, growth.to), (capacity, AFTER), "{what}");
            }
            let expected = if repeats { AFTER } else { capacity };
            let (pool, _) = serve(crashed.path()).expect(what);
            assert!(pool.was_clean(), "{what}");
            assert_eq!(pool.capacity(), expected, "{what}");
            assert_eq!(log_length(crashed.path()), expected, "{what}");
            assert_eq!(pool.log().load(BEFORE - 8), 77, "{what}");
            drop(pool);
            let (pool, repairs) = serve(crashed.path()).expect(what);
            assert_eq!((pool.capacity(), repairs), (expected, vec![]), "{what}");
        }
    }
}

/// Needs the look at the bytes behind the end: they may be records of a larger pool whose header is an older copy.
#[test]
fn a_log_with_data_behind_its_end_is_damage_and_stays() {
    let place = pool();
    let log = fs::File::options()
        .write(true)
        .open(place.path().join("log"))
        .unwrap();
    log.set_len(AFTER).unwrap();
    log.write_all_at(&[1], AFTER - 1).unwrap();
    let refusals = [
        serve(place.path()).err().unwrap(),
        inspect(place.path()).err().unwrap(),
        grow(place.path(), AFTER).unwrap_err(),
    ];
    for refused in refusals {
        assert!(matches!(refused, MediaError::Corrupt(_)), "{refused}");
    }
    assert_eq!(log_length(place.path()), AFTER);
    log.write_all_at(&[0], AFTER - 1).unwrap();
    assert!(
        serve(place.path()).is_ok(),
        "zeros with space are no data either"
    );
}

#[test]
fn pools_that_do_not_grow_are_refused_and_left_as_they_are() {
    let place = pool();
    let refuse = |capacity, expected: &str| {
        let header = fs::read(place.path().join("header")).unwrap();
        let length = log_length(place.path());
        let refused = grow(place.path(), capacity).unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
        assert_eq!(fs::read(place.path().join("header")).unwrap(), header);
        assert_eq!(log_length(place.path()), length);
        refused
    };
    let smaller = refuse(BEFORE - SEGMENT, "no pool shrinks");
    assert!(
        matches!(smaller, MediaError::Shrink { capacity, asked, .. } if (capacity, asked) == (BEFORE, BEFORE - SEGMENT))
    );
    refuse(AFTER + 1, "a multiple of 262144");
    refuse((1 << 40) + SEGMENT, "to 1099511627776 bytes");
    let (served, _) = serve(place.path()).unwrap();
    let busy = refuse(AFTER, "in use by another process");
    assert!(matches!(busy, MediaError::InUse { .. }));
    drop(served);
    let killed = refuse(AFTER, "end that server in order");
    assert!(matches!(killed, MediaError::NotClosed { .. }));

    let of_node = PoolOptions {
        cluster_seed: Some(5),
        ..options(Durability::Process)
    };
    for (content, options, word) in [
        (Content::KeysAndValues, of_node, "node of a cluster"),
        (
            Content::Structures,
            options(Durability::Process),
            "export them",
        ),
    ] {
        let place = fast_place();
        let backing = DirectoryBacking::create(place.path()).unwrap();
        let pool = Pool::create_of(content, std::rc::Rc::new(backing), options).unwrap();
        pool.close().unwrap();
        let refused = grow(place.path(), AFTER).unwrap_err();
        let MediaError::CannotGrow { reason, .. } = refused else {
            panic!("{refused}");
        };
        assert!(reason.contains(word), "{reason}");
        assert_eq!(log_length(place.path()), BEFORE);
    }
}
