//! Copies the needed records of a segment to a segment of the cleaner's own.

use stonecast_base::{Span, mutant};
use stonecast_log::{Form, Found, Heritage, Kind, Record, UNIT_SIZE, record_size, walk_some};

use super::{Cleaner, Copied, Step, Victim};
use crate::server::journal::{Journal, Placed};
use crate::server::keeper::Keeper;
use crate::server::shard::{Move, Shard};
use crate::server::shards::Shards;
use crate::server::space::Purpose;
use crate::server::time::ServerTime;
use crate::wire::{KeyHash, Route, Word};

/// Facts beside the indexes that decide whether a record is needed.
#[derive(Clone, Copy)]
pub(super) struct Needs<'a> {
    /// The keeper of a pool of a cluster.
    pub keeper: Option<&'a Keeper>,
    /// Tombstones below are not needed.
    pub horizon: u64,
    /// The server's time: a record that has expired is a tombstone.
    pub time: &'a ServerTime,
}

/// The fate of a record.
enum Fate {
    /// The record is needed: the index names the record by this word, or the record is a tombstone.
    Needed(Option<Word>),
    /// The record has expired, and is needed as a tombstone.
    Expired,
    Dead,
    DroppedTombstone,
}

impl Cleaner {
    /// Copies the needed records of the next `budget` bytes of the victim, including a record that ends behind these
    /// bytes. At the victim's end, writes the seal of its next generation.
    pub(super) fn copy_some(
        &mut self,
        shards: &mut Shards,
        journal: &mut Journal,
        budget: u64,
        needs: Needs<'_>,
        step: &mut Step,
    ) -> Copied {
        let Some(mut victim) = self.victim.take_if(|victim| victim.next.is_none()) else {
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
        // The first record without room for its copy. The next step continues there once there is room.
        let mut stopped = None;
        let place = (number, victim.state.generation);
        let (log, format) = (journal.log().clone(), *journal.format());
        let range = (victim.unit, until);
        let next = walk_some(&*log, &format, place, range, &mut |batch| {
            if stopped.is_none() {
                let parts = (&mut *shards, &mut *journal);
                stopped = self
                    .copy_batch(parts, (&mut victim, step), needs, batch)
                    .err();
            }
        });
        victim.unit = stopped.unwrap_or(next);
        let bytes = u64::from(victim.unit - from) * UNIT_SIZE;
        if victim.unit < victim.state.end {
            self.victim = Some(victim);
            return Copied {
                bytes,
                is_last: stopped.is_some(),
            };
        }
        self.end_victim(journal, &mut victim, step);
        if victim.next.is_some() {
            self.victim = Some(victim);
        }
        Copied {
            bytes,
            is_last: true,
        }
    }

    /// Ends the copying of a victim: all of its bytes were seen.
    fn end_victim(&mut self, journal: &mut Journal, victim: &mut Victim, step: &mut Step) {
        let whole = (victim.count, victim.xor) == (victim.state.count, victim.state.xor);
        if !whole || !victim.state.may_be_used_again() {
            // A record, perhaps a tombstone, is damaged, and stays in place to be reported; or this was the last
            // generation.
            journal.space.abandon(victim.state.number);
            self.counters.abandoned += 1;
            return;
        }
        let own = Heritage {
            tokens_lost: victim.tokens_lost,
            sequence_floor: journal.sequences.next() - 1,
        };
        self.heritage = self.heritage.and(own);
        let log = journal.log().clone();
        let reuse = victim
            .state
            .begin_reuse(&*log, journal.format(), self.heritage);
        let (next, seal) = reuse;
        step.spans.push(seal);
        victim.next = Some(next);
    }

    /// Copies the needed records of `batch`. An error is the unit of the first record without room for its copy.
    fn copy_batch(
        &mut self,
        (shards, journal): (&mut Shards, &mut Journal),
        (victim, step): (&mut Victim, &mut Step),
        needs: Needs<'_>,
        batch: &[Found<'_>],
    ) -> Result<(), u32> {
        let mut routes = std::mem::take(&mut self.routes);
        routes.clear();
        let route_of = |found: &Found<'_>| shards.route_of(found.header.form(), found.key);
        routes.extend(batch.iter().map(route_of));
        routes
            .iter()
            .for_each(|&Route { shard, hash }| shards.of(shard).index().prefetch(hash));
        let copied = routes.iter().zip(batch).try_for_each(|(&route, found)| {
            let (_, unit) = journal.format().locate(found.position);
            match fate(shards, route, found, needs) {
                Fate::Needed(old) => self
                    .copy(journal, step, (route, old), found)
                    .map_err(|NoRoom| unit)?,
                Fate::Expired => self.bury(journal, step, found).map_err(|NoRoom| unit)?,
                fate => {
                    if found.header.token() != 0 {
                        victim.tokens_lost = victim.tokens_lost.max(found.header.sequence());
                    }
                    self.counters.dropped_tombstones +=
                        u64::from(matches!(fate, Fate::DroppedTombstone));
                }
            }
            victim.count += 1;
            victim.xor ^= found.header.commit_tag();
            Ok(())
        });
        self.routes = routes;
        copied
    }

    /// Copies a record to the cleaner's segment, and stamps the copy.
    fn copy(
        &mut self,
        journal: &mut Journal,
        step: &mut Step,
        (route, old): (Route, Option<Word>),
        found: &Found<'_>,
    ) -> Result<(), NoRoom> {
        let size = found.header.size();
        let to = self.place(journal, step, size)?;
        let next_sequence = journal.sequences.next();
        let placed = journal.write_moved(to, record_of(found), next_sequence);
        journal.stamp_moved(&placed, &found.header, next_sequence);
        note_copy(step, journal, &placed);
        if let Some(old) = old {
            step.moves.push(Move {
                route,
                old,
                new: journal.word(&placed, route.hash),
                size,
                sequence: found.header.sequence(),
                to,
            });
        }
        self.counters.moved_records += 1;
        self.counters.moved_bytes += size;
        Ok(())
    }

    /// Writes a tombstone of the version of an expired record to the cleaner's segment, and stamps it.
    fn bury(
        &mut self,
        journal: &mut Journal,
        step: &mut Step,
        found: &Found<'_>,
    ) -> Result<(), NoRoom> {
        let size = record_size(found.key.len(), 0);
        let to = self.place(journal, step, size)?;
        let placed = journal.bury(to, record_of(found));
        note_copy(step, journal, &placed);
        self.counters.moved_records += 1;
        self.counters.moved_bytes += size;
        Ok(())
    }

    /// The cleaner's segment with room for a copy of `size` bytes.
    fn place(&mut self, journal: &mut Journal, step: &mut Step, size: u64) -> Result<u32, NoRoom> {
        let units = (size / UNIT_SIZE) as u32;
        let own = self.own;
        let to = match own.filter(|&number| journal.space.room(number) >= units) {
            Some(number) => number,
            None => self.take_for_moves(journal, step, units)?,
        };
        if step.copied > 0 && step.copied > journal.space.spare_for_gap(to, step.copied) {
            // The next step copies this record, once the copies so far are durable.
            return Err(NoRoom);
        }
        step.copied += size;
        Ok(to)
    }

    /// Switches to another segment of the cleaner's own with room for `units`.
    fn take_for_moves(
        &mut self,
        journal: &mut Journal,
        step: &mut Step,
        units: u32,
    ) -> Result<u32, NoRoom> {
        step.copied = 0;
        if let Some(number) = self.own.take() {
            let log = journal.log().clone();
            step.spans.extend(journal.space.give_back(number, &*log));
        }
        let (number, header) = journal.take(units, Purpose::Clean).map_err(|_| NoRoom)?;
        self.own = Some(number);
        step.spans.extend(header);
        Ok(number)
    }
}

/// Bytes as whole units, at least one.
fn units_of(bytes: u64) -> u32 {
    u32::try_from(bytes / UNIT_SIZE).unwrap_or(u32::MAX).max(1)
}

/// No room is left for a copy at the moment.
struct NoRoom;

fn record_of<'f>(found: &Found<'f>) -> Record<'f> {
    Record {
        header: found.header,
        key: found.key,
        value: found.value,
    }
}

