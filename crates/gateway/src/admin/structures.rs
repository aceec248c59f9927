//! The counts of a back-end of data structures, in both of their forms.

use std::fmt;

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use serde_json::{Value, json};
use stonecast::structures::{DomainState, Metrics, MirrorStat, StoreStat};

use super::prometheus::{Labels, Sheet};

/// One of the counts of a lock domain.
type DomainCount = fn(&DomainState) -> u64;

/// Writes the metrics of a back-end.
pub fn write(sheet: &mut Sheet<'_>, metrics: &Metrics) -> fmt::Result {
    let stat = &metrics.stat;
    sheet.family(
        "structures_tenures",
        "Tenures of writers, granted, ended, and ended because the writer was silent.",
        MetricType::Counter,
        &[
            (&[("event", "granted")], stat.tenures_granted),
            (&[("event", "ended")], stat.tenures_ended),
            (&[("event", "silent")], stat.tenures_silent),
        ],
    )?;
    for (name, help, value) in [
        (
            "structures_answers",
            "Answers of readers, as front-ends tell them.",
            stat.readers.answers,
        ),
        (
            "structures_retries",
            "Times that a reader began again because a place was changing.",
            stat.readers.retries,
        ),
    ] {
        sheet.counter(name, help, value)?;
    }
    let snapshot_age = stat.readers.snapshot_age_ns / 1_000_000_000;
    for (name, help, unit, value) in [
        (
            "structures_front_ends",
            "Connected front-ends; the admin port is one of them.",
            None,
            stat.front_ends,
        ),
        (
            "structures_damaged_domains",
            "Lock domains that are set aside because of damage.",
            None,
            stat.damaged,
        ),
        (
            "structures_oldest_snapshot",
            "Age of the oldest snapshot that a front-end has.",
            Some(&Unit::Seconds),
            snapshot_age,
        ),
        (
            "structures_capacity",
            "Memory for lock domains and their logs.",
            Some(&Unit::Bytes),
            stat.slabs * metrics.slab_size,
        ),
        (
            "structures_free",
            "Memory that no lock domain has.",
            Some(&Unit::Bytes),
            stat.free_slabs * metrics.slab_size,
        ),
        (
            "structures_quota",
            "Memory that a lock domain may have.",
            Some(&Unit::Bytes),
            stat.quota * metrics.slab_size,
        ),
    ] {
        sheet.gauge(name, help, unit, value)?;
    }
    if stat.mirror.exists() {
        write_mirror(sheet, &stat.mirror)?;
    }
    write_domains(sheet, &metrics.domains)
}

fn write_mirror(sheet: &mut Sheet<'_>, mirror: &MirrorStat) -> fmt::Result {
    for (name, help, unit, value) in [
        (
            "structures_generation",
            "Generation of a back-end with a mirror; it grows with each promotion and each detachment.",
            None,
            mirror.generation,
        ),
        (
            "structures_mirror_missing",
            "The part of the pool that a new mirror may lack; with 0, the mirror may be promoted.",
            Some(&Unit::Bytes),
            mirror.bytes_to_copy,
        ),
        (
            "structures_mirror_bound",
            "1 if nothing is acknowledged without the mirror, which may then be promoted.",
            None,
            mirror.is_bound.into(),
        ),
        (
            "structures_standing_waits",
            "1 if the store of the standing record is away or its record is another, so that binding and promotion wait.",
            None,
            (mirror.store == StoreStat::Waiting).into(),
        ),
        (
            "structures_mirror_batches",
            "Batches that were sent to the mirror and are not durable there.",
            None,
            mirror.batches_under_way,
        ),
        (
            "structures_mirror_silent",
            "Time since the request that the mirror has answered last.",
            Some(&Unit::Seconds),
            mirror.silent_ns / 1_000_000_000,
        ),
    ] {
        sheet.gauge(name, help, unit, value)?;
    }
    Ok(())
}

fn write_domains(sheet: &mut Sheet<'_>, domains: &[DomainState]) -> fmt::Result {
    let names: Vec<String> = domains.iter().map(name_of).collect();
    let labels: Vec<[(&str, &str); 1]> = names.iter().map(|name| [("domain", &**name)]).collect();
    let mut family = |name, help, kind, value: DomainCount| {
        let values = domains.iter().map(value);
        let rows: Vec<(&Labels<'_>, u64)> = labels
            .iter()
            .map(|labels| &labels[..])
            .zip(values)
            .collect();
        sheet.family(name, help, kind, &rows)
    };
    family(
        "structures_operations",
        "Operations of the lock domain that readers see, since the pool was made.",
        MetricType::Counter,
        |domain| domain.stat.published,
    )?;
    let gauges: [(&str, &str, DomainCount); 6] = [
        (
            "structures_tenure",
            "The tenure of the lock domain that lasts, or 0.",
            |domain| domain.stat.tenure.into(),
        ),
        (
            "structures_staged_operations",
            "Operations that are in the log and that no reader sees.",
            |domain| domain.stat.staged,
        ),
        (
            "structures_log_used_bytes",
            "The part of the log that a restart would read.",
            |domain| domain.stat.log_used,
        ),
        ("structures_log_bytes", "The whole log.", |domain| {
            domain.stat.log_size
        }),
        (
            "structures_memory_bytes",
            "Memory of the lock domain, its log left out.",
            |domain| domain.memory,
        ),
        (
            "structures_old_versions_bytes",
            "Memory of old versions, kept for readers of snapshots.",
            |domain| domain.old_versions,
        ),
    ];
    for (name, help, value) in gauges {
        family(name, help, MetricType::Gauge, value)?;
    }
    Ok(())
}

/// The label of a lock domain. Each has another one.
fn name_of(domain: &DomainState) -> String {
    match domain.name.is_empty() {
        true => format!("#{}", domain.number),
        false => domain.name.clone(),
    }
}

/// The back-end as a JSON object.
pub fn json(metrics: &Metrics) -> Value {
    let stat = &metrics.stat;
    let domains = metrics.domains.iter().map(|domain| {
        json!({
            "name": domain.name,
            "domain": domain.number,
            "tenure": domain.stat.tenure,
            "published": domain.stat.published,
            "staged": domain.stat.staged,
            "log_used": domain.stat.log_used,
            "log_size": domain.stat.log_size,
            "memory": domain.memory,
            "old_versions": domain.old_versions,
        })
    });
    json!({
        "front_ends": stat.front_ends,
        "damaged": stat.damaged,
        "tenures_granted": stat.tenures_granted,
        "tenures_ended": stat.tenures_ended,
        "tenures_silent": stat.tenures_silent,
        "answers": stat.readers.answers,
        "retries": stat.readers.retries,
        "snapshot_age_ns": stat.readers.snapshot_age_ns,
        "capacity_bytes": stat.slabs * metrics.slab_size,
        "free_bytes": stat.free_slabs * metrics.slab_size,
        "quota_bytes": stat.quota * metrics.slab_size,
        "mirror": mirror_json(&stat.mirror),
        "domains": domains.collect::<Vec<_>>(),
    })
}

/// The mirror; `null` without a mirror.
fn mirror_json(mirror: &MirrorStat) -> Value {
    if !mirror.exists() {
        return Value::Null;
    }
    json!({
        "generation": mirror.generation,
        "bytes_to_copy": mirror.bytes_to_copy,
        "batches_under_way": mirror.batches_under_way,
        "silent_ns": mirror.silent_ns,
        "is_bound": mirror.is_bound,
        "store": match mirror.store {
            StoreStat::None => "none",
            StoreStat::Reached => "reached",
            StoreStat::Waiting => "waiting",
        },
    })
}
