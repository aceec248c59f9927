//! The server's machine: starts servers on the same module, one after the other.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use stonecast_fabric_sim::{
    Faults, LocalClock, Machine, Module, Process, SimBacking, Survivor, World,
};
use stonecast_kv::{Cleaning, Server, ServerOptions, StoreError};
use stonecast_media::{OpenMode, Pool};

use crate::direct::client::ADDRESS;
use crate::direct::damage::Damage;
use crate::direct::setup::Setup;
use crate::history::NodeId;
use crate::violation::Violation;

/// The only node.
pub(crate) const SERVER: NodeId = 0;

/// The server's machine.
pub(crate) struct Host {
    pub machine: Machine,
    pub module: Rc<Module>,
    options: ServerOptions,
    running: Option<Running>,
    clock: LocalClock,
    /// Upkeep of all servers so far, including those that ended.
    upkeep: Rc<Cell<Upkeep>>,
}

/// Work of servers beside requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Upkeep {
    /// Counts of the cleaning.
    pub cleaned: Cleaning,
    /// Number of growths of the index.
    pub growths: u64,
}

struct Running {
    process: Process,
    stop: Rc<Cell<bool>>,
    ended: Rc<RefCell<Option<Result<(), StoreError>>>>,
}

impl Host {
    /// A machine with a fresh pool.
    pub fn new(world: &World, setup: &Setup) -> Self {
        let machine = world.machine(setup.machine);
        let module = world.module(machine, Survivor::default());
        if Damage::remembers(&setup.faults) {
            module.remember();
        }
        let backing = Rc::new(SimBacking::new(&module));
        let pool =
            Pool::create(backing, setup.pool.clone()).expect("the declaration fits the machine");
        drop(pool);
        let options = ServerOptions {
            clients: setup.policy,
            ..ServerOptions::default()
        };
        Self {
            machine,
            module,
            options,
            running: None,
            clock: LocalClock::default(),
            upkeep: Rc::default(),
        }
    }

    /// Starts a server.
    pub fn start(&mut self, world: &World) {
        assert!(self.running.is_none(), "one server at a time");
        let process = world.process(self.machine);
        process.set_clock(self.clock);
        let running = Running {
            process: process.clone(),
            stop: Rc::new(Cell::new(false)),
            ended: Rc::new(RefCell::new(None)),
        };
        let (stop, ended) = (running.stop.clone(), running.ended.clone());
        let (module, options, upkeep) = (self.module.clone(), self.options, self.upkeep.clone());
        process.runtime().spawn(Box::pin(async move {
            let result = serve(&process, &module, options, &stop, &upkeep).await;
            *ended.borrow_mut() = Some(result);
        }));
        self.running = Some(running);
    }

    /// The process that serves.
    pub fn process(&self) -> Option<&Process> {
        self.running.as_ref().map(|running| &running.process)
    }

    /// Replaces the clock of this server and of later ones.
    pub fn set_clock(&mut self, clock: LocalClock) {
        self.clock = clock;
        if let Some(process) = self.process() {
            process.set_clock(clock);
        }
    }

    /// Whether a server was started and has not ended.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Upkeep of the servers so far.
    pub fn upkeep(&self) -> Upkeep {
        self.upkeep.get()
    }

    /// Asks the server to end in good order.
    pub fn stop(&self) {
        if let Some(running) = &self.running {
            running.stop.set(true);
        }
    }

    /// The result of the server, if it ended on its own.
    pub fn ended(&mut self) -> Option<Result<(), StoreError>> {
        let ended = self.running.as_ref()?.ended.borrow_mut().take()?;
        // The rest of its process ends, too: its device listens.
        let running = self.running.take().expect("just looked");
        running.process.kill();
        Some(ended)
    }

    /// Kills the server.
    pub fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.process.kill();
        }
    }

    /// Cuts the power of the machine; the module keeps the content of `survivor`.
    pub fn cut_power(&mut self, world: &World, survivor: Survivor) {
        self.running = None;
        world.cut_power(self.machine);
        self.module.restart(survivor);
    }
}

async fn serve(
    process: &Process,
    module: &Rc<Module>,
    options: ServerOptions,
    stop: &Cell<bool>,
    upkeep: &Cell<Upkeep>,
) -> Result<(), StoreError> {
    let (pool, _) = Pool::open(Rc::new(SimBacking::new(module)), OpenMode::Serve)?;
    let port = process.port(65_536)?;
    let device = port.device().clone();
    let (server, _) = Server::open(pool, port, process.runtime(), options).await?;
    device.listen(ADDRESS)?;
    let before = upkeep.get();
    let look = || {
        let (earlier, now) = (before.cleaned, server.cleaning());
        let cleaned = Cleaning {
            segments: earlier.segments + now.segments,
            moved_records: earlier.moved_records + now.moved_records,
            dropped_tombstones: earlier.dropped_tombstones + now.dropped_tombstones,
            abandoned: earlier.abandoned + now.abandoned,
            reclaimed_leases: earlier.reclaimed_leases + now.reclaimed_leases,
            ..now
        };
        upkeep.set(Upkeep {
            cleaned,
            growths: before.growths + server.stat().index_growths,
        });
        stop.get()
    };
    server.run(&look).await?;
    server.close().await.map(drop)
}

/// Judges an unrequested end of a server. A server whose memory cannot be registered, or whose
/// medium reports an error, ends and says why.
pub(crate) fn judge_end(ended: &Result<(), StoreError>, faults: &Faults) -> Option<Violation> {
    let error = ended.as_ref().err()?;
    let excused = match error {
        StoreError::Device(_) => faults.allocation_failures_per_thousand > 0,
        StoreError::Media(_) => faults.lost_writes > 0,
        _ => false,
    };
    if excused {
        return None;
    }
    Some(Violation::new(
        "a server goes on while its surroundings are sound",
        error.to_string(),
    ))
}
