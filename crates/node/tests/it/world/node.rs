//! A node beyond the life of its process: machine, memory, disk.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use stonecast_backup::{Hello, Intake, IntakeOptions, LinkOptions, Pace, Pool, SharedLedger};
use stonecast_base::Random;
use stonecast_cluster::{Found, Node as Described, NodeName, Nonce, Survived};
use stonecast_config_sim::ConfigService;
use stonecast_fabric::decorate::Observed;
use stonecast_fabric::{ConnectionEvent, Port, Runtime};
use stonecast_fabric_sim::{
    Features, Machine, MachineOptions, MachineProfile, Module, Process, SimBacking, Survivor, World,
};
use stonecast_log::{LogFormat, Secret};
use stonecast_media::{
    Backing as _, Ddio, DeclaredPlatform, Durability, LogOptions, PersistenceDomain,
    PersistentRegion, ReceiveBuffers,
};
use stonecast_member::Seat;
use stonecast_node::{EarlierWriters, Node, NodeError, Options, Place as Memory};
use stonecast_persist::Platform;
use stonecast_persist::execute::Commit;
use stonecast_replication::AppendKey;
use uuid::Uuid;

use super::disk::Disk;
use super::doubt::Doubt;
use super::oracle::Oracle;
use super::pages::Ballast;
use super::recovery::recover;
use super::scene::Shape;
use super::store::TestStore;

pub const NONCE: Nonce = Nonce::from_u128(0x5707_eca5);
const SEGMENTS: u32 = 16;
/// Bytes of the longest message. Longer records come in pieces.
const MESSAGE_SIZE_MAX: u32 = 1024;
/// Bytes of the longest record.
pub const RECORD_SIZE_MAX: u32 = 3000;

/// The plan by which entries become durable at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// READs make entries durable.
    OneSided,
    /// The backup writes entries back, and answers.
    Answered,
}

impl Plan {
    pub fn platform(self) -> DeclaredPlatform {
        DeclaredPlatform {
            persistence_domain: PersistenceDomain::Dmp,
            ddio: match self {
                Self::OneSided => Ddio::Off,
                Self::Answered => Ddio::On,
            },
            receive_buffers: ReceiveBuffers::Dram,
        }
    }
}

/// A process and its parts.
pub struct Running {
    pub process: Process,
    pub node: Rc<RefCell<Option<Rc<Node<TestStore>>>>>,
    pub store: Rc<TestStore>,
    pub end: Rc<RefCell<Option<NodeError>>>,
}

/// A node beyond the life of its process.
pub struct Place {
    pub index: usize,
    pub name: NodeName,
    pub machine: Machine,
    pub disk: Disk,
    pub doubt: Rc<Doubt>,
    pub running: RefCell<Option<Running>>,
    /// Whether the power failed since the last start.
    pub lost_power: Cell<bool>,
    /// Whether a story has taken entries away.
    pub has_lost: Cell<bool>,
    module: Rc<Module>,
    plan: Plan,
    look_units: u32,
    segment_size: u64,
    unready_ns: u64,
    /// The patience with copies, which is longer than any story but one.
    pub copy_patience_ns: Cell<u64>,
    /// Whether the log has no segment for appends.
    lends_nothing: Cell<bool>,
    runs: Cell<u32>,
}

pub fn name(index: usize) -> NodeName {
    char::from(b'a' + index as u8).to_string().parse().unwrap()
}

/// The addresses of a node: two ports of one device.
pub fn addresses(index: usize) -> Vec<String> {
    [1, 2]
        .map(|port| format!("sim:node-{}-{port}", name(index)))
        .into()
}

/// The node of pool `index + 1`.
pub fn described(index: usize, plan: Plan) -> Described {
    let pool = Uuid::from_u128(index as u128 + 1);
    Described::new(pool, Durability::Power, plan.platform(), addresses(index))
}

impl Place {
    /// A node of a cluster of that shape.
    pub fn new(world: &World, index: usize, shape: Shape) -> Self {
        let Shape {
            plan,
            look_units,
            segment_size,
            packs,
            unready_ns,
            ..
        } = shape;
        let machine = world.machine(MachineOptions {
            platform: plan.platform(),
            features: Features {
                multi_packet: packs,
                // A device that names messages leaves a scene with a slow search nothing to search for.
                follows_appends: packs && index == 1 && look_units >= Shape::THREE.look_units,
                ..Features::COMMON
            },
            ..MachineOptions::new(MachineProfile::MODERN)
        });
        Self {
            index,
            name: name(index),
            machine,
            disk: Disk::default(),
            doubt: Rc::default(),
            running: RefCell::default(),
            lost_power: Cell::default(),
            has_lost: Cell::default(),
            module: world.module(machine, Survivor::default()),
            plan,
            look_units,
            segment_size,
            unready_ns,
            copy_patience_ns: Cell::new(10_000_000_000),
            lends_nothing: Cell::default(),
            runs: Cell::default(),
        }
    }

