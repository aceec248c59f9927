//! Several devices in one thread, for the contract.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use stonecast_base::Span;
use stonecast_fabric::contract::{Story, World};
use stonecast_fabric::{BusyPoll, Device, Port, Runtime};
use stonecast_fabric_verbs::control::{BackOff, Key, KeyRing};
use stonecast_fabric_verbs::{VerbsDevice, VerbsOptions};
use stonecast_media::{
    MappedPlace, MappedRegion, Means, PersistCounts, PersistError, PersistState, PersistentRegion,
    Region, Writable,
};

use crate::pause::Pause;

/// Names the devices to test on.
const DEVICES_VARIABLE: &str = "STONECAST_RDMA_DEVICES";
/// Names a devdax character device.
const DAX_VARIABLE: &str = "STONECAST_DAX";

/// The devices to test on, or the reason why there are none.
pub fn devices() -> Result<Vec<String>, String> {
    let named = std::env::var(DEVICES_VARIABLE).unwrap_or_default();
    let named: Vec<String> = named
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    if named.is_empty() {
        Err(format!("no RDMA device is named in {DEVICES_VARIABLE}"))
    } else {
        Ok(named)
    }
}

/// The devdax device, or the reason why there is none.
pub fn dax() -> Result<String, String> {
    std::env::var(DAX_VARIABLE)
        .map_err(|_| format!("no persistent memory is named in {DAX_VARIABLE}"))
}

/// The options of the devices of tests.
pub fn options(device: &str) -> VerbsOptions {
    VerbsOptions {
        device: Some(device.into()),
        keys: KeyRing::single("tests", Key::new([7; 32])),
        back_off: BackOff {
            patience: Duration::from_millis(300),
            ..BackOff::default()
        },
        log: std::sync::Arc::new(|line| eprintln!("{line}")),
        ..VerbsOptions::default()
    }
}

/// An address of this machine without a listener.
pub fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    format!("verbs:{}", listener.local_addr().expect("it is bound"))
}

/// The nodes are contexts on the named devices, in turn.
pub struct VerbsWorld {
    devices: Vec<String>,
    /// Whether they are treated as devices without memory windows.
    without_windows: bool,
    executor: BusyPoll,
    opened: RefCell<Vec<(usize, Rc<VerbsDevice>)>>,
}

impl VerbsWorld {
    /// A world for the promise `name`, or the reason why no world exists.
    pub fn available(name: &str) -> Result<Rc<dyn World>, String> {
        Self::on_devices(name, false)
    }

    /// A world whose devices count as devices without memory windows.
    pub fn without_windows(name: &str) -> Result<Rc<dyn World>, String> {
        Self::on_devices(name, true)
    }

    fn on_devices(name: &str, without_windows: bool) -> Result<Rc<dyn World>, String> {
        let devices = devices()?;
        if name == "a_persistent_flush_of_persistent_memory_succeeds" {
            dax()?;
        }
        let executor = BusyPoll::new(Pause::new(), 20_000);
        Ok(Rc::new(Self {
            devices,
            without_windows,
            executor,
            opened: RefCell::default(),
        }))
    }
}

impl World for VerbsWorld {
    fn node(&self, index: usize) -> Rc<Port> {
        let name = &self.devices[index % self.devices.len()];
        let device = VerbsDevice::open(VerbsOptions {
            without_windows: self.without_windows,
            ..options(name)
        })
        .expect("the device that is named can be opened");
        self.opened.borrow_mut().push((index, device.clone()));
        let device: Rc<dyn Device> = device;
        Rc::new(Port::new(device, 1024).expect("a port"))
    }

    fn address(&self, _index: usize) -> String {
        free_address()
    }

    fn runtime(&self) -> Rc<dyn Runtime> {
        self.executor.runtime()
    }

    fn run(&self, story: Story) {
        self.executor.block_on(story);
    }

    fn persistent_region(&self, _index: usize, size: u64) -> Option<Rc<dyn PersistentRegion>> {
        Some(Rc::new(Dax::map(&dax().ok()?, size)))
    }

    fn can_kill(&self) -> bool {
        true
    }

    fn kill(&self, index: usize) {
        for (_, device) in self
            .opened
            .borrow()
            .iter()
            .filter(|(node, _)| *node == index)
        {
            device.abandon();
        }
    }
}

/// The beginning of a devdax device. Here only the NIC makes its bytes durable.
pub struct Dax(MappedRegion, Means);

impl Dax {
    /// Maps `size` bytes of the device at `path`.
    pub fn map(path: &str, size: u64) -> Self {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .expect("the persistent memory can be opened");
        let memory = MappedRegion::map(file.into(), 0, size, Writable::Yes);
        Self::of(memory.expect("the persistent memory can be mapped"))
    }
}

impl Dax {
    /// Memory that is not persistent, to test that it is refused.
    pub fn of(memory: MappedRegion) -> Self {
        Self(memory, Means::WriteBack)
    }

    /// Memory that only a sync makes durable.
    pub fn synced(memory: MappedRegion) -> Self {
        Self(memory, Means::FileSync)
    }
}

impl Region for Dax {
    fn size(&self) -> u64 {
        self.0.size()
    }
    fn read(&self, offset: u64, into: &mut [u8]) {
        self.0.read(offset, into);
    }
    fn write(&self, offset: u64, from: &[u8]) {
        self.0.write(offset, from);
    }
    fn load(&self, offset: u64) -> u64 {
        self.0.load(offset)
    }
    fn store(&self, offset: u64, value: u64) {
        self.0.store(offset, value);
    }
    fn compare_exchange(&self, offset: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.0.compare_exchange(offset, current, new)
    }
    fn fetch_add(&self, offset: u64, add: u64) -> u64 {
        self.0.fetch_add(offset, add)
    }
    fn mapped_at(&self) -> Option<MappedPlace<'_>> {
        self.0.mapped_at()
    }
}

impl PersistentRegion for Dax {
    fn means(&self) -> Means {
        self.1
    }

    fn persist_counts(&self) -> PersistCounts {
        PersistCounts::default()
    }

    fn poll_persist(
        &self,
        _: &[Span],
        _: &mut PersistState,
        _: &mut Context<'_>,
    ) -> Poll<Result<(), PersistError>> {
        unreachable!("the tests of the fabric let the NIC make bytes durable")
    }
}
