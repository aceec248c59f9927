//! Backups of a server beside writers, the end of that server, and a restore into a new pool.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use stonecast::Batch;

use crate::support::{Place, Server, command, stonecast};

const OPTIONS: [&str; 4] = ["--durability", "process", "--capacity", "64MiB"];
const COUNTERS: u64 = 20;

fn text(path: &Path) -> &str {
    path.to_str().expect("a name in UTF-8")
}

/// Writes the same number under all counters, in a batch, again and again, with other keys that come and go. `sent`
/// and `done` are the numbers that were sent and acknowledged.
fn count(url: &str, ends: &AtomicBool, (sent, done): (&AtomicU64, &AtomicU64)) {
    let client = stonecast::blocking::connect(url).expect("the server accepts");
    while !ends.load(Ordering::SeqCst) {
        let number = sent.fetch_add(1, Ordering::SeqCst) + 1;
        let text = number.to_string();
        let mut batch = Batch::new();
        for n in 0..COUNTERS {
            batch.put(format!("counter-{n}").as_bytes(), text.as_bytes());
        }
        client.apply(&batch).expect("the server serves");
        let passing = format!("passing-{}", number % 50);
        match number % 3 {
            0 => drop(
                client
                    .delete(passing.as_bytes())
                    .expect("the server serves"),
            ),
            _ => drop(
                client
                    .put(passing.as_bytes(), text.as_bytes())
                    .expect("the server serves"),
            ),
        }
        done.store(number, Ordering::SeqCst);
    }
}

#[test]
fn backups_beside_writers_are_restored_after_the_server_was_killed() {
    let place = Place::in_volatile_memory();
    let mut server = Server::start(&place.pool(), OPTIONS);
    let lines: String = (0..3000)
        .map(|n| format!("{{\"key\":\"key-{n}\",\"value\":\"value {n}\"}}\n"))
        .collect();
    assert_eq!(
        server.client_with_input(&["import"], lines.as_bytes()).code,
        Some(0)
    );
    let files: Vec<PathBuf> = (0..3)
        .map(|n| place.path().join(format!("backup-{n}")))
        .collect();
    let url = server.address();
    let (ends, sent, done) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let mut bounds = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| count(&url, &ends, (&sent, &done)));
        while done.load(Ordering::SeqCst) < 10 {
            thread::yield_now();
        }
        for (n, file) in files.iter().enumerate() {
            let before = done.load(Ordering::SeqCst);
            let mut arguments = vec!["backup", text(file), "--json"];
            if let Some(base) = n.checked_sub(1) {
                arguments.extend(["--base", text(&files[base])]);
            }
            let report = server.client(&arguments).json();
            bounds.push((before, sent.load(Ordering::SeqCst)));
            let few = report["records"].as_u64() < Some(200);
            assert_eq!(
                few,
                n > 0,
                "an incremental backup has what changed: {report}"
            );
        }
        ends.store(true, Ordering::SeqCst);
    });
    server.kill();
    let mut numbers = BTreeSet::new();
    for n in 0..files.len() {
        let pool = place.path().join(format!("restored-{n}"));
        let restored = Server::start(&pool, OPTIONS);
        let mut arguments = vec!["restore", "--json"];
        arguments.extend(files[..=n].iter().map(|file| text(file)));
        let report = restored.client(&arguments).json();
        assert_eq!(
            restored.client(&["stat", "--json"]).json()["keys"],
            report["keys"]
        );
        let counter = |n: u64| {
            restored
                .client(&["get", &format!("counter-{n}")])
                .text()
                .to_owned()
        };
        let number = counter(0);
        assert!(
            (1..COUNTERS).all(|n| counter(n) == number),
            "a batch is there as a whole"
        );
        let number: u64 = number.parse().expect("a number");
        let (before, after) = bounds[n];
        assert!(
            (before..=after).contains(&number),
            "{before} <= {number} <= {after}"
        );
        assert_eq!(restored.client(&["get", "key-2999"]).text(), "value 2999");
        numbers.insert(number);
        let again = restored.client(&arguments);
        let again = again.json_failure(1, "failed");
        assert_eq!(
            again["keys"], report["keys"],
            "a restore needs an empty store"
        );
    }
    assert_eq!(
        numbers.len(),
        files.len(),
        "the backups are of different versions"
    );
}

