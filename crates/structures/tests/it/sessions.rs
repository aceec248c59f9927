//! Front-ends and a back-end on simulated machines.

use std::cell::Cell;
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_fabric::decorate::{Meter, Observed};
use stonecast_fabric::{self as fabric, LocalSpan};
use stonecast_fabric_sim::{
    Fate, Machine, MachineOptions, MachineProfile, Module, Process, SimBacking, Survivor, World,
};
use stonecast_media::{
    Backing as _, Ddio, DeclaredPlatform, Durability, LogOptions, PersistenceDomain, ReceiveBuffers,
};
use stonecast_session::{ConnectError, Endpoint, Greeting, Protocol, Queues};
use stonecast_structures::shapes::{Answer, Description, Structure, StructureKind};
use stonecast_structures::{
    BackEnd, FRONT_END_COMPLETIONS, FrontEndError, Key as _, LogKey, Medium, Operation,
    PoolGeometry, ReaderCounts, SERVICE_COMPLETIONS, Service, StructurePool, StructureReader, Verb,
    Writer,
};

pub const GEOMETRY: PoolGeometry = PoolGeometry {
    domains: 4,
    slab_size: 1 << 16,
    slab_count: 12,
};
const ADDRESS: &str = "sim:back-end";
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

const fn platform(persistence_domain: PersistenceDomain, ddio: Ddio) -> DeclaredPlatform {
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
    machine: Machine,
    module: Rc<Module>,
    pub back_end: Process,
}

impl Scene {
    pub fn new(seed: u64) -> Self {
        Self::on(ANSWERED, seed)
    }

    fn on(platform: DeclaredPlatform, seed: u64) -> Self {
        let world = Rc::new(World::new(seed));
        let machine = world.machine(MachineOptions {
            platform,
            ..MachineOptions::new(MachineProfile::MODERN)
        });
        let module = world.module(machine, Survivor::default());
        let back_end = world.process(machine);
        Self {
            world,
            platform,
            machine,
            module,
            back_end,
        }
    }

