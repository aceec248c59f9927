//! The errors that a program gets.

use std::time::Duration;

use stonecast::error::StoreError;
use stonecast::{Connector, Durability, Effect, ErrorKind, Server, blocking};

use crate::support::{Place, block_on};

#[test]
fn a_text_that_is_no_address_is_refused_with_the_text_and_the_forms_of_an_address() {
    let forms = match cfg!(feature = "verbs") {
        true => "an address is shm:PATH, verbs:HOST:PORT or cluster:URL",
        false => "an address is shm:PATH or cluster:URL",
    };
    for (text, reason) in [
        ("redis://localhost", forms),
        ("socket", forms),
        ("/run/stonecast", forms),
        ("", forms),
        ("shm:", "shm: needs a path after it"),
        ("shm://", "shm: needs a path after it"),
        ("cluster:", "use file:PATH, or etcd://HOST:PORT"),
        ("cluster:etcd://10.0.0.1/blue", "a port is missing"),
        ("file:/var/lib/blue", "write cluster:file:/var/lib/blue"),
    ] {
        let error = blocking::connect(text).err().unwrap();
        let ErrorKind::Address(refused) = error.kind() else {
            panic!("{error}");
        };
        assert_eq!(refused.text, text);
        let said = error.to_string();
        assert!(
            said.contains(&format!("{text:?} is not an address")),
            "{said}"
        );
        assert!(said.contains(reason), "{text}: {said}");
        assert_eq!(error.effect(), Effect::None);
    }
}

#[cfg(not(feature = "verbs"))]
#[test]
fn a_build_without_rdma_offers_no_address_that_it_refuses() {
    for text in ["verbs:", "verbs:192.0.2.7:7171"] {
        let said = blocking::connect(text).err().unwrap().to_string();
        assert!(said.contains("a build with the feature `verbs`"), "{said}");
        assert!(said.contains("shm:PATH"), "{said}");
    }
    let said = blocking::connect("tcp://192.0.2.7").err().unwrap();
    assert!(!said.to_string().contains("verbs:"), "{said}");
}

/// Needs the password to be left out of the text of the error.
#[test]
fn the_error_of_an_address_shows_no_password() {
    for text in [
        "etcd://ops:secret@10.0.0.1:2379/blue",
        "redis://ops:secret@10.0.0.1:6379",
        "cluster:etcd://ops:secret@10.0.0.1/blue",
    ] {
        let error = blocking::connect(text).err().unwrap();
        assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
    }
}

#[test]
fn the_error_names_an_address_at_which_no_server_listens() {
    let error = blocking::connect("shm:/nowhere/socket").err().unwrap();
    assert!(error.to_string().contains("/nowhere/socket"), "{error}");
    assert!(
        matches!(
            error.kind(),
            ErrorKind::Unreachable {
                is_absent: true,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("stonecast serve"), "{error}");
    let error = block_on(stonecast::connect("shm:/nowhere/socket"))
        .err()
        .unwrap();
    assert!(error.to_string().contains("/nowhere/socket"), "{error}");
}

#[test]
fn a_pool_that_promises_less_than_expected_is_refused() {
    let place = Place::new();
    let error = Connector::new(&place.url())
        .unwrap()
        .expect_durability(Durability::Power)
        .connect_blocking()
        .err()
        .unwrap();
    assert!(
        matches!(
            error.kind(),
            ErrorKind::Durability {
                expected: Durability::Power,
                found: Durability::Process,
                ..
            }
        ),
        "{error}"
    );
    let weaker = Connector::new(&place.url()).unwrap();
    let weaker = weaker.expect_durability(Durability::Process);
    assert!(weaker.connect_blocking().is_ok());
}

#[test]
fn a_key_or_value_that_is_too_long_is_refused_and_nothing_is_done() {
    let place = Place::new();
    let client = blocking::connect(&place.url()).unwrap();
    for (key, value) in [
        (vec![], vec![]),
        (vec![1; stonecast::KEY_SIZE_MAX + 1], vec![]),
        (vec![1], vec![0; stonecast::VALUE_SIZE_MAX + 1]),
    ] {
        let error = client.put(&key, &value).unwrap_err();
        let (size, max, advice) = match error.kind() {
            ErrorKind::Store(StoreError::KeySize { size: 0, max }) => (0, *max, "Name a key"),
            ErrorKind::Store(StoreError::KeySize { size, max }) => (*size, *max, "Shorten the key"),
            ErrorKind::Store(StoreError::ValueSize { size, max }) => {
                (*size, *max, "Split the value")
            }
            _ => panic!("{error}"),
        };
        let said = error.to_string();
        for fact in [
            &size.to_string(),
            &max.to_string(),
            "nothing was done",
            advice,
        ] {
            assert!(said.contains(fact), "{fact}: {said}");
        }
        assert_eq!(error.effect(), Effect::None);
        assert!(!error.is_disconnected());
    }
    assert_eq!(client.stat().unwrap().keys, 0);
}

#[test]
fn a_pool_in_use_and_a_setting_that_differs_are_refused_by_name() {
    let mut place = Place::new();
    let in_use = place.builder().serve().err().unwrap();
    let said = in_use.to_string();
    let (data, process) = (place.data(), std::process::id());
    assert!(said.contains(&data.display().to_string()), "{said}");
    assert!(
        said.contains(&format!(
            "in use by another process (process {process}); stop that server"
        )),
        "{said}"
    );
    assert_eq!(in_use.effect(), Effect::None);
    place.end();
    let other = place.builder().durability(Durability::Power).serve();
    let other = other.err().unwrap();
    assert!(
        matches!(
            other.kind(),
            ErrorKind::OtherSetting {
                setting: "durability",
                ..
            }
        ),
        "{other}"
    );
    let other = place.builder().capacity(32 << 20).serve().err().unwrap();
    assert!(other.to_string().contains("capacity"), "{other}");
}

#[test]
fn after_the_end_of_the_server_every_kind_of_client_is_told() {
    let mut place = Place::new();
    let waiting = blocking::connect(&place.url()).unwrap();
    let shared = block_on(stonecast::connect(&place.url())).unwrap();
    waiting.put("a", "1").unwrap();
    place.end();
    let error = waiting.get("a").unwrap_err();
    assert!(error.is_disconnected(), "{error}");
    let error = block_on(shared.put("a", "2")).unwrap_err();
    assert!(error.is_disconnected(), "{error}");
    assert_eq!(error.effect(), Effect::None, "nothing was sent");
}

#[test]
fn a_client_that_was_closed_refuses_what_its_clones_ask() {
    let place = Place::new();
    let client = block_on(stonecast::connect(&place.url())).unwrap();
    let clone = client.clone();
    client.close();
    let error = block_on(clone.get("a")).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Closed), "{error}");
    assert_eq!(error.effect(), Effect::None);
}

#[test]
fn a_server_that_accepts_no_client_is_named_after_the_time_limit() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let server = Server::builder(folder.path().join("pool"))
        .durability(Durability::Process)
        .capacity(16 << 20)
        .listen(format!("shm:{}", socket.display()).parse().unwrap())
        .open()
        .unwrap();
    // The server listens, and is never run.
    let error = Connector::new(&format!("shm:{}", socket.display()))
        .unwrap()
        .connect_timeout(Duration::from_millis(50))
        .connect_blocking()
        .err()
        .unwrap();
    assert!(
        matches!(error.kind(), ErrorKind::Unanswered { .. }),
        "{error}"
    );
    drop(server);
}
