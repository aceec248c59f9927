//! Cleaning: makes segments free while they are read and written.
//!
//! ```text
//!   choose    a segment that nobody holds                     space/policy.rs
//!   copy      what is needed of it, some of it at a time      copy.rs
//!   persist   the copies                                      durable, invisible
//!   publish   index words, where they still name the old      visible
//!   ...       until the segment's end
//!   free      its next generation, persisted; then it may be written again
//! ```
//!
//! Steps are taken between batches, in the server's task, so index and log agree and no word changes under them. A step is a
//! few pieces long and ends behind the piece in which somebody comes, as long as what is cleaned is ahead of what is
//! written; so how long anybody waits for one is bounded. How much is copied follows what is written. Nothing runs in a
//! server that nobody writes to.
//!
//! Reads go on all the time, one-sided: the old place stays as it is until its segment is written in its next generation.
//! Whoever then reads it through an old word finds another generation, or no whole record, and reads the word again.
//!
//! Invariants:
//! - A segment gets its next generation only when the index names nothing in it, everything that was stamped in it was
//!   seen, and the copies are durable. Where not everything is found again, something is damaged, and it stays.
//! - A tombstone is left behind only when no other segment can have an older version of its key, or a newer one is there.
//! - A segment is written only when its next generation is durable; what the log has to remember of it is durable before.
//!
//! A crash leaves the old segment whole, or its next generation and all copies. Copies beside their originals have the same
//! version and say the same.

mod copy;

use std::task::Poll;

use stonecast_base::{Span, mutant};
use stonecast_log::{Heritage, LogFormat, SegmentState, UNIT_SIZE};
use stonecast_media::MediaError;
use stonecast_persist::Persisted;

use super::{Server, State};
use crate::cleaning::Cleaning;
use crate::error::StoreError;
use crate::server::space::Need;
use crate::wire::Verdict;
use crate::wire::limits::LEASE_RECLAIM_NS;
use crate::wire::{KeyHash, Word};

/// Bytes of a segment that are looked at in a step, where persisting costs by the line.
const STEP_SIZE: u64 = 32 << 10;
/// Bytes of it that are looked at before it is seen whether somebody waits: a few records.
const PIECE_SIZE: u64 = 2 << 10;
/// A step is made in one piece when more than this part of a segment is due: what is cleaned must stay ahead of what
/// is written.
const LATE_SHARE: u64 = 4;
/// The same where persisting is a sync of a file, which costs the same for one line and for many.
const SYNCED_STEP_SIZE: u64 = 256 << 10;
/// What is cleaned is ahead of what is written by a half.
const AHEAD_NUMERATOR: u64 = 3;
const AHEAD_DENOMINATOR: u64 = 2;

/// What the cleaner has in hand. See the module documentation.
#[derive(Default)]
pub(super) struct Cleaner {
    victim: Option<Victim>,
    /// Segment that records are moved to.
    own: Option<u32>,
    /// Bytes that may be looked at before more is written.
    credit: u64,
    /// Segments freed, and searches for one in vain, since a segment was given to anybody: when they are many, nothing is gained.
    barren: u32,
    /// Nothing is gained until more than this has died.
    exhausted_until: u64,
    /// What the log remembers of freed segments.
    heritage: Heritage,
    /// What was done so far.
    counters: Cleaning,
    record: Vec<u8>,
    hashes: Vec<KeyHash>,
}

/// A segment that is being cleaned.
struct Victim {
    state: SegmentState,
    /// Where to go on.
    unit: u32,
    /// Records seen so far, and the XOR of their commit tags.
    count: u32,
    xor: u64,
    /// Highest sequence of a record with a token that was left behind.
    tokens_lost: u64,
    /// What it will be; its seal is durable.
    next: Option<SegmentState>,
}

/// What is to be done in a step.
struct Due {
    /// Bytes of the victim to look at.
    bytes: u64,
    /// Nobody who comes meanwhile ends the step.
    is_late: bool,
    /// Tombstones below this are not needed.
    horizon: u64,
}

/// What was done of it.
struct Copied {
    /// Bytes of the victim that were looked at.
    bytes: u64,
    /// There is no more to copy, or no room for it.
    is_last: bool,
}

/// A record that was copied.
struct Move {
    hash: KeyHash,
    old: Word,
    new: Word,
    size: u64,
    sequence: u64,
    to: u32,
}