    fn medium(&self) -> Rc<Medium> {
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
    async fn serve_within(&self, quota: u64) {
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
        let machine = MachineOptions::new(MachineProfile::MODERN);
        let process = self.world.process(self.world.machine(machine));
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

/// Needs the hand-over at the end of a connection: the operations that were flushed and not published are executed.
#[test]
fn a_writer_is_seen_by_readers_and_its_successor_has_every_acknowledged_operation() {
    for seed in 0..3 {
        let scene = Scene::new(seed);
        let world = scene.world.clone();
        world.block_on(async move {
            scene.create().await;
            scene.serve().await;
            let (process, first) = scene.front_end().await;
            let domain = first.create_domain(3).await.expect("there is room");
            let mut writer = first.writer(domain).await.expect("the domain is free");
            let table = create(&mut writer, StructureKind::HashTable).await;
            let tree = create(&mut writer, StructureKind::BTree).await;
            for key in 0..40 {
                insert(&mut writer, table, key).await;
                insert(&mut writer, tree, key).await;
            }
            writer.publish().await.expect("the tenure lasts");
            let (_second_process, second) = scene.front_end().await;
            for structure in [table, tree] {
                let found = keys(&second, domain, structure, 60).await;
                assert_eq!(found, (0..40).collect::<Vec<_>>());
            }
            let held = second.writer(domain).await.err().expect("it has a writer");
            let expected = format!("domain {domain} has a writer: tenure 1");
            assert_eq!(held.to_string(), expected);

            for key in 40..50 {
                insert(&mut writer, tree, key).await;
            }
            writer.flush().await.expect("the tenure lasts");
            assert_eq!(keys(&second, domain, tree, 60).await.len(), 40);
            process.kill();
            let successor = scene.writer(&second, domain).await;
            assert_eq!(successor.tenure(), 2);
            drop(successor);
            assert_eq!(keys(&second, domain, tree, 60).await.len(), 50);
            drop((first, writer));
        });
    }
}

/// Needs the end of silent leases, and the closed window.
#[test]
fn a_silent_writer_loses_its_tenure_and_writes_nothing_more() {
    let scene = Scene::new(7);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve().await;
        let (_first_process, first) = scene.front_end().await;
        let domain = first.create_domain(2).await.expect("there is room");
        let mut writer = first.writer(domain).await.expect("the domain is free");
        let table = create(&mut writer, StructureKind::HashTable).await;
        insert(&mut writer, table, 1).await;
        writer.publish().await.expect("the tenure lasts");
        scene.rest(2 * LEASE_NS).await;
        let (_second_process, second) = scene.front_end().await;
        let mut successor = scene.writer(&second, domain).await;
        insert(&mut successor, table, 2).await;
        successor.publish().await.expect("the tenure lasts");

        let late = operation(table, Verb::Insert, &[0; 8], &[9; 8]);
        let staged = writer.stage(&late).await;
        let over = match staged {
            Ok(_) => writer.publish().await.expect_err("the tenure is over"),
            Err(error) => error,
        };
        println!("{over}");
        assert_eq!(keys(&second, domain, table, 5).await, [1, 2]);
    });
}

/// Needs the reclaiming that a publication brings along, and the root word among the reads of a reader that has found a structure.
#[test]
fn a_structure_that_was_made_empty_gives_its_blocks_back_and_keeps_its_readers() {
    let scene = Scene::new(10);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve().await;
        let (_process, front_end) = scene.front_end().await;
        let domain = front_end.create_domain(2).await.expect("there is room");
        let mut writer = front_end.writer(domain).await.expect("the domain is free");
        let table = create(&mut writer, StructureKind::HashTable).await;
        for key in 0..300 {
            insert(&mut writer, table, key).await;
        }
        writer.publish().await.expect("the tenure lasts");
        let reader = front_end.reader(domain).await.expect("there is the domain");
        let reader = reader.remembering(1 << 20);
        let mut reader = StructureReader::open(reader, "HashTable")
            .await
            .expect("it was created");
        let length = |structure: &Structure| structure.walk();
        let contents = reader.end_of(length).await.expect("it is whole");
        assert_eq!(contents.length, 300);
        let clear = operation(0, Verb::Clear, b"HashTable", &[]);
        let (answer, _ticket) = writer.stage(&clear).await.expect("there is room");
        let Answer::Created(table) = answer else {
            panic!("{answer:?}")
        };
        writer.publish().await.expect("the tenure lasts");
        let key = 7_u64.encoded();
        let find = |structure: &Structure| structure.find(&key).expect("it has keys");
        assert_eq!(reader.end_of(find).await.expect("it is whole"), None);
        assert!(writer.roots().has_ended());
        for key in 0..100 {
            insert(&mut writer, table, key).await;
            writer.publish().await.expect("the tenure lasts");
        }
        assert!(!writer.roots().has_ended());
        let found = reader.end_of(find).await.expect("it is whole");
        assert_eq!(found, Some(21_u64.to_le_bytes().into()));
        let end = operation(0, Verb::Drop, b"HashTable", &[]);
        let (_, _ticket) = writer.stage(&end).await.expect("there is room");
        writer.publish().await.expect("the tenure lasts");
        let gone = reader.end_of(find).await.expect_err("it was dropped");
        assert!(matches!(gone, FrontEndError::NoStructure), "{gone}");
    });
}

