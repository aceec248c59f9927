//! Import and export with faulty input, output, or readers of the output.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use crate::support::{Place, Server, command};

fn server(place: &Place) -> Server {
    Server::start(
        &place.pool(),
        ["--durability", "process", "--capacity", "64MiB"],
    )
}

#[test]
fn a_broken_line_ends_the_import_and_only_the_lines_before_it_are_stored() {
    let place = Place::in_volatile_memory();
    let server = server(&place);
    for (number, broken) in [
        r#"{"key":"broken","value":"#,
        r#"{"key":"broken","value":"x","more":1}"#,
        r#"{"key":"broken","key":"broken","value":"x"}"#,
        r#"{"key":"broken","value":7}"#,
        r#"{"key":"","value":"x"}"#,
        r#"{"key":"broken","value":{"base64":"???"}}"#,
    ]
    .iter()
    .enumerate()
    {
        let good = |index: usize| format!("{{\"key\":\"{number}-{index}\",\"value\":\"v\"}}\n");
        let input = format!("{}\n{}{broken}\n{}", good(0), good(1), good(2));
        let output = server.client_with_input(&["import"], input.as_bytes());
        let message = output.refusal(1);
        assert!(
            message.contains("line 4: ") && message.contains("the 2 entries before it are"),
            "{message}"
        );
        for (index, stored) in [(0, true), (1, true), (2, false)] {
            let code = server.client(&["get", &format!("{number}-{index}")]).code;
            assert_eq!(code, Some(if stored { 0 } else { 3 }), "{broken} {index}");
        }
        server.client(&["get", "broken"]).refusal(3);
    }
    let broken_utf8 = b"{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"broken\",\"value\":\"\xff\"}\n";
    let message = server
        .client_with_input(&["import"], broken_utf8)
        .refusal(1)
        .to_owned();
    assert!(
        message.contains("line 2: column 26: invalid unicode"),
        "{message}"
    );
}

#[test]
fn the_limits_hold_for_every_entry_of_a_file() {
    let place = Place::in_volatile_memory();
    let server = server(&place);
    let line = |key: usize, value: usize| {
        format!(
            "{{\"key\":\"{}\",\"value\":\"{}\"}}\n",
            "k".repeat(key),
            "v".repeat(value)
        )
    };
    let good = line(1024, 1 << 20) + &line(1, 0) + &line(2, 5_000_000);
    assert_eq!(
        server
            .client_with_input(&["import", "--json"], good.as_bytes())
            .json()["entries"],
        3
    );
    assert!(server.client(&["export"]).text() == good);
    for (key, value, reason) in [
        (1025, 1, "key has 1025 bytes"),
        (1, (16 << 20) + 1, "value has 16777217 bytes"),
    ] {
        let message = server
            .client_with_input(&["import"], line(key, value).as_bytes())
            .refusal(1)
            .to_owned();
        assert!(
            message.contains("line 1: ") && message.contains(reason),
            "{message}"
        );
    }
}

#[test]
fn entries_that_are_stored_again_move_to_the_end_and_deleted_entries_are_gone() {
    let place = Place::in_volatile_memory();
    let server = server(&place);
    let line = |key: &str, value: &str| format!("{{\"key\":\"{key}\",\"value\":\"{value}\"}}\n");
    let input = ["a", "b", "c", "a", "d"]
        .iter()
        .enumerate()
        .map(|(index, key)| line(key, &index.to_string()));
    server
        .client_with_input(&["import"], input.collect::<String>().as_bytes())
        .text();
    server.client(&["delete", "c"]).text();
    assert_eq!(
        server.client(&["export"]).text(),
        line("b", "1") + &line("a", "3") + &line("d", "4")
    );
}