/// What a step has to make durable and visible.
#[derive(Default)]
struct Step {
    moves: Vec<Move>,
    /// Bytes copied to the segment that is appended to now.
    copied: u64,
    spans: Vec<Span>,
    /// Segments that were appended to.
    segments: Vec<u32>,
}

impl Cleaner {
    pub fn new(heritage: Heritage) -> Self {
        Self {
            heritage,
            ..Self::default()
        }
    }

    /// Somebody gave a segment back: there may be something to gain in it.
    pub fn note_given_back(&mut self) {
        self.barren = 0;
        self.exhausted_until = 0;
    }

    /// A segment was freed, or none was found to clean, and nobody was given one yet. Once that has happened often nothing is
    /// gained any more: what is moved takes as much room as before, since records are too large for what is left.
    fn note_barren(&mut self, died: u64, format: &LogFormat) {
        self.barren += 1;
        if self.barren > 2 * format.segment_count + 8 {
            self.exhausted_until = died + format.segment_size / 8;
            self.barren = 0;
        }
    }

    /// So many leases were taken back.
    pub fn note_reclaimed(&mut self, leases: usize) {
        self.counters.reclaimed_leases += leases as u64;
    }

    /// Somebody was given a segment to write to: cleaning gains something.
    pub fn note_given(&mut self) {
        self.barren = 0;
    }
}

impl Server {
    /// Cleans as much as is due after a batch.
    pub(super) async fn tend_log(&self) -> Result<(), StoreError> {
        let Some(due) = self.due() else { return Ok(()) };
        self.persist_seal_of_victim().await?;
        let step = self.copy_due(due).await;
        self.conclude_step(step).await?;
        self.free_victim().await
    }

    /// The seal of the victim's next generation will take the slot of the seal before its newest one. A crash may keep the former
    /// and lose the newest, unless that is durable before; then what lies above the lost one would look like damage.
    async fn persist_seal_of_victim(&self) -> Result<(), StoreError> {
        let spans = {
            let State {
                cleaner,
                unpersisted,
                counters,
                ..
            } = &mut *self.state.borrow_mut();
            let is_of_victim = |span: &Span| {
                let number = self.format.locate(span.offset).0;
                let victim = cleaner.victim.as_ref();
                victim.is_some_and(|victim| u64::from(victim.state.number) == number)
            };
            if !unpersisted.iter().any(is_of_victim) {
                return Ok(());
            }
            counters.persists += 1;
            std::mem::take(unpersisted)
        };
        let _durable = self
            .commit
            .persist(&*self.log, &spans)
            .await
            .map_err(MediaError::from)?;
        Ok(())
    }

    /// Copies a piece after the other of what is due. When somebody comes meanwhile the rest is left for later, unless
    /// that is late: an operation waits for a piece and a persist, not for a step.
    async fn copy_due(&self, due: Due) -> Step {
        let mut step = Step::default();
        let piece = if due.is_late || self.syncs_files() {
            due.bytes
        } else {
            PIECE_SIZE
        };
        let mut done = 0;
        while done < due.bytes {
            let copied = self.copy_some(piece.min(due.bytes - done), due.horizon, &mut step);
            done += copied.bytes;
            if copied.is_last {
                break;
            }
            self.give_way().await;
            if self.port.has_activity() {
                break;
            }
        }
        let cleaner = &mut self.state.borrow_mut().cleaner;
        cleaner.credit = cleaner.credit.saturating_sub(due.bytes.min(done));
        step
    }

