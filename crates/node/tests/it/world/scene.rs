//! A cluster in its world.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random, random_from_seed};
use stonecast_cluster::{
    Attempt, ConfigStore as _, Configuration, Known, NodeName, Policy, Refusal, Start, Timing,
};
use stonecast_config_sim::{ConfigService, ServiceOptions};
use stonecast_fabric_sim::{Machine, MachineOptions, MachineProfile, World};
use uuid::Uuid;

use super::node::{NONCE, Place, Plan, described, name};
use super::oracle::Oracle;
use super::pages::Ballast;
use super::store::{Call, Map, differences};

pub const MS: Nanoseconds = 1_000_000;

/// The options of a cluster.
#[derive(Clone, Copy)]
pub struct Shape {
    pub shards: u32,
    /// Copies of each shard, on three nodes.
    pub replicas: u8,
    /// Whether writes need all copies: no dead node can then be spared, so none is removed.
    pub spares_none: bool,
    pub plan: Plan,
    /// Units of memory that an intake looks at in one turn.
    pub look_units: u32,
    /// Bytes of a segment of a node's log.
    pub segment_size: u64,
    /// Whether the devices pack messages, and report no arrivals.
    pub packs: bool,
    pub remove_after_ns: Nanoseconds,
    /// Time for which a peer may have no buffer for a message, beyond the least one.
    pub unready_ns: Nanoseconds,
    /// Whether the first configuration has no node and no shard.
    pub is_new: bool,
    /// The part of each shard that no key has.
    pub ballast: Ballast,
}

impl Shape {
    /// Three nodes with a lease of 10 ms. Each node leads one of three shards, and READs make entries durable.
    pub const THREE: Self = Self {
        shards: 3,
        replicas: 3,
        spares_none: false,
        plan: Plan::OneSided,
        look_units: 64,
        segment_size: 16 * 1024,
        packs: false,
        remove_after_ns: 60 * MS,
        unready_ns: 0,
        is_new: false,
        ballast: Ballast::of(0),
    };

    /// Three nodes, with a plan in which backups answer.
    pub const ANSWERED: Self = Self {
        plan: Plan::Answered,
        ..Self::THREE
    };

    /// This shape, where no node is removed, whether it is silent or dead.
    pub fn patient(self) -> Self {
        Self {
            spares_none: true,
            remove_after_ns: 2_000 * MS,
            ..self
        }
    }
}

/// A cluster in its world.
pub struct Scene {
    pub places: Vec<Place>,
    pub oracle: Rc<RefCell<Oracle>>,
    pub random: RefCell<Random>,
    service: Rc<ConfigService>,
    seats: Vec<Machine>,
    shape: Shape,
    numbers: Cell<u64>,
    /// The last field, so that everything that runs in the world is dropped first.
    pub world: World,
}

impl Scene {
    /// A cluster whose nodes have started, and whose shards are all served.
    pub fn settled(shape: Shape, seed: u64) -> Self {
        let scene = Self::new(shape, seed);
        (0..scene.places.len()).for_each(|index| scene.start(index));
        assert!(
            scene.run_until(400 * MS, || scene.all_served()),
            "all shards are served"
        );
        scene
    }

    fn new(shape: Shape, seed: u64) -> Self {
        let world = World::new(seed);
        let mut random = random_from_seed(seed ^ 0x6e6f_6465);
        let machine = || world.machine(MachineOptions::new(MachineProfile::MODERN));
        let seats: Vec<Machine> = (0..3).map(|_| machine()).collect();
        let options = ServiceOptions::default();
        let service = ConfigService::start(&world, "config", &seats, random.random(), options);
        let service = service.unwrap();
        let first = first_configuration(shape);
        let places: Vec<_> = (0..3)
            .map(|index| Place::new(&world, index, shape))
            .collect();
        for place in places.iter().filter(|_| !shape.is_new) {
            place.disk.enter(Known::of(&first));
        }
        let founder = world.process(seats[0]);
        let port = founder.port(64).unwrap();
        let store = service.store(&port, &founder.runtime());
        let stored = store.compare_and_set(None, &first.encode());
        world.block_on(stored).unwrap();
        Self {
            places,
            oracle: Rc::default(),
            random: RefCell::new(random),
            service,
            seats,
            shape,
            numbers: Cell::default(),
            world,
        }
    }

