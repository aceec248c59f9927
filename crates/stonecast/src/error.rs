//! Errors, and their meaning for the data.
//!
//! [`Error`] and [`Effect`] suffice for most programs. A program names the other types to distinguish reasons; each has
//! its facts as fields:
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let server = stonecast::Server::builder(folder.path().join("pool"))
//! #     .durability(stonecast::Durability::Process).serve()?;
//! # let url = server.address().to_string();
//! use stonecast::ErrorKind;
//! use stonecast::error::StoreError;
//!
//! let client = stonecast::blocking::connect(&url)?;
//! let error = client.put(&[b'k'; 5000], "value").err().expect("no key is as long");
//! match error.kind() {
//!     ErrorKind::Store(StoreError::KeySize { size, max }) => assert!(size > max),
//!     ErrorKind::Store(StoreError::NoSpace { .. } | StoreError::Busy) => println!("try again later"),
//!     _ => panic!("{error}"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Two functions group the reasons of the store:
//!
//! ```
//! use stonecast::error::StoreError;
//!
//! /// The answer of a program to a failed write.
//! fn advice(error: &StoreError) -> &str {
//!     match error {
//!         _ if error.is_for_want_of_room() => "remove something, or write again later",
//!         _ if error.is_refusal_of_write() => "no attempt has done anything",
//!         _ => "ask for the effect",
//!     }
//! }
//!
//! assert_eq!(advice(&StoreError::Busy), "remove something, or write again later");
//! assert_eq!(advice(&StoreError::IndexFull), "no attempt has done anything");
//! assert_eq!(advice(&StoreError::NotPersisted), "ask for the effect");
//! ```

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use stonecast_kv::Token;
use stonecast_media::Durability;

use crate::address::AddressError;
use crate::server::NotANode;
use crate::structures::MirrorError;

/// The damage of a pool, within [`MediaError`].
pub use stonecast_base::Corruption;
/// The facts within [`ClusterError`] and [`NotANode`]: why the configuration of a cluster is not read or not changed.
pub use stonecast_cluster::{
    ChangeError, DocumentError, Epoch, Inconsistency, InvalidName, NodeName, Nonce,
    StoreError as ConfigStoreError,
};
/// The reason why the store of a cluster's configuration cannot be opened, under [`ErrorKind::ConfigStore`], and its
/// facts.
pub use stonecast_config_store::{InvalidAddress, OpenError, UnusableFile};
/// The failure of a device: [`crate::Server::take_refusal`] returns one.
pub use stonecast_fabric::{DeviceError, Status};
/// The reasons why a cluster, a server's greeting, and a store fail: under [`ErrorKind::Cluster`], within
/// [`StoreError::Refused`], and under [`ErrorKind::Store`].
pub use stonecast_kv::{ClusterError, LedgerFull, Refusal, StoreError};
/// The failure of a medium: [`crate::Server::take_trouble`] returns one.
pub use stonecast_media::{Content, MediaError, PersistError};
/// The number of a pool or a cluster, within [`NotANode`].
pub use uuid::Uuid;

/// The reason why an operation failed. [`Error::effect`] tells what the failure means for the data, and [`Error::kind`]
/// what happened.
///
/// An error is one pointer, so that the result of a read that takes a hundred nanoseconds stays small.
///
/// ```
/// use stonecast::{Effect, ErrorKind};
///
/// let error = stonecast::blocking::connect("shm:/nowhere/socket").err().expect("no server is there");
/// assert_eq!(error.effect(), Effect::None);
/// match error.kind() {
///     ErrorKind::Unreachable { is_absent: true, .. } => println!("start a server: {error}"),
///     _ => panic!("{error}"),
/// }
/// ```
pub struct Error(Box<Failure>);

struct Failure {
    kind: ErrorKind,
    effect: Effect,
}

/// The effect of a failed operation on the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing was done, and nothing will be.
    None,
    /// The operation was done; the failure came after it. Data structures alone have such failures: an update is
    /// durable before it is published, and a value that was popped may be of another type. The answer of the store to a
    /// write is the write's last step, so a write of a key that fails is never known to be done.
    Done,
    /// The operation may have been done, or may still be done. Read the key to find out, or repeat the write with the
    /// token.
    Unknown {
        /// Names the write for the next attempt ([`crate::Write::retry`]). `None`: the write was sent without a token,
        /// the write was so long ago that the server has forgotten the outcome, the thread that drives a
        /// [`crate::Client`] ended before it reported the token of a first attempt, or the operation was an update of a
        /// data structure, which is named by its [`crate::structures::Attempt`].
        token: Option<Token>,
    },
}

