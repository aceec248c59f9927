//! `serve --resp` and `--admin`: the gateway beside a real server.

mod kill;
mod proxy;

use std::net::SocketAddr;
use std::thread;

use rustix::process::Signal;

use crate::support::{Place, Reply, RespClient, Server, command, http_get, run};

/// Flags for both ports, each on any free port.
const BOTH: [&str; 4] = ["--resp", "127.0.0.1:0", "--admin", "127.0.0.1:0"];

/// The server's address for `scheme`, as printed by the server.
pub fn address(server: &mut Server, scheme: &str) -> SocketAddr {
    let heard = server.heard();
    let start = heard
        .find(scheme)
        .unwrap_or_else(|| panic!("{scheme} in {heard}"))
        + scheme.len();
    let rest = &heard[start..];
    rest[..rest.find([',', '\n']).unwrap_or(rest.len())]
        .parse()
        .expect("an address")
}

#[test]
fn redis_clients_and_one_sided_clients_see_the_same_keys() {
    let place = Place::in_volatile_memory();
    let mut server = Server::start(
        &place.pool(),
        BOTH.into_iter().chain(["--durability", "process"]),
    );
    let mut client = RespClient::connect(address(&mut server, "redis://"));
    assert!(client.call("SET greeting hello").is_ok());
    assert_eq!(server.client(&["get", "greeting"]).text(), "hello");
    server.client(&["put", "answer", "42"]).text();
    assert_eq!(client.call("GET answer"), Reply::bulk("42"));
    assert_eq!(client.call("INCR answer"), Reply::Line(":43".to_owned()));
    let admin = address(&mut server, "http://");
    assert_eq!(http_get(admin, "/healthz"), (200, "alive\n".to_owned()));
    assert_eq!(http_get(admin, "/readyz"), (200, "ready\n".to_owned()));
    server.stop();
}

#[test]
fn metrics_and_health_need_no_port_for_redis_clients() {
    let place = Place::in_volatile_memory();
    let mut server = Server::start(
        &place.pool(),
        ["--admin", "127.0.0.1:0", "--durability", "process"],
    );
    server.client(&["put", "a", "b"]).text();
    let admin = address(&mut server, "http://");
    assert_eq!(http_get(admin, "/readyz").0, 200);
    assert!(
        http_get(admin, "/metrics")
            .1
            .contains("stonecast_store_keys 1\n")
    );
    assert!(!server.heard().contains("redis://"));
    server.stop();
}

/// Needs the gateway to be asked to end before the store stops serving the gateway: otherwise its commands would wait
/// forever.
#[test]
fn after_sigterm_every_acknowledged_write_is_present_and_everything_ends() {
    let place = Place::on_disk();
    let mut server = Server::start(&place.pool(), BOTH);
    let resp = address(&mut server, "redis://");
    let loaders: Vec<_> = (0..4)
        .map(|loader| {
            thread::spawn(move || {
                let mut client = RespClient::connect(resp);
                let mut acknowledged = 0;
                loop {
                    let batch: Vec<Vec<String>> = (acknowledged..acknowledged + 16)
                        .map(|number| {
                            vec![
                                "SET".to_owned(),
                                format!("{loader}:{number}"),
                                number.to_string(),
                            ]
                        })
                        .collect();
                    if !client.send(&batch) {
                        return acknowledged;
                    }
                    for _ in &batch {
                        match client.reply() {
                            Some(reply) => assert!(reply.is_ok(), "{reply:?}"),
                            None => return acknowledged,
                        }
                        acknowledged += 1;
                    }
                }
            })
        })
        .collect();
    let mut observer = RespClient::connect(resp);
    while observer.call("EXISTS 0:200 1:200 2:200 3:200") != Reply::Line(":4".to_owned()) {}
    server.signal(Signal::TERM);
    let counts: Vec<u64> = loaders
        .into_iter()
        .map(|loader| loader.join().expect("no reply was wrong"))
        .collect();
    assert_eq!(server.wait().code(), Some(0), "{}", server.heard());
    let mut server = Server::start(&place.pool(), BOTH);
    assert!(
        server.heard().contains("and a checkpoint"),
        "the end was in order: {}",
        server.heard()
    );
    let mut client = RespClient::connect(address(&mut server, "redis://"));
    for (loader, count) in counts.into_iter().enumerate() {
        assert!(count >= 200);
        for number in 0..count {
            assert_eq!(
                client.call(&format!("GET {loader}:{number}")),
                Reply::bulk(number.to_string()),
                "{loader}:{number}"
            );
        }
    }
    server.stop();
}

