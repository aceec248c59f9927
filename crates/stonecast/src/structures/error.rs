//! Errors of data structures.

use stonecast_structures::shapes::ExecuteFault;
use stonecast_structures::shapes::sequence::TAKEN_MAX;
use stonecast_structures::{BODY_SIZE_MAX, FrontEndError, SpaceFault, StageFault};

use crate::error::{Effect, ErrorKind};

/// The reason why an operation on a data structure failed.
///
/// [`Error::effect`] tells what the failure means for the data. An update whose outcome is unknown is repeated with its
/// [`Attempt`](super::Attempt), if it had one.
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
    /// Another front-end writes the structure, or is being stopped after it wrote the structure.
    #[error(
        "{name:?} has a writer{} (tenure {tenure}); one front-end writes a structure at a time",
        called(holder)
    )]
    Held {
        /// The structure.
        name: String,
        /// The number of the writer's tenure.
        tenure: u32,
        /// The name that the writer gave itself ([`Connector::named`](crate::Connector::named)): by default its
        /// process and its host.
        holder: String,
    },
    /// The tenure of this writer is over: it was silent for longer than its lease, or the back-end ended it.
    /// Acknowledged updates stay; open a new writer.
    #[error(
        "the tenure of this writer is over{}; acknowledged updates stay. Open a writer anew",
        in_words(effect)
    )]
    TenureOver {
        /// The effect of the call on the data.
        effect: Effect,
    },
    /// The back-end is gone. Acknowledged updates stay; connect again.
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
        /// The generation of the mirror's back-end; 0: the mirror has had none.
        generation: u64,
        /// Whether the mirror has everything, and may be promoted.
        is_whole: bool,
    },
    /// No structure has this name.
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
        /// The type of the structure, in words.
        found: String,
        /// The type that was asked for, in words.
        asked: String,
    },
    /// A transaction, or a look, names a structure of another lock domain. Nothing was done.
    #[error(
        "{name:?} is a structure of {found}, and {asked} was asked; a transaction lies in one lock domain"
    )]
    OtherDomain {
        /// The structure.
        name: String,
        /// The lock domain of the structure, in words.
        found: String,
        /// The place that was asked, in words.
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
    /// An update, or a transaction, is longer than a lock domain of this pool takes at once. Nothing was done.
    #[error(
        "an update of {name:?} needs {size} bytes at once, and this pool has room for {size_max}: split the transaction, or make a pool of 128 MiB or more"
    )]
    TooLong {
        /// The structure, or the lock domain.
        name: String,
        /// Bytes that the update needs in one record, in the log or in a slab.
        size: u64,
        /// Bytes that the record may have at most.
        size_max: u64,
    },
    /// A consumer has taken as many jobs as it may without ending one. Nothing was done.
    #[error("{count} jobs are taken at the cursor {name:?} and not done; end one first")]
    Unfinished {
        /// The cursor.
        name: String,
        /// Jobs that are taken and not done.
        count: usize,
    },
    /// The writer of a queue has removed a job that its consumer still needs, or has made the queue empty.
    #[error(
        "the job {number} of {name:?} was removed before its consumer was done with it; begin with another cursor"
    )]
    Removed {
        /// The queue.
        name: String,
        /// The number of the job.
        number: u64,
    },
    /// The update may have been done: the first attempt is so old that its result is no longer kept.
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
    /// A back-end has no part of a partitioned structure, or another part than its place among the back-ends says.
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
        /// The part of the structure that the back-end has, in words.
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
    #[error(
        "{name:?} has as much memory of the pool as its back-end lets a lock domain have; `serve --structures-quota` sets the limit"
    )]
    OverQuota {
        /// The structure, or the lock domain.
        name: String,
    },
    /// The bytes of a key or value are not valid for its type.
    #[error("{size} bytes of {name:?} are no {what}")]
    Decode {
        /// The structure.
        name: String,
        /// Bytes that were found.
        size: usize,
        /// The type, in words.
        what: String,
        /// The effect of the call on the data: a value that was popped is taken.
        effect: Effect,
    },
    /// The structure is damaged, or the back-end breaks the protocol.
    #[error("{fault}")]
    Damaged {
        /// The fault.
        fault: FrontEndError,
        /// The effect of the call on the data.
        effect: Effect,
    },
}

/// The name of a writer, in words.
fn called(holder: &str) -> String {
    match holder {
        "" => String::new(),
        name => format!(", {name}"),
    }
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
            | Self::OtherDomain { .. }
            | Self::Name { .. }
            | Self::Taken { .. }
            | Self::TooLarge { .. }
            | Self::TooLong { .. }
            | Self::Unfinished { .. }
            | Self::Removed { .. }
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

    /// The error of a call about the structure `name`. `effect` is the effect of the call, unless the back-end or the
    /// structure refused the call.
    pub(super) fn of(name: &str, error: FrontEndError, effect: Effect) -> Self {
        match error {
            FrontEndError::Held { tenure, holder, .. } => Self::Held {
                name: name.to_owned(),
                tenure,
                holder: holder.to_string(),
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
            FrontEndError::Stage(
                StageFault::Long { size, size_max }
                | StageFault::Execute(ExecuteFault::Space(SpaceFault::Long { size, size_max })),
            ) => Self::TooLong {
                name: name.to_owned(),
                size,
                size_max,
            },
            // Nothing else waits for publication: this update alone is too long.
            FrontEndError::Stage(StageFault::TransactionFull { size }) => Self::TooLong {
                name: name.to_owned(),
                size: size as u64,
                size_max: BODY_SIZE_MAX as u64,
            },
            FrontEndError::Stage(StageFault::Execute(ExecuteFault::Taken)) => Self::Unfinished {
                name: name.to_owned(),
                count: TAKEN_MAX,
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
