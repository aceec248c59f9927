//! Errors in replies, worded as clients know them: a code in capitals comes first.

use stonecast_kv::{ClusterError, Effect, StoreError};

/// The reason why a command was not done.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommandError {
    /// The command is unknown.
    #[error("ERR unknown command '{}', with args beginning with: {}", shown(.name), arguments_shown(.arguments))]
    Unknown {
        /// The name, as the client sent it.
        name: Vec<u8>,
        /// The first arguments after the name.
        arguments: Vec<Vec<u8>>,
    },
    /// Too few arguments or too many.
    #[error("ERR wrong number of arguments for '{0}' command")]
    ArgumentCount(String),
    /// A subcommand that is not supported.
    #[error("ERR {command} {} is not supported by this store", shown(.subcommand))]
    Subcommand {
        /// The command, in capitals.
        command: &'static str,
        /// The subcommand, as the client sent it.
        subcommand: Vec<u8>,
    },
    /// An option that is not supported.
    #[error("ERR {command} option {} is not supported by this store", shown(.option))]
    Option {
        /// The command, in capitals.
        command: &'static str,
        /// The option, as the client sent it.
        option: Vec<u8>,
    },
    /// A value of a setting that is no number.
    #[error(
        "ERR CONFIG SET failed (possibly related to argument '{name}') - argument couldn't be parsed into an integer"
    )]
    SettingNumber {
        /// The setting.
        name: &'static str,
    },
    /// A value of a setting out of its range.
    #[error(
        "ERR CONFIG SET failed (possibly related to argument '{name}') - argument must be between {least} and {most} inclusive"
    )]
    SettingRange {
        /// The setting.
        name: &'static str,
        /// The least value.
        least: i64,
        /// The highest value.
        most: i64,
    },
    /// An option of `EXPIRE` that does not exist.
    #[error("ERR Unsupported option {}", shown(.0))]
    UnsupportedOption(Vec<u8>),
    /// A moment that no key can have.
    #[error("ERR invalid expire time in '{0}' command")]
    ExpireTime(&'static str),
    /// Options that contradict each other, or lack their value.
    #[error("ERR syntax error")]
    Syntax,
    /// An argument or a value is not a 64-bit integer.
    #[error("ERR value is not an integer or out of range")]
    NotAnInteger,
    /// An argument or a value is not a number.
    #[error("ERR value is not a valid float")]
    NotAFloat,
    /// A sum does not fit 64 bits.
    #[error("ERR increment or decrement would overflow")]
    Overflow,
    /// An unknown user, for `CLIENT KILL`.
    #[error("ERR No such user '{0}'")]
    NoSuchUser(String),
    /// An unknown user, for `ACL DRYRUN`.
    #[error("ERR User '{0}' not found")]
    UserNotFound(String),
    /// A command that is not there, for `ACL DRYRUN`.
    #[error("ERR Command '{0}' not found")]
    CommandNotFound(String),
    /// A category that is not there.
    #[error("ERR Unknown category '{0}'")]
    NoSuchCategory(String),
    /// The user may not do it.
    #[error("NOPERM {0}")]
    NoPermission(String),
    /// A change of users that is not done.
    #[error("ERR {0}")]
    Users(#[from] crate::acl::Refusal),
    /// The file of users cannot be read or written: nothing has changed.
    #[error("ERR {0}")]
    UsersFile(String),
    /// A type that no connection has.
    #[error("ERR Unknown client type '{0}'")]
    ClientType(String),
    /// A cursor that no `SCAN` has returned.
    #[error("ERR invalid cursor")]
    Cursor,
    /// A database other than 0.
    #[error("ERR DB index is out of range")]
    Database,
    /// The password is missing.
    #[error("NOAUTH Authentication required.")]
    PasswordMissing,
    /// The password is missing, and the command has its own message for that.
    #[error("NOAUTH {0}")]
    PasswordMissingIn(&'static str),
    /// The password is wrong.
    #[error("WRONGPASS invalid username-password pair or user is disabled.")]
    PasswordWrong,
    /// A password was sent, but none is configured.
    #[error(
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
    )]
    PasswordUnused,
    /// A command that no transaction can have.
    #[error("ERR {0} is not supported in a transaction by this store")]
    NotInTransaction(String),
    /// The commands of a transaction need more memory than there is for them.
    #[error(
        "OOM the transaction has too many commands, or its commands too many bytes, for this store"
    )]
    TransactionTooLong,
    /// The values of a transaction need more memory than there is for them.
    #[error("ERR the values that the transaction reads have more than 8 MiB; nothing was done")]
    TransactionReadsTooMuch,
    /// Other clients changed the keys of the transaction each time.
    #[error(
        "ERR other clients changed the keys of the transaction in each of 256 attempts; nothing was done"
    )]
    TransactionLost,
    /// The connection watches too many keys.
    #[error("ERR a connection watches at most 1024 keys in this store")]
    TooManyWatched,
    /// `EXEC` of a transaction with a command that was refused.
    #[error("EXECABORT Transaction discarded because of previous errors.")]
    TransactionAborted,
    /// A malformed `EXEC`, which also ends a transaction.
    #[error("EXECABORT Transaction discarded because of: {0}")]
    TransactionAbortedBecause(Box<str>),
    /// A protocol version other than 2 or 3.
    #[error("NOPROTO unsupported protocol version")]
    Protocol,
    /// A name of a connection with blanks or control characters.
    #[error("ERR Client names cannot contain spaces, newlines or special characters.")]
    ClientName,
    /// A command that this store always refuses.
    #[error("ERR {0}")]
    Refused(&'static str),
    /// No memory is left for this reply, because other clients have left their replies unread for too long.
    #[error("OOM the gateway's memory for replies is used up; try again later")]
    NoRoomForReplies,
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] Failure),
}

