//! Plans on the RDMA devices of this machine and on its persistent memory. Every plan runs to its end if the devices
//! have its operations and the medium is the right one; every other plan is refused in words before anything is done.
//!
//! `STONECAST_RDMA_DEVICES` names the devices (the first for requesters, the last for responders), `STONECAST_DAX` a
//! devdax device, whose content is lost. `STONECAST_LOSSY` says that packets between the devices are being lost.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use stonecast_base::{KIB, MIB, Span};
use stonecast_fabric::{BusyPoll, Device as _, DeviceError, Placing, Port};
use stonecast_fabric_verbs::control::{Key, KeyRing};
use stonecast_fabric_verbs::{VerbsDevice, VerbsOptions};
use stonecast_media::{
    Backing, DaxBacking, Ddio, DeclaredPlatform, DirectoryBacking, Durability, LogOptions,
    MappedRegion, MediaError, PersistenceDomain, PersistentRegion, Prepared, ReceiveBuffers,
    Region as _, Writable,
};
use stonecast_persist::execute::{
    ExecuteError, Layout, Payload, REQUESTER_COMPLETIONS, RESPONDER_COMPLETIONS, Requester,
    Responder, UpdateEffect,
};
use stonecast_persist::litmus::check;
use stonecast_persist::{FlushKind, Operation, Plan, Platform, Update, plan_for};

use crate::pause::Pause;

const CAPACITY: u64 = 2 * MIB;
const DATA: Span = Span::new(64 * KIB, 64 * KIB);
const BUFFERS: Span = Span::new(256 * KIB, 16 * 256);
/// Longest wait on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The hardware of the tests; `None`, with a note that `test` was not run.
struct Hardware {
    devices: Vec<String>,
    dax: String,
}

impl Hardware {
    fn or_note(test: &str) -> Option<Self> {
        let named = std::env::var("STONECAST_RDMA_DEVICES").unwrap_or_default();
        let devices: Vec<String> = named
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        let dax = std::env::var("STONECAST_DAX").ok();
        if let (false, Some(dax)) = (devices.is_empty(), dax) {
            return Some(Self { devices, dax });
        }
        note(
            test,
            "no RDMA device is named in STONECAST_RDMA_DEVICES, or no persistent memory in STONECAST_DAX",
        );
        None
    }

    fn open(&self, name: &str) -> Rc<VerbsDevice> {
        let options = VerbsOptions {
            device: Some(name.to_owned()),
            keys: KeyRing::single("plans", Key::new([7; 32])),
            log: std::sync::Arc::new(|line| println!("{line}")),
            ..VerbsOptions::default()
        };
        VerbsDevice::open(options).expect("the device that is named can be opened")
    }

    /// The log on the persistent memory, cleared.
    fn region(&self, platform: &Platform) -> Result<Rc<dyn PersistentRegion>, MediaError> {
        let device = std::fs::File::options()
            .read(true)
            .write(true)
            .open(&self.dax)
            .expect("the device opens");
        let head = MappedRegion::map(device.into(), 0, 2 * MIB, Writable::Yes)
            .expect("the device can be mapped");
        head.write(0, &vec![0; 2 * MIB as usize]);
        let backing = DaxBacking::create(Path::new(&self.dax))?;
        log_of(&backing, platform)
    }
}

fn log_of(
    backing: &dyn Backing,
    platform: &Platform,
) -> Result<Rc<dyn PersistentRegion>, MediaError> {
    let options = LogOptions {
        capacity: CAPACITY,
        platform: platform.declared(),
        durability: Durability::Power,
    };
    let region = backing.open_log(options)?;
    while backing.prepare(Span::new(0, CAPACITY))? == Prepared::Pending {
        std::thread::yield_now();
    }
    Ok(region)
}

