//! What the opening of a server that is refused leaves of the pool.

use std::fs;

use stonecast::server::Closing;
use stonecast::{Durability, ErrorKind, Server, blocking};
use stonecast_media::{OpenMode, Pool, inspect_backing};
use tempfile::TempDir;

use crate::support::Place;

/// An address that nothing can listen at.
const NOWHERE: &str = "shm:/nowhere/socket";

/// A pool with a record, closed in good order.
fn closed() -> Place {
    let mut place = Place::new();
    blocking::connect(&place.url())
        .unwrap()
        .put("a", "1")
        .unwrap();
    place.end();
    place
}

fn assert_still_closed(place: &Place) {
    let backing = inspect_backing(&place.data()).unwrap();
    let (pool, _) = Pool::open(backing, OpenMode::Inspect).unwrap();
    assert!(pool.was_clean());
    let server = place.builder().open().unwrap();
    assert!(!server.opening().was_created);
    assert_eq!(server.opening().recovery.keys, 1);
    assert_eq!(server.close().unwrap(), Closing::Clean);
}

#[test]
fn a_shutdown_says_how_it_left_the_pool() {
    let folder = TempDir::new().unwrap();
    let server = Server::builder(folder.path().join("pool"))
        .durability(Durability::Process)
        .capacity(16 << 20)
        .serve()
        .unwrap();
    assert_eq!(server.shutdown().unwrap(), Closing::Clean);
}

/// Needs the settings to be checked before the pool is opened.
#[test]
fn a_setting_that_differs_leaves_a_closed_pool_closed() {
    let place = closed();
    let refused = place.builder().durability(Durability::Power).open();
    let error = refused.err().unwrap();
    assert!(
        matches!(error.kind(), ErrorKind::OtherSetting { .. }),
        "{error}"
    );
    assert_still_closed(&place);
}

/// Needs the device to be opened before the pool.
#[test]
fn a_device_that_fails_leaves_a_closed_pool_closed() {
    let place = closed();
    let refused = place
        .builder()
        .open_on(|_| Err(ErrorKind::Setup("no such device".to_owned()).into()));
    assert!(refused.is_err());
    assert_still_closed(&place);
}

/// Needs the store to be closed where listening fails.
#[test]
fn an_address_that_cannot_be_listened_at_leaves_a_closed_pool_closed() {
    let place = closed();
    let refused = place.builder().listen(NOWHERE.parse().unwrap()).open();
    let error = refused.err().unwrap();
    assert!(error.to_string().contains("/nowhere"), "{error}");
    assert_still_closed(&place);
}

/// Needs the guard of a new pool.
#[test]
fn a_new_pool_that_cannot_be_served_leaves_nothing_behind() {
    let folder = TempDir::new().unwrap();
    let socket = format!("shm:{}", folder.path().join("pool/socket").display());
    let builder = || {
        Server::builder(folder.path().join("pool"))
            .durability(Durability::Process)
            .capacity(16 << 20)
    };
    let refusals = [
        // The first address is taken before the second one fails.
        builder()
            .listen(socket.parse().unwrap())
            .listen(NOWHERE.parse().unwrap())
            .open(),
        builder().open_on(|_| Err(ErrorKind::Setup("no such device".to_owned()).into())),
        builder().capacity(1).open(),
    ];
    for refused in refusals {
        assert!(refused.is_err());
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let server = builder().serve().unwrap();
    server.shutdown().unwrap();
    assert!(folder.path().join("pool").exists(), "it was served");
}
