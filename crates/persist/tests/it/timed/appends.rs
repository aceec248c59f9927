//! Appends in a pipeline on two simulated machines, with a hypothetical power cut of the receiver's after every event.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric_sim::{
    Features, Machine, MachineOptions, MachineProfile, Module, Process, RootPort, SimBacking,
    Survivor, Transport as Speaks, World,
};
use stonecast_media::{
    Backing as _, Ddio, Durability, LogOptions, PersistenceDomain, PersistentRegion, ReceiveBuffers,
};
use stonecast_persist::execute::{AppendReceiver, AppendRehearsal};
use stonecast_persist::{
    FlushKind, Operation, Platform, Program, Step, Transport, Update, plan_for, published_platforms,
};

use super::stage::choices;
use super::{SEEDS, SEEDS_MAX, STALL_NS_MAX};
use crate::backup::{Backup, COMPLETIONS, Lent, Primary, is_whole};

const CAPACITY: u64 = 1 << 16;
/// Entries of a run, in batches of two. Several batches may be under way.
const ENTRIES: u64 = 6;
const BATCH: u64 = 2;
/// Longest time until both sides know of their connection.
const SETTLED_NS: Nanoseconds = 1_000_000;
/// More events than any run has; a run that needs more does not end.
const EVENTS_MAX: u64 = 40_000;

/// Outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// Every power cut left all concluded entries.
    Sound { states: u64 },
    /// An entry was concluded and is not there.
    Lost { entry: u64 },
    /// The appender waits forever.
    NeverConcludes,
}

struct Stage {
    world: World,
    machine: Machine,
    module: Rc<Module>,
    lent: Lent,
    connected: Rc<Cell<bool>>,
    concluded: Rc<Cell<u64>>,
    _processes: [Process; 2],
}

impl Stage {
    fn new(platform: Platform, program: &Program, seed: u64, stall_ns_max: Nanoseconds) -> Self {
        let world = World::new(seed);
        let iwarp = platform.transport == Transport::Iwarp;
        let options = MachineOptions {
            platform: platform.declared(),
            features: Features::ALL,
            transport: if iwarp {
                Speaks::Iwarp
            } else {
                Speaks::InfiniBand
            },
            inbound_stall_ns_max: stall_ns_max,
            outbound_stall_ns_max: if iwarp { stall_ns_max } else { 0 },
            ..MachineOptions::new(MachineProfile::by_name("connectx4-taxonomy").unwrap())
        };
        let (machine, other) = (world.machine(options), world.machine(options));
        let (server, client) = (world.process(machine), world.process(other));
        let module = world.module(machine, Survivor::default());
        let log = LogOptions {
            capacity: CAPACITY,
            platform: platform.declared(),
            durability: Durability::Power,
        };
        let region: Rc<dyn PersistentRegion> = SimBacking::new(&module).open_log(log).unwrap();
        let root_port = RootPort {
            relaxed_ordering: platform.relaxed_ordering,
            ..RootPort::default()
        };
        let port = server
            .port_on(server.open_device_at(root_port), COMPLETIONS)
            .unwrap();
        port.device().listen("sim:backup").unwrap();
        let receiver = AppendReceiver::rehearsing(region.clone(), program);
        let mut backup = Backup::new(&port, server.runtime(), region, receiver);
        let sent: Rc<Cell<u64>> = Rc::default();
        if !program
            .steps()
            .iter()
            .any(|step| matches!(step, Step::Receive(_)))
        {
            backup.sent = Some(sent.clone());
        }
        let lent = backup.lent();
        server
            .runtime()
            .spawn(Box::pin(backup.serve(Vec::new(), ENTRIES)));
        let stage = Self {
            world,
            machine,
            module,
            lent,
            connected: Rc::default(),
            concluded: Rc::default(),
            _processes: [server, client.clone()],
        };
        stage.append(&client, program.clone(), sent);
        stage
    }

    /// Appends all entries, in batches, without a wait between them.
    fn append(&self, client: &Process, program: Program, sent: Rc<Cell<u64>>) {
        let port = client.port(COMPLETIONS).unwrap();
        let (connected, concluded) = (self.connected.clone(), self.concluded.clone());
        let (lent, runtime) = (self.lent, client.runtime());
        client.runtime().spawn(Box::pin(async move {
            let mut primary = Primary::new(&port);
            primary.connect("sim:backup").await;
            // Waits until the backup also knows of the connection, so that it answers at once.
            runtime.sleep(SETTLED_NS).await;
            connected.set(true);
            let mut appender = AppendRehearsal::new(primary.route(lent), lent.terms, &program);
            appender.add_credits(1 << 20);
            for number in 1..=ENTRIES {
                primary.append(&mut appender).unwrap();
                if number % BATCH == 0 {
                    appender.flush().unwrap();
                    sent.set(number);
                }
            }
            for expected in 1..=ENTRIES {
                let (number, _concluded) = primary.next(&mut appender).await.unwrap();
                assert_eq!(number, expected, "in the order of the appends");
                concluded.set(number);
            }
            // The connection stays: its end would be an event of its own.
            std::future::pending::<()>().await;
        }));
    }
}