/// Needs the look at the table of structures behind a stale read: trying again would find no node of the version for ever.
#[test]
pub fn a_reader_is_told_at_once_that_its_version_is_too_old() {
    for kind in [StructureKind::MvBTree, StructureKind::MvBst] {
        let scene = Scene::new(11);
        let world = scene.world.clone();
        world.block_on(async move {
            scene.create().await;
            scene.serve().await;
            let (_process, front_end) = scene.front_end().await;
            let domain = front_end.create_domain(2).await.expect("there is room");
            let mut writer = front_end.writer(domain).await.expect("the domain is free");
            let tree = create(&mut writer, kind).await;
            for key in 0..40 {
                insert(&mut writer, tree, key).await;
            }
            writer.publish().await.expect("the tenure lasts");
            let reader = front_end.reader(domain).await.expect("there is the domain");
            let mut reader = reader.remembering(1 << 16);
            let roots = reader.roots().await.expect("the table is whole");
            let key = 7_u64.encoded();
            let found = reader.get(&roots, tree, &key).await.expect("it is whole");
            assert_eq!(found, Some(21_u64.to_le_bytes().into()));
            for _ in 0..200 {
                insert(&mut writer, tree, 7).await;
                let blocks = 100_u32.to_le_bytes();
                let reclaim = operation(0, Verb::Reclaim, &[], &blocks);
                let (_, _ticket) = writer.stage(&reclaim).await.expect("there is room");
                writer.publish().await.expect("the tenure lasts");
            }
            let mut forgetful = front_end.reader(domain).await.expect("there is the domain");
            let before = front_end.retries();
            let old = forgetful.get(&roots, tree, &key).await;
            let old = old.expect_err("its nodes are used again");
            assert!(matches!(old, FrontEndError::TooOld), "{kind:?}: {old}");
            assert_eq!(front_end.retries() - before, 2);
            let roots = reader.roots().await.expect("the table is whole");
            let found = reader.get(&roots, tree, &key).await.expect("it is whole");
            assert_eq!(found, Some(21_u64.to_le_bytes().into()));
        });
    }
}

/// Needs the quota, and the look of the back-end at the log.
#[test]
fn a_domain_gets_no_more_memory_than_its_quota_and_its_state_shows_its_lags() {
    let scene = Scene::new(12);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve_within(3).await;
        let (_process, front_end) = scene.front_end().await;
        let domain = front_end.create_domain(2).await.expect("there is room");
        let mut writer = front_end.writer(domain).await.expect("the domain is free");
        let tree = create(&mut writer, StructureKind::BTree).await;
        for key in 0..9 {
            insert(&mut writer, tree, key).await;
        }
        writer.publish().await.expect("the tenure lasts");
        for key in 9..12 {
            insert(&mut writer, tree, key).await;
        }
        writer.flush().await.expect("the tenure lasts");
        let stat = front_end.stat(domain).await.expect("there is the domain");
        assert_eq!((stat.tenure, stat.published, stat.staged), (1, 10, 3));
        assert!(stat.log_used > 0 && stat.log_used < stat.log_size);
        assert_eq!(stat.slabs, 2);

        let (mut kept, long) = (0_u64, vec![1; 20_000]);
        let refused = loop {
            let key = (100 + kept).encoded();
            let push = operation(tree, Verb::Insert, &key, &long);
            if let Err(error) = writer.stage(&push).await {
                break error;
            }
            kept += 1;
            assert!(kept < 100, "the quota is no limit");
        };
        assert!(
            matches!(refused, FrontEndError::OverQuota { .. }),
            "{refused}"
        );
        writer.flush().await.expect("the tenure lasts");
        writer.release().await.expect("the tenure lasts");
        drop(scene.writer(&front_end, domain).await.release().await);
        scene.rest(LEASE_NS).await;
        let stat = front_end.stat(domain).await.expect("there is the domain");
        assert_eq!((stat.tenure, stat.staged, stat.slabs), (0, 0, 3));
        assert_eq!(stat.published, 13 + kept);
        let none = front_end
            .stat(3)
            .await
            .expect_err("there is no such domain");
        assert!(
            matches!(none, FrontEndError::NoDomain { domain: 3 }),
            "{none}"
        );
    });
}

