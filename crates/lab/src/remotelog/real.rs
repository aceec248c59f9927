//! Appends that are executed for real, by two threads with a device each, into a log on a
//! persistent medium: a file that is synced, or persistent memory.
//!
//! ```text
//!   medium                   platform                          flush
//!   folder on a disk         page-file                         READ
//!   /dev/dax0.0              what the kernel says              with persistence, where the device has it, else READ
//! ```
//!
//! An append that ended *unknown* is repeated in a new session: record and place are the same, so a
//! repetition is idempotent. The append counts only when it is persisted.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::task::Poll;
use std::thread;
use std::time::Instant;

use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric::{BusyPoll, Capabilities, Port};
use stonecast_media::{
    Ddio, DeclaredPlatform, DetectedDomain, Durability, LogOptions, PersistenceDomain,
    PersistentRegion, Prepared, ReceiveBuffers, create_backing, detect_domain,
};
use stonecast_persist::execute::{
    ExecuteError, Layout, Payload, REQUESTER_COMPLETIONS, RESPONDER_COMPLETIONS, Requester,
    Responder, UpdateEffect,
};
use stonecast_persist::{FlushKind, Operation, Plan, Platform, Update, plan_for};

use super::log::{LOG_SIZE, RECORD_SIZE, place, record, tail};
use super::{Measurement, RemotelogError, WARM_UP};
use stonecast::OpenDevice;
use stonecast_bench::kv::Devices;

const CAPACITY: u64 = 1 << 20;
const BUFFER_SIZE: u32 = 256;
/// Time for which both sides poll before they sleep: longer than a sync.
const SPIN_NS: Nanoseconds = 2_000_000;
/// Interval at which the responder checks whether it should end.
const LOOK_NS: Nanoseconds = 1_000_000;
/// Pause between two checks of the preparation of the file.
const PREPARE_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);
/// Number of repetitions of one append before its error ends the measurement.
const RETRIES_MAX: u32 = 20;

/// The devices of both machines, which this process plays.
#[derive(Clone, Copy)]
pub struct Ends<'a> {
    /// Devices of the requester.
    pub requester: &'a dyn Devices,
    /// Devices of the responder, which has the log.
    pub responder: &'a dyn Devices,
}

/// The latencies of one plan's appends.
struct Appended {
    times: Vec<Nanoseconds>,
    retried: u64,
}

/// Measures every plan of the platform of `medium`; see [`super::measure_on`].
pub(super) fn measure_all(
    ends: Ends<'_>,
    medium: &Path,
    appends: u64,
) -> Result<Vec<Measurement>, RemotelogError> {
    let platform = platform_of(ends, medium)?;
    let mut measured = Vec::new();
    for update in [Update::Single, Update::Compound { large: false }] {
        for &operation in Operation::PUBLISHED {
            let plan = plan_for(&platform, operation, update)?;
            let folder = tempfile::Builder::new()
                .prefix("stonecast-remotelog-")
                .tempdir_in(folder_of(medium));
            let folder = folder.map_err(|source| RemotelogError::System {
                doing: "making a folder",
                source,
            })?;
            // Each log has a separate folder; a device is a log in itself.
            let log = if medium.is_dir() {
                folder.path().join("log")
            } else {
                medium.to_owned()
            };
            let Appended { times, retried } = measure(ends, &plan, folder.path(), &log, appends)?;
            measured.push(Measurement {
                retried,
                ..Measurement::new(ends.responder.fabric(), plan, times)
            });
        }
    }
    Ok(measured)
}

/// The folder for sockets.
fn folder_of(medium: &Path) -> PathBuf {
    if medium.is_dir() {
        medium.to_owned()
    } else {
        std::env::temp_dir()
    }
}

/// The platform of a log on `medium`, given the features of both devices.
fn platform_of(ends: Ends<'_>, medium: &Path) -> Result<Platform, RemotelogError> {
    let on_device = !medium.is_dir();
    let persistence_domain = if on_device {
        let said = detect_domain(medium).and_then(DetectedDomain::declared);
        said.ok_or_else(|| RemotelogError::Unsaid {
            device: medium.display().to_string(),
        })?
    } else {
        PersistenceDomain::PageFile
    };
    // This program cannot see where inbound writes land. Every plan for *on* is sound in either case.
    let declared = DeclaredPlatform {
        persistence_domain,
        ddio: Ddio::On,
        receive_buffers: ReceiveBuffers::Dram,
    };
    let (requester, responder) = (ends.requester.open()?.device, ends.responder.open()?.device);
    let can = |has: fn(&Capabilities) -> bool| {
        has(requester.device.capabilities()) && has(responder.device.capabilities())
    };
    let flush = if on_device && can(|has| has.flush_persistent) {
        FlushKind::NativePersistent
    } else {
        FlushKind::Read
    };
    Ok(Platform {
        flush,
        atomic_write: can(|has| has.atomic_write),
        ..Platform::of(declared)
    })
}

