//! The state of a cluster as JSON.

use serde::Serialize;
use stonecast_cluster::{Configuration, NodeName, NodePlatform, NodeState, Overview, Placement};
use uuid::Uuid;

use super::asked::{self, Asked};
use super::words;

/// The object that `--json` prints.
#[derive(Serialize)]
pub struct Report<'a> {
    store: &'a str,
    cluster: Uuid,
    epoch: u64,
    written_by: &'a str,
    policy: Numbers,
    survives: Option<String>,
    weakest: Vec<&'a NodeName>,
    nodes: Vec<NodeReport<'a>>,
    placements: Vec<PlacementReport<'a>>,
    /// The answers of the nodes, with --ask only.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<Vec<Asked>>,
    next: Vec<Next>,
}

#[derive(Serialize)]
struct Numbers {
    replicas: u8,
    min_copies: u8,
    shards: u32,
    lease_ns: u64,
    remove_after_ns: u64,
}

#[derive(Serialize)]
struct NodeReport<'a> {
    name: &'a NodeName,
    pool: Uuid,
    state: NodeState,
    starts: u64,
    survives: &'a str,
    platform: &'a NodePlatform,
    zone: Option<&'a str>,
    addresses: &'a [String],
    leads: usize,
    in_sync: usize,
    joins: usize,
    leaves: usize,
}

#[derive(Serialize)]
struct PlacementReport<'a> {
    primary: &'a NodeName,
    in_sync: Vec<&'a NodeName>,
    joining: Vec<&'a NodeName>,
    leaving: Vec<&'a NodeName>,
    missing: usize,
    /// The failure that an acknowledged write of these shards survives.
    survives: String,
    /// Whether a node with a copy in sync answers, with --ask only.
    #[serde(skip_serializing_if = "Option::is_none")]
    served: Option<bool>,
    /// Ranges of shards: the first and the last shard of each.
    shards: Vec<[u32; 2]>,
    back_ends: Vec<&'a str>,
}

#[derive(Serialize)]
struct Next {
    need: &'static str,
    words: String,
}

impl<'a> Report<'a> {
    /// The state of the cluster in `store`.
    pub fn of(store: &'a str, configuration: &'a Configuration, asked: Option<Vec<Asked>>) -> Self {
        let overview = configuration.overview();
        let policy = &configuration.policy;
        let next = |need| Next {
            need: words::name(need),
            words: words::sentence(need, configuration),
        };
        Self {
            store,
            cluster: configuration.nonce,
            epoch: configuration.epoch.0,
            written_by: &configuration.attempt.writer,
            policy: Numbers {
                replicas: policy.replicas,
                min_copies: policy.min_copies,
                shards: policy.shards,
                lease_ns: policy.lease.duration_ns,
                remove_after_ns: policy.remove_after_ns,
            },
            survives: overview.survives.map(|promise| promise.to_string()),
            weakest: overview.weakest.iter().copied().collect(),
            nodes: nodes(configuration, &overview),
            next: overview.needs.iter().map(next).collect(),
            placements: overview
                .placements
                .into_iter()
                .map(|it| placement(configuration, it, asked.as_deref()))
                .collect(),
            asked,
        }
    }
}

fn nodes<'a>(configuration: &'a Configuration, overview: &Overview<'a>) -> Vec<NodeReport<'a>> {
    let nodes = configuration.nodes.iter().map(|(name, node)| {
        let held = overview.held[name];
        NodeReport {
            name,
            pool: node.pool,
            state: node.state,
            starts: node.incarnation,
            survives: &node.survives,
            platform: &node.platform,
            zone: node.zone.as_deref(),
            addresses: &node.addresses,
            leads: held.leads,
            in_sync: held.in_sync,
            joins: held.joins,
            leaves: held.leaves,
        }
    });
    nodes.collect()
}

fn placement<'a>(
    configuration: &Configuration,
    placement: Placement<'a>,
    asked: Option<&[Asked]>,
) -> PlacementReport<'a> {
    let ranges = placement.shards.iter();
    PlacementReport {
        primary: &placement.group.primary,
        in_sync: placement.group.in_sync.iter().collect(),
        joining: placement.group.joining.keys().collect(),
        leaving: placement.group.leaving.iter().collect(),
        missing: placement.missing,
        survives: configuration.survives(placement.group).to_string(),
        served: asked.map(|asked| asked::is_served(placement.group, asked)),
        shards: ranges.map(|range| [*range.start(), *range.end()]).collect(),
        back_ends: placement.back_ends,
    }
}