    fn format(&self) -> LogFormat {
        LogFormat {
            uuid: self.index as u128 + 7,
            tag_key: 1,
            // A segment whose turn was cut short is judged by the stamps of records.
            secret: Some(Secret::new([3, 4])),
            segment_size: self.segment_size,
            segment_count: SEGMENTS,
        }
    }

    fn region(&self) -> Rc<dyn PersistentRegion> {
        let options = LogOptions {
            capacity: self.segment_size * u64::from(SEGMENTS),
            platform: self.plan.platform(),
            durability: Durability::Power,
        };
        SimBacking::new(&self.module).open_log(options).unwrap()
    }

    /// Starts the process.
    pub fn start(
        &self,
        world: &World,
        service: &ConfigService,
        oracle: &Rc<RefCell<Oracle>>,
        (shards, ballast, random): (u32, Ballast, Random),
    ) {
        let process = world.process(self.machine);
        self.doubt.end();
        let device = Rc::new(Observed::new(process.open_device(), self.doubt.clone()));
        let port = process.port_on(device, 4096).unwrap();
        let runtime = process.runtime();
        for address in addresses(self.index) {
            port.device().listen(&address).unwrap();
        }
        let region = self.region();
        let format = self.format();
        let (ledger, segments) = recover(&*region, &format);
        let commit = Commit::choose(self.plan.platform(), Durability::Power, region.means());
        let medium = (region.clone(), format);
        let ledger = SharedLedger::new(ledger, None, medium, commit.unwrap());
        let is_left = |number: &u32| segments.iter().any(|state| state.number == *number);
        let blank = (0..SEGMENTS)
            .rev()
            .filter(|number| !is_left(number) && !self.lends_nothing.get());
        let (store, left) = TestStore::open(
            self.index,
            (&self.disk, ledger.clone()),
            runtime.clone(),
            oracle.clone(),
            (blank.collect(), ballast),
        );
        let store = Rc::new(store);
        let key = [0x51ed, self.index as u64];
        let pool = Pool {
            region: region.clone(),
            appended: region.clone(),
            format,
            key,
            ledger,
            segments,
            // A simulated process takes its NIC along.
            earlier_writers_are_gone: true,
        };
        self.runs.set(self.runs.get() + 1);
        let memory = Memory {
            intake: Intake::start(&port, pool, &self.intake_options()).unwrap(),
            region,
            key: AppendKey::new(key, NONCE),
            // A simulated process takes its NIC along.
            earlier_writers: EarlierWriters::Gone,
        };
        let survived = match self.lost_power.replace(false) {
            true => Survived::PowerLoss,
            false => Survived::ProcessDeath,
        };
        let seat = Seat {
            store: Rc::new(service.store(&port, &runtime)),
            port: port.clone(),
            runtime: runtime.clone(),
            cell: self.disk.clone(),
            cluster: NONCE,
            name: self.name.clone(),
            node: described(self.index, self.plan),
            found: Found {
                survived,
                copies: Default::default(),
            },
            random,
        };
        let slot: Rc<RefCell<Option<Rc<Node<TestStore>>>>> = Rc::default();
        let end = Rc::new(RefCell::new(None));
        let (given, told, serving) = (slot.clone(), end.clone(), store.clone());
        let options = self.options();
        let spawner = runtime.clone();
        runtime.spawn(Box::pin(async move {
            let started = Node::start(seat, serving.clone(), (memory, left, shards), options);
            match started.await {
                Ok(node) => {
                    let node = Rc::new(node);
                    *given.borrow_mut() = Some(node.clone());
                    spawner.spawn(Box::pin(serving.serve(node.clone())));
                    take_requests(&port, &node).await;
                }
                Err(error) => *told.borrow_mut() = Some(error),
            }
        }));
        *self.running.borrow_mut() = Some(Running {
            process,
            node: slot,
            store,
            end,
        });
    }

