//! A back-end on a simulated machine, and its front-ends.

use std::rc::Rc;

use stonecast_fabric_sim::{
    Fate, Machine, MachineOptions, MachineProfile, Module, Process, SimBacking, Survivor, World,
};
use stonecast_media::{
    Backing as _, Ddio, DeclaredPlatform, Durability, LogOptions, PersistenceDomain, ReceiveBuffers,
};
use stonecast_structures::shapes::{Answer, Description, StructureKind};
use stonecast_structures::{
    BackEnd, FRONT_END_COMPLETIONS, FrontEndError, Key as _, LogKey, Medium, Operation,
    PoolGeometry, SERVICE_COMPLETIONS, Service, StructurePool, Verb, Writer,
};

pub const GEOMETRY: PoolGeometry = PoolGeometry {
    domains: 4,
    slab_size: 1 << 16,
    slab_count: 12,
};
pub(super) const ADDRESS: &str = "sim:back-end";
pub const LEASE_NS: u64 = 50_000_000;
/// A platform without a plan that spares the back-end.
pub const ANSWERED: DeclaredPlatform = platform(PersistenceDomain::Dmp, Ddio::On);
/// Every platform on which something survives a power cut.
pub const PLATFORMS: [DeclaredPlatform; 5] = [
    ANSWERED,
    platform(PersistenceDomain::PageFile, Ddio::On),
    platform(PersistenceDomain::Dmp, Ddio::Off),
    platform(PersistenceDomain::Mhp, Ddio::On),
    platform(PersistenceDomain::Wsp, Ddio::On),
];

pub const fn platform(persistence_domain: PersistenceDomain, ddio: Ddio) -> DeclaredPlatform {
    DeclaredPlatform {
        persistence_domain,
        ddio,
        receive_buffers: ReceiveBuffers::Dram,
    }
}

/// A machine with a pool, and the process that serves it.
pub struct Scene {
    pub world: Rc<World>,
    platform: DeclaredPlatform,
    /// The machines of back-end and front-ends.
    pub(super) profile: MachineProfile,
    pub(super) machine: Machine,
    pub(super) module: Rc<Module>,
    pub back_end: Process,
}

impl Scene {
    pub fn new(seed: u64) -> Self {
        Self::on(ANSWERED, seed)
    }

    pub fn on(platform: DeclaredPlatform, seed: u64) -> Self {
        Self::of_machines(MachineProfile::MODERN, platform, seed)
    }

    pub(super) fn of_machines(
        profile: MachineProfile,
        platform: DeclaredPlatform,
        seed: u64,
    ) -> Self {
        let world = Rc::new(World::new(seed));
        let machine = world.machine(MachineOptions {
            platform,
            ..MachineOptions::new(profile)
        });
        let module = world.module(machine, Survivor::default());
        let back_end = world.process(machine);
        Self {
            world,
            platform,
            profile,
            machine,
            module,
            back_end,
        }
    }

    pub fn medium(&self) -> Rc<Medium> {
        let options = LogOptions {
            capacity: GEOMETRY.pool_size(),
            platform: self.platform,
            durability: Durability::Power,
        };
        let region = SimBacking::new(&self.module).open_log(options);
        let declared = (self.platform, Durability::Power);
        let medium = Medium::new(region.expect("a log"), declared, LogKey(77), 5);
        Rc::new(medium.expect("a plan"))
    }

    pub async fn create(&self) {
        let made = StructurePool::create(self.medium(), GEOMETRY).await;
        made.expect("the medium is sound");
    }

    /// Serves in the process of the back-end.
    pub async fn serve(&self) {
        self.serve_within(u64::MAX).await;
    }

