//! Records of other nodes on their way into the log and the index of this node.
//!
//! ```text
//!   arrive    an entry that is on all copies, or a record of a page     waits for room, in order
//!   write     into this node's log, like a moved record                 not durable, in no index
//!   publish   after a persist                                          durable, then in the index
//! ```
//!
//! A record stays here until it is in the index: a page of its shard waits for it, and a drop of its shard forgets it,
//! also while the persist is under way.
//!
//! Records wait in the order in which they have come, since a later record of a key replaces an earlier one. A crash
//! before the persist leaves any part of these records. The records come again then: the floor of their shard has not
//! risen.

use std::collections::VecDeque;

use stonecast_log::{Form, RecordBody};

use crate::server::shard::Change;

/// Records of other nodes that are in no index yet.
#[derive(Default)]
pub(in crate::server) struct Elsewhere {
    waiting: VecDeque<RecordBody>,
    written: VecDeque<WrittenRecord>,
    /// Bytes of all records that were written.
    digested_bytes: u64,
}

/// A record that lies in the log.
pub(in crate::server) struct WrittenRecord {
    /// Records of other nodes that were appended before.
    pub(super) number: u64,
    pub(super) change: Change,
    pub(super) key: Vec<u8>,
    pub(super) token: u64,
}

impl Elsewhere {
    /// Whether records wait for room.
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether records of `shard` are in no index yet.
    pub fn is_pending(&self, shard: u32, shard_of: impl Fn(Form, &[u8]) -> u32) -> bool {
        let mut waiting = self.waiting.iter();
        self.written
            .iter()
            .any(|written| written.change.route.shard == shard)
            || waiting.any(|body| shard_of_record(&shard_of, body) == shard)
    }

    /// The number of the first record that lies in the log and has no word.
    pub fn first_written(&self) -> Option<u64> {
        self.written.front().map(|written| written.number)
    }

    /// Bytes of all records that were written so far.
    pub fn digested_bytes(&self) -> u64 {
        self.digested_bytes
    }

    /// The records with numbers below `end` that are in no index yet.
    pub(super) fn count_below(&self, end: u64) -> usize {
        self.written.partition_point(|written| written.number < end)
    }

    /// Takes a record that has to wait for all others.
    pub(super) fn arrive(&mut self, body: RecordBody) {
        self.waiting.push_back(body);
    }

    /// Takes the record that has waited longest.
    pub(super) fn take_waiting(&mut self) -> Option<RecordBody> {
        self.waiting.pop_front()
    }

    /// Lets a record wait on that was taken, and has no room.
    pub(super) fn put_back(&mut self, body: RecordBody) {
        self.waiting.push_front(body);
    }

    /// The number of records that lie in the log and in no index.
    pub(super) fn written(&self) -> u64 {
        self.written.len() as u64
    }

    /// Takes the first `count` records, which are durable. The caller publishes them in the same step.
    pub(super) fn take(&mut self, count: usize) -> Vec<WrittenRecord> {
        self.written.drain(..count).collect()
    }

    /// Forgets the records of `shard`. Returns the segment of each that lies in the log.
    pub(super) fn forget(&mut self, shard: u32, shard_of: impl Fn(Form, &[u8]) -> u32) -> Vec<u32> {
        self.waiting
            .retain(|body| shard_of_record(&shard_of, body) != shard);
        let mut segments = Vec::new();
        self.written.retain(|written| {
            let stays = written.change.route.shard != shard;
            segments.extend((!stays).then_some(written.change.segment));
            stays
        });
        segments
    }

    pub(super) fn push(&mut self, written: WrittenRecord) {
        self.digested_bytes += written.change.size;
        self.written.push_back(written);
    }
}

fn shard_of_record(shard_of: impl Fn(Form, &[u8]) -> u32, body: &RecordBody) -> u32 {
    let record = body.record();
    shard_of(record.header.form(), record.key)
}

#[cfg(test)]
mod tests {
    use stonecast_log::Kind;

    use super::*;
    use crate::wire::{KeyHash, Route, Word};

    /// The record `number` of other nodes in the log, of `shard`, whose number is also that of its segment.
    fn written(number: u64, shard: u32) -> WrittenRecord {
        let change = Change {
            kind: Kind::Put,
            form: Form::Whole,
            route: Route {
                shard,
                hash: KeyHash(0),
            },
            version: 1,
            word: Word::EMPTY,
            segment: shard,
            size: 64,
            expires: None,
        };
        WrittenRecord {
            number,
            change,
            key: b"key".to_vec(),
            token: 0,
        }
    }

    /// Records of these shards, whose numbers begin with 0.
    fn of_shards(shards: impl IntoIterator<Item = u32>) -> Elsewhere {
        let mut elsewhere = Elsewhere::default();
        for (number, shard) in (0..).zip(shards) {
            elsewhere.push(written(number, shard));
        }
        elsewhere
    }

    fn is_pending(elsewhere: &Elsewhere, shard: u32) -> bool {
        elsewhere.is_pending(shard, |_, _| unreachable!("no record waits for room"))
    }

    /// A page that misses a record on its way to the index leaves a joiner without that record.
    #[test]
    fn a_record_is_pending_until_its_word_is_stored_and_a_later_one_stays() {
        let mut elsewhere = of_shards([3, 5]);
        assert!(is_pending(&elsewhere, 3) && is_pending(&elsewhere, 5));
        assert_eq!(elsewhere.count_below(1), 1);
        assert_eq!(elsewhere.take(1).len(), 1);
        assert!(!is_pending(&elsewhere, 3) && is_pending(&elsewhere, 5));
        assert_eq!((elsewhere.count_below(1), elsewhere.count_below(2)), (0, 1));
    }

    /// The index of a dropped shard is empty, and remains empty when the persist has ended.
    #[test]
    fn a_drop_forgets_the_records_of_a_persist_that_is_under_way() {
        let mut elsewhere = of_shards([3, 5, 3]);
        assert_eq!(elsewhere.forget(3, |_, _| unreachable!()), [3, 3]);
        elsewhere.push(written(3, 3));
        let count = elsewhere.count_below(3);
        let durable = elsewhere.take(count);
        let shards: Vec<_> = durable.iter().map(|it| it.change.route.shard).collect();
        assert_eq!(shards, [5]);
        assert!(is_pending(&elsewhere, 3), "the shard is filled anew");
    }
}
