//! Detects the kind of medium under a directory. Only the kernel's answers count; nothing is inferred from names or
//! hardware.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;

use rustix::fs::{IFlags, fstatfs, ioctl_getflags, ioctl_setflags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::detected_domain::domain_under;
use crate::mapping::Mapping;
use crate::means::{Medium, MediumKind};
use crate::write_back::Processor;

/// The flags of a mapping whose stores reach persistent memory without help from the kernel: a fault that changes
/// metadata makes the metadata durable first. The kernel refuses the flags everywhere else.
pub(super) const DIRECT: MapFlags = MapFlags::SHARED_VALIDATE.union(MapFlags::SYNC);

/// A type of file system (`statfs(2)`): its number, the name that users know, and the way in which it keeps bytes.
struct FileSystem(u64, &'static str, MediumKind);

const FILE_SYSTEMS: [FileSystem; 12] = [
    FileSystem(0x0102_1994, "tmpfs", MediumKind::Volatile),
    FileSystem(0x8584_58f6, "ramfs", MediumKind::Volatile),
    FileSystem(0x9584_58f6, "hugetlbfs", MediumKind::Volatile),
    FileSystem(BTRFS, "btrfs", MediumKind::CopyOnWrite),
    FileSystem(0x2fc1_2fc1, "zfs", MediumKind::CopyOnWrite),
    FileSystem(0xca45_1a4e, "bcachefs", MediumKind::CopyOnWrite),
    FileSystem(0x3434, "nilfs2", MediumKind::CopyOnWrite),
    FileSystem(0xef53, "ext4", MediumKind::Pages),
    FileSystem(0x5846_5342, "xfs", MediumKind::Pages),
    FileSystem(0x794c_7630, "overlayfs", MediumKind::Pages),
    FileSystem(0x6969, "nfs", MediumKind::Pages),
    FileSystem(0x6573_5546, "fuse", MediumKind::Pages),
];

const BTRFS: u64 = 0x9123_683e;

/// Detects the medium of `log`, which is open for reading and writing.
pub(crate) fn detect(log: &File) -> io::Result<Medium> {
    let magic = magic(log)?;
    let known = FILE_SYSTEMS.iter().find(|known| known.0 == magic);
    let (file_system, mut kind) = known.map_or(("this file system", MediumKind::Pages), |known| {
        (known.1, known.2)
    });
    if magic == BTRFS && ioctl_getflags(log).is_ok_and(|flags| flags.contains(IFlags::NOCOW)) {
        kind = MediumKind::Pages;
    }
    if kind == MediumKind::Pages && maps_persistent_memory(log) {
        kind = MediumKind::DaxFile;
    }
    let domain = if kind == MediumKind::DaxFile {
        domain_under(log)
    } else {
        None
    };
    Ok(Medium {
        file_system,
        kind,
        can_write_back: Processor::detect().is_some(),
        domain,
    })
}

/// Turns copy-on-write off for an empty file, if the file system can. [`detect`] sees the result.
pub(super) fn turn_copy_on_write_off(empty: &File) {
    if magic(empty).is_ok_and(|magic| magic == BTRFS)
        && let Ok(flags) = ioctl_getflags(empty)
    {
        let _seen_by_detect = ioctl_setflags(empty, flags | IFlags::NOCOW);
    }
}

fn magic(file: &File) -> io::Result<u64> {
    // The numbers have 32 bits; the field is signed and as wide as a machine word.
    Ok(fstatfs(file)?.f_type as u64 & 0xffff_ffff)
}

fn maps_persistent_memory(log: &File) -> bool {
    let page = rustix::param::page_size() as u64;
    Mapping::new(
        log.as_fd(),
        0,
        page,
        page,
        ProtFlags::READ | ProtFlags::WRITE,
        DIRECT,
    )
    .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_detected_as_volatile() {
        let file = match tempfile::tempfile_in("/dev/shm") {
            Ok(file) => file,
            Err(error) => {
                return crate::not_run::not_run(
                    "memory_is_detected_as_volatile",
                    &format!("no /dev/shm: {error}"),
                );
            }
        };
        let medium = detect(&file).unwrap();
        assert_eq!(
            (medium.file_system, medium.kind),
            ("tmpfs", MediumKind::Volatile)
        );
        assert!(!maps_persistent_memory(&file));
        assert!(medium.can_write_back);
    }
}
