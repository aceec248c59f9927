//! The answer to a writer that finds no segment.
//!
//! Room may come from the cleaner, from the appends of other nodes, from clients that hold more than they use, or from
//! a segment that is being taken back. If room may come, the answer is *busy*, and the server asks the holder of that
//! room for it. Otherwise the answer names the full part: log, index or medium.

use super::journal::NoSegment;
use super::space::{Need, Purpose};
use super::state::State;
use crate::wire::Verdict;

/// The reason why a record gets no place.
pub(super) enum NoPlace {
    /// The segment of the record is being prepared.
    Pending,
    /// The writer gets this answer.
    Refused(Verdict),
}

/// Decides about a record of `units` that the server cannot place.
pub(super) fn no_place(
    state: &mut State,
    none: NoSegment,
    units: u32,
    purpose: Purpose,
) -> NoPlace {
    match none {
        NoSegment::Pending => NoPlace::Pending,
        NoSegment::Failed => NoPlace::Refused(Verdict::SpaceFailed),
        NoSegment::NoSpace if purpose == Purpose::Delete => {
            NoPlace::Refused(make_room_for_deletes(state))
        }
        NoSegment::NoSpace => NoPlace::Refused(refuse_space(state, units)),
    }
}

/// The answer to a writer that finds no segment with room for `units`. The answer is *busy* if cleaning can free a
/// segment, which makes cleaning due; if other nodes' appends no longer need a segment; if the room is leased, which
/// recalls leases; or if a segment is being taken back. Otherwise the answer names the full part.
pub(super) fn refuse_space(state: &mut State, units: u32) -> Verdict {
    let State {
        cleaner, journal, ..
    } = state;
    journal.note_refusal();
    let space = &mut journal.space;
    space.release_earlier_run();
    let is_gain = cleaner.has_victim() || space.may_gain();
    if is_gain && !cleaner.is_exhausted(space.died()) {
        cleaner.free_one(journal.format());
        Verdict::Busy
    } else if space.may_get_back() || reclaim_unused(state) {
        Verdict::Busy
    } else if is_room_leased(state, units, is_gain) {
        state.clients.lender.ask_back();
        Verdict::Busy
    } else if state.clients.departures.bring_leases() {
        Verdict::Busy
    } else {
        full(state)
    }
}

/// Whether nothing but the reserve is free, and cleaning makes no room.
pub(super) fn lacks_room(state: &State) -> bool {
    let State {
        cleaner, journal, ..
    } = state;
    let space = &journal.space;
    space.has_reserve_alone()
        && !space.may_get_back()
        && (cleaner.is_exhausted(space.died()) || !cleaner.has_victim() && !space.may_gain())
}

/// The answer to a delete that finds no room for its tombstone: *busy*, and a segment is freed. A delete is refused
/// only if segments stay because of damage.
fn make_room_for_deletes(state: &mut State) -> Verdict {
    let State {
        cleaner,
        journal,
        clients,
        ..
    } = state;
    let next_sequence = journal.sequences.next();
    journal.note_refusal();
    journal.space.release_earlier_run();
    cleaner.free_one(journal.format());
    let is_under_way =
        cleaner.is_under_way() || journal.appends_puts() || clients.departures.bring_leases();
    let space = &journal.space;
    if is_under_way
        || space.may_get_back()
        || space.choose_victim(Need::Now, next_sequence).is_some()
        || space.waits_for_earlier_run()
        || clients.sessions.leased().next().is_some()
    {
        Verdict::Busy
    } else {
        full(state)
    }
}

/// Reclaims leases that were unused for long. Returns whether there were any.
pub(super) fn reclaim_unused(state: &mut State) -> bool {
    let reclaimed = state.clients.reclaim_unused(&mut state.journal.space);
    if let Some(count) = reclaimed {
        state.cleaner.note_reclaimed(count);
    }
    reclaimed.is_some()
}

fn is_room_leased(state: &State, units: u32, is_gain: bool) -> bool {
    let sessions = &state.clients.sessions;
    sessions.lease_room(&state.journal.space, units, is_gain)
}

/// Names the full part when no segment can be made free.
fn full(state: &State) -> Verdict {
    match state.journal.space.lacks_medium() {
        true => Verdict::MediumFull,
        false => Verdict::NoSpace,
    }
}
