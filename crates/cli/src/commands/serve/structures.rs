//! A pool of data structures, served alone or beside a pool of keys and values.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use stonecast::structures::{Builder, Server, StandingNotes};
use stonecast::{Address, Durability, PersistenceDomain};
use stonecast_console::child::{end_with, write_ready_file};
use stonecast_fabric_shm::{Log, ShmOptions};
use stonecast_gateway::{GatewayHandle, GatewayOptions};
use tracing::{info, warn};

use super::addresses_of;
use super::arguments::{PlatformArgument, RoleArgument, Serve};
use super::oversight::Requests;
use super::remove;
use crate::fabric::DeviceSettings;
use crate::failure::Failure;
use crate::flags::DurabilityArgument;
use crate::output::size;

/// The back-end that the flags ask for.
fn builder(flags: &Serve, data: &Path) -> Builder {
    let mut builder = Server::builder(data).lease(flags.structures_lease.0);
    if let Some(durability) = flags.durability {
        builder = builder.durability(match durability {
            DurabilityArgument::Power => Durability::Power,
            DurabilityArgument::Process => Durability::Process,
        });
    }
    if let Some(platform) = flags.platform {
        builder = builder.platform(match platform {
            PlatformArgument::PageFile => PersistenceDomain::PageFile,
            PlatformArgument::Dmp => PersistenceDomain::Dmp,
            PlatformArgument::Mhp => PersistenceDomain::Mhp,
            PlatformArgument::Wsp => PersistenceDomain::Wsp,
        });
    }
    if let Some(capacity) = flags.structures_capacity {
        builder = builder.capacity(capacity.0);
    }
    if let Some(quota) = flags.structures_quota {
        builder = builder.quota(quota.0);
    }
    builder = builder.mirror_lease(flags.structures_mirror_lease.0);
    if let Some(mirror) = &flags.structures_mirror {
        builder = builder.mirror(mirror.clone());
    }
    if let Some(store) = &flags.structures_cluster {
        builder = builder.cluster(store);
    }
    match flags.structures_role {
        RoleArgument::BackEnd => builder,
        RoleArgument::Mirror => builder.as_mirror(),
    }
}

fn open(builder: &Builder, device: DeviceSettings) -> Result<Server, Failure> {
    let opened = builder.clone();
    Ok(opened.open_on(|pool| device.open(Some(pool.platform)))?)
}

fn shared_memory(flags: &Serve) -> Result<ShmOptions, Failure> {
    Ok(ShmOptions {
        socket_mode: flags.sharing.socket_mode.0,
        socket_group: flags.sharing.group()?,
        log: Log::new(|line| warn!("{line}")),
        ..ShmOptions::default()
    })
}

/// Serves a pool of data structures, and nothing else, until the process is asked to end.
pub fn run_alone(flags: &Serve) -> Result<(), Failure> {
    let data = flags.structures.as_deref().expect("the flag was given");
    for (is_given, flag) in [
        (flags.capacity.is_some(), "--capacity"),
        (flags.segment_size.is_some(), "--segment-size"),
        (flags.shards.is_some(), "--shards"),
        (flags.cluster.is_some(), "--cluster"),
        (flags.node.is_some(), "--node"),
        (flags.gateway.resp.is_some(), "--resp"),
    ] {
        if is_given {
            return Err(Failure::usage(format!(
                "{flag} is for a pool of keys and values: name that with --data, or leave the flag out"
            )));
        }
    }
    let at = match flags.listen.first() {
        Some(address) => address.clone(),
        None => Address::of_pool(data),
    };
    flags.verbs.check(Some(&at))?;
    let metrics = metrics(flags, &at)?;
    let requests = Requests::listen(&flags.gateway)?;
    if let Some(parent) = flags.exit_with_parent {
        end_with(parent)?;
    }
    if let Some(path) = &flags.ready_file {
        remove(path)?;
    }
    let mut builder = builder(flags, data);
    for address in &flags.listen {
        builder = builder.listen(address.clone());
    }
    let open = || {
        let device = DeviceSettings::of(&at, shared_memory(flags)?, &flags.verbs)?;
        open(&builder, device)
    };
    let server = open()?;
    let gateway = metrics.map(stonecast_gateway::spawn).transpose()?;
    if let Some(path) = &flags.ready_file {
        write_ready_file(path)?;
    }
    let gateway_of = gateway.as_ref();
    let standing = Standing::default();
    let opened = |server: &Server| {
        standing.of(server);
        requests.ready(&tell_ready(server, gateway_of));
    };
    opened(&server);
    let stop = || {
        standing.tell();
        requests.attend(false, gateway_of)
    };
    server.serve(&stop, || open().inspect(opened))?;
    gateway.map_or(Ok(()), GatewayHandle::stop)?;
    info!("ended in order: {} is closed", data.display());
    match &flags.ready_file {
        Some(path) => remove(path),
        None => Ok(()),
    }
}

