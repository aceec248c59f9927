//! Facts about a device of persistent memory, from the kernel's device tree (`/sys`).
//!
//! ```text
//!   /sys/dev/char/MAJOR:MINOR         -> .../region0/dax0.0/dax0.0
//!   .../size                             bytes
//!   .../align                            grain of mappings, bytes
//!   .../region0/persistence_domain       cpu_cache, memory_controller or nothing
//! ```

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Dev, fstat, major, minor};

use crate::MediaError;
use crate::detected_domain::{DetectedDomain, domain_above};
use crate::error::failed;

/// The name of this kind of place in messages.
pub(crate) const DEVICE_NAME: &str = "a device of persistent memory";

/// The facts about one device of persistent memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// Size in bytes.
    pub size: u64,
    pub domain: DetectedDomain,
}

impl Facts {
    /// Reads the facts about the device of persistent memory at `path`.
    pub fn of(path: &Path) -> Result<Self, MediaError> {
        let status = fs::metadata(path).map_err(failed("looking at", path))?;
        if !status.file_type().is_char_device() {
            let reason = "it is not a device of persistent memory; make one with ndctl create-namespace --mode devdax";
            return Err(MediaError::Unsuitable {
                path: path.to_owned(),
                reason,
            });
        }
        let folder = folder_of(status.rdev());
        let size = number_in(&folder.join("size")).map_err(|_| MediaError::Unsuitable {
            path: path.to_owned(),
            reason: "it is a character device, but not one of persistent memory: the kernel reports no size for it",
        })?;
        Ok(Self {
            size,
            domain: domain_above(&folder),
        })
    }
}

/// Whether `path` is a character device. A pool there lies on a device, not in a directory.
pub(crate) fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|status| status.file_type().is_char_device())
}

/// The grain of mappings of a character device in bytes; `None` if the kernel reports none.
pub(crate) fn alignment_of(device: impl AsFd) -> Option<u64> {
    let status = fstat(device).ok()?;
    number_in(&folder_of(status.st_rdev).join("align"))
        .ok()
        .filter(|align| align.is_power_of_two())
}

fn folder_of(device: Dev) -> PathBuf {
    PathBuf::from(format!("/sys/dev/char/{}:{}", major(device), minor(device)))
}

fn number_in(path: &Path) -> io::Result<u64> {
    let text = io::read_to_string(File::open(path)?)?;
    text.trim().parse().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_not_persistent_memory_is_refused_by_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let refused = Facts::of(file.path()).unwrap_err().to_string();
        assert!(
            refused.contains("not a device of persistent memory"),
            "{refused}"
        );
        let refused = Facts::of(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(
            refused.contains("/dev/null") && refused.contains("reports no size"),
            "{refused}"
        );
        assert!(is_device(Path::new("/dev/null")) && !is_device(file.path()));
        assert_eq!(alignment_of(File::open("/dev/null").unwrap()), None);
    }
}
