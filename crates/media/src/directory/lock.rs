//! The file `lock` of a pool: who serves it, and whether a sync failed since the machine started.
//!
//! ```text
//!   4711\n                                            process number, for people
//!   sync failed 5f0c5e5e-...-...\n                    only after a failed sync: the power cycle in which it failed
//! ```
//!
//! The lock is an `flock` of the whole file, which ends with the process, however it ends. The text is never synced: the
//! second line matters only as long as the page cache that it warns of, and both end with the power cycle.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

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
}

impl Lock {
    /// Takes the lock at `path` for the pool `pool`.
    pub fn acquire(path: &Path, pool: &Path) -> Result<Self, MediaError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path).map_err(failed("opening", path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(MediaError::InUse { path: pool.to_owned(), pid: holder_of(&file).or_else(|| noted_process(&file)) });
            }
            Err(error) => return Err(failed("locking", path)(error)),
        }
        let lock = Self { file };
        // The number is for people; a full disk is no reason to refuse reads.
        let _for_people = lock.write(lock.sync_failed_in());
        Ok(lock)
    }

    /// The power cycle in which a sync failed last, and was not made good since.
    pub fn sync_failed_in(&self) -> Option<u128> {
        let text = text_of(&self.file);
        let line = text.lines().find_map(|line| line.strip_prefix(SYNC_FAILED))?;
        line.trim().parse::<Uuid>().ok().map(|uuid| uuid.as_u128())
    }

    /// Notes that a sync failed in `power_cycle`, or (`None`) that everything was made good.
    pub fn note_sync_failure(&self, power_cycle: Option<u128>) -> io::Result<()> {
        self.write(power_cycle)
    }

    fn write(&self, sync_failed_in: Option<u128>) -> io::Result<()> {
        let mut text = format!("{}\n", std::process::id());
        if let Some(power_cycle) = sync_failed_in {
            text += &format!("{SYNC_FAILED}{}\n", Uuid::from_u128(power_cycle));
        }
        self.file.write_all_at(text.as_bytes(), 0)?;
        self.file.set_len(text.len() as u64)
    }
}

/// The process that serves the pool whose lock is at `path`, without touching the lock.
pub(super) fn holder(path: &Path) -> Option<u32> {
    holder_of(&File::open(path).ok()?)
}

/// Asks the kernel's own list of locks. The noted number alone proves nothing: it outlives its process.
fn holder_of(file: &File) -> Option<u32> {
    let status = file.metadata().ok()?;
    let noted = noted_process(file);
    let device = (major(status.dev()), minor(status.dev()));
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let holders = locks.lines().filter_map(|line| flock_holder(line, status.ino()));
    // Files of two file systems may have one inode number. Some file systems (btrfs) show other device numbers in the
    // list than in the status of a file; there the noted process decides.
    holders.into_iter().find(|holder| holder.device == device || Some(holder.pid) == noted).map(|holder| holder.pid)
}

fn noted_process(file: &File) -> Option<u32> {
    text_of(file).lines().next()?.trim().parse().ok()
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
    let device = (u32::from_str_radix(file.next()?, 16).ok()?, u32::from_str_radix(file.next()?, 16).ok()?);
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
        let path = directory.path().join("lock");
        assert_eq!(holder(&path), None);
        let lock = Lock::acquire(&path, directory.path()).unwrap();
        assert_eq!(holder(&path), Some(std::process::id()));
        let refused = Lock::acquire(&path, directory.path()).unwrap_err();
        assert!(matches!(refused, MediaError::InUse { pid: Some(pid), .. } if pid == std::process::id()));

        drop(lock);
        assert_eq!(holder(&path), None, "the text alone is no holder");
        assert!(Lock::acquire(&path, directory.path()).is_ok());
    }

    #[test]
    fn a_failed_sync_is_remembered_over_processes_until_it_is_made_good() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let lock = Lock::acquire(&path, directory.path()).unwrap();
        assert_eq!(lock.sync_failed_in(), None);
        lock.note_sync_failure(Some(77)).unwrap();
        drop(lock);

        let lock = Lock::acquire(&path, directory.path()).unwrap();
        assert_eq!(lock.sync_failed_in(), Some(77));
        lock.note_sync_failure(None).unwrap();
        drop(lock);
        assert_eq!(Lock::acquire(&path, directory.path()).unwrap().sync_failed_in(), None);
    }

    #[test]
    fn a_foreign_text_says_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        std::fs::write(&path, [0xff; 5000]).unwrap();
        assert_eq!(Lock::acquire(&path, directory.path()).unwrap().sync_failed_in(), None);
    }

    #[test]
    fn only_holders_of_this_lock_are_found_in_the_list_of_locks() {
        let line = "3: FLOCK  ADVISORY  WRITE 4711 fd:01:131074 0 EOF";
        assert_eq!(flock_holder(line, 131_074), Some(Holder { pid: 4711, device: (0xfd, 1) }));
        assert_eq!(flock_holder(line, 131_075), None);
        assert_eq!(flock_holder("3: -> FLOCK  ADVISORY  WRITE 4711 fd:01:131074 0 EOF", 131_074), None);
        assert_eq!(flock_holder("3: POSIX  ADVISORY  WRITE 4711 fd:01:131074 0 EOF", 131_074), None);
        assert_eq!(flock_holder("", 1), None);
    }
}
