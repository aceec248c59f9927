//! The creation of a pool, and the folder that a failed creation leaves.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::Path;

use crate::support::{Place, Server, stonecast};

const OPTIONS: [&str; 4] = ["--durability", "process", "--capacity", "64MiB"];

/// The names in `folder`, at any depth.
fn names_in(folder: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        names.insert(path.display().to_string());
        if path.is_dir() {
            names.extend(names_in(&path));
        }
    }
    names
}

#[test]
fn a_server_says_whether_it_created_a_pool_or_opened_one() {
    let place = Place::in_volatile_memory();
    let mut created = Server::start(&place.pool(), OPTIONS);
    let words = format!(
        "created pool {}: 64 MiB, durability process",
        place.pool().display()
    );
    assert!(created.heard().contains(&words), "{}", created.heard());
    created.stop();
    let mut opened = Server::start(&place.pool(), [] as [&str; 0]);
    let words = format!("opening pool {}: 64 MiB", place.pool().display());
    assert!(
        opened.heard().contains(&words) && !opened.heard().contains("created"),
        "{}",
        opened.heard()
    );
}

/// Needs the check of the folder before any file is created there.
#[test]
fn a_folder_with_foreign_files_is_refused_and_left_as_it_was() {
    let place = Place::in_volatile_memory();
    fs::create_dir(place.pool()).unwrap();
    fs::write(place.pool().join("thesis.tex"), "years of work").unwrap();
    fs::create_dir(place.pool().join("pictures")).unwrap();
    let before = names_in(place.path());
    let message = Server::refused(&place.pool(), OPTIONS);
    assert!(
        message.contains("other files: pictures, thesis.tex"),
        "{message}"
    );
    assert_eq!(names_in(place.path()), before);
}

#[test]
fn an_empty_folder_and_the_files_of_a_killed_creation_are_accepted() {
    for leftovers in [&[][..], &["log", "lock", "header.new"]] {
        let place = Place::in_volatile_memory();
        fs::create_dir(place.pool()).unwrap();
        for name in leftovers {
            fs::write(place.pool().join(name), "").unwrap();
        }
        Server::start(&place.pool(), OPTIONS).stop();
    }
}

/// Needs the removal of a pool from which no client was served, with the folders that were made for the pool.
#[test]
fn a_server_that_refuses_to_start_leaves_nothing_behind() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().to_string();
    let place = Place::in_volatile_memory();
    let file = place.path().join("file");
    fs::write(&file, "precious").unwrap();
    let in_the_way = format!("shm:{}", file.display());
    let pool = place.path().join("made/for/the/pool");
    let before = names_in(place.path());
    for (options, words) in [
        (&["--resp", &port][..], "in use"),
        (&["--admin", &port], "in use"),
        (
            &["--listen", &in_the_way],
            "a file that is not a socket is in the way",
        ),
        (&["--listen", "shm:/no/such/folder/socket"], "No such file"),
        (&["--segment-size", "3MiB"], "segment size"),
        (&["--durability", "power"], "cannot promise"),
    ] {
        let all: Vec<&str> = match options.contains(&"power") {
            true => options.to_vec(),
            false => OPTIONS.iter().chain(options).copied().collect(),
        };
        let message = Server::refused(&pool, all);
        assert!(message.contains(words), "{message}");
        assert_eq!(names_in(place.path()), before, "{options:?}");
    }
    Server::start(&pool, OPTIONS).stop();
}

/// Needs the check of the pool before the pool is opened, and the close of the pool if something fails later.
#[test]
fn a_server_that_refuses_to_start_leaves_a_pool_closed() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().to_string();
    let place = Place::in_volatile_memory();
    let mut server = Server::start(&place.pool(), OPTIONS);
    server.client(&["put", "k", "v"]).text();
    server.stop();
    for options in [["--capacity", "128MiB"], ["--resp", &port]] {
        Server::refused(&place.pool(), options);
        let pool = place.pool().display().to_string();
        let report = stonecast(["inspect", &pool, "--json"]).json();
        assert_eq!(report["clean"], true, "{options:?}: {report}");
    }
    let server = Server::start(&place.pool(), [] as [&str; 0]);
    assert_eq!(server.client(&["get", "k"]).text(), "v");
}

/// Needs the check of the log if there is no header: otherwise there seems to be no pool at all, and the message
/// advises to create one with `serve`.
#[test]
fn a_pool_that_has_lost_its_header_is_no_place_without_a_pool() {
    let place = Place::in_volatile_memory();
    let mut server = Server::start(&place.pool(), OPTIONS);
    server.client(&["put", "k", "v"]).text();
    server.stop();
    let header = place.pool().join("header");
    let kept = fs::read(&header).unwrap();
    fs::remove_file(&header).unwrap();
    let before = names_in(place.path());
    let pool = place.pool().display().to_string();
    for command in ["verify", "inspect"] {
        let said = stonecast([command, &pool]).stderr;
        assert!(
            said.contains("corrupt pool header") && said.contains("log has data"),
            "{command}: {said}"
        );
        assert!(!said.contains("there is no pool"), "{command}: {said}");
    }
    let message = Server::refused(&place.pool(), OPTIONS);
    assert!(message.contains("corrupt pool header"), "{message}");
    assert_eq!(names_in(place.path()), before);
    fs::write(&header, kept).unwrap();
    let server = Server::start(&place.pool(), [] as [&str; 0]);
    assert_eq!(server.client(&["get", "k"]).text(), "v");
}
