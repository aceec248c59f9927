//! `serve`: opens or creates a pool, and serves the pool until the process is asked to end.

mod arguments;
mod files;
mod gateway;
mod pool;
mod settings;
mod sharing;
mod structures;

use std::fs;
use std::io;
use std::path::Path;
use std::time::Instant;

use stonecast::Server;
use stonecast::server::Closing;
use stonecast_console::child::{end_with, write_ready_file};
use stonecast_fabric_shm::{Log, ShmOptions};
use stonecast_gateway::GatewayHandle;
use stonecast_media::MediaError;

pub use arguments::Serve;
use settings::Serving;

use crate::fabric::DeviceSettings;
use crate::failure::Failure;
use crate::output::say;
use crate::signals::Stop;

/// Serves the pool until the process is asked to end.
pub fn run(flags: &Serve) -> Result<(), Failure> {
    if flags.structures.is_some() && flags.data.is_none() {
        return structures::run_alone(flags);
    }
    let serving = &Serving::of(flags)?;
    let stop = Stop::on_signals()?;
    if let Some(parent) = flags.exit_with_parent {
        end_with(parent)?;
    }
    if let Some(path) = &flags.ready_file {
        remove(path)?;
    }
    files::provide_for(serving.places.clients);
    let start = Instant::now();
    let beside = structures::Beside::start(flags)?;
    let server = open(serving, flags.accept_copy)?;
    let gateway = match start_gateway(serving, flags) {
        Ok(gateway) => gateway,
        Err(failure) => {
            server.withdraw();
            return Err(failure);
        }
    };
    pool::say_opened(server.opening(), start);
    say_ready(serving, gateway.as_ref());
    if let Some(beside) = &beside {
        beside.say_ready();
    }
    let kept = (&*serving.data, serving.node.is_some());
    let stop = Ending {
        stop: &stop,
        beside: beside.as_ref(),
    };
    serve(server, gateway, &stop, kept)?;
    if let Some(beside) = beside {
        beside.end()?;
    }
    if let Some(path) = &flags.ready_file {
        remove(path)?;
    }
    Ok(())
}

/// The reasons for a server to end: a signal, or the end of what is served beside it.
struct Ending<'a> {
    stop: &'a Stop,
    beside: Option<&'a structures::Beside>,
}

impl Ending<'_> {
    fn asked(&self) -> bool {
        self.stop.asked() || self.beside.is_some_and(structures::Beside::has_ended)
    }
}

/// Opens or creates the pool, and listens.
fn open(serving: &Serving, accepts_copy: bool) -> Result<Server, Failure> {
    let shared_memory = ShmOptions {
        socket_mode: serving.sharing.socket_mode.0,
        socket_group: serving.sharing.group()?,
        log: Log::new(|line| say(line)),
        ..ShmOptions::default()
    };
    let device = DeviceSettings::of(&serving.listen[0], shared_memory, &serving.verbs)?;
    let opened = pool::builder(serving, accepts_copy).open_on(|pool| {
        pool::say_opening(pool);
        device.open(Some(pool.platform))
    });
    opened.map_err(pool::refused)
}

/// Lets Redis clients connect, and tells programs that wait for the server that clients can connect.
fn start_gateway(serving: &Serving, flags: &Serve) -> Result<Option<GatewayHandle>, Failure> {
    // The gateway's addresses are bound here. The server's loop serves the gateway like every other client of the
    // store.
    let gateway = serving.gateway.clone().map(stonecast_gateway::spawn);
    let gateway = gateway.transpose()?;
    if let Some(path) = &flags.ready_file {
        write_ready_file(path)?;
    }
    Ok(gateway)
}