/// The kind of the failure. A match may name every kind: a release that adds one says so as a breaking change.
#[derive(Debug, thiserror::Error)]
pub enum ErrorKind {
    /// The text is not an address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Something that the connection needs is missing or unusable, such as a key file.
    #[error("{0}")]
    Setup(String),
    /// No server accepted the connection.
    #[error(
        "{refusal}{}",
        if *.is_absent { ". Is `stonecast serve` running there?" } else { "" }
    )]
    Unreachable {
        /// The system's error, with the address.
        refusal: String,
        /// Whether nothing listens at the address; otherwise this program cannot reach the address.
        is_absent: bool,
    },
    /// The server did not accept the connection in time.
    #[error("the server at {address} does not answer: nothing came within {limit:?}")]
    Unanswered {
        /// The server.
        address: String,
        /// The limit ([`crate::Connector::connect_timeout`]).
        limit: Duration,
    },
    /// The pool promises less than the program expects.
    #[error(
        "the pool at {address} has durability {found}, and {expected} is expected: an acknowledged write would survive less. Serve a \
         pool that was created with --durability {expected}, or expect {found}"
    )]
    Durability {
        /// The server.
        address: String,
        /// The durability that the program expects.
        expected: Durability,
        /// The durability that the pool promises.
        found: Durability,
    },
    /// The pool exists and was made with a setting other than the one asked for.
    #[error(
        "{} was created with {setting} {has}, not {asked}: leave the setting out, or export the pool into a new one",
        data.display()
    )]
    OtherSetting {
        /// The pool.
        data: PathBuf,
        /// The setting, as the command line names it.
        setting: &'static str,
        /// The value that the pool has.
        has: String,
        /// The value that was asked for.
        asked: String,
    },
    /// A new pool would have fewer segments than any pool has.
    #[error(
        "a capacity of {capacity} bytes is too small: a pool has at least {segments} segments, {segment_size} bytes each"
    )]
    TooSmall {
        /// The value that was asked for.
        capacity: u64,
        /// Bytes of a segment.
        segment_size: u64,
        /// The least number of segments.
        segments: u64,
    },
    /// The operation took longer than its limit.
    #[error("no answer came within {limit:?}")]
    TimedOut {
        /// The limit ([`crate::Connector::operation_timeout`]).
        limit: Duration,
    },
    /// The client was closed, or the thread that drives it has ended.
    #[error("the client is closed")]
    Closed,
    /// The store refused or failed.
    #[error(transparent)]
    Store(StoreError),
    /// The cluster is not known, or does not serve the key.
    #[error(transparent)]
    Cluster(ClusterError),
    /// The server does not become a node of its cluster.
    #[error(transparent)]
    Node(NotANode),
    /// A mirror of data structures, or a back-end with a mirror, refuses or fails.
    #[error(transparent)]
    Mirror(Box<MirrorError>),
    /// The store of the cluster's configuration cannot be opened.
    #[error(transparent)]
    ConfigStore(#[from] stonecast_config_store::OpenError),
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, effect: Effect) -> Self {
        Self(Box::new(Failure { kind, effect }))
    }

    /// The error of an operation that changed nothing.
    pub(crate) fn nothing_done(kind: impl Into<ErrorKind>) -> Self {
        Self::new(kind.into(), Effect::None)
    }

    /// The error of an operation of [`crate::local::Client::store`] that changes nothing.
    #[doc(hidden)]
    #[cold]
    pub fn of_read(error: StoreError) -> Self {
        Self::nothing_done(ErrorKind::Store(error))
    }

    /// The error of a write of [`crate::local::Client::store`] without a token.
    #[doc(hidden)]
    #[cold]
    pub fn of_write(error: StoreError) -> Self {
        Fault::Store(error).of_write(None)
    }

    /// The kind of the failure.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The effect on the data.
    pub fn effect(&self) -> Effect {
        self.0.effect.clone()
    }

    /// Whether the connection is over: every further operation of this client fails, and a new client is needed.
    pub fn is_disconnected(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Closed
                | ErrorKind::Store(StoreError::Disconnected { .. } | StoreError::Protocol { .. })
        )
    }
}

