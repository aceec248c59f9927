//! One publication: its changes to the server's memory, and the changes that take the record back.

use stonecast_fabric::{ChangeNow, RemoteAddress};
use stonecast_log::{commit_tag_position, void_tag};

use crate::wire::intent::{INTENT_SIZE, Intent};

/// A publication that is about to begin. [`Rights`](super::Rights) holds the record.
pub(super) struct Attempt {
    pub sequence: u64,
    pub commit_tag: u64,
    /// Address of the record.
    pub record_at: RemoteAddress,
    /// Address of the word.
    pub word_at: RemoteAddress,
    /// The intent, which names both words.
    pub intent: Intent,
    pub intent_number: u64,
    pub intent_at: RemoteAddress,
}

impl Attempt {
    /// The changes that publish `record`, in order. The last change stores the word that it found into `found`.
    pub fn changes<'a>(
        &self,
        record: &'a [u8],
        intent: &'a [u8],
        found: &'a mut u64,
    ) -> [ChangeNow<'a>; 3] {
        let Intent { before, after, .. } = self.intent;
        [
            ChangeNow::Write {
                remote: self.intent_at,
                from: intent,
            },
            ChangeNow::Write {
                remote: self.record_at,
                from: record,
            },
            ChangeNow::CompareAndSwap {
                remote: self.word_at,
                expected: before.0,
                swap: after.0,
                found,
            },
        ]
    }

    pub fn has_won(&self, found: u64) -> bool {
        found == self.intent.before.0
    }

    /// The commit tag of the void record, and intent `number`, which announces the void record.
    pub fn taken_back(&self, number: u64) -> ([u8; 8], [u8; INTENT_SIZE]) {
        let intent = Intent {
            is_taken_back: true,
            ..self.intent
        };
        (
            void_tag(self.commit_tag).to_le_bytes(),
            intent.encode(number),
        )
    }

    /// The changes that take the record back.
    pub fn taking_back<'a>(
        &self,
        void: &'a [u8],
        intent_at: RemoteAddress,
        intent: &'a [u8],
    ) -> [ChangeNow<'a>; 2] {
        let commit_tag_at = RemoteAddress {
            address: commit_tag_position(self.record_at.address),
            ..self.record_at
        };
        [
            ChangeNow::Write {
                remote: commit_tag_at,
                from: void,
            },
            ChangeNow::Write {
                remote: intent_at,
                from: intent,
            },
        ]
    }
}
