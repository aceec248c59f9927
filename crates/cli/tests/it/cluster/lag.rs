//! The copies that lag and the moves under way, as `cluster status --ask` and the metrics show them.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::servers::{Servers, connect};
use crate::support::http_get;

/// Nodes that a pause of a minute does not remove.
const PATIENT: [&str; 4] = ["--lease", "2s", "--remove-after", "10min"];

/// The screen of `status --ask`, without the breaks of its lines.
fn screen(servers: &Servers) -> String {
    let text = servers.cluster(&["status", "--ask"]).text().to_owned();
    assert!(text.lines().count() < 40, "{text}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn report(servers: &Servers) -> Value {
    servers.cluster(&["status", "--ask", "--json"]).json()
}

/// Waits until the screen has `words`.
fn screen_with(servers: &Servers, words: &str) -> String {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let screen = screen(servers);
        if screen.contains(words) {
            return screen;
        }
        assert!(Instant::now() < end, "{words} in {screen}");
    }
}

/// The copies that the nodes tell of.
fn copies(report: &Value) -> Vec<&Value> {
    let asked = report["asked"].as_array().expect("a list").iter();
    asked
        .flat_map(|one| one["copies"].as_array().expect("a list"))
        .collect()
}

/// Needs the silence in the report of a node: the primary has no lease, and so no entry that waits.
#[test]
fn a_copy_on_a_node_that_stands_still_is_named_with_its_shards() {
    let mut servers = Servers::with_flags(&PATIENT, None);
    servers.wait_until_complete();
    screen_with(&servers, "no copy lags");
    servers.signal("c", Signal::STOP);
    let screen = screen_with(&servers, "on c lags: c has not answered for");
    assert!(screen.contains("c does not answer"), "{screen}");
    assert!(!screen.contains("no copy lags"), "{screen}");
    let report = report(&servers);
    let lagging = copies(&report)
        .into_iter()
        .filter(|copy| copy["lags"] == true);
    let mut shards: Vec<u64> = lagging
        .map(|copy| {
            assert_eq!(copy["node"], "c", "{copy}");
            copy["shard"].as_u64().expect("a number")
        })
        .collect();
    // The shards whose primary is c have an heir within the next seconds, if not yet.
    shards.dedup();
    assert!(shards.len() >= 2, "{report}");
    let admin = servers.port("a", "http://");
    let metrics = http_get(admin, "/metrics").1;
    let silent = metrics.lines().filter(|line| {
        line.starts_with("stonecast_cluster_copy_silent_nanoseconds{") && line.contains("\"c\"")
    });
    let longest = silent.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    assert!(longest.max() > Some(2_000_000_000), "{metrics}");
    servers.signal("c", Signal::CONT);
    screen_with(&servers, "no copy lags");
}

/// Needs the progress of each join in the report of its primary. The node that is filled runs for moments, so that the
/// move is seen before it ends.
#[test]
fn a_move_shows_how_far_it_is() {
    let mut servers = Servers::undisturbed(1);
    servers.wait_until_complete();
    let client = connect(&servers.url());
    for key in 0..24 {
        let value = vec![key; 1 << 20];
        client.put(format!("large/{key}"), value).expect("room");
    }
    servers.start_again("d");
    servers.cluster(&["add", "d"]).text();
    let asked = servers.cluster(&["move", "0", "--from", "b", "--to", "d", "--no-wait"]);
    asked.text();
    let end = Instant::now() + Duration::from_secs(120);
    let (filled, left) = loop {
        std::thread::sleep(Duration::from_millis(10));
        servers.signal("d", Signal::STOP);
        let report = report(&servers);
        let copies = copies(&report);
        let moving = copies.iter().find(|copy| copy["part"] == "filled");
        let moving = moving.map(|copy| {
            assert_eq!((&copy["node"], &copy["shard"]), (&"d".into(), &0.into()));
            ["filled_bytes", "left_bytes"].map(|name| copy[name].as_u64().expect("a number"))
        });
        if let Some([filled, left]) = moving.filter(|[filled, left]| *filled > 0 && *left > 0) {
            break (filled, left);
        }
        assert!(Instant::now() < end, "{report}");
        servers.signal("d", Signal::CONT);
    };
    assert!(filled + left > 20 << 20, "{filled} and {left}");
    let screen = screen(&servers);
    let words = "shard 0 is copied to d, in place of b: ";
    assert!(screen.contains(words), "{screen}");
    let primary = report(&servers)["placements"][0]["primary"].clone();
    let primary = ["a", "b", "c"].into_iter().find(|node| primary == **node);
    let admin = servers.port(primary.expect("a node"), "http://");
    let metrics = http_get(admin, "/metrics").1;
    let filling = "stonecast_cluster_copy_filled_bytes{shard=\"0\",node=\"d\"}";
    assert!(metrics.contains(filling), "{metrics}");
    servers.signal("d", Signal::CONT);
    let end = Instant::now() + Duration::from_secs(60);
    while report(&servers)["placements"][0]["in_sync"] != serde_json::json!(["a", "c", "d"]) {
        assert!(Instant::now() < end, "the move ends");
    }
    screen_with(&servers, "no copy lags");
}
