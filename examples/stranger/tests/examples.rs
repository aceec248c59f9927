//! Every example runs to its end, against a server where it needs one.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use stonecast::error::StoreError;
use stonecast::{Durability, Effect, ErrorKind, KEY_SIZE_MAX, Server};

/// An example, and the sign that it did its work.
struct Example {
    name: &'static str,
    program: &'static str,
    /// Whether the output is that of a complete run.
    is_complete: fn(&str) -> bool,
}

/// Examples that are given the address of a server.
const WITH_A_SERVER: [Example; 2] = [
    Example {
        name: "put_and_get",
        program: env!("CARGO_BIN_EXE_put_and_get"),
        is_complete: |text| text.contains("greeting is at version 1"),
    },
    Example {
        name: "watch_metrics",
        program: env!("CARGO_BIN_EXE_watch_metrics"),
        is_complete: |text| text.lines().count() == 3,
    },
];

/// Examples that bring their own server. Those without output assert what they find.
const ALONE: [Example; 7] = [
    Example {
        name: "embed_server",
        program: env!("CARGO_BIN_EXE_embed_server"),
        is_complete: |text| text.contains("1 keys at shm:"),
    },
    Example {
        name: "job_queue",
        program: env!("CARGO_BIN_EXE_job_queue"),
        is_complete: |text| text.ends_with(" does paint the door\n"),
    },
    Example {
        name: "many_gets",
        program: env!("CARGO_BIN_EXE_many_gets"),
        is_complete: |text| text.lines().count() == 3,
    },
    Example {
        name: "ordered_index",
        program: env!("CARGO_BIN_EXE_ordered_index"),
        is_complete: str::is_empty,
    },
    Example {
        name: "retry",
        program: env!("CARGO_BIN_EXE_retry"),
        is_complete: |text| text.contains("the write took effect once, as Done(1)"),
    },
    Example {
        name: "session_cache",
        program: env!("CARGO_BIN_EXE_session_cache"),
        is_complete: |text| text.ends_with("the session has ended\n"),
    },
    Example {
        name: "shared_dictionary",
        program: env!("CARGO_BIN_EXE_shared_dictionary"),
        is_complete: str::is_empty,
    },
];

fn run(example: &Example, arguments: &[String]) {
    let name = example.name;
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(example.program)
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&stderr)
    );
    let text = String::from_utf8(stdout).unwrap();
    assert!((example.is_complete)(&text), "{name}: {text:?}");
}

#[test]
fn examples_that_need_a_server_find_one() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::builder(folder.path().join("pool"))
        .durability(Durability::Process)
        .capacity(64 << 20)
        .serve()
        .unwrap();
    let url = [server.address().to_string()];
    for example in &WITH_A_SERVER {
        run(example, &url);
    }
    server.shutdown().unwrap();
}

#[test]
fn examples_that_bring_their_own_server_end_well() {
    for example in &ALONE {
        run(example, &[]);
    }
}

/// A match by fields, which a program writes with what the library exports.
#[test]
fn a_strangers_program_reads_the_facts_of_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::builder(folder.path().join("pool"))
        .durability(Durability::Process)
        .capacity(16 << 20)
        .segment_size(1 << 20)
        .serve()
        .unwrap();
    let client = stonecast::blocking::connect(&server.address().to_string()).unwrap();
    let error = client.put(vec![b'k'; KEY_SIZE_MAX + 1], "value").unwrap_err();
    let ErrorKind::Store(StoreError::KeySize { size, max }) = error.kind() else {
        panic!("{error}");
    };
    assert_eq!((*size, *max), (KEY_SIZE_MAX + 1, KEY_SIZE_MAX));
    assert_eq!(error.effect(), Effect::None);
    client.put(vec![b'k'; *max], "value").unwrap();
    client.close();
    server.shutdown().unwrap();
}

#[test]
fn every_example_of_the_library_is_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/stonecast/examples");
    let files = std::fs::read_dir(folder).unwrap();
    let there: BTreeSet<String> = files
        .map(|file| file.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let run: BTreeSet<String> = WITH_A_SERVER
        .iter()
        .chain(&ALONE)
        .map(|example| example.name.to_owned())
        .collect();
    assert_eq!(run, there, "enter each example here and in Cargo.toml");
}
