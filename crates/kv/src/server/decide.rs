//! Deciding writes in their order, and stamping those that are to be done.

use stonecast_base::{Nanoseconds, Span, mutant};
use stonecast_log::{
    Condition, Draft, Kind, RECORD_START_SIZE, STAMP_SIZE, Stamp, UNIT_SIZE, record_size,
};

use super::batch::{Batch, Placed, Source, Write};
use super::{Server, State};
use crate::server::recovery::rebuild::resident;
use crate::server::space::{Purpose, Taken};
use crate::wire::Verdict;
use crate::wire::{KeyHash, Word};

/// Pause between two looks of a batch that waits for a segment that is being prepared.
const SPACE_LOOK_NS: Nanoseconds = 50_000;
/// How often it looks: for 20 seconds, more than that takes on the slowest disk. Not by the clock, which goes on while server
/// and preparing thread are both stopped.
const SPACE_LOOKS_MAX: u32 = 400_000;

/// Why there is no place for a record.
enum NoPlace {
    /// Its segment is being prepared.
    Pending,
    /// This is to be told.
    Refused(Verdict),
}

impl Server {
    /// Whether the index takes everything in `batch` whatever is there already.
    pub(super) fn is_roomy(&self, batch: &Batch) -> bool {
        let index = &self.state.borrow().index;
        index.len() + (batch.writes.len() as u64) < index.capacity()
    }

    /// Decides the writes that are not decided yet, in order, and stamps those that are to be done. A record that finds no
    /// room because a segment is still being prepared waits for that, for a while, and everything behind it: sent back, it
    /// would be overtaken by what its client sent after it. For a segment that has to be cleaned first nobody waits here:
    /// that is done between batches.
    pub(super) async fn decide(&self, batch: &mut Batch) {
        let mut looks = 0;
        while !self.decide_now(batch, looks < SPACE_LOOKS_MAX) {
            looks += 1;
            self.runtime.sleep(SPACE_LOOK_NS).await;
        }
    }

    /// Decides as far as there is room. False: it may wait, and has to.
    fn decide_now(&self, batch: &mut Batch, may_wait: bool) -> bool {
        let state = &mut *self.state.borrow_mut();
        let writes = &batch.writes[batch.decided..];
        writes
            .iter()
            .for_each(|write| state.index.prefetch(write.hash));
        for write in writes {
            for word in state.index.candidates(write.hash) {
                self.log.prefetch(
                    word.position(),
                    (RECORD_START_SIZE + write.key.1 - write.key.0) as u64,
                );
            }
        }
        self.make_room(state, batch.writes.len() as u64);
        // While the index has room for the whole batch, an unconditional put needs no look at what is there.
        let roomy = state.index.len() + (batch.writes.len() as u64) < state.index.capacity();
        for index in batch.decided..batch.writes.len() {
            let (earlier, rest) = batch.writes.split_at_mut(index);
            let write = &mut rest[0];
            let key = &batch.bytes[write.key.0..write.key.1];
            if self.options.publishes() && write.claimed.is_none() {
                write.claimed = self.claim(state, write.hash, key, &mut batch.record);
            }
            let mut adds = write.kind == Kind::Put;
            if write.kind == Kind::Delete || write.condition != Condition::None || !roomy {
                let present = self.present_version(
                    state,
                    earlier,
                    &batch.bytes,
                    write.hash,
                    key,
                    &mut batch.record,
                );
                adds &= present.is_none();
                write.version = present.unwrap_or(0);
                write.verdict = match (write.condition, present) {
                    _ if write.kind == Kind::Delete && present.is_none() => Verdict::Absent,
                    _ if mutant!(ConditionIgnored) => Verdict::Done,
                    (Condition::Version(version), Some(present)) if version == present => {
                        Verdict::Done
                    }
                    (Condition::Version(_), _) | (Condition::Absent, Some(_)) => Verdict::Conflict,
                    _ if adds
                        && state.index.len() as i64 + batch.inserted
                            >= state.index.capacity() as i64 =>
                    {
                        Verdict::IndexFull
                    }
                    _ => Verdict::Done,
                };
                if write.verdict != Verdict::Done {
                    give_back(state, write);
                    continue;
                }
            }
            if write.kind == Kind::Delete && mutant!(TombstoneLeftOut) {
                continue;
            }
            let value = &batch.bytes[write.value.0..write.value.1];
            let draft = Draft {
                kind: write.kind,
                condition: write.condition,
                token: write.token,
                key,
                value,
            };
            let placed = match write.source {
                Source::Placed(placed) => Ok(placed),
                Source::Copied => self.append(state, &draft, &mut batch.record),
            };
            match placed
                .and_then(|placed| self.stamp(state, write, placed).map_err(NoPlace::Refused))
            {
                Ok(span) => batch.spans.push(span),
                Err(NoPlace::Pending) if may_wait => {
                    batch.decided = index;
                    return false;
                }
                Err(refused) => {
                    write.verdict = match refused {
                        NoPlace::Pending => Verdict::Busy,
                        NoPlace::Refused(verdict) => verdict,
                    };
                    write.version = state.number_with(write.verdict);
                    give_back(state, write);
                    continue;
                }
            }
            batch.inserted += i64::from(adds) - i64::from(write.kind == Kind::Delete);
        }
        batch.decided = batch.writes.len();
        true
    }

