//! Bundles: the batches of clients, which are done as a whole or not at all.
//!
//! ```text
//!   a record that brings a batch -> entries      writes and expectations, in the order of arrivals
//!   decide    every expectation, then room for all
//!   stamp     all records one behind the other in one segment, with consecutive sequences: one persist has them
//! ```
//!
//! A bundle waits until it can be stamped at once. No record of it is stamped before all are, so each persist has all
//! of its records or none. The records say their places, and a recovery counts all of them or none
//! (`recovery/batches.rs`).
//!
//! The words of keys that the bundle only expects are claimed until the bundle is visible, so that no publishing client
//! overwrites such a key in between.

use std::ops::Range;

use stonecast_base::mutant;
use stonecast_fabric::QueuePair;
use stonecast_log::{BatchPlace, Condition, Draft, Kind, SEGMENT_HEADER_UNITS, UNIT_SIZE};

use super::batch::{Owed, RequestBatch, Source, Write};
use super::decide::{Stamped, Waits, append_room, presence};
use super::requests;
use crate::server::State;
use crate::server::shards::Shards;
use crate::server::shortage::NoPlace;
use crate::server::space::Purpose;
use crate::wire::limits::BATCH_KEYS_MAX;
use crate::wire::{Answer, EntryChange, Expectation, Route, Verdict, Word, next_entry};

/// A batch of a client.
pub(super) struct Bundle {
    /// Its writes and its expectations in [`RequestBatch`].
    pub writes: Range<usize>,
    pub expected: Range<usize>,
    pub verdict: Verdict,
    /// The version of the first write if done; or the number that comes with a refusal.
    pub number: u64,
    /// The words of keys that are only expected.
    claimed: Vec<(Route, Word)>,
    has_claimed: bool,
}

/// An expectation of a bundle.
pub(super) struct Expected {
    /// Place of the entry in the batch.
    place: u32,
    route: Route,
    /// The key in [`RequestBatch::bytes`].
    key: (usize, usize),
    expectation: Expectation,
    /// Whether the bundle does not change the key.
    is_only_expected: bool,
}

/// Takes the batch that `carrier` brings apart. The carrier itself is no write.
pub(super) fn take_bundle(
    state: &mut State,
    batch: &mut RequestBatch,
    qp: QueuePair,
    carrier: &Write,
) -> Owed {
    if state.keeper.is_some() {
        return Owed::Answer(Verdict::NoBatch.into());
    }
    if let Err(refused) = requests::refusal(state, qp, carrier.route.shard) {
        return Owed::Answer(refused);
    }
    let (writes, expected) = (batch.writes.len(), batch.expected.len());
    if let Err(refused) = take_entries(state, batch, carrier) {
        batch.writes.truncate(writes);
        batch.expected.truncate(expected);
        return Owed::Answer(refused);
    }
    batch.bundles.push(Bundle {
        writes: writes..batch.writes.len(),
        expected: expected..batch.expected.len(),
        verdict: Verdict::Done,
        number: 0,
        claimed: Vec::new(),
        has_claimed: false,
    });
    Owed::Bundle(batch.bundles.len() - 1)
}

fn take_entries(state: &State, batch: &mut RequestBatch, carrier: &Write) -> Result<(), Answer> {
    let RequestBatch {
        writes,
        expected,
        bytes,
        ..
    } = batch;
    let first = writes.len();
    let mut rest = &bytes[carrier.value.0..carrier.value.1];
    let mut place = 0;
    while !rest.is_empty() {
        let entry = next_entry(&mut rest).filter(|_| place < BATCH_KEYS_MAX);
        let entry = entry.ok_or(Verdict::Invalid)?;
        let route = state.shards.route(entry.key);
        let value_size = match entry.change {
            Some(EntryChange::Put { value, .. }) => value.len(),
            _ => 0,
        };
        let end = carrier.value.1 - rest.len();
        let value = (end - value_size, end);
        let key = (value.0 - entry.key.len(), value.0);
        if let Some(expectation) = entry.expectation {
            expected.push(Expected {
                place: place as u32,
                route,
                key,
                expectation,
                is_only_expected: entry.change.is_none(),
            });
        }
        place += 1;
        let (kind, expires) = match entry.change {
            None => continue,
            Some(EntryChange::Put { expires, .. }) => (Kind::Put, expires),
            Some(EntryChange::Delete) => (Kind::Delete, None),
        };
        // The first record has the token of the whole batch.
        let token = match writes.len() == first {
            true => carrier.token,
            false => 0,
        };
        let rules = (kind, Condition::None, token);
        let mut write = Write::new(Source::Copied, rules, route, key, value);
        write.expires = expires;
        if let Some(refused) = requests::refusal_of_expiry(state, &write) {
            return Err(refused);
        }
        writes.push(write);
    }
    match place {
        0 => Err(Verdict::Invalid.into()),
        _ => Ok(()),
    }
}

