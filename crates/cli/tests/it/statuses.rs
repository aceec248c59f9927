//! Exit status and `--json` report the outcome, and each fact is reported once.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use crate::support::{Place, Server, command, run, stonecast};

fn server(place: &Place) -> Server {
    Server::start(
        &place.pool(),
        ["--durability", "process", "--capacity", "64MiB"],
    )
}

#[test]
fn the_status_and_the_last_line_of_json_tell_the_outcome() {
    let place = Place::in_volatile_memory();
    let mut server = server(&place);
    let version = server.client(&["put", "k", "v", "--json"]).json()["version"].clone();
    let absent = server
        .client(&["get", "nothing", "--json"])
        .json_failure(3, "absent");
    assert_eq!(absent["key"], "nothing");
    assert_eq!(absent["message"], "key \"nothing\" is absent");
    let conflict = server
        .client(&["put", "k", "w", "--if-absent", "--json"])
        .json_failure(6, "conflict");
    assert_eq!(
        (&conflict["key"], &conflict["version"]),
        (&"k".into(), &version)
    );
    let long = "k".repeat(1025);
    server
        .client(&["put", &long, "v", "--json"])
        .json_failure(1, "failed");
    stonecast(["put", "k", "v", "--loud", "--json"]).json_failure(2, "usage");
    stonecast(["get", "k", "--config", "/no/such/file", "--json"]).json_failure(2, "usage");
    server.stop();
    let gone = server
        .client(&["stat", "--json"])
        .json_failure(4, "unreachable");
    let message = gone["message"].as_str().expect("words");
    assert!(
        message.ends_with("Is `stonecast serve` running there?"),
        "{message}"
    );
    scratch(&place.pool().join("header"));
    let pool = place.pool().display().to_string();
    stonecast(["verify", &pool, "--json"]).json_failure(5, "corrupt");
    stonecast(["inspect", &pool, "--json"]).json_failure(5, "corrupt");
}

fn scratch(header: &Path) {
    let mut bytes = fs::read(header).expect("the header is there");
    [40, 4096 + 40].into_iter().for_each(|at| bytes[at] ^= 0x10);
    fs::write(header, bytes).expect("it can be written");
}

