//! Machines of today.

use super::connectx4_taxonomy::SHEET as BASE;
use super::{MachineProfile, Sheet};

pub(super) const PROFILE: MachineProfile = Sheet {
    name: "modern",
    summary: "A server of 2024 with ConnectX-7 at 400 Gb/s; persistent memory is DRAM with a declared battery.",
    nic_message_ps: (3_030, "330 million messages/s, the lower bound of the ConnectX-7 data sheet †"),
    nic_byte_ps: (20, "400 Gb/s NDR"),
    pcie_byte_ps: (16, "PCIe 5.0 x16: 63 GB/s"),
    media_read_byte_ps: (3, "8 channels of DDR5-4800: 307 GB/s"),
    media_write_byte_ps: (3, "8 channels of DDR5-4800: 307 GB/s"),
    ..BASE
}
.profile();
