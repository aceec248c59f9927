//! Determines the outcome of a `link` whose answer may be wrong.
//!
//! A network file system may execute a `link` and lose the answer. The file system then repeats the request and learns
//! that the name exists, or gives up with some error. The link count of the writer's own file decides: the file has two
//! names, or one.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Gives the file at the first path the second path as a further name.
pub type Link = fn(&Path, &Path) -> io::Result<()>;

/// The outcome of a `link`.
#[derive(Debug)]
pub enum Linked {
    /// The name belongs to this writer.
    Done,
    /// The name belongs to another writer.
    Taken,
    /// The outcome is unknown, with the reason for people.
    Unknown(String),
}

/// Errors of a `link` that was not done, and will not be done.
const REFUSALS: [ErrorKind; 8] = [
    ErrorKind::NotFound,
    ErrorKind::PermissionDenied,
    ErrorKind::ReadOnlyFilesystem,
    ErrorKind::StorageFull,
    ErrorKind::QuotaExceeded,
    ErrorKind::TooManyLinks,
    ErrorKind::CrossesDevices,
    ErrorKind::Unsupported,
];

/// Judges the `answer` to linking the file `own`, which has no other name, to `name`. Returns the error if nothing was
/// done.
pub fn judge(answer: io::Result<()>, own: &Path, name: &Path) -> io::Result<Linked> {
    let Err(error) = answer else {
        return Ok(Linked::Done);
    };
    let unknown = |reason: &str| {
        let (error, name) = (&error, name.display());
        Ok(Linked::Unknown(format!(
            "linking {name}: {error}; {reason}"
        )))
    };
    match (error.kind(), status_of(own), fs::metadata(name)) {
        (_, Ok(own), _) if own.nlink() > 1 => Ok(Linked::Done),
        (ErrorKind::AlreadyExists, Ok(_), Ok(named)) if named.len() > 0 => Ok(Linked::Taken),
        // A repeated request may be refused for any reason after the first one was done.
        (_, Ok(_), Ok(named)) if named.len() == 0 => {
            unknown("the name has been superseded since, so its writer is unknown")
        }
        (_, Err(_), Ok(_)) => {
            unknown("the file of this request is gone, so the writer of the name is unknown")
        }
        (kind, _, _) if REFUSALS.contains(&kind) => Err(error),
        _ => unknown("it may have been done, or may be done later"),
    }
}

/// The status of the writer's file. The file is opened first: a network file system then asks its server instead of
/// answering from memory.
fn status_of(own: &Path) -> io::Result<Metadata> {
    File::open(own)?.metadata()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use tempfile::TempDir;

    use super::*;

    /// A folder with a writer's file that is not linked yet.
    fn folder() -> (TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (own, name) = (folder.path().join("own"), folder.path().join("name"));
        fs::write(&own, "value").unwrap();
        (folder, own, name)
    }

    fn failed(kind: ErrorKind) -> io::Result<()> {
        Err(kind.into())
    }

    #[test]
    fn a_link_that_was_done_is_done_whatever_was_answered() {
        for kind in [
            ErrorKind::AlreadyExists,
            ErrorKind::TimedOut,
            ErrorKind::PermissionDenied,
        ] {
            let (_folder, own, name) = folder();
            fs::hard_link(&own, &name).unwrap();
            let judged = judge(failed(kind), &own, &name);
            assert!(matches!(judged, Ok(Linked::Done)), "{kind}: {judged:?}");
        }
    }

    #[test]
    fn a_name_with_the_value_of_another_writer_is_taken() {
        let (_folder, own, name) = folder();
        fs::write(&name, "value").unwrap();
        let judged = judge(fs::hard_link(&own, &name), &own, &name);
        assert!(matches!(judged, Ok(Linked::Taken)), "{judged:?}");
    }

    /// The writer's file has one name again after its revision was superseded, as if it had never been linked.
    #[test]
    fn a_superseded_name_may_have_been_this_writers_whatever_the_retry_was_answered() {
        for kind in [
            ErrorKind::AlreadyExists,
            ErrorKind::StorageFull,
            ErrorKind::PermissionDenied,
            ErrorKind::TimedOut,
        ] {
            let (folder, own, name) = folder();
            fs::hard_link(&own, &name).unwrap();
            let empty = folder.path().join("empty");
            fs::write(&empty, "").unwrap();
            fs::rename(&empty, &name).unwrap();
            let judged = judge(failed(kind), &own, &name);
            let Ok(Linked::Unknown(reason)) = judged else {
                panic!("{kind}: the outcome is unknown: {judged:?}");
            };
            assert!(reason.contains("superseded"), "{kind}: {reason}");
        }
    }

    /// Another writer takes the writer for dead after an hour, and removes the file that would tell.
    #[test]
    fn a_name_may_be_this_writers_if_the_own_file_is_gone() {
        let (_folder, own, name) = folder();
        fs::hard_link(&own, &name).unwrap();
        fs::remove_file(&own).unwrap();
        let judged = judge(failed(ErrorKind::NotFound), &own, &name);
        let Ok(Linked::Unknown(reason)) = judged else {
            panic!("the outcome is unknown: {judged:?}");
        };
        assert!(
            reason.contains("the file of this request is gone"),
            "{reason}"
        );
    }

    #[test]
    fn a_refusal_beside_the_value_of_another_writer_stays_a_refusal() {
        let (_folder, own, name) = folder();
        fs::write(&name, "value").unwrap();
        let refused = judge(failed(ErrorKind::StorageFull), &own, &name);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::StorageFull);
    }

    #[test]
    fn a_refusal_was_not_done_and_any_other_failure_may_have_been() {
        let (_folder, own, name) = folder();
        let refused = judge(failed(ErrorKind::StorageFull), &own, &name);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::StorageFull);
        let judged = judge(failed(ErrorKind::TimedOut), &own, &name);
        assert!(matches!(judged, Ok(Linked::Unknown(_))), "{judged:?}");
        // A writer that was stopped for an hour finds its file removed.
        fs::remove_file(&own).unwrap();
        let refused = judge(fs::hard_link(&own, &name), &own, &name);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotFound);
    }
}