/// Needs each count where its event happens, and the age of a snapshot to go on between two reports and to end with the front-end.
#[test]
fn a_back_end_counts_tenures_slabs_and_what_readers_tell() {
    let scene = Scene::new(13);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve_within(3).await;
        let (_process, front_end) = scene.front_end().await;
        let before = front_end.counts().await.expect("the back-end serves");
        assert_eq!(
            (before.front_ends, before.domains, before.damaged),
            (1, 0, 0)
        );
        assert_eq!((before.quota, before.tenures_granted), (3, 0));
        assert!(before.free_slabs <= before.slabs);
        let domain = front_end.create_domain(2).await.expect("there is room");
        let writer = front_end.writer(domain).await.expect("the domain is free");
        let during = front_end.counts().await.expect("the back-end serves");
        assert_eq!((during.domains, during.tenures_granted), (1, 1));
        // Two slabs and a log.
        assert_eq!(during.free_slabs, before.free_slabs - 3);
        scene.rest(2 * LEASE_NS).await;
        let after = front_end.counts().await.expect("the back-end serves");
        assert_eq!((after.tenures_ended, after.tenures_silent), (1, 1));
        drop(writer);
        let writer = scene.writer(&front_end, domain).await;
        writer.release().await.expect("the tenure lasts");
        drop(scene.writer(&front_end, domain).await);
        let after = front_end.counts().await.expect("the back-end serves");
        assert_eq!((after.tenures_granted, after.tenures_ended), (3, 2));
        assert_eq!(after.tenures_silent, 1);

        let (other_process, other) = scene.front_end().await;
        let told = ReaderCounts {
            answers: 100,
            retries: 7,
            snapshot_age_ns: 1_000,
        };
        assert!(
            other.tell_counts(told)
                && front_end.tell_counts(ReaderCounts {
                    snapshot_age_ns: 0,
                    ..told
                })
        );
        scene.rest(1_000_000).await;
        let counted = front_end.counts().await.expect("the back-end serves");
        assert_eq!(
            (counted.readers.answers, counted.readers.retries),
            (200, 14)
        );
        let age = counted.readers.snapshot_age_ns;
        assert!((900_000..1_500_000).contains(&age), "{age}");
        drop(other);
        other_process.kill();
        scene.rest(LEASE_NS).await;
        let counted = front_end.counts().await.expect("the back-end serves");
        assert_eq!(
            (counted.front_ends, counted.readers.snapshot_age_ns),
            (1, 0)
        );
        assert_eq!(counted.readers.answers, 200);
    });
}

/// Needs the look at the tenure word behind an answer: everything else is known to the writer.
#[test]
pub fn a_writer_whose_tenure_is_over_answers_nothing_from_its_memory() {
    let scene = Scene::new(9);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve().await;
        let (_first_process, first) = scene.front_end().await;
        let domain = first.create_domain(2).await.expect("there is room");
        let mut writer = first.writer(domain).await.expect("the domain is free");
        let tree = create(&mut writer, StructureKind::BTree).await;
        insert(&mut writer, tree, 1).await;
        writer.publish().await.expect("the tenure lasts");
        let structure = writer.roots().structure(tree).expect("it was created");
        let key = 1_u64.encoded();
        let known = writer.get(&structure, &key).await;
        assert_eq!(
            known.expect("it is whole"),
            Some(3_u64.to_le_bytes().into())
        );
        scene.rest(2 * LEASE_NS).await;
        let (_second_process, second) = scene.front_end().await;
        let mut successor = scene.writer(&second, domain).await;
        let change = operation(tree, Verb::Update, &key, &[9; 8]);
        let (_, _ticket) = successor.stage(&change).await.expect("there is room");
        successor.publish().await.expect("the tenure lasts");
        let over = writer.get(&structure, &key).await;
        let over = over.expect_err("the tenure is over");
        assert!(matches!(over, FrontEndError::Over { .. }), "{over}");
    });
}