fn measure(
    ends: Ends<'_>,
    plan: &Plan,
    folder: &Path,
    log: &Path,
    appends: u64,
) -> Result<Appended, RemotelogError> {
    let refuse = |source| RemotelogError::System {
        doing: "finding a free address",
        source,
    };
    let address = ends.responder.free_address(folder).map_err(refuse)?;
    let stop = Arc::new(AtomicBool::new(false));
    let (ready, is_ready) = channel();
    thread::scope(|scope| {
        let responding = scope.spawn(|| respond(ends, plan, log, &address, &stop, ready));
        // A responder that could not begin has hung up; its error is returned below.
        let appended = match is_ready.recv() {
            Ok(()) => append_all(ends, plan, &address, appends),
            Err(_) => Ok(Appended {
                times: Vec::new(),
                retried: 0,
            }),
        };
        stop.store(true, Ordering::Release);
        let found = responding
            .join()
            .expect("the responder's thread does not panic")?;
        let appended = appended?;
        if found != WARM_UP + appends {
            return Err(RemotelogError::LogBroken {
                found,
                appended: WARM_UP + appends,
            });
        }
        Ok(appended)
    })
}

/// Serves the log until `stop` is set. Returns the number of records in it.
fn respond(
    ends: Ends<'_>,
    plan: &Plan,
    log: &Path,
    address: &str,
    stop: &AtomicBool,
    ready: Sender<()>,
) -> Result<u64, RemotelogError> {
    let region = open(plan, log)?;
    let OpenDevice { device, park } = ends.responder.open()?.device;
    let executor = BusyPoll::new(park, SPIN_NS);
    let port = Rc::new(Port::new(device.clone(), RESPONDER_COMPLETIONS)?);
    executor.add_port(&port);
    let layout = Layout {
        data: Span::new(0, LOG_SIZE),
        receive_buffers: None,
        buffer_size: BUFFER_SIZE,
    };
    let responder = Responder::new(&port, region.clone(), layout, plan)?;
    device.listen(address)?;
    // The other side waits for this message; if the other side is gone, there is no reason to serve.
    let _ = ready.send(());
    let runtime = executor.runtime();
    executor.block_on(async {
        let mut serving = pin!(responder.serve());
        let mut stopping = pin!(async {
            while !stop.load(Ordering::Acquire) {
                runtime.sleep(LOOK_NS).await;
            }
        });
        std::future::poll_fn(|context| {
            if let Poll::Ready(Err(error)) = serving.as_mut().poll(context) {
                return Poll::Ready(Err(error));
            }
            stopping.as_mut().poll(context).map(Ok)
        })
        .await
    })?;
    Ok(tail(&*region, plan.scenario().update))
}

fn open(plan: &Plan, log: &Path) -> Result<Rc<dyn PersistentRegion>, RemotelogError> {
    let backing = create_backing(log)?;
    let platform = plan.scenario().platform.declared();
    let region = backing.open_log(LogOptions {
        capacity: CAPACITY,
        platform,
        durability: Durability::Power,
    })?;
    while backing.prepare(Span::new(0, CAPACITY))? == Prepared::Pending {
        thread::sleep(PREPARE_PAUSE);
    }
    Ok(region)
}

fn append_all(
    ends: Ends<'_>,
    plan: &Plan,
    address: &str,
    appends: u64,
) -> Result<Appended, RemotelogError> {
    let mut writer = Writer {
        ends,
        plan,
        address,
        session: connect(ends, plan, address)?,
        retried: 0,
    };
    let mut times = Vec::new();
    for number in 1..=WARM_UP + appends {
        let start = Instant::now();
        writer.append(number)?;
        if number > WARM_UP {
            times.push(start.elapsed().as_nanos() as Nanoseconds);
        }
    }
    Ok(Appended {
        times,
        retried: writer.retried,
    })
}

/// Appends one record after the other, and connects again when a session ended.
struct Writer<'a> {
    ends: Ends<'a>,
    plan: &'a Plan,
    address: &'a str,
    session: Session,
    /// Appends that ended unknown and were done again.
    retried: u64,
}

struct Session {
    executor: BusyPoll,
    log: Requester,
}

impl Writer<'_> {
    /// Returns when record `number` is persisted, after as many attempts as that takes.
    fn append(&mut self, number: u64) -> Result<(), RemotelogError> {
        for _ in 0..RETRIES_MAX {
            match self.session.append(self.plan, number) {
                Ok(()) => return Ok(()),
                Err(error) if error.effect() == UpdateEffect::Unknown => self.retried += 1,
                Err(error) => return Err(error.into()),
            }
            self.session = connect(self.ends, self.plan, self.address)?;
        }
        Ok(self.session.append(self.plan, number)?)
    }
}

impl Session {
    fn append(&mut self, plan: &Plan, number: u64) -> Result<(), ExecuteError> {
        let (bytes, pointer) = (record(number), number.to_le_bytes());
        let payload = Payload::single(place(number), &bytes);
        let payload = if plan.scenario().update.is_compound() {
            payload.then(0, &pointer)
        } else {
            payload
        };
        let _persisted = self.executor.block_on(self.log.persist(&payload))?;
        Ok(())
    }
}

fn connect(ends: Ends<'_>, plan: &Plan, address: &str) -> Result<Session, RemotelogError> {
    let OpenDevice { device, park } = ends.requester.open()?.device;
    let executor = BusyPoll::new(park, SPIN_NS);
    let port = Rc::new(Port::new(device, REQUESTER_COMPLETIONS)?);
    executor.add_port(&port);
    let log = executor.block_on(Requester::connect(
        &port,
        address,
        plan,
        2 * RECORD_SIZE as u32,
    ))?;
    Ok(Session { executor, log })
}
