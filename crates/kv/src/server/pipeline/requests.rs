//! Requests that come as messages. Requests that write nothing are executed as they are gathered, except for two that
//! wait for the writes before them: the return of an extent, and the question for an outcome.

use stonecast_base::mutant;
use stonecast_fabric::QueuePair;
use stonecast_lineage::Term;
use stonecast_log::{KEY_SIZE_MAX, Kind};

use super::batch::{Owed, RequestBatch, Source, Write};
use crate::metrics::Report;
use crate::server::State;
use crate::server::clients::{Clients, grant_lease, grant_rights};
use crate::server::report::Reporter;
use crate::server::time::NoTime;
use crate::wire::{Answer, Request, ServerTimeGrant, Verdict, Word};

/// Takes a message of the client of `qp`. Returns the answer that the batch owes for it.
pub(super) fn take_message(
    state: &mut State,
    reporter: &Reporter,
    batch: &mut RequestBatch,
    qp: QueuePair,
    message: &[u8],
) -> Owed {
    let Some(request) = Request::parse(message) else {
        return Owed::Answer(Verdict::Invalid.into());
    };
    let answer = match request {
        Request::Lease { size, publishes } => grant_lease(state, qp, size, publishes),
        Request::Publish => grant_rights(state, qp),
        Request::ReaderLease => lease_to_reader(state, qp),
        Request::Time { shard } => match refusal(state, qp, shard) {
            Ok(_) => tell_time(state, shard),
            Err(refused) => refused,
        },
        Request::Hold => hold(state, batch, qp),
        Request::Kept { read, ends } => give_kept(state, qp, (read, ends)),
        Request::Release(release) => return Owed::Release(release.slot),
        Request::Stat { page } => Answer::Stat(reporter.metrics(state).page(page)),
        Request::Report(bytes) => take_report(state, qp, bytes).into(),
        Request::Access { shard, term } => open_doors(state, qp, shard, term),
        Request::LeaveIndex { table } => {
            leave_index(&mut state.clients, qp, table);
            Verdict::Done.into()
        }
        Request::Outcome {
            shard,
            token,
            since,
            session,
        } => {
            if let Err(refused) = refusal(state, qp, shard) {
                return Owed::Answer(refused);
            }
            // A request of the first attempt that is not among the earlier writes is lost with its connection.
            let Clients {
                departures,
                sessions,
                ..
            } = &mut state.clients;
            departures.end_session_called(sessions, session, qp);
            return Owed::Outcome(shard, token, since);
        }
        Request::Delete {
            condition,
            token,
            key,
        } if (1..=KEY_SIZE_MAX).contains(&key.len()) => {
            let route = state.shards.route(key);
            let term = match refusal(state, qp, route.shard) {
                Ok(term) => term,
                Err(refused) => return Owed::Answer(refused),
            };
            let start = batch.bytes.len();
            batch.bytes.extend_from_slice(key);
            let end = batch.bytes.len();
            let delete = (Kind::Delete, condition, token);
            let mut write = Write::new(Source::Copied, delete, route, (start, end), (end, end));
            write.on_node.term = term;
            return batch.push(write);
        }
        _ => Verdict::Invalid.into(),
    };
    Owed::Answer(answer)
}

fn take_report(state: &mut State, qp: QueuePair, bytes: &[u8]) -> Verdict {
    let Clients {
        sessions, served, ..
    } = &mut state.clients;
    let session = sessions.get(qp);
    match session.zip(Report::parse(bytes)) {
        Some((session, report)) => {
            served.take_report(session.path, &report);
            Verdict::Done
        }
        None => Verdict::Invalid,
    }
}

/// The term of the request for `shard` that the client of `qp` has just sent, or the reason why this node does not
/// serve the request.
pub(super) fn refusal(state: &State, qp: QueuePair, shard: u32) -> Result<Term, Answer> {
    let session = state.clients.sessions.get(qp);
    let named = session.map_or_else(Term::default, |session| session.terms.of(shard));
    match state.shards.refusal(shard, named) {
        Some(refused) => Err(refused),
        None => Ok(named),
    }
}