/// Needs the look at the log before a lease ends: tickets of a one-sided plan ask nobody.
#[test]
fn a_writer_that_appends_and_asks_nothing_keeps_its_tenure() {
    let scene = Scene::on(platform(PersistenceDomain::Mhp, Ddio::On), 8);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve().await;
        let (_process, front_end) = scene.front_end().await;
        let domain = front_end.create_domain(2).await.expect("there is room");
        let mut writer = front_end.writer(domain).await.expect("the domain is free");
        let table = create(&mut writer, StructureKind::HashTable).await;
        for key in 0..12 {
            insert(&mut writer, table, key).await;
            writer.flush().await.expect("the tenure lasts");
            scene.rest(LEASE_NS / 2).await;
        }
        writer.publish().await.expect("the tenure lasts");
        assert_eq!(keys(&front_end, domain, table, 20).await.len(), 12);
        scene.rest(3 * LEASE_NS).await;
        let over = writer.renew().await.expect_err("it was silent");
        assert!(matches!(over, FrontEndError::Over { .. }), "{over}");
    });
}

/// Needs the end of all tenures at a restart, and the replay.
#[test]
fn a_back_end_that_was_killed_serves_every_acknowledged_operation() {
    for seed in 0..3 {
        let mut scene = Scene::new(seed);
        let world = scene.world.clone();
        world.block_on(async move {
            scene.create().await;
            scene.serve().await;
            let (_process, first) = scene.front_end().await;
            let domain = first.create_domain(3).await.expect("there is room");
            let mut writer = first.writer(domain).await.expect("the domain is free");
            let tree = create(&mut writer, StructureKind::BTree).await;
            for key in 0..30 {
                insert(&mut writer, tree, key).await;
            }
            writer.publish().await.expect("the tenure lasts");
            for key in 30..35 {
                insert(&mut writer, tree, key).await;
            }
            writer.flush().await.expect("the tenure lasts");
            scene.restart().await;
            let (_second_process, second) = scene.front_end().await;
            assert_eq!(keys(&second, domain, tree, 60).await.len(), 35);
            writer.flush().await.expect("it was told before");
            let late = operation(tree, Verb::Insert, &[0; 8], &[9; 8]);
            let gone = match writer.stage(&late).await {
                Ok((_, ticket)) => ticket.await.expect_err("the back-end is another one"),
                Err(error) => error,
            };
            assert!(matches!(gone, FrontEndError::Gone), "{gone}");
            let mut writer = scene.writer(&second, domain).await;
            assert_eq!(writer.tenure(), 2);
            insert(&mut writer, tree, 35).await;
            writer.publish().await.expect("the tenure lasts");
            assert_eq!(keys(&second, domain, tree, 60).await.len(), 36);
        });
    }
}

/// A stranger on the control channel: it greets, and sends messages of its own.
async fn stranger(scene: &Scene, version: u32, messages: &[&[u8]]) -> Result<(), ConnectError> {
    let process = scene.world.process(
        scene
            .world
            .machine(MachineOptions::new(MachineProfile::MODERN)),
    );
    let port = process.port(64).expect("a port");
    let queues = Queues {
        send_capacity: 8,
        receive_capacity: 8,
        shared_receive_queue: None,
        windows: false,
        rnr_retry_count: 10,
        rnr_retry_delay_ns: 100_000,
    };
    let endpoint = Endpoint::new(&port, queues)?;
    let local = endpoint.allocate(4096)?;
    let greeting = Greeting::of(Protocol {
        magic: *b"stonstru",
        name: "data structures",
        version,
    });
    endpoint.connect(ADDRESS, &greeting.say(b"")).await?;
    for message in messages {
        port.device().memory(local).write(0, message);
        let local = LocalSpan {
            region: local,
            offset: 0,
            size: message.len() as u32,
        };
        let sent = [fabric::Operation::Send { local }];
        let _ = port.submit(endpoint.qp(), &sent).await;
    }
    scene.rest(5_000_000).await;
    Ok(())
}

