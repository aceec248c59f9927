//! The providers that the stories run on: shared memory, the reference provider of the contract suite, and with the
//! feature `verbs` the RDMA device that `STONECAST_RDMA_DEVICES` names first.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use stonecast_fabric::contract::World as _;
use stonecast_fabric::{BusyPoll, Port};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};

use crate::loopback::{Fault, Flavour, LIBERAL, LoopbackWorld, PROTECTION_DOMAINS};
use crate::pause::Pause;

/// A provider that executes a READ some time after the post, like a NIC.
const POSTING: Flavour = Flavour {
    reads_at_once: false,
    ..LIBERAL
};

/// Makes devices that reach each other.
pub trait Fabric {
    fn executor(&self) -> BusyPoll;
    fn port(&self, capacity: u32) -> Rc<Port>;
    fn address(&self) -> String;
    /// A port, and a free address at which its device can listen.
    fn listener(&self) -> (Rc<Port>, String);
    /// Number of regions that a node has registered, if the provider tells. The server is node 0.
    fn region_count(&self, _node: usize) -> Option<usize> {
        None
    }
}

/// The provider of a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    Reference,
    /// The posting provider, with a protection domain for each client.
    ProtectionDomains,
    SharedMemory,
    #[cfg(feature = "verbs")]
    Verbs,
}

impl Provider {
    /// The providers of a run: only the named RDMA device, or else the providers that every machine has.
    pub fn all() -> Vec<Self> {
        #[cfg(feature = "verbs")]
        match verbs::device_name() {
            Some(_) => return vec![Self::Verbs],
            None => println!(
                "not run: the stories on verbs (no RDMA device is named in STONECAST_RDMA_DEVICES)"
            ),
        }
        vec![Self::Reference, Self::SharedMemory]
    }

    /// Whether clients lease extents of the log and write there. Clients on other machines write into staging memory.
    pub fn leases_extents(self) -> bool {
        matches!(
            self,
            Self::Reference | Self::ProtectionDomains | Self::SharedMemory
        )
    }

    /// Whether READs are executed in the call. Such clients remember no places.
    pub fn reads_at_once(self) -> bool {
        matches!(self, Self::SharedMemory)
    }

    /// The provider of the running story; see `on_every_provider`.
    pub fn chosen() -> Self {
        CHOSEN.get()
    }

    pub fn start(self, directory: &Path) -> Box<dyn Fabric> {
        match self {
            Self::SharedMemory => Box::new(SharedMemory::new(directory)),
            #[cfg(feature = "verbs")]
            Self::Verbs => Box::new(verbs::Verbs::new()),
            Self::Reference => Box::new(Reference {
                world: LoopbackWorld::new(POSTING, Fault::Nothing),
                nodes: Cell::new(0),
            }),
            Self::ProtectionDomains => Box::new(Reference {
                world: LoopbackWorld::new(PROTECTION_DOMAINS, Fault::Nothing),
                nodes: Cell::new(0),
            }),
        }
    }
}

thread_local! {
    static CHOSEN: Cell<Provider> = const { Cell::new(Provider::Reference) };
}

/// Runs `story` once on each provider.
pub fn on_every_provider(story: impl Fn()) {
    for provider in Provider::all() {
        on(provider, &story);
    }
}

/// Runs `story` on one provider.
pub fn on(provider: Provider, story: impl Fn()) {
    println!("on {provider:?}");
    CHOSEN.set(provider);
    story();
    CHOSEN.set(Provider::Reference);
}

struct Reference {
    world: Rc<LoopbackWorld>,
    nodes: Cell<usize>,
}

impl Fabric for Reference {
    fn executor(&self) -> BusyPoll {
        self.world.executor().clone()
    }

    fn port(&self, _capacity: u32) -> Rc<Port> {
        self.nodes.set(self.nodes.get() + 1);
        self.world.node(self.nodes.get() - 1)
    }

    fn address(&self) -> String {
        self.world.address(0)
    }

    fn listener(&self) -> (Rc<Port>, String) {
        let port = self.port(0);
        (port, self.world.address(self.nodes.get() - 1))
    }

    fn region_count(&self, node: usize) -> Option<usize> {
        Some(self.world.region_count(node))
    }
}

struct SharedMemory {
    executor: BusyPoll,
    socket: PathBuf,
    listeners: Cell<u32>,
}

impl SharedMemory {
    fn new(directory: &Path) -> Self {
        Self {
            executor: BusyPoll::new(Pause::new(), 1_000_000),
            socket: directory.join("socket"),
            listeners: Cell::new(0),
        }
    }
}

fn device() -> Rc<ShmDevice> {
    ShmDevice::new(ShmOptions::default()).expect("a device")
}

impl Fabric for SharedMemory {
    fn executor(&self) -> BusyPoll {
        self.executor.clone()
    }

    fn port(&self, capacity: u32) -> Rc<Port> {
        let port = Rc::new(Port::new(device(), capacity).expect("a port"));
        self.executor.add_port(&port);
        port
    }

    fn address(&self) -> String {
        format!("shm:{}", self.socket.display())
    }

    fn listener(&self) -> (Rc<Port>, String) {
        self.listeners.set(self.listeners.get() + 1);
        (
            self.port(65_536),
            format!("shm:{}-{}", self.socket.display(), self.listeners.get()),
        )
    }
}

#[cfg(feature = "verbs")]
mod verbs {
    use std::rc::Rc;

    use stonecast_fabric::{BusyPoll, Port};
    use stonecast_fabric_verbs::control::{Key, KeyRing};
    use stonecast_fabric_verbs::{VerbsDevice, VerbsOptions};

    use super::{Fabric, Pause};

    /// The RDMA device that the stories run on.
    pub fn device_name() -> Option<String> {
        let named = std::env::var("STONECAST_RDMA_DEVICES").ok()?;
        named
            .split(',')
            .map(str::trim)
            .find(|name| !name.is_empty())
            .map(str::to_owned)
    }

    /// Whether the device is used as one without memory windows.
    fn without_windows() -> bool {
        std::env::var_os("STONECAST_RDMA_WITHOUT_WINDOWS").is_some()
    }

    /// An address of this machine at which no program listens.
    fn free_address() -> String {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        format!("verbs:{}", free.local_addr().expect("it is bound"))
    }

    pub struct Verbs {
        executor: BusyPoll,
        address: String,
    }

    impl Verbs {
        pub fn new() -> Self {
            Self {
                executor: BusyPoll::new(Pause::new(), 1_000_000),
                address: free_address(),
            }
        }
    }

    impl Fabric for Verbs {
        fn executor(&self) -> BusyPoll {
            self.executor.clone()
        }

        fn port(&self, capacity: u32) -> Rc<Port> {
            let options = VerbsOptions {
                device: device_name(),
                without_windows: without_windows(),
                keys: KeyRing::single("stories", Key::new([7; 32])),
                log: std::sync::Arc::new(|line| println!("{line}")),
                ..VerbsOptions::default()
            };
            let device =
                VerbsDevice::open(options).expect("the device that is named can be opened");
            let port = Rc::new(Port::new(device, capacity).expect("a port"));
            self.executor.add_port(&port);
            port
        }

        fn address(&self) -> String {
            self.address.clone()
        }

        fn listener(&self) -> (Rc<Port>, String) {
            (self.port(65_536), free_address())
        }
    }
}
