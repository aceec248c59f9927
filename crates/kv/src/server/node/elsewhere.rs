//! Records of other nodes on their way into the log and the index of this one.
//!
//! ```text
//!   arrive    an entry that is on all copies, or a record of a page     waits for room, in order
//!   write     into this node's log, like a moved record                 not durable, in no index
//!   publish   after a persist                                          durable, then in the index
//! ```
//!
//! Records wait in the order in which they have come, since a later record of a key replaces an earlier one. A crash
//! before the persist leaves any part of these records. The records come again then: the floor of their shard has not
//! risen.

use std::collections::VecDeque;

use stonecast_log::{Kind, RecordBody, UNIT_SIZE};
use stonecast_persist::Persisted;

use crate::server::State;
use crate::server::shard::Change;
use crate::server::shortage::no_place;
use crate::server::space::Purpose;
use crate::wire::Route;

/// Records of other nodes that are in no index yet.
#[derive(Default)]
pub(in crate::server) struct Elsewhere {
    waiting: VecDeque<RecordBody>,
    written: Vec<WrittenRecord>,
    /// Bytes of all records that were written.
    digested_bytes: u64,
}

/// A record that lies in the log.
pub(in crate::server) struct WrittenRecord {
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

    /// Takes the records that lie in the log. The caller persists them, and publishes them.
    pub fn take_written(&mut self) -> Vec<WrittenRecord> {
        std::mem::take(&mut self.written)
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
        match write(state, &body) {
            Some(written) => {
                let elsewhere = &mut state.node_mut().elsewhere;
                elsewhere.digested_bytes += written.change.size;
                elsewhere.written.push(written);
            }
            None => {
                state.node_mut().elsewhere.waiting.push_front(body);
                return false;
            }
        }
    }
    true
}

/// Writes a record into the server's own segment for it. `None`: there is no room in log or index.
fn write(state: &mut State, body: &RecordBody) -> Option<WrittenRecord> {
    let record = body.record();
    let header = record.header;
    let route = state.shards.route(record.key);
    let purpose = match header.kind() {
        Kind::Put => Purpose::Put,
        Kind::Delete => Purpose::Delete,
    };
    if header.kind() == Kind::Put && !has_place(state, route) {
        return None;
    }
    let units = (header.size() / UNIT_SIZE) as u32;
    if !state.journal.has_room(units, purpose) {
        match state.journal.take_own(units, purpose) {
            Ok(()) => state.note_given(),
            Err(none) => {
                // Only the effect of the call counts here: cleaning is due, or leases are recalled. The answer
                // would be for a writer.
                let _refusal = no_place(state, none, units, purpose);
                return None;
            }
        }
    }
    let key = record.key.to_vec();
    let placed = state.journal.append_from_elsewhere(record, purpose);
    let change = Change {
        kind: header.kind(),
        route,
        version: header.sequence(),
        word: state.journal.word(&placed, route.hash),
        segment: placed.segment,
        size: placed.size,
    };
    Some(WrittenRecord {
        change,
        key,
        token: header.token(),
    })
}

/// Whether the index of a key has room for one key more than are on their way.
fn has_place(state: &mut State, route: Route) -> bool {
    let written = state.node_mut().elsewhere.written.len() as u64;
    let shard = state.shards.of_mut(route.shard);
    shard.make_room(written + 1);
    shard.is_roomy(written + 1)
}

/// Stores the words of records that are durable. Takes the proof.
pub(super) fn publish(state: &mut State, written: Vec<WrittenRecord>, persisted: &Persisted) {
    let State {
        shards, journal, ..
    } = state;
    let keys = written.iter();
    shards.prefetch(keys.map(|written| (written.change.route, written.key.len())));
    for WrittenRecord { change, key, token } in written {
        shards.publish(&change, &key, journal, persisted);
        journal.space.note_word(change.segment);
        let outcomes = &mut shards.of_mut(change.route.shard).outcomes;
        outcomes.note(token, change.version);
    }
}

/// Forgets the records of `shard`, which the node drops. Records that are in the log never get a
/// word.
pub(super) fn forget(state: &mut State, shard: u32) {
    let mut elsewhere = std::mem::take(&mut state.node_mut().elsewhere);
    let shards = &state.shards;
    elsewhere
        .waiting
        .retain(|body| shards.route(body.record().key).shard != shard);
    let space = &mut state.journal.space;
    elsewhere.written.retain(|written| {
        let stays = written.change.route.shard != shard;
        if !stays {
            space.note_word(written.change.segment);
        }
        stays
    });
    state.node_mut().elsewhere = elsewhere;
}
