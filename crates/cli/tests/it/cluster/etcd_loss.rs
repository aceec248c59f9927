//! The etcd that has the configuration is away for longer than any lease: nodes serve, and changes wait.

use std::time::{Duration, Instant};

use stonecast_base::hash::xxh3_64;
use stonecast_cluster::{Configuration, Group, Subject};

use crate::support::not_run;

use super::etcd::Etcd;
use super::load::Load;
use super::servers::{NODES, SHARDS, Servers};

/// Two copies, so that a node of three can die and some shards still have all of theirs.
const FLAGS: [&str; 6] = ["--replicas", "2", "--lease", "2s", "--remove-after", "3s"];
/// Longer than a lease that a client or a node had before: whoever needs a dead node waits by then.
const LEASES_END: Duration = Duration::from_secs(4);

/// The time for which the etcd is away: `ETCD_AWAY_S`, or the shortest one.
fn away() -> Duration {
    let asked = std::env::var("ETCD_AWAY_S").ok();
    let asked = asked.map_or(0, |asked| asked.parse().expect("seconds"));
    Duration::from_secs(asked.max(20))
}

/// Needs leases that come from the copies, and a configuration store that may not answer at all, or refuse to connect.
/// In the first half the etcd stands still and all nodes are there; in the second half a primary is dead.
#[test]
fn nodes_serve_while_the_etcd_is_away_and_the_shards_of_a_dead_primary_have_an_heir_once_it_is_back()
 {
    let Some(etcd) = Etcd::start() else {
        return not_run("the loss of the etcd", "etcd is not installed");
    };
    let mut servers = Servers::with_flags(&FLAGS, Some(etcd));
    spread(&servers);
    let before = servers.configuration();
    let victim = most_leading(&before);
    let (with, without): (Vec<_>, Vec<_>) = one_key_of_each_shard(&before)
        .into_iter()
        .partition(|(_, group)| group.in_sync.iter().any(|it| it.as_str() == victim));
    let names = |keys: Vec<(String, &Group)>| keys.into_iter().map(|(key, _)| key).collect();
    let gateways = servers.gateways();
    let waiting = Load::start(servers.ways(&gateways), names(with));
    let serving = Load::start(servers.ways(&gateways), names(without));
    let all_go_on = || [&waiting, &serving].map(Load::goes_on);
    all_go_on();

    let (begun, away) = (Instant::now(), away());
    let sleep_until = |part: f64| {
        std::thread::sleep(away.mul_f64(part).saturating_sub(begun.elapsed()));
    };
    servers.etcd().stop();
    assert_changes_wait(&servers, victim);
    sleep_until(0.5);
    all_go_on();

    servers.kill(victim);
    std::thread::sleep(LEASES_END);
    let done = waiting.acknowledged();
    serving.goes_on();
    servers.etcd().kill();
    assert_changes_wait(&servers, victim);
    serving.goes_on();
    sleep_until(1.0);
    assert_eq!(
        waiting.acknowledged(),
        done,
        "no heir leads without a change"
    );

    let back = Instant::now();
    servers.etcd().start_again();
    wait_for_heirs(&servers, victim);
    println!("heirs lead {:?} after the etcd is back", back.elapsed());
    all_go_on();
    println!("all is served {:?} after the etcd is back", back.elapsed());
    servers.start_again(victim);
    let index = NODES
        .iter()
        .position(|node| *node == victim)
        .expect("a node");
    gateways.moved(index, servers.port(victim, "redis://"));
    all_go_on();
    for load in [waiting, serving] {
        load.end().assert_linearizable();
    }
}

/// Gives each node its share of the copies: the shards are placed once two nodes have registered.
fn spread(servers: &Servers) {
    let share = 2 * SHARDS / NODES.len() as u64;
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let nodes = servers.status();
        let has = |copies: &str, node: &serde_json::Value| node[copies].as_u64() == Some(share);
        if nodes.len() == NODES.len() && nodes.iter().all(|node| has("in_sync", node)) {
            return;
        }
        assert!(Instant::now() < end, "{nodes:?}");
        for node in nodes.iter().filter(|node| node["in_sync"] == 0) {
            let name = node["name"].as_str().expect("a name");
            servers.cluster(&["add", name]);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until other nodes lead the shards of a dead one.
fn wait_for_heirs(servers: &Servers, dead: &str) {
    let end = Instant::now() + Duration::from_secs(30);
    let leads = |group: &Group| group.primary.as_str() == dead;
    while servers.configuration().groups.iter().any(leads) {
        assert!(Instant::now() < end, "{:?}", servers.status());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The node that leads most shards.
fn most_leading(configuration: &Configuration) -> &'static str {
    let leads = |node: &&&str| {
        let groups = configuration.groups.iter();
        groups.filter(|it| it.primary.as_str() == **node).count()
    };
    NODES.iter().max_by_key(leads).expect("nodes")
}

/// A key of each shard, with the shard's copies.
fn one_key_of_each_shard(configuration: &Configuration) -> Vec<(String, &Group)> {
    let seed = configuration
        .policy
        .hash_seed
        .expect("the cluster keeps keys")
        .0;
    let key_of = |group: &Group| {
        let Subject::Keys(hashes) = &group.subject else {
            panic!("{group:?}");
        };
        let mut keys = (0..).map(|number| format!("of-shard/{number}"));
        let is_here = |key: &String| {
            let hash = xxh3_64(seed, key.as_bytes());
            (hashes.first..=hashes.last).contains(&hash)
        };
        keys.find(is_here).expect("hashes are even")
    };
    let groups = configuration.groups.iter();
    groups.map(|group| (key_of(group), group)).collect()
}

/// A change is refused in words that name the store and say that nothing was done.
fn assert_changes_wait(servers: &Servers, node: &str) {
    let drained = servers.cluster(&["drain", node, "--no-wait"]);
    assert_ne!(drained.code, Some(0));
    println!("{}", drained.stderr);
    assert!(drained.stderr.contains("etcd"), "{}", drained.stderr);
}