/// The reason why a write with an expiry is refused, if it has one. The pool says that its records may have an expiry
/// before the first such record.
pub(super) fn refusal_of_expiry(state: &State, write: &Write) -> Option<Answer> {
    write.expires?;
    let kept = match state.node {
        None => state.time.ask(write.route.shard).map(drop),
        // A primary tells no time before a mark is on all copies. A put needs no time.
        Some(_) => state.time.let_expire().map_err(NoTime::from),
    };
    // Nothing was done.
    kept.is_err().then(|| Verdict::SpaceFailed.into())
}

/// Lets the client of `qp` hold the version of the last write that was decided. Between two batches, every write up
/// to that version is visible, and no other.
fn hold(state: &mut State, batch: &RequestBatch, qp: QueuePair) -> Answer {
    let refused = |version| Answer::Verdict {
        verdict: Verdict::NoHold,
        version,
    };
    if state.keeper.is_some() || state.node.is_some() {
        return refused(1);
    }
    if state.shards.published().is_shared() {
        return refused(2);
    }
    // Writes of this batch may be decided and not visible yet.
    if batch.writes.iter().any(|write| write.version != 0) && !mutant!(HoldInsideBatch) {
        return Verdict::Busy.into();
    }
    let version = state.journal.sequences.next() - 1;
    state
        .journal
        .kept
        .begin(qp, version, state.shards.keys_led());
    give_kept(state, qp, (0, false))
}

/// The kept records that the client of `qp` has to read next.
fn give_kept(state: &mut State, qp: QueuePair, (read, ends): (u64, bool)) -> Answer {
    let format = *state.journal.format();
    let segment_of = |word: Word| format.locate(word.position()).0 as u32;
    let kept = &mut state.journal.kept;
    let page = kept.page(qp, read, segment_of);
    if ends && page.is_some() {
        kept.end();
    }
    page.map_or(Verdict::HoldLost.into(), Answer::Kept)
}

/// The time of `shard`.
fn tell_time(state: &State, shard: u32) -> Answer {
    match state.time.ask(shard) {
        Ok((now_ms, mark_ms)) => Answer::Time(ServerTimeGrant { now_ms, mark_ms }),
        Err(NoTime::OnItsWay) => Verdict::NoTime.into(),
        Err(NoTime::NotKept(_)) => Verdict::SpaceFailed.into(),
    }
}

/// Opens the present index of shard `number`, the log and staging memory to the client of `qp`, whose later requests
/// for the shard are of `term`.
fn open_doors(state: &mut State, qp: QueuePair, number: u32, term: Term) -> Answer {
    if let Some(refused) = state.shards.refusal(number, term) {
        return refused;
    }
    let Clients {
        sessions, doors, ..
    } = &mut state.clients;
    let Some(session) = sessions.get_mut(qp) else {
        return Verdict::Invalid.into();
    };
    session.terms.name(number, term);
    let shard = state.shards.of(number);
    let version = state.journal.sequences.next() - 1;
    let bits = shard.index().table().bits();
    doors.open(qp, session, shard.table(), (bits, version))
}

/// Leases the memory of the shards that the client of `qp` has entered. The client leaves a shard
/// that has lapsed.
fn lease_to_reader(state: &mut State, qp: QueuePair) -> Answer {
    let Some(session) = state.clients.sessions.get_mut(qp) else {
        return Verdict::Invalid.into();
    };
    let grant = state.shards.leads().reader_lease(session.terms.iter());
    if let Some(lapsed) = grant.lapsed {
        session.terms.leave(lapsed);
    }
    Answer::ReaderLease(grant)
}

/// Closes the window on index `table`, which the client of `qp` has left.
fn leave_index(clients: &mut Clients, qp: QueuePair, table: u32) {
    let session = clients.sessions.get_mut(qp);
    let left = session.and_then(|session| session.windows.leave_index(table));
    if let Some(rkey) = left {
        clients.departures.end_window(rkey);
    }
}