/// The options of the admin port, if the flags ask for one.
fn metrics(flags: &Serve, at: &Address) -> Result<Option<GatewayOptions>, Failure> {
    let Some(options) = flags.gateway.options()? else {
        return Ok(None);
    };
    if at.socket().is_none() {
        return Err(Failure::usage(
            "--admin reaches the back-end over shared memory; listen at shm:PATH",
        ));
    }
    Ok(Some(GatewayOptions {
        store: None,
        structures: Some(at.to_string()),
        ..options
    }))
}

fn tell_ready(server: &Server, gateway: Option<&GatewayHandle>) -> String {
    let pool = server.description();
    let mut addresses: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    addresses.extend(gateway.map(addresses_of).into_iter().flatten());
    let addresses = addresses.join(", ");
    let part = match server.is_mirror() {
        true => "holding a mirror of data structures",
        false => "serving data structures",
    };
    let status = format!(
        "{part} in {} ({}, durability {}) at {}",
        pool.data.display(),
        size(pool.capacity),
        pool.durability,
        addresses
    );
    info!(data = %pool.data.display(), addresses, "ready: {status}");
    status
}

/// Tells what the server that is open says of its standing record.
#[derive(Default)]
struct Standing(RefCell<Option<StandingNotes>>);

impl Standing {
    fn of(&self, server: &Server) {
        self.0.replace(server.standing_notes());
    }

    fn tell(&self) {
        let notes = self.0.borrow();
        if let Some(words) = notes.as_ref().and_then(StandingNotes::take) {
            warn!("data structures: {words}");
        }
    }
}

/// A back-end in a thread beside the server of keys and values.
pub struct Beside {
    data: PathBuf,
    is_mirror: bool,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Failure>>,
}

impl Beside {
    /// Starts it, if the flags ask for it.
    pub fn start(flags: &Serve) -> Result<Option<Self>, Failure> {
        let Some(data) = flags.structures.clone() else {
            return Ok(None);
        };
        let builder = builder(flags, &data);
        let (mode, group) = (flags.sharing.socket_mode.0, flags.sharing.group()?);
        let stop = Arc::new(AtomicBool::new(false));
        let (opened, ready) = mpsc::channel();
        let theirs = stop.clone();
        let run = move || {
            let options = ShmOptions {
                socket_mode: mode,
                socket_group: group,
                log: Log::new(|line| warn!("{line}")),
                ..ShmOptions::default()
            };
            let open = || open(&builder, DeviceSettings::SharedMemory(options.clone()));
            let server = open()?;
            // The caller waits for this.
            let _ = opened.send(server.is_mirror());
            let standing = Standing::default();
            standing.of(&server);
            let promoted = |server: &Server| {
                standing.of(server);
                info!("data structures: the mirror was promoted");
            };
            let stop = || {
                standing.tell();
                theirs.load(Ordering::Relaxed)
            };
            server.serve(&stop, || open().inspect(promoted))
        };
        let thread = thread::Builder::new()
            .name("structures".to_owned())
            .spawn(run);
        let thread = thread
            .map_err(|error| Failure::operation(format!("cannot start a thread: {error}")))?;
        let mut beside = Self {
            data,
            is_mirror: false,
            stop,
            thread,
        };
        match ready.recv() {
            Ok(is_mirror) => {
                beside.is_mirror = is_mirror;
                Ok(Some(beside))
            }
            Err(_) => beside.end().map(|()| None),
        }
    }

    pub fn tell_ready(&self) {
        let (data, address) = (self.data.display(), Address::of_pool(&self.data));
        let part = match self.is_mirror {
            true => "a mirror of data structures",
            false => "data structures",
        };
        info!(%data, %address, "{part} in {data} at {address}");
    }

    /// Whether the back-end has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the back-end in order.
    pub fn end(self) -> Result<(), Failure> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
