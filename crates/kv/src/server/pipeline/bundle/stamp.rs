//! Stamps the records of a batch one after the other in one segment, with consecutive sequences.

use stonecast_base::mutant;
use stonecast_log::{BatchPlace, Condition, Draft, Form, Kind};
use stonecast_media::RecordFeature;

use super::units_of;
use crate::server::node::leading::{Hindrance, Leading};
use crate::server::pipeline::batch::Write;
use crate::server::pipeline::decide::{Stamped, Waits, append_room};
use crate::server::shard::Change;
use crate::server::shortage::NoPlace;
use crate::server::space::Purpose;
use crate::server::state::State;
use crate::wire::Verdict;

impl Stamped {
    /// Stamps all writes of a bundle, and returns the version of the first, or the reason why nothing is stamped. On a
    /// node, the one entry of the batch is stamped with its records.
    pub(super) fn stamp_bundle(
        &mut self,
        (state, leading): (&mut State, Option<&Leading>),
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
        if state.record_features.set(RecordFeature::Batches).is_err() {
            return Ok(Err((Verdict::SpaceFailed, 0)));
        }
        let first = match leading {
            None => state.journal.sequences.take_run(own.len() as u64),
            Some(leading) => match stamp_entry((state, leading), purpose, bytes, own) {
                Ok(first) => first,
                Err(Hindrance::ForCopies) => return Err(Waits::Copies),
                Err(Hindrance::Refused(verdict, number)) => return Ok(Err((verdict, number))),
            },
        };
        let places = BatchPlace::all(own.len(), first);
        for (write, place) in own.iter_mut().zip(places) {
            let sequence = first + u64::from(place.place);
            let placed = state
                .journal
                .append(&draft_of(write, place, bytes), purpose);
            state
                .journal
                .stamp_as(&placed, write.is_tombstone(), sequence);
            write.version = sequence;
            write.words.own = state.journal.word(&placed, write.route.hash);
            write.words.segment = placed.segment;
            if let Some(keeper) = &mut state.keeper {
                keeper.note_stamped(sequence, write.route.shard);
            }
            let added = i64::from(write.kind == Kind::Put);
            self.room.note(write.route.shard, added);
        }
        // The outcome of a batch on several nodes is known once the batch is on all copies.
        if leading.is_none() && !mutant!(BatchOutcomeForgotten) {
            let shard = state.shards.of_mut(own[0].route.shard);
            shard.outcomes.note(own[0].token, first);
        }
        self.awaits_persist = true;
        Ok(Ok(first))
    }
}

/// Has the node stamp the entry of a batch, and takes the versions of its records. Returns the first version.
fn stamp_entry(
    (state, leading): (&mut State, &Leading),
    purpose: Purpose,
    bytes: &[u8],
    own: &mut [Write],
) -> Result<u64, Hindrance> {
    // No client of a node takes versions, so these are still the next ones after the stamp.
    let first = state.journal.sequences.next();
    let sizes = own
        .iter()
        .map(|write| (write.change().size, write.route.hash));
    let (segment, words) = state.journal.words_ahead(sizes, purpose);
    for ((write, word), version) in own.iter_mut().zip(words).zip(first..) {
        (write.version, write.words.own, write.words.segment) = (version, word, segment);
    }
    let places = BatchPlace::all(own.len(), first);
    let writes = own.iter().zip(places);
    let writes: Vec<(Change, Draft<'_>)> = writes
        .map(|(write, place)| (write.change(), draft_of(write, place, bytes)))
        .collect();
    let slot = leading.stamp_batch(state, writes)?;
    for write in own.iter_mut() {
        write.on_node.slot = Some(slot);
    }
    let taken = state.journal.sequences.take_run(own.len() as u64);
    assert_eq!(taken, first, "one task gives versions");
    Ok(first)
}

/// The record of a write at its place in the batch.
fn draft_of<'b>(write: &Write, place: BatchPlace, bytes: &'b [u8]) -> Draft<'b> {
    Draft {
        kind: write.kind,
        form: Form::Whole,
        condition: match mutant!(BatchUnmarked) {
            true => Condition::None,
            false => place.condition(),
        },
        token: write.token,
        expires: write.content.expires,
        key: &bytes[write.key.0..write.key.1],
        value: &bytes[write.value.0..write.value.1],
    }
}
