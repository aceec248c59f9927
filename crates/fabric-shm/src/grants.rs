//! Grants of regions to peers: the part of the keys that the kernel enforces.
//!
//! Rules:
//! - A peer gets a descriptor of a region only while a key that the peer may use opens some of it.
//! - The descriptor is open for reading only, unless such a key grants writing or atomics and one of these holds: the
//!   peer runs as the same user (and could open the file anyway), or the region is memory of this device alone and the
//!   key covers all of it, so that the mapping opens nothing beyond the key.
//! - Buffers of a multi-packet queue are opened for writing to peers of the same user.
//! - Memory that is sealed against writing is opened for writing to no one.
//!
//! A descriptor cannot be taken back. A peer that bypasses this library keeps its mappings until it dies; the library
//! in the peer enforces the other rights, bounds and revocation.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use stonecast_fabric::{Access, Rkey};

use crate::key_table::Key;

/// A region that peers may receive.
#[derive(Debug)]
pub(crate) struct SharedRegion {
    /// Open for reading and writing.
    pub(crate) file: OwnedFd,
    pub(crate) file_offset: u64,
    pub(crate) size: u64,
    pub(crate) write_sealed: bool,
    /// Whether the device allocated it.
    pub(crate) is_own: bool,
    /// Whether it holds buffers of a multi-packet queue.
    pub(crate) takes_appends: bool,
    /// Keys in use.
    pub(crate) keys: BTreeMap<Rkey, Key>,
}

/// A descriptor to hand over.
#[derive(Debug)]
pub(crate) enum Grant<'a> {
    Writable(BorrowedFd<'a>),
    ReadOnly(OwnedFd),
}

impl SharedRegion {
    /// The descriptor for the peer with `queue_pair`, if any.
    pub(crate) fn grant(
        &self,
        queue_pair: u32,
        same_user: bool,
        writable: bool,
    ) -> Option<Grant<'_>> {
        let mut usable = self
            .keys
            .values()
            .filter(|key| key.queue_pair == 0 || key.queue_pair == queue_pair);
        if writable {
            let whole = |key: &Key| self.is_own && key.offset == 0 && key.size == self.size;
            let by_key = usable.any(|key| key.writes() && (same_user || whole(key)));
            let by_append = self.takes_appends && same_user;
            return (!self.write_sealed && (by_key || by_append))
                .then(|| Grant::Writable(self.file.as_fd()));
        }
        if !usable.any(|key| key.access != Access::NONE) {
            return None;
        }
        // A new description with fewer rights; a duplicate would keep all rights. This fails if the process has no
        // descriptor left or no right to its own file, and then the peer gets nothing.
        let name = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        open(name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .ok()
            .map(Grant::ReadOnly)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use stonecast_media::{MappedRegion, Sealing, Writable};

    const PEER: u32 = 7;

    fn region(is_own: bool, keys: &[Key]) -> SharedRegion {
        let memory = MappedRegion::create_memory("test", 8192, Sealing::None).unwrap();
        SharedRegion {
            file: memory.file().try_clone_to_owned().unwrap(),
            file_offset: 0,
            size: 8192,
            write_sealed: false,
            is_own,
            takes_appends: false,
            keys: keys
                .iter()
                .enumerate()
                .map(|(index, &key)| (Rkey(index as u32), key))
                .collect(),
        }
    }

    fn key(access: Access, queue_pair: u32, size: u64) -> Key {
        Key {
            access,
            address: 0,
            size,
            region: 0,
            queue_pair,
            offset: 0,
        }
    }

    fn grants_writing(region: &SharedRegion, same_user: bool) -> bool {
        region.grant(PEER, same_user, true).is_some()
    }

    /// Needs each condition of `grant`.
    #[test]
    fn writing_is_opened_to_the_same_user_by_a_key_and_to_others_only_where_the_key_covers_all() {
        let part = region(true, &[key(Access::REMOTE_WRITE, PEER, 4096)]);
        assert_eq!(
            (grants_writing(&part, true), grants_writing(&part, false)),
            (true, false)
        );
        let whole = region(true, &[key(Access::REMOTE_ATOMIC, PEER, 8192)]);
        assert_eq!(
            (grants_writing(&whole, true), grants_writing(&whole, false)),
            (true, true)
        );
        let file = region(false, &[key(Access::REMOTE_WRITE, PEER, 8192)]);
        assert_eq!(
            (grants_writing(&file, true), grants_writing(&file, false)),
            (true, false)
        );
        let other = region(true, &[key(Access::REMOTE_WRITE, PEER + 1, 8192)]);
        assert_eq!(
            (grants_writing(&other, true), grants_writing(&other, false)),
            (false, false)
        );
        let read = region(true, &[key(Access::REMOTE_READ, 0, 8192)]);
        assert_eq!(
            (grants_writing(&read, true), grants_writing(&read, false)),
            (false, false)
        );
        let sealed = SharedRegion {
            write_sealed: true,
            ..region(true, &[key(Access::REMOTE_WRITE, 0, 8192)])
        };
        assert!(!grants_writing(&sealed, true));
        let appends = SharedRegion {
            takes_appends: true,
            ..region(true, &[])
        };
        assert_eq!(
            (
                grants_writing(&appends, true),
                grants_writing(&appends, false)
            ),
            (true, false)
        );
    }

    /// Needs the reopening: with a duplicate of the owner's descriptor the writable mapping succeeds.
    #[test]
    fn a_file_opened_for_reading_cannot_be_mapped_for_writing() {
        let region = region(true, &[key(Access::REMOTE_READ, 0, 64)]);
        let Some(Grant::ReadOnly(file)) = region.grant(PEER, true, false) else {
            panic!("reading is granted")
        };
        assert!(MappedRegion::map(file.try_clone().unwrap(), 0, 8192, Writable::No).is_ok());
        assert!(MappedRegion::map(file, 0, 8192, Writable::Yes).is_err());
    }

    #[test]
    fn without_a_usable_key_there_is_no_descriptor() {
        assert!(region(true, &[]).grant(PEER, true, false).is_none());
        assert!(
            region(true, &[key(Access::NONE, 0, 8192)])
                .grant(PEER, true, false)
                .is_none()
        );
        assert!(
            region(true, &[key(Access::REMOTE_READ, PEER + 1, 8192)])
                .grant(PEER, true, false)
                .is_none()
        );
    }
}
