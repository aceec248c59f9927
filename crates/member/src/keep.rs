//! The rounds of a node: its own grants, the ends of its leases, and its changes of the configuration.

use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_cluster::{ChangeError, Stale, Writer, change};
use stonecast_fabric::select;

use crate::agent::next_round;
use crate::event::MemberEvent;
use crate::shared::Shared;

/// Runs until the member ends. Sleeps until the next due moment, without polling.
pub async fn keep(shared: Rc<Shared>) {
    while !shared.has_ended() {
        let due = turn(&shared);
        select(shared.runtime.sleep_until(due), shared.changed.heard()).await;
    }
}

/// Does the due work, and returns the next due moment.
fn turn(shared: &Rc<Shared>) -> Nanoseconds {
    let now = shared.now();
    shared.agent.borrow_mut().advance(now);
    shared.announce();
    let agent = shared.agent.borrow();
    let changes = !matches!(agent.decide(agent.configuration(), now), Ok(None));
    if changes && let Some(writer) = shared.writer.take() {
        let changing = change_once(shared.clone(), writer);
        shared.runtime.spawn(Box::pin(changing));
    }
    // Overdue work waits for the change in flight, and is checked again after that change.
    let due = agent.due_at();
    match due > now {
        true => due,
        false => next_round(now, agent.round_ns()),
    }
}

/// Changes the store's configuration as the agent decides at that moment.
async fn change_once(shared: Rc<Shared>, mut writer: Writer) {
    let decide = |present: &_| shared.agent.borrow().decide(present, shared.now());
    let came = change(
        &*shared.store,
        &shared.runtime,
        &mut writer,
        shared.identity.cluster,
        decide,
    )
    .await;
    shared.writer.set(Some(writer));
    match came {
        Ok(configuration) => shared.bring(configuration),
        Err(ChangeError::OtherCluster {
            found, expected, ..
        }) => shared.end(
            Stale::Cluster {
                found,
                known: expected,
            }
            .into(),
        ),
        Err(error) => shared.tell(MemberEvent::StoreTrouble {
            reason: error.to_string(),
        }),
    }
    shared.changed.ring();
}
