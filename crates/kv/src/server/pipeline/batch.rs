//! Requests that arrived together, and their state up to their answers.

use stonecast_fabric::QueuePair;
use stonecast_lineage::Term;
use stonecast_log::{Condition, Expiry, Form, Kind, record_size_until};

use super::bundle::parts::{Bundle, Expected};
use super::bytes::Bytes;
use crate::metrics::ClientPath;
use crate::server::journal::Placed;
use crate::server::shard::Change;
use crate::wire::{Answer, Route, Verdict, Word};

/// Requests in the order of their arrival. Records are checked and decided on a copy: memory that a client can still
/// write is read only once.
#[derive(Default)]
pub(super) struct RequestBatch {
    pub items: Vec<Item>,
    pub writes: Vec<Write>,
    /// Those of these writes that are done together, in order.
    pub bundles: Vec<Bundle>,
    pub expected: Vec<Expected>,
    /// Copies of the arrived records, and keys of deletes.
    pub bytes: Bytes,
}

/// A request that awaits its answer.
pub(super) struct Item {
    pub qp: QueuePair,
    pub path: ClientPath,
    pub owed: Owed,
}

/// The answer that a batch owes for a request.
pub(super) enum Owed {
    /// The verdict on the write with this number in the batch.
    Write(usize),
    /// The verdict on the bundle with this number.
    Bundle(usize),
    Answer(Answer),
    /// The end of the lease in this slot, after all earlier writes.
    Release(u8),
    Outcome(Question),
}

/// The question for the outcome of an earlier write.
#[derive(Clone, Copy)]
pub(super) struct Question {
    /// The shard of the write's key, and the term in which the client asks.
    pub shard: u32,
    pub term: Term,
    pub token: u64,
    /// The latest version that the client knew.
    pub since: u64,
}

/// A put or delete in progress.
pub(super) struct Write {
    pub source: Source,
    pub kind: Kind,
    pub content: Content,
    pub condition: Condition,
    pub token: u64,
    pub route: Route,
    /// Key and value in `Batch::bytes`.
    pub key: (usize, usize),
    pub value: (usize, usize),
    pub verdict: Verdict,
    /// The new version if done, or the present version after a conflict.
    pub version: u64,
    pub words: Words,
    pub on_node: OnNode,
}

/// The form and the moment of a record, beside its key and value.
#[derive(Default)]
pub(super) struct Content {
    /// The part of a value that a put holds.
    pub form: Form,
    /// The moment from which on the key of a put is absent, or the mark that a delete carries.
    pub expires: Option<Expiry>,
}

impl Content {
    /// Whether this is a whole value that does not expire, or a delete: every pool takes such records.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.form == Form::Whole && self.expires.is_none()
    }
}

/// The words of the index that a write concerns.
pub(super) struct Words {
    /// The word that names the record, and the segment of the record, once stamped.
    pub own: Word,
    pub segment: u32,
    /// The earlier word, if this write has claimed it.
    pub claimed: Option<Word>,
}

impl Default for Words {
    fn default() -> Self {
        Self {
            own: Word::EMPTY,
            segment: 0,
            claimed: None,
        }
    }
}

/// The part of a write that a node has a say in.
#[derive(Default)]
pub(super) struct OnNode {
    /// The term in which the client sent the write.
    pub term: Term,
    /// The slot of the call that the node keeps until the write may be answered; `None`: nothing has to be awaited.
    pub slot: Option<u64>,
}

/// The origin of the record.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// The record lies in the log already.
    Placed(Placed),
    /// The record lies whole in `RequestBatch::bytes`, from here to the end of its value. The server writes it to the
    /// log.
    Staged(usize),
    /// Key and value alone lie in `RequestBatch::bytes`. The server makes the record.
    Parts,
}

impl RequestBatch {
    /// Empties the batch, for the next arrivals.
    pub fn clear(&mut self) {
        self.items.clear();
        self.writes.clear();
        self.bundles.clear();
        self.expected.clear();
        self.bytes.clear();
    }

    /// Adds a write. Returns the answer that the batch owes for it.
    pub fn push(&mut self, write: Write) -> Owed {
        self.writes.push(write);
        Owed::Write(self.writes.len() - 1)
    }

    /// Fails all verdicts of the batch: even refusals may depend on writes of this batch that are not durable.
    pub fn fail(&mut self) {
        for write in &mut self.writes {
            write.verdict = Verdict::Failed;
        }
        for bundle in &mut self.bundles {
            bundle.verdict = Verdict::Failed;
        }
    }
}

impl Write {
    /// A write that is not decided yet, with the ranges of its key and value in `Batch::bytes`.
    pub fn new(
        source: Source,
        (kind, condition, token): (Kind, Condition, u64),
        route: Route,
        key: (usize, usize),
        value: (usize, usize),
    ) -> Self {
        Self {
            source,
            kind,
            content: Content::default(),
            condition,
            token,
            route,
            key,
            value,
            verdict: Verdict::Done,
            version: 0,
            words: Words::default(),
            on_node: OnNode::default(),
        }
    }

    /// The change that makes the write visible, once stamped.
    #[inline]
    pub fn change(&self) -> Change {
        Change {
            kind: self.kind,
            form: self.content.form,
            route: self.route,
            version: self.version,
            word: self.words.own,
            segment: self.words.segment,
            size: record_size_until(self.key_size(), self.value_size(), self.content.expires),
            expires: self.content.expires,
        }
    }

    /// Whether this is the record of a mark of the time, which removes nothing.
    pub fn is_time_mark(&self) -> bool {
        self.kind == Kind::Delete && self.content.expires.is_some()
    }

    /// Whether the record is needed as long as an older one of its key may be in the log.
    pub fn is_tombstone(&self) -> bool {
        self.kind == Kind::Delete && self.content.expires.is_none()
    }

    /// Whether this is a completed write of `key`. `bytes` is the content of its batch.
    pub fn is_done_on(&self, bytes: &[u8], route: Route, key: &[u8]) -> bool {
        self.verdict == Verdict::Done
            && self.route == route
            && bytes[self.key.0..self.key.1] == *key
    }

    /// The version that this write, which is done, leaves to the key, and the moment from which on the key is absent.
    pub fn leaves(&self) -> Option<(u64, Option<Expiry>)> {
        (self.kind == Kind::Put).then_some((self.version, self.content.expires))
    }

    /// Size of the key.
    pub fn key_size(&self) -> usize {
        self.key.1 - self.key.0
    }

    /// Size of the value.
    pub fn value_size(&self) -> usize {
        self.value.1 - self.value.0
    }
}
