//! The facts of this machine that decide how remote writes become durable.
//!
//! ```text
//!   root.rs       the root of the facts: / or a folder that stands for it
//!   memory.rs     persistent regions, CXL memory          rdma.rs, pci.rs   RDMA devices
//!   processor.rs  write-back instructions                 abilities.rs      their properties by the verbs library
//!   report.rs     for people                              conclusion.rs     conclusions, and properties to declare
//! ```
//!
//! A fact is the content of a file of the kernel. A property that no file states has no value here, and is listed as
//! one to declare.

mod abilities;
mod conclusion;
mod memory;
mod pci;
mod processor;
mod rdma;
mod report;
mod root;

use std::fs;
use std::path::Path;

use serde::Serialize;
use stonecast_media::{Keeping, examine};

pub use abilities::Abilities;
pub use conclusion::Conclusion;
pub use memory::{CxlMemory, PersistentRegion};
pub use processor::Processor;
pub use rdma::{RdmaDevice, Speaks};
pub use report::text;
pub use root::Root;

/// Everything that was seen.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// Processor and kernel.
    pub processor: Processor,
    /// Regions of persistent memory.
    pub persistent_regions: Vec<PersistentRegion>,
    /// CXL memory devices with persistent capacity.
    pub cxl_memories: Vec<CxlMemory>,
    /// RDMA devices.
    pub rdma_devices: Vec<RdmaDevice>,
    /// The folder in which a pool would lie.
    pub place: PlaceFacts,
}

/// The facts about a folder.
#[derive(Clone, Debug, Serialize)]
pub struct PlaceFacts {
    /// The path of the folder.
    pub path: String,
    /// Type of its file system; `None` if the folder could not be examined.
    pub file_system: Option<&'static str>,
    /// The way in which the file system keeps bytes.
    pub keeping: Option<KeepingFact>,
    /// Whether a file in the folder could be mapped with `MAP_SYNC`.
    pub map_sync: Option<bool>,
    /// The reason why the folder could not be examined.
    pub error: Option<String>,
}

/// [`Keeping`], for JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeepingFact {
    /// In memory alone.
    Volatile,
    /// In pages; each overwrite goes to a new place.
    CopyOnWrite,
    /// In pages, cached in memory.
    Pages,
    /// In mapped persistent memory.
    PersistentMemory,
}

impl Facts {
    /// Examines the machine whose files lie below `root`, and `folder`.
    pub fn collect(root: &Root, folder: &Path) -> Self {
        Self {
            processor: processor::processor(root),
            persistent_regions: memory::persistent_regions(root),
            cxl_memories: memory::cxl_memories(root),
            rdma_devices: rdma::rdma_devices(root),
            place: place(folder),
        }
    }
}

fn place(folder: &Path) -> PlaceFacts {
    // A folder that does not exist keeps the name that was typed.
    let path = fs::canonicalize(folder)
        .unwrap_or_else(|_| folder.to_owned())
        .display()
        .to_string();
    match examine(folder) {
        Ok(place) => {
            let keeping = match place.keeping {
                Keeping::Volatile => KeepingFact::Volatile,
                Keeping::CopyOnWrite => KeepingFact::CopyOnWrite,
                Keeping::Pages => KeepingFact::Pages,
                Keeping::Direct => KeepingFact::PersistentMemory,
            };
            let map_sync = Some(place.keeping == Keeping::Direct);
            PlaceFacts {
                path,
                file_system: Some(place.file_system),
                keeping: Some(keeping),
                map_sync,
                error: None,
            }
        }
        Err(error) => PlaceFacts {
            path,
            file_system: None,
            keeping: None,
            map_sync: None,
            error: Some(error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests;
