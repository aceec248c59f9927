//! The failure of a command: the exit status, the words, and the facts for a program.
//!
//! People read the words on stderr. With `--json` a program finds them on stdout, as the last line: an object with
//! `error` (the name of the status), `status`, `message`, and the facts that the command knows.

use std::error::Error;
use std::fmt::{self, Display};
use std::io;

use serde::Serialize;
use serde_json::{Map, Value};
use stonecast::backup::BackupError;
use stonecast::structures::{AttachError, DetachError, MirrorError, PromoteError, StandingFault};
use stonecast::{Effect, ErrorKind};
use stonecast_base::Corruption;
use stonecast_cluster::DocumentError;
use stonecast_kv::{ClusterError, StoreError};
use stonecast_media::MediaError;

/// The exit status of a failed command. The numbers and names are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The command failed or was refused; nothing was done unless the message says otherwise.
    Failed = 1,
    /// Wrong usage: flags, environment or configuration file.
    Usage = 2,
    /// The key is absent.
    Absent = 3,
    /// No server answers, or the connection to the server ended.
    Unreachable = 4,
    /// Bytes on the medium or in memory are damaged.
    Corrupt = 5,
    /// The condition of a write did not hold; nothing was done.
    Conflict = 6,
    /// A write may or may not have been done.
    OutcomeUnknown = 7,
}

/// The failure of a command.
#[derive(Debug)]
pub enum Failure {
    /// The reader of the command's output is gone (`stonecast export | head`), which needs no message. Status 1.
    Silent,
    /// The message was already printed.
    Told(Box<Reason>),
    /// The message is yet to be printed.
    Because(Box<Reason>),
}

/// The reason of a failure.
#[derive(Debug, Serialize)]
pub struct Reason {
    error: Status,
    /// The number of `error`.
    status: u8,
    message: String,
    #[serde(flatten)]
    facts: Map<String, Value>,
}

impl Failure {
    /// A failure with this message.
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        Self::Because(Box::new(Reason {
            error: status,
            status: status as u8,
            message: message.into(),
            facts: Map::new(),
        }))
    }

    /// A failure of wrong usage.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Status::Usage, message)
    }

    /// An operation that failed.
    pub fn operation(message: impl Into<String>) -> Self {
        Self::new(Status::Failed, message)
    }

    /// This failure, marked as printed.
    pub fn told(self) -> Self {
        match self {
            Self::Because(reason) => Self::Told(reason),
            other => other,
        }
    }

    /// This failure with a fact for programs.
    pub fn with(mut self, name: &str, fact: impl Serialize) -> Self {
        if let (Some(reason), Ok(fact)) = (self.reason_mut(), serde_json::to_value(fact)) {
            reason.facts.insert(name.to_owned(), fact);
        }
        self
    }

    /// The failure to report work that was done. The message says `done`, and that the report could not be printed
    /// because of this failure. Status 1.
    pub fn after(self, done: impl Display) -> Self {
        let reason = match self {
            Self::Silent => "its reader is gone".to_owned(),
            Self::Told(reason) | Self::Because(reason) => reason.message,
        };
        Self::operation(format!(
            "{done}, but the report of it could not be printed: {reason}"
        ))
    }

    /// The exit status of the process.
    pub fn status(&self) -> u8 {
        self.reason()
            .map_or(Status::Failed as u8, |reason| reason.status)
    }

    /// The reason, for a program; `None` if there is no reader.
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Silent => None,
            Self::Told(reason) | Self::Because(reason) => Some(reason),
        }
    }

    fn reason_mut(&mut self) -> Option<&mut Reason> {
        match self {
            Self::Silent => None,
            Self::Told(reason) | Self::Because(reason) => Some(reason),
        }
    }
}

impl Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.reason().map_or("", |reason| &reason.message))
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        let of_json = || error.downcast_ref::<serde_json::Error>()?.io_error_kind();
        let input_output = error.downcast_ref::<io::Error>().map(io::Error::kind);
        let input_output = input_output.or_else(of_json);
        if input_output == Some(io::ErrorKind::BrokenPipe) {
            return Self::Silent;
        }
        let status = error.chain().find_map(status_of);
        Self::new(status.unwrap_or(Status::Failed), words_of(&error))
    }
}

