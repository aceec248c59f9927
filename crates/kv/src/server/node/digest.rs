//! The steps of another node's record from its arrival into the log and the index of this node.

use stonecast_base::mutant;
use stonecast_log::{Kind, RecordBody, UNIT_SIZE};

use super::elsewhere::WrittenRecord;
use crate::server::shard::Change;
use crate::server::shortage::no_place;
use crate::server::space::Purpose;
use crate::server::state::State;
use crate::wire::Route;

/// Records whose words are stored in one step: about 5 us, in which clients wait.
const PIECE: usize = 16;
/// The part of all durable records whose words a step stores after a batch, if these are more.
const PARTS: usize = 8;

/// Takes a record of another node, and writes it if there is room.
pub(super) fn arrive(state: &mut State, body: RecordBody) {
    state.node_mut().elsewhere.arrive(body);
    write_waiting(state);
}

/// Writes the records that wait, in order, as far as there is room. Returns whether none is left. A record without room
/// makes cleaning due.
pub(super) fn write_waiting(state: &mut State) -> bool {
    while let Some(body) = state.node_mut().elsewhere.take_waiting() {
        if !write(state, &body) {
            state.node_mut().elsewhere.put_back(body);
            return false;
        }
    }
    true
}

/// Writes a record into the server's own segment for it. Returns whether there was room in log and index.
fn write(state: &mut State, body: &RecordBody) -> bool {
    let record = body.record();
    let header = record.header;
    let route = state.shards.route_of(header.form(), record.key);
    let purpose = match header.kind() {
        Kind::Put => Purpose::Put,
        Kind::Delete => Purpose::Delete,
    };
    if header.kind() == Kind::Put && !has_place(state, route) {
        return false;
    }
    let units = (header.size() / UNIT_SIZE) as u32;
    if !state.journal.has_room(units, purpose) {
        match state.journal.take_own_for_copy(units, purpose) {
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
        form: header.form(),
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
    let written = state.node_mut().elsewhere.written();
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
        if !mutant!(OutcomesOfCopiesNotNoted) {
            let outcomes = &mut shards.of_mut(change.route.shard).outcomes;
            outcomes.note(token, change.version);
        }
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
    let segments = elsewhere.forget(shard, |form, key| shards.route_of(form, key).shard);
    for segment in segments {
        journal.space.note_word(segment);
    }
}
