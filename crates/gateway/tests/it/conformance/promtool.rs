//! The promtool of the distribution: the parser and the rules of Prometheus itself.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::{need, run};
use crate::support::{World, options};

/// Needs the classic format: promtool reads no other format.
#[test]
#[ignore = "needs promtool; see conformance"]
fn promtool_finds_nothing_wrong_with_the_metrics() {
    if !need("conformance: promtool", &["promtool"]) {
        return;
    }
    let mut options = options();
    options.admin = Some("127.0.0.1:0".parse().unwrap());
    let world = World::with(options);
    world.client().pipeline(["SET a 1", "GET a", "GET b"]);
    let mut stream = TcpStream::connect(world.gateway().admin_address().unwrap()).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.0\r\nAccept: */*\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, metrics) = answer.split_once("\r\n\r\n").unwrap();
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool
        .stdin
        .take()
        .unwrap()
        .write_all(metrics.as_bytes())
        .unwrap();
    let output = promtool.wait_with_output().unwrap();
    let words = words(&output);
    assert!(output.status.success() && words.is_empty(), "{words}");
}

/// Needs each rule to fire under the series of its story, and none for a healthy server.
#[test]
#[ignore = "needs promtool; see conformance"]
fn every_alert_fires_in_its_story_and_none_for_a_healthy_server() {
    if !need("conformance: alerts", &["promtool"]) {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/prometheus");
    let stories = folder.join("stonecast.rules.test.yml");
    let output = promtool(&["test", "rules"], &stories);
    assert!(output.status.success(), "{}", words(&output));
    // A rule without a story that expects its alert would pass unseen.
    let rules = std::fs::read_to_string(folder.join("stonecast.rules.yml")).unwrap();
    let stories = std::fs::read_to_string(stories).unwrap();
    for rule in rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
    {
        let expected = format!("alertname: {rule}\n        exp_alerts:");
        assert!(stories.contains(&expected), "{rule} has a story");
        let silent = format!("alertname: {rule}}}");
        assert!(stories.contains(&silent), "{rule} is silent if all is well");
    }
}

/// Needs the dashboard's questions to be ones that Prometheus understands.
#[test]
#[ignore = "needs promtool; see conformance"]
fn prometheus_understands_every_question_of_the_dashboard() {
    if !need("conformance: dashboard", &["promtool"]) {
        return;
    }
    let text = include_str!("../../../../../packaging/grafana/stonecast.json");
    let dashboard: serde_json::Value = serde_json::from_str(text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let rules: Vec<serde_json::Value> = targets
        .map(|target| target["expr"].as_str().unwrap())
        // Grafana replaces its variables before it asks.
        .map(|question| question.replace("$__rate_interval", "1m"))
        .enumerate()
        .map(|(n, question)| serde_json::json!({ "record": format!("q{n}"), "expr": question }))
        .collect();
    assert!(rules.len() >= 20);
    let rules = serde_json::json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    let folder = tempfile::tempdir().unwrap();
    // JSON is YAML.
    let path = folder.path().join("dashboard.yml");
    std::fs::write(&path, rules.to_string()).unwrap();
    let output = promtool(&["check", "rules"], &path);
    assert!(output.status.success(), "{}", words(&output));
}

fn promtool(command: &[&str], file: &Path) -> Output {
    run(Command::new("promtool").args(command).arg(file)).unwrap()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}
