//! Data structures in the persistent memory of a *back-end*. A *front-end* works on them as if they were its own: one
//! writer for each lock domain, and any number of readers.
//!
//! ```text
//!   front-end  operation ──▶ ┌───────────── log of the tenure ─────────────┐
//!              transaction ─▶│ op 1 │ op 2 │ transaction 1..2 │ op 3 │     │
//!                            └──────┴──────┴────────┬─────────┴──────┴─────┘
//!   back-end                     persist, then apply │ executes op 3 if the front-end dies
//!                                                    ▼
//!                            slabs of the domain: nodes, items, chunks
//! ```
//!
//! `docs/design/0040-structures.md` has the decisions, `docs/formats/structures.md` the bytes. The design page says
//! which parts exist.
#![forbid(unsafe_code)]

mod backend;
mod execution;
mod executor;
mod frontend;
mod mirror;
mod service;
pub mod shapes;
mod space;
mod standing_record;
mod survey;
mod tenure;
mod wire;

pub use backend::{
    Copying, Domain, DomainError, DomainPlace, Execute, Grant, HandedOver, Leftover, Medium,
    Mirror, MirrorLost, PAGE_SIZE, PoolGeometry, Raised, Replayed, StandingError, Stopped,
    StructurePool, Taken, Territory,
};
pub use executor::Executor;
pub use frontend::{
    BackEnd, DomainIdentity, DomainWriter, FRONT_END_COMPLETIONS, FrontEndError, NoMirrorLog,
    Publication, Reader, Served, StageFault, Staged, Staging, StructureReader, Ticket, Writer,
};
pub use mirror::{
    AttachError, DetachError, MirrorLink, MirrorServer, PromoteError, Promoted, detach,
    generation_of_mirror, promote,
};
pub use service::{SERVICE_COMPLETIONS, Service, ServiceError};
pub use space::{Allocator, Draft, SlabGeometry, SpaceFault, Workspace};
pub use standing_record::{StandingFault, StandingRecord, StandingRecordError, StandingStore};
pub use stonecast_persist::execute::NoAgreement;
pub use stonecast_session::{ConnectError, Mismatch};
pub use survey::{SurveyedDomain, survey};
pub use tenure::{Append, LogArea, LogFull, LogScan, Mark, TenureWriter};
pub use wire::{
    BODY_SIZE_MAX, BackEndStat, Chain, Comparison, DomainName, DomainStat, ENTRY_SIZE_MAX, Entries,
    Entry, EntryFault, FrontEndName, Group, HEADER_SIZE, Key, KeyFault, Kind, LogKey, MirrorStat,
    Operation, OperationFault, Pointer, ReaderCounts, Record, RecordFault, RecordHeader, Run,
    StoreStat, UNIT_SIZE, Verb, record_size,
};
