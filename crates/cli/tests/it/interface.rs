//! The interface to people and scripts: defaults, help, exit status, output, settings.

use std::fs;

use rustix::process::Signal;

use crate::support::{Place, Server, command, run, stonecast};

const COMMANDS: [&[&str]; 23] = [
    &[],
    &["serve"],
    &["put"],
    &["get"],
    &["delete"],
    &["ls"],
    &["import"],
    &["export"],
    &["stat"],
    &["inspect"],
    &["verify"],
    &["plan"],
    &["litmus"],
    &["doctor"],
    &["cluster", "create"],
    &["cluster", "status"],
    &["cluster", "add"],
    &["cluster", "drain"],
    &["cluster", "remove"],
    &["cluster", "move"],
    &["completions"],
    &["man"],
    &["bench", "ycsb"],
];

fn server(place: &Place) -> Server {
    Server::start(
        &place.pool(),
        ["--durability", "process", "--capacity", "64MiB"],
    )
}

#[test]
fn serve_put_and_get_work_without_any_argument() {
    let place = Place::on_disk();
    let mut server = Server::start_with_defaults(place.path());
    assert!(
        server
            .heard()
            .contains("ready: serving ./stonecast-data at shm:./stonecast-data/socket"),
        "{}",
        server.heard()
    );
    let here = |arguments: &[&str]| {
        let mut command = command();
        command.args(arguments).current_dir(place.path());
        run(command, b"")
    };
    assert_eq!(here(&["put", "a", "b"]).text(), "");
    assert_eq!(here(&["get", "a"]).text(), "b");
    server.stop();
    here(&["get", "a"]).refusal(4);
}

#[test]
fn every_command_explains_itself() {
    for command in COMMANDS {
        let help = stonecast(command.iter().chain(&["--help"]));
        let text = help.text();
        assert!(text.contains("Usage: stonecast"), "{text}");
        assert!(text.contains("Example:") || command.is_empty(), "{text}");
    }
}

#[test]
fn wrong_usage_is_status_2_with_the_right_usage() {
    let about_verbs = match cfg!(feature = "verbs") {
        true => "key file",
        false => "cargo build --release --features verbs",
    };
    for (arguments, part) in [
        (&[][..], "Usage: stonecast"),
        (&["frobnicate"], "unrecognized subcommand 'frobnicate'"),
        (&["get"], "<KEY>"),
        (&["get", "a", "--loud"], "unexpected argument '--loud'"),
        (
            &["serve", "--durability", "maybe"],
            "[possible values: power, process]",
        ),
        (
            &["serve", "--capacity", "much"],
            "a size is a number of bytes",
        ),
        (&["get", "a", "--connect", "verbs:host:1"], about_verbs),
        (
            &["put", "a", "b", "--if-absent", "--if-version", "1"],
            "cannot be used with",
        ),
        (&["import", "--in-flight", "0"], "0 is not in 1..=256"),
        (
            &["bench", "ycsb", "--workload", "z"],
            "[possible values: a, b, c, update-only]",
        ),
        (
            &["get", "a", "--config", "/no/such/file"],
            "cannot read the configuration file /no/such/file",
        ),
    ] {
        let output = stonecast(arguments);
        assert_eq!(output.code, Some(2), "{arguments:?}: {}", output.stderr);
        assert!(
            output.stderr.contains(part) && output.stdout.is_empty(),
            "{arguments:?}: {}",
            output.stderr
        );
    }
}

#[test]
fn values_are_read_as_stored_and_absent_keys_are_status_3() {
    let place = Place::in_volatile_memory();
    let server = server(&place);
    let binary: Vec<u8> = (0..=255).collect();
    server.client_with_input(&["put", "binary"], &binary).text();
    assert_eq!(server.client(&["get", "binary"]).stdout, binary);
    server
        .client_with_input(&["put", "dash", "-"], b"from stdin\n")
        .text();
    assert_eq!(server.client(&["get", "dash"]).text(), "from stdin\n");
    server.client(&["put", "empty", ""]).text();
    assert_eq!(server.client(&["get", "empty"]).text(), "");
    assert!(
        server
            .client(&["get", "nothing"])
            .refusal(3)
            .contains("key \"nothing\" is absent")
    );
    assert!(
        server
            .client(&["delete", "nothing"])
            .refusal(3)
            .contains("key \"nothing\" is absent")
    );
    server.client(&["delete", "binary"]).text();
    server.client(&["get", "binary"]).refusal(3);
}

#[test]
fn json_carries_versions_and_conditions_use_them() {
    let place = Place::in_volatile_memory();
    let server = server(&place);
    let first = server
        .client(&["put", "k", "one", "--json", "--if-absent"])
        .json();
    let version = first["version"].as_u64().expect("a version");
    assert_eq!(first["key"], "k");
    let present = format!("is at version {version}");
    assert!(
        server
            .client(&["put", "k", "two", "--if-absent"])
            .refusal(6)
            .contains(&present)
    );
    let got = server.client(&["get", "k", "--json"]).json();
    assert_eq!(
        (&got["key"], &got["value"], &got["version"]),
        (&"k".into(), &"one".into(), &version.into())
    );
    server
        .client(&["put", "k", "two", "--if-version", &version.to_string()])
        .text();
    server
        .client(&["put", "k", "three", "--if-version", &version.to_string()])
        .refusal(6);
    assert!(
        server
            .client(&["put", "other", "x", "--if-version", "1"])
            .refusal(6)
            .contains("is absent")
    );
    assert_eq!(server.client(&["get", "k"]).text(), "two");
    server.client_with_input(&["put", "raw"], b"\xff").text();
    assert_eq!(
        server.client(&["get", "raw", "--json"]).json()["value"]["base64"],
        "/w=="
    );
    assert_eq!(
        server.client(&["delete", "raw", "--json"]).json()["key"],
        "raw"
    );
}