/// Notes for `cargo xtask ci` that a test could not run.
fn note(test: &str, reason: &str) {
    use std::io::Write as _;
    println!("not run: {test} ({reason})");
    let Some(path) = std::env::var_os("STONECAST_NOT_RUN") else {
        return;
    };
    let mut file = std::fs::File::options()
        .append(true)
        .create(true)
        .open(&path)
        .expect("the list of tests not run opens");
    file.write_all(format!("verbs: {test}\t{reason}\n").as_bytes())
        .expect("it can be appended to");
}

/// A responder of one plan, and requesters of it, in one thread.
struct Scene<'a> {
    hardware: &'a Hardware,
    executor: BusyPoll,
    address: String,
    plan: Plan,
}

impl<'a> Scene<'a> {
    fn new(
        hardware: &'a Hardware,
        region: Rc<dyn PersistentRegion>,
        plan: &Plan,
    ) -> Result<Self, ExecuteError> {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = format!("verbs:{}", free.local_addr().expect("it is bound"));
        drop(free);
        let executor = BusyPoll::new(Pause::new(), 1_000_000);
        let scene = Self {
            hardware,
            executor,
            address,
            plan: plan.clone(),
        };
        let port = scene.port(
            hardware.devices.last().expect("there is one"),
            RESPONDER_COMPLETIONS,
        );
        let responder = Responder::new(&port, region, layout(plan), plan)?;
        port.device().listen(&scene.address)?;
        scene.executor.runtime().spawn(Box::pin(async move {
            let Err(error) = responder.serve().await;
            panic!("the responder failed: {error}");
        }));
        Ok(scene)
    }

    fn port(&self, device: &str, capacity: u32) -> Rc<Port> {
        let port = Rc::new(Port::new(self.hardware.open(device), capacity).expect("a port"));
        self.executor.add_port(&port);
        port
    }

    async fn requester(&self) -> Result<Requester, ExecuteError> {
        let port = self.port(&self.hardware.devices[0], REQUESTER_COMPLETIONS);
        Requester::connect(&port, &self.address, &self.plan, 128).await
    }

    /// Waits until `offset` of the data holds `expected`: the responder may copy a message to its place without telling
    /// the requester.
    async fn find(&self, region: &dyn PersistentRegion, offset: u64, expected: &[u8]) {
        let begun = Instant::now();
        let mut found = vec![0; expected.len()];
        loop {
            region.read(DATA.offset + offset, &mut found);
            if found == expected {
                return;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "{}: bytes at {offset} are not those that were persisted",
                self.plan.program()
            );
            self.executor.runtime().sleep(100_000).await;
        }
    }
}

fn layout(plan: &Plan) -> Layout {
    let persistent = plan.scenario().platform.receive_buffers == ReceiveBuffers::Pm;
    Layout {
        data: DATA,
        receive_buffers: persistent.then_some(BUFFERS),
        buffer_size: 256,
    }
}

fn platforms() -> Vec<Platform> {
    let mut platforms = Vec::new();
    for &persistence_domain in PersistenceDomain::ALL {
        for ddio in [Ddio::On, Ddio::Off] {
            for receive_buffers in [ReceiveBuffers::Dram, ReceiveBuffers::Pm] {
                let taxonomy = Platform::of(DeclaredPlatform {
                    persistence_domain,
                    ddio,
                    receive_buffers,
                });
                for &flush in FlushKind::ALL {
                    platforms.extend([true, false].map(|atomic_write| Platform {
                        flush,
                        atomic_write,
                        ..taxonomy
                    }));
                }
            }
        }
    }
    platforms
}

/// Every plan of the planner for InfiniBand and RoCE, one for each program on each kind of medium.
fn plans() -> Vec<Plan> {
    let mut plans = BTreeMap::new();
    for platform in platforms() {
        for &operation in Operation::PUBLISHED {
            for &update in Update::ALL {
                let Ok(plan) = plan_for(&platform, operation, update) else {
                    continue;
                };
                let key = format!(
                    "{} {} {} {}",
                    platform.persistence,
                    platform.receive_buffers,
                    platform.flush,
                    plan.program()
                );
                plans.entry(key).or_insert(plan);
            }
        }
    }
    plans.into_values().collect()
}

