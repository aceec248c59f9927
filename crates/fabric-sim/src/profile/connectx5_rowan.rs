//! The machines of Rowan-KV.

use super::connectx4_taxonomy::SHEET as BASE;
use super::{MachineProfile, Sheet};

pub(super) const PROFILE: MachineProfile = Sheet {
    name: "connectx5-rowan",
    summary: "Xeon Gold 6240M, ConnectX-5 at 100 Gb/s, 3 Optane DIMMs of 256 GB (Rowan, evaluation slides).",
    nic_message_ps: (5_000, "200 million messages/s: ConnectX-5 VPI product brief †"),
    media_read_ns: (305, "random loads of Optane take 305 ns: Izraelevitz et al., arXiv 1903.05714; about three times DRAM's"),
    media_write_ns: (62, "store, clwb, sfence to Optane: Izraelevitz et al. †; about DRAM's"),
    media_read_byte_ps: (56, "18 GB/s from 3 DIMMs (Rowan, evaluation slides)"),
    media_write_byte_ps: (167, "6 GB/s to 3 DIMMs (Rowan, evaluation slides)"),
    media_block_bytes: (256, "XPLine: Yang et al., FAST 2020 †"),
    media_buffer_bytes: (
        20_480,
        "XPBuffer of 16 KiB (Yang et al., FAST 2020 †) and the queue of 4 KiB before it, which combines too (Wang et al., \
         MICRO 2020 †); those of one DIMM, with three no number of streams near 144 gives the published amplification",
    ),
    ..BASE
}
.profile();
