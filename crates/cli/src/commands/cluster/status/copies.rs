//! The copies that lag, and those that are filled, as the primaries of their shards tell of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use stonecast::metrics::{CopyOfShard, CopyPart};
use stonecast_cluster::Configuration;

use super::asked::Asked;
use super::words::{counted, list};
use crate::output;

/// The most lines about single copies that lag, and about single copies that are filled.
const LINES_MAX: usize = 8;
/// A copy lags if a write waits for the copy for so long, or for a lease that is shorter.
const LAG_NS: u64 = 100_000_000;

/// A copy of a shard, as the primary of the shard sees it.
#[derive(Serialize)]
pub struct CopyReport {
    shard: u32,
    node: String,
    part: &'static str,
    survives: &'static str,
    behind_entries: u64,
    behind_bytes: u64,
    waits_ns: u64,
    silent_ns: u64,
    filled_bytes: u64,
    left_bytes: u64,
    lags: bool,
    #[serde(skip)]
    kind: CopyPart,
}

impl CopyReport {
    /// The report of a copy in a cluster whose leases have this length.
    pub fn of(copy: CopyOfShard, lease_ns: u64) -> Self {
        let is_slow = copy.waits_ns > lease_ns.min(LAG_NS);
        let is_silent = copy.silent_ns > lease_ns;
        Self {
            lags: copy.part.is_in_sync() && (is_slow || is_silent),
            shard: copy.shard,
            node: copy.node,
            part: copy.part.name(),
            survives: if copy.survives_power {
                "power"
            } else {
                "process"
            },
            behind_entries: copy.behind_entries,
            behind_bytes: copy.behind_bytes,
            waits_ns: copy.waits_ns,
            silent_ns: copy.silent_ns,
            filled_bytes: copy.filled_bytes,
            left_bytes: copy.left_bytes,
            kind: copy.part,
        }
    }

    fn is_silent(&self, lease_ns: u64) -> bool {
        self.lags && self.silent_ns > lease_ns
    }

    fn is_joining(&self) -> bool {
        matches!(self.kind, CopyPart::Filled | CopyPart::Waits)
    }
}

/// The lines about copies.
pub fn lines(configuration: &Configuration, asked: &[Asked]) -> Vec<String> {
    let lease_ns = configuration.policy.lease.duration_ns;
    let copies: Vec<_> = asked.iter().flat_map(|one| &one.copies).collect();
    let mut lines = silent(&copies, lease_ns);
    lines.extend(slow(&copies, lease_ns));
    lines.extend(untold(configuration, asked));
    if lines.is_empty() && !copies.is_empty() {
        lines.push("no copy lags".to_owned());
    }
    lines.extend(joining(configuration, &copies));
    lines
}

/// Copies whose nodes do not answer, node by node. The longest silence comes first.
fn silent(copies: &[&CopyReport], lease_ns: u64) -> Vec<String> {
    let mut nodes: BTreeMap<&str, (u64, Vec<u32>)> = BTreeMap::new();
    for copy in copies.iter().filter(|copy| copy.is_silent(lease_ns)) {
        let (silent_ns, shards) = nodes.entry(&copy.node).or_default();
        *silent_ns = copy.silent_ns.max(*silent_ns);
        shards.push(copy.shard);
    }
    let mut nodes: Vec<_> = nodes.into_iter().collect();
    nodes.sort_by_key(|(_, (silent_ns, _))| Reverse(*silent_ns));
    let line = |(node, (silent_ns, shards)): (&str, (u64, Vec<u32>))| {
        format!(
            "{} on {node} lags: {node} has not answered for {}. {} no writes until {node} answers or is removed.",
            of_shards("the copy", shards.clone()),
            time(silent_ns),
            if shards.len() == 1 {
                "The shard takes"
            } else {
                "These shards take"
            }
        )
    };
    nodes.into_iter().map(line).collect()
}

/// Copies for which writes wait. The longest wait comes first.
fn slow(copies: &[&CopyReport], lease_ns: u64) -> Vec<String> {
    let lagging = copies.iter().copied();
    let mut lagging: Vec<_> = lagging
        .filter(|copy| copy.lags && !copy.is_silent(lease_ns))
        .collect();
    lagging.sort_by_key(|copy| Reverse(copy.waits_ns));
    let line = |copy: &&CopyReport| {
        format!(
            "the copy of shard {} on {} lags by {}, {}: a write has waited for {}",
            copy.shard,
            copy.node,
            counted(copy.behind_entries as usize, "entry", "entries"),
            output::size(copy.behind_bytes),
            time(copy.waits_ns)
        )
    };
    bounded(&lagging, line, "more copies lag")
}

/// Shards of which nobody told, because their primary does not answer.
fn untold(configuration: &Configuration, asked: &[Asked]) -> Vec<String> {
    let overview = configuration.overview();
    let silent = asked.iter().filter(|one| one.is_asked && !one.answers);
    let line = |one: &Asked| {
        let led = overview.placements.iter();
        let led = led.filter(|placement| placement.group.primary == one.name);
        let shards: Vec<u32> = led
            .flat_map(|placement| placement.shards.iter().cloned().flatten())
            .collect();
        (!shards.is_empty()).then(|| {
            format!(
                "{} is unknown: the primary, {}, does not answer",
                of_shards("the lag", shards),
                one.name
            )
        })
    };
    silent.filter_map(line).collect()
}