#[test]
fn keys_and_values_that_are_not_text_travel_as_base64() {
    let place = Place::in_volatile_memory();
    let server = server(&place);
    let canonical = "{\"key\":{\"base64\":\"/wA=\"},\"value\":{\"base64\":\"gIE=\"}}\n{\"key\":\"\\u0000\\n\",\"value\":\"\u{7f}/\u{e9}\"}\n";
    server
        .client_with_input(&["import"], canonical.as_bytes())
        .text();
    assert_eq!(server.client(&["export"]).text(), canonical);
    let wordy = "{ \"value\": \"\\u007f\\/\\u00e9\", \"key\": {\"base64\":\"AAo=\"} }\r\n";
    server
        .client_with_input(&["import"], wordy.as_bytes())
        .text();
    assert_eq!(server.client(&["export"]).text(), canonical);
}

#[test]
fn an_export_replaces_a_file_as_a_whole_or_not_at_all() {
    let place = Place::in_volatile_memory();
    let mut server = server(&place);
    let file = place.path().join("entries");
    let name = file.to_str().expect("a name in UTF-8");
    fs::write(&file, "old").expect("room for three bytes");
    server.client(&["put", "a", "1"]).text();
    server.client(&["export", name]).text();
    assert_eq!(
        fs::read_to_string(&file).expect("it was exported"),
        "{\"key\":\"a\",\"value\":\"1\"}\n"
    );
    let message = server
        .client(&["export", "/no/such/folder/entries"])
        .refusal(1)
        .to_owned();
    assert!(
        message.contains("cannot write /no/such/folder/entries"),
        "{message}"
    );
    server.client(&["export", "/dev/null"]).text();
    server.stop();
    fs::write(&file, "old").expect("room for three bytes");
    server.client(&["export", name]).refusal(4);
    assert_eq!(
        fs::read_to_string(&file).expect("it was not touched"),
        "old"
    );
    let left: Vec<_> = fs::read_dir(place.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(left.len(), 2, "the pool and the file: {left:?}");
}

#[test]
fn a_reader_that_leaves_ends_an_export_without_a_message() {
    let place = Place::in_volatile_memory();
    let server = server(&place);
    let input: String = (0..5000)
        .map(|index| {
            format!(
                "{{\"key\":\"{index}\",\"value\":\"{}\"}}\n",
                "v".repeat(1000)
            )
        })
        .collect();
    server
        .client_with_input(&["import"], input.as_bytes())
        .text();
    let mut export = command();
    export
        .args(["export", "--connect", &server.address()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut export = export.spawn().expect("the binary starts");
    let mut first = [0; 10];
    export
        .stdout
        .take()
        .expect("a pipe")
        .read_exact(&mut first)
        .expect("ten bytes");
    let output = export.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), output.stderr), (Some(1), Vec::new()));
}

/// The moment that an export names is the one that the key has after the import.
#[test]
fn keys_that_expire_keep_their_moments_from_pool_to_pool_and_are_absent_afterwards() {
    let (here, there) = (Place::in_volatile_memory(), Place::in_volatile_memory());
    let (first, second) = (server(&here), server(&there));
    first.client(&["put", "stays", "v"]).text();
    first
        .client(&["put", "lives", "v", "--expire", "1h"])
        .text();
    let entry = |server: &Server, key: &str| server.client(&["get", key, "--json"]).json();
    let expires = entry(&first, "lives")["expires"].clone();
    let wall_ms = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    let left_ms = expires.as_u64().expect("a moment") - wall_ms;
    assert!((3_500_000..3_620_000).contains(&left_ms), "{left_ms}");
    let exported = first.client(&["export"]);
    second
        .client_with_input(&["import"], exported.text().as_bytes())
        .text();
    assert_eq!(entry(&second, "lives")["expires"], expires);
    assert_eq!(entry(&second, "stays")["expires"], serde_json::Value::Null);
    assert_eq!(second.client(&["export"]).text(), exported.text());
    first
        .client(&["put", "goes", "v", "--expire", "50ms"])
        .text();
    std::thread::sleep(std::time::Duration::from_millis(60));
    first.client(&["get", "goes"]).refusal(3);
    assert_eq!(first.client(&["export"]).text(), exported.text());
}
