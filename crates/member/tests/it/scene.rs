//! A world with a cluster: nodes on machines of their own, a configuration service, and an oracle that judges all
//! nodes.
//!
//! Nodes are called a, b, c and so on. Each node has a clock that drifts, and a pool that outlives its process. The
//! belief of a node is the conclusion that its store would draw at that moment from its own clock. A node has a belief
//! also while it stands still, because its memory can be read meanwhile.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random, random_from_seed};
use stonecast_cluster::{
    Attempt, ConfigStore as _, Configuration, EpochCell, Found, FoundCopy, Known, Node, NodeName,
    Nonce, Pending, Policy, Start, Subject, Survived, Term, Timing,
};
use stonecast_config_sim::{ConfigService, ServiceOptions};
use stonecast_fabric::Runtime;
use stonecast_fabric_sim::{LocalClock, Machine, MachineOptions, MachineProfile, Process, World};
use stonecast_media::{Ddio, DeclaredPlatform, Durability, PersistenceDomain, ReceiveBuffers};
use stonecast_member::{Member, MemberError, MemberEvent, Seat};
use uuid::Uuid;

use crate::reader::Reader;

pub const NONCE: Nonce = Uuid::from_u128(0x5707_eca5);
pub const MS: Nanoseconds = 1_000_000;

/// The properties of a cluster.
#[derive(Clone, Copy)]
pub struct Shape {
    pub nodes: usize,
    pub policy: PolicyWords,
    /// The real drift of clocks, in millionths.
    pub drift_ppm: i64,
}

/// The parts of a policy, as a `Copy` type.
#[derive(Clone, Copy)]
pub struct PolicyWords {
    pub replicas: u8,
    pub shards: u32,
    pub lease: Timing,
    pub remove_after_ns: Nanoseconds,
}

/// Three nodes with a lease of 10 ms. Each node leads one of three shards.
pub const THREE: Shape = Shape {
    nodes: 3,
    policy: PolicyWords {
        replicas: 3,
        shards: 3,
        lease: Timing::DEDICATED_CORES,
        remove_after_ns: 60 * MS,
    },
    drift_ppm: 1_000,
};

/// The member of a node, for as long as the node is a member.
pub type Slot = Rc<RefCell<Option<Rc<Member>>>>;
/// The reason why a node is no longer a member.
pub type End = Rc<RefCell<Option<MemberError>>>;

/// The parts of a node that outlive its process.
pub struct Place {
    pub name: NodeName,
    pub machine: Machine,
    clock: LocalClock,
    cell: Memory,
    /// The groups whose content the pool has lost in part since its last start.
    pub lost: RefCell<BTreeSet<Subject>>,
    pub process: RefCell<Option<Process>>,
    pub member: Slot,
    pub diary: Rc<RefCell<Vec<(Nanoseconds, MemberEvent)>>>,
    pub end: End,
    pub paused_until: Cell<Nanoseconds>,
}

impl Place {
    /// The content of the pool at a start.
    fn found(&self) -> Found {
        let gap = FoundCopy {
            contiguous: 88,
            horizon: 90,
        };
        let lost = self.lost.borrow();
        Found {
            survived: Survived::ProcessDeath,
            copies: lost.iter().map(|subject| (subject.clone(), gap)).collect(),
        }
    }
}

/// A world with a cluster, and the oracle that judges its nodes.
pub struct Scene {
    pub service: Rc<ConfigService>,
    pub seats: Vec<Machine>,
    pub places: Vec<Place>,
    readers: RefCell<Vec<Reader>>,
    /// The last term of each group that had a leader.
    led: RefCell<BTreeMap<Subject, Term>>,
    drift_ppm: i64,
    timing: Timing,
    pub observer: Rc<dyn Runtime>,
    pub random: RefCell<Random>,
    /// The last field, so that the contents of the world are dropped first.
    pub world: World,
}

/// The epoch cell of a pool.
#[derive(Clone)]
pub struct Memory(Rc<RefCell<Option<Known>>>);

