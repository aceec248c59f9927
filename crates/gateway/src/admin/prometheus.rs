//! `/metrics`: counters in the OpenMetrics text format; `exposition` converts it to the classic format.
//!
//! Operations on the store carry the label `path`: `gateway` for operations that came through the gateway, `one-sided`
//! for operations of clients that access the store's memory themselves. The clients report reads and round trips on
//! both paths; see `stonecast_kv`.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use stonecast_kv::{
    ClientPath, CopyOfShard, LATENCY_BUCKETS, Latencies, Metrics, PathMetrics, SAMPLE,
    latency_bound,
};

use super::observer::Report;
use super::{copies, structures};
use crate::commands::COMMANDS;
use crate::counters::{Counters, Kind};

/// Returns all metrics as OpenMetrics text. `copies` are those of the shards whose primary the node is.
pub fn metrics(report: &Report<'_>, copies: &[CopyOfShard]) -> String {
    let mut registry = Registry::with_prefix("stonecast");
    registry.register_collector(Box::new(Snapshot::take(report, copies)));
    let mut text = String::new();
    text::encode(&mut text, &registry).expect("writing into a string does not fail");
    text
}

/// The values of all metrics at one moment.
#[derive(Debug)]
struct Snapshot {
    is_ready: bool,
    uptime_seconds: f64,
    connections: u64,
    buffer_bytes: u64,
    threads: Vec<std::sync::Arc<Counters>>,
    store: Option<Metrics>,
    copies: Vec<CopyOfShard>,
    structures: Option<stonecast::structures::Metrics>,
}

pub(super) type Labels<'a> = [(&'a str, &'a str)];

/// One of the counts of a path.
type PathCount = fn(&PathMetrics) -> u64;

/// Writes metrics one by one.
pub(super) struct Sheet<'e>(DescriptorEncoder<'e>);

