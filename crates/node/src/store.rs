//! The store above a node: the calls that a node makes to the store.

use stonecast_backup::Lent;
use stonecast_cluster::{Pending, Term};
use stonecast_log::{Heritage, SegmentState};
use stonecast_replication::{Entry, Lineage, Resigned, Settled};

/// A store that keeps records of shards in a log and an index of its own.
///
/// A node calls the store while the node's own state is borrowed: no method calls the node back.
pub trait Store: 'static {
    /// A call of a client that waits for copies.
    type Call: 'static;

    /// Writes an entry that is on all copies into the store's own log, as a record from elsewhere, and into the index
    /// once the record is durable: no commit waits for the index. Entries of a shard come in the order of their
    /// history, each once in a run. A crash before the next [`Store::commit`] may take the record; the entry comes
    /// again then.
    fn digest(&self, entry: &Entry, body: &[u8]);

    /// Notes the history of `shard`, in place of the earlier one, for the next [`Store::commit`]. A crash leaves one of
    /// the two. The ledger of the intake has the history, too, once it is durable in the store, or as a part of the
    /// same ledger: the intake uses memory again by its floor.
    fn keep(&self, shard: u32, history: &Lineage);

    /// Makes everything durable that was digested, noted or stamped before the call.
    ///
    /// # Errors
    /// The medium failed, and any of these may be durable or not. The node ends.
    fn commit(&self) -> Pending<'_, Result<(), NotDurable>>;

    /// Tells the store that the node serves `shard` in `term`. The history of the shard ends at the version `last`:
    /// later versions are above it.
    fn serves(&self, shard: u32, term: Term, last: u64);

    /// Tells the store that calls of a shard that is served may go on, in this order: the write of such a call is on
    /// all copies, so it is published and answered; or its refusal is answered.
    fn settled(&self, shard: u32, settled: Vec<Settled<Self::Call>>);

    /// Tells the store that the node no longer serves `shard`. The copy stays with the node. Another node may serve the
    /// shard as soon as the call has returned: no client still reads here under a lease of this node.
    fn resigned(&self, shard: u32, resigned: Ended<Self::Call>);

    /// Tells the store that the node no longer keeps a copy of `shard`: the store drops its records, its history and
    /// its outcomes. The drop is durable after the next [`Store::commit`]. A [`Store::keep`] that follows begins an
    /// empty copy. Until then the ledger of the intake has a [dropped](Lineage::dropped) history: no entry of the shard
    /// is needed.
    fn dropped(&self, shard: u32);

    /// A part of everything that is published in `shard` at this moment, for the store of a joiner:
    /// records, and the outcomes of calls with their horizon. The
    /// part begins at `from`, and has about `size` bytes, or one record that is longer. A key that
    /// changes after the part was read does not matter: entries bring the change. A key that does
    /// not change is in one of the parts from 0 on.
    fn page(&self, shard: u32, from: u64, size: usize) -> Page;

    /// Takes the bytes of a page of another node's store. Every key in them is at least as new as
    /// the word that is here. The change is durable after the next
    /// [`Store::commit`].
    fn absorb(&self, shard: u32, page: &[u8]);

    /// Whether the store has room for no more records of other nodes than those that are on their way, and cleaning
    /// makes none. The node tells the primaries, which refuse puts then.
    fn lacks_room(&self) -> bool;

    /// A blank segment, to be filled by appends; `None`: no segment is blank at this moment.
    fn lend(&self) -> Option<Lent>;

    /// Asks for a lent segment, if the store runs short of segments: the log's memory of freed segments goes with the
    /// segment that comes back. So many segments are `spare`, and come back if the store asks.
    fn ask_back(&self, spare: usize) -> Option<Heritage>;

    /// Takes back a segment, which is durably a blank one of records.
    fn take_back(&self, state: SegmentState);
}

/// A part of the published records of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The part, in the words of the store.
    pub bytes: Vec<u8>,
    /// The start of the next part; `None`: this part is the last one.
    pub next: Option<u64>,
    /// Bytes of the parts that follow, as an estimate.
    pub left: u64,
}

/// The calls that waited when a primary ended.
#[derive(Debug)]
pub struct Ended<C> {
    /// Writes that were stamped and are not done. Their outcome is unknown.
    pub unknown: Vec<C>,
    /// Refusals that were not told.
    pub unanswered: Vec<C>,
}

impl<C> Ended<C> {
    /// Nothing waited.
    pub(crate) fn nothing() -> Self {
        Self {
            unknown: Vec::new(),
            unanswered: Vec::new(),
        }
    }

    /// The calls of a primary that resigned, and its copy, which stays with the node.
    pub(crate) fn of(resigned: Resigned<C>) -> (stonecast_replication::ShardCopy, Self) {
        let Resigned {
            copy,
            unknown,
            unanswered,
        } = resigned;
        let ended = Self {
            unknown,
            unanswered,
        };
        (copy, ended)
    }
}

/// The medium of a store failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the medium of the store failed: {reason}")]
pub struct NotDurable {
    /// The words of the medium.
    pub reason: String,
}
