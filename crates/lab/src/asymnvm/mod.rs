//! AsymNVM's evaluation on its machines, in virtual time: the paper's variants beside `structures`.
//!
//! ```text
//!   load.rs       a load on a back-end and its front-ends -> AsymOutcome
//!   published.rs  the published variants in a world       ours.rs   `structures` in a world
//!   cases.rs      the runs that figures share
//!   structures.rs  ratios.rs  causes.rs  layouts.rs  batches.rs  caches.rs  readers.rs  lock.rs  front_ends.rs  mixes.rs  partitions.rs  mirrors.rs  allocator.rs
//!                 figures
//!   applications/  SmallBank and TATP
//!   headlines.rs  published values beside measured ones, with reasons     paper.rs  the page
//! ```

mod allocator;
mod applications;
mod batches;
mod caches;
mod cases;
mod causes;
mod front_ends;
mod headlines;
mod layouts;
mod load;
mod lock;
mod mirrors;
mod mixes;
mod ours;
mod paper;
mod partitions;
mod published;
mod ratios;
mod readers;
mod structures;

pub use applications::{
    Application, ApplicationLoad, ApplicationOutcome, Mistake, Trial, TrialFault,
    measure_application, try_application,
};
pub use load::{AsymError, AsymKeys, AsymLoad, AsymOutcome, AsymStore, Cached, measure};
pub use paper::PAPER;
