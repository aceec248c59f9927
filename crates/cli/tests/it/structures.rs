//! Data structures by the commands: imported by one process, read by others, the back-end killed between.

use std::fs;
use std::path::Path;

use crate::gateway::address;
use crate::support::{
    Place, Server, command, debian_packages, generated_packages, http_get, stonecast,
};

/// The kinds of structures with keys.
const KINDS: [&str; 6] = [
    "b-tree",
    "hash-table",
    "mv-b-tree",
    "skip-list",
    "bst",
    "mv-bst",
];

fn text(path: &Path) -> &str {
    path.to_str().expect("a name in UTF-8")
}

/// A back-end of the pool `structures`, alone.
fn alone(data: &Path) -> Server {
    let mut serve = command();
    serve.args(["serve", "--structures", text(data)]);
    serve.args(["--durability", "process", "--structures-capacity", "64MiB"]);
    Server::of(serve, data)
}

#[test]
fn package_descriptions_are_exported_byte_by_byte_and_in_order_after_the_back_end_was_killed() {
    let place = Place::on_disk();
    let data = place.path().join("structures");
    let mut entries = debian_packages().unwrap_or_else(|_| generated_packages(1000));
    entries.retain(|(key, _)| key.len() < 90);
    entries.sort();
    entries.dedup_by(|one, other| one.0 == other.0);
    entries.truncate(1000);
    let lines: String = entries.iter().map(|(_, line)| line.as_str()).collect();
    let file = place.path().join("packages.ndjson");
    fs::write(&file, &lines).expect("room for it");
    let mut server = alone(&data);
    for kind in KINDS {
        let name = format!("packages/{kind}");
        let import = [
            "structures",
            "import",
            &name,
            text(&file),
            "--kind",
            kind,
            "--json",
        ];
        let imported = server.client(&import).json();
        assert_eq!(imported["entries"], entries.len());
    }
    server.kill();
    let mut server = alone(&data);
    for kind in KINDS {
        let name = format!("packages/{kind}");
        let exported = server.client(&["structures", "export", &name, "--kind", kind]);
        if kind != "hash-table" {
            assert!(exported.text() == lines, "{kind}: other entries, or order");
            continue;
        }
        let mut found: Vec<&str> = exported.text().lines().collect();
        let mut expected: Vec<&str> = lines.lines().collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert!(found == expected, "the table has other entries");
    }
    let listed = server.client(&["structures", "list", "--json"]).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(KINDS.len()));
    let states = server.client(&["structures", "stat", "--json"]).json();
    let state = &states["domains"][0];
    assert_eq!(state["name"], "packages");
    assert_eq!((&state["tenure"], &state["staged"]), (&0.into(), &0.into()));
    assert!(states["free_bytes"].as_u64() < states["capacity_bytes"].as_u64());
    // Each kind was created once.
    let operations = state["published"].as_u64().expect("a number");
    assert!(operations >= (KINDS.len() * (entries.len() + 1)) as u64);
    let shown = server
        .client(&["structures", "show", "packages/b-tree", "--json"])
        .json();
    assert_eq!(shown["entries"], entries.len());
    let refused = server.client(&[
        "structures",
        "export",
        "packages/b-tree",
        "--kind",
        "hash-table",
    ]);
    assert!(refused.refusal(1).contains("is a B+tree"));
    let in_use = stonecast(["structures", "verify", text(&data)]);
    assert!(in_use.refusal(1).contains("is in use by process"));
    server.stop();
    let verified = stonecast(["structures", "verify", text(&data), "--json"]).json();
    assert_eq!(verified["damage"], serde_json::Value::Null);
    let structures = verified["structures"].as_array();
    assert_eq!(structures.map(Vec::len), Some(KINDS.len()));
}

