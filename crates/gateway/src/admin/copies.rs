//! The part of `/metrics` that a node of a cluster adds: its counts, and the copies of the shards whose primary it is.
//! There is a series for each shard, of which a cluster has 64 at most, and one for each copy of such a shard.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use stonecast_kv::{CopyOfShard, CopyPart, Copying};

use super::prometheus::{Labels, Sheet};

/// One of the numbers of a copy.
type Number = fn(&CopyOfShard) -> u64;
/// One of the numbers of a shard.
type ShardNumber = fn(&OfShard) -> u64;

/// Writes the report of a node.
pub fn write(sheet: &mut Sheet<'_>, copying: &Copying, copies: &[CopyOfShard]) -> fmt::Result {
    write_counts(sheet, copying)?;
    write_shards(sheet, copies)?;
    let (in_sync, joining): (Vec<_>, Vec<_>) =
        copies.iter().partition(|copy| copy.part.is_in_sync());
    let in_sync_numbers: [(&str, &str, Number); 4] = [
        (
            "cluster_copy_behind_entries",
            "Entries that the copy has not reported.",
            |copy| copy.behind_entries,
        ),
        (
            "cluster_copy_behind_bytes",
            "Bytes of these entries, as far as they are writes of this term.",
            |copy| copy.behind_bytes,
        ),
        (
            "cluster_copy_waits_nanoseconds",
            "Time since the first of these writes was stamped.",
            |copy| copy.waits_ns,
        ),
        (
            "cluster_copy_silent_nanoseconds",
            "Time since the node of the copy last answered the primary.",
            |copy| copy.silent_ns,
        ),
    ];
    write_numbers(sheet, &in_sync_numbers, &in_sync)?;
    let joining_numbers: [(&str, &str, Number); 2] = [
        (
            "cluster_copy_filled_bytes",
            "Records that a copy being filled has received.",
            |copy| copy.filled_bytes,
        ),
        (
            "cluster_copy_fill_left_bytes",
            "Records that a copy being filled still lacks, as an estimate.",
            |copy| copy.left_bytes,
        ),
    ];
    write_numbers(sheet, &joining_numbers, &joining)
}

