//! The figures of the project, in one run: each is a ratio to a yardstick that is measured in turn
//! with it several times, so that a slow moment of the machine hits both.
//!
//! ```text
//!   appends  a receiver that sleeps, no server      appends of four senders, plain copies; again
//!   reads    one server, keys loaded once        limit, GET, idle, LMDB, redis, multi_get, 1 client, 2 clients; again
//!   handles  one server, the library's clients    GET of the store's client, of each kind of client; redis; again
//!   writes   one server a durability             PUT, redis; again
//!   backup   one server that is backed up         PUT beside backups, PUT alone; again
//!   restart  a pool whose server was killed      recovery; again
//!   gateway  redis-server and ours over TCP      GET, SET; again; memory and errors of many connections
//!   configuration  an etcd of one member         change of a configuration, put; again
//!   nodes    three nodes, keys loaded once       PUT, etcd of three members, redis with two replicas; GET, a server alone; again
//! ```

mod appends;
mod backup;
mod cleaning;
mod configuration;
mod figure;
mod gateway;
mod handles;
mod node_processes;
mod nodes;
mod plan;
mod reads;
mod report;
mod restart;
mod server_memory;
mod writes;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use stonecast_kv::StoreError;
use stonecast_media::MediaError;
use stonecast_workload::{Distribution, Mix, Sequence, SequenceOptions};

use crate::peers::PeerError;
use stonecast_bench::DataSet;
use stonecast_bench::Measured;
use stonecast_bench::kv::{
    DriveError, LimitError, ServerOptions, ServerProcess, ServerProcessError, Session, YcsbError,
    load,
};

pub use figure::{Definition, Direction, Figure, Judged};
pub use plan::DEFINITIONS;
pub use report::{NotRun, Report};

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct FigureOptions {
    /// The records of every store.
    pub data: DataSet,
    /// Duration of each measurement.
    pub duration: Duration,
    /// The number of puts in each measurement of writes without a sync. A measurement by time would fill the pool.
    pub puts: u64,
    /// Number of repetitions, in turn.
    pub repetitions: u32,
    /// Bytes of a pool's log, unless the data needs more. The index grows with the log.
    pub capacity: u64,
    /// Operations that are drawn beforehand for each sequence.
    pub sequence_length: usize,
    /// The `stonecast` binary, for servers.
    pub program: PathBuf,
    /// A folder in memory, for pools that need no disk.
    pub memory_folder: PathBuf,
    /// A folder on a disk, for pools that must survive power loss.
    pub disk_folder: PathBuf,
    /// Names of the figures to measure; empty: all.
    pub only: Vec<String>,
}

