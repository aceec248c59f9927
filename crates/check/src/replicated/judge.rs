//! The promises to clients and the promises of copies, judged by the record of a run that came to its end.

use std::collections::BTreeSet;

use stonecast_replication_sim::{NODES, Outcome, Word};

use super::record::RunRecord;
use crate::history::NodeId;
use crate::kv::judge_history;
use crate::oracles::agreement::{self, Copied};
use crate::oracles::leaders::{self, Claim};
use crate::oracles::progress;
use crate::oracles::redundancy::{self, Group};
use crate::violation::Violation;

/// Answers that each client must get to calls made after healing. The world waits for one answer more, because the
/// first one may answer an earlier call.
const ANSWERS: usize = 1;

/// Asks every oracle about a run of `clients` clients. With `canary`, a shard must also have one primary in the whole
/// run.
pub(super) fn judge(
    outcome: &Outcome,
    record: &RunRecord,
    clients: u32,
    canary: bool,
) -> Vec<Violation> {
    let found = [
        judge_leaders(outcome, canary),
        judge_history(&record.history),
        outcome
            .copies
            .iter()
            .find_map(|copies| judge_copies(copies)),
        judge_redundancy(outcome),
        progress::judge(&record.history, record.healed, clients, ANSWERS),
    ];
    found.into_iter().flatten().collect()
}

fn node(number: usize) -> NodeId {
    number as NodeId
}

fn judge_leaders(outcome: &Outcome, canary: bool) -> Option<Violation> {
    let claims = outcome.claims.iter().map(|claim| Claim {
        group: claim.shard,
        term: if canary { 0 } else { claim.term },
        node: node(claim.node),
    });
    leaders::judge(claims)
}

/// Judges the copies at the end of the run: everything is on all copies, so no version is above the commit horizon.
fn judge_copies(copies: &[(usize, Vec<Word>)]) -> Option<Violation> {
    let copied = copies.iter().map(|(number, words)| {
        let entries = words.iter().map(|word| (word.point.version, word.write));
        Copied {
            node: node(*number),
            entries: entries.collect(),
        }
    });
    agreement::judge(u64::MAX, &copied.collect::<Vec<_>>())
}

/// Judges the number of copies at the end of the run, when all nodes are up.
fn judge_redundancy(outcome: &Outcome) -> Option<Violation> {
    let groups = (0..).zip(&outcome.copies).map(|(number, copies)| Group {
        number,
        in_sync: copies.iter().map(|(number, _)| node(*number)).collect(),
    });
    let up: BTreeSet<_> = (0..NODES).map(node).collect();
    redundancy::judge(&groups.collect::<Vec<_>>(), NODES, &up)
}
