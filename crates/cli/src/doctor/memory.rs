//! Persistent memory, as the kernel shows it (`Documentation/ABI/testing/sysfs-bus-nfit` and `-bus-cxl`, `libnvdimm`).

use serde::Serialize;

use crate::doctor::root::{Fact, Root};

/// A region of persistent memory.
#[derive(Clone, Debug, Serialize)]
pub struct PersistentRegion {
    /// The kernel's name.
    pub name: String,
    /// The provider that found the region: `ACPI.NFIT`, `cxl`, `e820`.
    pub provider: Fact,
    /// In bytes.
    pub size: Fact,
    /// The part of the platform from which stores survive, as stated by the platform: `cpu_cache`, `memory_controller`,
    /// or nothing.
    pub persistence_domain: Fact,
    /// The region's namespaces.
    pub namespaces: Vec<Namespace>,
}

/// A part of a region that programs can use.
#[derive(Clone, Debug, Serialize)]
pub struct Namespace {
    /// The kernel's name.
    pub name: String,
    /// `fsdax`, `devdax`, `sector` or `raw`.
    pub mode: Fact,
    /// In bytes.
    pub size: Fact,
}

/// A CXL memory device with persistent capacity.
#[derive(Clone, Debug, Serialize)]
pub struct CxlMemory {
    /// The kernel's name.
    pub name: String,
    /// Persistent bytes.
    pub persistent_size: Fact,
    /// Whether the content is encrypted, locked, or open.
    pub security: Fact,
}

const ND: &str = "sys/bus/nd/devices";
const CXL: &str = "sys/bus/cxl/devices";

/// The regions of persistent memory.
pub fn persistent_regions(root: &Root) -> Vec<PersistentRegion> {
    let region = |name: String| {
        let folder = format!("{ND}/{name}");
        let number = name.trim_start_matches("region");
        let namespace = |name: String| Namespace {
            mode: root.fact(&format!("{ND}/{name}/mode")),
            size: root.fact(&format!("{ND}/{name}/size")),
            name,
        };
        PersistentRegion {
            // The folder is a link to the region, which lies in the folder of its bus.
            provider: root.fact(&format!("{folder}/../provider")),
            size: root.fact(&format!("{folder}/size")),
            persistence_domain: root.fact(&format!("{folder}/persistence_domain")),
            namespaces: root
                .names(ND, &format!("namespace{number}."))
                .into_iter()
                .map(namespace)
                .collect(),
            name,
        }
    };
    root.names(ND, "region").into_iter().map(region).collect()
}

/// The CXL memory devices that have persistent capacity.
pub fn cxl_memories(root: &Root) -> Vec<CxlMemory> {
    let device = |name: String| CxlMemory {
        persistent_size: root.fact(&format!("{CXL}/{name}/pmem/size")),
        security: root.fact(&format!("{CXL}/{name}/security/state")),
        name,
    };
    let has_any = |memory: &CxlMemory| {
        memory
            .persistent_size
            .said()
            .is_some_and(|size| !matches!(size, "0" | "0x0"))
    };
    root.names(CXL, "mem")
        .into_iter()
        .map(device)
        .filter(has_any)
        .collect()
}
