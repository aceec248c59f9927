//! A client and a server on two machines, connected, with a log in the server's persistent memory.

use std::rc::Rc;

use stonecast_fabric::{
    Access, ConnectionEvent, LocalSpan, MemoryRegion, Operation, Port, QueuePair, QueuePairOptions,
    RemoteAddress, Status,
};
use stonecast_fabric_sim::{
    Fate, Features, Machine, MachineOptions, MachineProfile, Module, Process, RootPort, SimBacking,
    Survivor, World,
};
use stonecast_media::{
    Backing as _, Ddio, DeclaredPlatform, Durability, LogOptions, PersistenceDomain,
    PersistentRegion, ReceiveBuffers,
};

/// Bytes of the log.
pub const LOG_SIZE: u64 = 1 << 20;

pub struct Stage {
    pub world: World,
    pub machine: Machine,
    pub server: Process,
    pub module: Rc<Module>,
    pub log: Rc<dyn PersistentRegion>,
    pub remote: MemoryRegion,
    pub port: Rc<Port>,
    pub qp: QueuePair,
    pub buffer: MemoryRegion,
    _server_port: Rc<Port>,
}

pub fn platform(persistence_domain: PersistenceDomain, ddio: Ddio) -> DeclaredPlatform {
    DeclaredPlatform {
        persistence_domain,
        ddio,
        receive_buffers: ReceiveBuffers::Dram,
    }
}

impl Stage {
    pub fn new(profile: MachineProfile, platform: DeclaredPlatform) -> Self {
        Self::of(
            3,
            MachineOptions {
                platform,
                features: Features::ALL,
                ..MachineOptions::new(profile)
            },
        )
    }

    pub fn of(seed: u64, options: MachineOptions) -> Self {
        Self::behind(RootPort::default(), seed, options)
    }

    /// A stage whose server's NIC is at `root_port`.
    pub fn behind(root_port: RootPort, seed: u64, options: MachineOptions) -> Self {
        let world = World::new(seed);
        let platform = options.platform;
        let (machine, other) = (world.machine(options), world.machine(options));
        let (server, client) = (world.process(machine), world.process(other));
        let module = world.module(machine, Survivor::default());
        let durability = match platform.persistence_domain {
            PersistenceDomain::Volatile => Durability::Process,
            _ => Durability::Power,
        };
        let log = SimBacking::new(&module)
            .open_log(LogOptions {
                capacity: LOG_SIZE,
                platform,
                durability,
            })
            .unwrap();
        let access = Access::REMOTE_READ
            .and(Access::REMOTE_WRITE)
            .and(Access::REMOTE_ATOMIC)
            .and(Access::REMOTE_FLUSH);
        let port = client.port(256).unwrap();
        let server_port = server
            .port_on(server.open_device_at(root_port), 256)
            .unwrap();
        let (client, serving) = (port.device().clone(), server_port.device().clone());
        let remote = serving.register_persistent(log.clone(), access).unwrap();
        serving.listen("sim:server").unwrap();
        let options = |port: &Port| QueuePairOptions {
            send_cq: port.send_cq(),
            receive_cq: port.receive_cq(),
            shared_receive_queue: None,
            windows: false,
            send_capacity: 64,
            receive_capacity: 64,
            rnr_retry_count: 3,
            rnr_retry_delay_ns: 10_000,
        };
        let qp = client.create_queue_pair(options(&port)).unwrap();
        let server_qp = serving.create_queue_pair(options(&server_port)).unwrap();
        client.connect(qp, "sim:server", b"").unwrap();
        world.block_on(async {
            server_port.activity().await;
            let Some(ConnectionEvent::Request { request, .. }) = server_port.take_event() else {
                panic!("a request")
            };
            serving.accept(request, server_qp, b"").unwrap();
            port.activity().await;
            assert!(matches!(
                port.take_event(),
                Some(ConnectionEvent::Established { .. })
            ));
        });
        let buffer = client.allocate(1 << 16, Access::NONE).unwrap();
        Self {
            world,
            machine,
            server,
            module,
            log,
            remote,
            port,
            qp,
            buffer,
            _server_port: server_port,
        }
    }

    pub fn on(domain: PersistenceDomain, ddio: Ddio) -> Self {
        Self::new(MachineProfile::MODERN, platform(domain, ddio))
    }

    pub fn local(&self, size: u32) -> LocalSpan {
        LocalSpan {
            region: self.buffer,
            offset: 0,
            size,
        }
    }

    pub fn at(&self, offset: u64) -> RemoteAddress {
        RemoteAddress {
            address: self.remote.address + offset,
            rkey: self.remote.rkey,
        }
    }

    /// A WRITE of `size` bytes of `value`.
    pub fn write(&self, offset: u64, size: u32, value: u8) -> Operation {
        self.port
            .device()
            .memory(self.buffer)
            .write(0, &vec![value; size as usize]);
        Operation::Write {
            local: self.local(size),
            remote: self.at(offset),
        }
    }

    pub fn read(&self, offset: u64) -> Operation {
        Operation::Read {
            local: LocalSpan {
                region: self.buffer,
                offset: 1 << 15,
                size: 8,
            },
            remote: self.at(offset),
        }
    }

    /// Posts a batch and waits for its end.
    pub fn submit(&self, operations: &[Operation]) -> Status {
        self.world
            .block_on(self.port.submit(self.qp, operations))
            .expect("the batch is accepted")
    }

    /// The possible contents of `size` bytes at `offset` after a power cut at this moment, over all fates of their
    /// lines: the least that survives, and the most.
    pub fn after_power_cut(&self, offset: u64, size: usize) -> [Vec<u8>; 2] {
        let wreck = self.world.wreck(self.machine, &self.module);
        let least = vec![Fate::default(); wreck.undecided()];
        let most: Vec<Fate> = (0..wreck.undecided())
            .map(|unit| Fate {
                stores: wreck.stores(unit),
                torn: 0,
            })
            .collect();
        [least, most].map(|fates| {
            let mut bytes = vec![0; size];
            wreck.survivor(&fates).read(offset, &mut bytes);
            bytes
        })
    }
}
