//! The agreement of front-ends and back-end: pointers, keys, records of a tenure's log and their content.

mod counts;
mod entry;
mod holder;
mod key;
mod message;
mod name;
mod operation;
mod pointer;
mod record;
mod run;
mod text;

pub use counts::{BackEndStat, MirrorStat, ReaderCounts, StoreStat};
pub(crate) use entry::parse as parse_entries;
pub use entry::{ENTRY_SIZE_MAX, Entries, Entry, EntryFault};
pub use holder::FrontEndName;
pub use key::{Key, KeyFault};
pub use message::DomainStat;
pub(crate) use message::{
    Answer, GREETING, MESSAGE_SIZE_MAX, REQUEST_SIZE_MAX, REQUESTS_MAX, Request, SLABS_MAX,
    SPANS_MAX, Source,
};
pub use name::DomainName;
pub(crate) use name::NAME_SIZE;
pub use operation::{Comparison, Group, Operation, OperationFault, Verb};
pub use pointer::{Pointer, UNIT_SIZE};
pub use record::{
    BODY_SIZE_MAX, Chain, HEADER_SIZE, Kind, LogKey, Record, RecordFault, RecordHeader, record_size,
};
pub use run::Run;
