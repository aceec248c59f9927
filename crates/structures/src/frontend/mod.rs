//! The front-end's side of a lock domain, without I/O.

mod served;
mod writer;

pub use served::Served;
pub use writer::{DomainWriter, StageFault, Staged};
