//! Fake trees of the kernel's files, and the conclusions drawn from them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use stonecast_media::PersistenceDomain;
use stonecast_persist::{Axis, FlushKind, Transport};
use tempfile::TempDir;

use super::root::Fact;
use super::*;

/// A folder that stands for `/`.
struct Tree(TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn link(&self, path: &str, to: &str) -> &Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(self.0.path().join(to), path).unwrap();
        self
    }

    /// Adds a region as the kernel shows regions: in its bus, with a link beside all other devices.
    fn region(&self, number: u32, provider: &str, domain: Option<&str>) -> &Self {
        let folder = format!("sys/devices/ndbus{number}/region{number}");
        self.file(&format!("sys/devices/ndbus{number}/provider"), provider);
        self.file(&format!("{folder}/size"), "17179869184\n");
        if let Some(domain) = domain {
            self.file(
                &format!("{folder}/persistence_domain"),
                format!("{domain}\n"),
            );
        }
        self.file(
            &format!("sys/bus/nd/devices/namespace{number}.0/mode"),
            "fsdax\n",
        );
        self.file(
            &format!("sys/bus/nd/devices/namespace{number}.0/size"),
            "16909336576\n",
        );
        self.link(&format!("sys/bus/nd/devices/region{number}"), &folder)
    }

    /// An RDMA device; `control` is the low byte of its device control register.
    fn rdma(&self, name: &str, node_type: &str, control: Option<u8>) -> &Self {
        let class = format!("sys/class/infiniband/{name}");
        self.file(&format!("{class}/node_type"), format!("{node_type}\n"));
        self.file(&format!("{class}/fw_ver"), "28.39.1002\n");
        self.file(&format!("{class}/ports/1/state"), "4: ACTIVE\n");
        self.file(&format!("{class}/ports/1/link_layer"), "Ethernet\n");
        self.file(&format!("{class}/ports/1/rate"), "100 Gb/sec (4X EDR)\n");
        let pci = "sys/devices/pci0000:3a/0000:3b:00.0";
        self.file(&format!("{pci}/numa_node"), "1\n");
        let mut config = vec![0; 256];
        (config[6], config[0x34], config[0x60]) = (0x10, 0x60, 0x10);
        config[0x68] = control.unwrap_or(0);
        // Without privileges, the kernel shows 64 bytes.
        self.file(
            &format!("{pci}/config"),
            &config[..if control.is_some() { 256 } else { 64 }],
        );
        self.file("sys/bus/pci/drivers/mlx5_core/bind", "");
        if !self.0.path().join(pci).join("driver").exists() {
            self.link(&format!("{pci}/driver"), "sys/bus/pci/drivers/mlx5_core");
        }
        self.link(&format!("{class}/device"), pci)
    }

    fn facts(&self) -> Facts {
        Facts::collect(&Root::at(self.0.path()), self.0.path())
    }

    /// The facts for a folder on persistent memory.
    fn facts_on_persistent_memory(&self) -> Facts {
        let mut facts = self.facts();
        facts.place.keeping = Some(KeepingFact::PersistentMemory);
        facts.place.map_sync = Some(true);
        facts
    }
}

fn concluded(facts: &Facts) -> stonecast_persist::Platform {
    Conclusion::of(facts).profile.platform()
}

#[test]
fn an_empty_machine_claims_nothing() {
    let facts = Tree::new().facts();
    assert!(
        facts.persistent_regions.is_empty()
            && facts.cxl_memories.is_empty()
            && facts.rdma_devices.is_empty()
    );
    assert_eq!(facts.processor.model, None);
    let platform = concluded(&facts);
    assert!(matches!(
        platform.persistence,
        PersistenceDomain::PageFile | PersistenceDomain::Volatile
    ));
    assert!(
        !platform.atomic_write
            && !platform.trusted_nic_buffers
            && platform.flush == FlushKind::Read
    );
    assert_eq!(platform.ddio, stonecast_media::Ddio::On, "unknown means on");
}

