//! The stores of a cluster's configuration: files on one host, or etcd.
//!
//! ```text
//!   address   text -> store
//!   executor  for tools, which have no device to sleep on
//!   front     ConfigStore: hands calls to threads, and futures to the caller
//!   board     tasks that wait for a later value
//!     |  both use
//!   backend   the operations of a store, in a thread that may block
//!     file/     one file for each revision
//!     etcd/     etcd's JSON gateway over HTTP
//! ```
//!
//! Stores have clocks and threads, as providers of verbs have: all waiting for disks and networks happens in three
//! threads of each store, and an answer wakes the caller's task from there. `docs/cluster.md` has the facts that an
//! operator has to know, and `docs/design/0032-membership.md` the reasons.
#![forbid(unsafe_code)]

use std::rc::Rc;
use std::str::FromStr as _;

use stonecast_cluster::ConfigStore;

mod address;
mod backend;
mod board;
mod etcd;
mod executor;
mod file;
mod front;

pub use address::{
    Address, Credentials, EtcdAddress, Identity, InvalidAddress, Password, TlsFiles,
};
pub use etcd::{Bounds, UnusableFile};
pub use executor::executor;

/// A store that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address names none.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// A file that the address names, for TLS or with a password, cannot be used.
    #[error("opening {store}: {source}")]
    File {
        /// The store.
        store: String,
        /// The file, and its fault.
        source: UnusableFile,
    },
    /// The threads of the store cannot be started.
    #[error("starting a thread for {store}: {source}")]
    Thread {
        /// The store.
        store: String,
        /// The system's error.
        source: std::io::Error,
    },
}

/// The store at `address`: `file:PATH`, or `etcd://HOST:PORT,HOST:PORT/NAME`, or over TLS
/// `etcds://HOST:PORT,HOST:PORT/NAME?cacert=FILE&cert=FILE&key=FILE`. `USER:PASSWORD@` may precede the hosts; or
/// `USER@`, if `password_file=FILE` is among the options.
///
/// The files of TLS are read at once, and again after a connection fails because of them, so renewed certificates need
/// no restart. A file with a password is read at once, and again for each login. The store itself is not read yet: a
/// missing directory, or an etcd that does not answer, is an error of the first call. The store's threads end with it;
/// a thread that waits for etcd ends some seconds later.
///
/// ```
/// use stonecast_config_store::{OpenError, open};
///
/// let folder = tempfile::tempdir()?;
/// let store = open(&format!("file:{}", folder.path().display()))?;
/// assert!(store.name().starts_with("file:"));
///
/// let Err(OpenError::Address(refused)) = open("etcd://10.0.0.1/blue") else {
///     panic!("the address has no port");
/// };
/// assert_eq!(refused.reason, "a port is missing");
/// assert!(refused.to_string().ends_with("etcds://HOST:PORT,HOST:PORT/NAME?cacert=FILE&cert=FILE&key=FILE"));
///
/// let Err(OpenError::File { source, .. }) = open("etcds://10.0.0.1:2379/blue?cacert=/nowhere/ca.pem") else {
///     panic!("there is no such file");
/// };
/// assert_eq!(source.path.to_str(), Some("/nowhere/ca.pem"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open(address: &str) -> Result<Rc<dyn ConfigStore>, OpenError> {
    open_within(&Address::from_str(address)?, Bounds::DEFAULT)
}

/// The store at `address`, with other bounds for an etcd.
pub fn open_within(address: &Address, bounds: Bounds) -> Result<Rc<dyn ConfigStore>, OpenError> {
    let name = address.to_string();
    let front = match address {
        Address::File(path) => front::Front::start(&name, file::FileStore::new(path)),
        Address::Etcd(address) => match etcd::EtcdStore::new(address, bounds) {
            Ok(store) => front::Front::start(&name, store),
            Err(source) => {
                return Err(OpenError::File {
                    store: name,
                    source,
                });
            }
        },
    };
    match front {
        Ok(front) => Ok(Rc::new(front)),
        Err(source) => Err(OpenError::Thread {
            store: name,
            source,
        }),
    }
}
