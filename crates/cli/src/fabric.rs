//! The device behind an address.

use std::rc::Rc;

use stonecast_fabric::{Device, Park};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_media::DeclaredPlatform;

use crate::arguments::VerbsFlags;
use crate::failure::Failure;
use crate::values::Address;

/// A device, as what it does and as what can sleep.
pub struct Opened {
    /// What it does.
    pub device: Rc<dyn Device>,
    /// The same, for the executor.
    pub park: Rc<dyn Park>,
}

/// Opens the device that speaks at `address`. `platform`: what a server's pool was declared to lie on.
#[cfg_attr(not(feature = "verbs"), expect(unused_variables, reason = "one configuration serves builds with and without verbs"))]
pub fn open(address: &Address, verbs: &VerbsFlags, platform: Option<DeclaredPlatform>) -> Result<Opened, Failure> {
    match address {
        Address::SharedMemory(_) => {
            let device = ShmDevice::new(ShmOptions::default())?;
            Ok(Opened { device: device.clone(), park: device })
        }
        #[cfg(feature = "verbs")]
        Address::Verbs(_) => over_rdma(verbs, platform),
    }
}

#[cfg(feature = "verbs")]
fn over_rdma(flags: &VerbsFlags, platform: Option<DeclaredPlatform>) -> Result<Opened, Failure> {
    use std::sync::Arc;

    use stonecast_fabric_verbs::control::KeyRing;
    use stonecast_fabric_verbs::{VerbsDevice, VerbsOptions};

    let path = flags.keys.as_ref().ok_or_else(|| {
        Failure::usage(
            "verbs: addresses need --keys FILE, the same line on both sides: a name and 64 hexadecimal digits (make one: echo \
             \"NAME $(openssl rand -hex 32)\" > FILE; chmod 600 FILE)",
        )
    })?;
    let keys = KeyRing::load(path).map_err(|error| Failure::usage(error.to_string()))?;
    let options = VerbsOptions {
        device: flags.rdma_device.clone(),
        gid_index: flags.gid_index,
        keys,
        log: Arc::new(|line| crate::output::say(line)),
        ..VerbsOptions::default()
    };
    let options = VerbsOptions { platform: platform.unwrap_or(options.platform), ..options };
    let device = VerbsDevice::open(options)?;
    Ok(Opened { device: device.clone(), park: device })
}