impl Memory {
    /// The cell of a node that was in the epoch of `configuration`.
    pub fn in_epoch_of(configuration: &Configuration) -> Self {
        Self(Rc::new(RefCell::new(Some(Known::of(configuration)))))
    }
}

impl EpochCell for Memory {
    type Error = &'static str;

    fn load(&self) -> Option<Known> {
        *self.0.borrow()
    }

    fn store<'a>(&'a self, known: Known) -> Pending<'a, Result<(), Self::Error>> {
        *self.0.borrow_mut() = Some(known);
        Box::pin(ready(Ok(())))
    }
}

pub fn name(index: usize) -> NodeName {
    let letter = char::from(b'a' + index as u8);
    letter.to_string().parse().unwrap()
}

/// The node of pool `index + 1`, which listens at `address`.
pub fn node(index: usize, address: &str) -> Node {
    let platform = DeclaredPlatform {
        persistence_domain: PersistenceDomain::Dmp,
        ddio: Ddio::Off,
        receive_buffers: ReceiveBuffers::Pm,
    };
    let pool = Uuid::from_u128(index as u128 + 1);
    Node::new(pool, Durability::Power, platform, vec![address.to_owned()])
}

/// The first configuration of a cluster of `shape`: nodes are registered and shards are placed.
pub fn first_configuration(shape: Shape, address: impl Fn(usize) -> String) -> Configuration {
    let words = shape.policy;
    let policy = Policy {
        lease: words.lease,
        remove_after_ns: words.remove_after_ns,
        ..Policy::new(words.replicas, words.shards)
    };
    let attempt = Attempt {
        writer: "test".to_owned(),
        number: Uuid::from_u128(1),
    };
    let mut configuration = Configuration::create(NONCE, policy, attempt);
    for index in 0..shape.nodes {
        let node = node(index, &address(index));
        let start = Start::first(node);
        configuration = configuration.register(&name(index), &start).unwrap();
    }
    configuration.place_shards().unwrap()
}

impl Scene {
    /// A cluster whose nodes have not started.
    pub fn new(shape: Shape, seed: u64) -> Self {
        let world = World::new(seed);
        let mut random = random_from_seed(seed ^ 0x6d65_6d62_6572);
        let machine = || world.machine(MachineOptions::new(MachineProfile::MODERN));
        let seats: Vec<Machine> = (0..3).map(|_| machine()).collect();
        let options = ServiceOptions::default();
        let service = ConfigService::start(&world, "config", &seats, seed, options).unwrap();
        let first = first_configuration(shape, address);
        let places = (0..shape.nodes).map(|index| Place {
            name: name(index),
            machine: machine(),
            clock: LocalClock {
                ahead_ns: random.random_range(0..1_000 * MS),
                // The extremes are the cases that matter.
                drift_ppm: shape.drift_ppm * random.random_range(-1..=1),
            },
            cell: Memory::in_epoch_of(&first),
            lost: RefCell::default(),
            process: RefCell::default(),
            member: Rc::default(),
            diary: Rc::default(),
            end: Rc::default(),
            paused_until: Cell::new(0),
        });
        let places = places.collect();
        let scene = Self {
            service,
            seats,
            places,
            readers: RefCell::default(),
            led: RefCell::default(),
            drift_ppm: shape.drift_ppm,
            timing: shape.policy.lease,
            observer: world.observer(),
            random: RefCell::new(random),
            world,
        };
        let founder = scene.world.process(scene.seats[0]);
        let port = founder.port(64).unwrap();
        let store = scene.service.store(&port, &founder.runtime());
        scene
            .world
            .block_on(store.compare_and_set(None, &first.encode()))
            .unwrap();
        scene
    }

    /// A cluster whose nodes have all started, and whose groups are all led.
    pub fn settled(shape: Shape, seed: u64) -> Self {
        let scene = Self::new(shape, seed);
        (0..shape.nodes).for_each(|index| scene.start(index));
        scene.run_until(400 * MS, || scene.all_led());
        scene.run_for(30 * MS);
        assert!(scene.all_led(), "every group is led within 400 ms");
        scene
    }