    /// Lets what has arrived be seen.
    async fn give_way(&self) {
        let mut gave = false;
        std::future::poll_fn(|context| {
            if std::mem::replace(&mut gave, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Whether more is due than was done.
    pub(super) fn is_cleaning(&self) -> bool {
        self.state.borrow().cleaner.credit > 0
    }

    /// What to tell somebody who finds no segment with room for `units`: *busy* if one can be made free, then it is, or if there
    /// is room that is only leased, then it is asked for, or if a segment is on its way back; else what is full.
    pub(super) fn refuse_space(&self, state: &mut State, units: u32) -> Verdict {
        let State { cleaner, space, .. } = state;
        space
            .take_refusal()
            .into_iter()
            .for_each(|error| self.note_trouble(error));
        space.release_earlier_run();
        let is_gain = cleaner.victim.is_some() || space.may_gain();
        if is_gain && space.died() >= cleaner.exhausted_until {
            cleaner.credit = cleaner.credit.max(self.format.segment_size);
            Verdict::Busy
        } else if self.reclaim_unused(state) {
            Verdict::Busy
        } else if self.is_room_leased(state, units, is_gain) {
            self.lease_wanted.set(true);
            Verdict::Busy
        } else if self.revocations.leases_to_come() > 0 {
            Verdict::Busy
        } else if state.space.lacks_medium() {
            Verdict::MediumFull
        } else {
            Verdict::NoSpace
        }
    }

    /// What to tell a delete that finds no room for its tombstone: *busy*, and a segment is made free. That it is refused takes
    /// segments that stay because something in them is damaged.
    pub(super) fn make_room_for_deletes(&self, state: &mut State) -> Verdict {
        let next_sequence = state.sequences.next();
        let State { cleaner, space, .. } = state;
        space
            .take_refusal()
            .into_iter()
            .for_each(|error| self.note_trouble(error));
        space.release_earlier_run();
        cleaner.credit = cleaner.credit.max(self.format.segment_size);
        let is_under_way = cleaner.victim.is_some()
            || cleaner.own.is_some()
            || state.own_put.is_some()
            || self.revocations.leases_to_come() > 0;
        let comes_back = |state: &State| state.sessions.leased().next().is_some();
        if is_under_way
            || space.choose_victim(Need::Now, next_sequence).is_some()
            || space.waits_for_earlier_run()
            || comes_back(state)
        {
            Verdict::Busy
        } else if state.space.lacks_medium() {
            Verdict::MediumFull
        } else {
            Verdict::NoSpace
        }
    }

    /// What to look at in a step now; `None`: there is nothing to do.
    fn due(&self) -> Option<Due> {
        let state = &mut *self.state.borrow_mut();
        self.drain_intents(state);
        let next_sequence = state.sequences.next();
        let State {
            cleaner,
            space,
            sessions,
            own_put,
            own_delete,
            unpersisted,
            ..
        } = state;
        let appended = space.take_appended();
        cleaner.counters.written_bytes += appended;
        if appended == 0 && cleaner.credit == 0 {
            return None;
        }
        if space.tombstones_wait_for_clients() {
            let idle = self.reclaim_rights(sessions, LEASE_RECLAIM_NS);
            self.idle_rights.borrow_mut().extend(idle);
        }
        if cleaner.victim.is_none() {
            space.release_earlier_run();
            let need = space.need();
            let mut chosen = match need {
                Need::None => None,
                _ if space.died() < cleaner.exhausted_until && !space.delete_waits() => None,
                _ => space.choose_victim(need, next_sequence),
            };
            if chosen.is_none() && need == Need::Now {
                // What is dead lies in the segments that the server itself appends to: it takes others.
                let own = [cleaner.own.take(), own_put.take(), own_delete.take()];
                unpersisted.extend(
                    own.into_iter()
                        .flatten()
                        .filter_map(|number| space.give_back(number, &*self.log)),
                );
                chosen = space.choose_victim(need, next_sequence);
            }
            let Some(number) = chosen else {
                let is_awaited = std::mem::take(&mut cleaner.credit) >= self.format.segment_size;
                if need == Need::Now && self.reclaim_unused(state) {
                    return None;
                }
                if need == Need::Now && is_awaited {
                    // What is dead lies where clients write.
                    self.lease_wanted.set(true);
                }
                let State { cleaner, space, .. } = state;
                if need == Need::Now {
                    // What there is to gain lies where somebody appends: it may be given back at any moment.
                    cleaner.note_barren(space.died(), &self.format);
                }
                return None;
            };
            let state = space.begin_cleaning(number);
            let unit = stonecast_log::SEGMENT_HEADER_UNITS;
            cleaner.victim = Some(Victim {
                state,
                unit,
                count: 0,
                xor: 0,
                tokens_lost: 0,
                next: None,
            });
        }
        let victim = cleaner.victim.as_ref().expect("there is one by now");
        // To make room for what was written, so much has to be looked at.
        let horizon = space.horizon(victim.state.number);
        let gain = space.gain(victim.state.number, horizon).max(1);
        let ratio = (self.format.segment_size * AHEAD_NUMERATOR).div_ceil(gain * AHEAD_DENOMINATOR);
        cleaner.credit = cleaner
            .credit
            .saturating_add(appended * ratio)
            .min(4 * self.format.segment_size);
        let step = if self.syncs_files() {
            SYNCED_STEP_SIZE
        } else {
            STEP_SIZE
        };
        let need = space.need();
        if need < Need::Now && cleaner.credit < step {
            // Below a step it is cheaper to wait for more.
            return None;
        }
        // Whoever is told to wait makes a whole segment due.
        let is_late = cleaner.credit > self.format.segment_size / LATE_SHARE;
        Some(Due {
            bytes: step,
            is_late,
            horizon,
        })
    }

    /// Makes the copies of a step durable and then visible.
    async fn conclude_step(&self, mut step: Step) -> Result<(), StoreError> {
        if step.spans.is_empty() {
            return Ok(());
        }
        {
            let state = &mut *self.state.borrow_mut();
            step.spans.append(&mut state.unpersisted);
            step.spans.extend(state.space.take_due_witnesses());
        }
        let spans: &[Span] = if mutant!(CopiesNotDurable) {
            &[]
        } else {
            &step.spans
        };
        let persisted = self
            .commit
            .persist(&*self.log, spans)
            .await
            .map_err(MediaError::from)?;
        self.publish_moves(&step, &persisted);
        Ok(())
    }

    /// Stores the index words of what was moved. Takes the proof that the copies are durable.
    fn publish_moves(&self, step: &Step, _: &Persisted) {
        let state = &mut *self.state.borrow_mut();
        let State {
            index,
            space,
            cleaner,
            counters,
            ..
        } = state;
        counters.persists += 1;
        step.segments
            .iter()
            .for_each(|&number| space.note_durable(number, &*self.log));
        for moved in &step.moves {
            let is_moved = loop {
                let Some(found) = index.find(moved.hash, |word| word.names(moved.old)) else {
                    break false;
                };
                if index.replace(moved.hash, found, moved.new) {
                    break true;
                }
            };
            if !is_moved {
                // A client has published a newer one meanwhile.
                space.note_useless_copy(moved.to, moved.sequence);
                continue;
            }
            space.note_moved_away(moved.old.position(), moved.size, moved.sequence);
            space.note_live(moved.to, moved.size);
        }
        cleaner.counters.steps += 1;
    }

    /// Frees the victim if everything needed of it is elsewhere.
    async fn free_victim(&self) -> Result<(), StoreError> {
        let header = {
            let state = &mut *self.state.borrow_mut();
            self.drain_intents(state);
            let State { cleaner, space, .. } = state;
            let Some(Victim {
                state: old,
                next: Some(next),
                ..
            }) = &cleaner.victim
            else {
                return Ok(());
            };
            if !space.may_reuse(next, self.runtime.now()) {
                return Ok(());
            }
            // Where clients publish, what they are about to do is counted, so it may be below zero.
            let live = space.occupancy(old.number).live;
            let is_counted = live == 0 || (live < 0 && self.options.publishes());
            if !is_counted && !mutant!(LiveRecordLeftBehind) && !mutant!(RepublishedUnchecked) {
                // The index names something that was not found: its word, or where it points, is not what it was.
                space.abandon(old.number);
                cleaner.counters.abandoned += 1;
                cleaner.victim = None;
                return Ok(());
            }
            next.write_header(&*self.log, &self.format)
        };
        let spans: &[Span] = if mutant!(NextGenerationNotPersisted) {
            &[]
        } else {
            &[header]
        };
        let renewed = self
            .commit
            .persist(&*self.log, spans)
            .await
            .map_err(MediaError::from)?;
        let state = &mut *self.state.borrow_mut();
        let State {
            cleaner,
            space,
            counters,
            ..
        } = state;
        counters.persists += 1;
        let next = cleaner
            .victim
            .take()
            .and_then(|victim| victim.next)
            .expect("it was there before the persist");
        space.free(next, &*self.log, self.runtime.now(), &renewed);
        cleaner.counters.segments += 1;
        cleaner.note_barren(space.died(), &self.format);
        Ok(())
    }

    /// What cleaning has done.
    pub fn cleaning(&self) -> Cleaning {
        let state = self.state.borrow();
        Cleaning {
            tombstone_bytes: state.space.tombstone_bytes(),
            ..state.cleaner.counters
        }
    }
}

/// Bytes as whole units, at least one.
fn units_of(bytes: u64) -> u32 {
    u32::try_from(bytes / UNIT_SIZE).unwrap_or(u32::MAX).max(1)
}
