//! Data structures by the commands: imported by one process, read by others, the back-end killed between.

mod cuts;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::gateway::address;
use stonecast::structures::{BTree, Error, Queue, Stack, connect};

use crate::support::{
    Place, Server, command, debian_descriptions, debian_packages, entry_line, field_of,
    generated_packages, http_get, not_run, stonecast,
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
    alone_of(data, "64MiB")
}

fn alone_of(data: &Path, capacity: &str) -> Server {
    let mut serve = command();
    serve.args(["serve", "--structures", text(data)]);
    serve.args(["--durability", "process", "--structures-capacity", capacity]);
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
    // Each kind was created once, and the entries of B+trees were loaded many at a time.
    let operations = state["published"].as_u64().expect("a number");
    let of_a_kind = entries.len() as u64 + 1;
    let loaded = KINDS.iter().filter(|kind| kind.ends_with("b-tree")).count() as u64;
    let inserted = (KINDS.len() as u64 - loaded) * of_a_kind;
    assert!(
        (inserted + loaded..inserted + loaded * of_a_kind / 2).contains(&operations),
        "{operations} operations"
    );
    let shown = server
        .client(&["structures", "show", "packages/b-tree", "--json"])
        .json();
    assert_eq!(shown["entries"], entries.len());
    assert!(shown["bytes"].as_u64() > Some(0));
    for kind in KINDS {
        let name = format!("packages/{kind}");
        let counted = ["structures", "show", &name, "--count", "--json"];
        let counted = server.client(&counted).json();
        assert_eq!(counted["entries"], entries.len(), "{kind}");
        assert!(counted["bytes"].is_null());
    }
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

const DISTRIBUTION: &str = "the distribution's package descriptions by name and by checksum";

/// All of them, in one lock domain: a B+tree by name and a hash table by checksum. Two descriptions of some 63,700 have
/// no checksum.
#[test]
fn the_descriptions_of_the_distribution_stand_by_name_and_by_checksum_in_one_lock_domain() {
    let descriptions = match debian_descriptions() {
        Ok(descriptions) => descriptions,
        Err(reason) => return not_run(DISTRIBUTION, &reason),
    };
    let by = |field: &str| -> BTreeMap<&str, String> {
        let entry = |description| {
            let key = field_of(description, field)?;
            Some((key, entry_line(key, description)))
        };
        let descriptions = descriptions.iter().map(String::as_str);
        descriptions.filter_map(entry).collect()
    };
    let place = Place::on_disk();
    let data = place.path().join("structures");
    let mut server = alone_of(&data, "512MiB");
    let all = [
        ("packages/by-name", "b-tree", by("Package")),
        ("packages/by-checksum", "hash-table", by("SHA256")),
    ];
    for (name, kind, entries) in &all {
        assert!(entries.len() > 60_000, "{name}: {}", entries.len());
        let lines: String = entries.values().map(String::as_str).collect();
        let file = place.path().join(kind);
        fs::write(&file, &lines).expect("room for it");
        let import = ["structures", "import", name, text(&file), "--kind", kind];
        let import = [&import[..], &["--batch", "1024", "--json"]].concat();
        let imported = server.client(&import).json();
        assert_eq!(imported["entries"], entries.len(), "{name}");
    }
    server.kill();
    let mut server = alone_of(&data, "512MiB");
    for (name, kind, entries) in &all {
        let exported = server.client(&["structures", "export", name, "--kind", kind]);
        let mut found: Vec<&str> = exported.text().split_inclusive('\n').collect();
        if *kind == "hash-table" {
            found.sort_unstable();
        }
        assert!(
            found.iter().eq(entries.values()),
            "{name}: other entries, or order"
        );
    }
    server.stop();
}

/// Needs the order of an export to be that in which values were put in, of a stack too, and the refusal of keys.
#[test]
fn stacks_and_queues_are_imported_and_exported_in_the_order_in_which_values_were_put_in() {
    let place = Place::on_disk();
    let data = place.path().join("structures");
    let mut server = alone(&data);
    let long = "long ".repeat(1000);
    let mut lines: String = (0..1000)
        .map(|number| format!("{{\"value\":\"job {number}\"}}\n"))
        .collect();
    lines += &format!(
        "{{\"value\":\"{long}\"}}\n{{\"value\":{{\"base64\":\"/wA=\"}}}}\n{{\"value\":\"\"}}\n"
    );
    let file = place.path().join("values.ndjson");
    fs::write(&file, &lines).expect("room for it");
    for kind in ["stack", "queue"] {
        let import = ["structures", "import", kind, text(&file), "--kind", kind];
        let imported = server.client(&[&import[..], &["--json"]].concat()).json();
        assert_eq!(imported["entries"], 1003, "{kind}");
    }
    server.kill();
    let mut server = alone(&data);
    let again = place.path().join("again.ndjson");
    for kind in ["stack", "queue"] {
        let export = ["structures", "export", kind, text(&again), "--kind", kind];
        let exported = server.client(&[&export[..], &["--json"]].concat()).json();
        assert_eq!(exported["entries"], 1003, "{kind}");
        let found = fs::read_to_string(&again).expect("it was written");
        assert!(found == lines, "{kind}: other values, or order");
        let other = server.client(&["structures", "export", kind]);
        assert!(other.refusal(1).contains(&format!("is a {kind}")));
    }
    let socket = format!("shm:{}", data.join("socket").display());
    let connection = connect(&socket).expect("it serves");
    connection.run(async |session| {
        let mut stack = session.reader::<Stack<Vec<u8>>>("stack").await.unwrap();
        assert_eq!(stack.peek().await.unwrap(), Some(Vec::new()));
        let mut queue = session.reader::<Queue<Vec<u8>>>("queue").await.unwrap();
        assert_eq!(queue.peek().await.unwrap(), Some(b"job 0".to_vec()));
    });
    drop(connection);
    for (line, kind, reason) in [
        (
            "{\"key\":\"a\",\"value\":\"b\"}\n",
            "stack",
            "line 1: column 6: unknown field `key`",
        ),
        ("{\"value\":\"b\"}\n", "b-tree", "missing field `key`"),
    ] {
        let mut import = command();
        let name = format!("refused by a {kind}");
        import.args([
            "structures",
            "import",
            &name,
            "--kind",
            kind,
            "--connect",
            &socket,
        ]);
        let refused = crate::support::run(import, line.as_bytes());
        assert!(refused.refusal(1).contains(reason), "{}", refused.stderr);
    }
    server.stop();
}

#[test]
fn an_import_into_a_structure_that_another_process_writes_is_told_which() {
    let place = Place::on_disk();
    let data = place.path().join("structures");
    let mut server = alone(&data);
    let socket = format!("shm:{}", data.join("socket").display());
    let connection = connect(&socket).expect("it serves");
    let words = connection.run(async |session| {
        let writer = session.writer::<BTree<Vec<u8>, Vec<u8>>>("words").await?;
        let mut import = command();
        import.args(["structures", "import", "words", "--connect", &socket]);
        let refused = crate::support::run(import, b"{\"key\":\"a\",\"value\":\"b\"}\n");
        writer.release().await?;
        Ok::<_, Error>(refused.refusal(1).to_owned())
    });
    let words = words.expect("it serves");
    let holder = format!("has a writer, process {} on ", std::process::id());
    assert!(words.contains(&holder), "{words}");
    drop(connection);
    server.stop();
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
    let page = include_str!("../../../../../docs/gateway.md");
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

/// Needs the publication in parts where a batch outgrows a transaction.
#[test]
fn the_largest_batch_is_imported_with_short_and_with_long_values() {
    let place = Place::on_disk();
    let data = place.path().join("structures");
    let mut server = alone(&data);
    for (name, size) in [("short", 10), ("long", 2000)] {
        let value = "v".repeat(size);
        let line = |key| format!("{{\"key\":\"key {key:05}\",\"value\":\"{value}\"}}\n");
        let lines: String = (0..5000).map(line).collect();
        let file = place.path().join(format!("{name}.ndjson"));
        fs::write(&file, &lines).expect("room for it");
        let import = ["structures", "import", name, text(&file), "--batch", "4096"];
        let imported = server.client(&[&import[..], &["--json"]].concat()).json();
        assert_eq!(imported["entries"], 5000, "{name}");
        let exported = server.client(&["structures", "export", name]);
        assert!(exported.text() == lines, "{name}: other entries, or order");
    }
    let refused = server.client(&["structures", "import", "short", "--batch", "4097"]);
    assert!(refused.refusal(2).contains("4097"));
    server.stop();
}
