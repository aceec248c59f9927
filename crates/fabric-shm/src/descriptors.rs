//! Running out of file descriptors: said as what it is, with what to do about it.
//!
//! A process that has none left cannot accept, cannot make memory, and loses descriptors that come with a packet, which the
//! kernel reports as a cut-off packet.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// What is said on both sides where this process has none left.
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

/// Whether a call failed because no descriptor is left, of this process or of the machine.
pub(crate) fn is_exhaustion(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE].contains(&Errno::from_io_error(error).unwrap_or(Errno::IO))
}

/// The error with cause and cure, if that is what it is; else as it was.
pub(crate) fn explain(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::MFILE) => io::Error::other(exhaustion()),
        Some(Errno::NFILE) => io::Error::other(
            "this machine has no file descriptors left: raise the limit (sysctl fs.file-max), or end some processes",
        ),
        _ => error,
    }
}

/// A descriptor that is kept to be given up when one is needed.
pub(crate) fn spare() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC)?)
}

/// Whether this process may open so many more files now.
pub(crate) fn check_free(count: usize) -> io::Result<()> {
    let held: Result<Vec<OwnedFd>, io::Error> = (0..count).map(|_| spare()).collect();
    held.map(drop)
}
