//! `serve`: opens or creates a pool, and serves the pool until the process is asked to end.

mod arguments;
mod files;
mod gateway;
mod log;
mod oversight;
mod pool;
mod settings;
mod sharing;
mod structures;
mod supervisor;

use std::fs;
use std::io;
use std::path::Path;
use std::time::Instant;

use stonecast::Server;
use stonecast::server::Closing;
use stonecast_console::child::{end_with, write_ready_file};
use stonecast_fabric_shm::{Log, ShmOptions};
use stonecast_gateway::GatewayHandle;
use tracing::{error, info, warn};

pub use arguments::Serve;
use oversight::{Oversight, Requests};
use settings::Serving;

use crate::fabric::DeviceSettings;
use crate::failure::Failure;

/// Serves the pool until the process is asked to end.
pub fn run(flags: &Serve) -> Result<(), Failure> {
    flags.log.start();
    if flags.structures.is_some() && flags.data.is_none() {
        return structures::run_alone(flags);
    }
    let serving = &Serving::of(flags)?;
    let requests = Requests::listen(&flags.gateway)?;
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
    pool::tell_opened(server.opening(), start);
    let oversight = Oversight { requests, beside };
    let status = tell_ready(serving, gateway.as_ref());
    oversight
        .beside
        .iter()
        .for_each(structures::Beside::tell_ready);
    oversight.requests.ready(&status);
    let kept = (&*serving.data, serving.node.is_some());
    serve(server, gateway, &oversight, kept)?;
    if let Some(beside) = oversight.beside {
        beside.end()?;
    }
    if let Some(path) = &flags.ready_file {
        remove(path)?;
    }
    Ok(())
}

/// Opens or creates the pool, and listens.
fn open(serving: &Serving, accepts_copy: bool) -> Result<Server, Failure> {
    let shared_memory = ShmOptions {
        socket_mode: serving.sharing.socket_mode.0,
        socket_group: serving.sharing.group()?,
        log: Log::new(|line| warn!("{line}")),
        ..ShmOptions::default()
    };
    let device = DeviceSettings::of(&serving.listen[0], shared_memory, &serving.verbs)?;
    let opened = pool::builder(serving, accepts_copy).open_on(|pool| {
        pool::tell_opening(pool);
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

/// Serves until the process is asked to end, and ends in order. `kept` is the folder of the pool, and whether the
/// server is a node of a cluster.
fn serve(
    server: Server,
    gateway: Option<GatewayHandle>,
    oversight: &Oversight<'_>,
    kept: (&Path, bool),
) -> Result<(), Failure> {
    if let Err(error) = server.run(&|| oversight.look(&server, gateway.as_ref())) {
        error!(
            "the pool is left as a killed server leaves a pool; the next server recovers every acknowledged write",
        );
        return Err(error.into());
    }
    let stopped = gateway.map_or(Ok(()), GatewayHandle::stop);
    let closing = server.close()?;
    stopped?;
    tell_end(closing, kept);
    Ok(())
}

/// Tells the server's addresses, and which clients may connect. Returns the last line.
fn tell_ready(serving: &Serving, gateway: Option<&GatewayHandle>) -> String {
    for address in &serving.listen {
        if let Some(path) = address.socket() {
            info!(
                %address,
                "clients at {address}: {}; at most {} at a time",
                serving.sharing.admitted(path),
                serving.places.clients
            );
        }
    }
    let mut addresses: Vec<String> = serving.listen.iter().map(ToString::to_string).collect();
    addresses.extend(gateway.map(addresses_of).into_iter().flatten());
    if let (Some(node), Some(cluster)) = (&serving.node, &serving.cluster) {
        info!(
            node,
            "node {node} is registered in its cluster; `stonecast cluster status --config-store {}` shows its copies",
            shown(cluster)
        );
    }
    let (data, addresses) = (serving.data.display(), addresses.join(", "));
    let status = format!("serving {data} at {addresses}");
    info!(%data, addresses, "ready: {status}");
    status
}

/// The address of a store without user, password and files.
fn shown(store: &str) -> String {
    let store = store.strip_prefix("cluster:").unwrap_or(store);
    let parsed = format!("cluster:{store}").parse::<stonecast::Address>();
    let words = parsed.map_or_else(|_| "URL".to_owned(), |address| address.to_string());
    words.strip_prefix("cluster:").unwrap_or(&words).to_owned()
}

/// Tells how the server left the pool in that folder.
fn tell_end(closing: Closing, (data, is_node): (&Path, bool)) {
    let data = data.display();
    match closing {
        Closing::Unclean if is_node => info!(
            "ended: other nodes lead the shards of this one, and the next start reads the log in {data}"
        ),
        Closing::Clean => info!("ended in order: {data} is closed"),
        Closing::Unclean => warn!(
            "ended, but {data} is left as a killed server leaves a pool: a client was stopped in the middle of a publication \
             and may continue. Every acknowledged write is there; end that client before the next start, which reads the log"
        ),
    }
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
