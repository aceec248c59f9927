//! The fabric of a measurement, as typed.

use std::fmt;
use std::str::FromStr;

use stonecast_fabric_sim::MachineProfile;

/// The fabric of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// Shared memory.
    SharedMemory,
    /// RDMA devices of this machine.
    #[cfg(feature = "verbs")]
    Verbs,
    /// Simulated machines of this kind.
    Simulated(Box<MachineProfile>),
}

impl FromStr for Fabric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "shm" => Ok(Self::SharedMemory),
            #[cfg(feature = "verbs")]
            "verbs" => Ok(Self::Verbs),
            #[cfg(not(feature = "verbs"))]
            "verbs" => Err(
                "this build has no verbs; one with them is made with `cargo build --release --package stonecast-lab \
                 --features verbs`, which needs cmake and libclang (apt install cmake libclang-dev)"
                    .to_owned(),
            ),
            _ => profile(text)
                .map(|profile| Self::Simulated(Box::new(profile)))
                .map_err(|names| format!("a fabric is shm, verbs, {names}")),
        }
    }
}

impl fmt::Display for Fabric {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SharedMemory => formatter.write_str("shm"),
            #[cfg(feature = "verbs")]
            Self::Verbs => formatter.write_str("verbs"),
            Self::Simulated(profile) => write!(formatter, "sim:{}", profile.name),
        }
    }
}

/// The machines of `sim:PROFILE`; the error lists all of them.
pub fn profile(text: &str) -> Result<MachineProfile, String> {
    text.strip_prefix("sim:")
        .and_then(MachineProfile::by_name)
        .ok_or_else(|| {
            let names = MachineProfile::ALL
                .iter()
                .map(|profile| format!("sim:{}", profile.name));
            names.collect::<Vec<_>>().join(", ")
        })
}

/// Devices of the named NIC, or of the first NIC, for a benchmark that plays both ends. The shared key is made for the
/// benchmark.
#[cfg(feature = "verbs")]
pub fn both_ends(
    requester: Option<&str>,
    responder: Option<&str>,
) -> Result<[Box<dyn stonecast_bench::kv::Devices>; 2], crate::failure::Failure> {
    use std::io::Read as _;

    use stonecast_bench::kv::RdmaDevices;
    use stonecast_fabric_verbs::VerbsOptions;
    use stonecast_fabric_verbs::control::{Key, KeyRing};

    let mut key = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
    let keys = KeyRing::single("benchmark", Key::new(key));
    Ok([requester, responder].map(|name| {
        let options = VerbsOptions {
            device: name.map(str::to_owned),
            keys: keys.clone(),
            ..VerbsOptions::default()
        };
        Box::new(RdmaDevices(options)) as Box<dyn stonecast_bench::kv::Devices>
    }))
}
