//! The simulated world: a provider of verbs in which machines, NICs, links and memories are models, time is virtual,
//! and everything follows from one seed.
//!
//! ```text
//!   World          events in the order of virtual time       world.rs  queue.rs  time.rs
//!     Process      a thread on a core, tasks, timers, a clock             executor.rs  clock.rs
//!       SimDevice  the calls of fabric::Device                            device.rs
//!     Net          NICs, links, queue pairs, messages                     net/
//!     Memory       bytes, and the cost of accesses                    memory.rs  image.rs  cache.rs
//!     Module       bytes that partly outlive power; a place for a pool  persistent/
//!     Faults       fault rates and counts              faults.rs  net/failure.rs
//!     MachineProfile      durations of each part, with sources                    profile.rs
//! ```
//!
//! Protocol code runs on it unchanged, with many processes in one thread. `docs/simulator.md` lists the modelled parts
//! and the omissions; `docs/design/0005-the-simulated-world.md` has the reasons.
//!
//! Invariants: the same seed and the same calls give the same events, in the same order, at the same times
//! ([`World::hash`]); no clock, no thread and no random source but the seed.
#![forbid(unsafe_code)]

mod cache;
mod clock;
mod device;
mod executor;
mod faults;
mod image;
mod machine;
mod memory;
mod net;
mod persistent;
pub mod profile;
mod queue;
mod time;
mod trace;
mod world;

pub use clock::LocalClock;
pub use device::SimDevice;
pub use faults::{Fault, FaultClass, Faults, Reach};
pub use machine::{Features, MachineOptions, RootPort, Transport};
pub use persistent::{Fate, MediumCounts, Module, ReadOrder, SimBacking, Survivor, Wreck};
pub use profile::MachineProfile;
pub use world::{Machine, Process, World};