/// Needs the check of every region: a region that saves its caches says nothing of the others.
#[test]
fn caches_survive_only_if_every_region_states_that() {
    let tree = Tree::new();
    tree.region(0, "ACPI.NFIT", Some("cpu_cache"));
    assert_eq!(
        concluded(&tree.facts_on_persistent_memory()).persistence,
        PersistenceDomain::Mhp
    );
    tree.region(1, "ACPI.NFIT", Some("memory_controller"));
    assert_eq!(
        concluded(&tree.facts_on_persistent_memory()).persistence,
        PersistenceDomain::Dmp
    );
    tree.region(2, "e820", None);
    assert_eq!(
        concluded(&tree.facts_on_persistent_memory()).persistence,
        PersistenceDomain::PageFile
    );
    let facts = tree.facts();
    assert_eq!(facts.persistent_regions.len(), 3);
    let region = &facts.persistent_regions[1];
    assert_eq!(
        (region.name.as_str(), region.provider.said()),
        ("region1", Some("ACPI.NFIT"))
    );
    assert_eq!(region.persistence_domain.said(), Some("memory_controller"));
    assert_eq!(
        (region.namespaces.len(), region.namespaces[0].mode.said()),
        (1, Some("fsdax"))
    );
    assert_eq!(facts.persistent_regions[2].persistence_domain, Fact::Absent);
}

/// Needs the check of the folder: persistent memory in the machine is not under every file of the machine.
#[test]
fn persistent_memory_elsewhere_does_not_make_a_folder_persistent_memory() {
    let tree = Tree::new();
    tree.region(0, "ACPI.NFIT", Some("cpu_cache"));
    assert_ne!(concluded(&tree.facts()).persistence, PersistenceDomain::Mhp);
}

#[test]
fn an_empty_persistence_domain_is_unknown_and_not_a_domain() {
    let tree = Tree::new();
    tree.region(0, "ACPI.NFIT", Some(""));
    let facts = tree.facts_on_persistent_memory();
    assert_eq!(facts.persistent_regions[0].persistence_domain.said(), None);
    assert_eq!(concluded(&facts).persistence, PersistenceDomain::PageFile);
    let text = text(&facts, &Conclusion::of(&facts));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("persistence domain unknown (the kernel's file is empty)"),
        "{text}"
    );
}

#[test]
fn cxl_memory_counts_only_with_persistent_bytes() {
    let tree = Tree::new();
    tree.file("sys/bus/cxl/devices/mem0/pmem/size", "0x0\n")
        .file("sys/bus/cxl/devices/mem1/pmem/size", "0x800000000\n");
    let facts = tree.facts();
    assert_eq!(
        facts
            .cxl_memories
            .iter()
            .map(|memory| memory.name.as_str())
            .collect::<Vec<_>>(),
        ["mem1"]
    );
}

#[test]
fn the_kernel_tells_the_protocol_and_the_place_of_an_rdma_device() {
    let tree = Tree::new();
    tree.rdma("mlx5_0", "1: CA", Some(0x2f));
    let facts = tree.facts();
    let device = &facts.rdma_devices[0];
    assert_eq!(
        (device.speaks(), device.driver.as_deref()),
        (Speaks::InfinibandOrRoce, Some("mlx5_core"))
    );
    assert_eq!(
        (device.pci_address.as_deref(), device.numa_node.said()),
        (Some("0000:3b:00.0"), Some("1"))
    );
    assert_eq!(
        (device.ports.len(), device.ports[0].link_layer.said()),
        (1, Some("Ethernet"))
    );
    let platform = concluded(&facts);
    assert_eq!(
        (platform.transport, platform.relaxed_ordering),
        (Transport::InfiniBand, false)
    );
    tree.rdma("cxgb4_0", "4: RNIC", Some(0x2f));
    assert_eq!(
        concluded(&tree.facts()).transport,
        Transport::Iwarp,
        "the weaker promise counts"
    );
}

/// Needs the answer *not seen*: a register that is not shown allows no conclusion.
#[test]
fn relaxed_ordering_is_excluded_only_if_the_register_was_seen() {
    for (control, relaxed) in [(Some(0x2f), false), (Some(0x3f), true), (None, true)] {
        let tree = Tree::new();
        tree.rdma("mlx5_0", "1: CA", control);
        let conclusion = Conclusion::of(&tree.facts());
        assert_eq!(
            conclusion.profile.platform().relaxed_ordering,
            relaxed,
            "{control:?}"
        );
        let declared = conclusion
            .declare
            .iter()
            .any(|declaration| declaration.axis.to_string() == "relaxed_ordering");
        assert_eq!(declared, control.is_none());
    }
}

