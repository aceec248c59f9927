//! Takes a directory for a new pool: checks that it holds nothing foreign, and restores it if the creation fails.
//!
//! A crash during a creation leaves the directory, a log without data, and perhaps the lock or half a header; the next
//! creation takes these over. Name and content decide whether a file is one of them: a `header.new` with other content
//! is foreign, and so is a `checkpoint` that is not empty, because no creation leaves one without a header.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};

use crate::MediaError;
use crate::directory::blobs::is_half_header;
use crate::directory::lock::is_text_of_lock;
use crate::directory::made::Made;
use crate::error::failed;

/// The files that a pool and its server make in a directory, in the order of their removal; sockets come in addition. A
/// crash between two removals leaves a whole pool without a checkpoint, or files that a creation takes over.
const OWN: [&str; 6] = [
    "checkpoint.new",
    "checkpoint",
    "header.new",
    "header",
    "log",
    "lock",
];
/// Names that the root of a new file system contains.
const OF_FILE_SYSTEM: &str = "lost+found";
/// The most foreign files that a refusal names.
const NAMED_MAX: usize = 5;

/// A directory taken for a new pool.
#[derive(Debug)]
pub(super) struct Claim {
    directory: PathBuf,
    /// Directories that did not exist before, the deepest first.
    made: Vec<PathBuf>,
}

impl Claim {
    /// Takes `directory`, and makes the directory and its parents where they are missing.
    pub fn new(directory: &Path) -> Result<Self, MediaError> {
        let is_missing =
            |place: &&Path| !place.as_os_str().is_empty() && !place.try_exists().unwrap_or(true);
        let made = directory.ancestors().take_while(is_missing);
        let made: Vec<PathBuf> = made.map(Path::to_owned).collect();
        if made.is_empty() {
            refuse_foreign(directory)?;
        }
        let claim = Self {
            directory: directory.to_owned(),
            made,
        };
        let mut builder = DirBuilder::new();
        let created = builder.recursive(true).mode(0o700).create(directory);
        if created.is_err() {
            claim.remove_made();
        }
        created.map_err(failed("creating directory", directory))?;
        Ok(claim)
    }

    /// Makes the name of the directory durable, and the names of all directories that were made above it. A power cut
    /// that takes a directory's name takes its synced files too. `sync` makes the names in a directory durable.
    pub fn make_names_durable(
        &self,
        sync: &mut dyn FnMut(&Path) -> Result<(), MediaError>,
    ) -> Result<(), MediaError> {
        if self.made.is_empty() {
            // The maker of the directory may have been killed before the name was durable. The parent may be unreadable
            // for this user.
            let _best_effort = sync(parent_of(&self.directory));
        }
        self.made.iter().try_for_each(|made| sync(parent_of(made)))
    }

    /// Removes the files and directories that were made, and nothing else. Meant for a pool that has served no client.
    pub fn give_back(&self, made: &Made) {
        for name in OWN {
            made.remove(&self.directory.join(name));
        }
        self.remove_made();
    }

    /// Removes the directories that were made, unless they hold files.
    pub fn remove_made(&self) {
        for directory in &self.made {
            // A directory that is not empty is in use, so it stays.
            let _best_effort = std::fs::remove_dir(directory);
        }
    }
}

/// The parent of a directory.
fn parent_of(directory: &Path) -> &Path {
    match directory.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => directory,
    }
}

fn refuse_foreign(directory: &Path) -> Result<(), MediaError> {
    let mut foreign = foreign_files(directory).map_err(failed("looking into", directory))?;
    if foreign.is_empty() {
        return Ok(());
    }
    foreign.sort();
    let more = foreign.len().saturating_sub(NAMED_MAX);
    foreign.truncate(NAMED_MAX);
    let mut names = foreign.join(", ");
    if more > 0 {
        names += &format!(" and {more} more");
    }
    Err(MediaError::Foreign {
        path: directory.to_owned(),
        names,
    })
}

fn foreign_files(directory: &Path) -> io::Result<Vec<String>> {
    let mut foreign = Vec::new();
    let is_pool = directory.join("header").try_exists()?;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_own = match entry.file_type()? {
            // A killed server leaves its socket.
            kind if kind.is_socket() => true,
            kind if kind.is_file() => {
                OWN.contains(&name.as_str()) && (is_pool || is_leftover(&name, &entry.path())?)
            }
            kind => kind.is_dir() && name == OF_FILE_SYSTEM,
        };
        if !is_own {
            foreign.push(name);
        }
    }
    Ok(foreign)
}

/// Whether an interrupted creation may have left this pool file. (A `log` must have no data as well.)
fn is_leftover(name: &str, path: &Path) -> io::Result<bool> {
    match name {
        "header.new" => is_half_header(&File::open(path)?),
        "lock" => is_text_of_lock(&File::open(path)?),
        "checkpoint" | "checkpoint.new" => Ok(path.metadata()?.len() == 0),
        _ => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_files_are_named_and_nothing_is_made() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..8 {
            std::fs::write(folder.path().join(format!("letter-{number}")), "dear").unwrap();
        }
        let refused = Claim::new(folder.path()).unwrap_err().to_string();
        assert!(
            refused.contains("letter-0, letter-1") && refused.contains("and 3 more"),
            "{refused}"
        );
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 8);
    }

    #[test]
    fn leftovers_of_an_interrupted_creation_or_of_a_file_system_are_not_foreign() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["log", "lock", "header.new", "checkpoint.new"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join(OF_FILE_SYSTEM)).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        drop(socket);
        assert!(Claim::new(folder.path()).is_ok());
    }

    /// Needs the comparison of the content: a foreign file may have the name of a pool file.
    #[test]
    fn a_file_with_the_name_of_a_pool_file_and_foreign_content_is_foreign() {
        for name in ["header.new", "checkpoint", "checkpoint.new", "lock"] {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join(name), "precious").unwrap();
            let refused = Claim::new(folder.path()).unwrap_err().to_string();
            assert!(
                refused.contains(&format!("other files: {name};")),
                "{refused}"
            );
            // Beside a header the file belongs to a pool, which the caller finds.
            std::fs::write(folder.path().join("header"), "any").unwrap();
            assert!(Claim::new(folder.path()).is_ok());
        }
    }

    #[test]
    fn a_claim_that_is_given_back_leaves_earlier_files_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b/pool");
        let made = Made::default();
        let claim = Claim::new(&deep).unwrap();
        for name in OWN {
            let file = File::create(deep.join(name)).unwrap();
            made.note(&deep.join(name), &file).unwrap();
        }
        claim.give_back(&made);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

        let mine = folder.path().join("mine");
        std::fs::create_dir(&mine).unwrap();
        let claim = Claim::new(&mine).unwrap();
        for name in OWN {
            std::fs::write(mine.join(name), "of another user").unwrap();
        }
        claim.give_back(&Made::default());
        let left = std::fs::read_dir(&mine).unwrap().count();
        assert_eq!(left, OWN.len(), "the files were there before");
    }
}
