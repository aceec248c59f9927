//! A back-end of AsymNVM as published, and its front-ends, in a simulated world.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric_sim::{
    Fate, Machine, MachineOptions, MachineProfile, Module, Process, SimBacking, Survivor, World,
};
use stonecast_media::{
    Backing as _, Ddio, DeclaredPlatform, Durability, LogOptions, PersistenceDomain,
    PersistentRegion, ReceiveBuffers,
};
use stonecast_persist::execute::Commit;
use stonecast_published::asymnvm::{
    ASYM_COMPLETIONS, AsymBackEnd, AsymLayout, AsymSession, CacheOptions, Change, OperationLog,
    Policy, Variant, WriterOptions,
};
use stonecast_structures::Verb;
use stonecast_structures::shapes::{Description, StructureKind};

pub const LAYOUT: AsymLayout = AsymLayout {
    instances: 1,
    log_size: 1 << 16,
    slab_size: 1 << 18,
    slabs: 32,
};
const ADDRESS: &str = "sim:asymnvm";
const MIRROR: &str = "sim:asymnvm-mirror";
/// The time between two looks of a back-end for operations that its mirror has not.
const REPLICATION_NS: Nanoseconds = 100_000;

pub struct AsymScene {
    pub world: World,
    machine: Machine,
    module: Rc<Module>,
    platform: DeclaredPlatform,
    stop: Rc<Cell<bool>>,
}

impl AsymScene {
    pub fn new(ddio: Ddio) -> Self {
        let world = World::new(7);
        let platform = DeclaredPlatform {
            persistence_domain: PersistenceDomain::Dmp,
            ddio,
            receive_buffers: ReceiveBuffers::Dram,
        };
        let machine = world.machine(options(platform));
        let module = world.module(machine, Survivor::default());
        Self {
            world,
            machine,
            module,
            platform,
            stop: Rc::default(),
        }
    }

    pub fn memory(&self) -> Rc<dyn PersistentRegion> {
        let log = LogOptions {
            capacity: LAYOUT.size(),
            platform: self.platform,
            durability: Durability::Power,
        };
        SimBacking::new(&self.module).open_log(log).unwrap()
    }

    /// Persistent memory of another machine.
    pub fn local_memory(&self) -> Rc<dyn PersistentRegion> {
        let machine = self.world.machine(options(self.platform));
        let module = self.world.module(machine, Survivor::default());
        let log = LogOptions {
            capacity: LAYOUT.size(),
            platform: self.platform,
            durability: Durability::Power,
        };
        SimBacking::new(&module).open_log(log).unwrap()
    }

    /// A back-end that accepts front-ends; it applies nothing before `serve`.
    pub fn open(&self) -> (Process, Rc<AsymBackEnd>) {
        let process = self.world.process(self.machine);
        self.open_in(process, self.memory(), ADDRESS)
    }

    /// A back-end on another machine, which holds the operation log of the first one ([`AsymScene::replicate`]).
    pub fn open_mirror(&self) -> (Process, Rc<AsymBackEnd>) {
        let machine = self.world.machine(options(self.platform));
        self.open_in(self.world.process(machine), self.local_memory(), MIRROR)
    }

    fn open_in(
        &self,
        process: Process,
        memory: Rc<dyn PersistentRegion>,
        address: &str,
    ) -> (Process, Rc<AsymBackEnd>) {
        let commit = Commit::choose(self.platform, Durability::Power, memory.means()).unwrap();
        let port = process.port(64).unwrap();
        let device = port.device().clone();
        let of = (port, process.runtime());
        let back_end = AsymBackEnd::open(memory, commit, of, LAYOUT).unwrap();
        device.listen(address).unwrap();
        (process, Rc::new(back_end))
    }

    /// Lets the back-end append the operations that it finds in its log to that of the mirror, which accepts it. As in
    /// section 4.2, no front-end waits for that.
    pub fn replicate(&self, (process, back_end): &(Process, Rc<AsymBackEnd>)) {
        let port = process.port(ASYM_COMPLETIONS).unwrap();
        let connecting = AsymSession::connect(&port, MIRROR, 0);
        let mut session = self.world.block_on(connecting).unwrap();
        let (back_end, runtime) = (back_end.clone(), process.runtime());
        process.runtime().spawn(Box::pin(async move {
            let mut sent = 0;
            loop {
                let (_, operations) = back_end.recover(0).await.unwrap();
                for operation in operations.iter().skip(sent) {
                    let operation = OperationLog(operation.clone());
                    session.append_operation(&operation).await.unwrap();
                }
                session.settle(0).await.unwrap();
                sent = operations.len();
                runtime.sleep(REPLICATION_NS).await;
            }
        }));
    }

    /// Lets the back-end accept and apply from now on.
    pub fn serve(&self, (process, back_end): &(Process, Rc<AsymBackEnd>)) {
        let (back_end, stop) = (back_end.clone(), self.stop.clone());
        process.runtime().spawn(Box::pin(async move {
            back_end.run(&|| stop.get()).await.unwrap();
        }));
    }

    /// Lets the back-end accept front-ends, and stops it: what they append is not applied.
    pub fn sessions<const N: usize>(
        &self,
        back_end: &(Process, Rc<AsymBackEnd>),
    ) -> [(Process, AsymSession); N] {
        self.serve(back_end);
        let sessions = [(); N].map(|()| self.session());
        self.stop.set(true);
        self.pass(1_000_000);
        self.stop.set(false);
        sessions
    }

    pub fn session(&self) -> (Process, AsymSession) {
        let process = self
            .world
            .process(self.world.machine(options(self.platform)));
        let port = process.port(ASYM_COMPLETIONS).unwrap();
        let session = self.world.block_on(AsymSession::connect(&port, ADDRESS, 0));
        (process, session.unwrap())
    }

    pub fn pass(&self, duration: Nanoseconds) {
        self.world
            .block_on(async { self.world.observer().sleep(duration).await });
    }

    /// Cuts the power of the back-end's machine. Nothing survives that need not.
    pub fn cut_power(&self) {
        let wreck = self.world.wreck(self.machine, &self.module);
        let fates: Vec<Fate> = (0..wreck.undecided())
            .map(|_| Fate { stores: 0, torn: 0 })
            .collect();
        let survivor = wreck.survivor(&fates);
        self.world.cut_power(self.machine);
        self.module.restart(survivor);
    }
}

fn options(platform: DeclaredPlatform) -> MachineOptions {
    MachineOptions {
        platform,
        ..MachineOptions::new(MachineProfile::by_name("connectx3-asymnvm").unwrap())
    }
}

pub fn writer_options(variant: Variant) -> WriterOptions {
    WriterOptions {
        variant,
        in_flight: 4,
        batch: 8,
        cache: CacheOptions {
            size: 1 << 20,
            policy: Policy::Sample(32),
            by_level: false,
        },
        counts_cache: false,
        is_flushed: false,
        locks: false,
        awaits_applied: false,
        remembers: false,
        read_size_max: u64::MAX,
    }
}

pub fn description(kind: StructureKind) -> Description {
    let key_size_max = if kind.has_keys() { 8 } else { 0 };
    Description {
        kind,
        key_size_max,
        value_size: 8,
        schema: 0,
    }
}

/// Gives a key a value; of a stack or queue, pushes the value.
pub fn change(kind: StructureKind, key: u64, value: u64) -> Change {
    let (verb, key) = match kind.has_keys() {
        true => (Verb::Insert, key.to_be_bytes().to_vec()),
        false => (Verb::Push, Vec::new()),
    };
    Change {
        verb,
        key,
        value: value.to_le_bytes().to_vec(),
    }
}
