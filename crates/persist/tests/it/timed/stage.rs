//! A requester and a responder on two simulated machines, with a log in the responder's persistent memory, and the
//! images that a power cut after every event would leave.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric_sim::{
    Fate, Features, Machine, MachineOptions, MachineProfile, Module, Process, RootPort, SimBacking,
    Survivor, Transport as Speaks, World, Wreck,
};
use stonecast_media::{
    Backing as _, Durability, LogOptions, PersistenceDomain, PersistentRegion, ReceiveBuffers,
};
use stonecast_persist::execute::{
    ExecuteError, Layout, Payload, REQUESTER_COMPLETIONS, RESPONDER_COMPLETIONS, Rehearsal,
    Responder, recover,
};
use stonecast_persist::{Platform, Program, Scenario, Transport, plan_for};

use super::log::{Broken, Log};

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The platform of the responder.
    pub platform: Platform,
    /// The executed program.
    pub program: &'a Program,
    /// The size in bytes of each update's second part, if there is one.
    pub second_size: Option<usize>,
    /// Appends, one after the other.
    pub appends: u64,
    /// Seed of the waiting time of each message.
    pub seed: u64,
    /// Longest wait of an inbound write inside a machine, and of an outbound message, over iWARP.
    pub stall_ns_max: Nanoseconds,
}

/// Outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every power cut left all acknowledged updates, in order.
    Sound {
        /// Number of judged states.
        states: u64,
    },
    /// A power cut breaks the promise.
    Broken(Broken),
    /// The requester waits forever.
    NeverConcludes,
}

/// More events than any run has; a run that needs more does not end.
const EVENTS_MAX: u64 = 20_000;
/// The receive buffers in persistent memory, and the size of each.
const BUFFERS: Span = Span::new(1 << 16, 8 * 256);
const BUFFER_SIZE: u32 = 256;
/// Bytes of the persistent region.
const CAPACITY: u64 = 1 << 17;
/// The most undecided lines for which every combination is judged. With more lines, only combinations in which one line
/// differs from all others are judged.
const EXHAUSTIVE_MAX: usize = 7;

struct Stage {
    world: World,
    machine: Machine,
    module: Rc<Module>,
    layout: Layout,
    acknowledged: Rc<Cell<u64>>,
    connected: Rc<Cell<bool>>,
    done: Rc<Cell<bool>>,
    /// The reason why the requester gave up.
    failure: Rc<RefCell<Option<ExecuteError>>>,
    _processes: [Process; 2],
}

/// Runs the steps, and judges a hypothetical power cut after every event.
pub fn run(run: &Run<'_>) -> Outcome {
    let stage = Stage::new(run);
    let log = Log {
        second_size: run.second_size,
    };
    let mut seen = BTreeSet::new();
    let mut states = 0;
    for _ in 0..EVENTS_MAX {
        let more = stage.world.step();
        if stage.connected.get() {
            let wreck = stage.world.wreck(stage.machine, &stage.module);
            let acknowledged = stage.acknowledged.get();
            for fates in choices(&wreck) {
                let survivor = wreck.survivor(&fates);
                let mut image = vec![0; CAPACITY as usize];
                survivor.read(0, &mut image);
                // The same bytes under the same promise were already judged.
                if !seen.insert((acknowledged, stonecast_base::hash::xxh3_64(0, &image))) {
                    continue;
                }
                states += 1;
                if let Err(broken) = log.judge(image, &stage.layout, acknowledged) {
                    return Outcome::Broken(broken);
                }
            }
        }
        if !more {
            return if stage.done.get() {
                Outcome::Sound { states }
            } else {
                Outcome::NeverConcludes
            };
        }
    }
    panic!("{run:?} does not come to rest");
}

