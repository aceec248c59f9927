//! The device of an address, and devices for the threads of benchmarks.

use stonecast::{Address, OpenDevice};
use stonecast_bench::kv::{Devices, SharedMemory};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
#[cfg(feature = "verbs")]
use stonecast_fabric_verbs::{VerbsDevice, VerbsOptions};
use stonecast_media::DeclaredPlatform;

use crate::failure::Failure;
use crate::flags::VerbsFlags;

/// The settings of the device for an address.
pub enum DeviceSettings {
    /// Over shared memory.
    SharedMemory(ShmOptions),
    /// Over RDMA.
    #[cfg(feature = "verbs")]
    Verbs(VerbsOptions),
}

impl DeviceSettings {
    /// Settings for the device at `address`: these options over shared memory, and those of the flags over RDMA.
    pub fn of(
        address: &Address,
        shared_memory: ShmOptions,
        verbs: &VerbsFlags,
    ) -> Result<Self, Failure> {
        verbs.check(Some(address))?;
        // The nodes of a cluster are reached as the flags say.
        let is_here = address.socket().is_some() || address.is_cluster() && verbs.keys.is_none();
        match is_here || !cfg!(feature = "verbs") {
            true => Ok(Self::SharedMemory(shared_memory)),
            false => Self::over_rdma(verbs),
        }
    }

    #[cfg(feature = "verbs")]
    fn over_rdma(flags: &VerbsFlags) -> Result<Self, Failure> {
        rdma::options(flags).map(Self::Verbs)
    }

    #[cfg(not(feature = "verbs"))]
    fn over_rdma(_: &VerbsFlags) -> Result<Self, Failure> {
        unreachable!("a build without verbs accepts no address of another machine")
    }

    /// Opens the device. `platform` is the declared platform of a server's pool, which RDMA devices have to know.
    #[cfg_attr(
        not(feature = "verbs"),
        expect(
            unused_variables,
            reason = "one configuration serves builds with and without verbs"
        )
    )]
    pub fn open(self, platform: Option<DeclaredPlatform>) -> Result<OpenDevice, stonecast::Error> {
        match self {
            Self::SharedMemory(options) => Ok(OpenDevice::new(ShmDevice::new(options)?)),
            #[cfg(feature = "verbs")]
            Self::Verbs(options) => {
                let options = VerbsOptions {
                    platform: platform.unwrap_or(options.platform),
                    ..options
                };
                Ok(OpenDevice::new(VerbsDevice::open(options)?))
            }
        }
    }
}

/// Devices for `address`, one for each thread that asks.
pub fn devices(address: &Address, verbs: &VerbsFlags) -> Result<Box<dyn Devices>, Failure> {
    match DeviceSettings::of(address, ShmOptions::default(), verbs)? {
        DeviceSettings::SharedMemory(_) => Ok(Box::new(SharedMemory)),
        #[cfg(feature = "verbs")]
        DeviceSettings::Verbs(options) => Ok(Box::new(stonecast_bench::kv::RdmaDevices(options))),
    }
}

#[cfg(feature = "verbs")]
mod rdma {
    use std::sync::Arc;

    use stonecast_fabric_verbs::VerbsOptions;
    use stonecast_fabric_verbs::control::KeyRing;

    use crate::failure::Failure;
    use crate::flags::VerbsFlags;

    /// The options of the device that `flags` name.
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
