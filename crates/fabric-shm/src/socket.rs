//! The Unix sockets of a device: addresses, listening without disturbing a live server, packets with descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::fs::{
    AtFlags, FileType, FlockOperation, Gid, Mode, OFlags, chmod, chown, flock, open, statat, unlink,
};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
};
use stonecast_fabric::DeviceError;

use crate::message::DESCRIPTORS_MAX;

const SCHEME: &str = "shm:";
/// Connections that wait until the control thread takes them.
const BACKLOG: i32 = 1024;

/// The process at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// `None`: the process lives in another PID namespace, as in another container.
    pub(crate) process: Option<u32>,
    pub(crate) user: u32,
}

/// The processes that may connect to a listening socket, given by the permissions of its file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketAccess {
    pub(crate) mode: u32,
    /// `None` for the group of the process.
    pub(crate) group: Option<u32>,
}

/// A listening socket. Its file is removed on drop, if it is still its own.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    path: PathBuf,
    identity: (u64, u64),
}

/// A packet that arrived.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) size: usize,
    pub(crate) descriptors: Vec<OwnedFd>,
    /// Whether this process had no descriptors left for all that came with the packet.
    pub(crate) lost_descriptors: bool,
}

impl std::fmt::Display for Peer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.process {
            Some(process) => write!(formatter, "process {process} of user {}", self.user),
            None => write!(formatter, "a process elsewhere, of user {}", self.user),
        }
    }
}

/// The path in `address`.
pub(crate) fn parse(address: &str) -> Result<PathBuf, DeviceError> {
    let refuse = |reason: &str| DeviceError::Address {
        address: address.into(),
        reason: reason.into(),
    };
    let path = address
        .strip_prefix(SCHEME)
        .ok_or_else(|| refuse("a shared-memory address is shm:PATH"))?;
    if path.is_empty() || path.contains('\0') || Path::new(path).file_name().is_none() {
        return Err(refuse("the path of a socket is missing after shm:"));
    }
    Ok(path.into())
}

/// An address of the socket at `path`, however long the path is: the containing folder is opened and named by its
/// descriptor. The caller keeps the returned descriptor as long as it uses the address.
fn socket_address(path: &Path) -> io::Result<(SocketAddrUnix, Option<OwnedFd>)> {
    match SocketAddrUnix::new(path) {
        Ok(address) => Ok((address, None)),
        Err(Errno::NAMETOOLONG) => {
            let folder = open(
                folder_of(path),
                OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
            let short = Path::new("/proc/self/fd")
                .join(folder.as_raw_fd().to_string())
                .join(name);
            Ok((SocketAddrUnix::new(&short)?, Some(folder)))
        }
        Err(error) => Err(error.into()),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

/// Connects to the listener at `path`.
pub(crate) fn connect(path: &Path) -> io::Result<OwnedFd> {
    let (address, _folder) = socket_address(path)?;
    let socket = new_socket()?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket)
}

/// Whether a server listens at `path`; the error gives the reason why no connection is made. Never waits: if a server
/// takes no one from its full backlog, the error is [`io::ErrorKind::WouldBlock`].
pub fn knock(path: &Path) -> io::Result<()> {
    connect(path).map(drop)
}

impl Listener {
    /// Listens at `path`. Replaces the socket file of a dead server and nothing else.
    pub(crate) fn new(path: &Path, access: SocketAccess) -> io::Result<Self> {
        // Two servers that start at once must not both find the same stale file and each replace it.
        let folder = open(
            folder_of(path),
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        flock(&folder, FlockOperation::LockExclusive)?;
        remove_stale(path)?;
        let (address, _folder) = socket_address(path)?;
        let socket = new_socket()?;
        rustix::net::bind(&socket, &address)?;
        // From this point the file is removed if anything fails.
        let listener = Self {
            socket,
            path: path.to_owned(),
            identity: identity(path)?,
        };
        // No one can connect before `listen`, so no peer slips in before group and mode are right.
        if let Some(group) = access.group {
            chown(path, None, Some(Gid::from_raw(group))).map_err(|error| {
                let error = io::Error::from(error);
                io::Error::new(
                    error.kind(),
                    format!("giving the socket to group {group}: {error}; be a member of that group, or root"),
                )
            })?;
        }
        chmod(path, Mode::from_raw_mode(access.mode))?;
        rustix::net::listen(&listener.socket, BACKLOG)?;
        Ok(listener)
    }

    /// The next connecting peer.
    pub(crate) fn accept(&self) -> io::Result<OwnedFd> {
        Ok(rustix::net::accept_with(
            &self.socket,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        )?)
    }

    /// Stops listening and leaves the file, as the death of this process would.
    pub(crate) fn abandon(mut self) {
        self.identity = (0, 0);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            // The next server replaces a file that stays behind.
            let _ = unlink(&self.path);
        }
    }
}

/// Device and inode of the file at `path`.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let status = statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((status.st_dev, status.st_ino))
}

fn remove_stale(path: &Path) -> io::Result<()> {
    let status = match statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(status) => status,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if FileType::from_raw_mode(status.st_mode) != FileType::Socket {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a file that is not a socket is in the way; remove it or choose another path",
        ));
    }
    match connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(unlink(path)?),
        // This includes a full backlog, a socket of another type, and one without access: each belongs to another
        // process.
        Ok(_) | Err(_) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another process listens there; stop it or choose another path",
        )),
    }
}

