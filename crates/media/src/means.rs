//! Chooses the means of making bytes durable: compares the operator's declaration with the medium.

use crate::{DeclaredPlatform, DetectedDomain, Durability, Means, PersistenceDomain};

/// Facts about the place of a pool, detected and not declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Medium {
    /// Type of the file system, for messages.
    pub file_system: &'static str,
    /// The way in which it keeps bytes.
    pub kind: MediumKind,
    /// Whether the processor can write cache lines back.
    pub can_write_back: bool,
    /// The persistence domain that the kernel reports for the underlying memory; `None` without such memory, or if the
    /// memory cannot be identified.
    pub domain: Option<DetectedDomain>,
}

/// The way in which a file system keeps bytes, as far as durability depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MediumKind {
    /// Bytes are in memory only.
    Volatile,
    /// Each overwrite goes to a new place, so an overwrite can fail for lack of space.
    CopyOnWrite,
    /// A file in mapped persistent memory (`MAP_SYNC` succeeded).
    DaxFile,
    /// A device of persistent memory, without any file system.
    DaxDevice,
    /// Bytes are in pages, cached in memory.
    Pages,
}

/// The means for a pool, or the reason why the pool has none.
pub(crate) fn choose_means(
    medium: Medium,
    platform: DeclaredPlatform,
    durability: Durability,
) -> Result<Means, String> {
    if durability == Durability::Process {
        return Ok(Means::Process);
    }
    let file_system = medium.file_system;
    let domain = platform.persistence_domain;
    match (medium.kind, domain) {
        (_, PersistenceDomain::Volatile) => Err("its platform is declared volatile".to_owned()),
        (MediumKind::Volatile, PersistenceDomain::Wsp) => Err(format!(
            "it lies on {file_system}, whose files end with the running kernel; a battery keeps the memory, but the files \
             in it are lost after a restart"
        )),
        (MediumKind::Volatile, _) => Err(format!("it lies on {file_system}, which is volatile memory")),
        (MediumKind::CopyOnWrite, PersistenceDomain::PageFile) => Err(format!(
            "{file_system} allocates space at every overwrite, so a full disk would kill the server in the middle of a write; \
             turn copy-on-write off for the directory (chattr +C) and make or copy the files of the pool anew"
        )),
        (MediumKind::Pages | MediumKind::DaxFile, PersistenceDomain::PageFile) => Ok(Means::FileSync),
        (MediumKind::DaxDevice, PersistenceDomain::PageFile) => {
            Err("it is a device and has no pages to sync; declare dmp, or mhp if the platform saves its caches".to_owned())
        }
        (MediumKind::DaxFile | MediumKind::DaxDevice, PersistenceDomain::Dmp) if medium.can_write_back => Ok(Means::WriteBack),
        (MediumKind::DaxFile | MediumKind::DaxDevice, PersistenceDomain::Dmp) => {
            Err("this processor cannot write cache lines back".to_owned())
        }
        // The firmware knows better than a declaration whether caches survive. It knows nothing about a battery.
        (MediumKind::DaxFile | MediumKind::DaxDevice, PersistenceDomain::Mhp)
            if medium.domain == Some(DetectedDomain::MemoryController) =>
        {
            Err("its platform is declared mhp, but the kernel reports that its persistence domain is memory_controller: stores that \
                 are still in a cache would be lost; declare dmp"
                .to_owned())
        }
        (MediumKind::DaxFile | MediumKind::DaxDevice, PersistenceDomain::Mhp | PersistenceDomain::Wsp) => Ok(Means::Fence),
        (
            MediumKind::Pages | MediumKind::CopyOnWrite,
            PersistenceDomain::Dmp | PersistenceDomain::Mhp | PersistenceDomain::Wsp,
        ) => Err(format!(
            "its platform is declared {domain}, but {file_system} does not map persistent memory here (MAP_SYNC is \
                 refused): stores would stay in the page cache; declare page-file, or mount with -o dax on persistent memory"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ddio, ReceiveBuffers};

    fn choose(
        kind: MediumKind,
        domain: PersistenceDomain,
        durability: Durability,
    ) -> Result<Means, String> {
        let medium = Medium {
            file_system: "testfs",
            kind,
            can_write_back: true,
            domain: None,
        };
        let platform = DeclaredPlatform {
            persistence_domain: domain,
            ddio: Ddio::On,
            receive_buffers: ReceiveBuffers::Dram,
        };
        choose_means(medium, platform, durability)
    }

    const KINDS: [MediumKind; 5] = [
        MediumKind::Volatile,
        MediumKind::CopyOnWrite,
        MediumKind::DaxFile,
        MediumKind::DaxDevice,
        MediumKind::Pages,
    ];

    #[test]
    fn a_pool_that_promises_to_survive_processes_only_needs_nothing() {
        for kind in KINDS {
            for domain in PersistenceDomain::ALL {
                assert_eq!(
                    choose(kind, *domain, Durability::Process),
                    Ok(Means::Process)
                );
            }
        }
    }

    /// The whole table: every other pair is refused.
    #[test]
    fn power_is_promised_only_where_the_declared_domain_exists() {
        use MediumKind::{DaxDevice, DaxFile, Pages};
        use PersistenceDomain::{Dmp, Mhp, PageFile, Wsp};
        let promised = [
            ((Pages, PageFile), Means::FileSync),
            ((DaxFile, PageFile), Means::FileSync),
            ((DaxFile, Dmp), Means::WriteBack),
            ((DaxFile, Mhp), Means::Fence),
            ((DaxFile, Wsp), Means::Fence),
            ((DaxDevice, Dmp), Means::WriteBack),
            ((DaxDevice, Mhp), Means::Fence),
            ((DaxDevice, Wsp), Means::Fence),
        ];
        for kind in KINDS {
            for domain in PersistenceDomain::ALL {
                let expected = promised
                    .iter()
                    .find(|(row, _)| *row == (kind, *domain))
                    .map(|(_, means)| *means);
                let chosen = choose(kind, *domain, Durability::Power);
                assert_eq!(
                    chosen.clone().ok(),
                    expected,
                    "{kind:?} {domain:?}: {chosen:?}"
                );
                assert!(chosen.is_ok() || !chosen.unwrap_err().is_empty());
            }
        }
    }

    #[test]
    fn a_battery_does_not_make_tmpfs_durable() {
        let refused = choose(
            MediumKind::Volatile,
            PersistenceDomain::Wsp,
            Durability::Power,
        )
        .unwrap_err();
        assert!(
            refused.contains("testfs") && refused.contains("after a restart"),
            "{refused}"
        );
    }

    /// Needs the comparison with the kernel's report: a wrong declaration loses the bytes that are still in a cache.
    #[test]
    fn a_declaration_that_caches_survive_is_refused_where_the_kernel_denies_it() {
        for kind in [MediumKind::DaxFile, MediumKind::DaxDevice] {
            let choose = |said, domain| {
                let medium = Medium {
                    file_system: "testfs",
                    kind,
                    can_write_back: true,
                    domain: Some(said),
                };
                let platform = DeclaredPlatform {
                    persistence_domain: domain,
                    ddio: Ddio::On,
                    receive_buffers: ReceiveBuffers::Dram,
                };
                choose_means(medium, platform, Durability::Power)
            };
            let refused =
                choose(DetectedDomain::MemoryController, PersistenceDomain::Mhp).unwrap_err();
            assert!(
                refused.contains("memory_controller") && refused.contains("declare dmp"),
                "{refused}"
            );
            assert_eq!(
                choose(DetectedDomain::MemoryController, PersistenceDomain::Wsp),
                Ok(Means::Fence)
            );
            assert_eq!(
                choose(DetectedDomain::CpuCache, PersistenceDomain::Mhp),
                Ok(Means::Fence)
            );
            assert_eq!(
                choose(DetectedDomain::CpuCache, PersistenceDomain::Dmp),
                Ok(Means::WriteBack)
            );
            assert_eq!(
                choose(DetectedDomain::Unsaid, PersistenceDomain::Mhp),
                Ok(Means::Fence)
            );
        }
    }

    #[test]
    fn without_a_write_back_instruction_dax_is_not_enough() {
        let medium = Medium {
            file_system: "testfs",
            kind: MediumKind::DaxFile,
            can_write_back: false,
            domain: None,
        };
        let platform = DeclaredPlatform {
            persistence_domain: PersistenceDomain::Dmp,
            ddio: Ddio::Off,
            receive_buffers: ReceiveBuffers::Pm,
        };
        assert!(choose_means(medium, platform, Durability::Power).is_err());
    }
}
