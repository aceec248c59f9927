//! The options of a write, in addition to key and value.

use std::time::Duration;

use stonecast_kv::{Condition, Expiry, Token};

use crate::lifetime::Lifetime;

/// The options of a write, in addition to key and value: a condition, a lifetime, and whether the write can be repeated
/// safely.
///
/// A client whose connection has ended answers every attempt at once, with the same token. The loop below then ends,
/// and the error carries the token to the next connection.
///
/// ```no_run
/// use stonecast::{Effect, Write};
///
/// let client = stonecast::blocking::connect("shm:./stonecast-data/socket")?;
/// let mut write = Write::retryable().if_absent();
/// let written = loop {
///     match client.put_with("job", "taken", write) {
///         Ok(written) => break written,
///         Err(error) => match error.effect() {
///             Effect::Unknown { token: Some(token) } if !error.is_disconnected() => {
///                 write = Write::retry(token).if_absent();
///             }
///             _ => return Err(error),
///         },
///     }
/// };
/// # Ok::<(), stonecast::Error>(())
/// ```
///
/// A token knows whether an attempt may have been done. A limit that no server can meet stands for a network that
/// loses the answer:
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let server = stonecast::Server::builder(folder.path().join("pool"))
/// #     .durability(stonecast::Durability::Process).serve()?;
/// # let url = server.address().to_string();
/// use std::time::Duration;
/// use stonecast::{Connector, Effect, Write};
///
/// let hasty = Connector::new(&url)?.operation_timeout(Some(Duration::ZERO));
/// let error = hasty.connect_blocking()?.put_with("job", "taken", Write::retryable()).unwrap_err();
/// let Effect::Unknown { token: Some(token) } = error.effect() else { panic!("{error}") };
/// assert!(token.may_be_done());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A delete takes the same options:
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let server = stonecast::Server::builder(folder.path().join("pool"))
/// #     .durability(stonecast::Durability::Process).serve()?;
/// # let url = server.address().to_string();
/// use stonecast::{Write, Written};
///
/// let client = stonecast::blocking::connect(&url)?;
/// let version = client.put("job", "taken")?;
/// let late = client.delete_with("job", Write::retryable().if_version(version + 1))?;
/// assert_eq!(late, Written::Conflict(Some(version)));
/// assert!(matches!(client.delete_with("job", Write::new().if_version(version))?, Written::Done(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
/// Conditions and lifetimes are also values, which a program passes on:
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let server = stonecast::Server::builder(folder.path().join("pool"))
/// #     .durability(stonecast::Durability::Process).serve()?;
/// # let url = server.address().to_string();
/// use std::time::Duration;
/// use stonecast::{Condition, Lifetime, Write};
///
/// let client = stonecast::blocking::connect(&url)?;
/// let hour = Lifetime::For(Duration::from_secs(3600));
/// client.put_with("session", "ada", Write::new().on(Condition::Absent).living(hour))?;
/// let end = client.get("session")?.and_then(|entry| entry.expires).expect("it lives for an hour");
/// client.put_with("cart", "ada's", Write::new().expires_at(end))?; // both end at one moment
/// assert_eq!(client.get("cart")?.and_then(|entry| entry.expires), Some(end));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Write {
    pub(crate) condition: Option<Condition>,
    pub(crate) retry: Retry,
    pub(crate) lifetime: Lifetime,
}

/// The name of a write for its retries. A [`Write`] has a name among its options. A batch has only a name: conditions
/// and lifetimes belong to its keys.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let server = stonecast::Server::builder(folder.path().join("pool"))
/// #     .durability(stonecast::Durability::Process).serve()?;
/// # let url = server.address().to_string();
/// use stonecast::{Batch, Effect, Retry};
///
/// let client = stonecast::blocking::connect(&url)?;
/// let mut batch = Batch::new();
/// batch.put(b"stock", b"6").delete(b"order 7");
/// let mut retry = Retry::Fresh;
/// let applied = loop {
///     match client.apply_with(&batch, retry) {
///         Ok(applied) => break applied,
///         Err(error) => match error.effect() {
///             Effect::Unknown { token: Some(token) } if !error.is_disconnected() => retry = Retry::Of(token),
///             _ => return Err(error.into()),
///         },
///     }
/// };
/// assert!(matches!(applied, stonecast::Applied::Done(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// The write has no name: an unknown outcome stays unknown.
    #[default]
    Never,
    /// A token that is made when the write is sent, and that an error with an unknown outcome carries.
    Fresh,
    /// The token of an earlier attempt. The write must be the same as in that attempt.
    Of(Token),
}

impl Retry {
    /// The token of an earlier attempt, if any.
    pub(crate) fn into_token(self) -> Option<Token> {
        match self {
            Self::Never | Self::Fresh => None,
            Self::Of(token) => Some(token),
        }
    }
}

impl Write {
    /// A write without a condition and without a token: an unknown outcome stays unknown.
    pub fn new() -> Self {
        Self::default()
    }

    /// A write named by a token, which an error with an unknown outcome carries. The token takes 8 bytes of the record.
    pub fn retryable() -> Self {
        Self {
            retry: Retry::Fresh,
            ..Self::default()
        }
    }

    /// The next attempt of the write that `token` names. Key, value and condition must be those of the first attempt.
    pub fn retry(token: Token) -> Self {
        Self {
            retry: Retry::Of(token),
            ..Self::default()
        }
    }

    /// Takes effect only if the key has this version at the moment of the write.
    #[must_use]
    pub fn if_version(self, version: u64) -> Self {
        self.on(Condition::Version(version))
    }

    /// Takes effect only if the key is absent at the moment of the write.
    #[must_use]
    pub fn if_absent(self) -> Self {
        self.on(Condition::Absent)
    }

    /// Takes effect only if `condition` holds at the moment of the write.
    #[must_use]
    pub fn on(mut self, condition: Condition) -> Self {
        self.condition = Some(condition);
        self
    }

    /// Lets the key expire after `time`, rounded up to whole milliseconds. A put without this option stores a key that
    /// does not expire. A delete ignores the option.
    #[must_use]
    pub fn expires_in(self, time: Duration) -> Self {
        self.living(Lifetime::For(time))
    }

    /// Lets the key expire at `moment`, by the server's time.
    #[must_use]
    pub fn expires_at(self, moment: Expiry) -> Self {
        self.living(Lifetime::Until(moment))
    }

    /// Gives the key this lifetime.
    #[must_use]
    pub fn living(mut self, lifetime: Lifetime) -> Self {
        self.lifetime = lifetime;
        self
    }

    pub(crate) fn condition(&self) -> Condition {
        self.condition.unwrap_or(Condition::None)
    }
}
