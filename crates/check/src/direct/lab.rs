//! Recovery of a wreck, in a separate world for each try, so that the world under test goes on
//! undisturbed.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_fabric_sim::{
    Fate, Machine, MachineOptions, Module, Process, SimBacking, Survivor, World, Wreck,
};
use stonecast_kv::{Server, ServerOptions, StoreError};
use stonecast_media::{OpenMode, Pool};

use crate::direct::keys;
use crate::oracles::space::{self, Space};
use crate::oracles::values;
use crate::values::ValueId;
use crate::violation::Violation;

/// Recovers wrecks.
pub(crate) struct Lab {
    pub options: MachineOptions,
    pub keys: Vec<Vec<u8>>,
    pub segment_size: u64,
}

/// The promise that is broken when a store refuses the state after a crash.
pub(crate) const REFUSED: &str = "every crash can be recovered";

/// The content that a recovery found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// For each key, its value and version.
    pub keys: Vec<Option<(ValueId, u64)>>,
    pub torn_tails: u64,
}

/// A recovery under way.
pub(crate) struct Bench {
    pub world: World,
    pub machine: Machine,
    pub module: Rc<Module>,
    pub backing: Rc<SimBacking>,
    outcome: Rc<RefCell<Option<Result<Contents, Violation>>>>,
}

impl Lab {
    /// A lab for wrecks of machines with `options`, and of stores with `keys` keys.
    pub fn new(options: MachineOptions, keys: u32, segment_size: u64) -> Self {
        let keys = (0..keys).map(keys::name).collect();
        Self {
            options: MachineOptions {
                cores: 1,
                ..options
            },
            keys,
            segment_size,
        }
    }

    /// Recovers `survivor` and reads every key.
    pub fn recover(self: &Rc<Self>, survivor: Survivor) -> Result<Contents, Violation> {
        self.begin(survivor).end()
    }

    /// Recovers the state that `fates` leave of `wreck`. Also returns the undecided units that the
    /// recovery read, in the order of their first reads.
    pub fn recover_watched(
        self: &Rc<Self>,
        wreck: &Wreck,
        fates: &[Fate],
    ) -> (Result<Contents, Violation>, Vec<u32>) {
        let bench = self.begin(wreck.survivor(fates));
        bench.module.watch(wreck);
        let outcome = bench.end();
        (outcome, bench.module.take_units_read())
    }

    /// Begins to recover `survivor`, step by step.
    pub fn begin(self: &Rc<Self>, survivor: Survivor) -> Bench {
        let world = World::new(1);
        let machine = world.machine(self.options);
        let module = world.module(machine, survivor);
        let process = world.observing_process(machine);
        let backing = Rc::new(SimBacking::new(&module));
        let outcome = Rc::new(RefCell::new(None));
        let (lab, told, place) = (self.clone(), outcome.clone(), backing.clone());
        process.clone().runtime().spawn(Box::pin(async move {
            let result = lab.open(&process, place).await;
            *told.borrow_mut() = Some(result);
        }));
        Bench {
            world,
            machine,
            module,
            backing,
            outcome,
        }
    }

    async fn open(
        &self,
        process: &Process,
        backing: Rc<SimBacking>,
    ) -> Result<Contents, Violation> {
        let refused = |error: StoreError| Violation::new(REFUSED, error.to_string());
        let (pool, _) =
            Pool::open(backing, OpenMode::Serve).map_err(|error| refused(error.into()))?;
        let segments = u64::from(pool.segment_count());
        let port = process.port(65_536).expect("completion queues");
        let opened = Server::open(pool, port, process.runtime(), ServerOptions::default()).await;
        let (server, report) = opened.map_err(refused)?;
        let mut contents = Contents {
            keys: Vec::with_capacity(self.keys.len()),
            torn_tails: report.torn_tails,
        };
        let (mut bytes, mut live_bytes) = (Vec::new(), 0);
        for (number, key) in (0..).zip(&self.keys) {
            let version = server.peek(key, &mut bytes).map_err(refused)?;
            contents.keys.push(match version {
                Some(version) => {
                    live_bytes += keys::record_size(number, bytes.len());
                    Some((values::identify(number, &bytes)?, version))
                }
                None => None,
            });
        }
        let stat = server.stat();
        let space = Space {
            segments,
            counts: [
                stat.segments_free,
                stat.segments_partial,
                stat.segments_taken,
                stat.segments_full,
            ],
            keys: stat.keys,
            live_bytes: stat.live_bytes,
            used_bytes: stat.used_bytes,
            capacity: stat.capacity_bytes,
        };
        match space::judge(&space, contents.present(), live_bytes) {
            Some(violation) => Err(violation),
            None => Ok(contents),
        }
    }
}

impl Bench {
    /// Executes the next event. The system ends a process that reads unreadable memory.
    pub fn step(&self) -> bool {
        let more = self.world.step();
        if self.world.machine_checks() > 0 && self.outcome.borrow().is_none() {
            let text = "its process ended because it read unreadable memory".to_owned();
            *self.outcome.borrow_mut() = Some(Err(Violation::new(REFUSED, text)));
        }
        more
    }

    /// Runs the recovery to its end, and returns its result.
    pub fn end(&self) -> Result<Contents, Violation> {
        loop {
            if let Some(outcome) = self.outcome() {
                return outcome;
            }
            assert!(self.step(), "a recovery ends or waits for something");
        }
    }

    /// The result of the recovery, if it has ended.
    pub fn outcome(&self) -> Option<Result<Contents, Violation>> {
        self.outcome.borrow().clone()
    }
}

impl Contents {
    /// Number of keys present.
    pub fn present(&self) -> u64 {
        self.keys.iter().flatten().count() as u64
    }

    /// Each key with its value.
    pub fn values(&self) -> impl Iterator<Item = (u32, ValueId)> {
        (0..)
            .zip(&self.keys)
            .map(|(key, found)| (key, found.map_or(ValueId::ABSENT, |(value, _)| value)))
    }
}
