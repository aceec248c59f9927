//! `serve`: opens a pool, or creates it, and serves it until it is asked to end.

mod arguments;
mod gateway;
mod settings;

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use stonecast_base::Nanoseconds;
use stonecast_fabric::{BusyPoll, Port};
use stonecast_gateway::GatewayHandle;
use stonecast_kv::{ClientPolicy, RecoveryReport, Server, ServerOptions};
use stonecast_media::{
    Backing, Ddio, DeclaredPlatform, DetectedDomain, Durability, MediaError, OpenMode,
    PersistenceDomain, Pool, PoolOptions, ReceiveBuffers, Repair, SEGMENT_SIZE_DEFAULT,
    create_backing, detect_domain, open_backing,
};

pub use arguments::Serve;
use arguments::{ClientsArgument, PlatformArgument};
use settings::{CAPACITY, Serving};

use crate::fabric::{self, Opened};
use crate::failure::Failure;
use crate::flags::DurabilityArgument;
use crate::output::{say, size};
use crate::signals::Stop;
use crate::values::{Size, is_device};

/// How long a server looks for work before it sleeps: longer than a client that has its answer takes to ask again, so
/// that only a client that pauses pays for a wake-up.
const SPIN_NS: Nanoseconds = 200_000;
/// Entries of the server's completion queues: the answers that all clients together may be waiting for.
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
    let start = Instant::now();
    let (pool, repairs) = open_or_create(
        serving,
        if flags.accept_copy {
            OpenMode::Adopt
        } else {
            OpenMode::Serve
        },
    )?;
    repairs
        .iter()
        .for_each(|repair| say(format_args!("repaired: {}", repair.corruption)));

    let Opened { device, park } =
        fabric::open(&serving.listen[0], &serving.verbs, Some(pool.platform()))?;
    let executor = BusyPoll::new(park, SPIN_NS);
    let port = Rc::new(Port::new(device.clone(), COMPLETIONS)?);
    executor.add_port(&port);
    let clients = match serving.clients {
        ClientsArgument::Trusted => ClientPolicy::Trusted,
        ClientsArgument::Publishing => ClientPolicy::Publishing,
        ClientsArgument::Copying => ClientPolicy::Copying,
    };
    let options = ServerOptions {
        clients,
        process: std::process::id(),
    };
    executor.block_on(async {
        let (server, report) = Server::open(pool, port, executor.runtime(), options).await?;
        say_recovery(&report, start);
        serving
            .listen
            .iter()
            .try_for_each(|address| device.listen(&address.to_string()))?;
        // Its addresses are taken now; it is served by the loop below, like every other client of the store.
        let gateway = serving
            .gateway
            .clone()
            .map(stonecast_gateway::spawn)
            .transpose()?;
        if let Some(path) = &flags.ready_file {
            write_ready_file(path)?;
        }
        let mut addresses: Vec<String> = serving.listen.iter().map(ToString::to_string).collect();
        addresses.extend(gateway.as_ref().map(addresses_of).into_iter().flatten());
        say(format_args!(
            "ready: serving {} at {}",
            serving.data.display(),
            addresses.join(", ")
        ));
        let stops = || {
            server.take_trouble().iter().for_each(say_trouble);
            is_to_end(&stop, gateway.as_ref())
        };
        server.run(&stops).await?;
        let result = gateway.map_or(Ok(()), GatewayHandle::stop);
        server.close().await?;
        Ok::<(), Failure>(result?)
    })?;
    if let Some(path) = &flags.ready_file {
        remove(path)?;
    }
    Ok(())
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

/// The pool in the folder or on the device, and what was repaired when it was opened.
fn open_or_create(serving: &Serving, mode: OpenMode) -> Result<(Pool, Vec<Repair>), Failure> {
    let backing = match open_backing(&serving.data) {
        Ok(backing) => backing,
        Err(MediaError::NotFound { .. }) => {
            let backing = create_backing(&serving.data)?;
            let options = options_of(serving, &*backing)?;
            return Ok((Pool::create(backing, options)?, Vec::new()));
        }
        Err(error) => return Err(error.into()),
    };
    let (pool, repairs) = Pool::open(backing, mode)?;
    check_against(serving, &pool)?;
    Ok((pool, repairs))
}

