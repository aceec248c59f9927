//! Bundles: the batches of clients, which are done as a whole or not at all.
//!
//! ```text
//!   a record that brings a batch -> entries      writes and expectations, in the order of arrivals
//!   decide    every expectation, then room for all
//!   stamp     all records one after the other in one segment, with consecutive sequences: one persist has them
//! ```
//!
//! A bundle waits until it can be stamped at once. No record of it is stamped before all are, so each persist has all
//! of its records or none. The records say their places, and a recovery counts all of them or none
//! (`recovery/batches.rs`).
//!
//! The words of keys that the bundle only expects are claimed until the bundle is visible, so that no publishing client
//! overwrites such a key in between.
//!
//! On a node, all keys are of one shard, and one entry carries all records to the copies: a copy has all of them or
//! none. The node keeps one call for the whole bundle.

pub(super) mod parts;
mod stamp;
pub(super) mod take;
mod unpublished;

use stonecast_base::mutant;
use stonecast_log::{Kind, SEGMENT_HEADER_UNITS, UNIT_SIZE};

use super::batch::{RequestBatch, Write};
use super::decide::{
    KeyState, OnItsWay, Stamped, Waits, presence, published_state_of_key, state_of_key,
};
use super::flight::Flights;
use crate::server::node::leading::Leading;
use crate::server::shards::Shards;
use crate::server::state::State;
use crate::wire::{Answer, Verdict};

use parts::{Bundle, Expected};
use unpublished::Unpublished;

impl Stamped {
    /// Decides the bundle `index` after all earlier writes, and stamps all of its writes, or says why it waits.
    pub(super) fn decide_bundle(
        &mut self,
        (state, leading): (&mut State, Option<&Leading>),
        may_wait: bool,
        (flights, batch): (&Flights, &mut RequestBatch),
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
        let before = (flights, &*earlier, &bytes[..]);
        let decided = match bundle.refusal(state, leading) {
            Some(refused) => Err(refused),
            None => {
                bundle.claim_all(&mut state.shards, own, expected, bytes);
                match self.contradicted(state, before, expected)? {
                    Ok(()) => self.check_places(state, before, own),
                    refused => refused,
                }
            }
        };
        let decided = match decided {
            Ok(()) if own.is_empty() => Ok(0),
            Ok(()) => self.stamp_bundle((state, leading), may_wait, bytes, own)?,
            Err(refused) => Err(refused),
        };
        match decided {
            Ok(first) => bundle.number = first,
            Err((verdict, number)) => {
                (bundle.verdict, bundle.number) = (verdict, number);
                bundle.refuse(&state.shards, own);
            }
        }
        if let Some(leading) = leading {
            bundle.await_copies(state, leading, own);
        }
        Ok(())
    }

    /// Refuses a bundle of which an expectation does not hold, with the place of the first such expectation.
    fn contradicted(
        &self,
        state: &mut State,
        before: (&Flights, &[Write], &[u8]),
        expected: &[Expected],
    ) -> Result<Result<(), (Verdict, u64)>, Waits> {
        if mutant!(ExpectationIgnored) {
            return Ok(Ok(()));
        }
        let (flights, earlier, bytes) = before;
        let unpublished = Unpublished::of(flights, earlier, expected.len());
        for expected in expected {
            let (route, key) = (expected.route, &bytes[expected.key.0..expected.key.1]);
            let KeyState { earlier, found } = match unpublished.may_have(route) {
                true => state_of_key(state, before, route, key),
                false => published_state_of_key(state, route, key),
            };
            let present = match presence(state, route.shard, found) {
                Ok(present) => present,
                Err(OnItsWay) => return Ok(Err((Verdict::NoTime, 0))),
            };
            let holds = expected.expectation.holds(present);
            if !holds {
                return Ok(Err((Verdict::Contradicted, expected.place.into())));
            }
            // A crash may keep any of the records that one persist covers.
            let is_durable = earlier.is_none_or(|earlier| earlier < self.durable);
            if !is_durable && !mutant!(BatchBesideItsCause) {
                return Err(Waits::Durable);
            }
        }
        Ok(Ok(()))
    }

    /// Refuses a bundle whose keys have no places in the indexes, or whose records have no room in any segment.
    fn check_places(
        &self,
        state: &mut State,
        before: (&Flights, &[Write], &[u8]),
        own: &[Write],
    ) -> Result<(), (Verdict, u64)> {
        let format = state.journal.format();
        if units_of(own) > format.segment_units() - SEGMENT_HEADER_UNITS {
            return Err((Verdict::Invalid, 0));
        }
        let bytes = before.2;
        let mut added = vec![0; state.shards.iter().len()];
        for write in own.iter().filter(|write| write.kind == Kind::Put) {
            let shard = write.route.shard;
            if self.room.is_for_all_of(shard) {
                continue;
            }
            let key = &bytes[write.key.0..write.key.1];
            let is_there = state_of_key(state, before, write.route, key)
                .found
                .is_some();
            let more = &mut added[shard as usize];
            *more += i64::from(!is_there);
            if *more > 0 && !self.room.has_places(state.shards.of(shard), shard, *more) {
                return Err((Verdict::IndexFull, 0));
            }
        }
        Ok(())
    }
}

impl Bundle {
    /// The refusal of a bundle whose shard the node has resigned since it took the request, and may lead again in
    /// another term.
    fn refusal(&self, state: &State, leading: Option<&Leading>) -> Option<(Verdict, u64)> {
        leading?;
        match state.shards.refusal(self.shard, self.term)? {
            Answer::Verdict { verdict, version } => Some((verdict, version)),
            _ => None,
        }
    }

    /// Lets the answer wait until the batch is on all copies. An answer that reveals the state of keys waits until
    /// everything that was stamped before is there: the state may be that of a write that an heir cuts off.
    fn await_copies(&mut self, state: &mut State, leading: &Leading, own: &[Write]) {
        let tells = match self.verdict {
            Verdict::Done => own.is_empty(),
            verdict => verdict == Verdict::Contradicted,
        };
        if !tells {
            self.slot = own.first().and_then(|write| write.on_node.slot);
        } else if !mutant!(BatchAnswerUnawaited) {
            self.slot = leading.refuse(state, self.shard);
            if self.slot.is_none() {
                (self.verdict, self.number) = (Verdict::NotPrimary, 0);
            }
        }
    }

    /// Claims the words of all keys against publishing clients, once.
    fn claim_all(
        &mut self,
        shards: &mut Shards,
        own: &mut [Write],
        expected: &[Expected],
        bytes: &[u8],
    ) {
        if std::mem::replace(&mut self.has_claimed, true) || mutant!(BatchUnclaimed) {
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

/// Units of the log that the records of these writes take.
fn units_of(writes: &[Write]) -> u32 {
    let size: u64 = writes.iter().map(|write| write.change().size).sum();
    u32::try_from(size / UNIT_SIZE).unwrap_or(u32::MAX)
}
