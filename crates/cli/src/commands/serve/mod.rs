//! `serve`: opens a pool, or creates it, and serves it until it is asked to end.

mod arguments;
mod files;
mod gateway;
mod pool;
mod settings;
mod sharing;

use std::fs;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use stonecast_base::Nanoseconds;
use stonecast_console::child::{end_with, write_ready_file};
use stonecast_fabric::{BusyPoll, Device, Port};
use stonecast_fabric_shm::{Log, ShmOptions};
use stonecast_gateway::GatewayHandle;
use stonecast_kv::limits::IN_FLIGHT_MAX;
use stonecast_kv::{ClientPolicy, Closing, RecoveryReport, Server, ServerOptions};
use stonecast_media::{MediaError, OpenMode};

use arguments::ClientsArgument;
pub use arguments::Serve;
use settings::Serving;

use crate::fabric::{self, Opened};
use crate::failure::Failure;
use crate::output::{say, size};
use crate::signals::Stop;

/// How long a server looks for work before it sleeps: longer than a client that has its answer takes to ask again, so
/// that only a client that pauses pays for a wake-up.
const SPIN_NS: Nanoseconds = 200_000;
/// Entries of the server's completion queues, at least: the answers that all clients together may be waiting for.
const COMPLETIONS: u32 = 65_536;

/// See the module documentation.
pub fn run(flags: &Serve) -> Result<(), Failure> {
    let serving = &Serving::of(flags)?;
    let stop = Stop::on_signals()?;
    if let Some(parent) = flags.exit_with_parent {
        end_with(parent)?;
    }
    if let Some(path) = &flags.ready_file {
        remove(path)?;
    }
    let socket_group = serving.sharing.group()?;
    files::provide_for(serving.places.clients);
    let start = Instant::now();
    let mode = match flags.accept_copy {
        true => OpenMode::Adopt,
        false => OpenMode::Serve,
    };
    // Before the device, whose socket is to be gone from the folder when the folder goes.
    let (found, origin) = pool::find_or_create(serving)?;
    let shared_memory = ShmOptions {
        socket_mode: serving.sharing.socket_mode.0,
        socket_group,
        log: Log::new(|line| say(line)),
        ..ShmOptions::default()
    };
    let Opened { device, park } = fabric::open(
        &serving.listen[0],
        shared_memory,
        &serving.verbs,
        Some(found.platform()),
    )?;
    let executor = BusyPoll::new(park, SPIN_NS);
    let completions = COMPLETIONS.max((serving.places.clients * IN_FLIGHT_MAX) as u32);
    let port = Rc::new(Port::new(device.clone(), completions)?);
    executor.add_port(&port);
    let pool = found.open(serving, mode)?;
    let clients = match serving.clients {
        ClientsArgument::Trusted => ClientPolicy::Trusted,
        ClientsArgument::Publishing => ClientPolicy::Publishing,
        ClientsArgument::Copying => ClientPolicy::Copying,
    };
    let options = ServerOptions {
        clients,
        places: serving.places,
        process: std::process::id(),
    };
    executor.block_on(async {
        let (server, report) = Server::open(pool, port, executor.runtime(), options).await?;
        let gateway = match start_listening(serving, flags, &*device) {
            Ok(gateway) => gateway,
            Err(failure) => {
                // Nobody was served, so nothing can go wrong with it but what goes wrong at the next opening, too.
                let _ = server.close().await;
                return Err(failure);
            }
        };
        origin.keep();
        say_recovery(&report, start);
        say_ready(serving, gateway.as_ref());
        let stops = || {
            server.take_trouble().iter().for_each(say_trouble);
            if let Some(error) = server.take_refusal() {
                say(format_args!("a client was not accepted: {error}"));
            }
            stop.news().iter().for_each(say);
            is_to_end(&stop, gateway.as_ref())
        };
        let served = server.run(&stops).await;
        if let Err(error) = served {
            say("the pool is left as a killed server leaves it; the next one recovers all that was acknowledged");
            return Err(error.into());
        }
        let result = gateway.map_or(Ok(()), GatewayHandle::stop);
        let closing = server.close().await?;
        result?;
        say_end(closing, &serving.data);
        Ok::<(), Failure>(())
    })?;
    if let Some(path) = &flags.ready_file {
        remove(path)?;
    }
    Ok(())
}

/// Lets clients come. Where that fails, nobody was served.
fn start_listening(
    serving: &Serving,
    flags: &Serve,
    device: &dyn Device,
) -> Result<Option<GatewayHandle>, Failure> {
    serving
        .listen
        .iter()
        .try_for_each(|address| device.listen(&address.to_string()))?;
    // Its addresses are taken now; it is served by the server's loop, like every other client of the store.
    let gateway = serving
        .gateway
        .clone()
        .map(stonecast_gateway::spawn)
        .transpose()?;
    if let Some(path) = &flags.ready_file {
        write_ready_file(path)?;
    }
    Ok(gateway)
}

/// Where clients find the server, and which.
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
    say(format_args!(
        "ready: serving {} at {}",
        serving.data.display(),
        addresses.join(", ")
    ));
}

/// How the server left the pool.
fn say_end(closing: Closing, data: &Path) {
    let data = data.display();
    match closing {
        Closing::Clean => say(format_args!("ended in good order: {data} is closed")),
        Closing::Unclean => say(format_args!(
            "ended, but {data} is left as a killed server leaves it: a client was stopped in the middle of a publication and may go \
             on. All that was acknowledged is there; end that client before the next start, which reads the log"
        )),
    }
}

/// Why there is no room for writes.
fn say_trouble(error: &MediaError) {
    let remedy = match error {
        MediaError::NoSpace { .. } => {
            "free some on that file system, or move the pool to a larger one"
        }
        _ => "look for errors of that disk",
    };
    say(format_args!("writes are refused: {error}; {remedy}"));
}

/// Whether the server has nothing left to do. A gateway is asked to end first and served to its end: what its clients have
/// sent is done and answered.
fn is_to_end(stop: &Stop, gateway: Option<&GatewayHandle>) -> bool {
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

fn say_recovery(report: &RecoveryReport, start: Instant) {
    report
        .repairs
        .iter()
        .for_each(|damage| say(format_args!("not used: {damage}")));
    if report.lost > 0 {
        say(format_args!(
            "{} records were lost with the power, as --durability process allows",
            report.lost
        ));
    }
    if report.torn_tails > 0 {
        say(format_args!(
            "{} segments end in writes that were never acknowledged; they are left out",
            report.torn_tails
        ));
    }
    if report.lacks_checkpoint {
        say(format_args!(
            "the pool was closed without a checkpoint, for want of room on its medium: its log was scanned"
        ));
    }
    let how = if report.used_checkpoint {
        " and a checkpoint"
    } else {
        ""
    };
    let seconds = start.elapsed().as_secs_f64();
    let scanned = size(report.bytes_scanned);
    say(format_args!(
        "opened in {seconds:.2} s: {} keys, from {scanned} of log{how}",
        report.keys
    ));
}

/// A file of an earlier run says nothing about this one.
fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::operation(format!(
            "cannot remove {}: {error}",
            path.display()
        ))),
        _ => Ok(()),
    }
}
