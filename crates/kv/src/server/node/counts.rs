//! The counts of the node, and its copies, as the server reports them.

use stonecast_node::{CopyStatus, Part};

use super::store::ServerNode;
use crate::copies::{CopyOfShard, CopyPart};
use crate::copying::Copying;

/// The counts at this moment. The server itself counts the records that it digests.
pub(in crate::server) fn counts_of(node: &ServerNode) -> Copying {
    let (shards, peers, fillings) = (node.shards(), node.peers(), node.fillings());
    let led = || shards.iter().filter_map(|shard| shard.leads);
    let behind = || {
        shards
            .iter()
            .flat_map(|shard| shard.behind.values().copied())
    };
    let joins = shards.iter().filter(|shard| shard.joins).count() as u64;
    let counts = node.counts();
    let configuration = node.member().configuration();
    let policy = &configuration.policy;
    let groups = configuration.groups.iter();
    let groups = groups.filter(|group| group.primary == *node.name());
    let in_sync = groups.map(|group| group.in_sync.len());
    let fewer_than = |copies: u8| in_sync.clone().filter(move |&count| count < copies.into());
    Copying {
        epoch: configuration.epoch.0,
        leads: led().count() as u64,
        term_max: led().map(|(term, _)| term.0).max().unwrap_or(0),
        lease_left_ns: led().map(|(_, left)| left).min().unwrap_or(0),
        copies: shards.len() as u64 - led().count() as u64 - joins,
        joins,
        peers: peers.len() as u64,
        peers_linked: peers.values().filter(|peer| peer.is_linked).count() as u64,
        behind_entries: behind().sum(),
        behind_entries_max: behind().max().unwrap_or(0),
        unsettled_bytes: node.unsettled(),
        fills: fillings.len() as u64,
        filled_bytes: fillings.iter().map(|filling| filling.copied).sum(),
        fill_left_bytes: fillings.iter().map(|filling| filling.left).sum(),
        lost: counts.lost,
        appended_bytes: counts.appended_bytes,
        digested_bytes: 0,
        replicas: policy.replicas.into(),
        min_copies: policy.min_copies.into(),
        primaries: in_sync.clone().count() as u64,
        short: fewer_than(policy.replicas).count() as u64,
        below_min: fewer_than(policy.min_copies).count() as u64,
        full: counts.full,
    }
}

/// The copies of the shards whose primary the node is.
pub(in crate::server) fn copies_of(node: &ServerNode) -> Vec<CopyOfShard> {
    let copy = |copy: CopyStatus| CopyOfShard {
        shard: copy.shard,
        node: copy.node.to_string(),
        part: match copy.part {
            Part::Leads => CopyPart::Leads,
            Part::TakesOver => CopyPart::TakesOver,
            Part::InSync => CopyPart::InSync,
            Part::Filled => CopyPart::Filled,
            Part::Waits => CopyPart::Waits,
        },
        survives_power: copy.survives_power,
        behind_entries: copy.behind_entries,
        behind_bytes: copy.behind_bytes,
        waits_ns: copy.waits_ns,
        silent_ns: copy.silent_ns,
        filled_bytes: copy.filled_bytes,
        left_bytes: copy.left_bytes,
    };
    stonecast_node::copies_of(node)
        .into_iter()
        .map(copy)
        .collect()
}