/// Runs the steps, cuts the power after every event once something was acknowledged, and cuts each recovery after each
/// of its own events. Returns the number of messages that recoveries finished.
pub fn cut_recoveries(run: &Run<'_>) -> Result<u64, Broken> {
    let stage = Stage::new(run);
    let log = Log {
        second_size: run.second_size,
    };
    let mut messages = 0;
    while stage.world.step() {
        let acknowledged = stage.acknowledged.get();
        if acknowledged == 0 {
            continue;
        }
        let wreck = stage.world.wreck(stage.machine, &stage.module);
        let most = (0..wreck.undecided())
            .map(|unit| Fate {
                stores: wreck.stores(unit),
                torn: 0,
            })
            .collect::<Vec<_>>();
        for fates in [vec![Fate::default(); wreck.undecided()], most] {
            messages += cut_recovery(
                run,
                &stage.layout,
                wreck.survivor(&fates),
                &log,
                acknowledged,
            )?;
        }
    }
    Ok(messages)
}

/// Recovers from `survivor` on a machine of its own, and judges the effect of a power cut after each event.
fn cut_recovery(
    run: &Run<'_>,
    layout: &Layout,
    survivor: Survivor,
    log: &Log,
    acknowledged: u64,
) -> Result<u64, Broken> {
    let world = World::new(run.seed);
    let profile = MachineProfile::by_name("connectx4-taxonomy").expect("the profile exists");
    let platform = run.platform.declared();
    let machine = world.machine(MachineOptions {
        platform,
        ..MachineOptions::new(profile)
    });
    let (process, module) = (world.process(machine), world.module(machine, survivor));
    let options = LogOptions {
        capacity: CAPACITY,
        platform,
        durability: Durability::Power,
    };
    let region = SimBacking::new(&module)
        .open_log(options)
        .expect("the survivor is whole");
    let (layout, messages) = (*layout, Rc::new(Cell::new(0)));
    let counted = messages.clone();
    process.runtime().spawn(Box::pin(async move {
        counted.set(
            recover(&*region, &layout)
                .await
                .expect("the medium does not fail")
                .messages,
        );
    }));
    while world.step() {
        let wreck = world.wreck(machine, &module);
        for fates in choices(&wreck) {
            let mut image = vec![0; CAPACITY as usize];
            wreck.survivor(&fates).read(0, &mut image);
            log.judge(image, &layout, acknowledged)?;
        }
    }
    Ok(messages.get())
}

/// Runs the plan of a scenario, cuts the power of the responder during the first update, and returns the requester's
/// error.
pub fn cut_during_the_update(scenario: &Scenario) -> ExecuteError {
    let plan = plan_for(&scenario.platform, scenario.operation, scenario.update)
        .expect("the scenario has a plan");
    let platform = scenario.platform;
    let run = Run {
        platform,
        program: plan.program(),
        second_size: None,
        appends: 1,
        seed: 1,
        stall_ns_max: 0,
    };
    let stage = Stage::new(&run);
    while !stage.connected.get() {
        assert!(stage.world.step(), "the sides connect");
    }
    // The doorbell has rung, and the answer has not arrived.
    for _ in 0..2 {
        assert!(stage.world.step() && !stage.done.get());
    }
    stage.world.cut_power(stage.machine);
    while stage.world.step() {}
    stage
        .failure
        .borrow_mut()
        .take()
        .expect("the requester learns that the responder does not answer")
}