/// Runs the steps, and judges a hypothetical power cut after every event.
fn run(platform: Platform, program: &Program, seed: u64, stall_ns_max: Nanoseconds) -> Outcome {
    let stage = Stage::new(platform, program, seed, stall_ns_max);
    let (mut seen, mut states) = (BTreeSet::new(), 0);
    for _ in 0..EVENTS_MAX {
        let more = stage.world.step();
        let concluded = stage.concluded.get();
        if stage.connected.get() && concluded > 0 {
            let wreck = stage.world.wreck(stage.machine, &stage.module);
            for fates in choices(&wreck) {
                let survivor = wreck.survivor(&fates);
                let mut image = vec![0; CAPACITY as usize];
                survivor.read(0, &mut image);
                // The same bytes under the same promise were judged already.
                if !seen.insert((concluded, stonecast_base::hash::xxh3_64(0, &image))) {
                    continue;
                }
                states += 1;
                let memory = super::log::Plain::of(image);
                let lost = |&entry: &u64| !is_whole(&memory, stage.lent.terms, entry);
                if let Some(entry) = (1..=concluded).find(lost) {
                    return Outcome::Lost { entry };
                }
            }
        }
        if !more {
            return if concluded == ENTRIES {
                Outcome::Sound { states }
            } else {
                Outcome::NeverConcludes
            };
        }
    }
    panic!("seed {seed}: {program} does not come to rest");
}

fn planned(platform: &Platform) -> Program {
    let plan = plan_for(platform, Operation::Append, Update::Single).unwrap();
    plan.program().clone()
}

/// The platforms on which entries take different paths, in the plan or in the world.
fn platforms() -> Vec<Platform> {
    use PersistenceDomain::{Dmp, PageFile, Wsp};
    let mut platforms = Vec::new();
    // The place of other receive buffers does not matter.
    let in_dram = |base: &Platform| base.receive_buffers == ReceiveBuffers::Dram;
    for base in published_platforms().into_iter().filter(in_dram) {
        platforms.push(base);
        platforms.push(Platform {
            transport: Transport::Iwarp,
            atomic_write: false,
            ..base
        });
        platforms.push(Platform {
            relaxed_ordering: true,
            ..base
        });
        platforms.push(Platform {
            flush: FlushKind::NativePersistent,
            ..base
        });
        if base.persistence == Wsp {
            platforms.push(Platform {
                trusted_nic_buffers: false,
                ..base
            });
        }
        if base.persistence == Dmp {
            platforms.push(Platform {
                persistence: PageFile,
                ..base
            });
        }
    }
    platforms
}

#[test]
fn no_entry_that_was_concluded_is_lost_by_a_power_cut_after_any_event() {
    let mut all = 0;
    for platform in platforms() {
        let program = planned(&platform);
        let mut look = |seed, stall| match run(platform, &program, seed, stall) {
            Outcome::Sound { states } => all += states,
            other => panic!("{platform:?} seed {seed} stall {stall}: {program}: {other:?}"),
        };
        look(0, 0);
        (0..SEEDS).for_each(|seed| look(seed, STALL_NS_MAX));
    }
    println!(
        "{all} states after power cuts, of {} platforms",
        platforms().len()
    );
    assert!(all > 1_000, "power cuts leave many states, not {all}");
}

/// Each of these seeded bugs leaves out a check of the two halves.
#[cfg(feature = "mutants")]
#[test]
fn every_seeded_bug_of_durable_appends_is_found() {
    use stonecast_base::mutants::{Mutant, plant};
    let here = |mutant: &&Mutant| mutant.place() == "persist/append";
    for &mutant in Mutant::ALL.iter().filter(here) {
        plant(Some(mutant));
        let loses = |platform: &Platform| {
            let program = planned(platform);
            let lost = |seed: &u64| {
                let outcome = run(*platform, &program, *seed, STALL_NS_MAX);
                matches!(outcome, Outcome::Lost { .. })
            };
            (0..SEEDS_MAX).find(lost)
        };
        let found = platforms().iter().find_map(loses);
        plant(None);
        let seed = found.unwrap_or_else(|| panic!("{} is not found", mutant.name()));
        println!("{} found with seed {seed}", mutant.name());
    }
}

/// Whether the simulated world shows the purpose of a step. The world does not if it is kinder than the litmus model:
/// its NIC forgets bytes only in a power cut, and without DDIO its I/O controller holds visible bytes for less time
/// than an answer takes.
fn is_shown(platform: &Platform, step: Step) -> bool {
    let resets = platform.persistence == PersistenceDomain::Wsp && !platform.trusted_nic_buffers;
    let drains = platform.ddio == Ddio::Off && platform.persistence == PersistenceDomain::Dmp;
    match step {
        Step::Read => !resets,
        Step::WriteBack(_) => !drains,
        _ => true,
    }
}

/// Without the append no entry is there; without the READ, the write-back, or a wait, a power cut takes concluded
/// entries. An answer that is never sent, or is for an entry that was never sent, leaves the appender waiting forever.
#[test]
fn a_plan_of_appends_without_any_one_of_its_steps_loses_an_entry_or_never_ends() {
    let mut lost = BTreeSet::new();
    for platform in platforms() {
        let program = planned(&platform);
        for (index, step) in program.steps().iter().enumerate() {
            if !is_shown(&platform, *step) {
                continue;
            }
            let without = program.without(index);
            let breaks = |seed| match run(platform, &without, seed, STALL_NS_MAX) {
                Outcome::Lost { .. } => true,
                Outcome::NeverConcludes => matches!(step, Step::Append(_)),
                Outcome::Sound { .. } => false,
            };
            let broken = (0..SEEDS_MAX).any(breaks);
            assert!(broken, "{platform:?}: {program} without {step}: {without}");
            lost.insert(step.to_string());
        }
    }
    let named: Vec<&str> = lost.iter().map(String::as_str).collect();
    assert_eq!(
        named,
        [
            "rq.append(a)",
            "rq.await(append(a))",
            "rq.await(read)",
            "rq.read",
            "rq.receive(ack)",
            "rsp.receive(a)",
            "rsp.send(ack)",
            "rsp.write_back(a)"
        ]
    );
}