/// The reason why the store's own operation failed, before its effect is known.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The store failed with this error.
    Store(StoreError),
    /// The operation took longer than this.
    Late(Duration),
}

impl Fault {
    /// The error of an operation that changes nothing.
    #[cold]
    pub fn of_read(self) -> Error {
        Error::nothing_done(self.into_kind())
    }

    /// The error of the first attempt of a write, which `token` names.
    #[cold]
    pub fn of_write(self, token: Option<Token>) -> Error {
        let effect = match &self {
            Self::Late(_) => Effect::Unknown { token },
            Self::Store(error) => match error.effect() {
                stonecast_kv::Effect::None => Effect::None,
                stonecast_kv::Effect::Unknown => Effect::Unknown {
                    token: token.filter(|_| !matches!(error, StoreError::Forgotten)),
                },
            },
        };
        Error::new(self.into_kind(), effect)
    }

    /// The error of a further attempt of the write that `token` names. Only an answer of the server to the write itself
    /// proves that the earlier attempts did nothing: the server looks up their outcome first. *Busy* is no such answer,
    /// since the client also returns it for an attempt that was never sent.
    #[cold]
    pub fn of_retry(self, token: Token) -> Error {
        let effect = match &self {
            Self::Store(StoreError::Forgotten) => Effect::Unknown { token: None },
            Self::Store(StoreError::Busy) | Self::Late(_) => Effect::Unknown { token: Some(token) },
            Self::Store(error) => match error.is_refusal_of_write() {
                true => Effect::None,
                false => Effect::Unknown { token: Some(token) },
            },
        };
        Error::new(self.into_kind(), effect)
    }

    fn into_kind(self) -> ErrorKind {
        match self {
            Self::Store(error) => ErrorKind::Store(error),
            Self::Late(limit) => ErrorKind::TimedOut { limit },
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("effect", &self.0.effect)
            .finish()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.kind.fmt(formatter)?;
        match (&self.0.kind, &self.0.effect) {
            // The store's own messages state the outcome of the operation.
            (ErrorKind::Store(_) | ErrorKind::Cluster(_), _) | (_, Effect::None) => Ok(()),
            (_, Effect::Done) => formatter.write_str("; the operation was done"),
            (_, Effect::Unknown { .. }) => formatter.write_str("; the outcome is unknown"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.kind.source()
    }
}

impl From<AddressError> for Error {
    fn from(error: AddressError) -> Self {
        Self::nothing_done(error)
    }
}

impl From<DeviceError> for Error {
    fn from(error: DeviceError) -> Self {
        Self::of_read(error.into())
    }
}

impl From<MediaError> for Error {
    fn from(error: MediaError) -> Self {
        Self::of_read(error.into())
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self::nothing_done(kind)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Server;
    use crate::local;

    /// Needs *busy* to be left out: a client without room for its request returns it before anything is sent.
    #[test]
    fn only_an_answer_of_the_server_settles_a_retry() {
        let token = some_token();
        let effect = |error| Fault::Store(error).of_retry(token.clone()).effect();
        let unknown = Effect::Unknown {
            token: Some(token.clone()),
        };
        assert_eq!(effect(StoreError::Invalid), Effect::None);
        assert_eq!(effect(StoreError::Busy), unknown);
        assert_eq!(effect(StoreError::Disconnected { unknown: false }), unknown);
        assert_eq!(
            effect(StoreError::Forgotten),
            Effect::Unknown { token: None }
        );
        let late = Fault::Late(Duration::ZERO).of_retry(token.clone());
        assert_eq!(late.effect(), unknown);
    }

    /// A token. Only a connected client makes one.
    pub fn some_token() -> Token {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::builder(folder.path().join("pool"))
            .durability(Durability::Process)
            .capacity(16 << 20)
            .segment_size(1 << 20);
        let server = server.serve().unwrap();
        let connection = local::connect(&server.address().to_string()).unwrap();
        connection.client().store().expect("a server").token()
    }
}