/// What a new pool is made with.
fn options_of(serving: &Serving, backing: &dyn Backing) -> Result<PoolOptions, Failure> {
    let durability = durability_of(serving.durability.unwrap_or(DurabilityArgument::Power));
    let persistence_domain = match serving.platform {
        Some(platform) => domain_of(platform),
        None if durability == Durability::Process => PersistenceDomain::Volatile,
        None if is_device(&serving.data) => detected(&serving.data)?,
        None => PersistenceDomain::PageFile,
    };
    let mut entropy = [0; 64];
    fs::File::open("/dev/urandom")?.read_exact(&mut entropy)?;
    let segment_size = serving
        .segment_size
        .map_or(SEGMENT_SIZE_DEFAULT, |size| size.0);
    Ok(PoolOptions {
        capacity: match (serving.capacity, backing.capacity_max(segment_size)) {
            (None, Some(capacity)) => capacity,
            (said, _) => whole_segments(said.unwrap_or(CAPACITY), segment_size),
        },
        segment_size,
        platform: DeclaredPlatform {
            persistence_domain,
            ddio: Ddio::On,
            receive_buffers: ReceiveBuffers::Dram,
        },
        durability,
        entropy,
    })
}

/// What the kernel says of the device, where nobody declares it.
fn detected(device: &Path) -> Result<PersistenceDomain, Failure> {
    let said = detect_domain(device).and_then(DetectedDomain::declared);
    said.ok_or_else(|| {
        Failure::operation(format!(
            "the kernel does not say what {} keeps when the power goes; say it with --platform (dmp: what was written back, \
             mhp: caches too, wsp: everything)",
            device.display()
        ))
    })
}

/// A log is made of whole segments: `--capacity 1GB` is as many as fit.
fn whole_segments(capacity: Size, segment_size: u64) -> u64 {
    capacity.0 - capacity.0.checked_rem(segment_size).unwrap_or(0)
}

/// What was asked for must be what the pool is: a promise is declared once, at creation.
fn check_against(serving: &Serving, pool: &Pool) -> Result<(), Failure> {
    let data = serving.data.display();
    let differs = |what: &str, has: String, asked: String| {
        Err(Failure::operation(format!(
            "{data} was created with {what} {has}, not {asked}; leave the flag away, or export the pool into a new one"
        )))
    };
    if let Some(asked) = serving
        .durability
        .map(durability_of)
        .filter(|asked| *asked != pool.durability())
    {
        return differs(
            "--durability",
            pool.durability().to_string(),
            asked.to_string(),
        );
    }
    let domain = pool.platform().persistence_domain;
    if let Some(asked) = serving
        .platform
        .map(domain_of)
        .filter(|asked| *asked != domain)
    {
        return differs("--platform", domain.to_string(), asked.to_string());
    }
    if let Some(asked) = serving
        .segment_size
        .filter(|asked| asked.0 != pool.segment_size())
    {
        return differs(
            "--segment-size",
            size(pool.segment_size()),
            asked.to_string(),
        );
    }
    if let Some(asked) = serving
        .capacity
        .filter(|asked| whole_segments(*asked, pool.segment_size()) != pool.capacity())
    {
        return differs("--capacity", size(pool.capacity()), asked.to_string());
    }
    Ok(())
}

fn durability_of(argument: DurabilityArgument) -> Durability {
    match argument {
        DurabilityArgument::Power => Durability::Power,
        DurabilityArgument::Process => Durability::Process,
    }
}

fn domain_of(argument: PlatformArgument) -> PersistenceDomain {
    match argument {
        PlatformArgument::PageFile => PersistenceDomain::PageFile,
        PlatformArgument::Dmp => PersistenceDomain::Dmp,
        PlatformArgument::Mhp => PersistenceDomain::Mhp,
        PlatformArgument::Wsp => PersistenceDomain::Wsp,
    }
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

/// Asks for the same signal that a person would send, when the process `parent` is gone.
pub(super) fn end_with(parent: i32) -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // It may have gone before.
    if getppid().is_none_or(|present| present.as_raw_nonzero().get() != parent) {
        return Err(Failure::operation(format!(
            "process {parent}, which this server was to end with, is gone"
        )));
    }
    Ok(())
}

/// Whole or not at all: who waits for the file reads it at once.
pub(super) fn write_ready_file(path: &Path) -> Result<(), Failure> {
    let refuse =
        |error: io::Error| Failure::operation(format!("cannot write {}: {error}", path.display()));
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(refuse)?;
    writeln!(file, "{}", std::process::id()).map_err(refuse)?;
    file.persist(path)
        .map(drop)
        .map_err(|error| refuse(error.error))
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
