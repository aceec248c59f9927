//! Orders that are tests with larger counts than those of CI.

use std::process::Stdio;

use anyhow::{Context, Result};

use crate::metadata::Metadata;
use crate::step::cargo;
use crate::tally::counts_of;

/// An order of a campaign that runs tests.
pub struct Stories {
    /// The name of the order.
    pub order: &'static str,
    /// The environment variable that tells the tests their count, and the count of a whole campaign.
    count: (&'static str, u64),
    tests: &'static [Test],
}

/// A test: package, kind of target, and name.
type Test = (&'static str, &'static [&'static str], &'static str);

/// No byte of a sender lands behind the promise of quiet, however the sender ended. Of the tries over shared memory,
/// more than 10,000 kill or stop the sender. The test of the simulated network makes 10,000 tries, whatever the count.
const QUIESCE: Stories = Stories {
    order: "quiesce",
    count: ("STONECAST_QUIESCE_TRIES", 13_000),
    tests: &[
        (
            "stonecast-fabric-shm",
            &["--lib"],
            "no_message_of_an_appender_is_accepted_after_it_was_quiesced",
        ),
        (
            "stonecast-fabric-sim",
            &["--test", "it"],
            "no_message_of_a_quiesced_sender_lands_whatever_its_fate",
        ),
    ],
};

/// Writers, readers and back-ends of data structures in processes of their own are killed 200 times, and stopped for
/// longer than their leases 50 times.
const STRUCTURES_KILLS: Stories = Stories {
    order: "structures-kills",
    count: ("STONECAST_STRUCTURES_KILLS", 200),
    tests: &[(
        "stonecast",
        &["--test", "it"],
        "kills_and_stops_of_writer_readers_and_back_end_lose_nothing_that_was_acknowledged",
    )],
};

/// A simulated cluster of 64 nodes with 64 shards loses a node, and drains another one.
const LARGEST_CLUSTER: Stories = Stories {
    order: "largest-cluster",
    count: ("STONECAST_CLUSTER_SHARDS", 64),
    tests: &[(
        "stonecast-kv",
        &["--test", "it"],
        "a_cluster_of_sixty_four_nodes_outlives_a_node_and_drains_another",
    )],
};

/// A back-end and its mirror lose front-ends, each other and their power in 1,000 ways for each of three stories, the
/// one of a loss for good on each of five platforms.
const MIRROR_PAIRS: Stories = Stories {
    order: "mirror-pairs",
    count: ("STONECAST_MIRROR_SEEDS", 1_000),
    tests: &[
        (
            "stonecast-structures",
            &["--test", "it"],
            "a_back_end_that_restarts_finds_its_mirror_again_and_loses_nothing",
        ),
        (
            "stonecast-structures",
            &["--test", "it"],
            "a_back_end_that_is_gone_for_good_leaves_every_acknowledged_operation_to_its_mirror",
        ),
        (
            "stonecast-structures",
            &["--test", "it"],
            "a_ticket_that_ended_is_at_the_mirror_however_its_tenure_ended",
        ),
    ],
};

/// Nodes of the KV store, as processes over shared memory, are killed 100 times and stopped past their leases 50 times
/// under load, with the configuration in files in one half of the tries and in an etcd in the other.
const NODE_KILLS: Stories = Stories {
    order: "node-kills",
    count: ("NODE_KILLS", 75),
    tests: &[
        (
            "stonecast-cli",
            &["--test", "it"],
            "acknowledged_writes_are_there_whichever_node_is_killed_or_stands_still",
        ),
        (
            "stonecast-cli",
            &["--test", "it"],
            "the_same_holds_when_the_configuration_is_in_an_etcd",
        ),
    ],
};

/// The etcd that has the configuration is away for two minutes, and a primary dies meanwhile.
const ETCD_LOSS: Stories = Stories {
    order: "etcd-loss",
    count: ("ETCD_AWAY_S", 120),
    tests: &[(
        "stonecast-cli",
        &["--test", "it"],
        "nodes_serve_while_the_etcd_is_away_and_the_shards_of_a_dead_primary_have_an_heir_once_it_is_back",
    )],
};

/// A shard with 100 MiB of values moves under load, in virtual time.
const LARGE_MOVE: Stories = Stories {
    order: "large-move",
    count: ("MOVE_MIB", 100),
    tests: &[(
        "stonecast-lab",
        &["--test", "it"],
        "no_call_on_a_shard_that_moves_takes_twenty_milliseconds",
    )],
};

/// All orders that run tests. They are not split: the first part has them.
pub const STORIES: [Stories; 7] = [
    QUIESCE,
    STRUCTURES_KILLS,
    LARGEST_CLUSTER,
    MIRROR_PAIRS,
    NODE_KILLS,
    ETCD_LOSS,
    LARGE_MOVE,
];

impl Stories {
    /// Runs the tests with a percentage of the count. Returns whether all promises held. A name that matches no test is
    /// a finding.
    pub fn run(&self, metadata: &Metadata, percent: f64) -> Result<bool> {
        let (variable, count) = self.count;
        let count = (count as f64 * percent / 100.0).max(1.0) as u64;
        let mut holds = true;
        for (package, target, test) in self.tests {
            let output = cargo(
                &metadata.workspace_root,
                &["test", "--release", "--locked", "--package", package],
            )
            .args(*target)
            .args([test, "--", "--nocapture"])
            .env(variable, count.to_string())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("testing {package}"))?;
            let text = String::from_utf8_lossy(&output.stdout);
            print!("{text}");
            let has_run = text
                .lines()
                .filter_map(counts_of)
                .any(|(passed, _)| passed > 0);
            holds &= output.status.success() && has_run;
        }
        Ok(holds)
    }
}
