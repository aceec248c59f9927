//! Reports the exhaustion of file descriptors as such, with a remedy.
//!
//! A process without free descriptors cannot accept, cannot make memory, and loses descriptors that come with a packet,
//! which the kernel reports as a truncated packet.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// The message for both sides when this process has no descriptors left.
pub(crate) fn exhaustion() -> String {
    let limit = match getrlimit(Resource::Nofile).current {
        Some(limit) => format!("its limit is {limit}"),
        None => "it has no limit of its own".into(),
    };
    format!(
        "process {} has no file descriptors left ({limit}): start it with more (ulimit -n, LimitNOFILE= of a systemd unit), \
         or end some of its connections",
        std::process::id()
    )
}

/// Whether a call failed because this process or the machine has no descriptor left.
pub(crate) fn is_exhaustion(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE].contains(&Errno::from_io_error(error).unwrap_or(Errno::IO))
}

/// The error with cause and remedy if it is an exhaustion of descriptors; otherwise the error unchanged.
pub(crate) fn explain(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::MFILE) => io::Error::other(exhaustion()),
        Some(Errno::NFILE) => io::Error::other(
            "this machine has no file descriptors left: raise the limit (sysctl fs.file-max), or end some processes",
        ),
        _ => error,
    }
}

/// A descriptor kept in reserve, to be given up when one is needed.
pub(crate) fn spare() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC)?)
}

/// Whether this process can open `count` more files at this moment.
pub(crate) fn check_free(count: usize) -> io::Result<()> {
    let held: Result<Vec<OwnedFd>, io::Error> = (0..count).map(|_| spare()).collect();
    held.map(drop)
}
