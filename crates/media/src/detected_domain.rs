//! The persistence domain of persistent memory, as the kernel reports it.
//!
//! Each region of persistent memory has a file `persistence_domain`: `cpu_cache` if the platform saves its caches,
//! `memory_controller` if it saves the content of the controller, empty if the firmware does not say. No file reports a
//! battery for the whole system; only a declaration can.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Dev, major, minor};

use crate::PersistenceDomain;

/// The kernel's report on a region of persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetectedDomain {
    /// Stores survive once they are visible.
    CpuCache,
    /// Lines survive once they are written back.
    MemoryController,
    /// The kernel reports neither.
    Unsaid,
}

impl DetectedDomain {
    /// The same domain in the terms of a declaration; `None` if the kernel does not say, so that nothing is assumed.
    pub fn declared(self) -> Option<PersistenceDomain> {
        match self {
            Self::CpuCache => Some(PersistenceDomain::Mhp),
            Self::MemoryController => Some(PersistenceDomain::Dmp),
            Self::Unsaid => None,
        }
    }
}

/// The kernel's report on the persistent memory under `path`: a device of persistent memory, a block device on it, or
/// anything in a file system on such a block device. `None` if the path does not lie directly on persistent memory.
pub fn detect_domain(path: &Path) -> Option<DetectedDomain> {
    let status = fs::metadata(path).ok()?;
    let (kind, device) = if status.file_type().is_char_device() {
        ("char", status.rdev())
    } else if status.file_type().is_block_device() {
        ("block", status.rdev())
    } else {
        ("block", status.dev())
    };
    said_of(kind, device)
}

/// Like [`detect_domain`], for the file system that holds an open file.
pub(crate) fn domain_under(file: &File) -> Option<DetectedDomain> {
    said_of("block", file.metadata().ok()?.dev())
}

fn said_of(kind: &str, device: Dev) -> Option<DetectedDomain> {
    let folder = PathBuf::from(format!(
        "/sys/dev/{kind}/{}:{}",
        major(device),
        minor(device)
    ));
    region_above(&folder).map(|region| said_in(&region))
}

/// Like [`detect_domain`], for a device's folder in the kernel's tree.
pub(crate) fn domain_above(folder: &Path) -> DetectedDomain {
    region_above(folder).map_or(DetectedDomain::Unsaid, |region| said_in(&region))
}

/// The folder of the region to which a device's folder belongs.
fn region_above(folder: &Path) -> Option<PathBuf> {
    let folder = fs::canonicalize(folder).ok()?;
    folder
        .ancestors()
        .find(|above| above.join("persistence_domain").exists())
        .map(Path::to_owned)
}

fn said_in(region: &Path) -> DetectedDomain {
    match fs::read_to_string(region.join("persistence_domain"))
        .unwrap_or_default()
        .trim()
    {
        "cpu_cache" => DetectedDomain::CpuCache,
        "memory_controller" => DetectedDomain::MemoryController,
        _ => DetectedDomain::Unsaid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_above_a_device_names_the_persistence_domain() {
        let tree = tempfile::tempdir().unwrap();
        let device = tree.path().join("region0/dax0.0/dax0.0");
        fs::create_dir_all(&device).unwrap();
        assert_eq!(domain_above(&device), DetectedDomain::Unsaid);
        let said = tree.path().join("region0/persistence_domain");
        for (text, domain) in [
            ("cpu_cache\n", DetectedDomain::CpuCache),
            ("memory_controller\n", DetectedDomain::MemoryController),
            ("\n", DetectedDomain::Unsaid),
            ("something new\n", DetectedDomain::Unsaid),
        ] {
            fs::write(&said, text).unwrap();
            assert_eq!(domain_above(&device), domain, "{text}");
        }
    }

    #[test]
    fn ordinary_places_have_no_domain() {
        assert_eq!(detect_domain(Path::new("/dev/null")), None);
        assert_eq!(detect_domain(Path::new("/proc/self")), None);
        assert_eq!(detect_domain(Path::new("/no/such/place")), None);
    }
}
