//! Where threads get their devices from: a device belongs to one thread, so each opens its own.

use std::io;
use std::path::Path;
use std::rc::Rc;

use stonecast::OpenDevice;
use stonecast_fabric::{Device, DeviceError, Park};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};

/// A device of a benchmark.
pub struct OpenedDevice {
    /// The device, and the park that its thread sleeps on.
    pub device: OpenDevice,
    /// The same, where peers' memory is mapped into this process.
    pub(super) shared_memory: Option<Rc<ShmDevice>>,
}

impl OpenedDevice {
    /// A device that reaches its peers' memory through the fabric alone.
    pub fn new<D: Device + Park + 'static>(device: Rc<D>) -> Self {
        Self {
            device: OpenDevice::new(device),
            shared_memory: None,
        }
    }
}

/// Opens devices of one kind.
pub trait Devices: Sync {
    /// As results name the fabric.
    fn fabric(&self) -> &str;

    /// A fresh device for the calling thread.
    fn open(&self) -> Result<OpenedDevice, DeviceError>;

    /// An address of this machine at which nobody listens. `folder` is for those that are paths.
    fn free_address(&self, folder: &Path) -> io::Result<String>;
}

/// Shared memory of this machine.
#[derive(Clone, Copy, Debug)]
pub struct SharedMemory;

impl Devices for SharedMemory {
    fn fabric(&self) -> &str {
        "shm"
    }

    fn open(&self) -> Result<OpenedDevice, DeviceError> {
        let device = ShmDevice::new(ShmOptions::default())?;
        Ok(OpenedDevice {
            shared_memory: Some(device.clone()),
            ..OpenedDevice::new(device)
        })
    }

    fn free_address(&self, folder: &Path) -> io::Result<String> {
        Ok(format!("shm:{}", folder.join("socket").display()))
    }
}
