//! Membership of a cluster: the copies of each group, their primaries, and the time for which a node may rely on both.
//!
//! ```text
//!   configuration   one value: nodes and groups, with a nonce and an epoch         data; checked whenever it is read
//!   changes         configuration -> next configuration                            pure; each gives the next epoch
//!   give_up         the change by which an operator gives up a group whose copies are lost
//!   requests        requests of an operator: nodes added, drained, removed, copies moved      pure; nodes act on it
//!   placement       nodes -> copies of each shard                                  pure
//!   document        configuration <-> bytes, with a format version and a tag
//!   store           trait ConfigStore: read, compare-and-set, watch                files, etcd, the simulated world
//!   contract        the promises of every store, as stories
//!   create          the first configuration of a store, which nothing overwrites
//!   change          read, change, compare-and-set, until the change is decided
//!   overview        configuration -> its state for people, and its needs           pure
//!
//!   timing          the length of a lease on two clocks that drift
//!   grants          leases that a copy gives to primaries
//!   primary_lease   the lease that a primary has from all copies in sync
//!   reader_lease    the lease that a primary gives to a reader, within the primary's lease
//!   epochs          the epoch of a node, durable before the node answers in it
//!   eligibility     the decision whether the pool of a node that starts is a copy
//! ```
//!
//! The crate knows no record and no store: a group is a range of key hashes, or a back-end by name. The crate has no
//! clock, no thread and no socket: every function takes the time from its caller, and a [`ConfigStore`] brings its own
//! input and output. The simulated world and real processes therefore run the same code.
//!
//! `docs/design/0032-membership.md` has the decisions.
#![forbid(unsafe_code)]

mod change;
mod changes;
mod check;
mod configuration;
#[cfg(feature = "contract")]
pub mod contract;
mod create;
mod document;
mod eligibility;
mod epochs;
mod give_up;
mod grants;
mod name;
mod overview;
mod placement;
mod primary_lease;
mod reader_lease;
mod requests;
mod shards;
mod store;
mod timing;

pub use change::{ChangeError, Writer, change};
pub use changes::Refusal;
pub use check::Inconsistency;
pub use configuration::{
    Attempt, Configuration, ConfigurationId, Epoch, Group, HashSeed, Node, NodePlatform, NodeState,
    Nonce, Policy, Subject, Term,
};
pub use create::{CreateError, create};
pub use document::DocumentError;
pub use eligibility::{Found, FoundCopy, NotACopy, Start, Survived};
pub use epochs::{EpochCell, Epochs, Known, RaiseError, Stale};
pub use grants::{GrantRefused, Grants};
pub use name::{InvalidName, NodeName};
pub use overview::{Held, Need, Overview, Placement};
pub use placement::{NotPlaced, place};
pub use primary_lease::{Asked, PrimaryLease};
pub use reader_lease::{BegunRead, ReaderLease, ReaderOffer};
pub use shards::HashRange;
pub use store::{ConfigStore, Pending, Revision, StoreError, Stored, Swap, VALUE_SIZE_MAX};
pub use timing::Timing;