/// Needs the check of each message, and that a request about the tenure of another owner does nothing.
#[test]
fn strangers_on_the_control_channel_disturb_nobody() {
    let scene = Scene::new(3);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve().await;
        let (_process, back_end) = scene.front_end().await;
        let domain = back_end.create_domain(2).await.expect("there is room");
        let mut writer = back_end.writer(domain).await.expect("the domain is free");
        let table = create(&mut writer, StructureKind::HashTable).await;
        let words = |words: [u64; 2]| words.map(u64::to_le_bytes).concat();
        // Notify, release and a slab for a domain of another front-end; domains that are none; garbage of any length.
        let (notify, release, slab) = (words([6, 0]), words([7, 0]), words([3, 0]));
        let (nowhere, unknown) = (words([5, 99]), words([6, u64::MAX]));
        let asked: [&[u8]; 4] = [&notify, &release, &slab, &nowhere];
        stranger(&scene, 5, &asked).await.expect("it is accepted");
        for garbage in [&b""[..], b"x", &[0xff; 16], &[7; 64], &unknown] {
            stranger(&scene, 5, &[garbage])
                .await
                .expect("it is accepted");
        }
        let refused = stranger(&scene, 6, &[]).await.unwrap_err();
        let words = "the client speaks protocol version 6 of data structures, the server version 5";
        assert!(refused.to_string().starts_with(words), "{refused}");
        insert(&mut writer, table, 1).await;
        writer.publish().await.expect("the tenure lasts");
        assert_eq!(keys(&back_end, domain, table, 3).await, [1]);
    });
}

/// Needs every persist of the back-end, and each step of the plan by which records become durable: any part of the other words may be gone.
#[test]
pub fn a_power_cut_at_any_moment_loses_no_acknowledged_operation() {
    for platform in PLATFORMS {
        let told: u64 = (0..30).map(|seed| cut_power(platform, seed)).sum();
        assert!(told > 250, "{platform:?}: {told} keys were told");
    }
}

/// Cuts the power at a random moment. Returns the number of keys that were told.
fn cut_power(platform: DeclaredPlatform, seed: u64) -> u64 {
    let mut scene = Scene::on(platform, seed);
    let world = scene.world.clone();
    world.block_on(async move {
        let mut random = random_from_seed(seed);
        scene.create().await;
        scene.serve().await;
        let (process, first) = scene.front_end().await;
        let domain = first.create_domain(3).await.expect("there is room");
        let mut writer = first.writer(domain).await.expect("the domain is free");
        let kind = match seed % 2 {
            0 => StructureKind::HashTable,
            _ => StructureKind::BTree,
        };
        let structure = create(&mut writer, kind).await;
        writer.publish().await.expect("the tenure lasts");
        let told = Rc::new(Cell::new(0));
        let telling = told.clone();
        process.runtime().spawn(Box::pin(async move {
            for key in 0..300_u64 {
                let (encoded, value) = (key.encoded(), (key * 3).to_le_bytes());
                let operation = operation(structure, Verb::Insert, &encoded, &value);
                let Ok((_, ticket)) = writer.stage(&operation).await else {
                    return;
                };
                let answered = match key % 7 {
                    0..2 => ticket.await,
                    2 => writer.flush().await,
                    3 => writer.publish().await,
                    _ => continue,
                };
                match answered {
                    Ok(()) => telling.set(key + 1),
                    Err(_) => return,
                }
            }
        }));
        scene.rest(random.random_range(0..2_000_000)).await;
        let wreck = scene.world.wreck(scene.machine, &scene.module);
        let told = told.get();
        let fates: Vec<Fate> = (0..wreck.undecided())
            .map(|index| Fate {
                stores: random.random_range(0..=wreck.stores(index)),
                torn: random.random_range(0..=u8::MAX),
            })
            .collect();
        scene.world.cut_power(scene.machine);
        scene.module.restart(wreck.survivor(&fates));
        scene.back_end = scene.world.process(scene.machine);
        scene.serve().await;
        let (_process, second) = scene.front_end().await;
        let found = keys(&second, domain, structure, 310).await;
        let count = found.len() as u64;
        let case = format!("{platform:?}, seed {seed}");
        assert_eq!(found, (0..count).collect::<Vec<_>>(), "{case}");
        assert!(count >= told, "{case}: {count} of {told} keys are there");
        told
    })
}

