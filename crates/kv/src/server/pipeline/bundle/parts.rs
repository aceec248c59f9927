//! A bundle and its expectations, as a batch of requests has them.

use std::ops::Range;

use stonecast_lineage::Term;

use crate::wire::{Expectation, Route, Verdict, Word};

/// A batch of a client.
pub(in crate::server::pipeline) struct Bundle {
    /// The writes and the expectations of the bundle in [`RequestBatch`](super::super::batch::RequestBatch).
    pub writes: Range<usize>,
    pub expected: Range<usize>,
    pub verdict: Verdict,
    /// The version of the first write if done; or the number that comes with a refusal.
    pub number: u64,
    /// The slot of the call that the node keeps until the batch may be answered; `None`: nothing has to be awaited.
    pub slot: Option<u64>,
    /// The shard of the first key, and the term of the shard in which the client sent the batch.
    pub(super) shard: u32,
    pub(super) term: Term,
    /// The words of keys that are only expected.
    pub(super) claimed: Vec<(Route, Word)>,
    pub(super) has_claimed: bool,
}

/// An expectation of a bundle.
pub(in crate::server::pipeline) struct Expected {
    /// Place of the entry in the batch.
    pub(super) place: u32,
    pub(super) route: Route,
    /// The key in [`RequestBatch::bytes`](super::super::batch::RequestBatch).
    pub(super) key: (usize, usize),
    pub(super) expectation: Expectation,
    /// Whether the bundle does not change the key.
    pub(super) is_only_expected: bool,
}

impl Bundle {
    /// A bundle that is not decided yet, with the ranges of its writes and expectations. Its first key is of `shard`,
    /// which the client has entered in `term`.
    pub(super) fn new(
        (writes, expected): (Range<usize>, Range<usize>),
        (shard, term): (u32, Term),
    ) -> Self {
        Self {
            writes,
            expected,
            verdict: Verdict::Done,
            number: 0,
            slot: None,
            shard,
            term,
            claimed: Vec::new(),
            has_claimed: false,
        }
    }
}