    /// Lets `count` readers ask for leases from here on.
    pub fn read(&self, count: usize) {
        for _ in 0..count {
            let machine = self
                .world
                .machine(MachineOptions::new(MachineProfile::MODERN));
            let process = self.world.process(machine);
            let random = &mut *self.random.borrow_mut();
            process.set_clock(LocalClock {
                ahead_ns: random.random_range(0..1_000 * MS),
                drift_ppm: self.drift_ppm * random.random_range(-1..=1),
            });
            let reader = Reader::new(process, self.timing, random.random());
            self.readers.borrow_mut().push(reader);
        }
    }

    /// Starts the process of a node.
    pub fn start(&self, index: usize) {
        let place = &self.places[index];
        place.end.replace(None);
        let (slot, end) = (place.member.clone(), place.end.clone());
        let process = self.start_at(index, &address(index), slot, end);
        place.process.replace(Some(process));
    }

    /// Starts a second process of a node's pool, which listens at `address`. The first process goes on.
    pub fn start_beside(&self, index: usize, address: &str) {
        self.start_at(index, address, Rc::default(), Rc::default());
    }

    fn start_at(&self, index: usize, address: &str, slot: Slot, end: End) -> Process {
        let place = &self.places[index];
        let process = self.world.process(place.machine);
        process.set_clock(place.clock);
        let port = process.port(512).unwrap();
        let runtime = process.runtime();
        port.device().listen(address).unwrap();
        let seat = Seat {
            store: Rc::new(self.service.store(&port, &runtime)),
            port,
            runtime: runtime.clone(),
            cell: place.cell.clone(),
            cluster: NONCE,
            name: place.name.clone(),
            node: node(index, address),
            found: place.found(),
            random: random_from_seed(self.random.borrow_mut().random()),
        };
        let (diary, observer) = (place.diary.clone(), self.observer.clone());
        runtime.spawn(Box::pin(async move {
            let member = match Member::start(seat).await {
                Ok(member) => Rc::new(member),
                Err(error) => {
                    end.replace(Some(error));
                    return;
                }
            };
            member.take_all_requests();
            slot.replace(Some(member.clone()));
            loop {
                match member.event().await {
                    Ok(event) => diary.borrow_mut().push((observer.now(), event)),
                    Err(error) => {
                        slot.replace(None);
                        end.replace(Some(error));
                        return;
                    }
                }
            }
        }));
        process
    }

    /// Ends the process of a node, as `kill -9` would.
    pub fn kill(&self, index: usize) {
        let place = &self.places[index];
        if let Some(process) = place.process.take() {
            process.kill();
        }
        drop(place.member.take());
    }

    /// Lets the process of a node stand still.
    pub fn pause(&self, index: usize, duration: Nanoseconds) {
        if let Some(process) = &*self.places[index].process.borrow() {
            process.pause(duration);
            let until = self.world.now() + duration;
            self.places[index].paused_until.set(until);
        }
    }

    /// Cuts a node off from everything.
    pub fn cut_off(&self, index: usize, duration: Nanoseconds) {
        self.isolate(index, duration, false);
        self.cut_from_store(index, duration);
    }

    /// Cuts a node off from the other nodes: both ways, or only the way to the node.
    pub fn isolate(&self, index: usize, duration: Nanoseconds, one_way: bool) {
        let own = Some(self.places[index].machine);
        for (other, place) in self.places.iter().enumerate() {
            if other != index {
                self.world.block(Some(place.machine), own, 0, duration);
                if !one_way {
                    self.world.block(own, Some(place.machine), 0, duration);
                }
            }
        }
    }

    /// Cuts a node off from the configuration service.
    pub fn cut_from_store(&self, index: usize, duration: Nanoseconds) {
        let own = Some(self.places[index].machine);
        for &seat in &self.seats {
            self.world.block(own, Some(seat), 0, duration);
            self.world.block(Some(seat), own, 0, duration);
        }
    }

    pub fn runs(&self, index: usize) -> bool {
        self.places[index].process.borrow().is_some()
    }

    pub fn member(&self, index: usize) -> Option<Rc<Member>> {
        self.places[index].member.borrow().clone()
    }

