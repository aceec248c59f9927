//! Copies of pools, made file by file: which are taken, which are refused, and what is said.

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
    assert!(inspect(&other).is_ok(), "who only looks may look");
    drop(served);
    let (pool, _) = serve(&original).unwrap();
    assert_eq!(
        (pool.epoch(), pool.was_clean(), pool.was_copied()),
        (2, false, false),
        "its server was killed, no more"
    );
}

/// Needs the new home in the header of each opening: otherwise it would be refused for ever.
#[test]
fn a_copy_that_is_accepted_is_at_home_from_then_on_and_believes_nothing_of_its_power_cycle() {
    let place = fast_place();
    let (original, other) = (place.path().join("original"), place.path().join("other"));
    let served = create(&original, options(Durability::Process)).unwrap();
    copy(&original, &other);
    let accepted = adopt(&other);
    assert_eq!(
        (
            accepted.was_copied(),
            accepted.was_clean(),
            accepted.same_power_cycle()
        ),
        (true, false, false)
    );
    drop(accepted);
    let (pool, _) = serve(&other).unwrap();
    assert_eq!(
        (pool.was_copied(), pool.same_power_cycle(), pool.epoch()),
        (false, true, 3)
    );
    drop(served);
    assert!(
        !adopt(&original).was_copied(),
        "accepting is no claim that there was a copy"
    );
}

/// Needs that the clean flag is looked at.
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
    assert!(serve(&other).is_ok(), "it is at home where it was opened");
}

#[test]
fn a_pool_that_is_renamed_while_its_server_is_dead_is_at_home() {
    let place = fast_place();
    let (original, other) = (place.path().join("original"), place.path().join("other"));
    drop(create(&original, options(Durability::Process)).unwrap());
    std::fs::rename(&original, &other).unwrap();
    assert!(!serve(&other).unwrap().0.was_copied());
}
