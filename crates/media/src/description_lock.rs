//! Locks of open file descriptions (`F_OFD_SETLK`, fcntl(2)). A lock ends with the last descriptor and the last mapping
//! of its description, however the processes end. A lock covers byte numbers, not data: it blocks no read and no write.

use std::fs::File;
use std::io;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

/// Locks this byte for the description of `file`, which is open for writing. `false` if another description holds the
/// lock.
pub(crate) fn try_lock(file: &File, byte: i64) -> io::Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&bytes(libc::F_WRLCK, byte, 1))) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether a description other than that of `file` has locked any of `count` bytes from `start` on.
pub(crate) fn others_hold(file: &File, start: i64, count: i64) -> io::Result<bool> {
    let mut found = bytes(libc::F_RDLCK, start, count);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut found))?;
    Ok(i32::from(found.l_type) != libc::F_UNLCK)
}

fn bytes(kind: i32, start: i64, count: i64) -> libc::flock {
    let kind = kind.try_into().expect("kinds of locks are small numbers");
    let from_the_start = libc::SEEK_SET.try_into().expect("0");
    libc::flock {
        l_type: kind,
        l_whence: from_the_start,
        l_start: start,
        l_len: count,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_description_has_a_byte_and_others_see_it_until_its_last_descriptor_is_closed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (owner, other) = (file.reopen().unwrap(), file.reopen().unwrap());
        assert!(
            try_lock(&owner, 7).unwrap() && try_lock(&owner, 7).unwrap(),
            "a description does not see its own lock"
        );
        assert!(!try_lock(&other, 7).unwrap() && try_lock(&other, 8).unwrap());
        assert!(others_hold(&other, 0, 8).unwrap() && !others_hold(&other, 0, 7).unwrap());
        assert!(others_hold(&owner, 0, 100).unwrap(), "byte 8");

        let second = owner.try_clone().unwrap();
        drop(owner);
        assert!(others_hold(&other, 7, 1).unwrap());
        drop(second);
        assert!(!others_hold(&other, 7, 1).unwrap());
    }
}