#[test]
fn both_kinds_of_pools_are_served_side_by_side_and_each_is_refused_where_the_other_belongs() {
    let place = Place::on_disk();
    let (keys, data) = (place.pool(), place.path().join("structures"));
    let both = [
        "--structures",
        text(&data),
        "--durability",
        "process",
        "--structures-capacity",
        "32MiB",
    ];
    let mut server = Server::start(&keys, both);
    server.client(&["put", "greeting", "hello"]).text();
    let socket = format!("shm:{}", data.join("socket").display());
    let mut import = command();
    import.args(["structures", "import", "words", "--connect", &socket]);
    let line = b"{\"key\":\"a\",\"value\":\"b\"}\n";
    assert_eq!(crate::support::run(import, line).code, Some(0));
    server.stop();
    let refused = Server::refused(&data, ["--durability", "process"]);
    assert!(
        refused.contains("is a pool of data structures, not of keys and values"),
        "{refused}"
    );
    let refused = stonecast(["serve", "--structures", text(&keys)]);
    assert!(
        refused
            .refusal(1)
            .contains("is a pool of keys and values, not of data structures")
    );
    let usage = stonecast(["serve", "--structures", text(&data), "--shards", "2"]);
    assert!(
        usage
            .refusal(2)
            .contains("--shards is for a pool of keys and values")
    );
    let verify = stonecast(["structures", "verify", text(&keys)]);
    assert!(verify.refusal(1).contains("is a pool of keys and values"));
}

/// The value of a line of `/metrics`.
fn metric(text: &str, name: &str) -> u64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let line = line.unwrap_or_else(|| panic!("{name} in {text}"));
    line.parse().expect("a whole number")
}

/// Needs the back-end behind the admin port, alone and beside a store, and the refusal of a port for Redis clients
/// without one.
#[test]
fn the_admin_port_shows_a_back_end_alone_and_beside_keys_and_values() {
    let place = Place::on_disk();
    let (keys, data) = (place.pool(), place.path().join("structures"));
    let flags = [
        "--admin",
        "127.0.0.1:0",
        "--durability",
        "process",
        "--structures-capacity",
        "32MiB",
        "--structures-quota",
        "8MiB",
    ];
    let mut serve = command();
    serve
        .args(["serve", "--structures", text(&data)])
        .args(flags);
    let mut server = Server::of(serve, &data);
    let admin = address(&mut server, "http://");
    let socket = format!("shm:{}", data.join("socket").display());
    let mut import = command();
    import.args(["structures", "import", "words", "--connect", &socket]);
    let line = b"{\"key\":\"a\",\"value\":\"b\"}\n";
    assert_eq!(crate::support::run(import, line).code, Some(0));
    assert_eq!(http_get(admin, "/readyz"), (200, "ready\n".to_owned()));
    let metrics = http_get(admin, "/metrics").1;
    assert_eq!(
        metric(
            &metrics,
            "stonecast_structures_tenures_total{event=\"granted\"}"
        ),
        1
    );
    assert_eq!(
        metric(&metrics, "stonecast_structures_quota_bytes"),
        8 << 20
    );
    assert_eq!(
        metric(
            &metrics,
            "stonecast_structures_operations_total{domain=\"words\"}"
        ),
        2
    );
    assert_eq!(
        metric(
            &metrics,
            "stonecast_structures_staged_operations{domain=\"words\"}"
        ),
        0
    );
    assert!(
        metric(
            &metrics,
            "stonecast_structures_memory_bytes{domain=\"words\"}"
        ) >= 1 << 20
    );
    let page = include_str!("../../../../docs/gateway.md");
    for line in metrics.lines() {
        let name = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.split(' ').next());
        if let Some(name) = name.filter(|name| name.contains("_structures_")) {
            let name = name.trim_end_matches("_total");
            assert!(
                page.contains(&format!("`{name}`")),
                "{name} is in docs/gateway.md"
            );
        }
    }
    server.stop();

    let redis = stonecast([
        "serve",
        "--structures",
        text(&data),
        "--resp",
        "127.0.0.1:0",
    ]);
    assert!(
        redis
            .refusal(2)
            .contains("--resp is for a pool of keys and values")
    );

    let both = [&flags[..], &["--structures", text(&data)]].concat();
    let mut server = Server::start(&keys, both);
    let admin = address(&mut server, "http://").to_string();
    let told = server.client(&["stat", "--admin", &admin, "--json"]).json();
    assert_eq!(told["structures"]["domains"][0]["name"], "words");
    let shown = server.client(&["stat", "--admin", &admin]);
    assert!(shown.text().contains("1 lock domains"), "{}", shown.text());
    server.stop();
}