impl Stamped {
    /// Decides the bundle `index` behind all writes before it, and stamps all of its writes, or says why it waits.
    pub(super) fn decide_bundle(
        &mut self,
        state: &mut State,
        may_wait: bool,
        batch: &mut RequestBatch,
        index: usize,
    ) -> Result<(), Waits> {
        let RequestBatch {
            writes,
            bundles,
            expected,
            bytes,
            ..
        } = batch;
        let bundle = &mut bundles[index];
        let (earlier, rest) = writes.split_at_mut(bundle.writes.start);
        let own = &mut rest[..bundle.writes.len()];
        let expected = &expected[bundle.expected.clone()];
        bundle.claim_all(&mut state.shards, own, expected, bytes);
        let decided = match self.contradicted(state, (earlier, bytes), expected)? {
            Some(place) => Err((Verdict::Contradicted, u64::from(place))),
            None => self.check_places(state, (earlier, bytes), own),
        };
        let decided = match decided {
            Ok(()) if own.is_empty() => Ok(0),
            Ok(()) => self.stamp_bundle(state, may_wait, bytes, own)?,
            Err(refused) => Err(refused),
        };
        match decided {
            Ok(first) => bundle.number = first,
            Err((verdict, number)) => {
                (bundle.verdict, bundle.number) = (verdict, number);
                bundle.refuse(&state.shards, own);
            }
        }
        Ok(())
    }

    /// The place of the first expectation that does not hold.
    fn contradicted(
        &self,
        state: &mut State,
        (earlier, bytes): (&[Write], &[u8]),
        expected: &[Expected],
    ) -> Result<Option<u32>, Waits> {
        if mutant!(ExpectationIgnored) {
            return Ok(None);
        }
        for expected in expected {
            let key = &bytes[expected.key.0..expected.key.1];
            let before = newest(earlier, bytes, expected.route, key);
            let found = match before {
                Some(before) => earlier[before].leaves(),
                None => version_of(state, expected.route, key),
            };
            // A server that is alone waits for no copy.
            let present = presence(state, expected.route.shard, found).unwrap_or(None);
            let holds = expected.expectation.holds(present);
            if !holds {
                return Ok(Some(expected.place));
            }
            // A crash may keep any of the records that one persist covers.
            if before.is_some_and(|before| before >= self.durable) && !mutant!(BatchBesideItsCause)
            {
                return Err(Waits::Durable);
            }
        }
        Ok(None)
    }

    /// Refuses a bundle whose keys have no places in the indexes, or whose records have no room in any segment.
    fn check_places(
        &self,
        state: &mut State,
        (earlier, bytes): (&[Write], &[u8]),
        own: &[Write],
    ) -> Result<(), (Verdict, u64)> {
        let format = state.journal.format();
        if units_of(own) > format.segment_units() - SEGMENT_HEADER_UNITS {
            return Err((Verdict::Invalid, 0));
        }
        let mut added = vec![0; state.shards.iter().len()];
        for write in own.iter().filter(|write| write.kind == Kind::Put) {
            let shard = write.route.shard;
            if self.room.is_for_all_of(shard) {
                continue;
            }
            let key = &bytes[write.key.0..write.key.1];
            let is_there = match newest(earlier, bytes, write.route, key) {
                Some(before) => earlier[before].leaves().is_some(),
                None => version_of(state, write.route, key).is_some(),
            };
            let more = &mut added[shard as usize];
            *more += i64::from(!is_there);
            if *more > 0 && !self.room.has_places(state.shards.of(shard), shard, *more) {
                return Err((Verdict::IndexFull, 0));
            }
        }
        Ok(())
    }

