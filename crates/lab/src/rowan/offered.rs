//! The rivals at the same offered load as Rowan-KV, whatever the load of the stores is: operations begin at times that
//! are independent of the ends of others.
//!
//! In a closed loop, the clients of a slow store wait, and begin fewer operations, so that its queues stay short.

use stonecast_published::rowan::Replication;

use super::cases::outcomes;
use super::contest::{KvLoad, KvOutcome};
use super::windows::beside_rowan;
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};

pub(super) const OFFERED: &str = "rowan-causes-offered";
pub(super) const WRITE_PUT: &str = "rwrite-kv, median PUT";

/// The figures.
pub(super) static FIGURES: [Figure; 1] = [Figure {
    axes: Axes {
        name: OFFERED,
        title: "Throughput of Rowan-KV in multiples of a rival's, and median latency of PUT of the rival in multiples of Rowan-KV's, by the million operations that begin in a second at random times; 50 % PUT, objects of ZippyDB",
        x_title: "offered Mop/s",
        unit: "x",
        series: &[
            "rpc-kv, throughput",
            "rwrite-kv, throughput",
            "rpc-kv, median PUT",
            WRITE_PUT,
        ],
        published: nothing_published,
    },
    measure: Measure::Time(measure),
    picture: Picture::None,
    section: Section::Standard,
}];

/// Million operations a second. Rowan-KV completes all of them.
const RATES: [u64; 6] = [50, 60, 70, 85, 95, 100];

fn measure(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    const DESIGNS: [Replication; 3] = [Replication::Append, Replication::Rpc, Replication::Write];
    let of = |rate: u64| {
        DESIGNS.map(|design| KvLoad {
            offered: Some(rate * 1_000_000),
            ..KvLoad::usual(design)
        })
    };
    let loads: Vec<KvLoad> = RATES.into_iter().flat_map(of).collect();
    let outcomes = outcomes(runs, &loads)?;
    let of_rate = |(rate, outcomes): (u64, &[KvOutcome])| beside_rowan(&rate.to_string(), outcomes);
    let of_each = RATES.into_iter().zip(outcomes.chunks(DESIGNS.len()));
    Ok(of_each.flat_map(of_rate).collect())
}
