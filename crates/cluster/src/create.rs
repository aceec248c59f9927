//! The first configuration of a cluster in a store.

use std::rc::Rc;

use stonecast_fabric::Runtime;

use crate::change::{Patience, Writer};
use crate::check::Inconsistency;
use crate::configuration::{Configuration, Epoch, Nonce, Policy};
use crate::document::DocumentError;
use crate::store::{ConfigStore, StoreError, Stored, Swap};

/// The reason why a cluster was not created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The policy has a number out of its bounds. The store was not asked.
    #[error(transparent)]
    Policy(#[from] Inconsistency),
    /// The store has a cluster. Nothing was changed.
    #[error(
        "{store} holds cluster {nonce} already, at epoch {epoch}: name another store, or use that cluster"
    )]
    Exists {
        /// The store.
        store: String,
        /// The cluster that is there.
        nonce: Nonce,
        /// The epoch of that cluster.
        epoch: Epoch,
    },
    /// The value in the store is not a configuration. Nothing was changed.
    #[error("{store}: {error}")]
    Document {
        /// The store.
        store: String,
        /// The fault of the value.
        error: DocumentError,
    },
    /// The store does not answer. With `is_unknown`, it is unknown whether the cluster was created.
    #[error("{error}")]
    Store {
        /// The last error.
        error: StoreError,
        /// Whether an attempt may have taken effect, or may still do so.
        is_unknown: bool,
    },
}

/// Creates the cluster `nonce` in `store`, with no node and no group. Returns its configuration, which another writer
/// may have changed since.
///
/// A store keeps any value that it has. If the store refuses, the function does not ask again. After an attempt of
/// unknown outcome, the function reads the store and tries again, a dozen times: each creation draws its own nonce,
/// which shows whose cluster is there. A dropped future leaves an attempt of unknown outcome behind.
pub async fn create(
    store: &dyn ConfigStore,
    runtime: &Rc<dyn Runtime>,
    writer: &mut Writer,
    nonce: Nonce,
    policy: Policy,
) -> Result<Configuration, CreateError> {
    policy.check()?;
    let first = Configuration::create(nonce, policy, writer.attempt());
    let mut patience = Patience::new();
    let mut is_unknown = false;
    loop {
        let swap = store.compare_and_set(None, &first.encode()).await;
        let read = match swap {
            Ok(Swap::Done(_)) => return Ok(first),
            Ok(Swap::Conflict) => store.read().await,
            Err(StoreError::Unknown { .. }) => {
                is_unknown = true;
                store.read().await
            }
            Err(refused) => Err(refused),
        };
        let error = match read {
            Ok(Some(stored)) => return found(store, &stored, nonce),
            // No attempt of unknown outcome has taken effect so far, and only one of them ever can.
            Ok(None) => None,
            Err(error) => Some(error),
        };
        if !(is_unknown && patience.goes_on(runtime).await) {
            return Err(CreateError::Store {
                error: error.unwrap_or_else(|| contradiction(store)),
                is_unknown,
            });
        }
    }
}

/// Returns the cluster in the store if it is the created one, or the error that another cluster is there.
fn found(
    store: &dyn ConfigStore,
    stored: &Stored,
    nonce: Nonce,
) -> Result<Configuration, CreateError> {
    let name = store.name().to_owned();
    match Configuration::decode(&stored.bytes) {
        Ok(present) if present.nonce == nonce => Ok(present),
        Ok(present) => Err(CreateError::Exists {
            store: name,
            nonce: present.nonce,
            epoch: present.epoch,
        }),
        Err(error) => Err(CreateError::Document { store: name, error }),
    }
}

/// The error of a store that had a value, and has none.
fn contradiction(store: &dyn ConfigStore) -> StoreError {
    StoreError::Refused {
        store: store.name().to_owned(),
        reason: "a value was there, and is gone: it was removed meanwhile".to_owned(),
    }
}
