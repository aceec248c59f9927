//! Requests to the nodes: an accepted request stands in the configuration, and a refused one changes nothing.

use stonecast_cluster::NodeState;
use stonecast_media::Durability;

use super::{Cluster, name};

/// Three nodes with copies of four shards, and a spare, d.
fn with_spare() -> Cluster {
    let cluster = Cluster::created(&["--shards", "4"]);
    cluster.place();
    cluster.register("d", Durability::Power);
    cluster
}

#[test]
fn a_node_is_added_and_drained_and_status_follows() {
    let cluster = with_spare();
    let text = cluster.run("status", &[]).text().to_owned();
    assert!(text.contains("`stonecast cluster add d`"), "{text}");
    let added = cluster.run("add", &["d", "--json", "--no-wait"]).json();
    assert_eq!(
        (&added["joining"], &added["leaving"]),
        (&3.into(), &3.into())
    );
    let (_, present) = cluster.read();
    assert_eq!(added["epoch"], present.epoch.0);
    assert_eq!(present.nodes[&name("d")].state, NodeState::Member);
    let text = cluster.run("status", &[]).text().to_owned();
    assert!(text.contains("3 copies are being filled"), "{text}");
    assert!(text.contains("3 copies go once"), "{text}");
    cluster.run("drain", &["a", "--no-wait"]).text();
    let (_, present) = cluster.read();
    let kept = present
        .groups
        .iter()
        .filter(|group| group.kept().any(|node| *node == name("a")));
    assert_eq!(kept.count(), 0);
    assert!(
        present.groups.iter().all(|group| group.in_sync.len() == 3),
        "nothing goes yet"
    );
}

#[test]
fn a_shard_moves_by_its_number() {
    let cluster = with_spare();
    let refused = cluster.run("move", &["2", "--to", "d"]);
    assert!(
        refused.refusal(1).contains("d is a spare"),
        "{}",
        refused.stderr
    );
    cluster.change(|present| {
        present
            .set_state(&name("d"), NodeState::Member)
            .expect("it is known")
    });
    cluster
        .run("move", &["2", "--to", "d", "--from", "b", "--no-wait"])
        .text();
    let (_, present) = cluster.read();
    let group = &present.groups[2];
    assert!(group.joining.contains_key(&name("d")) && group.leaving.contains(&name("b")));
    let refused = cluster.run("move", &["4", "--to", "d"]);
    assert!(
        refused.refusal(1).contains("the shards are 0 to 3"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_node_is_removed_unless_writes_need_its_copies() {
    let cluster = with_spare();
    cluster.run("remove", &["a", "--no-wait"]).text();
    let (_, present) = cluster.read();
    assert!(!present.nodes.contains_key(&name("a")));
    assert!(present.groups.iter().all(|group| group.in_sync.len() == 2));
    let before = cluster.read();
    let refused = cluster
        .run("remove", &["b", "--json"])
        .json_failure(1, "failed");
    let message = refused["message"].as_str().expect("words");
    assert!(
        message.contains("has 1 copies in sync, and writes need 2"),
        "{message}"
    );
    assert_eq!(cluster.read(), before);
}

#[test]
fn requests_that_mean_nothing_are_refused_with_the_names_that_exist() {
    let cluster = with_spare();
    let before = cluster.read();
    for (request, part) in [
        (
            &["drain", "z"][..],
            "there is no node z: the nodes are a, b, c, d",
        ),
        (&["add", "a"], "a is a member"),
        (
            &["drain", "a"],
            "3 copies need as many nodes, and there are 2",
        ),
        (&["move", "0", "--to", "z"], "there is no node z"),
        (&["move", "0", "--to", "a"], "a has a copy"),
    ] {
        let refused = cluster.run(request[0], &request[1..]);
        assert!(
            refused.refusal(1).contains(part),
            "{request:?}: {}",
            refused.stderr
        );
    }
    assert_eq!(cluster.read(), before);
    let empty = Cluster::created(&[]);
    let refused = empty.run("add", &["a"]);
    assert!(refused.refusal(1).contains("no node is registered"));
    let refused = empty.run("move", &["0", "--to", "a"]);
    assert!(refused.refusal(1).contains("the shards are not placed yet"));
    let refused = Cluster::absent().run("drain", &["a"]);
    assert!(refused.refusal(1).contains("create the cluster first"));
}
