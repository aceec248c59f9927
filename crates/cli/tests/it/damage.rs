//! Damaged pool files: cut, mixed up or scratched. Each pool is opened unchanged, repaired with a message, or refused
//! with file, offset, found and expected bytes. The tests of the store itself try ten thousand random mutations; these
//! tests go through the binary.

use std::fs;
use std::path::Path;

use crate::support::{Place, Server, stonecast};

const OPTIONS: [&str; 6] = [
    "--durability",
    "process",
    "--capacity",
    "16MiB",
    "--segment-size",
    "1MiB",
];

/// A pool with a thousand keys, stopped in order, so that every segment is sealed.
fn stopped_pool(place: &Place) {
    let mut server = Server::start(&place.pool(), OPTIONS);
    let input: String = (0..1000)
        .map(|index| {
            format!(
                "{{\"key\":\"key-{index}\",\"value\":\"{}\"}}\n",
                "v".repeat(300)
            )
        })
        .collect();
    server
        .client_with_input(&["import"], input.as_bytes())
        .text();
    server.stop();
}

fn change(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(file).expect("the file is there");
    change(&mut bytes);
    fs::write(file, bytes).expect("the file can be written");
}

/// Checks that both the server and `verify` refuse, with file, offset, found and expected bytes.
fn refused(place: &Place, file: &str) {
    let message = Server::refused(&place.pool(), OPTIONS);
    assert_names(&message, file);
    let verified = stonecast(["verify".as_ref(), place.pool().as_os_str()]);
    assert_eq!(verified.code, Some(5), "{}", verified.stderr);
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&verified.stdout),
        verified.stderr
    );
    assert_names(&said, file);
}

fn assert_names(message: &str, file: &str) {
    for part in [file, "at offset ", "found ", "expected "] {
        assert!(message.contains(part), "no {part:?} in {message}");
    }
}

/// Needs the tag of a record. For the last record of a segment, to which no later record links, also needs the seal:
/// without the seal, the record would count as unfinished.
#[test]
fn a_scratched_record_is_found_and_named() {
    for key in ["key-500", "key-999"] {
        let place = Place::in_volatile_memory();
        stopped_pool(&place);
        fs::remove_file(place.pool().join("checkpoint"))
            .expect("a pool that was stopped has a checkpoint");
        let log = place.pool().join("log");
        change(&log, |bytes| {
            let record = format!("{key}vvv");
            let at = (0..bytes.len())
                .find(|&at| bytes[at..].starts_with(record.as_bytes()))
                .expect("the record is there");
            bytes[at + 100] ^= 1;
        });
        refused(&place, "log");
    }
}

#[test]
fn a_log_that_was_cut_is_refused() {
    let place = Place::in_volatile_memory();
    stopped_pool(&place);
    let log = place.pool().join("log");
    let size = fs::metadata(&log).expect("the log is there").len();
    fs::OpenOptions::new()
        .write(true)
        .open(&log)
        .expect("it opens")
        .set_len(size / 2)
        .expect("it can be cut");
    refused(&place, "log");
}

#[test]
fn one_scratched_copy_of_the_header_is_repaired_with_a_message_and_two_are_refused() {
    let place = Place::in_volatile_memory();
    stopped_pool(&place);
    let header = place.pool().join("header");
    for copy in [0, 4096] {
        change(&header, |bytes| bytes[copy + 40] ^= 0x10);
        let mut server = Server::start(&place.pool(), OPTIONS);
        assert_names(server.heard(), "header");
        assert!(server.heard().contains("repaired"), "{}", server.heard());
        assert_eq!(server.client(&["get", "key-1"]).text(), "v".repeat(300));
        server.stop();
        assert!(
            !Server::start(&place.pool(), OPTIONS)
                .heard()
                .contains("repaired"),
            "repaired once"
        );
    }
    change(&header, |bytes| {
        [40, 4096 + 40].into_iter().for_each(|at| bytes[at] ^= 0x10)
    });
    refused(&place, "header");
}

/// Needs the checksum of the checkpoint.
#[test]
fn a_scratched_checkpoint_is_not_believed_and_the_log_is_scanned() {
    let place = Place::in_volatile_memory();
    stopped_pool(&place);
    change(&place.pool().join("checkpoint"), |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    });
    let mut server = Server::start(&place.pool(), OPTIONS);
    assert_names(server.heard(), "checkpoint");
    assert_eq!(server.client(&["export"]).text().lines().count(), 1000);
}

#[test]
fn a_file_that_is_no_pool_is_refused_as_no_pool() {
    let place = Place::on_disk();
    for command in ["inspect", "verify"] {
        let output = stonecast([command.as_ref(), place.pool().as_os_str()]);
        assert!(
            output.refusal(1).contains("there is no pool at"),
            "{}",
            output.stderr
        );
    }
    let file = place.path().join("file");
    fs::write(&file, "no folder").expect("room");
    assert!(Server::refused(&file, OPTIONS).contains("file"));
    let mut server = Server::start(&place.pool(), OPTIONS);
    let verified = stonecast(["verify".as_ref(), place.pool().as_os_str()]);
    assert!(
        verified.refusal(1).contains("in use"),
        "a pool that changes cannot be checked: {}",
        verified.stderr
    );
    let inspected = stonecast([
        "inspect".as_ref(),
        "--json".as_ref(),
        place.pool().as_os_str(),
    ])
    .json();
    assert_eq!(inspected["served_by"], server.process());
    server.stop();
    stonecast(["inspect".as_ref(), place.pool().as_os_str()]).text();
    stonecast(["verify".as_ref(), place.pool().as_os_str()]).text();
}
