//! Copies of pools, made file by file: opened or refused, with the messages.

use std::path::Path;
use std::rc::Rc;

use stonecast_media::{DirectoryBacking, Durability, MediaError, OpenMode, Pool};

use crate::support::{create, fast_place, inspect, options, serve};

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn adopt(directory: &Path) -> Pool {
    Pool::open(
        Rc::new(DirectoryBacking::open(directory).unwrap()),
        OpenMode::Adopt,
    )
    .unwrap()
    .0
}

/// Needs the comparison of homes in `Pool::open`.
#[test]
fn a_copy_of_a_pool_that_is_served_is_refused_and_the_pool_itself_is_not() {
    let place = fast_place();
    let (original, other) = (place.path().join("original"), place.path().join("other"));
    let served = create(&original, options(Durability::Process)).unwrap();
    copy(&original, &other);
    let refusal = serve(&other).err().unwrap();
    let MediaError::Copied {
        path,
        log,
        found,
        expected,
    } = &refusal
    else {
        panic!("{refusal}")
    };
    assert_eq!(
        (path, log),
        (&other, &other.join("log").display().to_string())
    );
    assert_eq!(*expected, served.backing().home());
    assert!(
        *found != *expected && refusal.to_string().contains("--accept-copy"),
        "{refusal}"
    );
    assert!(
        inspect(&other).is_ok(),
        "an inspection of a copy is allowed"
    );
    drop(served);
    let (pool, _) = serve(&original).unwrap();
    assert_eq!(
        (pool.opening(), pool.was_clean(), pool.was_copied()),
        (2, false, false),
        "its server was only killed"
    );
}

/// Needs the new home in the header once the copy is recovered: without it the copy would be refused forever.
#[test]
fn an_accepted_copy_is_at_home_afterwards_and_does_not_trust_its_power_cycle() {
    let place = fast_place();
    let (original, other) = (place.path().join("original"), place.path().join("other"));
    let served = create(&original, options(Durability::Process)).unwrap();
    copy(&original, &other);
    let mut accepted = adopt(&other);
    assert_eq!(
        (
            accepted.was_copied(),
            accepted.was_clean(),
            accepted.same_power_cycle()
        ),
        (true, false, false)
    );
    accepted.recovered().unwrap();
    drop(accepted);
    let (pool, _) = serve(&other).unwrap();
    assert_eq!(
        (pool.was_copied(), pool.same_power_cycle(), pool.opening()),
        (false, true, 3)
    );
    drop(served);
    assert!(
        !adopt(&original).was_copied(),
        "accepting a copy does not claim that there was one"
    );
}

/// Needs the check of the clean flag.
#[test]
fn a_copy_of_a_closed_pool_is_a_pool_like_any_other() {
    let place = fast_place();
    let (original, other) = (place.path().join("original"), place.path().join("other"));
    create(&original, options(Durability::Process))
        .unwrap()
        .close()
        .unwrap();
    copy(&original, &other);
    let (pool, _) = serve(&other).unwrap();
    assert_eq!((pool.was_copied(), pool.was_clean()), (false, true));
    drop(pool);
    assert!(
        serve(&other).is_ok(),
        "the copy is at home where it was opened"
    );
}

#[test]
fn a_pool_that_is_renamed_after_its_server_died_is_at_home() {
    let place = fast_place();
    let (original, other) = (place.path().join("original"), place.path().join("other"));
    drop(create(&original, options(Durability::Process)).unwrap());
    std::fs::rename(&original, &other).unwrap();
    assert!(!serve(&other).unwrap().0.was_copied());
}

/// Needs the old home in the header until recovery is done: the log of a partly recovered copy lacks as much as before,
/// and the next opening must expect that.
#[test]
fn a_copy_whose_recovery_was_killed_is_still_a_copy() {
    let place = fast_place();
    let (original, other) = (place.path().join("original"), place.path().join("other"));
    let _served = create(&original, options(Durability::Process)).unwrap();
    copy(&original, &other);
    drop(adopt(&other));
    assert!(matches!(serve(&other), Err(MediaError::Copied { .. })));
    assert!(adopt(&other).was_copied());
}

/// Needs the new home at the opening itself: a pool that was moved while closed is not a copy.
#[test]
fn a_closed_pool_that_was_moved_is_at_home_before_it_is_recovered() {
    let place = fast_place();
    let (before, after) = (place.path().join("before"), place.path().join("after"));
    let pool = create(&before, options(Durability::Process)).unwrap();
    pool.close().unwrap();
    copy(&before, &after);
    drop(serve(&after).unwrap());
    assert!(!serve(&after).unwrap().0.was_copied());
}
