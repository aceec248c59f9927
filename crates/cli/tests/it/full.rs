//! Pools without room and media without room: writes are refused, everything else continues, nothing acknowledged is
//! lost.

use std::fs;
use std::path::Path;

use crate::support::{Mount, Place, Reply, RespClient, Server, generated_packages, not_run};

#[test]
fn a_full_pool_answers_no_space_and_still_serves_reads_and_deletes() {
    let place = Place::in_volatile_memory();
    fill_and_restart(
        Medium::FullPool,
        &place.pool(),
        &[
            "--durability",
            "process",
            "--capacity",
            "8MiB",
            "--segment-size",
            "1MiB",
        ],
    );
}

/// Needs the allocation of a segment before any write to the segment: without the allocation, the server dies of
/// SIGBUS.
#[test]
fn a_full_volatile_medium_is_no_space_and_no_crash() {
    match Mount::volatile(12 << 20) {
        Ok(mount) => fill_and_restart(
            Medium::FullMedium,
            &mount.path().join("pool"),
            &[
                "--durability",
                "process",
                "--capacity",
                "64MiB",
                "--segment-size",
                "1MiB",
            ],
        ),
        Err(reason) => not_run("full volatile medium", &reason),
    }
}

/// Needs the allocation of a segment before any write to the segment: without the allocation, the server dies of
/// SIGBUS.
#[test]
fn a_full_disk_is_no_space_and_no_crash() {
    match Mount::disk(24 << 20) {
        Ok(mount) => fill_and_restart(
            Medium::FullMedium,
            &mount.path().join("pool"),
            &[
                "--durability",
                "power",
                "--capacity",
                "64MiB",
                "--segment-size",
                "1MiB",
            ],
        ),
        Err(reason) => not_run("full disk", &reason),
    }
}

/// Another program may fill the disk while the server runs.
#[test]
fn a_disk_that_another_program_fills_is_no_space_until_there_is_room_again() {
    let mount = match Mount::disk(48 << 20) {
        Ok(mount) => mount,
        Err(reason) => return not_run("disk filled by another program", &reason),
    };
    let pool = mount.path().join("pool");
    let options = ["--capacity", "64MiB", "--segment-size", "1MiB"];
    let mut server = Server::start(&pool, options);
    server.client(&["put", "before", "v"]).text();
    let ballast = mount.path().join("ballast");
    // The copy ends with an error when the disk is full, as intended.
    let _ = std::io::copy(
        &mut std::io::repeat(1),
        &mut fs::File::create(&ballast).expect("a file"),
    );
    let input = lines(15_000);
    let message = server
        .client_with_input(&["import"], input.as_bytes())
        .refusal(1)
        .to_owned();
    assert!(message.contains("no space"), "{message}");
    assert_eq!(server.client(&["get", "before"]).text(), "v");
    fs::remove_file(&ballast).expect("the ballast goes");
    server.client(&["put", "after", "v"]).text();
    server.kill();
    let server = Server::start(&pool, options);
    for key in ["before", "after"] {
        assert_eq!(server.client(&["get", key]).text(), "v");
    }
}

/// Needs `store_checkpoint` of a server that closes: a full file system has no room for a checkpoint.
#[test]
fn a_server_on_a_file_system_without_a_byte_left_ends_in_good_order_and_says_why_the_next_one_scans()
 {
    for (name, mount) in [
        ("full volatile medium at the end", Mount::volatile(12 << 20)),
        ("full disk at the end", Mount::disk(24 << 20)),
    ] {
        let mount = match mount {
            Ok(mount) => mount,
            Err(reason) => {
                not_run(name, &reason);
                continue;
            }
        };
        let pool = mount.path().join("pool");
        let options = [
            "--durability",
            "process",
            "--capacity",
            "64MiB",
            "--segment-size",
            "1MiB",
        ];
        let mut server = Server::start(&pool, options);
        let input = lines(5_000);
        server
            .client_with_input(&["import"], first_lines(&input, 1000).as_bytes())
            .text();
        for round in 0..2 {
            let ballast = mount.path().join(format!("ballast-{round}"));
            for size in [1 << 16, 1] {
                let mut file = fs::File::options()
                    .create(true)
                    .append(true)
                    .open(&ballast)
                    .expect("a file");
                // The copy ends with an error when the medium is full, as intended.
                while std::io::Write::write_all(&mut file, &vec![1; size]).is_ok() {}
            }
            let stored = server.client(&["export"]).text().to_owned();
            server.stop();
            server = Server::start(&pool, options);
            assert!(
                server.heard().contains("closed without a checkpoint"),
                "{name}: {}",
                server.heard()
            );
            assert_eq!(server.client(&["export"]).text(), stored);
            // A key can also be deleted on the full medium.
            let first = key_of(&stored, round);
            server.client(&["delete", &first]).text();
        }
        server.stop();
    }
}

