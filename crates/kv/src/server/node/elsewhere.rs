//! Records of other nodes on their way into the log and the index of this one.
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

use stonecast_log::{Kind, RecordBody, UNIT_SIZE};

use crate::server::State;
use crate::server::shard::Change;
use crate::server::shortage::no_place;
use crate::server::space::Purpose;
use crate::wire::Route;

/// Records whose words are stored in one step: about 5 us, in which clients wait.
const PIECE: usize = 16;
/// The part of all durable records whose words a step stores behind a batch, if these are more.
const PARTS: usize = 8;

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
    number: u64,
    change: Change,
    key: Vec<u8>,
    token: u64,
}

impl Elsewhere {
    /// Whether records wait for room.
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether records of `shard` are in no index yet.
    pub fn is_pending(&self, shard: u32, shard_of: impl Fn(&[u8]) -> u32) -> bool {
        let mut waiting = self.waiting.iter();
        self.written
            .iter()
            .any(|written| written.change.route.shard == shard)
            || waiting.any(|body| shard_of(body.record().key) == shard)
    }

    /// Bytes of all records that were written so far.
    pub fn digested_bytes(&self) -> u64 {
        self.digested_bytes
    }

    /// The records with numbers below `end` that are in no index yet.
    fn count_below(&self, end: u64) -> usize {
        self.written.partition_point(|written| written.number < end)
    }

    /// Takes the first `count` records, which are durable. The caller publishes them in the same step.
    fn take(&mut self, count: usize) -> Vec<WrittenRecord> {
        self.written.drain(..count).collect()
    }

    /// Forgets the records of `shard`. Returns the segment of each that lies in the log.
    fn forget(&mut self, shard: u32, shard_of: impl Fn(&[u8]) -> u32) -> Vec<u32> {
        self.waiting
            .retain(|body| shard_of(body.record().key) != shard);
        let mut segments = Vec::new();
        self.written.retain(|written| {
            let stays = written.change.route.shard != shard;
            segments.extend((!stays).then_some(written.change.segment));
            stays
        });
        segments
    }

    fn push(&mut self, written: WrittenRecord) {
        self.digested_bytes += written.change.size;
        self.written.push_back(written);
    }
}

/// Takes a record of another node, and writes it if there is room.
pub(super) fn arrive(state: &mut State, body: RecordBody) {
    state.node_mut().elsewhere.waiting.push_back(body);
    write_waiting(state);
}

/// Writes the records that wait, in order, as far as there is room. Returns whether none is left. A record without room
/// makes cleaning due.
pub(super) fn write_waiting(state: &mut State) -> bool {
    while let Some(body) = state.node_mut().elsewhere.waiting.pop_front() {
        if !write(state, &body) {
            state.node_mut().elsewhere.waiting.push_front(body);
            return false;
        }
    }
    true
}

/// Writes a record into the server's own segment for it. Returns whether there was room in log and index.
fn write(state: &mut State, body: &RecordBody) -> bool {
    let record = body.record();
    let header = record.header;
    let route = state.shards.route(record.key);
    let purpose = match header.kind() {
        Kind::Put => Purpose::Put,
        Kind::Delete => Purpose::Delete,
    };
    if header.kind() == Kind::Put && !has_place(state, route) {
        return false;
    }
    let units = (header.size() / UNIT_SIZE) as u32;
    if !state.journal.has_room(units, purpose) {
        match state.journal.take_own(units, purpose) {
            Ok(()) => state.note_given(),
            Err(none) => {
                // Only the effect of the call counts here: cleaning is due, or leases are recalled. The answer
                // would be for a writer.
                let _refusal = no_place(state, none, units, purpose);
                return false;
            }
        }
    }
    let number = state.journal.arrived();
    let placed = state.journal.append_from_elsewhere(record, purpose);
    let change = Change {
        kind: header.kind(),
        route,
        version: header.sequence(),
        word: state.journal.word(&placed, route.hash),
        segment: placed.segment,
        size: placed.size,
        expires: header.expires().or(header.time_mark()),
    };
    let elsewhere = &mut state.node_mut().elsewhere;
    elsewhere.push(WrittenRecord {
        number,
        change,
        key: record.key.to_vec(),
        token: header.token(),
    });
    true
}

/// Whether the index of a key has room for one key more than are on their way.
fn has_place(state: &mut State, route: Route) -> bool {
    let written = state.node_mut().elsewhere.written.len() as u64;
    let shard = state.shards.of_mut(route.shard);
    shard.make_room(written + 1);
    shard.is_roomy(written + 1)
}

/// Stores the words of a piece of the durable records. The server calls this after each batch, so a piece is a part of
/// all of them: few are left beside many records and few batches.
pub(in crate::server) fn publish_some(state: &mut State) {
    let count = durable_count(state);
    publish(state, count.min(PIECE.max(count / PARTS)));
}

/// Stores the words of all durable records.
pub(super) fn publish_all(state: &mut State) {
    let count = durable_count(state);
    publish(state, count);
}

/// The records that are durable and in no index yet.
pub(in crate::server) fn durable_count(state: &State) -> usize {
    let end = state.journal.durable_arrived();
    let node = state.node.as_ref();
    node.map_or(0, |node| node.elsewhere.count_below(end))
}

/// Stores the words of the first `count` records, which are durable.
fn publish(state: &mut State, count: usize) {
    if count == 0 {
        return;
    }
    let written = state.node_mut().elsewhere.take(count);
    let State {
        shards,
        journal,
        expiries,
        ..
    } = state;
    let persisted = journal.proof_of_arrived().expect("a persist has ended");
    let end = journal.durable_arrived();
    assert!(
        written.last().is_some_and(|last| last.number < end),
        "a word names a durable record"
    );
    let keys = written.iter();
    shards.prefetch(keys.map(|written| (written.change.route, written.key.len())));
    for written in written {
        let WrittenRecord {
            change, key, token, ..
        } = written;
        shards.publish(&change, &key, journal, &persisted);
        expiries.note_change(&change);
        journal.space.note_word(change.segment);
        let outcomes = &mut shards.of_mut(change.route.shard).outcomes;
        outcomes.note(token, change.version);
    }
}

/// Forgets the records of `shard`, which the node drops. Records that are in the log never get a
/// word.
pub(super) fn forget(state: &mut State, shard: u32) {
    let State {
        shards,
        journal,
        node,
        ..
    } = state;
    let elsewhere = &mut node.as_mut().expect("this server is a node").elsewhere;
    let segments = elsewhere.forget(shard, |key| shards.route(key).shard);
    for segment in segments {
        journal.space.note_word(segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{KeyHash, Word};

    /// The record `number` of other nodes in the log, of `shard`, whose number is also that of its segment.
    fn written(number: u64, shard: u32) -> WrittenRecord {
        let change = Change {
            kind: Kind::Put,
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
        elsewhere.is_pending(shard, |_| unreachable!("no record waits for room"))
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

    /// The index of a dropped shard is empty, and stays so when the persist has ended.
    #[test]
    fn a_drop_forgets_the_records_of_a_persist_that_is_under_way() {
        let mut elsewhere = of_shards([3, 5, 3]);
        assert_eq!(elsewhere.forget(3, |_| unreachable!()), [3, 3]);
        elsewhere.push(written(3, 3));
        let count = elsewhere.count_below(3);
        let durable = elsewhere.take(count);
        let shards: Vec<_> = durable.iter().map(|it| it.change.route.shard).collect();
        assert_eq!(shards, [5]);
        assert!(is_pending(&elsewhere, 3), "the shard is filled anew");
    }
}