impl Stage {
    fn new(run: &Run<'_>) -> Self {
        let world = World::new(run.seed);
        let iwarp = run.platform.transport == Transport::Iwarp;
        let options = MachineOptions {
            platform: run.platform.declared(),
            features: Features::ALL,
            transport: if iwarp {
                Speaks::Iwarp
            } else {
                Speaks::InfiniBand
            },
            inbound_stall_ns_max: run.stall_ns_max,
            outbound_stall_ns_max: if iwarp { run.stall_ns_max } else { 0 },
            ..MachineOptions::new(
                MachineProfile::by_name("connectx4-taxonomy").expect("the profile exists"),
            )
        };
        let (machine, other) = (world.machine(options), world.machine(options));
        let (server, client) = (world.process(machine), world.process(other));
        let module = world.module(machine, Survivor::default());
        let durability = match run.platform.persistence {
            PersistenceDomain::Volatile => Durability::Process,
            _ => Durability::Power,
        };
        let options = LogOptions {
            capacity: CAPACITY,
            platform: run.platform.declared(),
            durability,
        };
        let region: Rc<dyn PersistentRegion> = SimBacking::new(&module)
            .open_log(options)
            .expect("the module is empty");
        let persistent = run.platform.receive_buffers == ReceiveBuffers::Pm;
        let layout = Layout {
            data: Span::new(0, BUFFERS.offset),
            receive_buffers: persistent.then_some(BUFFERS),
            buffer_size: BUFFER_SIZE,
        };
        let root_port = RootPort {
            relaxed_ordering: run.platform.relaxed_ordering,
            ..RootPort::default()
        };
        let port = server
            .port_on(server.open_device_at(root_port), RESPONDER_COMPLETIONS)
            .expect("completion queues");
        port.device()
            .listen("sim:responder")
            .expect("the address is free");
        let responder =
            Responder::rehearsing(&port, region, layout, run.program, run.platform.flush)
                .expect("the device has everything");
        server.runtime().spawn(Box::pin(async move {
            let Err(error) = responder.serve().await;
            panic!("the responder failed: {error}");
        }));
        let stage = Self {
            world,
            machine,
            module,
            layout,
            acknowledged: Rc::default(),
            connected: Rc::default(),
            done: Rc::default(),
            failure: Rc::default(),
            _processes: [server, client.clone()],
        };
        let (acknowledged, connected, done) = (
            stage.acknowledged.clone(),
            stage.connected.clone(),
            stage.done.clone(),
        );
        let failure = stage.failure.clone();
        let (program, flush, appends) = (run.program.clone(), run.platform.flush, run.appends);
        let log = Log {
            second_size: run.second_size,
        };
        let port = client
            .port(REQUESTER_COMPLETIONS)
            .expect("completion queues");
        client.runtime().spawn(Box::pin(async move {
            let session = Rehearsal::connect(&port, "sim:responder", &program, flush, 1024).await;
            let mut session = session.expect("the responder rehearses the same");
            connected.set(true);
            for number in 1..=appends {
                let (record, tail) = (log.record(number), log.tail(number));
                let payload = Payload::single(Log::place(number), &record);
                let payload = if tail.is_empty() {
                    payload
                } else {
                    payload.then(0, &tail)
                };
                if let Err(error) = session.run(&payload).await {
                    *failure.borrow_mut() = Some(error);
                    return;
                }
                acknowledged.set(number);
            }
            done.set(true);
            // The session stays open: its end would be an event of its own.
            std::future::pending::<()>().await;
        }));
        stage
    }
}

/// Fates of the undecided lines: every combination of none and all of their stores, and for each line alone every
/// number of them and a torn one.
pub fn choices(wreck: &Wreck) -> Vec<Vec<Fate>> {
    let count = wreck.undecided();
    let all = |unit: usize| Fate {
        stores: wreck.stores(unit),
        torn: 0,
    };
    let extremes = |kept: u32| {
        (0..count)
            .map(|unit| {
                if kept >> unit & 1 == 1 {
                    all(unit)
                } else {
                    Fate::default()
                }
            })
            .collect()
    };
    let mut choices: Vec<Vec<Fate>> = if count <= EXHAUSTIVE_MAX {
        (0..1u32 << count).map(extremes).collect()
    } else {
        let single = |unit: usize| [1 << unit, !(1 << unit)];
        [0, u32::MAX]
            .into_iter()
            .chain((0..count).flat_map(single))
            .map(extremes)
            .collect()
    };
    for unit in 0..count {
        for stores in 0..wreck.stores(unit) {
            let parts = wreck.parts(unit, stores);
            let first = 1 << parts.trailing_zeros().min(7);
            for torn in [0, parts & first, parts & !first] {
                for others in [
                    Fate::default(),
                    Fate {
                        stores: u32::MAX,
                        torn: 0,
                    },
                ] {
                    let fate = |other: usize| match other {
                        _ if other == unit => Fate { stores, torn },
                        _ => Fate {
                            stores: others.stores.min(wreck.stores(other)),
                            torn: 0,
                        },
                    };
                    choices.push((0..count).map(fate).collect());
                }
            }
        }
    }
    choices
}
