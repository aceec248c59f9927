//! The state of a cluster, for people and for programs.

use stonecast_media::Durability;

use super::{Cluster, name};

#[test]
fn without_a_cluster_status_names_the_command_that_creates_one() {
    let cluster = Cluster::absent();
    let refused = cluster.run("status", &[]);
    assert!(refused.refusal(1).contains("create the cluster first"));
    std::fs::create_dir(cluster.place.path().join("cluster")).expect("it is free");
    let refused = cluster.run("status", &[]);
    assert!(refused.refusal(1).contains("`stonecast cluster create`"));
}

#[test]
fn status_works_before_any_node_and_counts_those_that_are_missing() {
    let cluster = Cluster::created(&[]);
    let text = cluster.run("status", &[]).text().to_owned();
    assert!(text.contains("3 more nodes have to register"), "{text}");
    assert!(text.contains("nothing is acknowledged yet"), "{text}");
    cluster.register("a", Durability::Power);
    let text = cluster.run("status", &[]).text().to_owned();
    assert!(text.contains("2 more nodes have to register"), "{text}");
    let row = text.lines().find(|line| line.starts_with("a "));
    let words: Vec<_> = row.expect("a row").split_whitespace().collect();
    let expected = "a spare 1 0 0 0 0 power page-file on - shm:./a/socket";
    assert_eq!(words.join(" "), expected);
}

#[test]
fn status_shows_where_the_copies_are_on_one_screen() {
    let cluster = Cluster::created(&[]);
    cluster.place();
    let text = cluster.run("status", &[]).text().to_owned();
    for (primary, led) in [("a", 11), ("b", 11), ("c", 10)] {
        let row = format!("{primary}        a, b, c  -        -        0        {led}");
        assert!(text.contains(&row), "{row} in {text}");
    }
    assert!(
        text.contains("an acknowledged write survives a power cut of all nodes\n"),
        "{text}"
    );
    assert!(!text.contains("\nnext\n"), "nothing is needed: {text}");
    assert!(text.lines().count() < 25, "{text}");
    let too_wide = text.lines().find(|line| line.chars().count() > 110);
    assert_eq!(too_wide, None);
    let json = cluster.run("status", &["--json"]).json();
    let placements = json["placements"].as_array().expect("a list");
    let shards = placements.iter().flat_map(|placement| {
        let ranges = placement["shards"].as_array().expect("ranges").clone();
        ranges.into_iter().map(|range| {
            range[1].as_u64().expect("a number") - range[0].as_u64().expect("a number") + 1
        })
    });
    assert_eq!(shards.sum::<u64>(), 32);
    assert_eq!(json["nodes"][0]["in_sync"], 32);
    assert_eq!(
        (&json["survives"], &json["next"]),
        (&"power".into(), &serde_json::json!([]))
    );
}

#[test]
fn many_placements_are_cut_on_the_screen_and_whole_in_json() {
    let cluster = Cluster::created(&[]);
    // More shards than a pool has today.
    cluster.change(|present| {
        let mut next = present.clone();
        (next.policy.shards, next.epoch.0) = (4096, present.epoch.0 + 1);
        next
    });
    for node in 0..9 {
        cluster.register(&format!("node-{node}"), Durability::Power);
    }
    cluster.change(|present| present.place_shards().expect("nine nodes"));
    let text = cluster.run("status", &[]).text().to_owned();
    assert!(
        text.contains("more lines: --json has all of them"),
        "{text}"
    );
    assert!(text.lines().count() < 50, "{text}");
    let json = cluster.run("status", &["--json"]).json();
    assert!(json["placements"].as_array().expect("a list").len() > 24);
}

#[test]
fn the_weakest_promise_and_its_node_are_named() {
    let cluster = Cluster::created(&[]);
    cluster.register("a", Durability::Power);
    cluster.register("b", Durability::Process);
    cluster.register("c", Durability::Power);
    cluster.change(|present| present.place_shards().expect("three nodes"));
    let text = cluster.run("status", &[]).text().to_owned();
    assert!(
        text.split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .contains("no power cut of all nodes, because of b: the other nodes"),
        "{text}"
    );
    let json = cluster.run("status", &["--json"]).json();
    assert_eq!(json["survives"], "process");
    assert_eq!(json["weakest"], serde_json::json!(["b"]));
}

#[test]
fn lost_copies_stand_first_and_the_needs_say_what_to_do() {
    let cluster = Cluster::created(&[]);
    cluster.place();
    for node in ["a", "b"] {
        cluster.change(|present| present.remove(&name(node)).expect("it is known"));
    }
    let json = cluster.run("status", &["--json"]).json();
    let needs: Vec<_> = json["next"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|next| next["need"].as_str().expect("a name"))
        .collect();
    assert_eq!(needs, ["writes-refused", "copies"]);
    let words = json["next"][1]["words"].as_str().expect("words");
    assert!(
        words.ends_with("`stonecast cluster add a` fills them there."),
        "{words}"
    );
    let text = cluster.run("status", &[]).text().to_owned();
    assert!(
        text.contains("32 shards take no writes: 1 in sync, and writes need 2."),
        "{text}"
    );
    assert!(
        text.contains("c        c        -        -        2        32      0-31"),
        "{text}"
    );
}
