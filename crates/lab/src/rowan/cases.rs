//! The runs that the key-value figures share.

use stonecast_published::rowan::{Replication, RowanOptions};
use stonecast_workload::Distribution;

use super::appends::rounded;
use super::contest::{self, KvLoad, KvOutcome, MEASURED_NS, Machines, Store, WARM_UP_NS};
use super::sizes::Objects;
use crate::papers::{FigureError, Runs, Sample};

/// The designs, as series.
pub(super) const SERIES: &[&str] = &[
    "rowan-kv",
    "rpc-kv",
    "rwrite-kv",
    "batch-kv",
    "share-kv",
    "hermes-like",
];
/// Clients of the figures that do not vary them: four for each hardware thread of the 8 machines, enough to keep every
/// design busy.
pub(super) const CLIENTS: u32 = 1152;
/// Client threads of the paper's 8 machines.
pub(super) const CLIENT_THREADS: u32 = 144;
/// Clients and client threads beside servers of one worker thread.
pub(super) const CLIENTS_OF_THREADS: u32 = 144;
const CLIENT_THREADS_OF_THREADS: u32 = 24;
/// The addresses of servers.
pub(super) const ADDRESSES: &str = "sim:rowan";

/// A run with its place in a figure.
pub(super) struct Case {
    pub series: &'static str,
    pub x: String,
    pub load: KvLoad,
}

impl KvLoad {
    /// The usual load of the paper's comparison: 50 % PUT, the objects of ZippyDB, 3 copies.
    pub fn usual(replication: Replication) -> Self {
        Self {
            store: Store::Replicated(RowanOptions::published(replication, ADDRESSES)),
            objects: Objects::ZippyDb,
            put_percent: 50,
            clients: CLIENTS,
            threads: CLIENT_THREADS,
            offered: None,
            keys: Distribution::ScrambledZipfian,
            learns: false,
            warm_up_ns: WARM_UP_NS,
            measured_ns: MEASURED_NS,
            machines: Machines::PUBLISHED,
        }
    }
}

impl KvLoad {
    /// The usual load on a store whose servers have one worker thread each. A node of `kv` has one thread.
    pub(super) fn of_threads(store: Store) -> Self {
        Self {
            store,
            clients: CLIENTS_OF_THREADS,
            threads: CLIENT_THREADS_OF_THREADS,
            ..Self::usual(Replication::Append)
        }
    }

    /// The usual load with other parameters of the servers.
    pub(super) fn with(replication: Replication, change: impl Fn(&mut RowanOptions)) -> Self {
        let mut options = RowanOptions::published(replication, ADDRESSES);
        change(&mut options);
        Self {
            store: Store::Replicated(options),
            ..Self::usual(replication)
        }
    }
}

/// A case for each design.
pub(super) fn of_each_design(x: &str, change: impl Fn(&mut KvLoad)) -> Vec<Case> {
    let case = |replication: Replication| {
        let mut load = KvLoad::usual(replication);
        change(&mut load);
        Case {
            series: replication.name(),
            x: x.to_owned(),
            load,
        }
    };
    Replication::ALL.map(case).into()
}

/// The outcomes of loads, in their order.
pub(super) fn outcomes(runs: &mut Runs, loads: &[KvLoad]) -> Result<Vec<KvOutcome>, FigureError> {
    Ok(runs.all(loads, contest::measure)?)
}

/// A point for each case.
pub(super) fn samples(
    runs: &mut Runs,
    cases: Vec<Case>,
    value: fn(&KvOutcome) -> f64,
) -> Result<Vec<Sample>, FigureError> {
    let loads: Vec<KvLoad> = cases.iter().map(|case| case.load.clone()).collect();
    let outcomes = outcomes(runs, &loads)?;
    let sample = |(case, outcome): (Case, &KvOutcome)| Sample {
        series: case.series,
        x: case.x,
        y: rounded(value(outcome)),
    };
    Ok(cases.into_iter().zip(&outcomes).map(sample).collect())
}
