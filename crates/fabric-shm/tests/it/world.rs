//! Several devices in one thread, for the contract.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_fabric::contract::{Story, World};
use stonecast_fabric::{BusyPoll, Device, Port, Runtime};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};

use crate::pause::Pause;

/// Nodes are devices of this thread, each with a control thread of its own.
pub struct ShmWorld {
    folder: tempfile::TempDir,
    executor: BusyPoll,
    options: ShmOptions,
    devices: RefCell<Vec<(usize, Rc<ShmDevice>)>>,
}

impl ShmWorld {
    /// A world whose devices are made with `options`.
    pub fn new(options: ShmOptions) -> Rc<Self> {
        let folder = tempfile::tempdir().expect("a folder for sockets");
        let executor = BusyPoll::new(Pause::new(), 20_000);
        Rc::new(Self {
            folder,
            executor,
            options,
            devices: RefCell::default(),
        })
    }
}

impl World for ShmWorld {
    fn node(&self, index: usize) -> Rc<Port> {
        let device = ShmDevice::new(self.options.clone()).expect("a device");
        self.devices.borrow_mut().push((index, device.clone()));
        let device: Rc<dyn Device> = device;
        Rc::new(Port::new(device, 1024).expect("a port"))
    }

    fn address(&self, index: usize) -> String {
        format!(
            "shm:{}",
            self.folder.path().join(format!("node{index}")).display()
        )
    }

    fn runtime(&self) -> Rc<dyn Runtime> {
        self.executor.runtime()
    }

    fn run(&self, story: Story) {
        self.executor.block_on(story);
    }

    fn can_kill(&self) -> bool {
        true
    }

    fn kill(&self, index: usize) {
        for (_, device) in self
            .devices
            .borrow()
            .iter()
            .filter(|(node, _)| *node == index)
        {
            device.abandon();
        }
    }
}
