//! Copying what is needed of a segment to a segment of the cleaner's own.

use stonecast_base::mutant;
use stonecast_log::{
    Found, Heritage, Kind, RECORD_START_SIZE, Record, STAMP_SIZE, Stamp, UNIT_SIZE, relocate,
    walk_some,
};
use stonecast_media::Region;

use super::{Copied, Move, Step, Victim, units_of};
use crate::server::recovery::rebuild::resident;
use crate::server::space::{Purpose, Taken};
use crate::server::{Server, State};
use crate::wire::{KeyHash, Word};

/// What is to be done with a record.
enum Fate {
    /// It is needed: the index names it by this word, or it is a tombstone.
    Needed(Option<Word>),
    Dead,
    DroppedTombstone,
}

impl Server {
    /// Copies what is needed of the next `budget` bytes of the victim, and of the record that begins in them. At its end, seals
    /// its next generation.
    pub(super) fn copy_some(&self, budget: u64, horizon: u64, step: &mut Step) -> Copied {
        let state = &mut *self.state.borrow_mut();
        let Some(mut victim) = state.cleaner.victim.take_if(|victim| victim.next.is_none()) else {
            return Copied {
                bytes: 0,
                is_last: true,
            };
        };
        let (number, from) = (victim.state.number, victim.unit);
        let until = victim
            .unit
            .saturating_add(units_of(budget))
            .min(victim.state.end);
        // Where there is no room for a copy: from there it goes on when there is.
        let mut stopped = None;
        let place = (number, victim.state.generation);
        let next = walk_some(
            &*self.log,
            &self.format,
            place,
            (victim.unit, until),
            &mut |batch| {
                if stopped.is_none() {
                    stopped = self
                        .copy_batch(state, &mut victim, step, horizon, batch)
                        .err();
                }
            },
        );
        victim.unit = stopped.unwrap_or(next);
        let bytes = u64::from(victim.unit - from) * UNIT_SIZE;
        if victim.unit < victim.state.end {
            state.cleaner.victim = Some(victim);
            return Copied {
                bytes,
                is_last: stopped.is_some(),
            };
        }
        self.end_victim(state, &mut victim, step);
        if victim.next.is_some() {
            state.cleaner.victim = Some(victim);
        }
        Copied {
            bytes,
            is_last: true,
        }
    }

    /// Everything of the victim was seen.
    fn end_victim(&self, state: &mut State, victim: &mut Victim, step: &mut Step) {
        let State {
            cleaner,
            space,
            sequences,
            ..
        } = state;
        let whole = (victim.count, victim.xor) == (victim.state.count, victim.state.xor);
        if !whole || !victim.state.may_be_used_again() {
            // A record, perhaps a tombstone, is damaged, and stays to be told of; or this was the last generation.
            space.abandon(victim.state.number);
            cleaner.counters.abandoned += 1;
            return;
        }
        let own = Heritage {
            tokens_lost: victim.tokens_lost,
            sequence_floor: sequences.next() - 1,
        };
        cleaner.heritage = cleaner.heritage.and(own);
        let (next, seal) = victim
            .state
            .begin_reuse(&*self.log, &self.format, cleaner.heritage);
        step.spans.push(seal);
        victim.next = Some(next);
    }