/// Notes a copy that the step has to make durable.
fn note_copy(step: &mut Step, journal: &Journal, placed: &Placed) {
    let to = placed.segment;
    note_span(
        step,
        journal.format().position(to, placed.unit),
        placed.size,
    );
    if step.segments.last() != Some(&to) {
        step.segments.push(to);
    }
}

/// Adds a copy to the span that is persisted: copies lie one after the other, so they need only one span.
fn note_span(step: &mut Step, position: u64, size: u64) {
    match step.spans.last_mut() {
        Some(span) if span.offset + span.size == position => span.size += size,
        _ => step.spans.push(Span::new(position, size)),
    }
}

/// Decides whether a record is needed.
fn fate(shards: &mut Shards, route: Route, found: &Found<'_>, needs: Needs<'_>) -> Fate {
    let (shard, hash) = (shards.of_mut(route.shard), route.hash);
    let header = &found.header;
    match header.kind() {
        _ if found.is_void => Fate::Dead,
        // A moved record counts without the history, and so would the copy of a void tombstone.
        _ if needs
            .keeper
            .is_some_and(|keeper| keeper.is_void(route.shard, header)) =>
        {
            Fate::Dead
        }
        Kind::Put if mutant!(LiveRecordLeftBehind) && header.sequence().is_multiple_of(4) => {
            Fate::Dead
        }
        Kind::Put if mutant!(RepublishedUnchecked) => shard
            .word_of_key(hash, found.key)
            .map_or(Fate::Dead, |word| Fate::Needed(Some(word))),
        Kind::Put => {
            let expires = header.expires();
            let now_ms = || needs.time.now_ms(route.shard);
            let has_expired = expires.is_some_and(|expires| expires.has_come(now_ms()));
            match shard.word_of_record(hash, found) {
                // The key is removed from the index first, so that no word names a record that is dropped.
                Some(word) => Fate::Needed(Some(word)),
                // A chunk is written once: no older version of it can come back.
                None if header.form() == Form::Chunk => Fate::Dead,
                None if !has_expired || mutant!(ExpiredLeavesNoTombstone) => Fate::Dead,
                None if is_dropped(shard, hash, found, needs) => Fate::DroppedTombstone,
                None => Fate::Expired,
            }
        }
        // The mark is in the header of the pool.
        Kind::Delete if header.time_mark().is_some() => Fate::Dead,
        Kind::Delete => match is_dropped(shard, hash, found, needs) {
            true => Fate::DroppedTombstone,
            false => Fate::Needed(None),
        },
    }
}

/// Whether a tombstone, or an expired record, is not needed: no older version of its key can be in the log, or the key
/// has a newer one.
fn is_dropped(shard: &mut Shard, hash: KeyHash, found: &Found<'_>, needs: Needs<'_>) -> bool {
    let sequence = found.header.sequence();
    sequence < needs.horizon
        || mutant!(TombstoneDroppedEarly)
        || shard.has_later(hash, found.key, sequence)
}
