//! The counts of the node, as the server reports them.

use super::store::ServerNode;
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
    Copying {
        epoch: node.member().configuration().epoch.0,
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
    }
}
