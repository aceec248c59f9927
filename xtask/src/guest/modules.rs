//! The kernel's modules that the guest needs, and the order in which each can be loaded.
//!
//! ```text
//!   modules/NAME.ko       unpacked here, since the guest would take longer
//!   modules/NAME.order    everything to load for NAME, one name per line, NAME last
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::tools::bytes_of;

/// Modules that jobs may load. A module that is built into the kernel is missing here and needs no
/// loading.
const WANTED: &[&str] = &[
    "virtio_blk",
    "virtio_rng",
    "9pnet_virtio",
    "9p",
    "nfit",
    "nd_pmem",
    "dax_pmem",
    "device_dax",
    "ext4",
    "xfs",
    "ib_uverbs",
    "rdma_ucm",
    "rdma_rxe",
    "veth",
    "bridge",
    "sch_netem",
];
/// Needs that a module does not name: the module requests an algorithm, and not the module that provides the algorithm.
const UNNAMED_NEEDS: &[(&str, &str)] = &[
    ("libcrc32c", "crc32c_generic"),
    ("ext4", "crc32c_generic"),
    ("rdma_rxe", "crc32_generic"),
];

/// The inputs that determine a guest's modules; part of its name.
pub fn recipe() -> impl std::hash::Hash {
    (WANTED, UNNAMED_NEEDS)
}

/// Unpacks the modules below `from` that the guest may load into the folder `into`.
pub fn unpack(from: &Path, into: &Path) -> Result<()> {
    fs::create_dir_all(into).with_context(|| format!("creating {}", into.display()))?;
    let mut paths = BTreeMap::new();
    find(from, &mut paths)?;
    let mut loader = Loader {
        paths,
        into,
        needs: BTreeMap::new(),
    };
    for name in WANTED {
        let order = loader.order(name)?;
        if order.is_empty() {
            continue;
        }
        let path = into.join(format!("{name}.order"));
        fs::write(&path, order.join("\n") + "\n")
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

struct Loader<'a> {
    /// Compressed modules by name.
    paths: BTreeMap<String, PathBuf>,
    into: &'a Path,
    /// The needs of each unpacked module.
    needs: BTreeMap<String, Vec<String>>,
}

impl Loader<'_> {
    /// Returns the modules to load for `name`, with `name` last; none if the module is built into the kernel.
    fn order(&mut self, name: &str) -> Result<Vec<String>> {
        let mut order: Vec<String> = Vec::new();
        for need in self.needs_of(name)? {
            for module in self.order(&need)? {
                if !order.contains(&module) {
                    order.push(module);
                }
            }
        }
        if self.paths.contains_key(name) {
            order.push(name.to_owned());
        }
        Ok(order)
    }

    fn needs_of(&mut self, name: &str) -> Result<Vec<String>> {
        if let Some(known) = self.needs.get(name) {
            return Ok(known.clone());
        }
        let Some(path) = self.paths.get(name) else {
            return Ok(Vec::new());
        };
        let image = bytes_of(
            Command::new("xz")
                .args(["--decompress", "--stdout"])
                .arg(path),
        )?;
        let unnamed = UNNAMED_NEEDS
            .iter()
            .filter(|(module, _)| *module == name)
            .map(|(_, need)| (*need).to_owned());
        let needs: Vec<String> = unnamed.chain(named_needs(&image)).collect();
        let unpacked = self.into.join(format!("{name}.ko"));
        fs::write(&unpacked, image).with_context(|| format!("writing {}", unpacked.display()))?;
        self.needs.insert(name.to_owned(), needs.clone());
        Ok(needs)
    }
}

/// The needs that a module names: a string `depends=a,b` among its strings that end with a zero
/// byte.
fn named_needs(image: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(start) = image.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let rest = &image[start + KEY.len()..];
    let text = &rest[..rest
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(rest.len())];
    let names = text
        .split(|byte| *byte == b',')
        .filter(|name| !name.is_empty());
    names
        .map(|name| module_name(&String::from_utf8_lossy(name)))
        .collect()
}

/// The kernel takes a dash for an underscore in the names of modules.
fn module_name(name: &str) -> String {
    name.replace('-', "_")
}

fn find(folder: &Path, paths: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, paths)?;
        } else if let Some(name) = path
            .file_name()
            .and_then(|name| name.to_str()?.strip_suffix(".ko.xz"))
        {
            paths.insert(module_name(name), path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_read_from_the_strings_of_a_module() {
        let image = b"\x7fELF..license=GPL\0depends=ib-core,nfit\0name=x\0";
        assert_eq!(named_needs(image), ["ib_core", "nfit"]);
        assert_eq!(
            named_needs(b"license=GPL\0depends=\0"),
            Vec::<String>::new()
        );
        assert_eq!(named_needs(b"nothing"), Vec::<String>::new());
    }
}
