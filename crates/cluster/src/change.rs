//! Changes the configuration in a store.

use std::rc::Rc;

use rand::Rng as _;
use stonecast_base::{Nanoseconds, Random};
use stonecast_fabric::Runtime;
use uuid::Uuid;

use crate::changes::Refusal;
use crate::configuration::{Attempt, Configuration, Nonce};
use crate::document::DocumentError;
use crate::store::{ConfigStore, Pending, Revision, StoreError, Swap};

/// A writer of configurations. Each of its attempts is distinguishable from every other attempt, of any writer.
pub struct Writer {
    name: String,
    random: Random,
    /// The newest value of the store that the writer knows.
    known: Option<(Revision, Configuration)>,
}

impl Writer {
    /// `name` is the name of a node or a tool; `random` gives the numbers of the attempts.
    pub fn new(name: String, random: Random) -> Self {
        Self {
            name,
            random,
            known: None,
        }
    }

    /// Notes that the store has, or had, `configuration` under `revision`. The next change begins with it, which saves
    /// a request to the store if it is still the newest.
    pub fn learn(&mut self, revision: Revision, configuration: &Configuration) {
        let is_newer = |(known, _): &(Revision, _)| *known < revision;
        if self.known.as_ref().is_none_or(is_newer) {
            self.known = Some((revision, configuration.clone()));
        }
    }

    pub(crate) fn attempt(&mut self) -> Attempt {
        let mut bytes = [0; 16];
        self.random.fill_bytes(&mut bytes);
        Attempt {
            writer: self.name.clone(),
            number: Uuid::from_bytes(bytes),
        }
    }
}

/// The reason why a change was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The configuration does not allow the change. Nothing was changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store has no configuration.
    #[error("{store} holds no cluster: create one with `stonecast cluster create`")]
    NoCluster {
        /// The store.
        store: String,
    },
    /// The store has the configuration of another cluster.
    #[error("{store} holds cluster {found}, and this is cluster {expected}")]
    OtherCluster {
        /// The store.
        store: String,
        /// The cluster that is there.
        found: Nonce,
        /// The cluster that was expected.
        expected: Nonce,
    },
    /// The value in the store is not a configuration.
    #[error("{store}: {error}")]
    Document {
        /// The store.
        store: String,
        /// The fault of the value.
        error: DocumentError,
    },
    /// The store does not answer. `is_unknown` tells whether the outcome of the change is unknown.
    #[error("{error} ({attempts} attempts)")]
    Store {
        /// The last error.
        error: StoreError,
        /// Number of attempts.
        attempts: u32,
        /// Whether an attempt may have taken effect, or may still do so.
        is_unknown: bool,
    },
}

/// Requests to a store that does not answer, before the change fails.
const ATTEMPTS_MAX: u32 = 12;
/// Pause before the second attempt. Each pause is twice as long as the previous pause.
const PAUSE_NS: Nanoseconds = 1_000_000;
/// The longest pause.
const PAUSE_MAX_NS: Nanoseconds = 500_000_000;

/// The pauses between attempts at a store that does not answer, and their number.
pub(crate) struct Patience {
    /// Attempts that failed.
    pub(crate) attempts: u32,
    pause: Nanoseconds,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self {
            attempts: 0,
            pause: PAUSE_NS,
        }
    }

    /// Counts an attempt that failed, and pauses before the next one. Returns false if no attempt is left.
    pub(crate) async fn goes_on(&mut self, runtime: &Rc<dyn Runtime>) -> bool {
        self.attempts += 1;
        if self.attempts == ATTEMPTS_MAX {
            return false;
        }
        runtime.sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX_NS);
        true
    }
}

/// Changes the configuration of the cluster `nonce` in `store`: `decide` makes the next configuration, which is then
/// stored. Returns the stored configuration.
///
/// The change begins with the configuration that the writer knows, if any. If that configuration is not the newest, or
/// needs no change, the change reads the store. A change of the known configuration needs one request to the store, and
/// every other change at least two.
///
/// `decide` is called again whenever another writer was faster, and after an attempt of unknown outcome, so it must
/// decide only by its argument. `Ok(None)`: nothing is left to do, and the configuration stays unchanged. An attempt of
/// unknown outcome is recognised by its number when the store is read.
///
/// If the store does not answer, the function asks a dozen times, in some three seconds. A dropped future leaves an
/// attempt of unknown outcome behind.
pub fn change<'a>(
    store: &'a dyn ConfigStore,
    runtime: &'a Rc<dyn Runtime>,
    writer: &'a mut Writer,
    nonce: Nonce,
    decide: impl FnMut(&Configuration) -> Result<Option<Configuration>, Refusal> + 'a,
) -> Pending<'a, Result<Configuration, ChangeError>> {
    change_by(store, runtime, writer, nonce, Box::new(decide))
}

type Decide<'a> = dyn FnMut(&Configuration) -> Result<Option<Configuration>, Refusal> + 'a;

fn change_by<'a>(
    store: &'a dyn ConfigStore,
    runtime: &'a Rc<dyn Runtime>,
    writer: &'a mut Writer,
    nonce: Nonce,
    decide: Box<Decide<'a>>,
) -> Pending<'a, Result<Configuration, ChangeError>> {
    Box::pin(try_change(store, runtime, writer, nonce, decide))
}

async fn try_change(
    store: &dyn ConfigStore,
    runtime: &Rc<dyn Runtime>,
    writer: &mut Writer,
    nonce: Nonce,
    mut decide: Box<Decide<'_>>,
) -> Result<Configuration, ChangeError> {
    let mut tried: Vec<Uuid> = Vec::new();
    let mut patience = Patience::new();
    // After the attempt the known configuration is old, with any outcome.
    let known = writer.known.take();
    let mut known = known.filter(|(_, known)| known.nonce == nonce);
    loop {
        // A configuration that refuses or does not need the change may be old. Only the configuration in the store
        // decides.
        let next = known.take().and_then(|(revision, known)| {
            let next = decide(&known).ok().flatten();
            next.map(|next| (revision, next))
        });
        let outcome = match next {
            Some(next) => store_next(store, writer, next, &mut tried).await,
            None => attempt(store, writer, nonce, &mut *decide, &mut tried).await?,
        };
        let error = match outcome {
            Tried::Came(configuration) => return Ok(configuration),
            // Another writer made progress, so no pause is needed.
            Tried::Conflict => continue,
            Tried::Failed(error) => error,
        };
        if !patience.goes_on(runtime).await {
            return Err(ChangeError::Store {
                error,
                attempts: patience.attempts,
                is_unknown: !tried.is_empty(),
            });
        }
    }
}

enum Tried {
    Came(Configuration),
    Conflict,
    Failed(StoreError),
}

/// Reads, decides and stores once. `tried` contains the attempts that may have taken effect.
async fn attempt(
    store: &dyn ConfigStore,
    writer: &mut Writer,
    nonce: Nonce,
    decide: &mut Decide<'_>,
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

/// Stores `next` if the store has `revision`.
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

/// Reads the configuration of the cluster `nonce`, with its revision. The inner error may disappear in a later attempt.
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
