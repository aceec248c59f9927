//! Verbs between machines from the outside. The tests of the control plane run everywhere. Tests that need an RDMA
//! device take its name from `STONECAST_RDMA_DEVICES` (several with commas between), and persistent memory for it (a
//! devdax character device) from `STONECAST_DAX`. Without them the tests are reported as not run.

#[cfg(feature = "verbs")]
mod appender;
#[cfg(feature = "verbs")]
mod clock;
#[cfg(feature = "verbs")]
mod contract;
mod control;
#[cfg(feature = "verbs")]
mod device;
#[cfg(feature = "verbs")]
mod files;
#[cfg(feature = "verbs")]
#[path = "../../../fabric/tests/it/foreign_wakes.rs"]
mod foreign_wakes;
#[cfg(feature = "verbs")]
mod huge_pages;
#[cfg(feature = "verbs")]
mod pairs;
#[cfg(feature = "verbs")]
#[path = "../../../fabric-shm/tests/it/pause.rs"]
mod pause;
#[cfg(feature = "verbs")]
mod protection_domains;
#[cfg(feature = "verbs")]
mod quiesced;
#[cfg(feature = "verbs")]
#[path = "../../../fabric/tests/it/time_namespace.rs"]
mod time_namespace;
#[cfg(feature = "verbs")]
mod wakes;
#[cfg(feature = "verbs")]
mod world;
