//! The median PUT of a rival apart from the load at which it is taken: at equal throughput in place of equal clients,
//! and beside other parts of the PUTs.
//!
//! In a closed loop, clients, throughput and mean latency are one equation, so a ratio of latencies at equal clients
//! adds nothing to the ratio of throughputs. Where stores have equal throughput, their latencies are independent.

use stonecast_published::rowan::Replication;
use stonecast_workload::Distribution;

use super::appends::rounded;
use super::cases::{CLIENTS, outcomes};
use super::contest::{KvLoad, KvOutcome};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

/// The median at the throughput of the rival.
const AT_RATE: &str = "rowan-causes-put-rate";
/// The latency of other parts of the PUTs.
const PARTS: &str = "rowan-causes-put-parts";

const RPC: &str = "rpc-kv";
const WRITE: &str = "rwrite-kv";
const RPC_EVEN: &str = "rpc-kv, keys equally likely";
const WRITE_EVEN: &str = "rwrite-kv, keys equally likely";

/// The figures.
pub(super) static FIGURES: [Figure; 2] = [
    Figure {
        axes: Axes {
            name: AT_RATE,
            title: "Median latency of PUT of a rival in multiples of that of Rowan-KV at the throughput of the rival, by clients of the rival",
            x_title: "clients of the rival",
            unit: "x",
            series: &[RPC, WRITE, RPC_EVEN, WRITE_EVEN],
            published: nothing_published,
        },
        measure: Measure::Time(at_rate),
        picture: Picture::None,
        section: Section::Standard,
    },
    Figure {
        axes: Axes {
            name: PARTS,
            title: "Latency of PUT of RWrite-KV in multiples of Rowan-KV's with as many clients, by the part of the PUTs that take no longer; 1152 clients",
            x_title: "part of the PUTs",
            unit: "x",
            series: &[WRITE, WRITE_EVEN],
            published: nothing_published,
        },
        measure: Measure::Time(parts),
        picture: Picture::None,
        section: Section::Standard,
    },
];

/// Clients of a rival.
const RIVALS: [u32; 4] = [288, 576, 1152, 2304];
/// Clients of Rowan-KV that reach the throughput of any rival's clients.
const ROWAN: [u32; 4] = [144, 288, 576, 1152];
/// The distributions of keys, with the series of both rivals.
const KEYS: [(Distribution, [&str; 2]); 2] = [
    (Distribution::ScrambledZipfian, [RPC, WRITE]),
    (Distribution::Uniform, [RPC_EVEN, WRITE_EVEN]),
];

fn load(replication: Replication, clients: u32, keys: Distribution) -> KvLoad {
    KvLoad {
        clients,
        keys,
        ..KvLoad::usual(replication)
    }
}

fn at_rate(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let mut samples = Vec::new();
    for (keys, series) in KEYS {
        let measured = |runs: &mut Runs, replication, clients: &[u32]| {
            let loads = clients
                .iter()
                .map(|&clients| load(replication, clients, keys));
            outcomes(runs, &loads.collect::<Vec<_>>())
        };
        let rowan = measured(runs, Replication::Append, &ROWAN)?;
        let known = rowan.iter().map(rate_and_median);
        let known: Vec<(f64, f64)> = known.collect();
        for (series, rival) in series
            .into_iter()
            .zip([Replication::Rpc, Replication::Write])
        {
            let outcomes = measured(runs, rival, &RIVALS)?;
            let of_each = RIVALS.iter().zip(&outcomes);
            samples.extend(of_each.map(|(clients, outcome)| {
                let (rate, median) = rate_and_median(outcome);
                Sample {
                    series,
                    x: clients.to_string(),
                    y: rounded(median / median_at(rate, &known)),
                }
            }));
        }
    }
    Ok(samples)
}

/// Million operations a second, and the median latency of PUT.
fn rate_and_median(outcome: &KvOutcome) -> (f64, f64) {
    (outcome.million_a_second(), outcome.put_us(0.5))
}

/// The median at `rate`, on the line between the two known points around it. Rates ascend. Below the first point and
/// above the last one, the median is that of the point.
fn median_at(rate: f64, known: &[(f64, f64)]) -> f64 {
    let above = known.partition_point(|&(known, _)| known < rate);
    let Some(&(high, to)) = known.get(above) else {
        return known.last().expect("a point is known").1;
    };
    let Some(&(low, from)) = above.checked_sub(1).and_then(|below| known.get(below)) else {
        return to;
    };
    from + (to - from) * (rate - low) / (high - low)
}

fn parts(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    type Part = (&'static str, fn(&KvOutcome) -> f64);
    const PARTS: [Part; 5] = [
        ("25 %", |outcome| outcome.put_us(0.25)),
        ("50 %", |outcome| outcome.put_us(0.5)),
        ("75 %", |outcome| outcome.put_us(0.75)),
        ("90 %", |outcome| outcome.put_us(0.9)),
        ("mean", KvOutcome::put_mean_us),
    ];
    let mut samples = Vec::new();
    for (keys, [_, series]) in KEYS {
        let designs = [Replication::Append, Replication::Write];
        let loads = designs.map(|design| load(design, CLIENTS, keys));
        let outcomes = outcomes(runs, &loads)?;
        samples.extend(PARTS.map(|(part, of)| Sample {
            series,
            x: part.to_owned(),
            y: rounded(of(&outcomes[1]) / of(&outcomes[0])),
        }));
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_lies_on_the_line_between_the_points_around_its_rate() {
        let known = [(10.0, 4.0), (20.0, 6.0), (40.0, 7.0)];
        let medians = [5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0].map(|rate| median_at(rate, &known));
        assert_eq!(medians, [4.0, 4.0, 5.0, 6.0, 6.5, 7.0, 7.0]);
    }
}
