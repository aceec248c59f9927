//! The file `lock` of a pool: who serves it, and whether a sync failed since the machine started.
//!
//! ```text
//!   4711\n                                            process number, for people
//!   sync failed 5f0c5e5e-...-...\n                    only after a failed sync: the power cycle in which it failed
//! ```
//!
//! Who serves holds an `flock` of this file and one of the file `log`. They end with the process, however it ends. Nobody lets a
//! second server in by removing a file that looks left behind: without `log` there is no pool. (Locks of open file descriptions,
//! of which clients hold some on `log`, are of another kind, and the description that is locked here is nobody else's.) The text is
//! never synced: the second line matters only as long as the page cache that it warns of, and both end with the power cycle.

use std::cell::OnceCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock, major, minor};
use rustix::io::Errno;
use uuid::Uuid;

use crate::MediaError;
use crate::error::failed;

const SYNC_FAILED: &str = "sync failed ";

/// The lock, held until dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    /// The file `log`, from when there is one.
    log: OnceCell<File>,
}

impl Lock {
    /// Takes the lock of the pool in the folder `pool`.
    pub fn acquire(pool: &Path) -> Result<Self, MediaError> {
        let path = file_of(pool);
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600);
        // The one that is always there first: who finds it held leaves no new file behind.
        let log = Self::of_log(pool)?;
        let file = options.open(&path).map_err(failed("opening", &path))?;
        lock_for(pool, &path, &file)?;
        let lock = Self {
            file,
            log: log.map_or_else(OnceCell::new, OnceCell::from),
        };
        // The number is for people; a full disk is no reason to refuse reads.
        let _for_people = lock.write(lock.sync_failed_in());
        Ok(lock)
    }

    /// Locks the file `log`, which was made since.
    pub fn hold_log(&self, pool: &Path) -> Result<(), MediaError> {
        if self.log.get().is_none()
            && let Some(log) = Self::of_log(pool)?
        {
            self.log.set(log).expect("there was none");
        }
        Ok(())
    }

    fn of_log(pool: &Path) -> Result<Option<File>, MediaError> {
        let path = log_of(pool);
        // Whatever stands there, opening it must not wait.
        match OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path)
        {
            Ok(log) => lock_for(pool, &path, &log).map(|()| Some(log)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("opening", &path)(error)),
        }
    }

    /// The power cycle in which a sync failed last, and was not made good since.
    pub fn sync_failed_in(&self) -> Option<u128> {
        let text = text_of(&self.file);
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(SYNC_FAILED))?;
        line.trim().parse::<Uuid>().ok().map(|uuid| uuid.as_u128())
    }

    /// Notes that everything was made good.
    pub fn forget_sync_failure(&self) -> io::Result<()> {
        self.write(None)
    }

    /// For whoever syncs the log, in any thread, and meets a failure.
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

/// Where it is noted that a sync failed.
#[derive(Debug)]
pub(super) struct SyncNote {
    file: File,
    power_cycle: u128,
}

impl SyncNote {
    /// Notes that a sync failed in this power cycle.
    pub fn sync_failed(&self) {
        // Overwrites bytes that the file has already. Where even that fails, the file system has gone read-only, and no
        // next run will get as far as to need the note.
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

/// Where the text of the lock of a pool is.
pub(super) fn file_of(pool: &Path) -> PathBuf {
    pool.join("lock")
}

fn log_of(pool: &Path) -> PathBuf {
    pool.join("log")
}

fn lock_for(pool: &Path, path: &Path, file: &File) -> Result<(), MediaError> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => {
            let pid = holder(pool).or_else(|| noted_process(&file_of(pool)));
            Err(MediaError::InUse {
                path: pool.to_owned(),
                pid,
            })
        }
        Err(error) => Err(failed("locking", path)(error)),
    }
}

