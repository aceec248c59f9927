//! The file `lock` of a pool: the serving process, and whether a sync has failed since the machine started.
//!
//! ```text
//!   4711\n                                            process number, for people
//!   sync failed 5f0c5e5e-...-...\n                    only after a failed sync: the power cycle in which it failed
//! ```
//!
//! A server holds an `flock` of this file and one of the file `log`. Both end with the process, however the process
//! ends. The removal of a lock file that looks abandoned lets no second server in: without `log` there is no pool.
//! (Clients hold locks of open file descriptions on `log`, which are of another kind; the description that is locked
//! here is never shared.) The text is never synced: its second line matters only as long as the page cache that it
//! warns of, and both end with the power cycle.

use std::cell::OnceCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock, major, minor};
use rustix::io::Errno;
use uuid::Uuid;

use crate::MediaError;
use crate::directory::made::Made;
use crate::error::failed;

const SYNC_FAILED: &str = "sync failed ";
/// Bytes of the longest text.
const TEXT_SIZE_MAX: usize = 1024;
/// The most servers that may give up a pool while this server locks the pool.
const TRIES_MAX: u32 = 16;

/// The lock, held until dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    /// The file `log`, once it exists.
    log: OnceCell<File>,
}

impl Lock {
    /// Takes the lock of the pool in the folder `pool`, and notes the file in `made` if it is new.
    pub fn acquire(pool: &Path, made: &Made) -> Result<Self, MediaError> {
        let path = file_of(pool);
        // The file that always exists comes first: a server that finds it locked leaves no new file behind.
        let log = Self::of_log(pool)?;
        let file = lock_at(pool, &path, || open_or_create(&path, made))?;
        let lock = Self {
            file,
            log: log.map_or_else(OnceCell::new, OnceCell::from),
        };
        // Another server may have made the pool and ended between the two steps.
        lock.hold_log(pool)?;
        // The number is for people; a full disk is no reason to refuse to serve reads.
        let _for_people = lock.write(lock.sync_failed_in());
        Ok(lock)
    }

    /// Locks the file `log`, which was made after the lock was taken.
    pub fn hold_log(&self, pool: &Path) -> Result<(), MediaError> {
        if self.log.get().is_none()
            && let Some(log) = Self::of_log(pool)?
        {
            self.log.set(log).expect("the log was not locked before");
        }
        Ok(())
    }

    fn of_log(pool: &Path) -> Result<Option<File>, MediaError> {
        let path = log_of(pool);
        let open = || {
            // Opening must not block, whatever kind of file this is.
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(libc::O_NONBLOCK);
            options.open(&path)
        };
        match lock_at(pool, &path, open) {
            Ok(log) => Ok(Some(log)),
            Err(MediaError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The power cycle of the latest failed sync that was not made good.
    pub fn sync_failed_in(&self) -> Option<u128> {
        let text = text_of(&self.file);
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(SYNC_FAILED))?;
        line.trim().parse::<Uuid>().ok().map(|uuid| uuid.as_u128())
    }

    /// Notes that every failed sync was made good.
    pub fn forget_sync_failure(&self) -> io::Result<()> {
        self.write(None)
    }

    /// A note for code that syncs the log, on any thread.
    pub fn note(&self, power_cycle: u128) -> io::Result<SyncNote> {
        Ok(SyncNote {
            file: self.file.try_clone()?,
            power_cycle,
        })
    }

    fn write(&self, sync_failed_in: Option<u128>) -> io::Result<()> {
        write_text(&self.file, sync_failed_in)
    }
}

/// Notes failed syncs.
#[derive(Debug)]
pub(super) struct SyncNote {
    file: File,
    power_cycle: u128,
}

impl SyncNote {
    /// Notes that a sync failed in this power cycle.
    pub fn sync_failed(&self) {
        // The note overwrites existing bytes of the file. If even this write fails, the file system has become
        // read-only, and the next run fails before it needs the note.
        let _best_effort = write_text(&self.file, Some(self.power_cycle));
    }
}

fn write_text(file: &File, sync_failed_in: Option<u128>) -> io::Result<()> {
    let mut text = format!("{}\n", std::process::id());
    if let Some(power_cycle) = sync_failed_in {
        text += &format!("{SYNC_FAILED}{}\n", Uuid::from_u128(power_cycle));
    }
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

/// The file with the text of a pool's lock.
pub(super) fn file_of(pool: &Path) -> PathBuf {
    pool.join("lock")
}

fn log_of(pool: &Path) -> PathBuf {
    pool.join("log")
}

/// Whether these are the bytes of a lock file: none, or the text of [`write_text`], cut off anywhere.
pub(super) fn is_text_of_lock(file: &File) -> io::Result<bool> {
    let text = text_of(file);
    let mut lines = text.lines();
    let is_number = |line: &str| line.bytes().all(|byte| byte.is_ascii_digit());
    let is_note = |line: &str| {
        let both = line.len().min(SYNC_FAILED.len());
        line.as_bytes()[..both] == SYNC_FAILED.as_bytes()[..both]
    };
    let is_text = lines.next().is_none_or(is_number)
        && lines.next().is_none_or(is_note)
        && lines.next().is_none();
    Ok(is_text && file.metadata()?.len() <= TEXT_SIZE_MAX as u64)
}

/// The file `lock`, made if it is missing.
fn open_or_create(path: &Path, made: &Made) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let file = options.create_new(true).mode(0o600).open(path)?;
            made.note(path, &file)?;
            Ok(file)
        }
        opened => opened,
    }
}