    fn intake_options(&self) -> IntakeOptions {
        IntakeOptions {
            nonce: NONCE,
            run: self.runs.get(),
            platform: Platform::of(self.plan.platform()),
            durability: Durability::Power,
            sessions_max: 3,
            ahead: 2,
            entry_size_max: MESSAGE_SIZE_MAX,
            window_size: 4096,
            pace: Pace::even(self.look_units),
            ask_again_ns: 20_000,
            rnr_retry_count: 50,
            rnr_retry_delay_ns: 20_000,
        }
    }

    fn options(&self) -> Options {
        Options {
            link: LinkOptions {
                hello: Hello {
                    nonce: NONCE,
                    node: self.name.clone(),
                },
                durability: Durability::Power,
                entries_max: 128,
                staging_size: 64 * 1024,
                patience_ns: 3_000_000,
                rnr_retry_count: self.unready_ns.div_ceil(10_000).max(4) as u32,
                rnr_retry_delay_ns: 10_000,
            },
            record_size_max: RECORD_SIZE_MAX,
            unsettled_max: 32 * 1024,
            pause_ns: 20_000,
            look_ns: 100_000,
            repeat_ns: 500_000,
            medium_patience_ns: 40_000_000,
            copy_patience_ns: self.copy_patience_ns.get(),
            idle_ns: 300_000,
            floor_after: 8,
            floor_after_ns: 5_000_000,
            rest_ns: 50_000_000,
        }
    }

    /// Ends the process, as `kill -9` would. Its writes stay.
    pub fn kill(&self) {
        if let Some(running) = self.running.take() {
            running.process.kill();
            let _told = self.disk.commit(self.disk.mark());
        }
    }

    /// Cuts the power: everything that was not durable is lost, except the first `kept` changes.
    pub fn cut_power(&self, world: &World, kept: usize) {
        world.cut_power(self.machine);
        self.running.take();
        let wreck = world.wreck(self.machine, &self.module);
        let fates = vec![Default::default(); wreck.undecided()];
        self.module.restart(wreck.survivor(&fates));
        self.disk.fail(kept);
        self.lost_power.set(true);
    }

    /// Ends the process. The pool loses the entries of other nodes that were not digested, and forgets that it had
    /// them.
    pub fn lose_entries(&self) {
        self.kill();
        self.has_lost.set(true);
        self.module.restart(Survivor::default());
    }

    /// Becomes another machine under the old name, with nothing on it.
    pub fn replace(&self, world: &World) {
        self.cut_power(world, 0);
        self.module.restart(Survivor::default());
        self.disk.replace();
        self.lost_power.set(false);
        self.runs.set(0);
    }

    /// Becomes another machine under the old name, whose log has nothing on it, and no segment for appends.
    pub fn replace_without_segments(&self, world: &World) {
        self.replace(world);
        self.lends_nothing.set(true);
    }

    /// Lets the process stand still for a while.
    pub fn pause(&self, duration_ns: u64) {
        if let Some(running) = &*self.running.borrow() {
            running.process.pause(duration_ns);
        }
    }

    /// The reason why the node has ended by itself, however often a story asks.
    pub fn end(&self) -> Option<String> {
        let running = self.running.borrow();
        let running = running.as_ref()?;
        let node = running.node.borrow();
        let ended = node.as_ref().and_then(|node| node.take_end());
        let mut told = running.end.borrow_mut();
        *told = ended.or_else(|| told.take());
        told.as_ref().map(ToString::to_string)
    }

    pub fn runs(&self) -> bool {
        self.running.borrow().is_some()
    }

    pub fn node(&self) -> Option<Rc<Node<TestStore>>> {
        let running = self.running.borrow();
        running.as_ref()?.node.borrow().clone()
    }

    /// The tasks of the process.
    pub fn runtime(&self) -> Option<Rc<dyn Runtime>> {
        let running = self.running.borrow();
        Some(running.as_ref()?.process.runtime())
    }

    pub fn store(&self) -> Option<Rc<TestStore>> {
        let running = self.running.borrow();
        Some(running.as_ref()?.store.clone())
    }
}

async fn take_requests(port: &Rc<Port>, node: &Node<TestStore>) {
    loop {
        while let Some(event) = port.take_event() {
            if let ConnectionEvent::Request {
                request,
                private_data,
                ..
            } = event
                && !node.take_request(request, &private_data)
            {
                let _ = port.device().reject(request, "nobody serves this here");
            }
        }
        port.activity().await;
    }
}
