//! Clients of other users, and the limits on the number of clients.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::support::{Output, Place, Server, command, not_run, run, stonecast};

const OPTIONS: [&str; 4] = ["--durability", "process", "--capacity", "64MiB"];
/// `nobody` and `nogroup`.
const OTHER: u32 = 65534;

/// The binary in a folder that every user may read, and a folder for sockets that every user may enter.
struct Stage {
    place: Place,
    program: PathBuf,
    socket: PathBuf,
}

impl Stage {
    /// `None`, with a report, if this process cannot become another user.
    fn new(test: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            not_run(test, "only root becomes another user");
            return None;
        }
        let place = Place::on_disk();
        let open = |path: &PathBuf| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is our own");
        };
        open(&place.path().to_owned());
        let program = place.path().join("stonecast");
        fs::copy(command().get_program(), &program).expect("room for the binary");
        open(&program);
        let folder = place.path().join("run");
        fs::create_dir(&folder).expect("a new folder");
        open(&folder);
        Some(Self {
            program,
            socket: folder.join("socket"),
            place,
        })
    }

    fn server(&self, options: &[&str]) -> Server {
        let listen = format!("shm:{}", self.socket.display());
        let all = OPTIONS.iter().copied().chain(["--listen", &listen]);
        Server::start(&self.place.pool(), all.chain(options.iter().copied()))
    }

    /// Runs a client as another user.
    fn other_user(&self, arguments: &[&str]) -> Output {
        let mut client = Command::new(&self.program);
        client
            .args(arguments)
            .arg("--connect")
            .arg(format!("shm:{}", self.socket.display()))
            .current_dir("/")
            .uid(OTHER)
            .gid(OTHER);
        run(client, b"")
    }
}

/// Needs mode and group of the socket.
#[test]
fn other_users_connect_if_the_socket_permits() {
    let Some(stage) = Stage::new("other_users_connect_if_the_socket_permits") else {
        return;
    };
    for (options, gets_in, words) in [
        (&[][..], false, "user root alone (socket 0600)"),
        (
            &["--socket-mode", "0660"],
            false,
            "user root and members of group root (socket 0660)",
        ),
        (
            &["--socket-mode", "0660", "--socket-group", "65534"],
            true,
            "user root and members of group nogroup (socket 0660)",
        ),
        (&["--socket-mode", "666"], true, "every user (socket 0666)"),
    ] {
        let mut server = stage.server(options);
        assert!(server.heard().contains(words), "{}", server.heard());
        assert!(!server.heard().contains("keeps other users out"));
        let put = stage.other_user(&["put", "k", "v"]);
        if gets_in {
            put.text();
            assert_eq!(stage.other_user(&["get", "k"]).text(), "v");
        } else {
            assert!(put.stderr.contains("Permission denied"), "{}", put.stderr);
        }
        // The files keep their modes: only the owner may use the pool.
        for name in ["", "log", "header"] {
            let status = fs::metadata(stage.place.pool().join(name)).expect("it is there");
            assert_eq!(status.permissions().mode() & 0o077, 0, "{name}");
        }
        server.stop();
    }
}

#[test]
fn a_folder_that_keeps_other_users_out_is_named() {
    let place = Place::in_volatile_memory();
    let options = OPTIONS.iter().chain(&["--socket-mode", "0666"]);
    let mut server = Server::start(&place.pool(), options);
    let words = format!(
        "but the folder {} keeps other users out",
        fs::canonicalize(place.pool()).unwrap().display()
    );
    assert!(server.heard().contains(&words), "{}", server.heard());
}

/// Needs the bound for each other user.
#[test]
fn another_user_gets_a_share_of_the_places() {
    let Some(stage) = Stage::new("another_user_gets_a_share_of_the_places") else {
        return;
    };
    let server = stage.server(&["--socket-mode", "0666", "--clients-max", "8"]);
    let many = [
        "bench",
        "ycsb",
        "--keys",
        "100",
        "--ops",
        "1000",
        "--clients",
        "3",
    ];
    let refused = stage.other_user(&many);
    assert!(
        refused.stderr.contains("user 65534 has 2 clients")
            && refused.stderr.contains("--clients-per-user"),
        "{}",
        refused.stderr
    );
    let connect = format!("shm:{}", stage.socket.display());
    let own = stonecast(many.iter().chain(&["--connect", connect.as_str()]));
    assert_eq!(own.code, Some(0), "{}", own.stderr);
    drop(server);
}

