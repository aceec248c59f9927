//! The demands of this project on `kv`, judged by the figures of the paper.

use super::sustained::{self, THREE};
use super::threads::{self, PUBLISHED};
use super::{learned, passive};
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
    for (series, nodes) in [(THREE, "three nodes a server"), ("kv", "one node a server")] {
        for (figure, value, bar) in [
            (sustained::PUT_MEDIAN, "median latency", 0.95),
            (sustained::PUT_P99, "99th percentile", 1.0),
        ] {
            bars.push(latency(points, figure, series, (value, nodes, bar)));
        }
    }
    let busy = points.at(threads::BUSY, "kv", "0");
    let busy = busy.expect("a point of the figure");
    bars.push(Demand {
        what: format!(
            "processor of a server, GETs alone (*{}*); a test of `stonecast-lab` counts none at all for a GET",
            threads::BUSY
        ),
        demanded: "0 %",
        found: format!("{busy:.2} %, leases and the search for entries"),
        is_met: busy < 0.1,
    });
    bars
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
    series: &'static str,
    (value, nodes, bar): (&str, &str, f64),
) -> Demand {
    let of = |clients: u32| {
        let clients = clients.to_string();
        threads::of_rowan(points, figure, (series, &clients))
    };
    let ratios = threads::CLIENTS.map(of);
    let found = ratios.map(|ratio| format!("{ratio:.2}")).join(", ");
    Demand {
        what: format!(
            "{value} of PUT over 6 ms with 8, 24, 48 and 144 clients, {nodes}: kv to rowan-kv (*{figure}*)"
        ),
        demanded: if bar < 1.0 { "0.95" } else { "1.00" },
        found,
        is_met: ratios.iter().all(|ratio| *ratio <= bar),
    }
}
