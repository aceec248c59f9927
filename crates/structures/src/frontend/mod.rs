//! The front-end's side of a lock domain, without I/O.

mod writer;

pub use writer::{DomainWriter, StageFault, Staged};
