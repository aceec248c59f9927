//! RDMA devices, as the kernel shows them (`Documentation/ABI/stable/sysfs-class-infiniband`).

use serde::Serialize;

use crate::doctor::Abilities;
use crate::doctor::pci::{self, RelaxedOrdering};
use crate::doctor::root::{Fact, Root};

/// An RDMA device.
#[derive(Clone, Debug, Serialize)]
pub struct RdmaDevice {
    /// The kernel's name.
    pub name: String,
    /// The type, such as `1: CA` or `4: RNIC`.
    pub node_type: Fact,
    /// The kernel's driver; none for a software device.
    pub driver: Option<String>,
    /// Firmware version.
    pub firmware: Fact,
    /// The address on the PCI bus; none for a software device.
    pub pci_address: Option<String>,
    /// The NUMA node that the device is close to.
    pub numa_node: Fact,
    /// Whether writes of the device may pass each other on the bus.
    pub relaxed_ordering: RelaxedOrdering,
    /// The device's abilities according to the verbs library.
    pub abilities: Abilities,
    /// The device's ports.
    pub ports: Vec<Port>,
}

/// A port of a device.
#[derive(Clone, Debug, Serialize)]
pub struct Port {
    /// The number, from 1.
    pub number: String,
    /// The state, such as `4: ACTIVE`.
    pub state: Fact,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: Fact,
    /// The rate, such as `100 Gb/sec (4X EDR)`.
    pub rate: Fact,
}

/// The protocols of a device, as far as its node type and its ports show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Speaks {
    /// InfiniBand, or RoCE over Ethernet: completions come from the responder.
    InfinibandOrRoce,
    /// iWARP: completions come from the requester's own transport.
    Iwarp,
    /// The kernel does not state the protocol.
    Unknown,
}

const CLASS: &str = "sys/class/infiniband";

/// The RDMA devices.
pub fn rdma_devices(root: &Root) -> Vec<RdmaDevice> {
    root.names(CLASS, "")
        .into_iter()
        .map(|name| device(root, name))
        .collect()
}

fn device(root: &Root, name: String) -> RdmaDevice {
    let folder = format!("{CLASS}/{name}");
    let port = |number: String| {
        let fact = |file: &str| root.fact(&format!("{folder}/ports/{number}/{file}"));
        Port {
            state: fact("state"),
            link_layer: fact("link_layer"),
            rate: fact("rate"),
            number,
        }
    };
    RdmaDevice {
        node_type: root.fact(&format!("{folder}/node_type")),
        driver: root.link(&format!("{folder}/device/driver")),
        firmware: root.fact(&format!("{folder}/fw_ver")),
        pci_address: root.link(&format!("{folder}/device")),
        numa_node: root.fact(&format!("{folder}/device/numa_node")),
        relaxed_ordering: pci::relaxed_ordering(root, &format!("{folder}/device/config")),
        abilities: Abilities::of(root, &name),
        ports: root
            .names(&format!("{folder}/ports"), "")
            .into_iter()
            .map(port)
            .collect(),
        name,
    }
}

impl RdmaDevice {
    /// The protocols of the device; see [`Speaks`].
    pub fn speaks(&self) -> Speaks {
        match self
            .node_type
            .said()
            .and_then(|node_type| node_type.split(':').next())
        {
            Some("1") => Speaks::InfinibandOrRoce,
            Some("4") => Speaks::Iwarp,
            _ => Speaks::Unknown,
        }
    }
}