    /// The node's member, if its software runs.
    pub fn awake(&self, index: usize) -> Option<Rc<Member>> {
        let is_awake = self.places[index].paused_until.get() <= self.world.now();
        self.member(index).filter(|_| is_awake)
    }

    /// Returns the term whose writes a READ of a node's memory would find at this moment, even if the node stands
    /// still. That term is the last one that had a leader, as far as the node knows. `None` if the process has gone,
    /// and its memory with it.
    pub fn term_in_memory(&self, node: &NodeName, subject: &Subject) -> Option<Term> {
        let place = self.places.iter().find(|place| place.name == *node)?;
        let member = place.member.borrow();
        let configuration = member.as_ref()?.configuration();
        let entered = configuration.group(subject)?.term;
        let led = self.led.borrow().get(subject).copied()?;
        Some(led.min(entered))
    }

    /// The number of reads that counted so far.
    pub fn counted_reads(&self) -> u64 {
        self.readers
            .borrow()
            .iter()
            .map(|reader| reader.counted)
            .sum()
    }

    /// The configuration that the service has.
    pub fn stored(&self) -> Configuration {
        Configuration::decode(&self.service.value().unwrap().bytes).unwrap()
    }

    pub fn subjects(&self) -> Vec<Subject> {
        let stored = self.stored();
        let subjects = stored.groups.iter().map(|group| group.subject.clone());
        subjects.collect()
    }

    /// Lets `duration` pass. The oracle judges each step.
    pub fn run_for(&self, duration: Nanoseconds) {
        self.run_until(duration, || false);
    }

    /// Lets time pass until `done`, or for `duration` at most. Returns whether `done` came.
    pub fn run_until(&self, duration: Nanoseconds, mut done: impl FnMut() -> bool) -> bool {
        let end = self.world.now() + duration;
        let subjects = self.subjects();
        while self.world.now() < end {
            // The world has timers for as long as a node or a seat runs. Without a timer, time stands still.
            if !self.world.step() {
                return done();
            }
            for reader in &mut *self.readers.borrow_mut() {
                reader.step(self, &subjects);
            }
            self.judge(&subjects);
            if done() {
                return true;
            }
        }
        done()
    }

    /// The nodes that believe to lead `subject` at this moment, with their terms.
    pub fn leaders(&self, subject: &Subject) -> Vec<(usize, Term)> {
        let believes = |(index, place): (usize, &Place)| {
            let process = place.process.borrow();
            let now = process.as_ref()?.runtime().now();
            let member = place.member.borrow();
            let (term, end) = member.as_ref()?.lease(subject)?;
            (now < end).then_some((index, term))
        };
        self.places
            .iter()
            .enumerate()
            .filter_map(believes)
            .collect()
    }

    /// Judges that no two nodes lead one group at a time, and that no reader has a lease of one term while another term
    /// leads.
    fn judge(&self, subjects: &[Subject]) {
        for subject in subjects {
            let leaders = self.leaders(subject);
            let at = self.world.now();
            assert!(leaders.len() <= 1, "at {at} {leaders:?} all lead {subject}");
            if let [(_, term)] = leaders[..] {
                self.led.borrow_mut().insert(subject.clone(), term);
            }
            for reader in &*self.readers.borrow() {
                let Some((node, term)) = reader.trusts(subject) else {
                    continue;
                };
                assert!(
                    leaders.iter().all(|(_, leads)| *leads == term),
                    "at {at} a reader trusts {node} in term {term} of {subject}, and {leaders:?} leads"
                );
            }
        }
    }

    /// Returns whether each group has a leader.
    pub fn all_led(&self) -> bool {
        let subjects = self.subjects();
        subjects
            .iter()
            .all(|subject| self.leaders(subject).len() == 1)
    }

    /// The events of a node since `since`, as sentences.
    pub fn told(&self, index: usize, since: Nanoseconds) -> Vec<String> {
        let diary = self.places[index].diary.borrow();
        let later = diary.iter().filter(|(at, _)| *at >= since);
        later
            .map(|(at, event)| format!("{at}: {event:?}"))
            .collect()
    }
}

fn address(index: usize) -> String {
    format!("sim:node-{}", name(index))
}
