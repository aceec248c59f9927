//! The guest's first file system: an archive in the format `newc` (cpio), which the kernel unpacks into memory.
//!
//! ```text
//!   entry    "070701", 13 numbers of 8 hexadecimal digits, name, zero byte; padded to 4 bytes; content; padded to 4 bytes
//!   archive  entries, the last one named TRAILER!!!
//! ```
//!
//! The archive is not compressed: under software emulation, the guest takes longer to decompress an archive than the
//! machine takes to read one.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_777;

/// An archive that grows.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds everything below `folder`, ordered by name: the same folder gives the same bytes.
    pub fn add_tree(&mut self, folder: &Path) -> Result<()> {
        self.add_below(folder, folder)
    }

    fn add_below(&mut self, root: &Path, folder: &Path) -> Result<()> {
        let entries =
            fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
        let mut paths = entries
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<_>>>()?;
        paths.sort();
        for path in paths {
            let name = path
                .strip_prefix(root)
                .expect("it is below the root")
                .as_os_str()
                .as_bytes()
                .to_vec();
            let status = path
                .symlink_metadata()
                .with_context(|| format!("looking at {}", path.display()))?;
            if status.is_symlink() {
                let target =
                    fs::read_link(&path).with_context(|| format!("reading {}", path.display()))?;
                self.add(&name, LINK, target.as_os_str().as_bytes())?;
            } else if status.is_dir() {
                self.add(&name, DIRECTORY, b"")?;
                self.add_below(root, &path)?;
            } else {
                let content =
                    fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
                self.add(
                    &name,
                    FILE | (status.permissions().mode() & 0o777),
                    &content,
                )?;
            }
        }
        Ok(())
    }

    /// Adds one entry.
    fn add(&mut self, name: &[u8], mode: u32, content: &[u8]) -> Result<()> {
        let size =
            u32::try_from(content.len()).context("a file of the guest is smaller than 4 GiB")?;
        ensure!(!name.contains(&0), "a name has no zero byte");
        let name_size = name.len() as u32 + 1;
        self.entries += 1;
        // Number, mode, owner, group, links, time, size, device (2), special device (2), length of the name, checksum.
        let numbers = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            size,
            0,
            0,
            0,
            0,
            name_size,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for number in numbers {
            self.bytes
                .extend_from_slice(format!("{number:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
        Ok(())
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// The whole archive.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        self.add(b"TRAILER!!!", 0, b"")?;
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_the_bytes_of_the_format() {
        let mut archive = Archive::default();
        archive.add(b"a", FILE | 0o644, b"12345").unwrap();
        let bytes = archive.finish().unwrap();
        let first = "070701\
                     00000001000081a4000000000000000000000001\
                     0000000000000005000000000000000000000000000000000000000200000000";
        assert!(
            bytes.starts_with(first.as_bytes()),
            "{}",
            bytes.escape_ascii()
        );
        // The header has 110 bytes. The name with its zero is padded to 112, and the five bytes to eight.
        assert_eq!(&bytes[110..120], b"a\x0012345\0\0\0");
        assert_eq!(&bytes[120..126], b"070701");
        assert!(
            bytes.len().is_multiple_of(4)
                && bytes.windows(11).any(|window| window == b"TRAILER!!!\0")
        );
    }

    #[test]
    fn a_tree_is_added_with_each_folder_before_its_content() {
        let folder = std::env::temp_dir().join(format!("stonecast-archive-{}", std::process::id()));
        fs::create_dir_all(folder.join("d")).unwrap();
        fs::write(folder.join("d/f"), "x").unwrap();
        std::os::unix::fs::symlink("d/f", folder.join("l")).unwrap();
        let mut archive = Archive::default();
        archive.add_tree(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(archive.entries, 3);
        let place = |name: &[u8]| {
            archive
                .bytes
                .windows(name.len())
                .position(|window| window == name)
                .unwrap()
        };
        assert!(place(b"d\0") < place(b"d/f\0") && place(b"d/f\0") < place(b"l\0"));
    }
}