/// The exit status of an error, if the error determines one.
fn status_of(error: &(dyn Error + 'static)) -> Option<Status> {
    if error.is::<Corruption>() {
        return Some(Status::Corrupt);
    }
    if let Some(error) = error.downcast_ref::<MediaError>() {
        return of_medium(error);
    }
    if let Some(error) = error.downcast_ref::<stonecast::Error>() {
        return of_library(error);
    }
    if let Some(BackupError::Store(error)) = error.downcast_ref() {
        return of_library(error);
    }
    error.downcast_ref::<StoreError>().and_then(of_store)
}

fn of_library(error: &stonecast::Error) -> Option<Status> {
    if matches!(error.effect(), Effect::Unknown { .. }) {
        return Some(Status::OutcomeUnknown);
    }
    match error.kind() {
        ErrorKind::Address(_) => Some(Status::Usage),
        ErrorKind::Unreachable { .. }
        | ErrorKind::Unanswered { .. }
        | ErrorKind::TimedOut { .. }
        | ErrorKind::Closed => Some(Status::Unreachable),
        ErrorKind::Mirror(error) => of_mirror(error),
        ErrorKind::Store(error) => of_store(error),
        ErrorKind::Cluster(error) => of_cluster(error),
        ErrorKind::Setup(_)
        | ErrorKind::ConfigStore(_)
        | ErrorKind::Node(_)
        | ErrorKind::Durability { .. }
        | ErrorKind::OtherSetting { .. }
        | ErrorKind::TooSmall { .. } => None,
    }
}

fn of_mirror(error: &MirrorError) -> Option<Status> {
    match error {
        MirrorError::Promote {
            reason: PromoteError::Connect(_),
            ..
        }
        | MirrorError::Attach {
            reason: AttachError::Connect(_),
            ..
        } => Some(Status::Unreachable),
        MirrorError::Record(error)
        | MirrorError::Attach {
            reason: AttachError::Record(error),
            ..
        }
        | MirrorError::Detach {
            reason: DetachError::Record(error),
            ..
        } => match error.fault {
            StandingFault::Store(_) => Some(Status::Unreachable),
            StandingFault::Damaged => Some(Status::Corrupt),
            _ => None,
        },
        _ => None,
    }
}

fn of_cluster(error: &ClusterError) -> Option<Status> {
    match error {
        ClusterError::NotServed { source, .. } => of_store(source).or(Some(Status::Unreachable)),
        ClusterError::Unanswered { .. } | ClusterError::Configuration(_) => {
            Some(Status::Unreachable)
        }
        ClusterError::Unreadable { source, .. } => match source {
            DocumentError::Newer { .. } | DocumentError::Older { .. } => None,
            _ => Some(Status::Corrupt),
        },
        _ => None,
    }
}

fn of_store(error: &StoreError) -> Option<Status> {
    match error {
        StoreError::Corrupt(_) => Some(Status::Corrupt),
        StoreError::Media(error) => of_medium(error),
        StoreError::Disconnected { .. } => Some(Status::Unreachable),
        StoreError::KeySize { .. }
        | StoreError::ValueSize { .. }
        | StoreError::NoSpace { .. }
        | StoreError::MediumFull
        | StoreError::Busy
        | StoreError::IndexFull
        | StoreError::SpaceFailed
        | StoreError::Invalid
        | StoreError::NotPrimary { .. }
        | StoreError::TooFewCopies { .. }
        | StoreError::EntrySize { .. }
        | StoreError::BatchKeys { .. }
        | StoreError::BatchNames { .. }
        | StoreError::BatchSize { .. }
        | StoreError::ChunksGone
        | StoreError::ChunkFailed { .. }
        | StoreError::NoBatch
        | StoreError::BatchShards { .. }
        | StoreError::NoHold { .. }
        | StoreError::HoldLost
        | StoreError::BaseBeyond { .. }
        | StoreError::NoClusterPool
        | StoreError::Node(_)
        | StoreError::Forgotten
        | StoreError::Publishers
        | StoreError::Publication { .. }
        | StoreError::CopyLost { .. }
        | StoreError::Ledger(_)
        | StoreError::Refused(_)
        | StoreError::Protocol { .. }
        | StoreError::NotPersisted
        | StoreError::NoPlan(_)
        | StoreError::Device(_) => None,
    }
}

fn of_medium(error: &MediaError) -> Option<Status> {
    let is_damage = matches!(
        error,
        MediaError::Corrupt(_) | MediaError::HeaderLost { .. }
    );
    is_damage.then_some(Status::Corrupt)
}

/// An error with its causes. Many errors name their cause themselves; each cause is printed only once.
fn words_of(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if words.is_empty() {
            words = cause;
        } else if !words.contains(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn each_cause_is_said_once() {
        let full = || io::Error::from_raw_os_error(28);
        let failure = Failure::from(MediaError::Io {
            doing: "creating",
            path: "/a".into(),
            source: full(),
        });
        assert_eq!(failure.to_string(), format!("creating /a: {}", full()));
        let failure = Failure::from(Err::<(), _>(full()).context("writing").unwrap_err());
        assert_eq!(failure.to_string(), format!("writing: {}", full()));
    }

    #[test]
    fn damage_has_the_status_of_damage_in_every_wrapping() {
        let damage = || Corruption {
            what: "a record".into(),
            file: "log".into(),
            offset: 0,
            found: "1".into(),
            expected: "2".into(),
        };
        for failure in [
            Failure::from(damage()),
            Failure::from(MediaError::from(damage())),
            Failure::from(StoreError::from(damage())),
            Failure::from(StoreError::from(MediaError::from(damage()))),
            Failure::from(stonecast::Error::from(MediaError::from(damage()))),
            Failure::from(Err::<(), _>(damage()).context("reading").unwrap_err()),
        ] {
            assert_eq!(failure.status(), 5, "{failure}");
        }
    }

    #[test]
    fn a_lost_connection_leaves_the_outcome_of_a_write_unknown_and_reads_unanswered() {
        let lost = |unknown| StoreError::Disconnected { unknown };
        let of_write = |error| Failure::from(stonecast::Error::of_write(error)).status();
        assert_eq!(of_write(lost(true)), 7);
        assert_eq!(of_write(lost(false)), 4);
        assert_eq!(of_write(StoreError::NotPersisted), 7);
        assert_eq!(of_write(StoreError::MediumFull), 1);
        assert_eq!(Failure::from(lost(true)).status(), 4);
    }

    #[test]
    fn programs_read_the_name_of_the_status_and_the_facts() {
        let failure = Failure::new(Status::OutcomeUnknown, "lost").with("line", 7);
        let printed = serde_json::to_value(failure.reason()).unwrap();
        let expected = serde_json::json!({
            "error": "outcome-unknown", "status": 7, "message": "lost", "line": 7
        });
        assert_eq!(printed, expected);
    }
}