#[test]
fn a_damaged_backup_restores_nothing_and_a_failed_one_leaves_no_file() {
    let place = Place::in_volatile_memory();
    let server = Server::start(&place.pool(), OPTIONS);
    assert_eq!(server.client(&["put", "a", "1"]).code, Some(0));
    let file = place.path().join("full");
    let said = server.client(&["backup", text(&file)]);
    assert_eq!(said.code, Some(0));
    assert!(stonecast(["restore", "--verify", text(&file)]).code == Some(0));
    let itself = server.client(&["backup", text(&file), "--base", text(&file)]);
    assert!(itself.refusal(2).contains("would replace its base"));
    let mut bytes = fs::read(&file).expect("it was written");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&file, &bytes).expect("it can be written");
    let failure = stonecast(["restore", "--verify", "--json", text(&file)]);
    let failure = failure.json_failure(5, "corrupt");
    let message = failure["message"].as_str().expect("a text");
    assert!(
        message.contains("full at offset") && message.contains("expected"),
        "{message}"
    );
    let other = Server::start(&place.path().join("other"), OPTIONS);
    other.client(&["restore", text(&file)]).refusal(5);
    assert_eq!(other.client(&["stat", "--json"]).json()["keys"], 0);
    let next = place.path().join("next");
    assert_eq!(other.client(&["backup", text(&file)]).code, Some(0));
    let message = server.client(&["backup", text(&next), "--base", text(&file)]);
    assert!(message.refusal(1).contains("the base is a backup of pool"));
    assert!(!next.exists(), "a backup appears when it is whole");
}

/// Needs the server's judgement: a client that leaves out what its own clock takes for expired loses keys.
#[test]
fn a_key_is_restored_up_to_its_moment_and_stays_absent_after_it() {
    let place = Place::in_volatile_memory();
    let server = Server::start(&place.pool(), OPTIONS);
    let begun = Instant::now();
    for (key, time) in [("goes", "1ms"), ("ends", "9s"), ("stays", "1h")] {
        assert_eq!(
            server.client(&["put", key, "1", "--expire", time]).code,
            Some(0)
        );
    }
    let file = place.path().join("backup");
    assert_eq!(server.client(&["backup", text(&file)]).code, Some(0));
    let restored = Server::start(&place.path().join("restored"), OPTIONS);
    let report = restored.client(&["restore", "--json", text(&file)]).json();
    let keys = restored.client(&["ls"]).text().to_owned();
    assert!(!keys.contains("goes") && keys.contains("stays"), "{keys}");
    if begun.elapsed() < Duration::from_secs(8) {
        assert!(keys.contains("ends"), "{keys}");
        assert_eq!(report["keys"].as_u64(), Some(2), "{report}");
    }
}

#[test]
fn a_server_whose_clients_publish_cannot_be_backed_up_and_says_how_it_could() {
    let place = Place::in_volatile_memory();
    let server = Server::start(
        &place.pool(),
        OPTIONS.into_iter().chain(["--clients", "publishing"]),
    );
    let file = place.path().join("full");
    let refused = server.client(&["backup", text(&file)]);
    assert!(
        refused.refusal(1).contains("--clients trusted"),
        "{}",
        refused.refusal(1)
    );
}

/// The niceness of each thread of a process.
fn niceness(process: u32) -> BTreeSet<i64> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("the process runs");
    let of_task = |task: PathBuf| {
        let stat = fs::read_to_string(task.join("stat")).expect("the thread runs");
        // The name of the program ends with the last bracket, and the niceness is the seventeenth word behind it.
        let (_, words) = stat.rsplit_once(") ").expect("a name in brackets");
        let niceness = words.split(' ').nth(16).expect("a niceness");
        niceness.parse().expect("a number")
    };
    let tasks = tasks.map(|task| task.expect("a thread").path());
    tasks.map(of_task).collect()
}

/// Needs the call that lowers the priority, before the session starts threads.
#[test]
fn a_backup_has_the_lowest_priority_unless_it_is_told_to_keep_its_own() {
    let place = Place::in_volatile_memory();
    let server = Server::start(&place.pool(), OPTIONS);
    // The backup is longer than a pipe and the memory of the command hold, so it stands still until somebody reads.
    let value = "v".repeat(100_000);
    for key in ["a", "b", "c", "d", "e", "f"] {
        assert_eq!(server.client(&["put", key, &value]).code, Some(0));
    }
    let own = niceness(std::process::id());
    for (more, expected) in [(None, BTreeSet::from([19])), (Some("--keep-priority"), own)] {
        let mut backup = command();
        backup.args(["backup", "-", "--connect", &server.address()]);
        let mut backup = backup.args(more).stdout(Stdio::piped()).spawn();
        let backup = backup.as_mut().expect("the binary starts");
        let mut pipe = backup.stdout.take().expect("a pipe");
        let mut first = [0];
        pipe.read_exact(&mut first).expect("the backup has begun");
        assert_eq!(niceness(backup.id()), expected, "{more:?}");
        std::io::copy(&mut pipe, &mut std::io::sink()).expect("the backup goes on");
        assert!(backup.wait().expect("a child").success());
    }
}