    pub fn start(&self, index: usize) {
        let random = random_from_seed(self.random.borrow_mut().random());
        self.show(&format!("{} starts", self.places[index].name));
        let settings = (self.shape.shards, self.shape.ballast, random);
        self.places[index].start(&self.world, &self.service, &self.oracle, settings);
    }

    /// Prints a line with the time, if `NODE_TRACE` is set.
    pub fn show(&self, line: &str) {
        if std::env::var_os("NODE_TRACE").is_some() {
            println!("{:>12} {line}", self.world.now());
        }
    }

    /// The configuration in the service.
    pub fn stored(&self) -> Configuration {
        Configuration::decode(&self.service.value().unwrap().bytes).unwrap()
    }

    /// The place of a node.
    pub fn place(&self, node: &NodeName) -> &Place {
        let mut places = self.places.iter();
        places.find(|place| place.name == *node).unwrap()
    }

    /// The node that serves a shard.
    pub fn serving(&self, shard: u32) -> Option<&Place> {
        let stored = self.stored();
        let primary = stored.groups.get(shard as usize)?.primary.clone();
        let place = self.place(&primary);
        let serves = place.node().and_then(|node| node.serves(shard));
        serves.map(|_| place)
    }

    /// Whether all shards have all their copies, and no copy comes or goes.
    pub fn is_whole(&self) -> bool {
        let groups = self.stored().groups;
        groups.iter().all(|group| {
            let is_calm = group.joining.is_empty() && group.leaving.is_empty();
            is_calm && group.in_sync.len() == usize::from(self.shape.replicas)
        })
    }

    /// Whether there are nodes without a copy of a shard.
    pub fn has_spare_nodes(&self) -> bool {
        usize::from(self.shape.replicas) < self.places.len()
    }

    pub fn all_served(&self) -> bool {
        (0..self.shape.shards).all(|shard| self.serving(shard).is_some())
    }

    /// The reasons why nodes have ended by themselves.
    pub fn ends(&self) -> [Option<String>; 3] {
        [0, 1, 2].map(|index| self.places[index].end())
    }

    /// Lets time pass.
    pub fn run_for(&self, duration: Nanoseconds) {
        self.run_until(duration, || false);
    }

    /// Lets time pass until `done`, or `duration` at most. Returns whether it was done.
    pub fn run_until(&self, duration: Nanoseconds, done: impl FnMut() -> bool) -> bool {
        self.world.step_until(duration, 50_000, done)
    }

    /// A write of a new number.
    pub fn new_write(&self, shard: u32, key: u8) -> Call {
        self.numbers.set(self.numbers.get() + 1);
        Call {
            shard,
            key,
            deletes: false,
            number: Some(self.numbers.get()),
            attempt: 0,
        }
    }

    /// Calls the node at `index`, in a new attempt.
    pub fn call(&self, index: usize, call: Call) {
        self.numbers.set(self.numbers.get() + 1);
        let attempt = self.numbers.get();
        let call = Call { attempt, ..call };
        if let Some(store) = self.places[index].store() {
            self.oracle.borrow_mut().calls(call);
            store.call(call);
        }
    }

    /// Writes, and repeats the write until it is done.
    pub fn write(&self, shard: u32, key: u8) {
        let call = self.new_write(shard, key);
        self.finish(call);
    }

    /// Repeats a write until it is done.
    pub fn finish(&self, call: Call) {
        let number = call.number.unwrap();
        let is_done = || self.oracle.borrow().is_done(number);
        for _ in 0..200 {
            if let Some(place) = self.serving(call.shard) {
                self.call(place.index, call);
            }
            if self.run_until(3 * MS, is_done) {
                return;
            }
        }
        panic!("write {number} of shard {} is done in the end", call.shard);
    }

