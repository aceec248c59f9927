//! Data structures in the memory of a *back-end*, which programs use as if they were their own: ordered indexes,
//! dictionaries, queues and stacks, durable, with one writer each and any number of readers in any process.
//!
//! ```
//! use stonecast::Durability;
//! use stonecast::structures::{self, BTree, Server};
//!
//! # let folder = tempfile::tempdir()?;
//! // Or, from the command line: stonecast serve --structures DIR
//! let server = Server::builder(folder.path().join("pool"))
//!     .durability(Durability::Process)
//!     .capacity(32 << 20)
//!     .serve()?;
//! let connection = structures::connect(&server.address().to_string())?;
//! connection.run(async |session| {
//!     let mut orders = session.writer::<BTree<u64, String>>("orders").await?; // a lease: one writer at a time
//!     orders.insert(&7, &"two pins".to_owned()).await?; // durable and visible
//!     let ticket = orders.stage(&8, &"a hammer".to_owned()).await?;
//!     ticket.await?; // durable
//!     orders.publish().await?; // visible
//!
//!     let mut seen = session.reader::<BTree<u64, String>>("orders").await?; // any process, any number
//!     assert_eq!(seen.get(&7).await?.as_deref(), Some("two pins"));
//!     let all = seen.range(5..9).collect().await?;
//!     assert_eq!(all.len(), 2);
//!     Ok::<(), structures::Error>(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which structure
//!
//! | for | structure | READs of a look-up, warm |
//! | --- | --- | --- |
//! | single keys | [`HashTable`] | 2 |
//! | order, ranges | [`BTree`] | 1 |
//! | order, with answers of one version | [`MvBTree`] | 1, and 3 for a new version |
//! | jobs between processes | [`Queue`] | |
//! | the latest first | [`Stack`] | |
//!
//! A reader asks no processor but its own: it reads the memory of the back-end. A writer executes its updates itself,
//! and appends them to a log in that memory. If the writer dies, the back-end executes updates that were acknowledged
//! and not published.
//!
//! # Several back-ends
//!
//! [`connect_all`] connects to several back-ends. A structure with keys is then spread over all of them by the hashes
//! of its keys ([`Sessions::writer`]): each has a partition with a lease and a log of its own. The number of partitions
//! and the seed of the hash stand in the names of the parts, so a client that names other back-ends, or in another
//! order, is refused ([`Error::Partition`]). A transaction lies in one partition.
//!
//! # Mirrors
//!
//! A back-end that is gone for good takes everything with it, unless another server holds a copy ([`Builder::mirror`],
//! [`Builder::as_mirror`]): then nothing is acknowledged before it is durable in both. [`promote`] makes the mirror the
//! back-end, and the old back-end may return as its mirror. Nothing is acknowledged without the mirror either: a
//! back-end that has lost it ends ([`MirrorError::Lost`]), and goes on once the mirror is back, or once the pool is
//! detached from it ([`detach`]).
//!
//! # What a crash leaves
//!
//! Everything that a ticket or a return has acknowledged, as the pool declares: it survives power loss, or otherwise
//! the death of every process. An update that was not acknowledged is done as a whole or not at all.
//!
//! A writer that is silent for longer than its lease loses its tenure ([`Error::TenureOver`]); [`Writer::renew`] is the
//! least that it has to say.

mod attempt;
mod blocking;
mod domain;
mod error;
mod mirror;
mod offline;
mod partitions;
mod pool;
mod reader;
mod server;
mod session;
mod snapshot;
mod tally;
mod types;
mod update;
mod writer;

pub use attempt::{Attempt, Once};
pub use blocking::{
    BlockingDomain, BlockingRange, BlockingReader, BlockingSession, BlockingSnapshot,
    BlockingWriter, connect_blocking,
};
pub use domain::{Domain, Member, Outcome, Part, Transaction};
pub use error::Error;
pub use mirror::{MirrorError, promote, promote_over};
pub use offline::{detach, verify};
pub use partitions::{
    Connections, KeyOnce, PartitionedReader, PartitionedTransaction, PartitionedWriter, Sessions,
    connect_all,
};
pub use reader::{Range, Reader, Rest};
pub use server::{Builder, End, Server, ServerHandle};
pub use session::{Connection, DomainState, Listed, Metrics, Session, connect};
pub use snapshot::Snapshot;
pub use stonecast_structures::shapes::StructureKind;
pub use stonecast_structures::{
    AttachError, BackEndStat, ConnectError, DetachError, DomainName, DomainStat, FrontEndError,
    MirrorLost, MirrorStat, Mismatch, NoAgreement, PromoteError, ReaderCounts, StandingError,
    SurveyedDomain,
};
pub use types::{
    BTree, Entry, HashTable, Key, Keyed, MvBTree, Ordered, Queue, Sequence, Shape, Stack, Value,
    Versioned,
};
pub use writer::{Ticket, Writer};
#[doc(hidden)]
pub use zerocopy;

/// Structures that published systems measure. A program should take one of the others.
pub mod classic {
    pub use super::types::{Bst, MvBst, SkipList};
}
