//! A pool whose operator gives it a larger capacity between two servers.

use crate::support::{Place, Server, stonecast};

const OPTIONS: [&str; 4] = ["--durability", "process", "--capacity", "16MiB"];

fn grow(place: &Place, capacity: &str) -> crate::support::Output {
    let pool = place.pool();
    let pool = pool.to_str().expect("a name in UTF-8");
    stonecast(["grow", pool, "--capacity", capacity, "--json"])
}

/// Lines for `import`: `count` keys with values of 400 kB.
fn entries(count: u32) -> String {
    let value = "x".repeat(400_000);
    let line = |n| format!("{{\"key\":\"key-{n}\",\"value\":\"{value} {n}\"}}\n");
    (0..count).map(line).collect()
}

#[test]
fn a_full_pool_grows_when_its_server_has_ended_and_takes_more() {
    let place = Place::in_volatile_memory();
    let mut server = Server::start(&place.pool(), OPTIONS);
    let many = entries(100);
    let full = server.client_with_input(&["import"], many.as_bytes());
    assert!(
        full.code != Some(0) && full.stderr.contains("full"),
        "{}",
        full.stderr
    );
    let busy = grow(&place, "64MiB");
    busy.json_failure(1, "failed");
    assert!(
        busy.stderr.contains("in use by another process")
            && busy.stderr.contains("stop that server"),
        "{}",
        busy.stderr
    );
    server.stop();

    let report = grow(&place, "64MiB").json();
    let expected = serde_json::json!({"from": 16 << 20, "to": 64 << 20, "segments": 128});
    assert_eq!(report, expected);
    let pool = place.pool();
    let pool = pool.to_str().expect("a name in UTF-8");
    assert_eq!(stonecast(["verify", pool]).code, Some(0));
    let again = stonecast(["grow", pool, "--capacity", "64MiB"]);
    assert!(
        again.code == Some(0) && again.stderr.contains("has 64 MiB already"),
        "{}",
        again.stderr
    );
    let refused = Server::refused(&place.pool(), OPTIONS);
    assert!(refused.contains("stonecast grow"), "{refused}");

    let mut server = Server::start(&place.pool(), ["--capacity", "64MiB"]);
    assert_eq!(
        server.client_with_input(&["import"], many.as_bytes()).code,
        Some(0)
    );
    assert_eq!(server.client(&["ls"]).text().lines().count(), 100);
    server.kill();
    let killed = grow(&place, "128MiB");
    killed.json_failure(1, "failed");
    assert!(
        killed.stderr.contains("was not closed"),
        "{}",
        killed.stderr
    );
}

#[test]
fn a_pool_neither_shrinks_nor_gets_a_part_of_a_segment() {
    let place = Place::in_volatile_memory();
    Server::start(&place.pool(), OPTIONS).stop();
    for (capacity, words) in [
        ("8MiB", "no pool shrinks"),
        ("17000001", "a multiple of 524288"),
    ] {
        let refused = grow(&place, capacity);
        refused.json_failure(1, "failed");
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
}
