//! Errors of data structures.

use stonecast_structures::shapes::ExecuteFault;
use stonecast_structures::{FrontEndError, StageFault};

use crate::error::{Effect, ErrorKind};

/// The reason why an operation on a data structure failed.
///
/// [`Error::effect`] tells what the failure means for the data. An update whose outcome is unknown is done again with
/// its [`Attempt`](super::Attempt), if it had one.
///
/// ```
/// use stonecast::{Durability, Effect};
/// use stonecast::structures::{self, BTree, Server};
///
/// # let folder = tempfile::tempdir()?;
/// let server = Server::builder(folder.path().join("pool"))
///     .durability(Durability::Process)
///     .capacity(32 << 20)
///     .serve()?;
/// let connection = structures::connect(&server.address().to_string())?;
/// let lost = connection.run(async |session| {
///     let mut orders = session.writer::<BTree<u64, String>>("orders").await?;
///     orders.stage(&1, &"pins".to_owned()).await?.await?; // durable, and not published
///     server.shutdown()?;
///     Ok::<_, structures::Error>(orders.publish().await)
/// })?;
/// assert_eq!(lost.expect_err("the server is gone").effect(), Effect::Done);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No back-end accepted the connection, or the device failed.
    #[error(transparent)]
    Connect(crate::Error),
    /// Another front-end writes the structure, or wrote it and is being stopped.
    #[error("{name:?} has a writer (tenure {tenure}); one front-end writes a structure at a time")]
    Held {
        /// The structure.
        name: String,
        /// The number of the writer's tenure.
        tenure: u32,
    },
    /// The tenure of this writer is over: it was silent for longer than its lease, or the back-end ended it.
    /// Acknowledged updates stay; open a writer anew.
    #[error(
        "the tenure of this writer is over{}; acknowledged updates stay. Open a writer anew",
        in_words(effect)
    )]
    TenureOver {
        /// The effect of the call on the data.
        effect: Effect,
    },
    /// The back-end is gone. Acknowledged updates stay; connect anew.
    #[error(
        "the back-end is gone{}; acknowledged updates stay. Connect anew",
        in_words(effect)
    )]
    Gone {
        /// The effect of the call on the data.
        effect: Effect,
    },
    /// The server is a mirror, which serves no front-end.
    #[error(
        "the server is a mirror of generation {generation} that {}, and serves no front-end; connect to its back-end, or promote the mirror if that is gone for good",
        if *.is_whole { "has everything" } else { "lacks a part of the pool" }
    )]
    IsMirror {
        /// The generation of its back-end; 0: it has had none.
        generation: u64,
        /// Whether the mirror has everything, and may be promoted.
        is_whole: bool,
    },
    /// There is no structure with this name.
    #[error("there is no structure {name:?}; a writer makes it")]
    NotFound {
        /// The name.
        name: String,
    },
    /// The memory of the snapshot's versions is used again; take another snapshot.
    #[error(
        "the snapshot of {name:?} is too old: the memory of its versions is used again. Take another one"
    )]
    TooOld {
        /// The structure.
        name: String,
    },
    /// The structure is of another type than was asked for.
    #[error("{name:?} is {found}, and {asked} was asked for")]
    OtherType {
        /// The structure.
        name: String,
        /// Its type, in words.
        found: String,
        /// The type that was asked for, in words.
        asked: String,
    },
    /// The text is no name of a structure.
    #[error(
        "{name:?} is no name of a structure: a name has 1 to 64 bytes, or two such parts with a slash between them, the lock domain and the structure"
    )]
    Name {
        /// The text.
        name: String,
    },
    /// Another structure of the lock domain has the name.
    #[error("there is a structure {name:?}")]
    Taken {
        /// The name.
        name: String,
    },
    /// Key or value are longer than the structure takes.
    #[error(
        "an entry with a key of {key_size} bytes and a value of {value_size} bytes is too large: keys have at most {key_size_max} bytes, values 1 MiB"
    )]
    TooLarge {
        /// Bytes of the encoded key.
        key_size: usize,
        /// Bytes of the value.
        value_size: usize,
        /// Bytes of the longest key that the structure takes.
        key_size_max: usize,
    },
    /// The update may have been done: it was tried so long ago that its result is not kept any more.
    #[error(
        "nobody can tell whether the update with the token {token:#x} was done: its result is not kept any more. Look at {name:?}, and begin a new attempt"
    )]
    Forgotten {
        /// The structure, or the lock domain.
        name: String,
        /// The token.
        token: u64,
    },
    /// Another update had the token of the attempt.
    #[error("another update of {name:?} had the token {token:#x}; each attempt is for one update")]
    Token {
        /// The structure, or the lock domain.
        name: String,
        /// The token.
        token: u64,
    },
    /// A back-end has another part of a partitioned structure than its place among the back-ends says, or none.
    #[error(
        "back-end {back_end} of {back_ends} has {found} of {name:?}, and partition {back_end} of {back_ends} was asked for; name the back-ends of the structure, all of them, in their order"
    )]
    Partition {
        /// The structure.
        name: String,
        /// The place of the back-end, from 1.
        back_end: usize,
        /// Back-ends that were named.
        back_ends: usize,
        /// Its part of the structure, in words.
        found: String,
    },
    /// A transaction has keys of several partitions, each of which has a writer and a log of its own. Nothing was done.
    #[error(
        "the transaction has keys of partitions {first} and {other} of {name:?}; a transaction lies in one partition"
    )]
    AcrossPartitions {
        /// The structure.
        name: String,
        /// The partition of the first key, from 1.
        first: usize,
        /// The partition of another key.
        other: usize,
    },
    /// The pool of the back-end is full.
    #[error("the pool of the back-end is full")]
    NoRoom,
    /// The lock domain has as much memory of the pool as the back-end lets it have.
    #[error("{name:?} has as much memory of the pool as its back-end lets a lock domain have")]
    OverQuota {
        /// The structure, or the lock domain.
        name: String,
    },
    /// The bytes of a key or value stand for nothing of its type.
    #[error("{size} bytes of {name:?} are no {what}")]
    Decode {
        /// The structure.
        name: String,
        /// Bytes at hand.
        size: usize,
        /// The type, in words.
        what: String,
        /// The effect of the call on the data: a value that was popped is taken.
        effect: Effect,
    },
    /// The structure is damaged, or the back-end does not keep to the protocol.
    #[error("{fault}")]
    Damaged {
        /// The fault.
        fault: FrontEndError,
        /// The effect of the call on the data.
        effect: Effect,
    },
}

