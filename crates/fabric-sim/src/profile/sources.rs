//! Sources that several profiles name.
//!
//! "Breaking Band" is Zambre et al., ICPP 2019: where the time of a message goes, measured with a logic analyser on
//! PCIe.

pub(super) const BREAKING_BAND_POST: &str =
    "posting takes 175 ns, less the 28 ns for the descriptor: Breaking Band †";
pub(super) const BREAKING_BAND_SETUP: &str =
    "building the message descriptor, 27.8 ns: Breaking Band †";
pub(super) const BREAKING_BAND_POLL: &str =
    "62 ns to take a completion (Breaking Band †), of which a third once for each look";
pub(super) const BREAKING_BAND_PCIE: &str = "PCIe one way, 137.5 ns: Breaking Band †";
pub(super) const BREAKING_BAND_WIRE: &str =
    "275 ns from NIC to NIC (Breaking Band †), less 25 ns of cable, in two NICs";
pub(super) const BREAKING_BAND_READ: &str =
    "PCIe there and back and 241 ns from root complex to memory: Breaking Band †";
pub(super) const BREAKING_BAND_WRITE: &str =
    "PCIe one way and 241 ns from root complex to memory: Breaking Band †";
pub(super) const ASSUMED_TASK: &str = "assumed: a queue operation and an indirect call";
pub(super) const ASSUMED_NOTICE: &str =
    "assumed: half a round of a poll loop and a read from the last-level cache";
pub(super) const ASSUMED_WRITE_BACK: &str =
    "assumed: issue only, the latency is that of the medium";
pub(super) const ASSUMED_CM: &str =
    "assumed: the kernels of both sides take part; no figure depends on it";
pub(super) const L1: &str = "5 cycles at 3.3 GHz: Intel optimization reference manual †";
pub(super) const STREAM: &str =
    "64 bytes at 12 GB/s, what one core streams, measured (Sapphire Rapids)";
pub(super) const CONNECTX3_RATE: &str = "35 million messages/s: ConnectX-3 VPI product brief †";
pub(super) const QDR: &str = "40 Gb/s QDR with 8b/10b coding: 32 Gb/s of data";
pub(super) const SX6036: &str = "switch 170 ns (SX6036 product brief †) and 5 m of cable at 5 ns/m";
