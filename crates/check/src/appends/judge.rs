//! The promises of appends, judged by the entries in the memories of all receivers after a power cut.

use std::collections::{BTreeMap, BTreeSet};

use crate::appends::entries::{EntryId, SessionId};
use crate::appends::subject::{Appends, Contents};
use crate::explorer::Judge;
use crate::history::NodeId;
use crate::oracles::agreement::{self, Copied};
use crate::violation::Violation;

impl Judge<Contents> for Appends {
    fn judge(&self, contents: &Contents) -> Result<(), Violation> {
        let (begun, promised, quiet) = (
            self.begun.borrow(),
            self.promised.borrow(),
            self.quiet.borrow(),
        );
        for (node, entries) in (0..).zip(contents) {
            judge_invented(node, entries, &begun)
                .or_else(|| judge_order(node, entries))
                .or_else(|| judge_quiet(node, entries, &quiet))
                .map_or(Ok(()), Err)?;
        }
        judge_promised(contents, &promised)
            .or_else(|| judge_copies(contents, &promised))
            .map_or(Ok(()), Err)
    }

    fn judge_again(&self, first: &Contents, second: &Contents) -> Result<(), Violation> {
        if first == second {
            return Ok(());
        }
        let found = format!("{first:?} at first, then {second:?}");
        Err(Violation::new("recovery is idempotent", found))
    }
}

fn judge_invented(
    node: NodeId,
    entries: &[EntryId],
    begun: &BTreeSet<EntryId>,
) -> Option<Violation> {
    let invented = entries.iter().find(|&entry| !begun.contains(entry))?;
    let found = format!("receiver {node} has {invented}, which nobody appended");
    Some(Violation::new("no entry is invented", found))
}

fn judge_order(node: NodeId, entries: &[EntryId]) -> Option<Violation> {
    let mut last: BTreeMap<SessionId, EntryId> = BTreeMap::new();
    entries.iter().find_map(|&entry| {
        let before = last.insert(entry.session, entry)?;
        (before >= entry).then(|| {
            let found = format!("receiver {node} has {before} before {entry}");
            Violation::new("entries of a sender lie in their order", found)
        })
    })
}

/// An entry that was promised is in the memory of at least one receiver.
fn judge_promised(contents: &Contents, promised: &BTreeSet<EntryId>) -> Option<Violation> {
    let there: BTreeSet<EntryId> = contents.iter().flatten().copied().collect();
    let lost = promised.difference(&there).next()?;
    let found = format!("{lost} is lost, and its sender was told that it is persisted");
    Some(Violation::new("acknowledged writes survive", found))
}

fn judge_quiet(
    node: NodeId,
    entries: &[EntryId],
    quiet: &BTreeMap<(NodeId, SessionId), BTreeSet<u32>>,
) -> Option<Violation> {
    let is_late = |entry: &&EntryId| {
        let at_the_end = quiet.get(&(node, entry.session));
        at_the_end.is_some_and(|numbers| !numbers.contains(&entry.number))
    };
    let late = entries.iter().find(is_late)?;
    let found = format!("receiver {node} had quiesced the session before {late} came");
    Some(Violation::new("after quiesce nothing lands", found))
}

/// All receivers have the same entries of each session up to the last entry that was promised.
fn judge_copies(contents: &Contents, promised: &BTreeSet<EntryId>) -> Option<Violation> {
    let horizons: BTreeMap<SessionId, u32> = promised
        .iter()
        .map(|entry| (entry.session, entry.number))
        .collect();
    horizons.into_iter().find_map(|(session, horizon)| {
        let copy = |(node, entries): (NodeId, &Vec<EntryId>)| {
            let own = entries.iter().filter(|entry| entry.session == session);
            let entries = own.map(|&entry| (entry.number.into(), entry)).collect();
            Copied { node, entries }
        };
        let copies: Vec<Copied<EntryId>> = (0..).zip(contents).map(copy).collect();
        agreement::judge(horizon.into(), &copies)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(numbers: &[u32]) -> Vec<EntryId> {
        let session = SessionId {
            sender: 0,
            number: 1,
        };
        let entry = |&number: &u32| EntryId { session, number };
        numbers.iter().map(entry).collect()
    }

    fn set(numbers: &[u32]) -> BTreeSet<EntryId> {
        entries(numbers).into_iter().collect()
    }

    #[test]
    fn each_broken_promise_is_found_and_a_gap_above_what_was_promised_is_none() {
        let there = entries(&[1, 2, 4]);
        assert_eq!(judge_invented(0, &there, &set(&[1, 2, 3, 4])), None);
        assert!(judge_invented(0, &there, &set(&[1, 2, 3])).is_some());
        assert_eq!(judge_order(0, &there), None);
        assert!(judge_order(0, &entries(&[1, 4, 2])).is_some());
        assert!(judge_order(0, &entries(&[1, 1])).is_some());
        let both = vec![entries(&[1]), there.clone()];
        assert_eq!(judge_promised(&both, &set(&[1, 2])), None);
        assert!(judge_promised(&both, &set(&[1, 2, 3])).is_some());
        assert_eq!(judge_copies(&both, &set(&[1])), None);
        assert!(judge_copies(&both, &set(&[1, 2])).is_some());
        let session = there[0].session;
        let quiet =
            |numbers: &[u32]| BTreeMap::from([((0, session), numbers.iter().copied().collect())]);
        assert_eq!(judge_quiet(0, &there, &quiet(&[1, 2, 3, 4])), None);
        assert_eq!(judge_quiet(1, &there, &quiet(&[1, 2])), None);
        assert!(judge_quiet(0, &there, &quiet(&[1, 2])).is_some());
    }
}