/// Copies that are filled, and those that wait for it. What is left most comes first.
fn joining(configuration: &Configuration, copies: &[&CopyReport]) -> Vec<String> {
    let joining = copies.iter().copied().filter(|copy| copy.is_joining());
    let (mut filled, waiting): (Vec<_>, Vec<_>) =
        joining.partition(|copy| copy.kind == CopyPart::Filled);
    filled.sort_by_key(|copy| Reverse(copy.left_bytes));
    let line = |copy: &&CopyReport| {
        let group = configuration.groups.get(copy.shard as usize);
        let leaving = group.map(|group| list(&group.leaving)).unwrap_or_default();
        let moves = match leaving.as_str() {
            "" => String::new(),
            leaving => format!(", in place of {leaving}"),
        };
        let all = copy.filled_bytes + copy.left_bytes;
        let share = (copy.filled_bytes * 100).checked_div(all).unwrap_or(0);
        format!(
            "shard {} is copied to {}{moves}: {} so far, about {} left ({share} %)",
            copy.shard,
            copy.node,
            output::size(copy.filled_bytes),
            output::size(copy.left_bytes)
        )
    };
    let mut lines = bounded(&filled, line, "more copies are filled");
    if !waiting.is_empty() {
        lines.push(format!(
            "{} to be filled: each primary fills a few at a time",
            counted(waiting.len(), "copy waits", "copies wait")
        ));
    }
    lines
}

/// A line for each of the first copies, and one for all others.
fn bounded(
    copies: &[&CopyReport],
    line: impl Fn(&&CopyReport) -> String,
    more: &str,
) -> Vec<String> {
    let mut lines: Vec<_> = copies.iter().take(LINES_MAX).map(line).collect();
    let hidden = copies.len().saturating_sub(LINES_MAX);
    if hidden > 0 {
        lines.push(format!("{hidden} {more}: --json has all of them"));
    }
    lines
}

fn of_shards(what: &str, mut shards: Vec<u32>) -> String {
    shards.sort_unstable();
    let word = if shards.len() == 1 { "shard" } else { "shards" };
    format!("{what} of {word} {}", ranges(&shards))
}

/// Numbers in ascending order, as ranges.
fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|before, number| before + 1 == *number);
    list(runs.map(|run| match run {
        [one] => one.to_string(),
        run => format!("{}-{}", run[0], run[run.len() - 1]),
    }))
}

/// A time, to the millisecond.
fn time(nanoseconds: u64) -> impl std::fmt::Display {
    humantime::format_duration(Duration::from_millis(nanoseconds / 1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE_NS: u64 = 100_000_000;

    fn copy(shard: u32, node: &str) -> CopyOfShard {
        CopyOfShard {
            shard,
            node: node.to_owned(),
            part: CopyPart::InSync,
            survives_power: true,
            behind_entries: 0,
            behind_bytes: 0,
            waits_ns: 0,
            silent_ns: 0,
            filled_bytes: 0,
            left_bytes: 0,
        }
    }

    fn reports(copies: impl IntoIterator<Item = CopyOfShard>) -> Vec<CopyReport> {
        let copies = copies.into_iter();
        copies.map(|copy| CopyReport::of(copy, LEASE_NS)).collect()
    }

    #[test]
    fn entries_in_flight_are_no_lag_and_a_write_that_waits_is_one() {
        let in_flight = CopyOfShard {
            behind_entries: 16,
            waits_ns: 5_000_000,
            ..copy(3, "b")
        };
        let slow = CopyOfShard {
            behind_entries: 2,
            behind_bytes: 2048,
            waits_ns: 300_000_000,
            ..copy(4, "c")
        };
        let filled = CopyOfShard {
            part: CopyPart::Filled,
            silent_ns: 900_000_000,
            ..copy(5, "d")
        };
        let reports = reports([in_flight, slow, filled]);
        let reports: Vec<_> = reports.iter().collect();
        assert_eq!(
            slow_and_silent(&reports),
            ["the copy of shard 4 on c lags by 2 entries, 2 KiB: a write has waited for 300ms"]
        );
    }

    fn slow_and_silent(reports: &[&CopyReport]) -> Vec<String> {
        let mut lines = silent(reports, LEASE_NS);
        lines.extend(slow(reports, LEASE_NS));
        lines
    }

    #[test]
    fn a_silent_node_is_one_line_with_all_of_its_shards_and_the_longest_silence_comes_first() {
        let silent = |shard, node, seconds: u64| CopyOfShard {
            silent_ns: seconds * 1_000_000_000,
            ..copy(shard, node)
        };
        let reports = reports([
            silent(7, "b", 1),
            silent(0, "c", 2),
            silent(1, "c", 2),
            silent(4, "c", 2),
            copy(2, "c"),
        ]);
        let lines = slow_and_silent(&reports.iter().collect::<Vec<_>>());
        assert!(
            lines[0].starts_with("the copy of shards 0-1, 4 on c lags: c has not answered for 2s."),
            "{lines:?}"
        );
        assert!(
            lines[1].starts_with("the copy of shard 7 on b"),
            "{lines:?}"
        );
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn many_copies_that_lag_are_cut_on_the_screen_behind_those_that_lag_most() {
        let slow = |shard| CopyOfShard {
            waits_ns: 200_000_000 + u64::from(shard) * 1_000_000,
            ..copy(shard, "b")
        };
        let reports = reports((0..20).map(slow));
        let lines = slow_and_silent(&reports.iter().collect::<Vec<_>>());
        assert_eq!(lines.len(), LINES_MAX + 1);
        assert!(lines[0].contains("shard 19 "), "{lines:?}");
        assert_eq!(
            lines[LINES_MAX],
            "12 more copies lag: --json has all of them"
        );
    }
}