fn with_abilities(facts: &Facts, all: &[Option<[bool; 2]>]) -> Facts {
    let mut facts = facts.clone();
    let device = facts.rdma_devices.pop().unwrap();
    facts.rdma_devices = all
        .iter()
        .map(|abilities| RdmaDevice {
            abilities: match *abilities {
                Some([flush_persistent, atomic_write]) => Abilities::Seen {
                    flush_global: true,
                    flush_persistent,
                    atomic_write,
                    memory_windows: true,
                },
                None => Abilities::NotSeen("it is away".into()),
            },
            ..device.clone()
        })
        .collect();
    facts
}

/// Needs the check of every device, and the abilities of each: a device that was not seen has neither operation. Also
/// needs the check of the memory: FLUSH with persistence of a file in the page cache contradicts itself.
#[test]
fn flush_and_atomic_write_count_only_if_every_device_has_them() {
    let tree = Tree::new();
    tree.rdma("rxe0", "1: CA", Some(0))
        .region(0, "ACPI.NFIT", Some("memory_controller"));
    let unasked = tree.facts_on_persistent_memory();
    assert!(
        matches!(&unasked.rdma_devices[0].abilities, Abilities::NotSeen(why) if why.contains("folder"))
    );
    let both = Some([true, true]);
    for (devices, flush, atomic_write, declared) in [
        (vec![both], FlushKind::NativePersistent, true, false),
        (
            vec![both, Some([false, true])],
            FlushKind::Read,
            true,
            false,
        ),
        (
            vec![both, Some([true, false])],
            FlushKind::NativePersistent,
            false,
            false,
        ),
        (vec![both, None], FlushKind::Read, false, true),
    ] {
        let facts = with_abilities(&unasked, &devices);
        let conclusion = Conclusion::of(&facts);
        let platform = conclusion.profile.platform();
        assert_eq!(
            (platform.flush, platform.atomic_write),
            (flush, atomic_write),
            "{devices:?}"
        );
        assert_eq!(
            conclusion
                .declare
                .iter()
                .any(|declaration| declaration.axis == Axis::Flush),
            declared,
            "{devices:?}"
        );
        let text = text(&facts, &conclusion);
        assert_eq!(text.contains("it is away"), declared, "{text}");
    }
    let in_page_cache = with_abilities(&tree.facts(), &[both]);
    assert_eq!(concluded(&in_page_cache).flush, FlushKind::Read);
}

#[test]
fn the_processor_has_the_instructions_that_its_flags_name() {
    let tree = Tree::new();
    let info = "processor\t: 0\nmodel name\t: Some Processor @ 2.0GHz\nflags\t\t: fpu clflush sse clwb avx\n";
    tree.file("proc/cpuinfo", info)
        .file("proc/sys/kernel/osrelease", "6.12.1\n");
    let processor = tree.facts().processor;
    assert_eq!(
        (processor.model.as_deref(), processor.write_back),
        (Some("Some Processor @ 2.0GHz"), vec!["clwb", "clflush"])
    );
    assert_eq!(processor.kernel.said(), Some("6.12.1"));
}

#[test]
fn ddio_must_always_be_declared_and_the_profile_names_the_source_of_each_value() {
    let tree = Tree::new();
    tree.rdma("mlx5_0", "1: CA", Some(0))
        .region(0, "ACPI.NFIT", Some("memory_controller"));
    let facts = tree.facts_on_persistent_memory();
    let conclusion = Conclusion::of(&facts);
    let axes: Vec<String> = conclusion
        .declare
        .iter()
        .map(|declaration| declaration.axis.to_string())
        .collect();
    assert_eq!(
        axes,
        [
            "persistence",
            "ddio",
            "flush",
            "atomic_write",
            "trusted_nic_buffers"
        ]
    );
    let ddio = conclusion
        .profile
        .declarations()
        .iter()
        .find(|declared| declared.axis.to_string() == "ddio")
        .unwrap();
    assert_eq!(
        (ddio.value.as_str(), ddio.by.as_str()),
        ("unknown", "nobody")
    );
    let read = stonecast_persist::PlatformProfile::parse("again", &conclusion.text).unwrap();
    assert_eq!(read.platform(), conclusion.profile.platform());
}

#[test]
fn a_folder_that_cannot_be_examined_is_reported_and_nothing_is_concluded_from_it() {
    let tree = Tree::new();
    let facts = Facts::collect(&Root::at(tree.0.path()), Path::new("/nowhere/at/all"));
    assert!(
        facts
            .place
            .error
            .as_ref()
            .unwrap()
            .contains("/nowhere/at/all")
    );
    assert_eq!(concluded(&facts).persistence, PersistenceDomain::Volatile);
}