    /// Serves domains of so many slabs.
    pub(super) async fn serve_within(&self, quota: u64) {
        let port = self.back_end.port(SERVICE_COMPLETIONS).expect("a port");
        let runtime = self.back_end.runtime();
        let of = (ADDRESS, LEASE_NS);
        let service = Service::start(port, runtime.clone(), self.medium(), of).await;
        let mut service = service.expect("the pool opens").with_quota(quota);
        runtime.spawn(Box::pin(async move {
            service.run().await.expect("the back-end serves");
        }));
    }

    /// Kills the back-end, and starts another one.
    pub async fn restart(&mut self) {
        self.back_end.kill();
        self.back_end = self.world.process(self.machine);
        self.serve().await;
    }

    /// Cuts the power of the back-end's machine, and starts another back-end. Nothing survives that need not.
    pub async fn lose_power(&mut self) {
        let wreck = self.world.wreck(self.machine, &self.module);
        let nothing = Fate { stores: 0, torn: 0 };
        let survivor = wreck.survivor(&vec![nothing; wreck.undecided()]);
        self.world.cut_power(self.machine);
        self.module.restart(survivor);
        self.back_end = self.world.process(self.machine);
        self.serve().await;
    }

    /// A front-end on a machine of its own.
    pub async fn front_end(&self) -> (Process, Rc<BackEnd>) {
        let machine = self.world.machine(MachineOptions::new(self.profile));
        self.front_end_on(machine).await
    }

    /// A front-end on a machine.
    pub(super) async fn front_end_on(&self, machine: Machine) -> (Process, Rc<BackEnd>) {
        let process = self.world.process(machine);
        let port = process.port(FRONT_END_COMPLETIONS).expect("a port");
        let back_end = BackEnd::connect(&port, ADDRESS).await;
        (process, back_end.expect("the back-end accepts"))
    }

    pub async fn rest(&self, duration_ns: u64) {
        self.back_end.runtime().sleep(duration_ns).await;
    }

    /// The next tenure of a domain, once the one before has ended.
    pub async fn writer(&self, back_end: &Rc<BackEnd>, domain: u32) -> Writer {
        for _ in 0..1_000 {
            match back_end.writer(domain).await {
                Ok(writer) => return writer,
                Err(FrontEndError::Held { .. }) => self.rest(1_000_000).await,
                Err(error) => panic!("{error}"),
            }
        }
        panic!("the tenure does not end");
    }
}

pub fn operation<'a>(structure: u32, verb: Verb, key: &'a [u8], value: &'a [u8]) -> Operation<'a> {
    Operation {
        token: 0,
        structure,
        verb,
        key,
        value,
    }
}

pub async fn create(writer: &mut Writer, kind: StructureKind) -> u32 {
    let description = Description {
        kind,
        key_size_max: 8,
        value_size: 8,
        schema: 0,
    };
    let name = format!("{kind:?}");
    let value = description.encode();
    let operation = operation(0, Verb::Create, name.as_bytes(), &value);
    let (answer, _ticket) = writer.stage(&operation).await.expect("there is room");
    match answer {
        Answer::Created(number) => number,
        answer => panic!("{answer:?}"),
    }
}

pub async fn insert(writer: &mut Writer, structure: u32, key: u64) {
    let (key, value) = (key.encoded(), (key * 3).to_le_bytes());
    let operation = operation(structure, Verb::Insert, &key, &value);
    let (_, _ticket) = writer.stage(&operation).await.expect("there is room");
}

/// The keys below `end` that a reader finds in a structure, all with the right value.
pub async fn keys(back_end: &Rc<BackEnd>, domain: u32, structure: u32, end: u64) -> Vec<u64> {
    let mut reader = back_end.reader(domain).await.expect("there is the domain");
    let roots = reader.roots().await.expect("the table is whole");
    let mut found = Vec::new();
    for key in 0..end {
        let value = reader.get(&roots, structure, &key.encoded()).await;
        if let Some(value) = value.expect("the structure is whole") {
            assert_eq!(value, (key * 3).to_le_bytes());
            found.push(key);
        }
    }
    found
}
