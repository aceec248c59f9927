//! The machines of AsymNVM.

use super::connectx4_taxonomy::SHEET as BASE;
use super::sources::*;
use super::{MachineProfile, Sheet};

pub(super) const PROFILE: MachineProfile = Sheet {
    name: "connectx3-asymnvm",
    summary: "Xeon E5-2640 v2, 96 GB, ConnectX-3 at 40 Gb/s; persistent memory is DRAM with 200 ns more for a write and the \
              read latency of DRAM (AsymNVM, sections 3.2 and 8.1; digits that the circulating text has lost are restored from its context).",
    nic_message_ps: (28_571, CONNECTX3_RATE),
    nic_byte_ps: (250, QDR),
    wire_ns: (195, SX6036),
    pcie_byte_ps: (127, "PCIe 3.0 x8, the card's interface: 7.88 GB/s"),
    media_write_ns: (257, "57 ns (store, clwb, sfence to DRAM: Izraelevitz et al. †) and 200 ns (AsymNVM, section 3.2)"),
    ..BASE
}
.profile();
