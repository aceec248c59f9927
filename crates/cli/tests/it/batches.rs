//! `batch`: several keys, all or nothing, from a file or stdin.

use std::fs;

use crate::support::{Place, Server};

fn server(place: &Place) -> Server {
    Server::start(
        &place.pool(),
        ["--durability", "process", "--capacity", "64MiB"],
    )
}

#[test]
fn all_lines_are_done_together_and_survive_a_kill() {
    let place = Place::in_volatile_memory();
    let mut server = server(&place);
    let stock = server.client(&["put", "stock", "1", "--json"]).json()["version"].clone();
    server.client(&["put", "draft 7", "one"]).text();
    let lines = format!(
        "{{\"key\":\"stock\",\"expect\":{stock},\"value\":\"0\"}}\n\
         \n\
         {{\"key\":\"order 7\",\"expect\":\"absent\",\"value\":{{\"base64\":\"/w==\"}},\"expires\":4000000000000}}\n\
         {{\"key\":\"shop\",\"expect\":\"absent\"}}\n\
         {{\"key\":\"draft 7\",\"delete\":true}}"
    );
    let done = server
        .client_with_input(&["batch", "--json"], lines.as_bytes())
        .json();
    let version = done["version"].as_u64().expect("something changed");
    assert_eq!((&done["keys"], &done["changes"]), (&4.into(), &3.into()));
    server.kill();
    let server = Server::start(&place.pool(), ["--durability", "process"]);
    let exported = server.client(&["export"]);
    assert_eq!(
        exported.text(),
        "{\"key\":\"stock\",\"value\":\"0\"}\n\
         {\"key\":\"order 7\",\"value\":{\"base64\":\"/w==\"},\"expires\":4000000000000}\n"
    );
    let order = server.client(&["get", "order 7", "--json"]).json();
    assert_eq!(order["version"], version + 1);
}

#[test]
fn a_key_that_is_not_as_expected_leaves_everything_as_it_was() {
    let place = Place::in_volatile_memory();
    let server = server(&place);
    server.client(&["put", "stock", "1"]).text();
    let file = place.path().join("order");
    let lines = "{\"key\":\"order 7\",\"value\":\"one\"}\n\n{\"key\":\"stock\",\"expect\":\"absent\",\"value\":\"0\"}\n";
    fs::write(&file, lines).expect("room for a file");
    let file = file.to_str().expect("a name in UTF-8");
    let refused = server
        .client(&["batch", file, "--json"])
        .json_failure(6, "conflict");
    assert_eq!(
        (&refused["key"], &refused["line"]),
        (&"stock".into(), &3.into())
    );
    assert_eq!(
        refused["message"],
        "key \"stock\" is not as line 3 expects; nothing was done"
    );
    server.client(&["get", "order 7"]).refusal(3);
    assert_eq!(server.client(&["get", "stock"]).text(), "1");
    let checked = server
        .client_with_input(
            &["batch", "--json"],
            b"{\"key\":\"stock\",\"expect\":\"present\"}",
        )
        .json();
    assert!(checked["version"].is_null() && checked["changes"] == 0);
}

/// Needs the checks of keys that occur twice, of sizes, and of an empty batch.
#[test]
fn a_batch_with_a_fault_is_refused_with_its_line_before_anything_is_sent() {
    let place = Place::in_volatile_memory();
    let server = server(&place);
    let good = "{\"key\":\"good\",\"value\":\"v\"}\n";
    let long = "v".repeat(600_000);
    let many: String = (0..4097)
        .map(|index| format!("{{\"key\":\"{index}\",\"delete\":true}}\n"))
        .collect();
    for (input, reason) in [
        (String::new(), "the batch is empty"),
        (format!("{good}\n{{\"key\":\"k\"}}\n"), "line 3: column "),
        (
            format!("{good}{{\"key\":\"k\",\"value\":\"v\",\"version\":1}}\n"),
            "unknown field `version`",
        ),
        (
            format!("{good}{{\"key\":\"good\",\"expect\":1}}\n"),
            "lines 1 and 2 name the same key \"good\"",
        ),
        (
            format!(
                "{good}{{\"key\":\"a\",\"value\":\"{long}\"}}\n{{\"key\":\"b\",\"value\":\"{long}\"}}\n"
            ),
            "line 3: a batch has at most 1048576 bytes",
        ),
        (many, "line 4097: a batch has at most 4096 keys"),
    ] {
        let output = server.client_with_input(&["batch"], input.as_bytes());
        let message = output.refusal(1);
        assert!(
            message.contains(reason) && message.contains("nothing was done"),
            "{message}"
        );
    }
    assert_eq!(server.client(&["export"]).text(), "");
    let absent = server.client(&["batch", "/no/such/file"]);
    assert!(absent.refusal(1).contains("cannot read /no/such/file"));
}
