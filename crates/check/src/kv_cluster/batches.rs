//! Batches of the clients of a run: keys of one shard, and a token with which a batch of unknown outcome is repeated.

use std::collections::HashMap;

use rand::RngExt as _;
use stonecast_base::Random;
use stonecast_fabric_sim::Fault;
use stonecast_kv::{Applied, Batch, ClusterClient, ClusterError, Token};

use crate::kv::batch::{self, Bundle};
use crate::kv_cluster::client::{answer_of, moment_of, pick_key};
use crate::kv_cluster::subject::KvCluster;
use crate::models::register::{Answer, Call};

/// Percentage of the changes that delete a key.
const DELETES_PERCENT: u32 = 25;

/// A batch of unknown outcome that is to be repeated.
pub(super) struct UnfinishedBatch {
    batch: Batch,
    changes: Vec<(u32, Call)>,
    bundle: Bundle,
    token: Option<Token>,
}

/// Applies a random batch. `versions` has the versions that the client knows. Returns the batch if its outcome is
/// unknown and it is to be repeated.
pub(super) async fn apply(
    subject: &KvCluster,
    client: &ClusterClient,
    number: u32,
    random: &mut Random,
    versions: &mut HashMap<u32, u64>,
) -> Option<UnfinishedBatch> {
    let setup = &subject.setup;
    let shard_of = |key: u32| client.shard_of(&subject.keys[key as usize]);
    let first = pick_key(subject, random);
    let of_shard = (0..setup.keys).filter(|&key| shard_of(key) == shard_of(first));
    let of_shard: Vec<u32> = of_shard.collect();
    let rules = (DELETES_PERCENT, || subject.fresh_value());
    let key_of = |random: &mut Random| of_shard[random.random_range(0..of_shard.len())];
    let changes = batch::pick(random, rules, key_of, versions);
    let values = (&mut *random, setup.value_size_max);
    let batch = batch::batch_of(&subject.keys, &changes, values, moment_of);
    let call = |&(key, call): &(u32, Call)| subject.testimony.call(number, None, key, call);
    let bundle: Bundle = changes.iter().map(call).collect();
    subject.batches.borrow_mut().push(bundle.clone());
    let mut unfinished = UnfinishedBatch {
        batch,
        changes,
        bundle,
        token: None,
    };
    let applied = client
        .apply_with(&mut unfinished.token, &unfinished.batch)
        .await;
    let answers = unfinished.answers(subject, applied);
    for (&(key, _), answer) in unfinished.changes.iter().zip(&answers) {
        match answer {
            Some(Answer::Stored(version)) => versions.insert(key, *version),
            _ => versions.remove(&key),
        };
    }
    let percent = setup.faults.repeated_write_percent;
    let is_unknown = answers.iter().any(Option::is_none);
    if is_unknown && random.random_range(0..100) < percent {
        return Some(unfinished);
    }
    unfinished.answer(subject, answers);
    None
}

/// Repeats a batch of unknown outcome with its token. Returns the batch if its outcome is still unknown.
pub(super) async fn repeat(
    subject: &KvCluster,
    client: &ClusterClient,
    mut unfinished: UnfinishedBatch,
) -> Option<UnfinishedBatch> {
    subject.testimony.hit(Fault::RepeatedWrite);
    for &id in &unfinished.bundle {
        subject.testimony.history.borrow_mut().again(id, None);
    }
    let applied = client
        .apply_with(&mut unfinished.token, &unfinished.batch)
        .await;
    let is_decided = applied.is_ok();
    let answers = unfinished.answers(subject, applied);
    if !is_decided {
        return Some(unfinished);
    }
    unfinished.answer(subject, answers);
    None
}

impl UnfinishedBatch {
    /// The answers to the changes; `None`: the outcome of the batch is unknown.
    fn answers(
        &self,
        subject: &KvCluster,
        applied: Result<Applied, ClusterError>,
    ) -> Vec<Option<Answer>> {
        match applied {
            Ok(applied) => {
                let note = |violation| subject.testimony.note(violation);
                batch::told(&subject.keys, &self.changes, applied, note)
            }
            Err(error) => vec![answer_of(subject, Err(error)); self.changes.len()],
        }
    }

    fn answer(self, subject: &KvCluster, answers: Vec<Option<Answer>>) {
        for (id, answer) in self.bundle.into_iter().zip(answers) {
            subject.testimony.answer(id, answer);
        }
    }
}
