//! Settings: every source accepts the same values, and meaningless settings are refused.

use std::fs;

use crate::support::{Output, Place, Server, command, run, stonecast};

/// Runs `serve`, which must refuse with status 2 whether the setting comes from the flag, the environment or the file.
fn refused(place: &Place, key: &str, value: &str) -> [Output; 3] {
    let serve = || {
        let mut serve = command();
        serve.arg("serve").arg("--data").arg(place.pool());
        serve
    };
    let mut flag = serve();
    flag.arg(format!("--{key}={value}"));
    let mut environment = serve();
    let variable = key.to_uppercase().replace('-', "_");
    environment.env(format!("STONECAST_{variable}"), value);
    let mut file = serve();
    let path = place.path().join("stonecast.toml");
    fs::write(&path, format!("{key} = '{value}'\n")).expect("room for a line");
    file.arg("--config").arg(path);
    [flag, environment, file].map(|command| run(command, b""))
}

#[test]
fn flag_environment_and_file_refuse_the_same_values() {
    let place = Place::in_volatile_memory();
    for (key, value, part) in [
        ("request-timeout", "0s", "a time must be longer than 0"),
        (
            "request-timeout",
            "30",
            "a time is a number with ms, s, min or h",
        ),
        (
            "resp",
            "example.org:1",
            "localhost is the only name allowed",
        ),
        ("tls-key", "/k", "has no meaning without --resp or --admin"),
        (
            "connections",
            "7",
            "has no meaning without --resp or --admin",
        ),
        ("capacity", "much", "a size is a number of bytes"),
        ("durability", "maybe", "power, process"),
    ] {
        for output in refused(&place, key, value) {
            assert!(output.refusal(2).contains(part), "{key}: {}", output.stderr);
        }
    }
    assert!(!place.pool().exists(), "nothing is created");
}

#[test]
fn a_number_in_the_file_equals_the_typed_one_and_an_unknown_key_gets_a_guess() {
    let place = Place::in_volatile_memory();
    let path = place.path().join("stonecast.toml");
    for (text, part) in [
        (
            "request-timeout = 30\n",
            "line 1: `request-timeout`: invalid value '30'",
        ),
        (
            "\ndurabilty = 'power'\n",
            "line 2: unknown key `durabilty`; did you mean `durability`?",
        ),
    ] {
        fs::write(&path, text).expect("room for a line");
        let output = stonecast([
            "get".as_ref(),
            "k".as_ref(),
            "--config".as_ref(),
            path.as_os_str(),
        ]);
        assert!(output.refusal(2).contains(part), "{}", output.stderr);
    }
}

#[test]
fn localhost_is_an_address_and_one_listener_needs_no_list() {
    let place = Place::in_volatile_memory();
    let socket = place.path().join("elsewhere");
    let path = place.path().join("stonecast.toml");
    let text = format!(
        "listen = 'shm:{}'\ndurability = 'process'\ncapacity = '64MiB'\nadmin = 'localhost:0'\n",
        socket.display()
    );
    fs::write(&path, text).expect("room for a file");
    let mut serve = command();
    serve.arg("serve").arg("--data").arg(place.pool());
    serve.arg("--config").arg(&path);
    let mut server = Server::of(serve, &place.pool());
    assert!(
        server.heard().contains("http://127.0.0.1:"),
        "{}",
        server.heard()
    );
    let client = |arguments: &[&str]| {
        let mut command = command();
        command.args(arguments);
        command
    };
    let mut put = client(&["put", "k", "v", "--config"]);
    put.arg(&path);
    run(put, b"").text();
    let mut get = client(&["get", "k"]);
    get.env("STONECAST_LISTEN", format!("shm:{}", socket.display()));
    assert_eq!(run(get, b"").text(), "v");
}

#[test]
fn clients_find_the_server_by_its_folder_and_a_typed_folder_beats_the_environment() {
    let place = Place::in_volatile_memory();
    let mut server = Server::start(
        &place.pool(),
        ["--durability", "process", "--capacity", "64MiB"],
    );
    server.client(&["put", "k", "v"]).text();
    let mut get = command();
    get.args(["get", "k", "--data"]).arg(place.pool());
    get.env("STONECAST_CONNECT", "shm:/no/such/socket");
    assert_eq!(run(get, b"").text(), "v");
    server.stop();
    for arguments in [["verify"], ["inspect"]] {
        let mut command = command();
        command.args(arguments).env("STONECAST_DATA", place.pool());
        let output = run(command, b"");
        assert_eq!(output.code, Some(0), "{}", output.stderr);
    }
    let mut here = command();
    here.arg("verify").current_dir(place.path());
    assert!(run(here, b"").refusal(1).contains("./stonecast-data"));
}

/// Needs the difference between settings that are typed and settings in the environment, which is for all commands.
#[test]
fn flags_of_rdma_are_wrong_usage_for_shared_memory() {
    let place = Place::in_volatile_memory();
    let pool = place.pool();
    let pool = pool.to_str().expect("a name in UTF-8");
    for (command, key_file) in [
        (&["serve", "--data", pool][..], "--keys"),
        (&["get", "k", "--data", pool], "--keys"),
        (&["bench", "ycsb", "--ops", "1"], "--key-file"),
    ] {
        for (flag, value) in [
            (key_file, "/k"),
            ("--rdma-device", "rxe0"),
            ("--gid-index", "3"),
        ] {
            let refused = stonecast(command.iter().copied().chain([flag, value]));
            let words = format!("{flag} is for servers at verbs:HOST:PORT");
            assert!(refused.refusal(2).contains(&words), "{}", refused.stderr);
        }
    }
    assert!(!place.pool().exists(), "nothing is created");
    let mut get = command();
    get.args(["get", "k", "--data", pool]);
    get.env("STONECAST_KEYS", "/k");
    assert!(run(get, b"").refusal(4).contains("stonecast serve"));
}

#[test]
fn no_period_is_zero() {
    let output = stonecast(["stat", "--watch", "--every", "0s"]);
    assert!(output.refusal(2).contains("a time must be longer than 0"));
}

#[test]
fn an_export_to_a_link_writes_the_file_behind_it() {
    let place = Place::in_volatile_memory();
    let server = Server::start(
        &place.pool(),
        ["--durability", "process", "--capacity", "64MiB"],
    );
    server.client(&["put", "k", "v"]).text();
    let folder = place.path().join("behind");
    fs::create_dir(&folder).expect("a folder");
    let (file, link) = (folder.join("file"), place.path().join("link"));
    fs::write(&file, "old").expect("room");
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    server
        .client(&["export", link.to_str().expect("UTF-8")])
        .text();
    assert!(
        fs::symlink_metadata(&link)
            .expect("it is there")
            .is_symlink()
    );
    assert_eq!(
        fs::read_to_string(&file).expect("it is there"),
        "{\"key\":\"k\",\"value\":\"v\"}\n"
    );
    fs::remove_file(&file).expect("it is there");
    let dangling = server.client(&["export", link.to_str().expect("UTF-8")]);
    assert!(dangling.refusal(1).contains("cannot write"));
}