#[test]
fn keys_and_values_have_limits_that_the_refusal_names() {
    let place = Place::in_volatile_memory();
    let server = server(&place);
    let key = "k".repeat(1024);
    for size in [1 << 20, 16 << 20] {
        let value = vec![b'v'; size];
        server.client_with_input(&["put", &key], &value).text();
        assert!(server.client(&["get", &key]).stdout == value);
    }
    for (key, size) in [("", "0 bytes"), (&*"k".repeat(1025), "1025 bytes")] {
        for arguments in [&["put", key, "v"][..], &["get", key], &["delete", key]] {
            let message = server.client(arguments).refusal(1).to_owned();
            assert!(
                message.contains(size) && message.contains("1 to 1024 bytes"),
                "{message}"
            );
        }
    }
    let message = server
        .client_with_input(&["put", "k"], &vec![0; (16 << 20) + 1])
        .refusal(1)
        .to_owned();
    assert!(message.contains("16777216 bytes"), "{message}");
    server.client(&["get", "k"]).refusal(3);
}

#[test]
fn settings_come_from_flag_then_environment_then_file() {
    let place = Place::in_volatile_memory();
    let server = server(&place);
    server.client(&["put", "k", "v"]).text();
    let file = place.path().join("stonecast.toml");
    let ask = |configured: &str, variable: Option<&str>, flag: Option<&str>| {
        fs::write(&file, configured).expect("room for a line");
        let mut command = command();
        command.args(["get", "k", "--config"]).arg(&file);
        command.envs(variable.map(|value| ("STONECAST_CONNECT", value)));
        command.args(flag.map(|value| format!("--connect={value}")));
        run(command, b"")
    };
    let (good, bad) = (server.address(), "shm:/no/such/socket");
    let (good_line, bad_line) = (
        format!("connect = '{good}'\n"),
        format!("connect = '{bad}'\n"),
    );
    ask(&good_line, None, None).text();
    ask(&bad_line, None, None).refusal(4);
    ask(&bad_line, Some(&good), None).text();
    ask(&good_line, Some(bad), None).refusal(4);
    ask(&bad_line, Some(bad), Some(&good)).text();
    ask(&good_line, Some(&good), Some(bad)).refusal(4);
    ask(
        &format!("data = '{}'\n", place.pool().display()),
        None,
        None,
    )
    .text();
    let message = ask("connect = 'shm:/x'\n\nconect = 'shm:/y'\n", None, None)
        .refusal(2)
        .to_owned();
    for part in [
        "stonecast.toml",
        "line 3",
        "unknown key `conect`; did you mean `connect`?",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn without_a_server_the_refusal_names_the_address_and_the_command_to_start() {
    let place = Place::in_volatile_memory();
    let address = format!("shm:{}/socket", place.path().display());
    for arguments in [
        &["get", "k"][..],
        &["put", "k", "v"],
        &["ls"],
        &["import"],
        &["export"],
        &["stat"],
    ] {
        let output = stonecast(arguments.iter().chain(&["--connect", &address]));
        let message = output.refusal(4);
        assert_eq!(message.matches("cannot connect").count(), 1, "{message}");
        assert!(
            message.contains(&*place.path().to_string_lossy())
                && message.contains("stonecast serve"),
            "{message}"
        );
    }
}

#[test]
fn stat_tells_the_content_and_the_work_of_the_server() {
    let place = Place::in_volatile_memory();
    let mut server = server(&place);
    server.client(&["put", "a", "1"]).text();
    server.client(&["put", "b", "2"]).text();
    server.client(&["delete", "a"]).text();
    let stat = server.client(&["stat", "--json"]).json();
    for (name, value) in [
        ("keys", 1),
        ("puts", 2),
        ("deletes", 1),
        ("clients", 1),
        ("opening", 1),
    ] {
        assert_eq!(stat[name], value, "{name} of {stat}");
    }
    assert_eq!(
        (&stat["durability"], &stat["process"]),
        (&"process".into(), &server.process().into())
    );
    assert!(
        server
            .client(&["stat"])
            .text()
            .lines()
            .any(|line| line.starts_with("keys") && line.ends_with(" 1"))
    );
    server.stop();
    let inspected = stonecast([
        "inspect".as_ref(),
        "--json".as_ref(),
        place.pool().as_os_str(),
    ])
    .json();
    assert_eq!(
        (&inspected["keys"], &inspected["durability"]),
        (&1.into(), &"process".into()),
        "{inspected}"
    );
}

#[test]
fn sigterm_and_sigint_end_a_server_in_good_order() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = Place::in_volatile_memory();
        let mut server = server(&place);
        server.client(&["put", "k", "v"]).text();
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0), "{}", server.heard());
        assert!(!server.socket().exists(), "the socket goes with the server");
        let ready = place.path().join("ready");
        let again = Server::start(&place.pool(), ["--ready-file".as_ref(), ready.as_os_str()]);
        assert_eq!(
            fs::read_to_string(&ready).expect("written when ready"),
            format!("{}\n", again.process())
        );
        assert_eq!(again.client(&["get", "k"]).text(), "v");
    }
}
