//! The rounds of a node: its own grants, the ends of its leases, and the changes that it stands for.

use std::rc::Rc;

use stonecast_cluster::{ChangeError, Stale, Writer, change};
use stonecast_fabric::select;

use crate::agent::next_round;
use crate::event::MemberEvent;
use crate::shared::Shared;

/// Runs until the member ends. Sleeps until the next thing is due; nothing is polled.
pub async fn keep(shared: Rc<Shared>) {
    while !shared.has_ended() {
        let now = shared.now();
        shared.agent.borrow_mut().advance(now);
        shared.announce();
        let agent = shared.agent.borrow();
        let present = agent.configuration().clone();
        let is_due = !matches!(agent.decide(&present, now), Ok(None));
        let (due, round) = (agent.due_at(), next_round(now, agent.round_ns()));
        drop(agent);
        if is_due && let Some(writer) = shared.writer.take() {
            let changing = change_once(shared.clone(), writer);
            shared.runtime.spawn(Box::pin(changing));
        }
        // What is due already waits for a change on its way, and is looked at again when that is over.
        let wake = if due > now { due } else { round };
        select(shared.runtime.sleep_until(wake), shared.changed.heard()).await;
    }
}

/// Makes of the store's configuration what the agent decides at that moment.
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