impl Sheet<'_> {
    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        ConstCounter::new(value).encode(self.0.encode_descriptor(
            name,
            help,
            None,
            MetricType::Counter,
        )?)
    }

    pub fn gauge(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        value: u64,
    ) -> fmt::Result {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        ConstGauge::new(value).encode(self.0.encode_descriptor(
            name,
            help,
            unit,
            MetricType::Gauge,
        )?)
    }

    /// Writes one metric with several sets of labels.
    pub fn family(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        rows: &[(&Labels<'_>, u64)],
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in rows {
            let row = family.encode_family(labels)?;
            match kind {
                MetricType::Counter => ConstCounter::new(*value).encode(row)?,
                _ => ConstGauge::new(i64::try_from(*value).unwrap_or(i64::MAX)).encode(row)?,
            }
        }
        Ok(())
    }
}

impl Sheet<'_> {
    /// Writes one metric of times with several sets of labels.
    fn histograms(
        &mut self,
        name: &str,
        help: &str,
        rows: &[(&Labels<'_>, &Latencies)],
    ) -> fmt::Result {
        let mut family =
            self.0
                .encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        let bound =
            |bucket| latency_bound(bucket).map_or(f64::INFINITY, |bound| bound as f64 / 1e9);
        for (labels, latencies) in rows {
            let buckets: Vec<(f64, u64)> = (0..LATENCY_BUCKETS)
                .map(bound)
                .zip(latencies.buckets)
                .collect();
            let sum = latencies.sum_ns as f64 / 1e9;
            family
                .encode_family(labels)?
                .encode_histogram::<NoLabelSet>(sum, latencies.count(), &buckets, None)?;
        }
        Ok(())
    }
}

impl Snapshot {
    fn take(report: &Report<'_>, copies: &[CopyOfShard]) -> Self {
        let shared = report.shared;
        let store = report.store.as_ref();
        let structures = report.structures.as_ref();
        Self {
            is_ready: shared.is_ready() && report.silent().is_none(),
            uptime_seconds: shared.uptime().as_secs_f64(),
            connections: shared.connections() as u64,
            buffer_bytes: shared.memory.used() as u64,
            // Passwords at the admin port count with those of the threads.
            threads: shared
                .threads
                .iter()
                .chain([&shared.admin])
                .cloned()
                .collect(),
            store: store.and_then(|counted| counted.as_ref().ok().copied()),
            copies: copies.to_vec(),
            structures: structures.and_then(|counted| counted.as_ref().ok().cloned()),
        }
    }

    fn sum(&self, count: fn(&Counters) -> u64) -> u64 {
        self.threads.iter().map(|thread| count(thread)).sum()
    }

    fn write_gateway(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        sheet.gauge(
            "ready",
            "Whether every thread serves, and store and back-end answer.",
            None,
            self.is_ready.into(),
        )?;
        sheet.gauge(
            "gateway_uptime",
            "Since the gateway began.",
            Some(&Unit::Seconds),
            self.uptime_seconds as u64,
        )?;
        sheet.gauge(
            "gateway_connections",
            "Connections of clients at the moment.",
            None,
            self.connections,
        )?;
        sheet.gauge(
            "gateway_newcomers",
            "Connections at the moment that are not authenticated.",
            None,
            self.sum(|thread| thread.newcomers.get()),
        )?;
        sheet.gauge(
            "gateway_buffer",
            "Requests and replies held in memory.",
            Some(&Unit::Bytes),
            self.buffer_bytes,
        )?;
        self.write_gateway_counts(sheet)?;
        self.write_commands(sheet)?;
        self.write_latencies(sheet)
    }

    fn write_gateway_counts(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        let count = |count: fn(&Counters) -> u64| self.sum(count);
        for (name, help, value) in [
            (
                "gateway_connections_accepted",
                "Connections accepted.",
                count(|thread| thread.connections.get()),
            ),
            (
                "gateway_connections_refused",
                "Connections refused because of the limit.",
                count(|thread| thread.connections_refused.get()),
            ),
            (
                "gateway_connections_cut",
                "Connections cut off, because they took no replies or finished no request.",
                count(|thread| thread.connections_cut.get()),
            ),
            (
                "gateway_newcomers_cut",
                "Newcomers that made way for newer newcomers.",
                count(|thread| thread.newcomers_cut.get()),
            ),
            (
                "gateway_passwords_delayed",
                "Passwords that waited for their turn because of wrong passwords before them.",
                count(|thread| thread.passwords_delayed.get()),
            ),
            (
                "gateway_protocol_errors",
                "Connections that broke the protocol.",
                count(|thread| thread.protocol_errors.get()),
            ),
            (
                "gateway_wrong_passwords",
                "Wrong passwords.",
                count(|thread| thread.wrong_passwords.get()),
            ),
            (
                "gateway_error_replies",
                "Commands answered with an error.",
                count(|thread| thread.failures.get()),
            ),
            (
                "gateway_batches",
                "Pipelines, or parts of pipelines that were done together.",
                count(|thread| thread.batches.get()),
            ),
            (
                "gateway_received_bytes",
                "Bytes of requests.",
                count(|thread| thread.received_bytes.get()),
            ),
            (
                "gateway_sent_bytes",
                "Bytes of replies.",
                count(|thread| thread.sent_bytes.get()),
            ),
            (
                "gateway_conflicts",
                "Compare-and-writes that lost against another client.",
                count(|thread| thread.conflicts.get()),
            ),
        ] {
            sheet.counter(name, help, value)?;
        }
        Ok(())
    }

    fn write_commands(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        let count = |count: fn(&Counters) -> u64| self.sum(count);
        sheet.family(
            "gateway_lookups",
            "Keys that commands looked up for their replies, found or not found.",
            MetricType::Counter,
            &[
                (&[("result", "hit")], count(|thread| thread.hits.get())),
                (&[("result", "miss")], count(|thread| thread.misses.get())),
            ],
        )?;
        let labels: Vec<[(&str, &str); 1]> = COMMANDS
            .iter()
            .map(|spec| [("command", spec.name)])
            .collect();
        let counts = |index: usize| {
            self.threads
                .iter()
                .map(|thread| thread.commands[index].get())
                .sum()
        };
        let rows: Vec<(&Labels<'_>, u64)> = labels
            .iter()
            .enumerate()
            .map(|(index, labels)| (&labels[..], counts(index)))
            .collect();
        sheet.family(
            "gateway_commands",
            "Commands done.",
            MetricType::Counter,
            &rows,
        )
    }

    fn write_latencies(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        let help = "Time from the arrival of a command to its reply, by the effect of the command on the store.";
        let all = Kind::ALL.map(|kind| {
            let mut sum = Latencies::default();
            self.threads
                .iter()
                .for_each(|thread| sum.add(&thread.latencies[kind as usize].latencies()));
            ([("path", "gateway"), ("kind", kind.name())], sum)
        });
        sheet.histograms(
            "gateway_latency",
            help,
            &all.each_ref()
                .map(|(labels, latencies)| (&labels[..], latencies)),
        )
    }

    fn write_paths(&self, sheet: &mut Sheet<'_>, store: &Metrics) -> fmt::Result {
        let paths = [
            (ClientPath::OneSided, &store.one_sided),
            (ClientPath::Gateway, &store.gateway),
        ];
        let by_operation =
            |name, help, operations: &[(&'static str, PathCount)], sheet: &mut Sheet<'_>| {
                let rows: Vec<([(&str, &str); 2], u64)> = paths
                    .iter()
                    .flat_map(|(path, counts)| {
                        operations.iter().map(|(operation, count)| {
                            (
                                [("path", path.name()), ("operation", *operation)],
                                count(counts),
                            )
                        })
                    })
                    .collect();
                let rows: Vec<(&Labels<'_>, u64)> = rows
                    .iter()
                    .map(|(labels, value)| (&labels[..], *value))
                    .collect();
                sheet.family(name, help, MetricType::Counter, &rows)
            };
        by_operation(
            "operations",
            "Keys read, put and deleted, and writes refused (conflict, absent, no space, invalid).",
            &[
                ("read", |path| path.reads),
                ("put", |path| path.puts),
                ("delete", |path| path.deletes),
                ("refused", |path| path.refused),
            ],
            sheet,
        )?;
        by_operation(
            "operation_bytes",
            "Bytes that READs fetched, index included, and bytes of records written.",
            &[
                ("read", |path| path.read_bytes),
                ("write", |path| path.written_bytes),
            ],
            sheet,
        )?;
        let labels = paths.map(|(path, _)| [("path", path.name())]);
        let rows = [0, 1].map(|index| (&labels[index][..], paths[index].1.location_hits));
        sheet.family(
            "location_hits",
            "Keys read by their remembered places.",
            MetricType::Counter,
            &rows,
        )?;
        let rows = [0, 1].map(|index| (&labels[index][..], paths[index].1.round_trips));
        sheet.family(
            "round_trips",
            "Round trips of the fabric.",
            MetricType::Counter,
            &rows,
        )?;
        let rows = [0, 1].map(|index| (&labels[index][..], paths[index].1.clients));
        let help = "Connected clients; each thread of a gateway counts as one, and so does its admin port.";
        sheet.family("clients", help, MetricType::Gauge, &rows)?;
        write_call_latencies(sheet, &paths)
    }

    fn write_store(&self, sheet: &mut Sheet<'_>, store: &Metrics) -> fmt::Result {
        self.write_paths(sheet, store)?;
        let stat = &store.stat;
        write_store_counters(sheet, store)?;
        write_store_gauges(sheet, store)?;
        self.write_copies(sheet, store)?;
        sheet.family(
            "store_segments",
            "Segments of the log, by state.",
            MetricType::Gauge,
            &[
                (&[("state", "free")], stat.segments_free),
                (&[("state", "partial")], stat.segments_partial),
                (&[("state", "taken")], stat.segments_taken),
                (&[("state", "full")], stat.segments_full),
            ],
        )
    }
}

impl Snapshot {
    /// Writes the counts of a node of a cluster. A server without a cluster has none.
    fn write_copies(&self, sheet: &mut Sheet<'_>, store: &Metrics) -> fmt::Result {
        // The classic format has no ratio of its own: a gauge of thousandths.
        let thousandths = (store.write_amplification() * 1000.0).round() as u64;
        let help =
            "Bytes written to the log for 1000 bytes of records that clients and other nodes gave.";
        sheet.gauge(
            "store_write_amplification_thousandths",
            help,
            None,
            thousandths,
        )?;
        let copying = &store.copying;
        if copying.epoch == 0 {
            return Ok(());
        }
        copies::write(sheet, copying, &self.copies)
    }
}

/// Writes the times of calls that clients of each path have measured.
fn write_call_latencies(
    sheet: &mut Sheet<'_>,
    paths: &[(ClientPath, &PathMetrics)],
) -> fmt::Result {
    let help =
        format!("Time of calls of the store, measured by its clients for one call in {SAMPLE}.");
    let rows: Vec<([(&str, &str); 2], &Latencies)> = paths
        .iter()
        .flat_map(|(path, counts)| {
            let labels = |operation| [("path", path.name()), ("operation", operation)];
            [
                (labels("read"), &counts.read_latencies),
                (labels("write"), &counts.write_latencies),
            ]
        })
        .collect();
    let rows: Vec<(&Labels<'_>, &Latencies)> = rows
        .iter()
        .map(|(labels, latencies)| (&labels[..], *latencies))
        .collect();
    sheet.histograms("latency", &help, &rows)
}

/// Writes the work of the store since its start.
fn write_store_counters(sheet: &mut Sheet<'_>, store: &Metrics) -> fmt::Result {
    let stat = &store.stat;
    for (name, help, value) in [
        (
            "store_batches",
            "Batches that the store committed.",
            stat.batches,
        ),
        (
            "store_persists",
            "Times that a batch was made durable.",
            stat.persists,
        ),
        (
            "store_write_backs",
            "Cache lines written back to persistent memory.",
            store.write_backs,
        ),
        ("store_fences", "Fences after write-backs.", store.fences),
        ("store_syncs", "Syncs of files.", store.syncs),
        (
            "store_sequence",
            "Sequence number of the latest write.",
            stat.sequence,
        ),
        (
            "store_cleaned_segments",
            "Segments that were cleaned and made free.",
            store.cleaning.segments,
        ),
        (
            "store_moved_records",
            "Records moved by cleaning.",
            store.cleaning.moved_records,
        ),
        (
            "store_moved_bytes",
            "Bytes of records moved by cleaning.",
            store.cleaning.moved_bytes,
        ),
        (
            "store_written_bytes",
            "Bytes of records written by clients.",
            store.cleaning.written_bytes,
        ),
        (
            "store_abandoned_segments",
            "Segments not cleaned because of damage.",
            store.cleaning.abandoned,
        ),
        (
            "store_reclaimed_leases",
            "Unused leases taken back for lack of space.",
            store.cleaning.reclaimed_leases,
        ),
    ] {
        sheet.counter(name, help, value)?;
    }
    Ok(())
}

/// Writes the present state of the store.
fn write_store_gauges(sheet: &mut Sheet<'_>, store: &Metrics) -> fmt::Result {
    let stat = &store.stat;
    for (name, help, unit, value) in [
        ("store_keys", "Keys present.", None, stat.keys),
        (
            "store_live",
            "Records of present keys.",
            Some(&Unit::Bytes),
            stat.live_bytes,
        ),
        (
            "store_used",
            "Log in use.",
            Some(&Unit::Bytes),
            stat.used_bytes,
        ),
        (
            "store_capacity",
            "The whole log.",
            Some(&Unit::Bytes),
            stat.capacity_bytes,
        ),
        (
            "store_tombstones",
            "Records of deletes.",
            Some(&Unit::Bytes),
            store.cleaning.tombstone_bytes,
        ),
        (
            "store_segment",
            "One segment.",
            Some(&Unit::Bytes),
            stat.segment_size,
        ),
        (
            "store_leases",
            "Extents of the log that clients may append to.",
            None,
            store.leases,
        ),
        (
            "store_openings",
            "Openings of the pool.",
            None,
            stat.opening,
        ),
        (
            "store_power_durable",
            "Whether acknowledged writes survive power loss.",
            None,
            stat.power.into(),
        ),
    ] {
        sheet.gauge(name, help, unit, value)?;
    }
    Ok(())
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut sheet = Sheet(encoder);
        self.write_gateway(&mut sheet)?;
        if let Some(store) = &self.store {
            self.write_store(&mut sheet, store)?;
        }
        match &self.structures {
            Some(metrics) => structures::write(&mut sheet, metrics),
            None => Ok(()),
        }
    }
}