/// The process at the other end of `socket`.
pub(crate) fn peer(socket: &OwnedFd) -> io::Result<Peer> {
    // Not by `rustix`, whose process identifiers are never zero: the kernel says 0 of a process in a PID namespace that
    // this process does not see (pid_namespaces(7)).
    let credentials = getsockopt(socket, PeerCredentials)?;
    Ok(Peer {
        process: u32::try_from(credentials.pid())
            .ok()
            .filter(|&process| process > 0),
        user: credentials.uid(),
    })
}

/// Sends one packet, or fails at once.
pub(crate) fn send(
    socket: &OwnedFd,
    packet: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(
            control.push(SendAncillaryMessage::ScmRights(descriptors)),
            "there is space for all descriptors of a packet"
        );
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(socket, &[IoSlice::new(packet)], &mut control, flags)
    })?;
    assert_eq!(sent, packet.len(), "packets are sent whole");
    Ok(())
}

/// Receives one packet into `buffer`. A size of 0 is the end. A packet that does not fit is an error of invalid data.
pub(crate) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<Packet> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let message = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(
            socket.as_fd(),
            &mut [IoSliceMut::new(buffer)],
            &mut control,
            flags,
        )
    })?;
    let mut descriptors = Vec::new();
    for ancillary in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = ancillary {
            descriptors.extend(received);
        }
    }
    // Truncated with room to spare: the kernel could not install the descriptors. Without room, the peer sent more than
    // allowed.
    let lost_descriptors = message.flags.contains(rustix::net::ReturnFlags::CTRUNC)
        && descriptors.len() < DESCRIPTORS_MAX;
    if message.flags.contains(rustix::net::ReturnFlags::TRUNC) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the packet is too long",
        ));
    }
    Ok(Packet {
        size: message.bytes,
        descriptors,
        lost_descriptors,
    })
}

/// Whether the peer has closed its end.
pub(crate) fn is_hang_up(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

/// Announces that nothing more will be sent: the peer finds the end.
pub(crate) fn end_sending(socket: &OwnedFd) {
    // Fails only if the connection is already gone.
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
}

/// Ends both directions: both sides find the end.
pub(crate) fn end(socket: &OwnedFd) {
    // Fails only if the connection is already gone.
    let _ = rustix::net::shutdown(socket, Shutdown::Both);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const OWN_USER: SocketAccess = SocketAccess {
        mode: 0o600,
        group: None,
    };

    #[test]
    fn an_address_names_a_path() {
        assert_eq!(parse("shm:./a/socket").unwrap(), Path::new("./a/socket"));
        for wrong in [
            "",
            "shm:",
            "shm:/",
            "verbs:host:1",
            "/tmp/socket",
            "shm:a\0b",
        ] {
            assert!(
                matches!(parse(wrong), Err(DeviceError::Address { .. })),
                "{wrong}"
            );
        }
    }

    #[test]
    fn the_socket_file_of_a_dead_server_is_replaced_and_that_of_a_live_server_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let dead = new_socket().unwrap();
        rustix::net::bind(&dead, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        drop(dead);
        let living = Listener::new(&path, OWN_USER).unwrap();
        let refused = Listener::new(&path, OWN_USER).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        assert!(connect(&path).is_ok(), "the live server was not disturbed");
        drop(living);
        assert!(!path.exists(), "a server removes its socket file");
    }

    /// Needs the check of the file type: without it the file would be removed or connected to.
    #[test]
    fn a_file_that_is_not_a_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        std::fs::write(&path, b"precious").unwrap();
        assert_eq!(
            Listener::new(&path, OWN_USER).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_server_does_not_remove_the_socket_of_its_successor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = Listener::new(&path, OWN_USER).unwrap();
        std::fs::remove_file(&path).unwrap();
        let _second = Listener::new(&path, OWN_USER).unwrap();
        drop(first);
        assert!(path.exists());
    }

    #[test]
    fn only_the_owner_may_connect_unless_the_mode_allows_others() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        for mode in [0o600, 0o666] {
            let path = folder.path().join(format!("socket{mode}"));
            let _listener = Listener::new(&path, SocketAccess { mode, group: None }).unwrap();
            assert_eq!(
                std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                mode
            );
        }
    }

    #[test]
    fn a_long_path_works() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a".repeat(100)).join("b".repeat(100));
        std::fs::create_dir_all(&deep).unwrap();
        let path = deep.join("socket");
        let listener = Listener::new(&path, OWN_USER).unwrap();
        connect(&path).unwrap();
        assert_eq!(
            peer(&listener.accept().unwrap()).unwrap().process,
            Some(std::process::id())
        );
    }

    #[test]
    fn packets_carry_descriptors_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = Listener::new(&path, OWN_USER).unwrap();
        let client = connect(&path).unwrap();
        let server = listener.accept().unwrap();
        send(&client, b"four", &[listener.socket.as_fd(), client.as_fd()]).unwrap();
        let mut buffer = [0; 64];
        let packet = receive(&server, &mut buffer).unwrap();
        assert_eq!((packet.size, packet.descriptors.len()), (4, 2));
        send(&client, &[0; 65], &[]).unwrap();
        assert_eq!(
            receive(&server, &mut buffer).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        assert_eq!(
            receive(&server, &mut buffer).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        end(&client);
        assert_eq!(receive(&server, &mut buffer).unwrap().size, 0);
    }
}
