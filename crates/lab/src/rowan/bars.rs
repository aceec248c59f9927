//! The demands of this project on `kv`, judged by the figures of the paper.

use super::sustained::{self, THREE};
use super::threads::{self, PUBLISHED};
use super::{cleaning_threads, learned, passive};
use crate::papers::{Demand, Points};

/// The figures that have `kv` with three nodes a server, and what they go by.
const OF_THREE: [(&str, &str); 1] = [(threads::MIXES, "percent of PUTs")];
/// The figures that have `kv` with one node a server.
const OF_ONE: [(&str, &str); 5] = [
    (threads::THROUGHPUT, "clients"),
    (threads::MIXES, "percent of PUTs"),
    (threads::OBJECTS, "objects"),
    (threads::OBJECTS_MIXES, "objects and percent of PUTs"),
    (threads::BY_COPIES, "copies"),
];

/// The bars, each with the place where `kv` is furthest from it.
pub(super) fn bars(points: &Points) -> Vec<Demand> {
    let mut bars = Vec::new();
    for (series, nodes, figures) in [
        (THREE, "three nodes", &OF_THREE[..]),
        ("kv", "one node", &OF_ONE),
    ] {
        for (figure, by) in figures {
            let what = format!(
                "throughput by {by}, {nodes} a server: kv to the best published design with worker threads (*{figure}*)"
            );
            bars.push(at_least_as_fast(
                what,
                least(points, figure, series, PUBLISHED),
            ));
        }
        let what = format!(
            "throughput over 6 ms by clients, {nodes} a server: kv to rowan-kv (*{}*)",
            sustained::THROUGHPUT
        );
        bars.push(at_least_as_fast(
            what,
            least(points, sustained::THROUGHPUT, series, &["rowan-kv"]),
        ));
        let what = format!(
            "throughput by percent of PUTs, {nodes} a server: kv to clover-like (*{}*)",
            passive::MIXES
        );
        bars.push(at_least_as_fast(
            what,
            least(points, passive::MIXES, series, &[passive::OPENED]),
        ));
    }
    let learned = least(points, passive::MIXES, learned::LEARNED, &[passive::OPENED]);
    bars.push(at_least_as_fast(
        "throughput by percent of PUTs, one node a server and clients that know the places of their keys: kv to clover-like".to_owned(),
        learned,
    ));
    bars.push(at_least_as_fast(
        format!(
            "throughput by clients, one node a server: kv to clover-like (*{}*)",
            passive::THROUGHPUT
        ),
        least(points, passive::THROUGHPUT, "kv", &[passive::OPENED]),
    ));
    bars.push(at_least_as_fast(
        format!(
            "throughput by the memory of a server, one node a server: kv to rowan-kv (*{}*)",
            cleaning_threads::THROUGHPUT
        ),
        least(points, cleaning_threads::THROUGHPUT, "kv", &["rowan-kv"]),
    ));
    bars.extend(latencies(points));
    bars.extend([("kv", "one node"), (THREE, "three nodes")].map(|of| busy(points, of)));
    bars.push(Demand {
        what: "the whole paper on two cores (`time stonecast-lab figure rowan --out DIR`, a release build, 2026-12-01)"
            .to_owned(),
        demanded: "5:00",
        found: format!(
            "{}:{:02} without other programs, and {PROCESSORS_S} s of the processors; *{}* is not in it, and takes 25 s of the processors",
            PAPER_S / 60,
            PAPER_S % 60,
            cleaning_threads::THROUGHPUT
        ),
        is_met: PAPER_S < 300,
    });
    bars
}

/// Seconds for the whole paper, and those of the processors. No test asserts a time: the page says when it was taken.
const PAPER_S: u32 = 215;
const PROCESSORS_S: u32 = 389;

/// The latencies of PUT, those over 6 ms first.
fn latencies(points: &Points) -> Vec<Demand> {
    const ROWAN: &str = "rowan-kv";
    const MEDIAN: (&str, f64) = ("median latency", 0.95);
    const P99: (&str, f64) = ("99th percentile", 1.0);
    let mut bars = Vec::new();
    for (series, nodes) in [(THREE, "three nodes a server"), ("kv", "one node a server")] {
        for (figure, (value, bar)) in [(sustained::PUT_MEDIAN, MEDIAN), (sustained::PUT_P99, P99)] {
            let what = format!("{value} of PUT over 6 ms");
            bars.push(latency(
                points,
                figure,
                [series, ROWAN],
                (&what, nodes, bar),
            ));
        }
    }
    for (figure, rival, (value, bar)) in [
        (threads::PUT_MEDIAN, ROWAN, MEDIAN),
        (threads::PUT_P99, ROWAN, P99),
        (passive::PUT_MEDIAN, passive::OPENED, (MEDIAN.0, 1.0)),
        (passive::PUT_P99, passive::OPENED, P99),
    ] {
        let what = format!("{value} of PUT over 0.3 ms");
        let demand = (&what[..], "one node a server", bar);
        bars.push(latency(points, figure, ["kv", rival], demand));
    }
    bars
}

/// The part of the time in which the nodes of a server work while clients read.
fn busy(points: &Points, (series, nodes): (&'static str, &str)) -> Demand {
    let at = |figure, x| {
        let value = points.at(figure, series, x);
        value.expect("a point of the figure")
    };
    let shortly = at(threads::BUSY, "0");
    let over_6_ms = at(sustained::BUSY, "144");
    Demand {
        what: format!(
            "processor of a server with {nodes}, GETs alone (*{}*, *{}*); tests count no request and no time of a node for a GET",
            threads::BUSY,
            sustained::BUSY
        ),
        demanded: "0 %",
        found: format!(
            "{shortly:.2} % of 0.3 ms, {over_6_ms:.2} % of 6 ms: leases, and turns of the nodes"
        ),
        is_met: shortly.max(over_6_ms) < 0.1,
    }
}

/// The least throughput of `series` in multiples of the best of `rivals`, and its place, of the places that have one.
fn least(points: &Points, figure: &str, series: &str, rivals: &[&str]) -> (f64, String) {
    let ratio = |x: String| {
        let rivals = rivals
            .iter()
            .filter_map(|rival| points.at(figure, rival, &x));
        let best = rivals.fold(0.0, f64::max);
        let ours = points.at(figure, series, &x)?;
        Some((ours / best, x))
    };
    let ratios = points.places(figure).into_iter().filter_map(ratio);
    let least = ratios.min_by(|(one, _), (other, _)| one.total_cmp(other));
    least.expect("a figure with a place")
}

fn at_least_as_fast(what: String, (ratio, x): (f64, String)) -> Demand {
    Demand {
        what,
        demanded: "1.00 x",
        found: format!("{ratio:.2} x ({x})"),
        is_met: ratio >= 1.0,
    }
}

fn latency(
    points: &Points,
    figure: &str,
    [series, rival]: [&str; 2],
    (value, nodes, bar): (&str, &str, f64),
) -> Demand {
    let of = |clients: u32| {
        let at = |series| points.at(figure, series, &clients.to_string());
        let both = at(series).zip(at(rival));
        let (ours, theirs) = both.expect("points of the figure");
        ours / theirs
    };
    let ratios = threads::CLIENTS.map(of);
    let found = ratios.map(|ratio| format!("{ratio:.2}")).join(", ");
    Demand {
        what: format!(
            "{value} with 8, 24, 48 and 144 clients, {nodes}: kv to {rival} (*{figure}*)"
        ),
        demanded: if bar < 1.0 { "0.95" } else { "1.00" },
        found,
        is_met: ratios.iter().all(|ratio| *ratio <= bar),
    }
}
