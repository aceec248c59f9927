//! `ls`: keys, a page at a time.

use std::process::Stdio;

use crate::support::{Place, Server, command};

#[test]
fn keys_are_listed_in_the_order_in_which_they_were_stored() {
    let place = Place::in_volatile_memory();
    let server = Server::start(
        &place.pool(),
        ["--durability", "process", "--capacity", "64MiB"],
    );
    assert_eq!(server.client(&["ls"]).text(), "");
    for key in ["user:2", "user:1", "order:1", "user:2"] {
        server.client(&["put", key, "v"]).text();
    }
    assert_eq!(server.client(&["ls"]).text(), "user:1\norder:1\nuser:2\n");
    assert_eq!(server.client(&["ls", "user:"]).text(), "user:1\nuser:2\n");
    assert_eq!(server.client(&["ls", "nobody:"]).text(), "");
    let raw = b"{\"key\":{\"base64\":\"/wo=\"},\"value\":\"v\"}\n";
    server.client_with_input(&["import"], raw).text();
    assert!(server.client(&["ls"]).stdout.ends_with(b"user:2\n\xff\n\n"));
    let lines = server.client(&["ls", "--json"]);
    let lines: Vec<serde_json::Value> = lines
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object a line"))
        .collect();
    assert_eq!(lines[0]["key"], "user:1");
    assert_eq!(lines[3]["key"]["base64"], "/wo=");
    let versions: Vec<u64> = lines
        .iter()
        .map(|line| line["version"].as_u64().expect("a version"))
        .collect();
    assert!(versions.is_sorted(), "{versions:?}");
}

/// Needs the error that causes the JSON error: a pipe without a reader is not a failure to report.
#[test]
fn a_list_whose_reader_leaves_ends_without_a_message() {
    let place = Place::in_volatile_memory();
    let server = Server::start(
        &place.pool(),
        ["--durability", "process", "--capacity", "64MiB"],
    );
    let lines: String = (0..4_000)
        .map(|number| format!("{{\"key\":\"{number:0>100}\",\"value\":\"v\"}}\n"))
        .collect();
    server
        .client_with_input(&["import"], lines.as_bytes())
        .text();
    for form in [&["ls"][..], &["ls", "--json"]] {
        let mut list = command();
        list.args(form)
            .args(["--connect", &server.address()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut list = list.spawn().expect("the binary starts");
        drop(list.stdout.take());
        let output = list.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{form:?}");
    }
}
