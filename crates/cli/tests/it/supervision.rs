//! A server under a service manager: its reports, its log, and secrets that change while it runs.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::gateway::address;
use crate::stat_admin::{admin_port, certificates, secret};
use crate::support::{Place, Reply, RespClient, Server, command, run};

const OPTIONS: [&str; 4] = ["--durability", "process", "--capacity", "64MiB"];
/// A time limit that only a hang exceeds.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server of `data` without a terminal, as a service manager starts one.
fn service(data: &Path) -> Command {
    let mut serve = Command::new("setsid");
    serve
        .arg(command().get_program())
        .arg("serve")
        .arg("--data")
        .arg(data)
        .args(OPTIONS);
    serve
}

fn wait_for(server: &mut Server, words: &str) {
    let start = Instant::now();
    while !server.heard().contains(words) {
        assert!(start.elapsed() < PATIENCE, "{}", server.heard());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Needs each report: without the first one the manager gives the start up, without the second one it kills the server.
#[test]
fn a_service_manager_hears_that_the_server_serves_that_it_goes_on_and_that_it_ends() {
    let place = Place::in_volatile_memory();
    let path = place.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("room for a socket");
    manager
        .set_read_timeout(Some(PATIENCE))
        .expect("a socket has options");
    let mut serve = service(&place.pool());
    serve
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "100000");
    let mut server = Server::of(serve, &place.pool());
    let heard = || {
        let mut bytes = [0; 4096];
        let size = manager.recv(&mut bytes).expect("a report");
        String::from_utf8(bytes[..size].to_vec()).expect("a report is text")
    };
    let ready = heard();
    assert!(ready.starts_with("READY=1\nSTATUS=serving "), "{ready}");
    for _ in 0..3 {
        assert_eq!(heard().trim_end(), "WATCHDOG=1");
    }
    server.signal(Signal::TERM);
    while heard().trim_end() != "STOPPING=1" {}
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_new_password_is_in_force_after_sighup_and_a_bad_one_is_not() {
    let place = Place::in_volatile_memory();
    let password = secret(place.path(), "password", "first\n");
    let mut serve = service(&place.pool());
    serve
        .args(["--resp", "127.0.0.1:0", "--password-file"])
        .arg(&password);
    let mut server = Server::of(serve, &place.pool());
    let address = address(&mut server, "redis://");
    let ok = Reply::Line("+OK".to_owned());
    let is_right = |word: &str| RespClient::connect(address).call(&format!("AUTH {word}")) == ok;
    let mut early = RespClient::connect(address);
    assert_eq!(early.call("AUTH first"), ok);

    secret(place.path(), "password", "second\n");
    assert!(
        is_right("first") && !is_right("second"),
        "nobody has asked for it"
    );
    server.signal(Signal::HUP);
    wait_for(&mut server, "were read again");
    assert!(is_right("second") && !is_right("first"));
    assert_eq!(
        early.call("SET k v"),
        ok,
        "a client that is authenticated stays so"
    );

    secret(place.path(), "password", "\n");
    server.signal(Signal::HUP);
    wait_for(&mut server, "stay in force");
    assert!(
        server.heard().contains("its first line is empty"),
        "{}",
        server.heard()
    );
    assert!(is_right("second"));
    server.stop();
}

#[test]
fn new_users_are_in_force_after_sighup() {
    let place = Place::in_volatile_memory();
    let users = secret(
        place.path(),
        "users",
        "user default off\nuser a on >one ~* +@all\n",
    );
    let mut serve = service(&place.pool());
    serve
        .args(["--resp", "127.0.0.1:0", "--resp-acl-file"])
        .arg(&users);
    let mut server = Server::of(serve, &place.pool());
    let address = address(&mut server, "redis://");
    let ok = Reply::Line("+OK".to_owned());
    let is_user = |words: &str| RespClient::connect(address).call(&format!("AUTH {words}")) == ok;
    let mut early = RespClient::connect(address);
    assert_eq!(early.call("AUTH a one"), ok);

    secret(
        place.path(),
        "users",
        "user default off\nuser b on >two ~* +@all\n",
    );
    server.signal(Signal::HUP);
    wait_for(&mut server, "were read again");
    assert!(is_user("b two") && !is_user("a one"));
    assert_eq!(
        early.reply(),
        None,
        "the connections of a user who is gone end"
    );
    server.stop();
}

#[test]
fn a_new_certificate_is_in_force_after_sighup() {
    let place = Place::in_volatile_memory();
    let folder = place.path();
    certificates(folder);
    let mut serve = service(&place.pool());
    serve
        .args(["--admin", "127.0.0.1:0", "--tls-certificate"])
        .arg(folder.join("server.pem"))
        .arg("--tls-key")
        .arg(folder.join("server.key"));
    let mut server = Server::of(serve, &place.pool());
    let admin = format!("localhost:{}", admin_port(&mut server));
    let store = server.address();
    let ask = |authority: &Path| {
        let mut stat = command();
        stat.args(["stat", "--json", "--connect", &store, "--admin", &admin])
            .arg("--tls-authority")
            .arg(authority);
        run(stat, b"")
    };
    let old = folder.join("old.pem");
    fs::copy(folder.join("authority.pem"), &old).expect("room for a file");
    ask(&old).json();

    certificates(folder);
    server.signal(Signal::HUP);
    wait_for(&mut server, "were read again");
    ask(&folder.join("authority.pem")).json();
    ask(&old).json_failure(1, "failed");
    server.stop();
}

/// Needs every message in the log: a program that reads it stops at a line that is no object.
#[test]
fn every_line_of_a_log_for_programs_is_an_object_with_level_message_and_facts() {
    let place = Place::in_volatile_memory();
    let ready = place.path().join("ready");
    let mut serve = service(&place.pool());
    serve
        .args(["--log-format", "json", "--ready-file"])
        .arg(&ready);
    let mut server = Server::spawn(serve, &place.pool());
    let start = Instant::now();
    while !ready.exists() {
        assert!(start.elapsed() < PATIENCE, "{}", server.heard());
        std::thread::sleep(Duration::from_millis(1));
    }
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    let events: Vec<Value> = server
        .heard_to_the_end()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no object: {line}")))
        .collect();
    let of = |words: &str| {
        let has = |event: &&Value| {
            event["message"]
                .as_str()
                .is_some_and(|said| said.starts_with(words))
        };
        events
            .iter()
            .find(has)
            .unwrap_or_else(|| panic!("no {words}: {events:?}"))
    };
    let event = of("ready: serving ");
    assert_eq!(event["level"], "INFO");
    assert_eq!(event["data"], place.pool().display().to_string());
    assert!(
        event["timestamp"]
            .as_str()
            .is_some_and(|time| time.ends_with('Z'))
    );
    assert_eq!(of("opened in ")["keys"], 0);
    of("ended in order");
}

#[test]
fn a_failure_is_an_event_of_the_log_too_and_a_level_leaves_events_out() {
    let place = Place::in_volatile_memory();
    let mut serve = service(&place.pool());
    serve.args([
        "--log-format",
        "json",
        "--listen",
        "shm:/nowhere/at/all/socket",
    ]);
    let refused = run(serve, b"");
    assert_ne!(refused.code, Some(0));
    let last = refused.stderr.lines().last().expect("a line");
    let event: Value = serde_json::from_str(last).expect("an object");
    assert_eq!(event["level"], "ERROR", "{event}");

    let mut server = Server::spawn(
        {
            let mut serve = service(&place.pool());
            serve.args(["--log-level", "warn"]);
            serve
        },
        &place.pool(),
    );
    let start = Instant::now();
    while server.client(&["put", "k", "v"]).code != Some(0) {
        assert!(start.elapsed() < PATIENCE, "{}", server.heard());
    }
    server.signal(Signal::TERM);
    server.wait();
    assert_eq!(server.heard_to_the_end(), "");
}