/// Needs the bounds of all and of each process.
#[test]
fn a_client_above_a_limit_is_told_the_limit_and_how_to_raise_it() {
    for (options, words) in [
        (
            &["--clients-max", "2", "--clients-per-process", "2"][..],
            "all 2 places for clients are taken",
        ),
        (
            &["--clients-max", "4"],
            "has 2 clients, as many as one process may have",
        ),
        (
            &["--clients-per-process", "1"],
            "has 1 clients, as many as one process may have",
        ),
    ] {
        let place = Place::in_volatile_memory();
        let server = Server::start(&place.pool(), OPTIONS.iter().chain(options));
        let refused = server.client(&[
            "bench",
            "ycsb",
            "--keys",
            "100",
            "--ops",
            "1000",
            "--clients",
            "3",
        ]);
        assert!(
            refused.code == Some(1)
                && refused.stderr.contains(words)
                && refused.stderr.contains("--clients-"),
            "{}",
            refused.stderr
        );
        assert_eq!(server.client(&["stat", "--json"]).json()["clients"], 1);
    }
}

/// Needs the limit that is passed on to the benchmark's own server.
#[test]
fn a_benchmark_with_its_own_server_has_as_many_clients_as_a_server_takes() {
    let output = stonecast([
        "bench",
        "ycsb",
        "--keys",
        "100",
        "--ops",
        "2000",
        "--clients",
        "200",
        "--json",
    ]);
    assert_eq!(output.json()["clients"], 200);
}

#[test]
fn impossible_settings_are_wrong_usage() {
    for (arguments, words) in [
        (["--socket-mode", "0999"], "octal"),
        (["--socket-mode", "0066"], "own user"),
        (
            ["--socket-group", "no-such-group"],
            "no group `no-such-group`",
        ),
        (["--clients-max", "5000"], "at most 1024"),
        (["--clients-max", "0"], "--clients-max"),
    ] {
        let refused = stonecast(["serve"].iter().chain(&arguments));
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
}

/// Repeats a put until the put succeeds: the descriptors of ended clients are free once the server has noticed the
/// ends, which a busy machine delays.
fn put_once_there_are_descriptors(server: &Server) {
    let refusal = "no file descriptors left";
    for _ in 0..200 {
        let put = server.client(&["put", "k", "v"]);
        if !put.stderr.contains(refusal) {
            put.text();
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("still refused after 10 seconds: {refusal}");
}

/// Needs the message at the start, the limit of the system in the refusal, and the release of everything that was made
/// for a refused client.
#[test]
fn a_server_with_few_descriptors_reports_that_and_continues() {
    let place = Place::in_volatile_memory();
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", "ulimit -n 80; exec \"$0\" \"$@\""])
        .arg(command().get_program())
        .arg("serve")
        .arg("--data")
        .arg(place.pool())
        .args(OPTIONS);
    let mut server = Server::of(shell, &place.pool());
    assert!(
        server.heard().contains("this process may open 80 files"),
        "{}",
        server.heard()
    );
    let many = [
        "bench",
        "ycsb",
        "--keys",
        "100",
        "--ops",
        "1000",
        "--clients",
        "40",
    ];
    for _ in 0..2 {
        let refused = server.client(&many);
        let words = format!("process {} has no file descriptors left", server.process());
        assert!(
            refused.code == Some(1) && refused.stderr.contains(&words),
            "{}",
            refused.stderr
        );
        put_once_there_are_descriptors(&server);
    }
    server.stop();
    let heard = server.heard_to_the_end();
    assert!(heard.contains("no file descriptors left"), "{heard}");
}
