//! Appends over shared memory into a file that is synced: plans for a page-granular file, executed for real by two threads.

use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::task::Poll;
use std::thread;

use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric::{BusyPoll, Device as _, Port};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_media::{
    Backing as _, Ddio, DeclaredPlatform, DirectoryBacking, Durability, LogOptions, PersistenceDomain, PersistentRegion,
    Prepared, ReceiveBuffers,
};
use stonecast_persist::execute::{Layout, Payload, REQUESTER_COMPLETIONS, RESPONDER_COMPLETIONS, Requester, Responder};
use stonecast_persist::{Operation, Plan, Platform, Update, plan_for};

use super::log::{LOG_SIZE, RECORD_SIZE, place, record, tail};
use super::{Measurement, RemotelogError, WARM_UP};

const CAPACITY: u64 = 1 << 20;
const BUFFER_SIZE: u32 = 256;
/// How long both sides look for work before they sleep: longer than a sync takes.
const SPIN_NS: Nanoseconds = 2_000_000;
/// How often the responder looks whether it should end.
const LOOK_NS: Nanoseconds = 1_000_000;
/// How long the preparation of the file may take between two looks.
const PREPARE_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);

/// See [`super::measure_shared_memory`].
pub(super) fn measure_all(folder: &Path, appends: u64) -> Result<Vec<Measurement>, RemotelogError> {
    let declared = DeclaredPlatform {
        persistence_domain: PersistenceDomain::PageFile,
        ddio: Ddio::On,
        receive_buffers: ReceiveBuffers::Dram,
    };
    let mut measured = Vec::new();
    for update in [Update::Single, Update::Compound { large: false }] {
        for &operation in Operation::ALL {
            let plan = plan_for(&Platform::of(declared), operation, update)?;
            let directory = tempfile::Builder::new()
                .prefix("stonecast-remotelog-")
                .tempdir_in(folder)
                .map_err(|source| RemotelogError::System { doing: "making a folder for the log", source })?;
            let times = measure(&plan, directory.path(), appends)?;
            measured.push(Measurement::new("shm", plan, times));
        }
    }
    Ok(measured)
}

fn measure(plan: &Plan, directory: &Path, appends: u64) -> Result<Vec<Nanoseconds>, RemotelogError> {
    let socket = directory.join("socket");
    let stop = Arc::new(AtomicBool::new(false));
    let (ready, is_ready) = channel();
    let responding = {
        let (plan, directory, socket, stop) = (plan.clone(), directory.to_owned(), socket.clone(), stop.clone());
        thread::spawn(move || respond(&plan, &directory, &socket, &stop, &ready))
    };
    // Where the responder could not begin it has hung up, and says why below.
    let times = match is_ready.recv() {
        Ok(()) => append_all(plan, &socket, appends),
        Err(_) => Ok(Vec::new()),
    };
    stop.store(true, Ordering::Release);
    let found = responding.join().expect("the responder's thread does not panic")?;
    let times = times?;
    if found != WARM_UP + appends {
        return Err(RemotelogError::LogBroken { found, appended: WARM_UP + appends });
    }
    Ok(times)
}

/// Serves the log in `directory` until it is told to stop; how many records are in it then.
fn respond(plan: &Plan, directory: &Path, socket: &Path, stop: &AtomicBool, ready: &Sender<()>) -> Result<u64, RemotelogError> {
    let region = open(plan, &directory.join("log"))?;
    let device = ShmDevice::new(ShmOptions::default())?;
    let executor = BusyPoll::new(device.clone(), SPIN_NS);
    let port = Rc::new(Port::new(device.clone(), RESPONDER_COMPLETIONS)?);
    executor.add_port(&port);
    let layout = Layout { data: Span::new(0, LOG_SIZE), receive_buffers: None, buffer_size: BUFFER_SIZE };
    let responder = Responder::new(&port, region.clone(), layout, plan)?;
    device.listen(&address(socket))?;
    // The other side waits for this; if it is gone, so is the reason to serve.
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

fn open(plan: &Plan, directory: &Path) -> Result<Rc<dyn PersistentRegion>, RemotelogError> {
    let backing = DirectoryBacking::create(directory)?;
    let platform = plan.scenario().platform.declared();
    let region = backing.open_log(LogOptions { capacity: CAPACITY, platform, durability: Durability::Power })?;
    while backing.prepare(Span::new(0, CAPACITY))? == Prepared::Pending {
        thread::sleep(PREPARE_PAUSE);
    }
    Ok(region)
}

fn append_all(plan: &Plan, socket: &Path, appends: u64) -> Result<Vec<Nanoseconds>, RemotelogError> {
    let device = ShmDevice::new(ShmOptions::default())?;
    let executor = BusyPoll::new(device.clone(), SPIN_NS);
    let port = Rc::new(Port::new(device, REQUESTER_COMPLETIONS)?);
    executor.add_port(&port);
    let runtime = executor.runtime();
    let compound = plan.scenario().update.is_compound();
    executor.block_on(async {
        let mut log = Requester::connect(&port, &address(socket), plan, 2 * RECORD_SIZE as u32).await?;
        let mut times = Vec::new();
        for number in 1..=WARM_UP + appends {
            let (bytes, pointer) = (record(number), number.to_le_bytes());
            let payload = Payload::single(place(number), &bytes);
            let payload = if compound { payload.then(0, &pointer) } else { payload };
            let start = runtime.now();
            let _persisted = log.persist(&payload).await?;
            if number > WARM_UP {
                times.push(runtime.now() - start);
            }
        }
        Ok(times)
    })
}

fn address(socket: &Path) -> String {
    format!("shm:{}", socket.display())
}
