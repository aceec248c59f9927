//! `cluster dev`: a cluster of processes on this host, for development.
//!
//! ```text
//!   DIR/config     the configuration
//!   DIR/node-1     the pool of a node, and its socket; and so on
//! ```

use std::fs;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::RangedU64ValueParser;
use rustix::process::{Pid, Signal, kill_process};
use stonecast_cluster::{HashSeed, Policy};

use super::create::{SHARDS, create_in};
use super::store::{OpenStore, StoreFlags, entropy};
use crate::failure::Failure;
use crate::flags::DurabilityArgument;
use crate::output::say;
use crate::signals::Stop;
use crate::values::Size;

/// Runs a cluster of servers on this host until SIGTERM, SIGINT or the end of its terminal; a second signal stops at
/// once.
///
/// The servers are processes of their own, which reach each other over shared memory. Their pools stay in the folder:
/// the next start continues with them. The Redis port of every node serves every key.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: three nodes, and a client
  stonecast cluster dev --nodes 3
  stonecast put greeting hello --connect cluster:file:./stonecast-cluster/config")]
pub struct Dev {
    /// Number of nodes of a new cluster, 1 to 9. An existing cluster keeps its nodes.
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = RangedU64ValueParser::<u8>::new().range(1..=9))]
    pub nodes: u8,
    /// Folder of the cluster, created if it does not exist.
    #[arg(long, value_name = "DIR", default_value = "./stonecast-cluster")]
    pub data: PathBuf,
    /// Copies of each shard of a new cluster [default: 3, or as many as there are nodes].
    #[arg(long, value_name = "COPIES", value_parser = RangedU64ValueParser::<u8>::new().range(1..=u64::from(Policy::REPLICAS_MAX)))]
    pub replicas: Option<u8>,
    /// Failures that acknowledged writes survive.
    #[arg(long, value_enum, default_value = "process")]
    pub durability: DurabilityArgument,
    /// Size of the pool of each node.
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pub capacity: Size,
    /// Serve no Redis clients and no metrics: without this flag, each node prints a redis:// and an http:// address of
    /// its own, open to all users of this host.
    #[arg(long)]
    pub no_gateway: bool,
}

/// Time for a node to end in order.
const END_LIMIT: Duration = Duration::from_secs(30);
/// Interval at which processes are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// A server of the cluster.
struct Node {
    name: String,
    process: Child,
    ready: PathBuf,
    is_ready: bool,
    has_ended: bool,
}

/// Starts the servers, and ends them in order when it is asked to.
pub fn run(flags: &Dev) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let (store, names) = cluster_in(flags)?;
    let mut nodes: Vec<Node> = Vec::new();
    let ran = start_all(flags, (&store, &names), &mut nodes)
        .and_then(|()| watch(&mut nodes, &stop, &store));
    // The nodes end in the order of their names: each hands its shards to the rest.
    let ended = nodes.iter_mut().map(Node::end);
    let ended: Vec<_> = ended.collect();
    ran?;
    ended.into_iter().collect::<Result<(), _>>()?;
    say("all nodes have ended");
    Ok(())
}

/// The configuration of the cluster in the folder, created if there is none, and the names of its nodes.
fn cluster_in(flags: &Dev) -> Result<(String, Vec<String>), Failure> {
    let config = flags.data.join("config");
    let cannot = |error: io::Error| {
        Failure::operation(format!("cannot create {}: {error}", config.display()))
    };
    fs::create_dir_all(&config).map_err(cannot)?;
    let config = std::path::absolute(&config)?;
    let store = format!("file:{}", config.display());
    let open = OpenStore::open(&StoreFlags {
        config_store: Some(store.clone()),
    })?;
    let is_new = open.executor.block_on(open.store.read());
    if matches!(is_new, Ok(None)) {
        let replicas = flags.replicas.unwrap_or(flags.nodes.min(3));
        let policy = Policy {
            hash_seed: Some(HashSeed(u64::from_ne_bytes(entropy()?))),
            ..Policy::new(replicas, SHARDS)
        };
        if replicas > flags.nodes {
            let nodes = flags.nodes;
            return Err(Failure::usage(format!(
                "--replicas {replicas} needs as many nodes, and there are {nodes}: ask for --nodes {replicas}, or for fewer --replicas"
            )));
        }
        create_in(&open, policy)?;
    }
    let known = open.read()?.nodes;
    let mut names: Vec<_> = known.keys().map(ToString::to_string).collect();
    if names.is_empty() {
        names = (1..=flags.nodes)
            .map(|node| format!("node-{node}"))
            .collect();
    }
    Ok((store, names))
}

