//! The source of the threads' devices. A device belongs to one thread, so each thread opens its own.

use std::io;
use std::path::Path;
use std::rc::Rc;

use stonecast::OpenDevice;
use stonecast_fabric::{Device, DeviceError, Park};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};

/// A device of a benchmark.
pub struct OpenedDevice {
    /// The device, and the sleep of its thread.
    pub device: OpenDevice,
    /// The same device, if the memory of peers is mapped into this process.
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
    /// The name of the fabric in results.
    fn fabric(&self) -> &str;

    /// Opens a new device for the calling thread.
    fn open(&self) -> Result<OpenedDevice, DeviceError>;

    /// Returns an unused address of this machine. `folder` holds addresses that are paths.
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