    /// Stamps all writes of a bundle, and returns the version of the first, or the reason why there is no room for
    /// them.
    fn stamp_bundle(
        &mut self,
        state: &mut State,
        may_wait: bool,
        bytes: &[u8],
        own: &mut [Write],
    ) -> Result<Result<u64, (Verdict, u64)>, Waits> {
        let purpose = match own.iter().any(|write| write.kind == Kind::Put) {
            true => Purpose::Put,
            false => Purpose::Delete,
        };
        match append_room(state, units_of(own), purpose) {
            Ok(()) => {}
            Err(NoPlace::Pending) if may_wait => return Err(Waits::Room),
            Err(NoPlace::Pending) => return Ok(Err((Verdict::Busy, 0))),
            Err(NoPlace::Refused(verdict)) => {
                return Ok(Err((verdict, state.shards.number_with(verdict))));
            }
        }
        // Nothing was done: no record with a place in a batch is stamped without the mark.
        if state.batches.set().is_err() {
            return Ok(Err((Verdict::SpaceFailed, 0)));
        }
        let first = state.journal.sequences.take_run(own.len() as u64);
        let places = BatchPlace::all(own.len(), first);
        for ((write, place), sequence) in own.iter_mut().zip(places).zip(first..) {
            let draft = Draft {
                kind: write.kind,
                condition: match mutant!(BatchUnmarked) {
                    true => Condition::None,
                    false => place.condition(),
                },
                token: write.token,
                expires: write.expires,
                key: &bytes[write.key.0..write.key.1],
                value: &bytes[write.value.0..write.value.1],
            };
            let placed = state.journal.append(&draft, purpose);
            state
                .journal
                .stamp_as(&placed, write.is_tombstone(), sequence);
            write.version = sequence;
            write.words.own = state.journal.word(&placed, write.route.hash);
            write.words.segment = placed.segment;
            let added = i64::from(write.kind == Kind::Put);
            self.room.note(write.route.shard, added);
        }
        if !mutant!(BatchOutcomeForgotten) {
            let shard = state.shards.of_mut(own[0].route.shard);
            shard.outcomes.note(own[0].token, first);
        }
        self.awaits_persist = true;
        Ok(Ok(first))
    }
}

impl Bundle {
    /// Claims the words of all keys against publishing clients, once.
    fn claim_all(
        &mut self,
        shards: &mut Shards,
        own: &mut [Write],
        expected: &[Expected],
        bytes: &[u8],
    ) {
        if std::mem::replace(&mut self.has_claimed, true) {
            return;
        }
        for write in own {
            let key = &bytes[write.key.0..write.key.1];
            let shard = shards.of_mut(write.route.shard);
            write.words.claimed = shard.claim(write.route.hash, key);
        }
        for expected in expected.iter().filter(|it| it.is_only_expected) {
            let (route, key) = (expected.route, &bytes[expected.key.0..expected.key.1]);
            let word = shards.of_mut(route.shard).claim(route.hash, key);
            self.claimed.extend(word.map(|word| (route, word)));
        }
    }

    /// Gives the words of keys back to clients that the bundle does not change.
    pub fn give_back(&mut self, shards: &Shards) {
        for (route, word) in self.claimed.drain(..) {
            shards.of(route.shard).give_back(route.hash, word);
        }
    }

    /// Notes that nothing is done.
    fn refuse(&mut self, shards: &Shards, own: &mut [Write]) {
        self.give_back(shards);
        for write in own {
            write.verdict = self.verdict;
            if let Some(word) = write.words.claimed.take() {
                shards
                    .of(write.route.shard)
                    .give_back(write.route.hash, word);
            }
        }
    }
}

fn version_of(
    state: &mut State,
    route: Route,
    key: &[u8],
) -> Option<(u64, Option<stonecast_log::Expiry>)> {
    state.shards.of_mut(route.shard).version_of(route.hash, key)
}

/// The latest of the `earlier` writes that is done on the key.
fn newest(earlier: &[Write], bytes: &[u8], route: Route, key: &[u8]) -> Option<usize> {
    let is_newest = |other: &Write| other.is_done_on(bytes, route, key);
    earlier.iter().rposition(is_newest)
}

/// Units of the log that the records of these writes take.
fn units_of(writes: &[Write]) -> u32 {
    let size: u64 = writes.iter().map(|write| write.change().size).sum();
    u32::try_from(size / UNIT_SIZE).unwrap_or(u32::MAX)
}
