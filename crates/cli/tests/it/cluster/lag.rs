//! The copies that lag and the moves under way, as `cluster status --ask` and the metrics show them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::servers::{NODES, Servers, connect};
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

/// The bytes that `node` has of the copy of shard 0 being filled, and those that it lacks, by the metrics of the
/// primary, if there are both.
fn part_of_a_copy(admin: SocketAddr, node: &str) -> Option<[u64; 2]> {
    let metrics = http_get(admin, "/metrics").1;
    let value = |name: &str| {
        let start = format!("stonecast_cluster_copy_{name}_bytes{{shard=\"0\",node=\"{node}\"}} ");
        let mut lines = metrics.lines();
        lines.find_map(|line| line.strip_prefix(&start)?.parse().ok())
    };
    Some([value("filled")?, value("fill_left")?]).filter(|[filled, left]| *filled > 0 && *left > 0)
}

/// The nodes that have every write of shard 0.
fn in_sync(servers: &Servers) -> Vec<String> {
    let nodes = report(servers)["placements"][0]["in_sync"].clone();
    serde_json::from_value(nodes).expect("names")
}

/// Moves shard 0 and stops `to` while it has a part of the copy. The move may end before that is seen: then there is
/// nothing to stop.
fn stops_within_a_move(
    servers: &Servers,
    admin: SocketAddr,
    [from, to]: [&'static str; 2],
) -> Option<[u64; 2]> {
    let arguments = ["move", "0", "--from", from, "--to", to, "--no-wait"];
    servers.cluster(&arguments).text();
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        let looks_end = Instant::now() + Duration::from_millis(500);
        while Instant::now() < looks_end {
            if part_of_a_copy(admin, to).is_none() {
                continue;
            }
            servers.signal(to, Signal::STOP);
            // What was on its way to the node is counted by then.
            std::thread::sleep(Duration::from_millis(100));
            let stopped = part_of_a_copy(admin, to);
            if stopped.is_some() {
                return stopped;
            }
            servers.signal(to, Signal::CONT);
        }
        if in_sync(servers).iter().any(|node| node == to) {
            return None;
        }
    }
    panic!("the move to {to} ends");
}

/// Needs the progress of each join in the report of its primary. The shard moves to and fro until a move is seen before
/// it ends.
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
    let primary = report(&servers)["placements"][0]["primary"].clone();
    let (copies, lead): (Vec<_>, Vec<_>) = NODES.into_iter().partition(|node| primary != **node);
    let admin = servers.port(lead[0], "http://");
    let mut ways = [[copies[0], "d"], ["d", copies[0]]]
        .into_iter()
        .cycle()
        .take(50);
    let (from, to, [filled, left]) = ways
        .find_map(|[from, to]| {
            let parts = stops_within_a_move(&servers, admin, [from, to])?;
            Some((from, to, parts))
        })
        .expect("one of the moves is seen before it ends");
    assert!(filled + left > 20 << 20, "{filled} and {left}");
    let asked = report(&servers);
    let all = self::copies(&asked);
    let moving = all.iter().find(|copy| copy["part"] == "filled");
    let moving = moving.expect("the node stands still");
    assert_eq!((&moving["node"], &moving["shard"]), (&to.into(), &0.into()));
    let told = ["filled_bytes", "left_bytes"].map(|name| moving[name].as_u64());
    assert_eq!(told, [Some(filled), Some(left)]);
    let screen = screen(&servers);
    let words = format!("shard 0 is copied to {to}, in place of {from}: ");
    assert!(screen.contains(&words), "{screen}");
    servers.signal(to, Signal::CONT);
    let end = Instant::now() + Duration::from_secs(60);
    while !in_sync(&servers).iter().any(|node| node == to) {
        assert!(Instant::now() < end, "the move ends");
    }
    screen_with(&servers, "no copy lags");
}
