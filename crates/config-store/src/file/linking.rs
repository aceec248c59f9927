//! What became of a `link`, where the answer may be wrong.
//!
//! A file system of a network may do it and lose the answer. It asks again then, and is told that the name exists; or it
//! gives up, with whatever error. The writer's own file tells: it has two names, or one.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Gives the file at the first path the second one as a further name.
pub type Link = fn(&Path, &Path) -> io::Result<()>;

/// What became of a `link`.
#[derive(Debug)]
pub enum Linked {
    /// The name is this writer's.
    Done,
    /// The name is somebody else's.
    Taken,
    /// Nobody can tell, with the reason for people.
    Unknown(String),
}

/// Errors of a `link` that was not done, and will not be.
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

/// Judges the `answer` to linking the file `own`, which has no other name, to `name`. Its error where nothing was done.
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
        (ErrorKind::AlreadyExists, Ok(_), Ok(_)) => {
            unknown("it has been superseded since, so nobody can tell by whom it was written")
        }
        (kind, _, _) if REFUSALS.contains(&kind) => Err(error),
        _ => unknown("it may have been done, or may yet be"),
    }
}

/// The status of the writer's file. It is opened first: a file system of a network asks its server then, and does not answer from memory.
fn status_of(own: &Path) -> io::Result<Metadata> {
    File::open(own)?.metadata()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use tempfile::TempDir;

    use super::*;

    /// A folder in which a writer has its file, which is not linked yet.
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
    fn a_name_with_the_value_of_somebody_else_is_taken() {
        let (_folder, own, name) = folder();
        fs::write(&name, "value").unwrap();
        let judged = judge(fs::hard_link(&own, &name), &own, &name);
        assert!(matches!(judged, Ok(Linked::Taken)), "{judged:?}");
    }

    /// The writer's file has one name again when its revision was superseded, as if it had never been linked.
    #[test]
    fn a_name_that_was_superseded_since_may_have_been_this_writers() {
        let (folder, own, name) = folder();
        fs::hard_link(&own, &name).unwrap();
        let empty = folder.path().join("empty");
        fs::write(&empty, "").unwrap();
        fs::rename(&empty, &name).unwrap();
        let judged = judge(failed(ErrorKind::AlreadyExists), &own, &name);
        let Ok(Linked::Unknown(reason)) = judged else {
            panic!("nobody can tell: {judged:?}");
        };
        assert!(reason.contains("superseded"), "{reason}");
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