/// Needs the look at the tenure word behind each append: a writer that could not be stopped for certain still writes to its log, and a hand-over that has
/// seen the end of the log does not count it.
#[test]
pub fn a_ticket_is_not_told_once_the_tenure_word_was_raised_though_the_window_is_open() {
    for platform in PLATFORMS {
        let scene = Scene::on(platform, 5);
        let world = scene.world.clone();
        world.block_on(async move {
            scene.create().await;
            scene.serve().await;
            let (_process, front_end) = scene.front_end().await;
            let domain = front_end.create_domain(2).await.expect("there is room");
            let mut writer = front_end.writer(domain).await.expect("the domain is free");
            let table = create(&mut writer, StructureKind::HashTable).await;
            insert(&mut writer, table, 1).await;
            writer.flush().await.expect("the tenure lasts");
            if !front_end.agreement().plan().is_one_sided() {
                return;
            }
            let word = PoolGeometry::place(domain).tenure_word();
            scene.medium().region.store(word.offset, 2);
            insert(&mut writer, table, 2).await;
            let over = writer.flush().await.expect_err("the tenure is over");
            assert!(matches!(over, FrontEndError::Over { .. }), "{over}");
        });
    }
}

/// Needs the comparison of plans at connect: a front-end believes the platform that the back-end declares.
#[test]
fn both_sides_agree_on_the_plan_of_the_declared_platform() {
    for platform in PLATFORMS {
        let scene = Scene::on(platform, 6);
        let world = scene.world.clone();
        world.block_on(async move {
            scene.create().await;
            scene.serve().await;
            let (_process, front_end) = scene.front_end().await;
            let plan = front_end.agreement().plan().program().to_string();
            let expected = match (platform.persistence_domain, platform.ddio) {
                (PersistenceDomain::Wsp, _) => "rq.write(a) rq.await(write(a))",
                (PersistenceDomain::Mhp, _) | (PersistenceDomain::Dmp, Ddio::Off) => {
                    "rq.write(a) rq.flush rq.await(flush)"
                }
                _ => {
                    "rq.write(a) rq.send(&a) rsp.receive(&a) rsp.write_back(a) rsp.send(ack) rq.receive(ack)"
                }
            };
            assert_eq!(plan, expected);
        });
    }
}

/// The costs of calls as facts: of a writer that knows its way and of one that does not, of a reader with a cache and of one without.
#[test]
fn each_call_takes_as_many_round_trips_as_its_walk_has_levels() {
    for platform in [ANSWERED, platform(PersistenceDomain::Mhp, Ddio::On)] {
        costs_on(platform);
    }
}

