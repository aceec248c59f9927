//! The server's machine: starts servers on the same module, one after the other.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use stonecast_fabric_sim::{Machine, Module, Process, SimBacking, Survivor, World};
use stonecast_media::{OpenMode, Pool};
use stonecast_store_direct::{Server, ServerOptions, StoreError};

use crate::direct::client::ADDRESS;
use crate::direct::setup::Setup;
use crate::violation::Violation;

/// See the module documentation.
pub(crate) struct Host {
    pub machine: Machine,
    pub module: Rc<Module>,
    options: ServerOptions,
    running: Option<Running>,
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
        let backing = Rc::new(SimBacking::new(&module));
        let pool = Pool::create(backing, setup.pool.clone()).expect("what the machine has is declared");
        drop(pool);
        let options = ServerOptions { clients: setup.policy, ..ServerOptions::default() };
        Self { machine, module, options, running: None }
    }

    /// Starts a server.
    pub fn start(&mut self, world: &World) {
        assert!(self.running.is_none(), "one server at a time");
        let process = world.process(self.machine);
        let running = Running { process: process.clone(), stop: Rc::new(Cell::new(false)), ended: Rc::new(RefCell::new(None)) };
        let (stop, ended) = (running.stop.clone(), running.ended.clone());
        let (module, options) = (self.module.clone(), self.options);
        process.runtime().spawn(Box::pin(async move {
            let result = serve(&process, &module, options, &stop).await;
            *ended.borrow_mut() = Some(result);
        }));
        self.running = Some(running);
    }

    /// Whether a server was started and not ended.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Asks the server to end in good order.
    pub fn stop(&self) {
        if let Some(running) = &self.running {
            running.stop.set(true);
        }
    }

    /// How the server ended, if it did by itself.
    pub fn ended(&mut self) -> Option<Result<(), StoreError>> {
        let ended = self.running.as_ref()?.ended.borrow_mut().take()?;
        self.running = None;
        Some(ended)
    }

    /// Kills the server.
    pub fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.process.kill();
        }
    }

    /// Cuts the power of the machine; the module goes on with what survived.
    pub fn cut_power(&mut self, world: &World, survivor: Survivor) {
        self.running = None;
        world.cut_power(self.machine);
        self.module.restart(survivor);
    }
}

async fn serve(process: &Process, module: &Rc<Module>, options: ServerOptions, stop: &Cell<bool>) -> Result<(), StoreError> {
    let (pool, _) = Pool::open(Rc::new(SimBacking::new(module)), OpenMode::Serve)?;
    let port = process.port(65_536)?;
    let device = port.device().clone();
    let (server, _) = Server::open(pool, port, process.runtime(), options).await?;
    device.listen(ADDRESS)?;
    server.run(&|| stop.get()).await?;
    server.close().await
}

/// What an end of a server that nobody asked for means.
pub(crate) fn judge_end(ended: &Result<(), StoreError>) -> Option<Violation> {
    let error = ended.as_ref().err()?;
    Some(Violation::new("a server goes on while its surroundings are sound", error.to_string()))
}