/// Needs `make_room_for_deletes`, and *busy* for a put that finds all segments dead.
#[test]
fn redis_clients_of_a_full_pool_delete_flush_and_set_again_at_once() {
    let place = Place::in_volatile_memory();
    for (capacity, segment_size, size) in [("16MiB", "256KiB", 10_000), ("64MiB", "4MiB", 400_000)]
    {
        let pool = place.path().join(capacity);
        let mut server = Server::start(
            &pool,
            [
                "--durability",
                "process",
                "--capacity",
                capacity,
                "--segment-size",
                segment_size,
                "--resp",
                "127.0.0.1:0",
            ],
        );
        let address = resp_address(&mut server);
        let mut client = RespClient::connect(address);
        let value = "v".repeat(size);
        for round in 0..3 {
            let mut count = 0;
            while client.call(&format!("SET key-{count} {value}")) == Reply::Line("+OK".into()) {
                count += 1;
            }
            let Reply::Line(refused) = client.call(&format!("SET more {value}")) else {
                panic!("a line")
            };
            assert!(
                refused.starts_with("-OOM no space: the pool is full, with "),
                "{refused}"
            );
            for n in 0..40.min(count / 2) {
                let deleted = client.call(&format!("DEL key-{n}"));
                assert_eq!(
                    deleted,
                    Reply::Line(":1".into()),
                    "round {round}, {n} of {count}"
                );
            }
            assert_eq!(client.call("FLUSHALL"), Reply::Line("+OK".into()));
            let first = client.call(&format!("SET key-0 {value}"));
            assert_eq!(first, Reply::Line("+OK".into()), "round {round}");
        }
        server.stop();
    }
}

fn resp_address(server: &mut Server) -> std::net::SocketAddr {
    let heard = server.heard().to_owned();
    let (_, rest) = heard
        .split_once("redis://")
        .expect("it says where it listens");
    rest[..rest.find([',', '\n']).unwrap_or(rest.len())]
        .parse()
        .expect("an address")
}

/// The medium or pool that is full.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Medium {
    FullPool,
    FullMedium,
}

impl Medium {
    /// The message to clients.
    fn words(self) -> &'static str {
        match self {
            Self::FullPool => "no space: the pool is full",
            Self::FullMedium => "no space left on the file system",
        }
    }
}

fn fill_and_restart(medium: Medium, pool: &Path, options: &[&str]) {
    let mut server = Server::start(pool, options);
    let input = lines(15_000);
    assert!(
        input.len() > 64 << 20,
        "more than any of these pools takes: {}",
        input.len()
    );
    let message = server
        .client_with_input(&["import"], input.as_bytes())
        .refusal(1)
        .to_owned();
    assert!(
        message.contains("line ") && message.contains(medium.words()),
        "{message}"
    );
    let stored: usize = word_before(&message, " entries of the file are stored")
        .parse()
        .expect("a number");
    let refused: usize = word_before(&message, &format!(": {}", medium.words()))
        .parse()
        .expect("a number");
    assert!(stored > 1000, "{message}");

    // The full server is alive, and refuses each write that needs room, with the reason.
    let large = vec![b'x'; 100_000];
    for _ in 0..3 {
        let refused = server
            .client_with_input(&["put", "large"], &large)
            .refusal(1)
            .to_owned();
        assert!(refused.contains(medium.words()), "{refused}");
    }
    // Needs `note_trouble`, with at most one report a minute.
    let log = format!(
        "writes are refused: no space left on {} for ",
        pool.join("log").display()
    );
    let times = if medium == Medium::FullMedium { 1 } else { 0 };
    assert_eq!(
        server.heard().matches(&log).count(),
        times,
        "{}",
        server.heard()
    );
    assert_eq!(
        server.heard().matches("refused").count(),
        times,
        "{}",
        server.heard()
    );
    let exported = server.client(&["export"]).text().to_owned();
    let whole = first_lines(&input, refused - 1);
    assert!(
        exported.starts_with(whole),
        "everything before the line that found no room is there"
    );
    assert_eq!(
        exported.lines().count(),
        stored,
        "what was acknowledged is there, and nothing else"
    );
    let mut in_flight = input[whole.len()..].lines().take(64);
    let others = exported[whole.len()..].lines();
    others.for_each(|line| {
        assert!(
            in_flight.any(|sent| sent == line),
            "a line that was in flight, in its order: {line}"
        )
    });
    let (first, last) = (key_of(&input, 0), key_of(&input, refused - 2));
    server.client(&["get", &last]).text();
    let mut rest = exported.as_str();
    if medium == Medium::FullPool {
        // Deletes have room of their own. A full medium cannot promise that room.
        server.client(&["delete", &first]).text();
        server.client(&["get", &first]).refusal(3);
        rest = exported.split_once('\n').expect("more than one line").1;
    }

    // The same holds after a kill, and once more after an end in order.
    for kill in [true, false] {
        if kill {
            server.kill()
        } else {
            server.stop()
        }
        server = Server::start(pool, options);
        assert_eq!(server.client(&["export"]).text(), rest);
    }
    let refused = server
        .client_with_input(&["import"], input.as_bytes())
        .refusal(1)
        .to_owned();
    assert!(refused.contains(medium.words()), "{refused}");
    server.client(&["get", &last]).text();
    if medium == Medium::FullPool {
        server.client(&["delete", &last]).text();
    }
    server.stop();
}

fn lines(count: usize) -> String {
    generated_packages(count)
        .into_iter()
        .map(|(_, line)| line)
        .collect()
}

fn first_lines(input: &str, count: usize) -> &str {
    let end = input
        .match_indices('\n')
        .nth(count - 1)
        .expect("there are as many lines")
        .0;
    &input[..=end]
}

fn key_of(input: &str, line: usize) -> String {
    let entry: serde_json::Value =
        serde_json::from_str(input.lines().nth(line).expect("a line")).expect("JSON");
    entry["key"].as_str().expect("keys are text").to_owned()
}

fn word_before<'a>(message: &'a str, what: &str) -> &'a str {
    message
        .split(what)
        .next()
        .and_then(|before| before.rsplit(' ').next())
        .expect("the message names a number")
}
