//! The front-end's side of a lock domain: what needs no I/O, and a session that does it.

mod served;
mod session;
mod writer;

pub use served::Served;
pub use session::{BackEnd, FRONT_END_COMPLETIONS, FrontEndError, Reader, Writer};
pub use writer::{DomainWriter, StageFault, Staged};