/// Writes numbers of each copy.
fn write_numbers(
    sheet: &mut Sheet<'_>,
    numbers: &[(&str, &str, Number)],
    copies: &[&CopyOfShard],
) -> fmt::Result {
    let shards: Vec<String> = copies.iter().map(|copy| copy.shard.to_string()).collect();
    let labels: Vec<[(&str, &str); 2]> = copies
        .iter()
        .zip(&shards)
        .map(|(copy, shard)| [("shard", shard.as_str()), ("node", &copy.node)])
        .collect();
    for (name, help, number) in numbers {
        let rows: Vec<(&Labels<'_>, u64)> = labels
            .iter()
            .zip(copies)
            .map(|(labels, copy)| (&labels[..], number(copy)))
            .collect();
        sheet.family(name, help, MetricType::Gauge, &rows)?;
    }
    Ok(())
}

/// A shard, as its copies tell.
#[derive(Default)]
struct OfShard {
    in_sync: u64,
    joining: u64,
    is_served: bool,
    /// Copies in sync that a loss of power may take.
    volatile: u64,
}

/// Writes the state of each shard.
fn write_shards(sheet: &mut Sheet<'_>, copies: &[CopyOfShard]) -> fmt::Result {
    let mut shards: BTreeMap<u32, OfShard> = BTreeMap::new();
    for copy in copies {
        let shard = shards.entry(copy.shard).or_default();
        shard.is_served |= copy.part == CopyPart::Leads;
        match copy.part.is_in_sync() {
            true => {
                shard.in_sync += 1;
                shard.volatile += u64::from(!copy.survives_power);
            }
            false => shard.joining += 1,
        }
    }
    let names: Vec<String> = shards.keys().map(u32::to_string).collect();
    let labels: Vec<[(&str, &str); 1]> = names.iter().map(|name| [("shard", &**name)]).collect();
    let numbers: [(&str, &str, ShardNumber); 4] = [
        ("cluster_shard_copies_in_sync", "Copies in sync.", |shard| {
            shard.in_sync
        }),
        (
            "cluster_shard_copies_joining",
            "Copies that are filled, or wait for it.",
            |shard| shard.joining,
        ),
        (
            "cluster_shard_served",
            "Whether the primary serves the shard.",
            |shard| shard.is_served.into(),
        ),
        (
            "cluster_shard_power_durable",
            "Whether acknowledged writes survive power loss: the promise of the weakest copy.",
            |shard| (shard.in_sync > 0 && shard.volatile == 0).into(),
        ),
    ];
    for (name, help, number) in numbers {
        let rows: Vec<(&Labels<'_>, u64)> = labels
            .iter()
            .zip(shards.values())
            .map(|(labels, shard)| (&labels[..], number(shard)))
            .collect();
        sheet.family(name, help, MetricType::Gauge, &rows)?;
    }
    Ok(())
}

/// Writes the report of a node about its copies.
fn write_counts(sheet: &mut Sheet<'_>, copying: &Copying) -> fmt::Result {
    for (name, help, value) in [
        (
            "cluster_epoch",
            "Epoch of the configuration that the node knows.",
            copying.epoch,
        ),
        (
            "cluster_leads",
            "Shards that the node leads.",
            copying.leads,
        ),
        (
            "cluster_term_max",
            "Highest term of the shards that the node leads.",
            copying.term_max,
        ),
        (
            "cluster_copies",
            "Shards of which the node keeps a copy.",
            copying.copies,
        ),
        (
            "cluster_joins",
            "Shards of which the node is being filled.",
            copying.joins,
        ),
        (
            "cluster_peers",
            "Nodes that get entries from this one.",
            copying.peers,
        ),
        (
            "cluster_peers_linked",
            "Nodes that take entries now.",
            copying.peers_linked,
        ),
        (
            "cluster_behind_entries",
            "Entries that other copies have not reported.",
            copying.behind_entries,
        ),
        (
            "cluster_behind_entries_max",
            "Entries that the copy that lags most has not reported.",
            copying.behind_entries_max,
        ),
        (
            "cluster_replicas",
            "Copies of each shard by the policy.",
            copying.replicas,
        ),
        (
            "cluster_min_copies",
            "Copies in sync that a shard needs for writes.",
            copying.min_copies,
        ),
        (
            "cluster_primaries",
            "Shards whose primary the node is by the configuration.",
            copying.primaries,
        ),
        (
            "cluster_shards_short",
            "Of these, shards with fewer copies in sync than the policy names.",
            copying.short,
        ),
        (
            "cluster_shards_below_min",
            "Of these, shards with fewer copies in sync than writes need.",
            copying.below_min,
        ),
        (
            "cluster_fills",
            "Copies on other nodes that this node fills.",
            copying.fills,
        ),
        (
            "cluster_lease_left_nanoseconds",
            "Time until the first lease of these shards ends.",
            copying.lease_left_ns,
        ),
    ] {
        sheet.gauge(name, help, None, value)?;
    }
    write_copied_bytes(sheet, copying)
}

/// Writes the bytes that the copies of a node lack, and those that they have got.
fn write_copied_bytes(sheet: &mut Sheet<'_>, copying: &Copying) -> fmt::Result {
    for (name, help, value) in [
        (
            "cluster_unsettled",
            "Entries that are stamped and not on all copies.",
            copying.unsettled_bytes,
        ),
        (
            "cluster_fill_left",
            "Records that the copies being filled still lack, as an estimate.",
            copying.fill_left_bytes,
        ),
    ] {
        sheet.gauge(name, help, Some(&Unit::Bytes), value)?;
    }
    for (name, help, value) in [
        (
            "cluster_appended_bytes",
            "Bytes of entries that other nodes appended.",
            copying.appended_bytes,
        ),
        (
            "cluster_digested_bytes",
            "Bytes of records of other nodes, written to this node's log.",
            copying.digested_bytes,
        ),
        (
            "cluster_filled_bytes",
            "Bytes that copies being filled have received.",
            copying.filled_bytes,
        ),
        (
            "cluster_lost_copies",
            "Copies that were found to lack entries.",
            copying.lost,
        ),
        (
            "cluster_full_copies",
            "Copies that took no entry for too long and were dropped.",
            copying.full,
        ),
    ] {
        sheet.counter(name, help, value)?;
    }
    Ok(())
}