/// The error that ended a run.
#[derive(Debug, thiserror::Error)]
pub enum FiguresError {
    /// A server could not be started.
    #[error(transparent)]
    Server(#[from] ServerProcessError),
    /// The fabric refused something.
    #[error(transparent)]
    Fabric(#[from] stonecast_fabric::DeviceError),
    /// A client of the library could not connect, or failed.
    #[error(transparent)]
    Library(#[from] stonecast::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The medium of a pool failed.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// A loop failed.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The bare loop could not be set up.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A run of client threads failed.
    #[error(transparent)]
    Ycsb(#[from] YcsbError),
    /// A peer failed in the middle.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// A call of the operating system failed.
    #[error("{doing}: {source}")]
    System {
        /// The attempted action.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Operations of a measurement failed, so it is worthless.
    #[error("{what}: {errors} of {ops} operations failed")]
    OperationsFailed {
        /// The measurement.
        what: &'static str,
        /// Number of failed operations.
        errors: u64,
        /// Number of operations.
        ops: u64,
    },
    /// A cluster could not be created.
    #[error("`stonecast cluster create` ended ({status}): {said}")]
    NoCluster {
        /// The exit status.
        status: std::process::ExitStatus,
        /// The message of the command.
        said: String,
    },
    /// A backup failed beside the writes.
    #[error("`stonecast backup` ended ({status}): {said}")]
    NoBackup {
        /// The exit status.
        status: std::process::ExitStatus,
        /// The message of the command.
        said: String,
    },
    /// The client has not mapped the store's memory, so no operation would be one-sided.
    #[error("the store's memory is not mapped by its client")]
    NotMapped,
    /// The server did not report the address for Redis clients.
    #[error("the server does not say where Redis clients connect")]
    NoGateway,
    /// `only` names no figure.
    #[error("there is no figure {name}; there are: {}", DEFINITIONS.map(|definition| definition.name).join(", "))]
    NoSuchFigure {
        /// The given name.
        name: String,
    },
}

/// Measures all figures; `say` gets a message before each measurement.
pub fn run_figures(
    options: &FigureOptions,
    say: &mut dyn FnMut(&str),
) -> Result<Report, FiguresError> {
    let known = |name: &&String| {
        DEFINITIONS
            .iter()
            .any(|definition| definition.name == **name)
    };
    if let Some(name) = options.only.iter().find(|name| !known(name)) {
        return Err(FiguresError::NoSuchFigure { name: name.clone() });
    }
    let mut run = Run {
        options,
        say,
        pairs: BTreeMap::new(),
        missing: BTreeMap::new(),
    };
    appends::measure(&mut run)?;
    reads::measure(&mut run)?;
    handles::measure(&mut run)?;
    writes::measure(&mut run)?;
    cleaning::measure(&mut run)?;
    backup::measure(&mut run)?;
    restart::measure(&mut run)?;
    gateway::measure(&mut run)?;
    configuration::measure(&mut run)?;
    nodes::measure(&mut run)?;
    let mut report = Report::default();
    for definition in DEFINITIONS
        .iter()
        .filter(|definition| run.wants(&[definition]))
    {
        if let Some(reason) = run.missing.get(definition.name) {
            report.not_run.push(NotRun {
                name: definition.name,
                not_run: reason.clone(),
            });
        } else {
            report
                .figures
                .push(definition.figure(run.pairs.get(definition.name).map_or(&[], Vec::as_slice)));
        }
    }
    Ok(report)
}

/// A run of the figures under way.
struct Run<'a> {
    options: &'a FigureOptions,
    say: &'a mut dyn FnMut(&str),
    /// Measurements by the figure's name.
    pairs: BTreeMap<&'static str, Vec<(f64, f64)>>,
    /// The reasons why figures cannot be measured on this machine.
    missing: BTreeMap<&'static str, String>,
}

impl Run<'_> {
    /// Returns whether one of `definitions` is requested.
    fn wants(&self, definitions: &[&Definition]) -> bool {
        let only = &self.options.only;
        only.is_empty()
            || definitions
                .iter()
                .any(|definition| only.iter().any(|name| name == definition.name))
    }

    fn add(&mut self, definition: &Definition, ours: f64, yardstick: f64) {
        self.pairs
            .entry(definition.name)
            .or_default()
            .push((ours, yardstick));
    }

    fn cannot(&mut self, definition: &Definition, reason: impl ToString) {
        self.missing.insert(definition.name, reason.to_string());
    }

    /// Returns the peer; `None`, with a note at the figures of this peer, if the peer is not installed or does not
    /// start.
    fn peer<T>(
        &mut self,
        peer: Result<T, PeerError>,
        needed_by: &[&Definition],
    ) -> Result<Option<T>, FiguresError> {
        match peer {
            Ok(peer) => Ok(Some(peer)),
            Err(error @ (PeerError::Missing { .. } | PeerError::NotStarted { .. })) => {
                needed_by
                    .iter()
                    .for_each(|definition| self.cannot(definition, &error));
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn sequence(&self, mix: Mix, distribution: Distribution) -> Sequence {
        let FigureOptions {
            data,
            sequence_length,
            ..
        } = *self.options;
        Sequence::new(SequenceOptions {
            mix,
            distribution,
            keys: data.keys,
            length: sequence_length,
            seed: data.seed,
        })
    }
}

/// The speed of a measurement without failed operations.
fn speed(what: &'static str, measured: &Measured) -> Result<f64, FiguresError> {
    match measured.errors {
        0 => Ok(measured.ops_per_s()),
        errors => Err(FiguresError::OperationsFailed {
            what,
            errors,
            ops: measured.ops,
        }),
    }
}

/// Bytes of a record in the log: header, key and value in whole lines.
fn record_size(data: &DataSet) -> u64 {
    (64 + stonecast_workload::KEY_NAME_SIZE_MAX as u64 + data.value_size as u64)
        .next_multiple_of(64)
}

/// A server of a pool in memory that holds the keys of `options` and has room for few more, and a session with it.
fn loaded_server(options: &FigureOptions) -> Result<(ServerProcess, Session), FiguresError> {
    loaded_server_of(options, capacity(options, 0))
}

/// A server of a pool of `capacity` bytes in memory that holds the keys of `options`, and a session with it.
fn loaded_server_of(
    options: &FigureOptions,
    capacity: u64,
) -> Result<(ServerProcess, Session), FiguresError> {
    let server = ServerProcess::start(ServerOptions {
        program: options.program.clone(),
        parent: options.memory_folder.clone(),
        durability: "process",
        capacity,
        publishing: false,
        resp: false,
        instead: None,
    })?;
    let session = Session::open(&server.address())?;
    load(&session, options.data, |_| {})?;
    Ok((server, session))
}

/// Capacity of a pool for the data and `more` records, never smaller than requested.
fn capacity(options: &FigureOptions, more: u64) -> u64 {
    // A third is added: segments have headers, and each client's last segment is not full.
    let needed = (options.data.keys + more) * record_size(&options.data) * 4 / 3;
    needed.max(options.capacity).next_multiple_of(4 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(only: &[&str]) -> FigureOptions {
        FigureOptions {
            data: DataSet {
                keys: 1000,
                value_size: 100,
                seed: 1,
            },
            duration: Duration::from_millis(10),
            puts: 100,
            repetitions: 1,
            capacity: 1 << 30,
            sequence_length: 100,
            program: PathBuf::from("/nowhere/stonecast"),
            memory_folder: std::env::temp_dir(),
            disk_folder: std::env::temp_dir(),
            only: only.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    #[test]
    fn a_figure_that_does_not_exist_is_refused_before_anything_is_started() {
        let result = run_figures(&options(&["get-limit", "get-limits"]), &mut |_| {});
        assert!(matches!(result, Err(FiguresError::NoSuchFigure { name }) if name == "get-limits"));
    }

    #[test]
    fn a_server_that_cannot_be_started_ends_the_run_with_its_name() {
        for name in [
            "get-limit",
            "handle-local",
            "put-redis",
            "put-cleaning",
            "put-backup",
            "restart-scan",
            "resp-get-1",
        ] {
            let error = run_figures(&options(&[name]), &mut |_| {});
            // Without redis-server, its figures are not run, and no server is needed.
            match error {
                Err(error) => assert!(error.to_string().contains("/nowhere/stonecast"), "{error}"),
                Ok(report) => assert_eq!(
                    (report.figures.len(), report.not_run.len()),
                    (0, 1),
                    "{name}"
                ),
            }
        }
    }

    /// Needs the arm that notes a missing peer, which is neither a failure nor a success.
    #[test]
    fn a_missing_peer_is_noted_at_its_figures_and_a_failing_peer_ends_the_run() {
        let options = options(&[]);
        let mut run = Run {
            options: &options,
            say: &mut |_| {},
            pairs: BTreeMap::new(),
            missing: BTreeMap::new(),
        };
        let both = [&plan::PUT_DURABLE_16, &plan::PUT_DURABLE_128];
        let found = run
            .peer::<()>(
                Err(PeerError::Missing {
                    program: "redis-server",
                }),
                &both,
            )
            .unwrap();
        assert_eq!(found, None);
        assert_eq!(
            run.missing.keys().copied().collect::<Vec<_>>(),
            ["put-durable-128", "put-durable-16"]
        );
        let failed = PeerError::Answer {
            found: "nothing".to_owned(),
            expected: "something",
        };
        assert!(run.peer::<()>(Err(failed), &both).is_err());
        assert_eq!(run.peer(Ok(5), &both).unwrap(), Some(5));
    }

    #[test]
    fn operations_that_failed_make_a_measurement_worthless() {
        let measured = Measured {
            ops: 10,
            errors: 1,
            seconds: 1.0,
            ..Measured::default()
        };
        assert!(matches!(
            speed("w", &measured),
            Err(FiguresError::OperationsFailed {
                errors: 1,
                ops: 10,
                ..
            })
        ));
        assert_eq!(
            speed(
                "w",
                &Measured {
                    errors: 0,
                    ..measured
                }
            )
            .unwrap(),
            10.0
        );
    }

    #[test]
    fn a_pool_has_room_for_the_data_and_the_writes_and_is_no_smaller_than_requested() {
        let options = options(&[]);
        assert_eq!(capacity(&options, 0), 1 << 30);
        let large = capacity(&options, 10_000_000);
        assert!(
            large > 10_001_000 * 192 && large.is_multiple_of(4 << 20),
            "{large}"
        );
    }
}
