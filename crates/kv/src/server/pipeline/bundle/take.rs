//! Takes the record that brings a batch apart.

use stonecast_base::mutant;
use stonecast_fabric::QueuePair;
use stonecast_log::{Condition, Form, Kind};

use super::parts::{Bundle, Expected};
use crate::server::pipeline::batch::{Owed, RequestBatch, Source, Write};
use crate::server::pipeline::requests;
use crate::server::state::State;
use crate::wire::limits::{BATCH_KEYS_MAX, BATCH_NAMES_MAX};
use crate::wire::{Answer, EntryChange, Verdict, next_entry};

/// Takes the batch that `carrier` brings apart. The carrier itself is no write.
pub(in crate::server::pipeline) fn take_bundle(
    state: &mut State,
    batch: &mut RequestBatch,
    qp: QueuePair,
    carrier: &Write,
) -> Owed {
    if carrier.content.form != Form::Whole {
        return Owed::Answer(Verdict::Invalid.into());
    }
    if state.keeper.is_some() && state.node.is_none() {
        return Owed::Answer(Verdict::NoBatch.into());
    }
    let term = match requests::refusal(state, qp, carrier.route.shard) {
        Ok(term) => term,
        Err(refused) => return Owed::Answer(refused),
    };
    let (writes, expected) = (batch.writes.len(), batch.expected.len());
    if let Err(refused) = take_entries(state, batch, carrier) {
        batch.writes.truncate(writes);
        batch.expected.truncate(expected);
        return Owed::Answer(refused);
    }
    let ranges = (writes..batch.writes.len(), expected..batch.expected.len());
    let bundle = Bundle::new(ranges, (carrier.route.shard, term));
    batch.bundles.push(bundle);
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
        let entry = next_entry(&mut rest).filter(|_| place < BATCH_NAMES_MAX);
        let entry = entry.ok_or(Verdict::Invalid)?;
        let route = state.shards.route(entry.key);
        if state.node.is_some() && route.shard != carrier.route.shard {
            refuse_other_shard(place)?;
        }
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
        if writes.len() - first == BATCH_KEYS_MAX {
            return Err(Verdict::Invalid.into());
        }
        // The first record has the token of the whole batch.
        let token = match writes.len() == first {
            true => carrier.token,
            false => 0,
        };
        let rules = (kind, Condition::None, token);
        let mut write = Write::new(Source::Parts, rules, route, key, value);
        write.content.expires = expires;
        if let Some(refused) = requests::refusal_of_features(state, &write) {
            return Err(refused);
        }
        writes.push(write);
    }
    match place {
        0 => Err(Verdict::Invalid.into()),
        _ => Ok(()),
    }
}

/// The copies of two shards are on different nodes, and have histories of their own: nothing makes entries of both
/// count together. The record that brings a batch has its first key.
fn refuse_other_shard(place: usize) -> Result<(), Answer> {
    match place {
        _ if mutant!(BatchOnSeveralShards) => Ok(()),
        0 => Err(Verdict::Invalid.into()),
        _ => Err(Answer::Verdict {
            verdict: Verdict::NoBatch,
            version: place as u64,
        }),
    }
}
