//! The machines of Erda.

use super::connectx4_taxonomy::SHEET as BASE;
use super::sources::*;
use super::{MachineProfile, Sheet};

pub(super) const PROFILE: MachineProfile = Sheet {
    name: "connectx3-erda",
    summary: "Two Xeon E5620, 12 GB DDR3, ConnectX-3 at 40 Gb/s; persistent memory is DRAM with 150 ns more for a write \
              (Erda, section 5.1).",
    nic_message_ps: (28_571, CONNECTX3_RATE),
    nic_byte_ps: (250, QDR),
    wire_ns: (195, SX6036),
    pcie_byte_ps: (250, "PCIe 2.0 x8, which an E5620 has: 4 GB/s"),
    media_write_ns: (207, "57 ns (store, clwb, sfence to DRAM: Izraelevitz et al. †) and 150 ns (Erda, section 5.1)"),
    media_read_byte_ps: (39, "3 channels of DDR3-1066: 25.6 GB/s"),
    media_write_byte_ps: (39, "3 channels of DDR3-1066: 25.6 GB/s"),
    ..BASE
}
.profile();
