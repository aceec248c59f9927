//! `kv` while a node dies, while a shard moves, and when all nodes start again. Rowan's slides publish no such numbers.

use stonecast_cluster::{Policy, Timing};
use stonecast_fabric_sim::MachineProfile;

use super::appends::{MACHINES, rounded};
use super::cluster::CORES;
use crate::nodes::{
    Call, CallLoad, ClusterShape, Death, FailoverLoad, MoveLoad, PoolShape, RecoveryLoad,
    fail_over, move_shard, recover,
};
use crate::papers::{
    Axes, Figure, FigureError, Measure, Picture, Runs, Sample, Section, nothing_published,
};
use crate::sim::platform_of;

const MS: u64 = 1_000_000;
const SEED: u64 = 1;
/// Milliseconds of a timeline before and after a kill, and a request to move a shard.
const AROUND_KILL: (i64, i64) = (-5, 18);
const AROUND_MOVE: (i64, i64) = (-5, 32);
/// Bytes of a value that moves, or is recovered.
const VALUE_SIZE: usize = 1000;
/// MiB of values of each shard that is recovered.
const RECOVERED: [usize; 5] = [0, 1, 4, 16, 32];
/// MiB of values of the shard that moves.
const MOVED: usize = 1;

/// The figures.
pub(super) static FIGURES: [Figure; 3] = [
    Figure {
        axes: Axes {
            name: "rowan-failover",
            title: "Calls of `kv` that were answered, by milliseconds since the kill of one of 6 nodes; 12 shards, 3 copies, 96 PUTs and 96 GETs under way, leases of 10 ms",
            x_title: "ms",
            unit: "thousand/ms",
            series: CALLS,
            ..AXES
        },
        measure: Measure::Time(failover),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: "rowan-resharding",
            title: "Calls of `kv` on a shard with 1 MiB of values that were answered, by milliseconds since the request to move its primary to a node without a copy",
            x_title: "ms",
            unit: "thousand/ms",
            series: CALLS,
            ..AXES
        },
        measure: Measure::Time(resharding),
        ..FIGURE
    },
    Figure {
        axes: Axes {
            name: "rowan-recovery",
            title: "Time from the start of all 6 nodes of `kv` after a power cut until all 6 shards are served, by MiB of values of a shard; 3 copies",
            x_title: "MiB",
            unit: "ms",
            series: &["kv"],
            ..AXES
        },
        measure: Measure::Time(recovery),
        ..FIGURE
    },
];

const CALLS: &[&str] = &["PUT", "GET"];
const AXES: Axes = Axes {
    name: "",
    title: "",
    x_title: "",
    unit: "",
    series: &[],
    published: nothing_published,
};
const FIGURE: Figure = Figure {
    axes: AXES,
    measure: Measure::Time(|_| Ok(Vec::new())),
    picture: Picture::Lines,
    section: Section::Standard,
};

/// A node on each of 6 machines.
fn shape() -> ClusterShape {
    let profile = MachineProfile::by_name(MACHINES).expect("the profile is shipped");
    ClusterShape {
        profile,
        platform: platform_of(&profile),
        packs: true,
        machines: 6,
        cores: CORES,
        nodes: 6,
        shards: 12,
        replicas: 3,
        lease: Timing::DEDICATED_CORES,
        remove_after_ns: Policy::new(3, 1).remove_after_ns,
        pool: PoolShape::new(32, 4 << 20),
    }
}

fn failover(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let load = FailoverLoad {
        shape: shape(),
        calls: CallLoad {
            clients: 8,
            keys: 64,
            value_size: 100,
            pause_ns: 100_000,
        },
        death: Death::Kill,
        seed: SEED,
    };
    let run = runs.once(format!("{load:?}"), || fail_over(&load))?;
    Ok(timeline(&run.calls, run.died_ns, AROUND_KILL))
}

fn resharding(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let load = MoveLoad {
        shape: ClusterShape {
            shards: 1,
            ..shape()
        },
        calls: CallLoad {
            clients: 24,
            keys: (MOVED << 20) / VALUE_SIZE,
            value_size: VALUE_SIZE,
            pause_ns: 100_000,
        },
        seed: SEED,
    };
    let run = runs.once(format!("{load:?}"), || move_shard(&load))?;
    Ok(timeline(&run.calls, run.asked_ns, AROUND_MOVE))
}

fn recovery(runs: &mut Runs) -> Result<Vec<Sample>, FigureError> {
    let load = |mib: usize| RecoveryLoad {
        shape: ClusterShape {
            shards: 6,
            pool: PoolShape::new(1024, 256 << 10),
            ..shape()
        },
        keys: (mib << 20) / VALUE_SIZE,
        value_size: VALUE_SIZE,
        seed: SEED,
    };
    let recovered = runs.all(&RECOVERED.map(load), recover)?;
    let sample = |(mib, run): (&usize, &crate::nodes::Recovery)| Sample {
        series: "kv",
        x: mib.to_string(),
        y: rounded(run.served_ns as f64 / MS as f64),
    };
    Ok(RECOVERED.iter().zip(&recovered).map(sample).collect())
}

/// The calls that ended in each millisecond around `event_ns`.
fn timeline(calls: &[Call], event_ns: u64, (first, end): (i64, i64)) -> Vec<Sample> {
    let since = |call: &Call| (call.ended_ns as i64 - event_ns as i64).div_euclid(MS as i64);
    let count = |is_put: bool, ms: i64| {
        let counted = calls
            .iter()
            .filter(|call| call.is_put == is_put && since(call) == ms);
        counted.count() as f64 / 1000.0
    };
    let of =
        |(series, is_put): (&'static str, bool)| (first..end).map(move |ms| (series, is_put, ms));
    let places = [("PUT", true), ("GET", false)].into_iter().flat_map(of);
    let sample = |(series, is_put, ms): (&'static str, bool, i64)| Sample {
        series,
        x: ms.to_string(),
        y: rounded(count(is_put, ms)),
    };
    places.map(sample).collect()
}
