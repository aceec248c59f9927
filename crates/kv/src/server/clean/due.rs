//! The work of a step: a segment, and the number of its bytes to examine.

use stonecast_log::SEGMENT_HEADER_UNITS;

use super::Victim;
use crate::server::clients::returns::drain_intents;
use crate::server::shortage::reclaim_unused;
use crate::server::space::Need;
use crate::server::state::State;
use crate::wire::limits::LEASE_RECLAIM_NS;

/// Bytes of a segment that a step examines, if the cost of a persist grows with its lines.
const STEP_SIZE: u64 = 32 << 10;
/// A step is not interrupted when more than this part of a segment is due: cleaning must stay ahead of the writes.
const LATE_SHARE: u64 = 4;
/// Bytes of a segment that a step examines, if a persist is a sync of a file, which costs the same for one line and for
/// many.
const SYNCED_STEP_SIZE: u64 = 256 << 10;
/// Cleaning examines one and a half times the bytes that the room for the writes needs, and so stays ahead of the
/// writes.
const AHEAD_NUMERATOR: u64 = 3;
const AHEAD_DENOMINATOR: u64 = 2;

/// The work of one step.
pub(super) struct Due {
    /// Bytes of the victim to examine.
    pub bytes: u64,
    /// Whether the step continues when a request arrives.
    pub is_late: bool,
    /// Tombstones below this sequence are not needed.
    pub horizon: u64,
}

/// The work of the next step; `None` if there is nothing to do. With `syncs_files`, a persist costs the same for one
/// line and for many.
pub(super) fn due(state: &mut State, syncs_files: bool) -> Option<Due> {
    drain_intents(state);
    let next_sequence = state.journal.sequences.next();
    let State {
        cleaner,
        journal,
        clients,
        ..
    } = state;
    let appended = journal.space.take_appended();
    cleaner.counters.written_bytes += appended;
    if appended == 0 && cleaner.credit == 0 {
        return None;
    }
    if journal.space.tombstones_wait_for_clients() {
        let (publishing, sessions) = (&mut clients.publishing, &mut clients.sessions);
        publishing.find_unused(sessions, LEASE_RECLAIM_NS);
    }
    if cleaner.victim.is_none() {
        let number = choose(state, next_sequence)?;
        let victim = state.journal.space.begin_cleaning(number);
        state.cleaner.victim = Some(Victim {
            state: victim,
            unit: SEGMENT_HEADER_UNITS,
            count: 0,
            xor: 0,
            tokens_lost: 0,
            next: None,
        });
    }
    let State {
        cleaner, journal, ..
    } = state;
    let (space, segment_size) = (&journal.space, journal.format().segment_size);
    let victim = cleaner.victim.as_ref().expect("there is one by now");
    // The credit grows by the bytes that cleaning has to examine to make room for the bytes written.
    let horizon = space.horizon(victim.state.number);
    let gain = space.gain(victim.state.number, horizon).max(1);
    let ratio = (segment_size * AHEAD_NUMERATOR).div_ceil(gain * AHEAD_DENOMINATOR);
    cleaner.credit = cleaner
        .credit
        .saturating_add(appended * ratio)
        .min(4 * segment_size);
    let step = match syncs_files {
        true => SYNCED_STEP_SIZE,
        false => STEP_SIZE,
    };
    if space.need() < Need::Now && cleaner.credit < step {
        // Below a step it is cheaper to wait for more.
        return None;
    }
    // A writer that has to wait makes a whole segment due.
    let is_late = cleaner.credit > segment_size / LATE_SHARE;
    Some(Due {
        bytes: step,
        is_late,
        horizon,
    })
}

/// The segment to clean next. If no segment is ready and one is needed, asks the holders of segments to give them back.
fn choose(state: &mut State, next_sequence: u64) -> Option<u32> {
    let State {
        cleaner, journal, ..
    } = state;
    let segment_size = journal.format().segment_size;
    let space = &mut journal.space;
    space.release_earlier_run();
    let need = space.need();
    let mut chosen = match need {
        Need::None => None,
        _ if cleaner.is_exhausted(space.died()) && !space.delete_waits() => None,
        _ => space.choose_victim(need, next_sequence),
    };
    if chosen.is_none() && need == Need::Now {
        // The dead records lie in the segments to which the server itself appends: the server switches to others.
        let own = cleaner.own.take();
        own.into_iter().for_each(|number| journal.give_back(number));
        journal.give_back_own();
        chosen = journal.space.choose_victim(need, next_sequence);
    }
    if chosen.is_some() {
        return chosen;
    }
    let is_awaited = std::mem::take(&mut cleaner.credit) >= segment_size;
    if need == Need::Now && !reclaim_unused(state) {
        if is_awaited {
            // The dead records lie in segments that clients write to.
            state.clients.lender.ask_back();
        }
        // The space to gain lies in a segment with an appender, which may give the segment back at any moment.
        let State {
            cleaner, journal, ..
        } = state;
        cleaner.note_barren(journal.space.died(), journal.format());
    }
    None
}