/// The process that serves the pool in this folder, without touching its lock.
///
/// Asks the kernel's own list of locks. The noted number alone proves nothing: it outlives its process.
pub(super) fn holder(pool: &Path) -> Option<u32> {
    let noted = noted_process(&file_of(pool));
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    [log_of(pool), file_of(pool)]
        .into_iter()
        .find_map(|locked| {
            let status = std::fs::metadata(locked).ok()?;
            let device = (major(status.dev()), minor(status.dev()));
            let mut holders = locks
                .lines()
                .filter_map(|line| flock_holder(line, status.ino()));
            // Files of two file systems may have one inode number. Some file systems (btrfs) show other device numbers in the
            // list than in the status of a file; there the noted process decides.
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
/// `1: FLOCK  ADVISORY  WRITE 4711 fd:01:131074 0 EOF` (proc(5)). A waiter has `->` behind the number.
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

/// The text, of which only the first kilobyte can be ours.
fn text_of(file: &File) -> String {
    let mut bytes = [0; 1024];
    let size = file.read_at(&mut bytes, 0).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..size]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_to_come_is_told_who_has_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let pool = directory.path();
        assert_eq!(holder(pool), None);
        let lock = Lock::acquire(pool).unwrap();
        assert_eq!(holder(pool), Some(std::process::id()));
        let refused = Lock::acquire(pool).unwrap_err();
        assert!(
            matches!(refused, MediaError::InUse { pid: Some(pid), .. } if pid == std::process::id())
        );

        drop(lock);
        assert_eq!(holder(pool), None, "the text alone is no holder");
        assert!(Lock::acquire(pool).is_ok());
    }

    /// Needs the lock of `log`, also of one that was made since: without it two servers write one pool.
    #[test]
    fn who_removes_the_file_does_not_unlock_the_pool() {
        for is_new in [true, false] {
            let directory = tempfile::tempdir().unwrap();
            who_removes_the_file(directory.path(), is_new);
        }
    }

    fn who_removes_the_file(pool: &Path, is_new: bool) {
        let make_log = || std::fs::write(log_of(pool), "").unwrap();
        if !is_new {
            make_log();
        }
        let lock = Lock::acquire(pool).unwrap();
        if is_new {
            make_log();
        }
        lock.hold_log(pool).unwrap();
        std::fs::remove_file(file_of(pool)).unwrap();
        let refused = Lock::acquire(pool).unwrap_err();
        assert!(
            matches!(refused, MediaError::InUse { pid: Some(pid), .. } if pid == std::process::id())
        );
        assert_eq!(holder(pool), Some(std::process::id()));
        assert!(!file_of(pool).exists(), "nor does it look as if");
        drop(lock);
        assert!(Lock::acquire(pool).is_ok());
    }

    /// Needs the lock of the file: servers of earlier versions hold no other.
    #[test]
    fn who_holds_the_file_alone_has_the_pool() {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(file_of(directory.path())).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let refused = Lock::acquire(directory.path()).unwrap_err();
        assert!(
            matches!(refused, MediaError::InUse { pid: Some(pid), .. } if pid == std::process::id())
        );
    }

    #[test]
    fn a_failed_sync_is_remembered_over_processes_until_it_is_made_good() {
        let directory = tempfile::tempdir().unwrap();
        let pool = directory.path();
        let lock = Lock::acquire(pool).unwrap();
        assert_eq!(lock.sync_failed_in(), None);
        lock.note(77).unwrap().sync_failed();
        drop(lock);

        let lock = Lock::acquire(pool).unwrap();
        assert_eq!(lock.sync_failed_in(), Some(77));
        lock.forget_sync_failure().unwrap();
        drop(lock);
        assert_eq!(Lock::acquire(pool).unwrap().sync_failed_in(), None);
    }

    #[test]
    fn a_foreign_text_says_nothing() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(file_of(directory.path()), [0xff; 5000]).unwrap();
        assert_eq!(
            Lock::acquire(directory.path()).unwrap().sync_failed_in(),
            None
        );
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