fn costs_on(platform: DeclaredPlatform) {
    let scene = Scene::on(platform, 1);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve().await;
        let machine = scene
            .world
            .machine(MachineOptions::new(MachineProfile::MODERN));
        let process = scene.world.process(machine);
        let meter = Rc::<Meter>::default();
        let device = Rc::new(Observed::new(process.open_device(), meter.clone()));
        let port = process
            .port_on(device, FRONT_END_COMPLETIONS)
            .expect("a port");
        let back_end = BackEnd::connect(&port, ADDRESS).await.expect("accepted");
        let domain = back_end.create_domain(3).await.expect("there is room");
        let mut writer = back_end.writer(domain).await.expect("the domain is free");
        let table = create(&mut writer, StructureKind::HashTable).await;
        let tree = create(&mut writer, StructureKind::BTree).await;
        for key in 0..100 {
            insert(&mut writer, table, key).await;
            insert(&mut writer, tree, key).await;
        }
        writer.publish().await.expect("the tenure lasts");
        let mut before = meter.counts();
        let mut cost = || {
            let now = meter.counts();
            let cost = now - before;
            before = now;
            (cost.reads, cost.writes, cost.sends, cost.doorbells)
        };
        let (key, value) = (7_u64.encoded(), 21_u64.to_le_bytes());
        // A writer knows the words that it has read or written. A wait sends the record.
        let change = operation(table, Verb::Update, &key, &value);
        let (_, ticket) = writer.stage(&change).await.expect("there is room");
        assert_eq!(cost(), (0, 0, 0, 0));
        // One append: the record, with the flush or the notice behind it.
        ticket.await.expect("the tenure lasts");
        match back_end.agreement().plan().is_one_sided() {
            true => assert_eq!(cost(), (1, 1, 0, 1)),
            false => assert_eq!(cost(), (0, 1, 1, 1)),
        }
        let change = operation(tree, Verb::Update, &key, &value);
        let (_, _ticket) = writer.stage(&change).await.expect("there is room");
        let (_, ticket) = writer.stage(&change).await.expect("there is room");
        assert_eq!(cost(), (0, 0, 0, 0));
        // Two records and the transaction, which lie side by side, and the notice, whatever the number of operations: one doorbell and one round trip.
        writer.publish().await.expect("the tenure lasts");
        assert_eq!(cost(), (0, 1, 1, 1));
        ticket.await.expect("what is visible is durable");
        assert_eq!(cost(), (0, 0, 0, 0));
        // An answer rests on the tenure word behind it, however much the writer knows.
        let structure = writer.roots().structure(tree).expect("it was created");
        let found = writer.get(&structure, &key).await.expect("it is whole");
        assert_eq!((found, cost()), (Some(value.to_vec()), (1, 0, 0, 1)));

        // A new tenure knows nothing: root line, word of the directory, bucket and item; root line, inner node and leaf. Then a leaf that it does not know.
        writer.release().await.expect("the tenure lasts");
        let mut writer = scene.writer(&back_end, domain).await;
        let other = 90_u64.encoded();
        cost();
        for (structure, key, reads) in [
            (table, &key, 4),
            (tree, &key, 3),
            (tree, &other, 1),
            (tree, &other, 0),
        ] {
            let change = operation(structure, Verb::Update, key, &value);
            let (_, _ticket) = writer.stage(&change).await.expect("there is room");
            assert_eq!(cost(), (reads, 0, 0, reads));
        }
        writer.publish().await.expect("the tenure lasts");
        // Many keys that it does not know: root line, inner node and leaves, each level at once, and each node once.
        writer.release().await.expect("the tenure lasts");
        let mut writer = scene.writer(&back_end, domain).await;
        let structure = writer.roots().structure(tree).expect("it was created");
        let some: Vec<Vec<u8>> = (0..8_u64).map(|key| (key * 12).encoded()).collect();
        cost();
        let looked = writer.look_ahead(&structure, &some).await;
        looked.expect("the tenure lasts");
        let (reads, .., rounds) = cost();
        assert_eq!(rounds, 3);
        assert!((3..3 + some.len() as u64).contains(&reads), "{reads} READs");
        for key in &some {
            let change = operation(tree, Verb::Update, key, &value);
            let (_, _ticket) = writer.stage(&change).await.expect("there is room");
            assert_eq!(cost(), (0, 0, 0, 0));
        }
        writer.publish().await.expect("the tenure lasts");
        let mut reader = back_end.reader(domain).await.expect("there is the domain");
        let roots = reader.roots().await.expect("the table is whole");
        cost();
        for (number, reads) in [(table, 4), (tree, 3)] {
            let found = reader.get(&roots, number, &key).await.expect("it is whole");
            assert_eq!(found, Some(value.to_vec()));
            assert_eq!(cost(), (reads, 0, 0, reads));
        }
        // A reader that remembers inner places reads the bucket and the item, or the leaf.
        let mut reader = reader.remembering(1 << 20);
        for (number, reads) in [(table, 2), (tree, 1)] {
            reader.get(&roots, number, &key).await.expect("it is whole");
            cost();
            let found = reader.get(&roots, number, &key).await.expect("it is whole");
            assert_eq!(found, Some(value.to_vec()));
            assert_eq!(cost(), (reads, 0, 0, reads));
        }
    });
}