/// Serves until the process is asked to end, and ends in order. `kept` is the folder of the pool, and whether the server is a node of a cluster.
fn serve(
    server: Server,
    gateway: Option<GatewayHandle>,
    stop: &Ending<'_>,
    kept: (&Path, bool),
) -> Result<(), Failure> {
    let stops = || {
        server.take_trouble().iter().for_each(say_trouble);
        if let Some(error) = server.take_refusal() {
            say(format_args!("a client was not accepted: {error}"));
        }
        stop.stop.news().iter().for_each(say);
        is_to_end(stop, gateway.as_ref())
    };
    if let Err(error) = server.run(&stops) {
        say(
            "the pool is left as a killed server leaves a pool; the next server recovers every acknowledged write",
        );
        return Err(error.into());
    }
    let stopped = gateway.map_or(Ok(()), GatewayHandle::stop);
    let closing = server.close()?;
    stopped?;
    say_end(closing, kept);
    Ok(())
}

/// Prints the server's addresses, and which clients may connect.
fn say_ready(serving: &Serving, gateway: Option<&GatewayHandle>) {
    for address in &serving.listen {
        if let Some(path) = address.socket() {
            say(format_args!(
                "clients at {address}: {}; at most {} at a time",
                serving.sharing.admitted(path),
                serving.places.clients
            ));
        }
    }
    let mut addresses: Vec<String> = serving.listen.iter().map(ToString::to_string).collect();
    addresses.extend(gateway.map(addresses_of).into_iter().flatten());
    if let (Some(node), Some(cluster)) = (&serving.node, &serving.cluster) {
        say(format_args!(
            "node {node} is registered in its cluster; `stonecast cluster status --config-store {}` shows its copies",
            shown(cluster)
        ));
    }
    say(format_args!(
        "ready: serving {} at {}",
        serving.data.display(),
        addresses.join(", ")
    ));
}

/// The address of a store without user, password and files.
fn shown(store: &str) -> String {
    let store = store.strip_prefix("cluster:").unwrap_or(store);
    let parsed = format!("cluster:{store}").parse::<stonecast::Address>();
    let words = parsed.map_or_else(|_| "URL".to_owned(), |address| address.to_string());
    words.strip_prefix("cluster:").unwrap_or(&words).to_owned()
}

/// Prints how the server left the pool in that folder.
fn say_end(closing: Closing, (data, is_node): (&Path, bool)) {
    let data = data.display();
    match closing {
        Closing::Unclean if is_node => say(format_args!(
            "ended: other nodes lead the shards of this one, and the next start reads the log in {data}"
        )),
        Closing::Clean => say(format_args!("ended in order: {data} is closed")),
        Closing::Unclean => say(format_args!(
            "ended, but {data} is left as a killed server leaves a pool: a client was stopped in the middle of a publication \
             and may continue. Every acknowledged write is there; end that client before the next start, which reads the log"
        )),
    }
}

/// Prints why there is no room for writes.
fn say_trouble(error: &MediaError) {
    let remedy = match error {
        MediaError::NoSpace { .. } => {
            "free space on that file system, or move the pool to a larger one"
        }
        _ => "check that disk for errors",
    };
    say(format_args!("writes are refused: {error}; {remedy}"));
}

/// Returns whether the server has nothing left to do. A gateway is asked to end first, and is served to its end: the
/// commands that its clients have sent are done and answered.
fn is_to_end(stop: &Ending<'_>, gateway: Option<&GatewayHandle>) -> bool {
    let Some(gateway) = gateway else {
        return stop.asked();
    };
    if stop.asked() {
        gateway.ask_to_stop();
    }
    gateway.has_ended()
}

fn addresses_of(gateway: &GatewayHandle) -> impl Iterator<Item = String> {
    let resp = gateway
        .resp_address()
        .map(|address| format!("redis://{address}"));
    let admin = gateway
        .admin_address()
        .map(|address| format!("http://{address}"));
    resp.into_iter().chain(admin)
}

/// Removes a file of an earlier run.
fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::operation(format!(
            "cannot remove {}: {error}",
            path.display()
        ))),
        _ => Ok(()),
    }
}