    /// Keeps clients that publish off the word of `key`, if it is there and nobody does yet. Returns the word then.
    fn claim(
        &self,
        state: &State,
        hash: KeyHash,
        key: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Option<Word> {
        state.index.claim(hash, |word| {
            let resident = resident(&*self.log, word.position(), key, scratch)
                .filter(|resident| resident.same_key);
            resident.map(|resident| word.natural(resident.header.size()))
        })
    }

    /// Stamps the record of `write`. Returns the bytes to persist.
    fn stamp(&self, state: &mut State, write: &mut Write, placed: Placed) -> Result<Span, Verdict> {
        let Placed {
            segment: number,
            unit,
            generation,
            size,
            whole_size,
            tag,
        } = placed;
        let position = self.format.position(number, unit);
        let segment = state.space.state(number);
        if unit < segment.end {
            // Two records of one batch claim the same place: the client breaks the rules.
            return Err(Verdict::Invalid);
        }
        let (previous, durable, opening) = (segment.last, segment.durable, self.pool.opening());
        let sequence = state.sequences.take();
        let stamp = Stamp {
            sequence,
            previous,
            durable,
            opening,
        };
        let commit_tag = stamp.write(&*self.log, &self.format, position, generation, tag, size);
        segment.note_stamped(unit, (size / UNIT_SIZE) as u32, commit_tag);
        if mutant!(WitnessTooEarly) {
            state.space.tell_too_early(number, &*self.log);
        }
        state.space.note_stamped(number, size, sequence, write.kind);
        if !mutant!(OutcomesNotNoted) {
            state.outcomes.note(write.token, sequence);
        }
        write.version = sequence;
        write.word = Word::new(position, generation, write.hash, size);
        write.segment = number;
        Ok(Span::new(position, whole_size))
    }

    /// The key's version if everything decided so far were published.
    fn present_version(
        &self,
        state: &State,
        earlier: &[Write],
        bytes: &[u8],
        hash: KeyHash,
        key: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Option<u64> {
        let same = |write: &&Write| {
            write.verdict == Verdict::Done
                && write.hash == hash
                && bytes[write.key.0..write.key.1] == *key
        };
        if let Some(write) = earlier.iter().rev().find(same) {
            return (write.kind == Kind::Put).then_some(write.version);
        }
        let mut version = None;
        state.index.find(hash, |word| {
            let resident = resident(&*self.log, word.position(), key, scratch)
                .filter(|resident| resident.same_key);
            version = resident.map(|resident| resident.header.sequence());
            version.is_some()
        });
        version
    }

    /// Writes a record into a segment of the server's own.
    fn append(
        &self,
        state: &mut State,
        draft: &Draft<'_>,
        record: &mut Vec<u8>,
    ) -> Result<Placed, NoPlace> {
        let size = record_size(draft.key.len(), draft.value.len());
        let units = (size / UNIT_SIZE) as u32;
        let purpose = if draft.kind == Kind::Delete {
            Purpose::Delete
        } else {
            Purpose::Put
        };
        let own = if purpose == Purpose::Delete {
            state.own_delete
        } else {
            state.own_put
        };
        let segment = match own.filter(|&number| state.space.room(number) >= units) {
            Some(number) => number,
            None => self.take_own(state, units, purpose)?,
        };
        let (unit, generation) = {
            let segment = state.space.state(segment);
            (segment.end, segment.generation)
        };
        let position = self.format.position(segment, unit);
        let tag = draft.encode(
            &self.format,
            position,
            generation,
            self.pool.opening(),
            record,
        );
        self.log
            .write(position + STAMP_SIZE as u64, &record[STAMP_SIZE..]);
        Ok(Placed {
            segment,
            unit,
            generation,
            size,
            whole_size: record.len() as u64,
            tag,
        })
    }

    /// Goes over to a segment of the server's own with room for `units`.
    fn take_own(&self, state: &mut State, units: u32, purpose: Purpose) -> Result<u32, NoPlace> {
        let owner = if purpose == Purpose::Delete {
            &mut state.own_delete
        } else {
            &mut state.own_put
        };
        if let Some(number) = owner.take() {
            state
                .unpersisted
                .extend(state.space.give_back(number, &*self.log));
        }
        match state.space.take(units, purpose) {
            Ok(Taken::Segment { number, fresh }) => {
                *owner = Some(number);
                if fresh {
                    let span = state
                        .space
                        .state(number)
                        .write_header(&*self.log, &self.format);
                    state.unpersisted.push(span);
                }
                state.cleaner.note_given();
                self.lease_wanted.set(false);
                Ok(number)
            }
            Ok(Taken::Pending) => Err(NoPlace::Pending),
            Ok(Taken::NoSpace) => Err(NoPlace::Refused(match purpose {
                Purpose::Delete => self.make_room_for_deletes(state),
                Purpose::Put | Purpose::Clean => self.refuse_space(state, units),
            })),
            // Nothing was written, and nothing that was is in doubt: whoever asked is told, everybody else is served.
            Err(error) => {
                self.note_trouble(error);
                state.counters.space_failures += 1;
                Err(NoPlace::Refused(Verdict::SpaceFailed))
            }
        }
    }
}

/// Lets clients at the word of a key again that is not written after all.
fn give_back(state: &State, write: &mut Write) {
    if let Some(word) = write.claimed.take() {
        state.index.give_back(write.hash, word);
    }
}