#[test]
fn stat_shows_both_paths_and_repeats_with_watch_what_has_happened_since() {
    let place = Place::in_volatile_memory();
    let mut server = Server::start(
        &place.pool(),
        BOTH.into_iter().chain(["--durability", "process"]),
    );
    let (resp, admin) = (
        address(&mut server, "redis://"),
        address(&mut server, "http://").to_string(),
    );
    let mut client = RespClient::connect(resp);
    assert!(client.call("SET a 12345").is_ok());
    assert_eq!(client.call("GET a"), Reply::bulk("12345"));
    server.client(&["put", "b", "1"]).text();
    server.client(&["get", "b"]).text();
    server.client(&["get", "b"]).text();
    // The gateway reports to the server at intervals.
    let stat = loop {
        let stat = server.client(&["stat", "--json", "--admin", &admin]).json();
        if stat["gateway"]["reads"] == 1 {
            break stat;
        }
    };
    assert_eq!(
        (&stat["one_sided"]["reads"], &stat["one_sided"]["puts"]),
        (&2.into(), &1.into())
    );
    assert_eq!(
        (&stat["gateway"]["puts"], &stat["gateway"]["written_bytes"]),
        (&1.into(), &64.into())
    );
    assert_eq!(stat["admin"]["commands"]["set"], 1);
    let text = server.client(&["stat", "--admin", &admin]);
    let row = |name: &str| {
        text.text()
            .lines()
            .find(|line| line.starts_with(name))
            .map(str::to_owned)
            .expect("the row")
    };
    assert_eq!(
        row("keys read").split_whitespace().collect::<Vec<_>>(),
        ["keys", "read", "2", "1"]
    );
    assert!(
        row("commands").contains("1 set") && row("connections").contains("1 of at most 10000"),
        "{}",
        text.text()
    );
    let mut watch = command();
    watch.args([
        "stat",
        "--watch",
        "--every",
        "50ms",
        "--json",
        "--connect",
        &server.address(),
    ]);
    let mut watch = watch
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let lines = std::io::BufRead::lines(std::io::BufReader::new(
        watch.stdout.take().expect("a pipe"),
    ));
    let mut stats = lines.map(|line| -> serde_json::Value {
        serde_json::from_str(&line.expect("a line")).expect("one object a line")
    });
    let first = stats.next().expect("a line");
    assert_eq!(
        (&first["keys"], &first["interval"]),
        (&2.into(), &serde_json::Value::Null)
    );
    assert!(client.call("SET a 6").is_ok());
    // Intervals do not overlap, so the put is in one of them.
    let mut puts = 0;
    while puts == 0 {
        let stat = stats.next().expect("a line");
        let interval = &stat["interval"];
        assert_eq!(stat["keys"], 2);
        assert!(interval["seconds"].as_f64() > Some(0.0), "{interval}");
        puts = interval["gateway"]["puts"].as_u64().expect("a number");
    }
    assert_eq!(puts, 1);
    rustix::process::kill_process(rustix::process::Pid::from_child(&watch), Signal::INT)
        .expect("it runs");
    // The command ends, because it was interrupted or has no reader.
    watch.wait().expect("a child can be waited for");
    server.stop();
}

#[test]
fn a_port_that_is_taken_or_unsafe_is_refused_with_a_reason() {
    let place = Place::in_volatile_memory();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = taken.local_addr().expect("an address").to_string();
    let said = Server::refused(&place.pool(), ["--durability", "process", "--resp", &taken]);
    assert!(
        said.contains(&format!("cannot listen at {taken}")),
        "{said}"
    );
    let mut open = command();
    open.args(["serve", "--resp", "0.0.0.0:0", "--data"])
        .arg(place.path().join("other"));
    assert!(
        run(open, b"")
            .refusal(2)
            .contains("can be reached from other machines")
    );
    assert!(
        !place.path().join("other").exists(),
        "nothing is created for a server that cannot start"
    );
}

#[test]
fn settings_come_from_the_environment_and_from_the_file_and_the_password_is_required() {
    let place = Place::in_volatile_memory();
    let password = place.path().join("password");
    std::fs::write(&password, "open sesame\n").expect("room for a file");
    std::fs::set_permissions(
        &password,
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .expect("it is ours");
    let file = place.path().join("stonecast.toml");
    let text = format!(
        "durability = 'process'\nresp = '127.0.0.1:0'\npassword-file = '{}'\n",
        password.display()
    );
    std::fs::write(&file, text).expect("room for a file");
    let mut serve = command();
    serve
        .arg("serve")
        .arg("--data")
        .arg(place.pool())
        .env("STONECAST_CONFIG", file)
        .env("STONECAST_CONNECTIONS", "1");
    let mut server = Server::of(serve, &place.pool());
    let resp = address(&mut server, "redis://");
    let mut client = RespClient::connect(resp);
    assert_eq!(
        client.call("GET a"),
        Reply::Line("-NOAUTH Authentication required.".to_owned())
    );
    let Reply::Line(refused) = client.call("AUTH open") else {
        panic!("a password is right or wrong")
    };
    assert!(refused.starts_with("-WRONGPASS"), "{refused}");
    assert_eq!(
        client.call("HELLO 2 AUTH default wrong"),
        Reply::Line(refused)
    );
    assert!(client.send(&[vec!["AUTH", "open sesame"]]));
    assert!(client.reply().expect("a reply").is_ok());
    assert_eq!(client.call("GET a"), Reply::Bulk(None));
    // A new connection has a place of its own until the password arrives.
    let mut second = RespClient::connect(resp);
    assert!(second.send(&[vec!["AUTH", "open sesame"]]));
    assert!(second.reply().expect("a reply").is_ok());
    assert_eq!(
        second.reply(),
        Some(Reply::Line("-ERR max number of clients reached".to_owned()))
    );
    server.stop();
}
