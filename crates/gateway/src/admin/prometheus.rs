//! `/metrics`: counters in the text format that Prometheus reads.
//!
//! Operations carry the label `path`: `gateway` came through here, `one-sided` came from clients that use the store's
//! memory directly. Reads of the latter are counted by nobody: the server's processor takes no part in them.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use stonecast_store_direct::Stat;

use super::observer::Observer;
use crate::commands::COMMANDS;
use crate::counters::{BUCKETS, Counters, Kind, bucket_bound_seconds};

/// What the answer's head says it is.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text.
pub fn metrics(observer: &Observer) -> String {
    let mut registry = Registry::with_prefix("stonecast");
    registry.register_collector(Box::new(Snapshot::take(observer)));
    let mut text = String::new();
    text::encode(&mut text, &registry).expect("writing into a string does not fail");
    text
}

/// Everything that is reported, at one moment.
#[derive(Debug)]
struct Snapshot {
    is_ready: bool,
    uptime_seconds: f64,
    connections: u64,
    buffer_bytes: u64,
    threads: Vec<std::sync::Arc<Counters>>,
    stat: Option<Stat>,
}

type Labels<'a> = [(&'a str, &'a str)];

/// Writes metrics one by one.
struct Sheet<'e>(DescriptorEncoder<'e>);

