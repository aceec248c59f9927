//! The front-end's side of a lock domain: the part without I/O, and a session over it.

mod appends;
mod back_end;
mod buffers;
mod cache;
mod error;
mod in_call;
mod mirror_log;
mod reader;
mod recent;
mod served;
mod session_writer;
mod structure_reader;
mod talk;
mod tickets;
mod writer;

pub use back_end::{BackEnd, FRONT_END_COMPLETIONS};
pub use error::FrontEndError;
pub use mirror_log::NoMirrorLog;
pub use reader::Reader;
pub use served::Served;
pub use session_writer::{DomainIdentity, Writer};
pub use structure_reader::StructureReader;
pub(crate) use talk::{Reply, Talk};
pub use tickets::{Publication, Ticket};
pub use writer::{DomainWriter, StageFault, Staged, Staging};
