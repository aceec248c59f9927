//! The device behind an address, and devices for the threads of benchmarks.

use std::rc::Rc;

use stonecast_bench::direct::{Devices, SharedMemory};
use stonecast_fabric::{Device, Park};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_media::DeclaredPlatform;

use crate::failure::Failure;
use crate::flags::VerbsFlags;
use crate::values::Address;

/// A device, as what it does and as what can sleep.
pub struct Opened {
    /// What it does.
    pub device: Rc<dyn Device>,
    /// The same, for the executor.
    pub park: Rc<dyn Park>,
}

/// Opens the device that speaks at `address`, over shared memory with these options. `platform`: what a server's pool was
/// declared to lie on.
#[cfg_attr(
    not(feature = "verbs"),
    expect(
        unused_variables,
        reason = "one configuration serves builds with and without verbs"
    )
)]
pub fn open(
    address: &Address,
    shared_memory: ShmOptions,
    verbs: &VerbsFlags,
    platform: Option<DeclaredPlatform>,
) -> Result<Opened, Failure> {
    match address {
        Address::SharedMemory(_) => {
            let device = ShmDevice::new(shared_memory)?;
            Ok(Opened {
                device: device.clone(),
                park: device,
            })
        }
        #[cfg(feature = "verbs")]
        Address::Verbs(_) => over_rdma(verbs, platform),
    }
}

#[cfg(feature = "verbs")]
fn over_rdma(flags: &VerbsFlags, platform: Option<DeclaredPlatform>) -> Result<Opened, Failure> {
    use stonecast_fabric_verbs::{VerbsDevice, VerbsOptions};

    let options = rdma::options(flags)?;
    let options = VerbsOptions {
        platform: platform.unwrap_or(options.platform),
        ..options
    };
    let device = VerbsDevice::open(options)?;
    Ok(Opened {
        device: device.clone(),
        park: device,
    })
}

/// Devices that speak at `address`, one for each thread that asks.
#[cfg_attr(
    not(feature = "verbs"),
    expect(
        unused_variables,
        reason = "one configuration serves builds with and without verbs"
    )
)]
pub fn devices(address: &Address, verbs: &VerbsFlags) -> Result<Box<dyn Devices>, Failure> {
    match address {
        Address::SharedMemory(_) => Ok(Box::new(SharedMemory)),
        #[cfg(feature = "verbs")]
        Address::Verbs(_) => Ok(Box::new(stonecast_bench::direct::RdmaDevices(
            rdma::options(verbs)?,
        ))),
    }
}

#[cfg(feature = "verbs")]
mod rdma {
    use std::sync::Arc;

    use stonecast_fabric_verbs::VerbsOptions;
    use stonecast_fabric_verbs::control::KeyRing;

    use crate::failure::Failure;
    use crate::flags::VerbsFlags;

    /// How the device that `flags` name is opened.
    pub fn options(flags: &VerbsFlags) -> Result<VerbsOptions, Failure> {
        let path = flags.keys.as_ref().ok_or_else(|| {
            Failure::usage(
                "verbs: addresses need a key file, the same line on both sides: a name and 64 hexadecimal digits (make one: \
                 echo \"NAME $(openssl rand -hex 32)\" > FILE; chmod 600 FILE); name it with --keys FILE (bench ycsb: \
                 --key-file FILE)",
            )
        })?;
        let keys = KeyRing::load(path).map_err(|error| Failure::usage(error.to_string()))?;
        Ok(VerbsOptions {
            device: flags.rdma_device.clone(),
            gid_index: flags.gid_index,
            keys,
            log: Arc::new(|line| crate::output::say(line)),
            ..VerbsOptions::default()
        })
    }
}