impl Sheet<'_> {
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        ConstCounter::new(value).encode(self.0.encode_descriptor(name, help, None, MetricType::Counter)?)
    }

    fn gauge(&mut self, name: &str, help: &str, unit: Option<&Unit>, value: u64) -> fmt::Result {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        ConstGauge::new(value).encode(self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?)
    }

    /// One metric with several sets of labels.
    fn family(&mut self, name: &str, help: &str, kind: MetricType, rows: &[(&Labels<'_>, u64)]) -> fmt::Result {
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

impl Snapshot {
    fn take(observer: &Observer) -> Self {
        let shared = &observer.shared;
        let stat = observer.stat().ok();
        Self {
            is_ready: shared.is_ready() && stat.is_some(),
            uptime_seconds: shared.uptime().as_secs_f64(),
            connections: shared.connections() as u64,
            buffer_bytes: shared.memory.used() as u64,
            threads: shared.threads.clone(),
            stat,
        }
    }

    fn sum(&self, count: fn(&Counters) -> u64) -> u64 {
        self.threads.iter().map(|thread| count(thread)).sum()
    }

    fn write_gateway(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        sheet.gauge("ready", "Whether every thread serves and the store answers.", None, self.is_ready.into())?;
        sheet.gauge("gateway_uptime", "Since the gateway began.", Some(&Unit::Seconds), self.uptime_seconds as u64)?;
        sheet.gauge("gateway_connections", "Connections of clients now.", None, self.connections)?;
        sheet.gauge("gateway_buffer", "Requests and replies held in memory.", Some(&Unit::Bytes), self.buffer_bytes)?;
        let count = |count: fn(&Counters) -> u64| self.sum(count);
        for (name, help, value) in [
            ("gateway_connections_accepted", "Connections taken in.", count(|thread| thread.connections.get())),
            ("gateway_connections_refused", "Connections beyond the limit.", count(|thread| thread.connections_refused.get())),
            (
                "gateway_connections_cut",
                "Connections that took no replies or finished no request.",
                count(|thread| thread.connections_cut.get()),
            ),
            ("gateway_protocol_errors", "Connections that broke the protocol.", count(|thread| thread.protocol_errors.get())),
            ("gateway_wrong_passwords", "Wrong passwords.", count(|thread| thread.wrong_passwords.get())),
            ("gateway_error_replies", "Commands answered with an error.", count(|thread| thread.failures.get())),
            ("gateway_batches", "Pipelines, or what was done of them at once.", count(|thread| thread.batches.get())),
            ("gateway_received_bytes", "Bytes of requests.", count(|thread| thread.received_bytes.get())),
            ("gateway_sent_bytes", "Bytes of replies.", count(|thread| thread.sent_bytes.get())),
            (
                "gateway_conflicts",
                "Compare-and-writes that another client was faster than.",
                count(|thread| thread.conflicts.get()),
            ),
            ("gateway_round_trips", "Round trips to the store.", count(|thread| thread.round_trips.get())),
        ] {
            sheet.counter(name, help, value)?;
        }
        let labels: Vec<[(&str, &str); 1]> = COMMANDS.iter().map(|spec| [("command", spec.name)]).collect();
        let counts = |index: usize| self.threads.iter().map(|thread| thread.commands[index].get()).sum();
        let rows: Vec<(&Labels<'_>, u64)> =
            labels.iter().enumerate().map(|(index, labels)| (&labels[..], counts(index))).collect();
        sheet.family("gateway_commands", "Commands done.", MetricType::Counter, &rows)?;
        self.write_latencies(sheet)
    }

    fn write_latencies(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        let help = "From the arrival of a command to its reply, by what the command does to the store.";
        let mut family = sheet.0.encode_descriptor("gateway_latency", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for kind in Kind::ALL {
            let mut buckets = [0; BUCKETS];
            let mut sum_ns = 0;
            for thread in &self.threads {
                let histogram = &thread.latencies[kind as usize];
                histogram.counts().iter().zip(&mut buckets).for_each(|(count, bucket)| *bucket += count);
                sum_ns += histogram.sum_ns();
            }
            let count = buckets.iter().sum();
            let buckets: Vec<(f64, u64)> = (0..BUCKETS).map(bucket_bound_seconds).zip(buckets).collect();
            let labels = [("path", "gateway"), ("kind", kind.name())];
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum_ns as f64 / 1e9, count, &buckets, None)?;
        }
        Ok(())
    }

    fn write_store(&self, sheet: &mut Sheet<'_>, stat: &Stat) -> fmt::Result {
        let (puts, deletes) = (self.sum(|thread| thread.puts.get()), self.sum(|thread| thread.deletes.get()));
        let keys_read = self.sum(|thread| thread.keys_read.get());
        let operation = |path, name| [("path", path), ("operation", name)];
        sheet.family(
            "operations",
            "Keys read, written and deleted; one-sided reads are not seen by anybody.",
            MetricType::Counter,
            &[
                (&operation("gateway", "read"), keys_read),
                (&operation("gateway", "put"), puts),
                (&operation("gateway", "delete"), deletes),
                (&operation("one-sided", "put"), stat.puts.saturating_sub(puts)),
                (&operation("one-sided", "delete"), stat.deletes.saturating_sub(deletes)),
            ],
        )?;
        sheet.counter("store_batches", "Batches that the store committed.", stat.batches)?;
        sheet.counter("store_persists", "Times that the store made something durable: fences or syncs.", stat.persists)?;
        sheet.counter("store_refused", "Writes refused: conflict, absent, no space, invalid.", stat.refused)?;
        sheet.counter("store_sequence", "Sequence number of the latest write.", stat.sequence)?;
        for (name, help, unit, value) in [
            ("store_keys", "Keys present.", None, stat.keys),
            ("store_keys_max", "Keys that the index takes.", None, stat.keys_max),
            ("store_live", "Records of present keys.", Some(&Unit::Bytes), stat.live_bytes),
            ("store_used", "Log in use.", Some(&Unit::Bytes), stat.used_bytes),
            ("store_capacity", "The whole log.", Some(&Unit::Bytes), stat.capacity_bytes),
            ("store_segment", "One segment.", Some(&Unit::Bytes), stat.segment_size),
            ("store_clients", "Connected clients, threads of the gateway included.", None, stat.clients),
            ("store_leases", "Segments that somebody appends to.", None, stat.segments_taken),
            ("store_epoch", "Openings of the pool.", None, stat.epoch),
            ("store_power_durable", "Whether acknowledged writes survive power loss.", None, stat.power.into()),
        ] {
            sheet.gauge(name, help, unit, value)?;
        }
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

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut sheet = Sheet(encoder);
        self.write_gateway(&mut sheet)?;
        match &self.stat {
            Some(stat) => self.write_store(&mut sheet, stat),
            None => Ok(()),
        }
    }
}