/// Whether the plan loses what lies in a cache, as bytes do where software stands for a NIC.
fn counts_on_nic(plan: &Plan) -> bool {
    let scenario = plan.scenario();
    let in_cache = Platform {
        ddio: Ddio::On,
        ..scenario.platform
    };
    !check(&in_cache, plan.program(), scenario.update).is_sound()
}

async fn persist_some(
    scene: &Scene<'_>,
    region: &dyn PersistentRegion,
) -> Result<(), ExecuteError> {
    let compound = scene.plan.scenario().update.is_compound();
    let mut requester = scene.requester().await?;
    for round in 1..=3u64 {
        let (record, tail) = ([round as u8; 64], round.to_le_bytes());
        let payload = Payload::single(64 * round, &record);
        let payload = if compound {
            payload.then(0, &tail)
        } else {
            payload
        };
        let _persisted = requester.persist(&payload).await?;
        scene.find(region, 64 * round, &record).await;
        if compound {
            scene.find(region, 0, &tail).await;
        }
    }
    Ok(())
}

/// Needs the checks of device and medium: without them a plan would be begun that cannot end.
#[test]
fn every_plan_that_device_and_medium_can_do_is_executed_and_every_other_is_refused_in_words() {
    let test =
        "every_plan_that_device_and_medium_can_do_is_executed_and_every_other_is_refused_in_words";
    let Some(hardware) = Hardware::or_note(test) else {
        return;
    };
    let can = hardware.open(&hardware.devices[0]);
    let software = can.placing() == Placing::ResponderProcessor;
    let can = can.capabilities().clone();
    let (mut executed, mut refused) = (Vec::new(), BTreeMap::<String, u32>::new());
    for plan in plans() {
        let Platform {
            persistence, flush, ..
        } = plan.scenario().platform;
        let name = format!("{persistence}, flush {flush}: {}", plan.program());
        let mut refuse = |reason: String| *refused.entry(reason).or_default() += 1;
        let region = match hardware.region(&plan.scenario().platform) {
            Ok(region) => region,
            Err(error) => {
                let words = error.to_string();
                assert!(
                    words.contains("pages to sync") || words.contains("persistence domain is"),
                    "{name}: {words}"
                );
                refuse(words);
                continue;
            }
        };
        let steps = plan.program().to_string();
        let lacks = [
            (
                software && counts_on_nic(&plan),
                "the responder's processor places bytes",
            ),
            (
                steps.contains("write_atomic") && !can.atomic_write,
                "ATOMIC_WRITE",
            ),
            (
                steps.contains("flush") && flush == FlushKind::NativeGlobal && !can.flush_global,
                "FLUSH with global visibility",
            ),
            (
                steps.contains("flush")
                    && flush == FlushKind::NativePersistent
                    && !can.flush_persistent,
                "FLUSH with persistence",
            ),
        ];
        let lacks: Vec<&str> = lacks
            .iter()
            .filter(|(lacks, _)| *lacks)
            .map(|(_, what)| *what)
            .collect();
        let ended = Scene::new(&hardware, region.clone(), &plan)
            .and_then(|scene| scene.executor.block_on(persist_some(&scene, &*region)));
        match ended {
            Ok(()) => {
                assert!(
                    lacks.is_empty(),
                    "{name} was executed, on a device without {lacks:?}"
                );
                executed.push(name);
            }
            Err(error) => {
                let words = error.to_string();
                assert_eq!(error.effect(), UpdateEffect::None, "{name}: {words}");
                assert!(
                    lacks.iter().any(|what| words.contains(what)),
                    "{name}: {words}"
                );
                refuse(words);
            }
        }
    }
    executed
        .iter()
        .for_each(|name| println!("executed: {name}"));
    refused
        .iter()
        .for_each(|(reason, count)| println!("refused, {count}: {reason}"));
    println!(
        "{} plans were executed, {} refused",
        executed.len(),
        refused.values().sum::<u32>()
    );
    assert!(
        executed.len() >= 20,
        "the medium is good for more plans than {}",
        executed.len()
    );
}

