//! Requests that come as messages. Requests that write nothing are executed as they are gathered, except for two that
//! wait for the writes before them: the return of an extent, and the question for an outcome.

use stonecast_base::mutant;
use stonecast_fabric::QueuePair;
use stonecast_lineage::Term;
use stonecast_log::{Form, KEY_SIZE_MAX, Kind};
use stonecast_media::RecordFeature;

use super::batch::{Owed, Question, RequestBatch, Source, Write};
use crate::metrics::Report;
use crate::server::clients::Clients;
use crate::server::clients::grants::{grant_lease, grant_rights};
use crate::server::report::Reporter;
use crate::server::shard::chunks;
use crate::server::state::State;
use crate::server::time::NoTime;
use crate::wire::limits::UPLOAD_MS;
use crate::wire::{Answer, ChunkName, Request, ServerTimeGrant, Verdict, Word};

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
        Request::Count { shard } => match refusal(state, qp, shard) {
            Ok(_) => Answer::Verdict {
                verdict: Verdict::Counted,
                version: state.shards.of(shard).keys(),
            },
            Err(refused) => refused,
        },
        Request::Abandon { upload, whole } => abandon(state, qp, (upload, whole)),
        Request::Hold => hold(state, batch, qp),
        Request::Kept { read, ends } => give_kept(state, qp, (read, ends)),
        Request::Release(release) => return Owed::Release(release.slot),
        Request::Stat { page } => Answer::Stat(Box::new(reporter.metrics(state).page(page))),
        Request::Copies { from } => Answer::Copies(Box::new(reporter.copies(from))),
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
            let term = match refusal(state, qp, shard) {
                Ok(term) => term,
                Err(refused) => return Owed::Answer(refused),
            };
            // A request of the first attempt that is not among the earlier writes is lost with its connection.
            let Clients {
                departures,
                sessions,
                ..
            } = &mut state.clients;
            departures.end_session_called(sessions, session, qp);
            return Owed::Outcome(Question {
                shard,
                term,
                token,
                since,
            });
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
            let mut write = Write::new(Source::Parts, delete, route, (start, end), (end, end));
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

/// The reason why the pool takes no record with the features of this one, if any. The pool names the features of its
/// records before the first such record.
#[inline]
pub(super) fn refusal_of_features(state: &State, write: &Write) -> Option<Answer> {
    if write.content.is_plain() {
        return None;
    }
    if write.content.form != Form::Whole
        && state.record_features.set(RecordFeature::Chunks).is_err()
    {
        return Some(Verdict::SpaceFailed.into());
    }
    let expires = write.content.expires?;
    let kept = match state.node {
        None => state.time.ask(write.route.shard).map(drop),
        // A primary reports no time before a mark is on all copies. A put needs no time.
        Some(_) => state.time.let_expire().map_err(NoTime::from),
    };
    // Nothing was done.
    if kept.is_err() {
        return Some(Verdict::SpaceFailed.into());
    }
    // The client was told the time, and its clock drifts.
    let last_ms = state.time.running_ms(write.route.shard) + 2 * UPLOAD_MS;
    let is_endless = write.content.form == Form::Chunk && expires.ms() > last_ms;
    is_endless.then(|| Verdict::Invalid.into())
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
    // The chunks of a value that has expired may be gone before its key is removed.
    if state.shards_with_expired_keys().next().is_some() {
        return Verdict::Busy.into();
    }
    // Writes of this batch may be decided and not visible yet.
    if batch.writes.iter().any(|write| write.version != 0) && !mutant!(HoldInsideBatch) {
        return Verdict::Busy.into();
    }
    let version = state.journal.sequences.next() - 1;
    state
        .journal
        .kept
        .begin(qp, version, state.shards.counts_led());
    give_kept(state, qp, (0, false))
}

/// Drops the chunks of an upload that the client of `qp` does not end.
fn abandon(state: &mut State, qp: QueuePair, (upload, whole): (u64, u64)) -> Answer {
    let name = ChunkName {
        whole,
        upload,
        number: 0,
    };
    let shard = state.shards.whole_of(name).shard;
    if let Err(refused) = refusal(state, qp, shard) {
        return refused;
    }
    let State {
        shards, journal, ..
    } = state;
    chunks::abandon(shards.of_mut(shard), name, journal);
    Verdict::Done.into()
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
    page.map_or(Verdict::HoldLost.into(), |page| {
        Answer::Kept(Box::new(page))
    })
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
    let staging = session.staging.as_ref().map(|staging| staging.region);
    let opened = (&mut session.windows, staging);
    doors.open(qp, opened, shard.table(), (bits, version))
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
