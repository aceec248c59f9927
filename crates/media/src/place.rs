//! Examines a directory or a device of persistent memory before a pool is made there.

use std::fs::File;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ftruncate, open};

use crate::dax_facts::{DEVICE_NAME, Facts, is_device};
use crate::directory::detect_medium;
use crate::error::failed;
use crate::means::MediumKind;
use crate::write_back::Processor;
use crate::{DetectedDomain, MediaError};

/// The way in which a file system keeps bytes, as far as durability depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// Bytes are in memory only.
    Volatile,
    /// Bytes are in pages, cached in memory, and each overwrite goes to a new place.
    CopyOnWrite,
    /// Bytes are in pages, cached in memory.
    Pages,
    /// Bytes are in mapped persistent memory: `MAP_SYNC` succeeded on a file, or the place is a device of such memory.
    Direct,
}

/// The kernel's answers about a place. Nothing is inferred from names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Type of the file system ("ext4"), or "this file system" for an unknown one.
    pub file_system: &'static str,
    /// The way in which the file system keeps bytes.
    pub keeping: Keeping,
    /// Whether the processor has an instruction that writes cache lines back.
    pub can_write_back: bool,
    /// The persistence domain that the kernel reports for the underlying memory; `None` without such memory, or if the
    /// kernel does not identify it.
    pub domain: Option<DetectedDomain>,
}

/// Examines `directory`: makes an unnamed file in it, maps the file and drops it. For a device of persistent memory,
/// only the kernel's report is read.
pub fn examine(directory: &Path) -> Result<Place, MediaError> {
    if is_device(directory) {
        let can_write_back = Processor::detect().is_some();
        let domain = Some(Facts::of(directory)?.domain);
        return Ok(Place {
            file_system: DEVICE_NAME,
            keeping: Keeping::Direct,
            can_write_back,
            domain,
        });
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = open(directory, flags, Mode::RUSR | Mode::WUSR)
        .map_err(failed("making a file in", directory))?;
    ftruncate(&file, rustix::param::page_size() as u64)
        .map_err(failed("growing a file in", directory))?;
    let medium = detect_medium(&File::from(file)).map_err(failed("looking at", directory))?;
    let keeping = match medium.kind {
        MediumKind::Volatile => Keeping::Volatile,
        MediumKind::CopyOnWrite => Keeping::CopyOnWrite,
        MediumKind::Pages => Keeping::Pages,
        MediumKind::DaxFile | MediumKind::DaxDevice => Keeping::Direct,
    };
    Ok(Place {
        file_system: medium.file_system,
        keeping,
        can_write_back: medium.can_write_back,
        domain: medium.domain,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examining_a_directory_leaves_nothing_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let place = examine(directory.path()).unwrap();
        assert_ne!(
            place.keeping,
            Keeping::Direct,
            "tests do not run on persistent memory"
        );
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_device_without_persistent_memory_is_an_error_that_names_it() {
        let error = examine(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(error.contains("/dev/null"), "{error}");
    }

    #[test]
    fn a_missing_place_is_an_error_that_names_it() {
        let error = examine(Path::new("/nowhere/at/all"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("/nowhere/at/all"), "{error}");
    }
}
