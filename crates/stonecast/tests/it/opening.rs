//! The state of the pool after a refused opening of a server.

use std::fs;

use stonecast::server::{Closing, Places};
use stonecast::{Durability, ErrorKind, Server, blocking};
use stonecast_media::{OpenMode, Pool, inspect_backing};
use tempfile::TempDir;

use crate::support::Place;

/// An address that nothing can listen at.
const NOWHERE: &str = "shm:/nowhere/socket";

/// A pool with a record, closed in order.
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
    assert!(!server.opening().pool.is_new);
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

/// Needs the number to be compared with the pool's: a server of another number would not find the shard that a key has
/// elsewhere.
#[test]
fn the_number_of_shards_is_chosen_once_and_another_one_is_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("pool");
    let builder = || {
        Server::builder(&data)
            .durability(Durability::Process)
            .capacity(16 << 20)
    };
    for shards in [0, 65] {
        let error = builder().shards(shards).open().err().unwrap();
        assert!(error.to_string().contains("64 shards"), "{error}");
        assert!(!data.exists());
    }
    let server = builder().shards(7).serve().unwrap();
    let client = blocking::connect(&format!("shm:{}/socket", data.display())).unwrap();
    for key in 0..50 {
        client.put(format!("{key}"), "1").unwrap();
    }
    drop(client);
    server.shutdown().unwrap();
    let error = builder().shards(1).open().err().unwrap();
    assert!(
        matches!(
            error.kind(),
            ErrorKind::OtherSetting {
                setting: "shards",
                ..
            }
        ),
        "{error}"
    );
    let server = builder().open().unwrap();
    assert_eq!(server.opening().recovery.keys, 50);
    assert_eq!(server.close().unwrap(), Closing::Clean);
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

/// Needs the store to be closed if listening fails.
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

/// Needs `withdraw` to remove a pool from which no client was served, and no other pool.
#[test]
fn an_opening_that_is_taken_back_leaves_the_place_as_it_was() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("made/for/the/pool");
    let builder = || {
        Server::builder(&data)
            .durability(Durability::Process)
            .capacity(16 << 20)
    };
    builder().open().unwrap().withdraw();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let server = builder().open().unwrap();
    assert!(server.opening().pool.is_new);
    server.run(&|| true).unwrap();
    server.withdraw();
    let server = builder().open().unwrap();
    assert!(!server.opening().pool.is_new, "it had run");
    server.withdraw();
    let server = builder().open().unwrap();
    assert!(!server.opening().pool.is_new, "it was there before");
    assert_eq!(server.close().unwrap(), Closing::Clean);
}

/// Needs the check of the settings before the pool is made.
#[test]
fn a_pool_too_small_and_a_server_without_places_are_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let builder = || Server::builder(folder.path().join("pool")).durability(Durability::Process);
    let small = builder().capacity(512 << 10).open().err().unwrap();
    assert!(
        matches!(
            small.kind(),
            ErrorKind::TooSmall {
                capacity: 0x8_0000,
                ..
            }
        ),
        "{small}"
    );
    for clients in [0, 1 << 20] {
        let places = Places {
            clients,
            ..Places::default()
        };
        let refused = builder().places(places).open().err().unwrap();
        assert!(refused.to_string().contains("1 to"), "{refused}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
