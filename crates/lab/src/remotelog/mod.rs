//! REMOTELOG: records of 64 bytes appended to a log in remote memory, each append as durable as the plan for the
//! platform makes it (taxonomy of remote persistence, section 4).
//!
//! ```text
//!   log.rs      the log, and the search for its tail    sim.rs, real.rs  the measurements
//!   anchors.rs  published numbers beside ours           figure.rs       bars like those of the publication
//!   paper.rs    the registry's entry, and its page        table.rs        table for terminals
//! ```
//!
//! One append at a time; its latency runs from the call until the requester holds the proof that it is persisted. At
//! the end the log is read as a recovering server would read it, and must hold every append.

mod anchors;
mod figure;
mod log;
mod paper;
mod real;
mod sim;
mod table;

use std::path::Path;

use serde::Serialize;
use stonecast_base::Nanoseconds;
use stonecast_fabric::DeviceError;
use stonecast_fabric_sim::MachineProfile;
use stonecast_media::MediaError;
use stonecast_persist::execute::ExecuteError;
use stonecast_persist::{NoPlan, Plan, Scenario, plan_for, scenarios};

use stonecast_bench::kv::SharedMemory;

pub use figure::svg;
pub use paper::{PAPER, PUBLISHED, points};
pub use real::Ends;
pub use table::table;

/// Appends before the first one that counts, to warm caches, connections and buffers.
const WARM_UP: u64 = 100;

/// The error of a log that could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum RemotelogError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The medium failed.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// An append failed.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// The platform has no plan to execute.
    #[error(transparent)]
    NoPlan(#[from] NoPlan),
    /// A call of the operating system failed.
    #[error("{doing}: {source}")]
    System {
        /// The attempted action.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The kernel does not say which bytes of the medium survive.
    #[error("the kernel does not say what {device} keeps at a power cut, so no plan can be chosen")]
    Unsaid {
        /// The medium.
        device: String,
    },
    /// The log does not hold every acknowledged append.
    #[error("the log holds {found} records, and {appended} were acknowledged")]
    LogBroken {
        /// Number of whole records from the start.
        found: u64,
        /// Number of acknowledged appends.
        appended: u64,
    },
}

/// The appends of one scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// The fabric: `sim:PROFILE`, `shm` or `verbs`.
    pub fabric: String,
    /// The plan, with its scenario.
    #[serde(flatten)]
    pub plan: Plan,
    /// Appends that were measured.
    pub appends: u64,
    /// Appends that ended unknown and were repeated in a new session.
    pub retried: u64,
    /// Mean latency of an append.
    pub latency_ns_mean: f64,
    /// Median latency.
    pub latency_ns_p50: Nanoseconds,
    /// The latency that 99 of 100 appends do not exceed.
    pub latency_ns_p99: Nanoseconds,
}

impl Measurement {
    fn new(fabric: &str, plan: Plan, mut times: Vec<Nanoseconds>) -> Self {
        times.sort_unstable();
        let at = |share: usize| times[(times.len() - 1) * share / 100];
        Self {
            fabric: fabric.to_owned(),
            plan,
            appends: times.len() as u64,
            retried: 0,
            latency_ns_mean: times.iter().sum::<u64>() as f64 / times.len() as f64,
            latency_ns_p50: at(50),
            latency_ns_p99: at(99),
        }
    }
}

/// Measures `appends` appends, at least one, of each of the 72 published scenarios on machines of `profile`, in virtual
/// time.
pub fn measure_simulated(
    profile: MachineProfile,
    appends: u64,
) -> Result<Vec<Measurement>, RemotelogError> {
    let fabric = format!("sim:{}", profile.name);
    let measure = |scenario: Scenario| {
        let plan = plan_for(&scenario.platform, scenario.operation, scenario.update)?;
        let times = sim::measure(&plan, profile, appends)?;
        Ok(Measurement::new(&fabric, plan, times))
    };
    scenarios().into_iter().map(measure).collect()
}

/// Measures `appends` appends, at least one, of every operation and update over shared memory, into a file below
/// `folder` that is synced. This host really executes these plans.
pub fn measure_shared_memory(
    folder: &Path,
    appends: u64,
) -> Result<Vec<Measurement>, RemotelogError> {
    measure_on(
        Ends {
            requester: &SharedMemory,
            responder: &SharedMemory,
        },
        folder,
        appends,
    )
}

/// Measures as [`measure_shared_memory`] does, between two devices: into a file below `medium`, or onto a device of
/// persistent memory, which must hold no pool and whose content is lost.
pub fn measure_on(
    ends: Ends<'_>,
    medium: &Path,
    appends: u64,
) -> Result<Vec<Measurement>, RemotelogError> {
    real::measure_all(ends, medium, appends)
}