/// Opens and locks the file at `path`. A server that gives up a pool that it made removes the files that it has locked.
/// A server that opened such a file before the removal and locked it afterwards has locked a file without a name, and
/// tries again.
fn lock_at(
    pool: &Path,
    path: &Path,
    open: impl Fn() -> io::Result<File>,
) -> Result<File, MediaError> {
    for _ in 0..TRIES_MAX {
        let file = match open() {
            // Another server is just making the file.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            opened => opened.map_err(failed("opening", path))?,
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if is_at(&file, path).map_err(failed("looking at", path))? => return Ok(file),
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => break,
            Err(error) => return Err(failed("locking", path)(error)),
        }
    }
    let pid = holder(pool).or_else(|| noted_process(&file_of(pool)));
    Err(MediaError::InUse {
        path: pool.to_owned(),
        pid,
    })
}

/// Whether `path` names `file`.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let found = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found?,
    };
    let locked = file.metadata()?;
    Ok((locked.dev(), locked.ino()) == (found.dev(), found.ino()))
}

/// The process that serves the pool in this folder. Does not touch the lock.
///
/// Reads the kernel's own list of locks. The noted number alone proves nothing, because the note outlives its process.
pub(super) fn holder(pool: &Path) -> Option<u32> {
    /// The kernel gives the list in parts, and leaves locks out if others end between two parts.
    const READINGS: usize = 4;
    let noted = noted_process(&file_of(pool));
    let mut lists = (0..READINGS).map_while(|_| std::fs::read_to_string("/proc/locks").ok());
    lists.find_map(|locks| holder_in(&locks, pool, noted))
}

fn holder_in(locks: &str, pool: &Path, noted: Option<u32>) -> Option<u32> {
    [log_of(pool), file_of(pool)]
        .into_iter()
        .find_map(|locked| {
            let status = std::fs::metadata(locked).ok()?;
            let device = (major(status.dev()), minor(status.dev()));
            let mut holders = locks
                .lines()
                .filter_map(|line| flock_holder(line, status.ino()));
            // Files of two file systems may have the same inode number. Some file systems (btrfs) show other device
            // numbers in the list than in the status of a file; there the noted process decides.
            holders
                .find(|holder| holder.device == device || Some(holder.pid) == noted)
                .map(|holder| holder.pid)
        })
}

fn noted_process(path: &Path) -> Option<u32> {
    text_of(&File::open(path).ok()?)
        .lines()
        .next()?
        .trim()
        .parse()
        .ok()
}

/// A line of the kernel's list.
#[derive(Debug, PartialEq, Eq)]
struct Holder {
    pid: u32,
    device: (u32, u32),
}

/// The holder that a line of `/proc/locks` names, if it holds an exclusive `flock` of a file with number `inode`:
/// `1: FLOCK  ADVISORY  WRITE 4711 fd:01:131074 0 EOF` (proc(5)). A waiter has `->` after the number.
fn flock_holder(line: &str, inode: u64) -> Option<Holder> {
    let mut words = line.split_whitespace().skip(1);
    let (kind, _advisory, access) = (words.next()?, words.next()?, words.next()?);
    let pid = words.next()?.parse().ok()?;
    let mut file = words.next()?.split(':');
    let device = (
        u32::from_str_radix(file.next()?, 16).ok()?,
        u32::from_str_radix(file.next()?, 16).ok()?,
    );
    let found: u64 = file.next()?.parse().ok()?;
    (kind == "FLOCK" && access == "WRITE" && found == inode).then_some(Holder { pid, device })
}

