//! Three nodes of a cluster as processes on this machine, over shared memory. A drop ends them and removes their
//! folders.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use stonecast::local::Connection;
use stonecast::{Connector, Error};
use stonecast_bench::cpu_time::process_cpu_ns;
use stonecast_bench::kv::{ServerOptions, ServerProcess};
use tempfile::TempDir;

use super::{FigureOptions, FiguresError};

const NODES: [&str; 3] = ["a", "b", "c"];
/// Time for nodes to register and to serve all shards.
const START_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Keys that are written first. With 32 shards, no shard is without one.
const SAMPLE: u32 = 512;

/// The processes of a cluster.
pub(super) struct NodeProcesses {
    nodes: Vec<ServerProcess>,
    url: String,
    _configuration: TempDir,
}

impl NodeProcesses {
    /// Starts the nodes of a new cluster with three copies of each shard, each with a log of `capacity` bytes in a
    /// folder under `parent`.
    pub fn start(
        options: &FigureOptions,
        durability: &'static str,
        parent: &Path,
        capacity: u64,
    ) -> Result<Self, FiguresError> {
        let folder = tempfile::Builder::new()
            .prefix("stonecast-cluster-")
            .tempdir_in(&options.memory_folder);
        let folder = folder.map_err(system("making a folder for a configuration"))?;
        let store = format!("file:{}", folder.path().join("cluster").display());
        let created = Command::new(&options.program)
            .args(["cluster", "create", "--config-store", &store])
            .output()
            .map_err(system("creating a cluster"))?;
        if !created.status.success() {
            return Err(FiguresError::NoCluster {
                status: created.status,
                said: String::from_utf8_lossy(&created.stderr).trim().to_owned(),
            });
        }
        let start = |node: &&str| {
            let arguments = ["serve", "--durability", durability];
            let of_node = ["--cluster", &store, "--node", node];
            let size = ["--capacity".to_owned(), capacity.to_string()];
            let words = arguments.iter().chain(&of_node);
            let words = words.map(|&word| word.to_owned()).chain(size);
            ServerProcess::start(ServerOptions {
                program: options.program.clone(),
                parent: parent.to_owned(),
                durability,
                capacity,
                publishing: false,
                resp: false,
                instead: Some(words.collect()),
            })
        };
        Ok(Self {
            nodes: NODES.iter().map(start).collect::<Result<_, _>>()?,
            url: format!("cluster:{store}"),
            _configuration: folder,
        })
    }

    /// A connection, when every shard takes writes. Its client polls for an answer as long as clients of programs do:
    /// nodes and client share the cores of this machine.
    pub fn connect(&self) -> Result<Connection, FiguresError> {
        let end = Instant::now() + START_MAX;
        loop {
            let connected = Connector::new(&self.url)?.connect_local();
            match connected.and_then(written) {
                Ok(connection) => return Ok(connection),
                Err(error) if Instant::now() > end => return Err(error.into()),
                Err(_) => std::thread::sleep(LOOK_EVERY),
            }
        }
    }

    /// CPU time that each node has used, in nanoseconds.
    pub fn cpu_ns(&self) -> Result<Vec<u64>, FiguresError> {
        let times = self.nodes.iter().map(|node| process_cpu_ns(node.pid()));
        let times: std::io::Result<_> = times.collect();
        times.map_err(system("reading the CPU time of a node"))
    }
}

/// The connection after a write in every shard.
fn written(connection: Connection) -> Result<Connection, Error> {
    connection.run(async |client| {
        for number in 0..SAMPLE {
            let key = format!("start {number}");
            client.put(key.as_bytes(), b"").await?;
        }
        Ok::<_, Error>(())
    })?;
    Ok(connection)
}

fn system(doing: &'static str) -> impl FnOnce(std::io::Error) -> FiguresError {
    move |source| FiguresError::System { doing, source }
}
