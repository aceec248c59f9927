//! RDMA devices of this machine.

use std::io;
use std::net::TcpListener;
use std::path::Path;

use stonecast_fabric::DeviceError;
use stonecast_fabric_verbs::{VerbsDevice, VerbsOptions};

use super::devices::{Devices, OpenedDevice};

/// Devices with these options.
pub struct RdmaDevices(pub VerbsOptions);

impl Devices for RdmaDevices {
    fn fabric(&self) -> &str {
        "verbs"
    }

    fn open(&self) -> Result<OpenedDevice, DeviceError> {
        VerbsDevice::open(self.0.clone()).map(OpenedDevice::new)
    }

    fn free_address(&self, _folder: &Path) -> io::Result<String> {
        let free = TcpListener::bind("127.0.0.1:0")?;
        Ok(format!("verbs:{}", free.local_addr()?))
    }
}