/// A failure of the store in the words of the protocol.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{code} {words}")]
pub struct Failure {
    code: &'static str,
    words: String,
    /// Whether the connection to the store has ended.
    pub is_final: bool,
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.into())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = match (&error, error.effect()) {
            (StoreError::NoSpace { .. } | StoreError::MediumFull | StoreError::IndexFull, _) => {
                "OOM"
            }
            // The word of Redis Cluster, by which clients know the error.
            (StoreError::BatchShards { .. }, _) => "CROSSSLOT",
            // Clients take ERR for "not done". This write may have been done.
            (_, Effect::Unknown) => "UNKNOWN",
            (_, Effect::None) => "ERR",
        };
        let is_final = matches!(
            error,
            StoreError::Disconnected { .. } | StoreError::Protocol { .. }
        );
        Self {
            code,
            words: in_words_of_clients(&error),
            is_final,
        }
    }
}

/// The error, without the batches of the store, of which clients of Redis know nothing.
fn in_words_of_clients(error: &StoreError) -> String {
    const WHERE: &str = "one transaction, MSETNX, RENAME or COPY";
    match error {
        StoreError::BatchKeys { count, max } => {
            format!("{count} keys changed by {WHERE}: at most {max}; nothing was done")
        }
        StoreError::BatchNames { count, max } => {
            format!("{count} keys changed or read by {WHERE}: at most {max}; nothing was done")
        }
        StoreError::BatchSize { size, max } => format!(
            "{size} bytes in {WHERE}: at most {max} in this pool, with keys and values, and a longer value is in none; nothing was done"
        ),
        other => other.to_string(),
    }
}

impl From<ClusterError> for Failure {
    /// No failure of a cluster is final: another node may lead the shard, and the next call looks for it.
    fn from(error: ClusterError) -> Self {
        let (code, words) = match error {
            ClusterError::Store(error) => {
                let Self { code, words, .. } = error.into();
                (code, words)
            }
            error if error.effect() == Effect::Unknown => ("UNKNOWN", error.to_string()),
            error => ("ERR", error.to_string()),
        };
        Self {
            code,
            words,
            is_final: false,
        }
    }
}

impl CommandError {
    /// Returns whether the store refused the write for lack of room.
    pub fn is_want_of_room(&self) -> bool {
        matches!(self, Self::Store(failure) if failure.code == "OOM")
    }

    /// This error as the reply to an `EXEC`, whose transaction it ends.
    pub fn aborts_transaction(self) -> Self {
        let words = self.to_string();
        Self::TransactionAbortedBecause(words.strip_prefix("ERR ").unwrap_or(&words).into())
    }

    /// The error of a command that wrote `done` of `all` keys.
    pub fn in_part(self, done: usize, all: usize) -> Self {
        match self {
            Self::Store(Failure {
                code,
                words,
                is_final,
            }) => Self::Store(Failure {
                code,
                words: format!("{done} of {all} keys were written; another key failed: {words}"),
                is_final,
            }),
            other => other,
        }
    }
}

/// Longest piece of a client's bytes that an error repeats.
const SHOWN_SIZE_MAX: usize = 128;

fn shown(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(SHOWN_SIZE_MAX)]
        .escape_ascii()
        .to_string()
}

fn arguments_shown(arguments: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for argument in arguments {
        if text.len() >= SHOWN_SIZE_MAX {
            break;
        }
        text.push_str(&format!("'{}' ", shown(argument)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_as_redis_writes_them() {
        let unknown = CommandError::Unknown {
            name: b"foo\r\n".to_vec(),
            arguments: vec![b"a".to_vec(), vec![b'b'; 500]],
        };
        assert!(
            unknown
                .to_string()
                .starts_with(r"ERR unknown command 'foo\r\n', with args beginning with: 'a' 'bbb")
        );
        assert!(unknown.to_string().len() < 400, "an error repeats little");
        let option = CommandError::Option {
            command: "SET",
            option: b"IFNE".to_vec(),
        };
        assert_eq!(
            option.to_string(),
            "ERR SET option IFNE is not supported by this store"
        );
    }

    #[test]
    fn an_unknown_outcome_has_a_code_of_its_own() {
        let code = |error: StoreError| {
            CommandError::from(error)
                .to_string()
                .split(' ')
                .next()
                .unwrap()
                .to_owned()
        };
        assert_eq!(code(StoreError::NotPersisted), "UNKNOWN");
        assert_eq!(code(StoreError::Disconnected { unknown: true }), "UNKNOWN");
        assert_eq!(code(StoreError::Disconnected { unknown: false }), "ERR");
        assert_eq!(
            code(StoreError::NoSpace {
                live: 0,
                capacity: 0
            }),
            "OOM"
        );
        assert_eq!(code(StoreError::MediumFull), "OOM");
        assert_eq!(code(StoreError::Busy), "ERR");
        let shards = StoreError::BatchShards {
            keys: Box::new([b"a".to_vec(), b"b".to_vec()]),
        };
        assert_eq!(code(shards), "CROSSSLOT");
        assert!(CommandError::from(StoreError::MediumFull).is_want_of_room());
        assert!(!CommandError::from(StoreError::Busy).is_want_of_room());
    }
}
