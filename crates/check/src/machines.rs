//! Machines with persistent memory, drawn from a seed.

use rand::RngExt as _;
use stonecast_base::Random;
use stonecast_fabric_sim::{Features, MachineOptions, MachineProfile};
use stonecast_media::{Ddio, DeclaredPlatform, PersistenceDomain, ReceiveBuffers};

/// A machine of any profile with a platform that loses caches more often than not.
pub(crate) fn draw(random: &mut Random) -> MachineOptions {
    use PersistenceDomain::{Dmp, Mhp, PageFile, Wsp};
    let profile = MachineProfile::ALL[random.random_range(0..MachineProfile::ALL.len())];
    let platform = DeclaredPlatform {
        // Caches that are lost give the most crash states.
        persistence_domain: [Dmp, Dmp, Mhp, Wsp, PageFile][random.random_range(0..5)],
        ddio: if random.random() { Ddio::On } else { Ddio::Off },
        receive_buffers: ReceiveBuffers::Dram,
    };
    MachineOptions {
        platform,
        features: Features::COMMON,
        ..MachineOptions::new(profile)
    }
}

/// The profile and the platform of a machine, for people.
pub(crate) fn describe(options: &MachineOptions) -> String {
    let DeclaredPlatform {
        persistence_domain,
        ddio,
        ..
    } = options.platform;
    format!("{} {persistence_domain} DDIO {ddio}", options.profile.name)
}
