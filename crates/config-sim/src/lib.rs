//! A configuration store in the simulated world: a service on machines of its own, behind messages.
//!
//! ```text
//!   SimConfigStore   a caller's side: implements ConfigStore, tries one seat after the other          store.rs
//!        |  one connection for each call, one SEND each way                                           wire.rs
//!   seats            processes that accept, one on each machine of the service; one of them leads     seat.rs
//!        |
//!   Council          decisions of the seats, and compare-and-sets that are undecided                  council.rs
//!   ConfigService    starts the seats; the driver of the world lets it fail over                      service.rs
//! ```
//!
//! Messages travel over the simulated network, so delays, partitions and the deaths of machines reach the service as
//! they reach everything else. [`ServiceFaults`] adds the faults that belong to a service: answers that are lost or
//! late, compare-and-sets that take effect after their callers gave up, and the service's own failover
//! ([`ConfigService::fail_over`]).
//!
//! The agreement protocol of the seats is not simulated. The seats share one state, as if each decision took one
//! moment, and a failover decides by the seed which of the undecided compare-and-sets the next leader has. The seats
//! therefore never contradict each other, and a partition between them has no effect.
//!
//! Invariants: one seat at most leads; a value is read, and a compare-and-set decided, by the seat that leads at that
//! moment, so the store is linearizable under every fault.
#![forbid(unsafe_code)]

mod council;
mod faults;
mod seat;
mod service;
mod store;
mod wire;

pub use faults::ServiceFaults;
pub use service::{ConfigService, ServiceOptions};
pub use store::SimConfigStore;