/// Memory of a file that the kernel does not pin for remote writes is refused, and the message names an alternative.
#[test]
fn a_file_whose_pages_are_synced_is_refused_as_a_place_for_remote_writes() {
    let Some(hardware) =
        Hardware::or_note("a_file_whose_pages_are_synced_is_refused_as_a_place_for_remote_writes")
    else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let platform = Platform::of(DeclaredPlatform {
        persistence_domain: PersistenceDomain::PageFile,
        ddio: Ddio::On,
        receive_buffers: ReceiveBuffers::Dram,
    });
    let backing = DirectoryBacking::create(&folder.path().join("log")).expect("a log");
    let region = log_of(&backing, &platform).expect("temporary files lie on a disk here");
    let plan = plan_for(&platform, Operation::Write, Update::Single).expect("there is one");
    let refused = Scene::new(&hardware, region, &plan)
        .err()
        .expect("no device can write there");
    assert!(
        matches!(
            refused,
            ExecuteError::Device(DeviceError::SyncedFile { .. })
        ),
        "{refused}"
    );
}

/// Needs *unknown* for a FLUSH that failed, and a session that does nothing more: an update that counted as persisted,
/// or as not done, would be lost or forgotten. The caller connects again, looks for the update, and repeats it if it is
/// missing.
#[test]
fn a_flush_that_lost_packets_leaves_an_update_unknown_until_it_was_verified_or_done_again() {
    let test =
        "a_flush_that_lost_packets_leaves_an_update_unknown_until_it_was_verified_or_done_again";
    if std::env::var_os("STONECAST_LOSSY").is_none() {
        return note(
            test,
            "nothing says in STONECAST_LOSSY that packets are being lost",
        );
    }
    let Some(hardware) = Hardware::or_note(test) else {
        return;
    };
    let platform = Platform {
        flush: FlushKind::NativePersistent,
        ..Platform::of(DeclaredPlatform {
            persistence_domain: PersistenceDomain::Dmp,
            ddio: Ddio::On,
            receive_buffers: ReceiveBuffers::Dram,
        })
    };
    let plan = plan_for(&platform, Operation::Write, Update::Single).expect("there is one");
    assert!(plan.is_one_sided(), "{}", plan.program());
    let region = hardware
        .region(&platform)
        .expect("the medium is what the plan counts on");
    let scene = Scene::new(&hardware, region.clone(), &plan).expect("a responder");
    let (mut unknown, mut verified, mut again) = (0, 0, 0);
    let begun = Instant::now();
    scene.executor.block_on(async {
        let mut requester = scene.requester().await.expect("a session");
        // Repeated until a loss happens, so that the test does not depend on luck.
        let mut number = 0;
        while unknown < 3 || number < 40 {
            number += 1;
            assert!(begun.elapsed() < 4 * PATIENCE, "{unknown} of {number} flushes failed: are packets being lost?");
            let (offset, record) = (64 * (number % 1000), [number as u8; 64]);
            loop {
                match requester.persist(&Payload::single(offset, &record)).await {
                    Ok(_persisted) => break,
                    Err(error) => {
                        assert_eq!(error.effect(), UpdateEffect::Unknown, "{error}");
                        unknown += 1;
                        let spent = requester.persist(&Payload::single(offset, &record)).await.err();
                        assert!(matches!(spent, Some(ExecuteError::Spent)), "a session ends with its first failure: {spent:?}");
                        requester = scene.requester().await.expect("another session");
                    }
                }
                // A recovering reader would see which of both it was; neither counts before it is persisted.
                let mut found = [0; 64];
                region.read(DATA.offset + offset, &mut found);
                if found == record { verified += 1 } else { again += 1 }
            }
            scene.find(&*region, offset, &record).await;
        }
        println!("{number} updates, {unknown} ended unknown: {verified} of them were there, {again} were not; all are now");
    });
}
