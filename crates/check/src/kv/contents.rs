//! The content that a recovery finds, and its judgement.

use stonecast_kv::Stat;

use crate::explorer::Judge;
use crate::kv::batch::{self, Bundle};
use crate::models::register::History;
use crate::oracles::acknowledged::Allowed;
use crate::oracles::idempotence;
use crate::oracles::space::{self, Space};
use crate::values::ValueId;
use crate::violation::Violation;

/// The content that a recovery found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// For each key, its value and version.
    pub keys: Vec<Option<(ValueId, u64)>>,
    pub torn_tails: u64,
}

impl Contents {
    /// Number of keys present.
    pub fn present(&self) -> u64 {
        self.keys.iter().flatten().count() as u64
    }

    /// Each key with its value.
    pub fn values(&self) -> impl Iterator<Item = (u32, ValueId)> {
        (0..)
            .zip(&self.keys)
            .map(|(key, found)| (key, found.map_or(ValueId::ABSENT, |(value, _)| value)))
    }
}

impl Judge<Contents> for Allowed {
    fn judge(&self, contents: &Contents) -> Result<(), Violation> {
        Allowed::judge(self, contents.values()).map_or(Ok(()), Err)
    }

    fn judge_again(&self, first: &Contents, second: &Contents) -> Result<(), Violation> {
        idempotence::judge(&first.keys, &second.keys).map_or(Ok(()), Err)
    }
}

/// Judges contents key by key, and batch by batch.
pub(crate) struct WithBatches<'a> {
    pub allowed: &'a Allowed,
    pub history: &'a History,
    pub batches: &'a [Bundle],
}

impl Judge<Contents> for WithBatches<'_> {
    fn judge(&self, contents: &Contents) -> Result<(), Violation> {
        Judge::judge(self.allowed, contents)?;
        batch::judge(self.history, self.batches, contents)
    }

    fn judge_again(&self, first: &Contents, second: &Contents) -> Result<(), Violation> {
        self.allowed.judge_again(first, second)
    }
}

/// Judges the space of a server without clients, whose records have `live_bytes` by an independent count.
pub(crate) fn judge_space(
    segments: u64,
    stat: &Stat,
    contents: &Contents,
    live_bytes: u64,
) -> Result<(), Violation> {
    let space = Space {
        segments,
        counts: [
            stat.segments_free,
            stat.segments_partial,
            stat.segments_taken,
            stat.segments_full,
        ],
        keys: stat.keys,
        live_bytes: stat.live_bytes,
        used_bytes: stat.used_bytes,
        capacity: stat.capacity_bytes,
    };
    space::judge(&space, contents.present(), live_bytes).map_or(Ok(()), Err)
}