    /// Checks that the copies that the configuration names have every write that was answered, and
    /// agree.
    pub fn assert_agreement(&self) {
        let nodes = self.places.iter().filter_map(Place::node);
        let found: u64 = nodes.map(|node| node.counts().lost).sum();
        let has_lost = self.places.iter().any(|place| place.has_lost.get());
        assert_eq!(found > 0, has_lost, "copies that have lost entries");
        self.run_for(5 * MS);
        let agree = || (0..self.shape.shards).all(|shard| self.disagreement(shard).is_none());
        let agreed = self.run_until(100 * MS, agree);
        for shard in 0..self.shape.shards {
            assert!(agreed, "shard {shard}: {:?}", self.disagreement(shard));
            for (copy, map) in self.maps(shard) {
                self.oracle.borrow().judge(shard, &map, copy.as_str());
            }
        }
    }

    fn maps(&self, shard: u32) -> Vec<(NodeName, Map)> {
        let stored = self.stored();
        let copies = stored.groups[shard as usize].in_sync.iter();
        let map = |copy: &NodeName| Some((copy.clone(), self.place(copy).store()?.map(shard)));
        copies.filter_map(map).collect()
    }

    /// Two copies of a shard that differ, and the writes in which they differ.
    fn disagreement(&self, shard: u32) -> Option<String> {
        let maps = self.maps(shard);
        let [(first, one), rest @ ..] = &maps[..] else {
            return None;
        };
        let other = rest.iter().find(|(_, map)| map != one);
        other.map(|(copy, map)| format!("{first} and {copy}: {:?}", differences(one, map)))
    }

    /// Cuts a node off from the configuration alone.
    pub fn cut_off_from_store(&self, index: usize, duration: Nanoseconds) {
        let own = Some(self.places[index].machine);
        for seat in self.seats.iter().copied().map(Some) {
            self.world.block(own, seat, 0, duration);
            self.world.block(seat, own, 0, duration);
        }
    }

    /// Has another node dismiss the node at `index`.
    pub fn dismiss(&self, index: usize) {
        let name = self.places[index].name.clone();
        let by = (index + 1) % self.places.len();
        self.request(by, move |present| present.dismiss(&name));
    }

    /// Has the node at `by` bring the request of an operator.
    pub fn request(
        &self,
        by: usize,
        request: impl Fn(&Configuration) -> Result<Configuration, Refusal> + 'static,
    ) {
        let by = &self.places[by];
        let node = by.node().expect("it runs");
        let runtime = by.runtime().expect("it runs");
        runtime.spawn(Box::pin(async move {
            let decide = |present: &Configuration| request(present).map(Some);
            // The configuration refuses what it does not allow.
            let _ = node.member().change(decide).await;
        }));
    }

    /// Cuts a node off from the other nodes, and from the configuration if `from_store`.
    pub fn cut_off(&self, index: usize, duration: Nanoseconds, from_store: bool) {
        let own = Some(self.places[index].machine);
        let others = self.places.iter().filter(|place| place.index != index);
        let others = others.map(|place| place.machine);
        let seats = self.seats.iter().copied().filter(|_| from_store);
        for other in others.chain(seats).map(Some) {
            self.world.block(own, other, 0, duration);
            self.world.block(other, own, 0, duration);
        }
    }
}

/// The first configuration of a cluster: nodes are registered and shards are placed.
fn first_configuration(shape: Shape) -> Configuration {
    let usual = Policy::new(shape.replicas, shape.shards);
    let policy = Policy {
        lease: Timing::DEDICATED_CORES,
        remove_after_ns: shape.remove_after_ns,
        min_copies: match shape.spares_none {
            true => shape.replicas,
            false => usual.min_copies,
        },
        ..usual
    };
    let attempt = Attempt {
        writer: "test".to_owned(),
        number: Uuid::from_u128(1),
    };
    let mut configuration = Configuration::create(NONCE, policy, attempt);
    if shape.is_new {
        return configuration;
    }
    for index in 0..3 {
        let start = Start::first(described(index, shape.plan));
        configuration = configuration.register(&name(index), &start).unwrap();
    }
    configuration.place_shards().unwrap()
}
