//! Following the configuration: reading it from its store, making its epoch durable, entering it.

use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_cluster::{Configuration, EpochCell, Epochs, RaiseError, Stale, StoreError};
use stonecast_fabric::{Selected, select};

use crate::error::MemberError;
use crate::event::MemberEvent;
use crate::link;
use crate::shared::Shared;

/// Pause between two attempts to watch a store that does not answer.
const PAUSE_NS: Nanoseconds = 20_000_000;

/// Brings each configuration that the store has. A store that does not answer is asked again and again, and holds
/// nothing else up.
pub async fn watch(shared: Rc<Shared>) {
    let mut seen = None;
    let mut trouble: Option<StoreError> = None;
    while !shared.has_ended() {
        let stored = match select(shared.store.changed(seen), shared.ended()).await {
            Selected::First(stored) => stored,
            Selected::Second(()) => return,
        };
        match stored {
            Ok(stored) => {
                seen = Some(stored.revision);
                trouble = None;
                match Configuration::decode(&stored.bytes) {
                    Ok(configuration) => {
                        shared.teach_writer(stored.revision, &configuration);
                        shared.bring(configuration);
                    }
                    Err(error) => shared.tell(MemberEvent::StoreTrouble {
                        reason: format!("{}: {error}", shared.store.name()),
                    }),
                }
            }
            Err(error) => {
                if trouble.as_ref() != Some(&error) {
                    shared.tell(MemberEvent::StoreTrouble {
                        reason: error.to_string(),
                    });
                    trouble = Some(error);
                }
                shared.runtime.sleep(PAUSE_NS).await;
            }
        }
    }
}

/// Enters each configuration that is brought, after its epoch is durable.
pub async fn follow<C: EpochCell>(shared: Rc<Shared>, cell: C, mut epochs: Epochs) {
    while !shared.has_ended() {
        let Some(configuration) = shared.newest.take() else {
            shared.changed.heard().await;
            continue;
        };
        if let Err(error) = go_over(&shared, &cell, &mut epochs, configuration).await {
            shared.end(error);
        }
    }
}

async fn go_over<C: EpochCell>(
    shared: &Rc<Shared>,
    cell: &C,
    epochs: &mut Epochs,
    configuration: Configuration,
) -> Result<(), MemberError> {
    match epochs.is_ahead(&configuration) {
        Ok(true) => {}
        Ok(false) => return Ok(()),
        Err(stale @ (Stale::Epoch { .. } | Stale::OtherConfiguration { .. })) => {
            let reason = format!("{}: {stale}", shared.store.name());
            shared.tell(MemberEvent::StoreTrouble { reason });
            return Ok(());
        }
        Err(stale @ Stale::Cluster { .. }) => return Err(stale.into()),
    }
    let (name, own) = (shared.identity.name.clone(), shared.identity.incarnation);
    // A node with another pool is another node, even if name and incarnation are the same.
    let node = configuration.nodes.get(&name);
    let Some(node) = node.filter(|node| node.pool == shared.identity.pool) else {
        return Err(MemberError::Forgotten { name });
    };
    let known = node.incarnation;
    if known != own {
        return Err(MemberError::Superseded { name, own, known });
    }
    let raised = epochs.raise(cell, &configuration).await;
    raised.map_err(|error| match error {
        RaiseError::Stale(stale) => stale.into(),
        RaiseError::NotKept(error) => MemberError::EpochNotKept {
            name,
            reason: error.to_string(),
        },
    })?;
    let now = shared.now();
    shared.agent.borrow_mut().enter(Rc::new(configuration), now);
    link::connect_to_peers(shared);
    shared.changed.ring();
    shared.announce();
    Ok(())
}

impl Shared {
    /// Waits for the end of the member.
    async fn ended(&self) {
        while !self.has_ended() {
            self.changed.heard().await;
        }
    }
}