    /// Copies what is needed of `batch`; an error is the unit of the first record that there was no room for.
    fn copy_batch(
        &self,
        state: &mut State,
        victim: &mut Victim,
        step: &mut Step,
        horizon: u64,
        batch: &[Found<'_>],
    ) -> Result<(), u32> {
        let mut hashes = std::mem::take(&mut state.cleaner.hashes);
        hashes.clear();
        hashes.extend(
            batch
                .iter()
                .map(|found| KeyHash::of(self.format.tag_key, found.key)),
        );
        hashes.iter().for_each(|&hash| state.index.prefetch(hash));
        let copied = hashes.iter().zip(batch).try_for_each(|(&hash, found)| {
            let (_, unit) = self.format.locate(found.position);
            match fate(state, &*self.log, hash, found, horizon) {
                Fate::Needed(old) => self
                    .copy(state, step, hash, old, found)
                    .map_err(|NoRoom| unit)?,
                fate => {
                    if found.header.token() != 0 {
                        victim.tokens_lost = victim.tokens_lost.max(found.header.sequence());
                    }
                    state.cleaner.counters.dropped_tombstones +=
                        u64::from(matches!(fate, Fate::DroppedTombstone));
                }
            }
            victim.count += 1;
            victim.xor ^= found.header.commit_tag();
            Ok(())
        });
        state.cleaner.hashes = hashes;
        copied
    }

    /// Copies a record to the cleaner's segment and stamps it there.
    fn copy(
        &self,
        state: &mut State,
        step: &mut Step,
        hash: KeyHash,
        old: Option<Word>,
        found: &Found<'_>,
    ) -> Result<(), NoRoom> {
        let size = found.header.size();
        let units = (size / UNIT_SIZE) as u32;
        let to = match state
            .cleaner
            .own
            .filter(|&number| state.space.room(number) >= units)
        {
            Some(number) => number,
            None => self.take_for_moves(state, step, units)?,
        };
        if step.copied > 0 && step.copied > state.space.spare_for_gap(to, step.copied) {
            // The next step copies it, when what was copied here is durable.
            return Err(NoRoom);
        }
        step.copied += size;
        let next_sequence = state.sequences.next();
        let State { space, cleaner, .. } = state;
        let (unit, generation) = {
            let segment = space.state(to);
            (segment.end, segment.generation)
        };
        let position = self.format.position(to, unit);
        let record = Record {
            header: found.header,
            key: found.key,
            value: found.value,
        };
        let opening = self.pool.opening();
        let tag = relocate(
            &self.format,
            record,
            (position, generation, opening),
            next_sequence,
            &mut cleaner.record,
        );
        self.log
            .write(position + STAMP_SIZE as u64, &cleaner.record[STAMP_SIZE..]);
        let segment = space.state(to);
        let sequence = found.header.sequence();
        let stamp = Stamp {
            sequence,
            previous: segment.last,
            durable: segment.durable,
            opening,
        };
        let commit_tag = stamp.write(&*self.log, &self.format, position, generation, tag, size);
        segment.note_stamped(unit, units, commit_tag);
        space.note_moved(to, size, &found.header, next_sequence);
        note_span(step, position, size);
        if step.segments.last() != Some(&to) {
            step.segments.push(to);
        }
        if let Some(old) = old {
            step.moves.push(Move {
                hash,
                old,
                new: Word::new(position, generation, hash, size),
                size,
                sequence,
                to,
            });
        }
        cleaner.counters.moved_records += 1;
        cleaner.counters.moved_bytes += size;
        Ok(())
    }

    /// Goes over to another segment of the cleaner's own with room for `units`.
    fn take_for_moves(
        &self,
        state: &mut State,
        step: &mut Step,
        units: u32,
    ) -> Result<u32, NoRoom> {
        step.copied = 0;
        if let Some(number) = state.cleaner.own.take() {
            step.spans.extend(state.space.give_back(number, &*self.log));
        }
        match state.space.take(units, Purpose::Clean) {
            Ok(Taken::Segment { number, fresh }) => {
                state.cleaner.own = Some(number);
                if fresh {
                    step.spans.push(
                        state
                            .space
                            .state(number)
                            .write_header(&*self.log, &self.format),
                    );
                }
                Ok(number)
            }
            Ok(Taken::Pending | Taken::NoSpace) => Err(NoRoom),
            Err(error) => {
                self.note_trouble(error);
                state.counters.space_failures += 1;
                Err(NoRoom)
            }
        }
    }
}

/// There is no room for a copy now.
struct NoRoom;

/// Records are copied one behind the other: what is persisted is one span, as long as they are.
fn note_span(step: &mut Step, position: u64, size: u64) {
    match step.spans.last_mut() {
        Some(span) if span.offset + span.size == position => span.size += size,
        _ => step.spans.push(stonecast_base::Span::new(position, size)),
    }
}

/// Whether a record is needed. Tombstones below `horizon` are not.
fn fate(
    state: &mut State,
    log: &dyn Region,
    hash: KeyHash,
    found: &Found<'_>,
    horizon: u64,
) -> Fate {
    let header = &found.header;
    match header.kind() {
        _ if found.is_void => Fate::Dead,
        Kind::Put => {
            let word = Word::new(found.position, header.generation(), hash, header.size());
            if mutant!(LiveRecordLeftBehind) && header.sequence().is_multiple_of(4) {
                return Fate::Dead;
            }
            if mutant!(RepublishedUnchecked) {
                let mut scratch = Vec::new();
                let same_key = |word: Word| {
                    resident(log, word.position(), found.key, &mut scratch)
                        .is_some_and(|r| r.same_key)
                };
                return state
                    .index
                    .find(hash, same_key)
                    .map_or(Fate::Dead, |(_, word)| Fate::Needed(Some(word)));
            }
            match state.index.find(hash, |other| other.names(word)) {
                Some(_) => Fate::Needed(Some(word)),
                None => Fate::Dead,
            }
        }
        Kind::Delete => {
            let has_newer = |state: &State| {
                let mut scratch = Vec::with_capacity(RECORD_START_SIZE + found.key.len());
                let is_newer = |word: Word| {
                    let resident = resident(log, word.position(), found.key, &mut scratch);
                    resident.is_some_and(|resident| {
                        resident.same_key && resident.header.sequence() > header.sequence()
                    })
                };
                state.index.find(hash, is_newer).is_some()
            };
            let dropped =
                header.sequence() < horizon || mutant!(TombstoneDroppedEarly) || has_newer(state);
            if dropped {
                Fate::DroppedTombstone
            } else {
                Fate::Needed(None)
            }
        }
    }
}
