//! Memory that partly outlives power.

mod backing;
mod damage;
mod evictions;
mod lines;
mod medium;
mod memory;
mod module;
mod watch;
mod wreck;

pub use backing::SimBacking;
pub use medium::MediumCounts;
use memory::PersistentMemory;
pub use module::{Module, Survivor};
pub use watch::ReadOrder;
pub use wreck::{Fate, Wreck};
