//! Failovers and moves of a cluster of the KV store in virtual time.

use stonecast_cluster::{Policy, Timing};
use stonecast_fabric_sim::MachineProfile;
use stonecast_lab::nodes::{
    CallLoad, ClusterShape, Death, Failover, FailoverLoad, MoveLoad, PoolShape, ShardFailover,
    fail_over, move_shard,
};
use stonecast_lab::sim::platform_of;

const MS: u64 = 1_000_000;
const VALUE_SIZE: usize = 4000;

/// Nodes on machines of Rowan's evaluation, with leases of 10 ms and the policy of a new cluster.
pub fn shape(nodes: usize) -> ClusterShape {
    let profile = MachineProfile::by_name("connectx5-rowan").unwrap();
    ClusterShape {
        profile,
        platform: platform_of(&profile),
        packs: true,
        machines: nodes,
        cores: 36,
        nodes,
        shards: 2 * nodes as u32,
        replicas: 3,
        lease: Timing::DEDICATED_CORES,
        remove_after_ns: Policy::new(3, 1).remove_after_ns,
        pool: PoolShape::new(16, 256 << 10),
    }
}

fn death(death: Death, seed: u64) -> FailoverLoad {
    FailoverLoad {
        shape: shape(3),
        calls: CallLoad {
            clients: 2,
            keys: 64,
            value_size: 100,
            pause_ns: 100_000,
        },
        death,
        seed,
    }
}

/// A shard with `live` MiB in a cluster of four nodes with three copies.
fn moving(live: usize) -> MoveLoad {
    MoveLoad {
        shape: ClusterShape {
            shards: 1,
            pool: PoolShape::new(80, 4 << 20),
            ..shape(4)
        },
        calls: CallLoad {
            clients: 4,
            keys: (live << 20) / VALUE_SIZE,
            value_size: VALUE_SIZE,
            pause_ns: 100_000,
        },
        seed: 1,
    }
}

fn written_ms(runs: &[Failover], part: f64) -> f64 {
    let shards = runs.iter().flat_map(|run| &run.shards);
    let mut times: Vec<u64> = shards.map(|shard| shard.written_ns).collect();
    times.sort_unstable();
    let index = (times.len() as f64 * part) as usize;
    times[index.min(times.len() - 1)] as f64 / MS as f64
}

/// Needs leases of 10 ms, the proof that a process is gone, and clients that look for an heir: the time of virtual
/// clocks, which no machine changes. A machine without power proves nothing, so its node is removed for its silence.
#[test]
fn shards_of_a_killed_primary_take_writes_within_fifty_milliseconds_and_half_of_them_within_twenty()
{
    let count = std::env::var("FAILOVER_SEEDS").map(|count| count.parse().unwrap());
    let seeds: u64 = count.unwrap_or(12);
    let runs = |died| -> Vec<Failover> {
        let run = |seed| fail_over(&death(died, seed)).unwrap();
        (0..seeds).map(run).collect()
    };
    let killed = runs(Death::Kill);
    assert!(written_ms(&killed, 0.5) < 20.0);
    assert!(written_ms(&killed, 1.0) < 50.0);
    let cut = runs(Death::PowerCut);
    let remove_after_ms = shape(3).remove_after_ns as f64 / MS as f64;
    assert!(written_ms(&cut, 1.0) < remove_after_ms + 50.0);
    for (what, runs) in [("killed", &killed), ("power cut", &cut)] {
        let [p50, p99, longest] = [0.5, 0.99, 1.0].map(|part| written_ms(runs, part));
        println!("{what}: p50 {p50:.1} ms, p99 {p99:.1} ms, longest {longest:.1} ms");
    }
    for ShardFailover {
        named_ns,
        served_ns,
        written_ns,
        ..
    } in killed.iter().flat_map(|run| &run.shards)
    {
        // Looks at the cluster are 20 us apart.
        assert!(named_ns <= served_ns && *served_ns <= written_ns + 20_000);
    }
}

#[test]
fn the_same_seed_is_the_same_failover_to_the_last_event() {
    let run = || fail_over(&death(Death::Kill, 5)).unwrap();
    assert_eq!(run(), run());
}

/// Needs looks at the memory of appends that copy many lines together: a look at each line of a segment by itself holds
/// the nodes up for longer.
#[test]
fn no_call_on_a_shard_that_moves_takes_twenty_milliseconds() {
    let live = std::env::var("MOVE_MIB").map(|live| live.parse().unwrap());
    let moved = move_shard(&moving(live.unwrap_or(1))).unwrap();
    println!("not served for {} ns", moved.unserved_ns);
    assert!(moved.unserved_ns < 3_000_000, "{} ns", moved.unserved_ns);
    for is_put in [true, false] {
        let longest = moved.longest_ns(is_put);
        println!(
            "the longest {} took {longest} ns",
            if is_put { "PUT" } else { "GET" }
        );
        assert!(
            longest > 0 && longest < 20_000_000,
            "{is_put}: {longest} ns"
        );
    }
}
