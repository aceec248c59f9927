//! AsymNVM's evaluation on its machines, in virtual time: the paper's variants beside `structures`.
//!
//! ```text
//!   load.rs       a load on a back-end and its front-ends -> AsymOutcome
//!   published.rs  the published variants in a world       ours.rs   `structures` in a world
//!   cases.rs      the runs that figures share
//!   structures.rs  batches.rs  caches.rs  front_ends.rs  mixes.rs  mirrors.rs  allocator.rs  causes.rs     figures
//!   paper.rs      headlines and page
//! ```

mod allocator;
mod batches;
mod caches;
mod cases;
mod causes;
mod front_ends;
mod load;
mod mirrors;
mod mixes;
mod ours;
mod paper;
mod published;
mod structures;

pub use load::{AsymError, AsymLoad, AsymOutcome, AsymStore, Cached, measure};
pub use paper::PAPER;