/// The text, read as far as a lock's text can reach.
fn text_of(file: &File) -> String {
    let mut bytes = [0; TEXT_SIZE_MAX];
    let size = file.read_at(&mut bytes, 0).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..size]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acquire(pool: &Path) -> Result<Lock, MediaError> {
        Lock::acquire(pool, &Made::default())
    }

    #[test]
    fn a_second_server_is_told_which_process_has_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let pool = directory.path();
        assert_eq!(holder(pool), None);
        let lock = acquire(pool).unwrap();
        assert_eq!(holder(pool), Some(std::process::id()));
        let refused = acquire(pool).unwrap_err();
        assert!(
            matches!(refused, MediaError::InUse { pid: Some(pid), .. } if pid == std::process::id())
        );

        drop(lock);
        assert_eq!(holder(pool), None, "the text alone does not prove a holder");
        assert!(acquire(pool).is_ok());
    }

    /// Needs the lock of `log`, also of a new log: without it two servers write one pool.
    #[test]
    fn removing_the_lock_file_does_not_unlock_the_pool() {
        for is_new in [true, false] {
            let directory = tempfile::tempdir().unwrap();
            assert_removal_does_not_unlock(directory.path(), is_new);
        }
    }

    fn assert_removal_does_not_unlock(pool: &Path, is_new: bool) {
        let make_log = || std::fs::write(log_of(pool), "").unwrap();
        if !is_new {
            make_log();
        }
        let lock = acquire(pool).unwrap();
        if is_new {
            make_log();
        }
        lock.hold_log(pool).unwrap();
        std::fs::remove_file(file_of(pool)).unwrap();
        let refused = acquire(pool).unwrap_err();
        assert!(
            matches!(refused, MediaError::InUse { pid: Some(pid), .. } if pid == std::process::id())
        );
        assert_eq!(holder(pool), Some(std::process::id()));
        assert!(
            !file_of(pool).exists(),
            "the refused server left no lock file"
        );
        drop(lock);
        assert!(acquire(pool).is_ok());
    }

    /// Needs the comparison after the lock: without it two servers hold locks of one pool, one of them on a removed
    /// file.
    #[test]
    fn a_file_that_was_removed_before_it_was_locked_does_not_count_as_a_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = file_of(directory.path());
        let opened = std::cell::Cell::new(0);
        let open = || {
            let file = open_or_create(&path, &Made::default())?;
            if opened.replace(opened.get() + 1) == 0 {
                std::fs::remove_file(&path)?;
            }
            Ok(file)
        };
        let locked = lock_at(directory.path(), &path, open).unwrap();
        assert!(is_at(&locked, &path).unwrap() && opened.get() == 2);
        assert!(matches!(
            acquire(directory.path()),
            Err(MediaError::InUse { .. })
        ));
    }

    #[test]
    fn a_lock_file_is_recognized_by_its_text() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let id = Uuid::from_u128(7);
        for (text, is_one) in [
            (String::new(), true),
            ("4711\n".into(), true),
            (format!("4711\nsync failed {id}\n"), true),
            ("4711\nsync f".into(), true),
            ("yarn".into(), false),
            ("4711\nother".into(), false),
            ("4711\nsync failed\nmore\n".into(), false),
        ] {
            std::fs::write(&path, &text).unwrap();
            let file = File::open(&path).unwrap();
            assert_eq!(is_text_of_lock(&file).unwrap(), is_one, "{text:?}");
        }
    }

    /// Needs the lock of the file: servers of earlier versions hold no other lock.
    #[test]
    fn a_lock_of_the_file_alone_protects_the_pool() {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(file_of(directory.path())).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let refused = acquire(directory.path()).unwrap_err();
        assert!(
            matches!(refused, MediaError::InUse { pid: Some(pid), .. } if pid == std::process::id())
        );
    }

    #[test]
    fn a_failed_sync_is_remembered_across_processes_until_it_is_made_good() {
        let directory = tempfile::tempdir().unwrap();
        let pool = directory.path();
        let lock = acquire(pool).unwrap();
        assert_eq!(lock.sync_failed_in(), None);
        lock.note(77).unwrap().sync_failed();
        drop(lock);

        let lock = acquire(pool).unwrap();
        assert_eq!(lock.sync_failed_in(), Some(77));
        lock.forget_sync_failure().unwrap();
        drop(lock);
        assert_eq!(acquire(pool).unwrap().sync_failed_in(), None);
    }

    #[test]
    fn a_foreign_text_reports_no_failed_sync() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(file_of(directory.path()), [0xff; 5000]).unwrap();
        assert_eq!(acquire(directory.path()).unwrap().sync_failed_in(), None);
    }

    #[test]
    fn only_holders_of_this_lock_are_found_in_the_list_of_locks() {
        let line = "3: FLOCK  ADVISORY  WRITE 4711 fd:01:131074 0 EOF";
        assert_eq!(
            flock_holder(line, 131_074),
            Some(Holder {
                pid: 4711,
                device: (0xfd, 1)
            })
        );
        assert_eq!(flock_holder(line, 131_075), None);
        assert_eq!(
            flock_holder(
                "3: -> FLOCK  ADVISORY  WRITE 4711 fd:01:131074 0 EOF",
                131_074
            ),
            None
        );
        assert_eq!(
            flock_holder("3: POSIX  ADVISORY  WRITE 4711 fd:01:131074 0 EOF", 131_074),
            None
        );
        assert_eq!(flock_holder("", 1), None);
    }
}