/// Needs the pause of the server: a request that was sent has no answer, and may be done when the server continues.
#[test]
fn a_write_without_an_answer_has_an_unknown_outcome() {
    let place = Place::in_volatile_memory();
    let mut server = server(&place);
    let mut put = command();
    // The value is larger than the pipe, so the client is connected before it has read all of the value.
    put.args(["put", "k", "--json", "--connect", &server.address()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut put = put.spawn().expect("the binary starts");
    let mut stdin = put.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut stdin, &vec![b'v'; 500_000]).expect("the client reads");
    server.signal(rustix::process::Signal::STOP);
    drop(stdin);
    // The write is on its way when the client waits for nothing but the answer; the end of the server ends the wait.
    std::thread::sleep(std::time::Duration::from_millis(500));
    server.kill();
    let output = put.wait_with_output().expect("it ends");
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{words}");
    assert!(words.contains("the outcome is unknown"), "{words}");
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(printed["error"], "outcome-unknown");
}

#[test]
fn a_server_that_refuses_is_not_reported_as_unreachable() {
    let place = Place::in_volatile_memory();
    let socket = place.path().join("file");
    fs::write(&socket, "no socket").expect("room");
    let refused = stonecast([
        "get",
        "k",
        "--connect",
        &format!("shm:{}", socket.display()),
    ]);
    refused.refusal(4);
    let server = server(&place);
    let refused = server.client(&["get", ""]);
    assert!(!refused.refusal(1).contains("running there"));
}

/// Needs a check of the socket that does not wait and that handles long paths: otherwise the first case would hang, and
/// the second case would fail with status 1.
#[test]
fn a_server_that_accepts_no_client_and_a_path_of_any_length_are_unreachable() {
    let place = Place::in_volatile_memory();
    let path = place.path().join("backlog");
    let new_socket = || {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a socket")
    };
    let at = SocketAddrUnix::new(&path).expect("a short path");
    let listener = new_socket();
    bind(&listener, &at).expect("nothing is there");
    listen(&listener, 1).expect("it is bound");
    let waiting: Vec<_> = (0..16)
        .map(|_| new_socket())
        .take_while(|socket| connect(socket, &at).is_ok())
        .collect();
    assert!(waiting.len() < 16, "the backlog is full");
    let refused = stonecast(["get", "k", "--connect", &format!("shm:{}", path.display())]);
    refused.refusal(4);

    let long = place.path().join("a".repeat(100)).join("b".repeat(100));
    let longer = place.path().join("c".repeat(300));
    for path in [long, longer] {
        let refused = stonecast(["get", "k", "--connect", &format!("shm:{}", path.display())]);
        refused.refusal(4);
    }
}

#[test]
fn the_json_of_get_can_be_imported() {
    let place = Place::in_volatile_memory();
    let server = server(&place);
    server.client_with_input(&["put", "raw"], b"\xff\n").text();
    let line = server.client(&["get", "raw", "--json"]).text().to_owned();
    server.client(&["delete", "raw"]).text();
    server
        .client_with_input(&["import"], line.as_bytes())
        .text();
    assert_eq!(server.client(&["get", "raw"]).stdout, b"\xff\n");
    let failed = server.client(&["get", "nothing", "--json"]);
    let refused = server.client_with_input(&["import"], &failed.stdout);
    assert!(refused.refusal(1).contains("unknown field `error`"));
}

/// Needs the message about the write: the write was done before its report found no room.
#[test]
fn a_write_whose_report_cannot_be_printed_is_reported_as_done() {
    let place = Place::in_volatile_memory();
    let server = server(&place);
    for (arguments, done) in [
        (
            &["put", "k", "v", "--json"][..],
            "key \"k\" is stored at version ",
        ),
        (&["delete", "k", "--json"], "key \"k\" is deleted, but"),
    ] {
        let mut command = command();
        command
            .args(arguments)
            .arg(format!("--connect={}", server.address()));
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let child = command
            .stdin(Stdio::null())
            .stdout(full.expect("/dev/full is there"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let output = child.wait_with_output().expect("it ends");
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words}");
        assert!(
            words.contains(done) && words.contains("could not be printed: No space left"),
            "{words}"
        );
    }
}

#[test]
fn a_mistyped_flag_is_wrong_usage_and_a_value_with_a_dash_comes_after_two() {
    let place = Place::in_volatile_memory();
    let server = server(&place);
    let mistyped = server.client_with_input(&["put", "k", "--if-absnt"], b"data");
    assert!(
        mistyped.refusal(2).contains("--if-absent"),
        "{}",
        mistyped.stderr
    );
    server.client(&["get", "k"]).refusal(3);
    server.client(&["put", "k", "-1"]).refusal(2);
    let mut put = command();
    put.args([
        "put",
        "--connect",
        &server.address(),
        "k",
        "--",
        "--if-absnt",
    ]);
    run(put, b"").text();
    assert_eq!(server.client(&["get", "k"]).text(), "--if-absnt");
}

#[test]
fn set_and_del_are_put_and_delete() {
    let place = Place::in_volatile_memory();
    let server = server(&place);
    server.client(&["set", "k", "v"]).text();
    assert_eq!(server.client(&["get", "k"]).text(), "v");
    server.client(&["del", "k"]).text();
    server.client(&["get", "k"]).refusal(3);
}

/// Needs the index to be left out: the index grows, so its first size is not a limit.
#[test]
fn stat_names_no_limit_of_keys() {
    let place = Place::in_volatile_memory();
    let server = server(&place);
    let stat = server.client(&["stat", "--json"]).json();
    assert!(
        stat["keys"] == 0 && stat.get("keys_max").is_none(),
        "{stat}"
    );
}

#[test]
fn sizes_are_said_as_they_were_given() {
    let place = Place::in_volatile_memory();
    let message = Server::refused(
        &place.pool(),
        ["--durability", "process", "--capacity", "512KiB"],
    );
    assert!(
        message.contains("--capacity 512 KiB is too small: a pool has at least 4 segments"),
        "{message}"
    );
    let mut server = server(&place);
    server.stop();
    let message = Server::refused(&place.pool(), ["--capacity", "128MiB"]);
    assert!(message.contains("64 MiB, not 128 MiB"), "{message}");
}
