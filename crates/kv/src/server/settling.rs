//! The moments at which the ledger of a served pool becomes durable.

use std::cell::RefCell;

use stonecast_backup::SharedLedger;
use stonecast_base::mutant;

use super::keeper::Keeper;
use super::space::Need;
use super::state::State;
use crate::error::StoreError;

/// Makes the versions without a record durable. The committer calls this at the begin of each turn.
pub(super) async fn persist_skips(state: &RefCell<State>) -> Result<(), StoreError> {
    let unpersisted = || {
        state
            .borrow()
            .keeper
            .as_ref()
            .and_then(Keeper::with_new_skips)
    };
    while let Some(ledger) = unpersisted().filter(|_| !mutant!(SkipsNotPersisted)) {
        ledger.persist().await?;
    }
    Ok(())
}

/// Raises the floors if that is due. The call comes between two batches, when all stamped records are published.
pub(super) async fn settle_if_due(state: &RefCell<State>) -> Result<(), StoreError> {
    let Some((settled, ledger)) = settle_in_memory(&mut state.borrow_mut()) else {
        return Ok(());
    };
    ledger.persist().await?;
    state.borrow_mut().journal.space.set_settled(settled);
    Ok(())
}

fn settle_in_memory(state: &mut State) -> Option<(u64, SharedLedger)> {
    let State {
        keeper,
        journal,
        cleaner,
        ..
    } = state;
    let keeper = keeper.as_mut()?;
    let chooses = !cleaner.has_victim() && journal.space.need() > Need::None;
    let due = keeper.settle_if_due(journal.sequences.next() - 1, chooses)?;
    keeper.forget_unreached(&journal.space);
    Some(due)
}
