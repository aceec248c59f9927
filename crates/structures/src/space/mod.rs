//! Memory of a domain: slabs, the blocks in them, and the transaction that takes and gives back blocks.
//!
//! ```text
//!   slab   | bits, one for each unit | unit | block of 4 units |  free  | block of 2 units | ...
//! ```
//!
//! The bits of a block change in the transaction that links or unlinks the block. A crash therefore leaves no used
//! block that is unreachable, and no free block that is reachable: no sweep is needed.

mod allocator;
mod clock;
mod clock_map;
mod image;
mod recall;
mod slab;
mod workspace;

pub(crate) use allocator::order_of;
pub use allocator::{Allocator, SpaceFault};
pub(crate) use clock_map::ClockMap;
pub(crate) use image::Mixer;
pub(crate) use recall::Recall;
pub use slab::SlabGeometry;
pub use workspace::{Draft, Workspace};
