//! AsymNVM: data structures in the persistent memory of passive back-ends, as published.
//!
//! ```text
//!   Writer     a policy (naive, R, RC, RCB, Symmetric) over the traversals of `structures`       writer.rs  view.rs  cache.rs
//!   Reader     retries by the sequence number, or follows the root word                           reader.rs
//!   tables     several structures under one lock                                                   tables.rs
//!   Session    READs, WRITEs, operation log, memory log, write lock with its lock-ahead log       session.rs  lock.rs
//!   BackEnd    checks and applies memory logs, counts the sequence number, gives blocks           back_end.rs  blocks.rs
//! ```
//!
//! Where the paper leaves a choice, `docs/design/0043-asymnvm-as-published.md` says what was chosen. Its flaws stay.
//!
//! Source: T. Ma, M. Zhang, K. Chen, X. Qian, Z. Song, Y. Wu, *A Case for Asymmetric Non-Volatile Memory Architecture*.

mod back_end;
mod blocks;
mod cache;
mod layout;
mod lock;
mod log;
mod reader;
mod session;
mod tables;
mod view;
mod writer;

pub use back_end::AsymBackEnd;
pub use blocks::{BlockClient, TwoTier};
pub use cache::{CacheOptions, Policy};
pub use layout::AsymLayout;
pub use lock::{LockedRead, SnRule};
pub use log::{MemoryLog, OperationLog};
pub use reader::AsymReader;
pub use session::{ASYM_COMPLETIONS, AsymSession, SessionCounts};
pub use writer::{AsymWriter, Change, Variant, WriterCounts, WriterOptions};
