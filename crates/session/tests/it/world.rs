//! Nodes that reach each other: machines of a simulated world, and devices of one thread over shared memory.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use stonecast_fabric::{
    BusyPoll, ConnectionEvent, ConnectionRequest, DeviceError, Park, Port, Runtime,
};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_fabric_sim::{MachineOptions, MachineProfile, Process, World};
use stonecast_session::Queues;

/// Room for a few messages.
pub const QUEUES: Queues = Queues {
    send_capacity: 8,
    receive_capacity: 8,
    shared_receive_queue: None,
    windows: true,
    rnr_retry_count: 100,
    rnr_retry_delay_ns: 100_000,
};

/// One program: its port, and its clock and tasks.
#[derive(Clone)]
pub struct Node {
    pub port: Rc<Port>,
    pub runtime: Rc<dyn Runtime>,
    /// The address at which it listens as a server.
    pub address: String,
}

pub trait Provider {
    fn node(&self) -> Node;
    fn run(&self, story: Pin<Box<dyn Future<Output = ()>>>);
}

/// Tells `story` on each provider, with a server and two clients.
pub fn on_every_provider<F: Future<Output = ()> + 'static>(story: impl Fn([Node; 3]) -> F) {
    for (name, provider) in [
        (
            "simulated world",
            Box::new(Simulated::new()) as Box<dyn Provider>,
        ),
        ("shared memory", Box::new(SharedMemory::new())),
    ] {
        println!("on {name}");
        let nodes = [provider.node(), provider.node(), provider.node()];
        provider.run(Box::pin(story(nodes)));
    }
}

impl Node {
    pub fn listen(&self) {
        self.port.device().listen(&self.address).expect("free");
    }

    /// The next connection request, and the data of its client.
    pub async fn request(&self) -> (ConnectionRequest, Vec<u8>) {
        loop {
            match self.port.take_event() {
                Some(ConnectionEvent::Request {
                    request,
                    private_data,
                    ..
                }) => return (request, private_data),
                Some(_) => {}
                None => self.port.activity().await,
            }
        }
    }

    /// Runs `task` beside the story; an error there fails the story.
    pub fn spawn(&self, task: impl Future<Output = Result<(), DeviceError>> + 'static) {
        self.runtime.spawn(Box::pin(async move {
            task.await.expect("the server continues");
        }));
    }
}

struct Simulated {
    world: World,
    processes: std::cell::RefCell<Vec<Process>>,
}

impl Simulated {
    fn new() -> Self {
        Self {
            world: World::new(11),
            processes: std::cell::RefCell::default(),
        }
    }
}

impl Provider for Simulated {
    fn node(&self) -> Node {
        let profile = MachineProfile::by_name("connectx3-erda").expect("a profile");
        let machine = self.world.machine(MachineOptions::new(profile));
        let process = self.world.process(machine);
        let node = Node {
            port: process.port(256).expect("a port"),
            runtime: process.runtime(),
            address: format!("sim:node{}", self.processes.borrow().len()),
        };
        self.processes.borrow_mut().push(process);
        node
    }

    fn run(&self, story: Pin<Box<dyn Future<Output = ()>>>) {
        self.world.block_on(story);
    }
}

struct SharedMemory {
    folder: tempfile::TempDir,
    executor: BusyPoll,
    nodes: std::cell::Cell<u32>,
}

/// All devices share one thread, so none may put it to sleep for long.
struct Pause(Instant);

impl Park for Pause {
    fn now(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn park(&self, timeout: u64) {
        std::thread::sleep(Duration::from_nanos(timeout.min(50_000)));
    }
}

impl SharedMemory {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder for sockets"),
            executor: BusyPoll::new(Rc::new(Pause(Instant::now())), 20_000),
            nodes: std::cell::Cell::new(0),
        }
    }
}

impl Provider for SharedMemory {
    fn node(&self) -> Node {
        let device = ShmDevice::new(ShmOptions::default()).expect("a device");
        let port = Rc::new(Port::new(device, 256).expect("a port"));
        self.executor.add_port(&port);
        let number = self.nodes.replace(self.nodes.get() + 1);
        let socket = self.folder.path().join(format!("node{number}"));
        Node {
            port,
            runtime: self.executor.runtime(),
            address: format!("shm:{}", socket.display()),
        }
    }

    fn run(&self, story: Pin<Box<dyn Future<Output = ()>>>) {
        self.executor.block_on(story);
    }
}
