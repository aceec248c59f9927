//! Commands: their table, their meaning, and their execution.
//!
//! ```text
//!   table.rs      names, arity, flags            parse.rs, options.rs   arguments -> operation.rs
//!   step.rs       pipeline -> steps              batch.rs, run.rs       step after step, replies in order
//!   read.rs       many keys at once              write.rs, combine.rs   puts, compare-and-put
//!   value.rs, patch.rs   the effect of a command on a value, without a store
//!   transaction.rs   commands between MULTI and EXEC      exec.rs   EXEC, WATCH, MSETNX: several keys at once
//!   transfer.rs      RENAME, RENAMENX, COPY               wait.rs   WAIT, WAITAOF
//!   permission.rs    rights of users to commands and keys      acl.rs   ACL
//!   control.rs    connection, server (info.rs, describe.rs, session.rs), all keys (keyspace.rs, scans.rs)
//! ```

mod acl;
mod backend;
mod batch;
mod clients;
mod combine;
mod context;
mod control;
mod describe;
mod error;
mod exec;
mod expiry;
mod info;
mod key_places;
mod keyspace;
mod long_double;
mod object;
mod operation;
mod options;
mod parse;
mod patch;
mod permission;
mod read;
mod reply;
mod run;
mod scans;
mod session;
mod step;
mod store;
mod table;
mod transaction;
mod transfer;
mod value;
mod wait;
mod write;

pub use backend::Backend;
pub use batch::Run;
pub use context::{Context, Scratch};
pub use operation::{Arguments, Operation};
pub use run::run_batch;
pub use session::Session;
pub use store::{Store, UnderWay};
pub use table::{COMMAND_COUNT, COMMANDS, CommandGroup, Id, Spec, find};
