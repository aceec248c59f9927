//! Requests that arrived together, and their state on the way to their answers.

use stonecast_fabric::QueuePair;
use stonecast_log::{Condition, Kind, record_size};

use crate::metrics::ClientPath;
use crate::server::journal::Placed;
use crate::server::shard::Change;
use crate::wire::{Answer, KeyHash, Verdict, Word};

/// Requests in the order of their arrival. Records are checked and decided on a copy: memory that a client can still write is read
/// once.
#[derive(Default)]
pub(super) struct Batch {
    pub items: Vec<Item>,
    pub writes: Vec<Write>,
    /// Copies of the arrived records, and keys of deletes.
    pub bytes: Vec<u8>,
}

/// An answer that a client is owed.
pub(super) struct Item {
    pub qp: QueuePair,
    pub path: ClientPath,
    pub owed: Owed,
}

/// See [`Item`].
pub(super) enum Owed {
    /// The verdict on a write of the batch.
    Write(usize),
    Answer(Answer),
    /// The end of the lease in this slot, behind the writes before it.
    Release(u8),
    /// The outcome of a write before it: token, and the latest version that the client knew.
    Outcome(u64, u64),
}

/// A put or delete on its way.
pub(super) struct Write {
    pub source: Source,
    pub kind: Kind,
    pub condition: Condition,
    pub token: u64,
    pub hash: KeyHash,
    /// Key and value in `Batch::bytes`.
    pub key: (usize, usize),
    pub value: (usize, usize),
    pub verdict: Verdict,
    /// The new version if done, the present one after a conflict.
    pub version: u64,
    /// The place of the record, once stamped.
    pub word: Word,
    pub segment: u32,
    /// The earlier word, if this write keeps publishing clients off it.
    pub claimed: Option<Word>,
}

/// Where the record comes from.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// It lies in the log already.
    Placed(Placed),
    /// The server has to write it.
    Copied,
}

impl Batch {
    /// Empties it, for the next arrivals.
    pub fn clear(&mut self) {
        self.items.clear();
        self.writes.clear();
        self.bytes.clear();
    }

    /// Takes a write in. Returns the answer that its client is owed.
    pub fn push(&mut self, write: Write) -> Owed {
        self.writes.push(write);
        Owed::Write(self.writes.len() - 1)
    }

    /// No verdict of it can be trusted: refusals too may rest on writes of this batch that are not durable.
    pub fn fail(&mut self) {
        for write in &mut self.writes {
            write.verdict = Verdict::Failed;
        }
    }
}

impl Write {
    /// A write that is not decided, with the places of its key and value in `Batch::bytes`.
    pub fn new(
        source: Source,
        (kind, condition, token): (Kind, Condition, u64),
        hash: KeyHash,
        key: (usize, usize),
        value: (usize, usize),
    ) -> Self {
        Self {
            source,
            kind,
            condition,
            token,
            hash,
            key,
            value,
            verdict: Verdict::Done,
            version: 0,
            word: Word::EMPTY,
            segment: 0,
            claimed: None,
        }
    }

    /// The change that makes it visible, once stamped.
    pub fn change(&self) -> Change {
        Change {
            kind: self.kind,
            hash: self.hash,
            version: self.version,
            word: self.word,
            segment: self.segment,
            size: record_size(self.key_size(), self.value_size()),
        }
    }

    /// Bytes of its key.
    pub fn key_size(&self) -> usize {
        self.key.1 - self.key.0
    }

    /// Bytes of its value.
    pub fn value_size(&self) -> usize {
        self.value.1 - self.value.0
    }
}
