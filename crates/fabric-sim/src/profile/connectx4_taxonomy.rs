//! The machines of the taxonomy of remote persistence. Their parts were measured most thoroughly, so the other profiles
//! name only the differences.

use super::sources::*;
use super::{MachineProfile, Sheet};

pub(super) const PROFILE: MachineProfile = SHEET.profile();

pub(super) const SHEET: Sheet = Sheet {
    name: "connectx4-taxonomy",
    summary: "Two Xeon E5-2600, 48 GB, ConnectX-4 at 100 Gb/s; persistent memory is DRAM (taxonomy, section 4).",
    cpu_post_ns: (147, BREAKING_BAND_POST),
    cpu_work_request_ns: (28, BREAKING_BAND_SETUP),
    cpu_poll_ns: (20, BREAKING_BAND_POLL),
    cpu_completion_ns: (42, BREAKING_BAND_POLL),
    cpu_task_ns: (30, ASSUMED_TASK),
    cpu_notice_ns: (40, ASSUMED_NOTICE),
    cpu_hit_ps: (1_500, L1),
    cpu_stream_ps: (5_300, STREAM),
    cpu_write_back_ns: (5, ASSUMED_WRITE_BACK),
    cpu_fence_ns: (10, ASSUMED_WRITE_BACK),
    nic_doorbell_ns: (137, BREAKING_BAND_PCIE),
    nic_message_ps: (
        6_667,
        "150 million messages/s: ConnectX-4 VPI product brief †",
    ),
    nic_atomic_ps: (0, "no source: they are bounded as all messages are"),
    nic_processing_ns: (125, BREAKING_BAND_WIRE),
    nic_byte_ps: (80, "100 Gb/s EDR"),
    nic_mtu_bytes: (4096, "largest InfiniBand MTU"),
    nic_inline_bytes: (64, "what Rowan's public artefact sends inline"),
    nic_non_posted_max: (16, "`max_qp_rd_atom` of the mlx4 and mlx5 drivers †"),
    nic_give_up_ns: (
        536_870_912,
        "timeout 14 (67 ms), retry_cnt 7, as in Rowan's public artefact",
    ),
    wire_ns: (
        133,
        "one switch (an SB7700: taxonomy, section 4) at 108 ns (Breaking Band †) and 5 m of cable at 5 ns/m",
    ),
    pcie_read_ns: (515, BREAKING_BAND_READ),
    pcie_write_ns: (378, BREAKING_BAND_WRITE),
    pcie_byte_ps: (64, "PCIe 3.0 x16: 15.75 GB/s"),
    cm_message_ns: (100_000, ASSUMED_CM),
    dram_read_ns: (
        101,
        "random loads of DRAM: Izraelevitz et al., arXiv 1903.05714 †; a third of Optane's there",
    ),
    media_read_ns: (
        101,
        "DRAM stands for persistent memory (taxonomy, section 4)",
    ),
    media_write_ns: (57, "store, clwb, sfence to DRAM: Izraelevitz et al. †"),
    media_read_byte_ps: (20, "4 channels of DDR3-1600: 51.2 GB/s"),
    media_write_byte_ps: (20, "4 channels of DDR3-1600: 51.2 GB/s"),
    media_block_bytes: (64, "DRAM writes lines"),
    media_buffer_bytes: (64, "DRAM combines no writes"),
    file_sync_ns: (
        89_000,
        "fdatasync after 4 KiB on a virtio disk, measured (2 virtual processors, ext4, Linux 6.18)",
    ),
    file_sync_byte_ps: (400, "fdatasync after 64 KiB and 1 MiB there"),
};
