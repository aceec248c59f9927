//! The store of a cluster's configuration, as the commands use it.

use std::fs::File;
use std::io::Read as _;
use std::rc::Rc;

use clap::Args;
use stonecast_base::random_from_seed;
use stonecast_cluster::{
    ChangeError, ConfigStore, Configuration, DocumentError, StoreError, Writer,
};
use stonecast_config_store::OpenError;
use stonecast_fabric::BusyPoll;

use crate::failure::{Failure, Status};

/// The place of the configuration.
#[derive(Debug, Args)]
pub struct StoreFlags {
    /// Store of the cluster's configuration: file:PATH, etcd://HOST:PORT,HOST:PORT/NAME, or
    /// etcds://HOST:PORT,HOST:PORT/NAME?cacert=FILE.
    #[arg(long, value_name = "URL", env = "STONECAST_CONFIG_STORE")]
    pub config_store: Option<String>,
}

/// An open store, and the executor that waits for it.
pub struct OpenStore {
    /// The store.
    pub store: Rc<dyn ConfigStore>,
    /// The executor of this thread.
    pub executor: BusyPoll,
}

impl OpenStore {
    /// Opens the store, without a request to it.
    pub fn open(flags: &StoreFlags) -> Result<Self, Failure> {
        // The program reads the configuration file after the command line, so a flag that the file may set cannot
        // be required on the command line.
        let address = flags.config_store.as_ref().ok_or_else(|| {
            Failure::usage(
                "the store of the cluster's configuration is missing: --config-store URL, STONECAST_CONFIG_STORE, or \
                 config-store in the configuration file",
            )
        })?;
        let store = stonecast_config_store::open(address);
        let store = store.map_err(|error| match error {
            OpenError::Address(_) => Failure::usage(error.to_string()),
            _ => Failure::operation(error.to_string()),
        })?;
        Ok(Self {
            store,
            executor: stonecast_config_store::executor(),
        })
    }

    /// The configuration in the store.
    pub fn read(&self) -> Result<Configuration, Failure> {
        let store = || self.store.name().to_owned();
        let stored = self.executor.block_on(self.store.read());
        let stored = stored.map_err(|error| unanswered(&error))?;
        let Some(stored) = stored else {
            let error = ChangeError::NoCluster { store: store() };
            return Err(Failure::operation(error.to_string()));
        };
        Configuration::decode(&stored.bytes).map_err(|error| unreadable(&store(), &error))
    }
}

/// A writer of configurations. Its attempts differ from those of every other process.
pub fn writer() -> Result<Writer, Failure> {
    let name = format!("stonecast cluster, process {}", std::process::id());
    let seed = u64::from_ne_bytes(entropy()?);
    Ok(Writer::new(name, random_from_seed(seed)))
}

/// Random bytes that no other process can guess.
pub fn entropy<const SIZE: usize>() -> Result<[u8; SIZE], Failure> {
    let mut bytes = [0; SIZE];
    let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    read.map_err(|error| Failure::operation(format!("cannot read /dev/urandom: {error}")))?;
    Ok(bytes)
}

/// The failure of a store. After an unknown outcome the state of the cluster shows whether the change was made.
pub fn unanswered(error: &StoreError) -> Failure {
    match error {
        StoreError::Refused { .. } => Failure::operation(error.to_string()),
        StoreError::Unknown { .. } => outcome_unknown(error),
    }
}

/// The failure of a change that may have been made.
pub fn outcome_unknown(error: &StoreError) -> Failure {
    let words = format!("{error}; `stonecast cluster status` shows whether the change was made");
    Failure::new(Status::OutcomeUnknown, words)
}

/// The failure of a value that is no configuration of this program.
pub fn unreadable(store: &str, error: &DocumentError) -> Failure {
    let status = match error {
        DocumentError::Newer { .. } | DocumentError::Older { .. } => Status::Failed,
        _ => Status::Corrupt,
    };
    Failure::new(status, format!("{store}: {error}"))
}
