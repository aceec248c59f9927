//! An import that ends early reports exactly which lines are stored, which lines may be stored, and at which line to
//! continue.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Place, Server, command};

fn server(place: &Place) -> Server {
    Server::start(
        &place.pool(),
        ["--durability", "process", "--capacity", "64MiB"],
    )
}

fn line(number: usize) -> String {
    format!("{{\"key\":\"key-{number}\",\"value\":\"v\"}}\n")
}

/// Starts an import from a pipe that stays open, and writes lines 1 to `count` to it.
fn begin(server: &Server, count: usize) -> (Child, ChildStdin) {
    let mut import = command();
    import
        .args(["import", "--json", "--connect", &server.address()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut import = import.spawn().expect("the binary starts");
    let mut stdin = import.stdin.take().expect("a pipe");
    for number in 1..=count {
        stdin
            .write_all(line(number).as_bytes())
            .expect("the import reads");
    }
    (import, stdin)
}

fn wait_until_stored(server: &Server, keys: u64) {
    let start = Instant::now();
    while server.client(&["stat", "--json"]).json()["keys"].as_u64() < Some(keys) {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "the import does not go on"
        );
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("a child can be sent signals");
}

/// The failure in JSON, its message, and the status.
fn end_of(mut child: Child) -> (serde_json::Value, String, Option<i32>) {
    let mut words = String::new();
    let mut stderr = child.stderr.take().expect("a pipe");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let status = child.wait().expect("a child can be waited for").code();
    stderr.read_to_string(&mut words).expect("words");
    let mut printed = String::new();
    stdout.read_line(&mut printed).expect("a line");
    let failure = serde_json::from_str(&printed).unwrap_or_default();
    (failure, words, status)
}

/// Needs a read to end if no more input has arrived, and to keep the part of a line that was read before.
#[test]
fn lines_that_were_read_are_stored_while_the_input_pauses_also_within_a_line() {
    let place = Place::in_volatile_memory();
    let server = server(&place);
    let (mut import, mut stdin) = begin(&server, 3);
    wait_until_stored(&server, 3);
    let rest = line(4) + &line(5);
    let (first, second) = rest.split_at(line(4).len() + 9);
    stdin.write_all(first.as_bytes()).expect("the import reads");
    wait_until_stored(&server, 4);
    stdin
        .write_all(second.as_bytes())
        .expect("the import reads");
    wait_until_stored(&server, 5);
    drop(stdin);
    assert!(import.wait().expect("it ends").success());
    let all: String = (1..=5).map(line).collect();
    assert_eq!(server.client(&["export"]).text(), all);
}

/// Needs the check for signals while the import waits for input: otherwise a silent pipe would keep the import forever.
#[test]
fn a_signal_ends_an_import_and_each_line_that_was_read_is_stored() {
    for asked in [Signal::INT, Signal::TERM] {
        let place = Place::in_volatile_memory();
        let server = server(&place);
        let (import, stdin) = begin(&server, 100);
        wait_until_stored(&server, 100);
        signal(&import, asked);
        let (failure, words, status) = end_of(import);
        drop(stdin);
        assert_eq!(status, Some(1), "{words}");
        assert!(
            words.contains("interrupted: 100 entries of the file are stored: all up to line 100. No other line is stored")
                && words.contains("tail -n +101 FILE | stonecast import"),
            "{words}"
        );
        assert_eq!(
            (&failure["stored"], &failure["resume_line"]),
            (&100.into(), &101.into())
        );
        assert_eq!(server.client(&["export"]).text().lines().count(), 100);
    }
}

/// Needs the limit of the wait: a server that is suspended never answers.
#[test]
fn lines_that_a_silent_server_left_without_an_answer_are_named() {
    let place = Place::in_volatile_memory();
    let server = server(&place);
    let (import, mut stdin) = begin(&server, 64);
    wait_until_stored(&server, 64);
    server.signal(Signal::STOP);
    for number in 65..=80 {
        stdin
            .write_all(line(number).as_bytes())
            .expect("the import reads");
    }
    drop(stdin);
    signal(&import, Signal::INT);
    let (failure, words, status) = end_of(import);
    server.signal(Signal::CONT);
    assert!(
        words.contains("64 entries of the file are stored"),
        "{words}"
    );
    match status {
        // The signal came before any more input was read.
        Some(1) => assert!(words.contains("No other line is stored"), "{words}"),
        _ => {
            assert_eq!(status, Some(7), "{words}");
            assert!(words.contains("It is not known whether line"), "{words}");
            assert_eq!(failure["unknown_lines"][0], 65, "{failure}");
        }
    }
    assert_eq!(failure["resume_line"], 65);
}

#[test]
fn an_import_whose_connection_is_lost_names_the_lines_of_unknown_outcome() {
    let place = Place::in_volatile_memory();
    let mut server = server(&place);
    let (import, mut stdin) = begin(&server, 64);
    wait_until_stored(&server, 64);
    server.kill();
    let rest: String = (65..=300).map(line).collect();
    // The import stops reading when the connection is lost.
    let _ = stdin.write_all(rest.as_bytes());
    drop(stdin);
    let (failure, words, status) = end_of(import);
    assert!(matches!(status, Some(4 | 7)), "{status:?} {words}");
    assert!(
        words.contains("64 entries of the file are stored: all up to line 64"),
        "{words}"
    );
    assert_eq!(
        (&failure["stored"], &failure["resume_line"]),
        (&64.into(), &65.into())
    );
    let unknown = failure["unknown_lines"].as_array().expect("a list");
    assert_eq!(unknown.is_empty(), status == Some(4), "{failure}");
}
