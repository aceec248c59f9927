//! Changing the configuration that a store has.

use std::rc::Rc;

use rand::Rng as _;
use stonecast_base::{Nanoseconds, Random};
use stonecast_fabric::Runtime;
use uuid::Uuid;

use crate::changes::Refusal;
use crate::configuration::{Attempt, Configuration, Nonce};
use crate::document::DocumentError;
use crate::store::{ConfigStore, Revision, StoreError, Swap};

/// Whoever changes configurations. Its attempts are told from each other and from those of others.
pub struct Writer {
    name: String,
    random: Random,
    /// The newest value that the writer knows the store to have had.
    known: Option<(Revision, Configuration)>,
}

impl Writer {
    /// `name` is that of a node, or of a tool; `random` gives the numbers of its attempts.
    pub fn new(name: String, random: Random) -> Self {
        Self {
            name,
            random,
            known: None,
        }
    }

    /// The store has `configuration` under `revision`, or had it: the next change begins with it, and saves a request to the store
    /// where it is still the newest.
    pub fn learn(&mut self, revision: Revision, configuration: &Configuration) {
        let is_newer = |(known, _): &(Revision, _)| *known < revision;
        if self.known.as_ref().is_none_or(is_newer) {
            self.known = Some((revision, configuration.clone()));
        }
    }

    fn attempt(&mut self) -> Attempt {
        let mut bytes = [0; 16];
        self.random.fill_bytes(&mut bytes);
        Attempt {
            writer: self.name.clone(),
            number: Uuid::from_bytes(bytes),
        }
    }
}

/// Why a change did not come about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The configuration does not allow it. Nothing was changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store has no configuration.
    #[error("{store} holds no cluster: create one with `stonecast cluster create`")]
    NoCluster {
        /// Which store.
        store: String,
    },
    /// The store has the configuration of another cluster.
    #[error("{store} holds cluster {found}, and this is cluster {expected}")]
    OtherCluster {
        /// Which store.
        store: String,
        /// The cluster that is there.
        found: Nonce,
        /// The cluster that was expected.
        expected: Nonce,
    },
    /// The store has something else.
    #[error("{store}: {error}")]
    Document {
        /// Which store.
        store: String,
        /// What is wrong with it.
        error: DocumentError,
    },
    /// The store does not answer. Whether the change came about is unknown where `is_unknown` says so.
    #[error("{error} ({attempts} attempts)")]
    Store {
        /// The last error.
        error: StoreError,
        /// How often it was tried.
        attempts: u32,
        /// Whether an attempt may have been done, or may yet be.
        is_unknown: bool,
    },
}

/// How often a store that does not answer is asked.
const ATTEMPTS_MAX: u32 = 12;
/// How long to wait before the second attempt; each pause is twice the one before it.
const PAUSE_NS: Nanoseconds = 1_000_000;
/// The longest pause.
const PAUSE_MAX_NS: Nanoseconds = 500_000_000;

/// Changes the configuration of the cluster `nonce` in `store`: lets `decide` make the next one of it, and stores that. The
/// configuration that came about.
///
/// Begins with the configuration that the writer knows, if it knows one, and reads the store where that is not the newest any more or
/// nothing is to be done to it: one request to the store, or else at least two.
///
/// `decide` is asked again whenever somebody else was faster, and after an attempt of unknown outcome; so it decides by what it is
/// shown. `Ok(None)`: nothing is left to be done, and the configuration stays as it is. An attempt whose outcome was not learned
/// is recognised by its number when it is read.
///
/// A store that does not answer is asked a dozen times, in some three seconds. A future that is dropped leaves an attempt of unknown
/// outcome behind.
pub async fn change(
    store: &dyn ConfigStore,
    runtime: &Rc<dyn Runtime>,
    writer: &mut Writer,
    nonce: Nonce,
    mut decide: impl FnMut(&Configuration) -> Result<Option<Configuration>, Refusal>,
) -> Result<Configuration, ChangeError> {
    let mut tried: Vec<Uuid> = Vec::new();
    let (mut attempts, mut pause) = (0, PAUSE_NS);
    // Whatever becomes of the attempt, what was known before it is old then.
    let known = writer.known.take();
    let mut known = known.filter(|(_, known)| known.nonce == nonce);
    loop {
        // What is refused, or needs nothing, may be old: only what the store has decides that.
        let next = known.take().and_then(|(revision, known)| {
            let next = decide(&known).ok().flatten();
            next.map(|next| (revision, next))
        });
        let outcome = match next {
            Some(next) => store_next(store, writer, next, &mut tried).await,
            None => attempt(store, writer, nonce, &mut decide, &mut tried).await?,
        };
        let error = match outcome {
            Tried::Came(configuration) => return Ok(configuration),
            // Somebody else went on, so no pause is needed for progress.
            Tried::Conflict => continue,
            Tried::Failed(error) => error,
        };
        attempts += 1;
        if attempts == ATTEMPTS_MAX {
            return Err(ChangeError::Store {
                error,
                attempts,
                is_unknown: !tried.is_empty(),
            });
        }
        runtime.sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX_NS);
    }
}

enum Tried {
    Came(Configuration),
    Conflict,
    Failed(StoreError),
}

/// Reads, decides and stores once. `tried` has the attempts that may have been done.
async fn attempt(
    store: &dyn ConfigStore,
    writer: &mut Writer,
    nonce: Nonce,
    decide: &mut impl FnMut(&Configuration) -> Result<Option<Configuration>, Refusal>,
    tried: &mut Vec<Uuid>,
) -> Result<Tried, ChangeError> {
    let (revision, present) = match read(store, nonce).await? {
        Ok(found) => found,
        Err(error) => return Ok(Tried::Failed(error)),
    };
    if tried.contains(&present.attempt.number) {
        return Ok(Tried::Came(present));
    }
    let Some(next) = decide(&present)? else {
        writer.learn(revision, &present);
        return Ok(Tried::Came(present));
    };
    Ok(store_next(store, writer, (revision, next), tried).await)
}

/// Stores `next` where the store has `revision`.
async fn store_next(
    store: &dyn ConfigStore,
    writer: &mut Writer,
    (revision, mut next): (Revision, Configuration),
    tried: &mut Vec<Uuid>,
) -> Tried {
    next.attempt = writer.attempt();
    match store.compare_and_set(Some(revision), &next.encode()).await {
        Ok(Swap::Done(revision)) => {
            writer.learn(revision, &next);
            Tried::Came(next)
        }
        Ok(Swap::Conflict) => Tried::Conflict,
        Err(error) => {
            if matches!(error, StoreError::Unknown { .. }) {
                tried.push(next.attempt.number);
            }
            Tried::Failed(error)
        }
    }
}

/// The configuration of the cluster `nonce`, with its revision. The inner error may go away when the store is asked again.
async fn read(
    store: &dyn ConfigStore,
    nonce: Nonce,
) -> Result<Result<(Revision, Configuration), StoreError>, ChangeError> {
    let name = || store.name().to_owned();
    let stored = match store.read().await {
        Ok(Some(stored)) => stored,
        Ok(None) => return Err(ChangeError::NoCluster { store: name() }),
        Err(error) => return Ok(Err(error)),
    };
    let present = Configuration::decode(&stored.bytes).map_err(|error| ChangeError::Document {
        store: name(),
        error,
    })?;
    if present.nonce != nonce {
        return Err(ChangeError::OtherCluster {
            store: name(),
            found: present.nonce,
            expected: nonce,
        });
    }
    Ok(Ok((stored.revision, present)))
}