/// The effect of a call that failed after it may have been sent, in words.
fn in_words(effect: &Effect) -> &'static str {
    match effect {
        Effect::None => "",
        Effect::Done => "; the update was done",
        Effect::Unknown { .. } => "; the outcome of the update is unknown",
    }
}

impl Error {
    /// The effect on the data.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Connect(error) => error.effect(),
            Self::TenureOver { effect }
            | Self::Gone { effect }
            | Self::Decode { effect, .. }
            | Self::Damaged { effect, .. } => effect.clone(),
            Self::Forgotten { .. } => Effect::Unknown { token: None },
            Self::Held { .. }
            | Self::IsMirror { .. }
            | Self::NotFound { .. }
            | Self::TooOld { .. }
            | Self::OtherType { .. }
            | Self::Name { .. }
            | Self::Taken { .. }
            | Self::TooLarge { .. }
            | Self::Token { .. }
            | Self::Partition { .. }
            | Self::AcrossPartitions { .. }
            | Self::NoRoom
            | Self::OverQuota { .. } => Effect::None,
        }
    }

    /// The error of a call about the structure `name` that changes nothing.
    pub(super) fn of_read(name: &str, error: FrontEndError) -> Self {
        Self::of(name, error, Effect::None)
    }

    /// The error of a call about the structure `name`. `effect`: that of the call, unless the back-end or the structure
    /// refused it.
    pub(super) fn of(name: &str, error: FrontEndError, effect: Effect) -> Self {
        match error {
            FrontEndError::Held { tenure, .. } => Self::Held {
                name: name.to_owned(),
                tenure,
            },
            FrontEndError::Over { .. } => Self::TenureOver { effect },
            FrontEndError::Gone | FrontEndError::Failed(_) => Self::Gone { effect },
            FrontEndError::IsMirror {
                generation,
                is_whole,
            } => Self::IsMirror {
                generation,
                is_whole,
            },
            FrontEndError::NoRoom => Self::NoRoom,
            FrontEndError::OverQuota { .. } => Self::OverQuota {
                name: name.to_owned(),
            },
            FrontEndError::TooOld => Self::TooOld {
                name: name.to_owned(),
            },
            FrontEndError::NoDomain { .. } | FrontEndError::NoStructure => Self::NotFound {
                name: name.to_owned(),
            },
            FrontEndError::Stage(StageFault::Execute(ExecuteFault::Size {
                key_size,
                value_size,
                key_size_max,
            })) => Self::TooLarge {
                key_size,
                value_size,
                key_size_max,
            },
            FrontEndError::Stage(StageFault::Execute(ExecuteFault::Forgotten { token })) => {
                let name = name.to_owned();
                Self::Forgotten { name, token }
            }
            FrontEndError::Stage(StageFault::Execute(ExecuteFault::Token { token })) => {
                let name = name.to_owned();
                Self::Token { name, token }
            }
            FrontEndError::Device(error) => {
                let kind = ErrorKind::Store(error.into());
                Self::Connect(crate::Error::new(kind, effect))
            }
            fault => Self::Damaged { fault, effect },
        }
    }
}

impl From<crate::Error> for Error {
    fn from(error: crate::Error) -> Self {
        Self::Connect(error)
    }
}