/// Starts all nodes, and waits until they are ready.
fn start_all(
    flags: &Dev,
    (store, names): (&str, &[String]),
    nodes: &mut Vec<Node>,
) -> Result<(), Failure> {
    for name in names {
        nodes.push(Node::start(flags, store, name)?);
    }
    while !nodes.iter().all(|node| node.is_ready) {
        for node in nodes.iter_mut() {
            node.look();
            if node.has_ended {
                let name = &node.name;
                return Err(Failure::operation(format!(
                    "{name} did not start; its own message is above"
                )));
            }
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Waits for the request to end, or for the end of all nodes.
fn watch(nodes: &mut [Node], stop: &Stop, store: &str) -> Result<(), Failure> {
    let names: Vec<_> = nodes.iter().map(|node| node.name.as_str()).collect();
    say(format_args!(
        "ready: nodes {} at cluster:{store}",
        names.join(", ")
    ));
    while !stop.asked() {
        for node in nodes.iter_mut() {
            if let Some(status) = node.look() {
                say(format_args!(
                    "{} has ended ({status}); the others go on as long as they have copies",
                    node.name
                ));
            }
        }
        if nodes.iter().all(|node| node.has_ended) {
            return Err(Failure::operation("all nodes have ended by themselves"));
        }
        thread::sleep(LOOK);
    }
    stop.news().iter().for_each(say);
    Ok(())
}

impl Node {
    fn start(flags: &Dev, store: &str, name: &str) -> Result<Self, Failure> {
        let data = flags.data.join(name);
        let ready = flags.data.join(format!("{name}.ready"));
        remove(&ready)?;
        let durability = match flags.durability {
            DurabilityArgument::Power => "power",
            DurabilityArgument::Process => "process",
        };
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["serve", "--cluster", store, "--node", name])
            .args(["--durability", durability, "--data"])
            .arg(&data)
            .arg("--ready-file")
            .arg(&ready)
            .args(["--exit-with-parent", &std::process::id().to_string()])
            .stdin(Stdio::null())
            // A key press in the terminal asks this process alone, which ends the nodes in order.
            .process_group(0);
        if !flags.no_gateway {
            command.args(["--resp", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        }
        if !is_pool(&data) {
            command.args(["--capacity", &flags.capacity.0.to_string()]);
        }
        let process = command
            .spawn()
            .map_err(|error| Failure::operation(format!("cannot start {name}: {error}")))?;
        Ok(Self {
            name: name.to_owned(),
            process,
            ready,
            is_ready: false,
            has_ended: false,
        })
    }

    /// Looks whether the node is ready, or has ended. Returns how it has ended, once.
    fn look(&mut self) -> Option<ExitStatus> {
        self.is_ready |= self.ready.exists();
        let ended = self.process.try_wait().ok().flatten();
        let is_news = ended.is_some() && !std::mem::replace(&mut self.has_ended, ended.is_some());
        ended.filter(|_| is_news)
    }

    /// Asks the node to end, and waits for the end. A node that takes too long is killed: its pool stays as after a
    /// crash.
    fn end(&mut self) -> Result<(), Failure> {
        let Some(pid) = Pid::from_raw(self.process.id().cast_signed()).filter(|_| !self.has_ended)
        else {
            return remove(&self.ready);
        };
        kill_process(pid, Signal::TERM)?;
        let limit = Instant::now() + END_LIMIT;
        let status = loop {
            if let Some(status) = self.process.try_wait()? {
                break status;
            }
            if Instant::now() > limit {
                self.process.kill()?;
                break self.process.wait()?;
            }
            thread::sleep(LOOK);
        };
        self.has_ended = true;
        remove(&self.ready)?;
        match status.success() {
            true => Ok(()),
            false => {
                let how = match status.signal() {
                    Some(signal) => format!("signal {signal}"),
                    None => status.to_string(),
                };
                let name = &self.name;
                Err(Failure::operation(format!(
                    "{name} did not end in order: {how}"
                )))
            }
        }
    }
}

fn is_pool(data: &Path) -> bool {
    data.join("header").exists()
}

fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::operation(format!(
            "cannot remove {}: {error}",
            path.display()
        ))),
        _ => Ok(()),
    }
}
