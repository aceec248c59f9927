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
//! | jobs between processes | [`Queue`], and a [`Consumer`] whose jobs outlive its death | |
//! | the latest first | [`Stack`] | |
//!
//! A reader reads the memory of the back-end, and uses no processor there. A writer executes its updates itself, and
//! appends the updates to a log in that memory. If the writer dies, the back-end executes the updates that were
//! acknowledged and not published.
//!
//! # Several back-ends
//!
//! [`connect_all`] connects to several back-ends. A structure with keys is then spread over all of them by the hashes
//! of its keys ([`Sessions::writer`]): each has a partition with a lease and a log of its own. The number of partitions
//! and the seed of the hash stand in the names of the parts, so a client that names other back-ends, or the same ones
//! in another order, is refused ([`Error::Partition`]). A transaction lies in one partition.
//!
//! # Mirrors
//!
//! If a back-end is lost forever, so is everything in its memory, unless another server holds a copy
//! ([`Builder::mirror`], [`Builder::as_mirror`]): then nothing is acknowledged before it is durable in both.
//! [`promote`] makes the mirror the back-end, and the old back-end may return as its mirror. Nothing is acknowledged
//! without the mirror either: a back-end that has lost it ends ([`MirrorError::Lost`]), and goes on once the mirror is
//! back, or once the pool is detached from it ([`detach`]).
//!
//! With a store that both servers name ([`Builder::cluster`]) a *standing record* decides: a mirror whose back-end is
//! silent for its lease promotes itself, and [`detach_recorded`] is refused if it did.
//!
//! # After a crash
//!
//! Everything that a ticket or a return has acknowledged, as the pool declares: it survives power loss, or otherwise
//! the death of every process. An update that was not acknowledged is done as a whole or not at all.
//!
//! A writer that is silent for longer than its lease loses its tenure ([`Error::TenureOver`]). A writer without updates
//! calls [`Writer::renew`] to keep its tenure.

mod attempt;
mod blocking;
mod consumer;
mod domain;
mod error;
mod look;
mod member;
mod mirror;
mod offline;
mod partitions;
mod pool;
mod publication;
mod reader;
mod scan;
mod server;
mod session;
mod snapshot;
mod standing;
mod tally;
mod types;
mod update;
mod writer;

pub use attempt::{Attempt, Once};
pub use blocking::{
    BlockingConsumer, BlockingDomain, BlockingOnce, BlockingRange, BlockingReader, BlockingScan,
    BlockingSession, BlockingSnapshot, BlockingWriter, connect_blocking,
};
pub use consumer::{Consumer, TakenJob};
pub use domain::{Domain, Outcome, Part, Transaction};
pub use error::Error;
pub use look::{Found, Look, Looked};
pub use member::Member;
pub use mirror::{MirrorError, promote, promote_over};
pub use offline::{Verified, detach, detach_recorded, verify, verify_watched};
pub use partitions::{
    Connections, KeyOnce, PartitionedReader, PartitionedTransaction, PartitionedWriter, Sessions,
    connect_all,
};
pub use publication::Publication;
pub use reader::{Range, Reader, Rest};
pub use scan::Scan;
pub use server::{Builder, End, Server, ServerHandle};
pub use session::{Connection, DomainState, Listed, Metrics, Session, connect};
pub use snapshot::Snapshot;
pub use standing::StandingNotes;
pub use stonecast_structures::shapes::StructureKind;
pub use stonecast_structures::{
    AttachError, BackEndStat, ConnectError, DetachError, DomainName, DomainStat, FrontEndError,
    MirrorLost, MirrorStat, Mismatch, NoAgreement, NoMirrorLog, PromoteError, ReaderCounts,
    Replayed, StandingError, StandingFault, StandingRecordError, StoreStat, SurveyedDomain,
};
pub use types::{
    BTree, Cursor, Entry, HashTable, Key, Keyed, MvBTree, Ordered, Queue, Sequence, Shape, Stack,
    Value, Versioned,
};
pub use writer::{Ticket, Writer};
#[doc(hidden)]
pub use zerocopy;

/// Structures that published systems measure. A program should use one of the other structures.
pub mod classic {
    pub use super::types::{Bst, MvBst, SkipList};
}
