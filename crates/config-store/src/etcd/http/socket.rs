//! A socket whose reads and writes are over at one moment.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// A connected socket. A peer that sends one byte after the other does not prolong a request, because the bound is a
/// moment and not a time for each byte.
pub struct Socket {
    stream: TcpStream,
    end: Instant,
}

impl Socket {
    /// Connects to `endpoint`, `HOST:PORT`, by `end`.
    pub fn connect(endpoint: &str, end: Instant) -> io::Result<Self> {
        let addresses = resolve(endpoint, end)?;
        let mut failure = io::Error::new(ErrorKind::NotFound, "the host has no address");
        for (index, address) in addresses.iter().enumerate() {
            // An address that does not answer leaves time for those after it.
            let share = time_until(end)? / (addresses.len() - index) as u32;
            match TcpStream::connect_timeout(address, share) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Self { stream, end });
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Sets the moment at which reads and writes are over.
    pub fn set_end(&mut self, end: Instant) {
        self.end = end;
    }

    /// Whether the peer has neither sent anything more nor ended the connection.
    pub fn is_quiet(&self) -> bool {
        let peek = || {
            self.stream.set_nonblocking(true)?;
            let peeked = self.stream.peek(&mut [0]);
            self.stream.set_nonblocking(false)?;
            peeked
        };
        matches!(peek(), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Repeats `step` after interruptions by signals, until the end.
    fn bounded(
        &mut self,
        mut step: impl FnMut(&mut TcpStream, Duration) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            let left = time_until(self.end)?;
            match step(&mut self.stream, left) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The system reports a bound that is over as a call that would block.
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(timeout()),
                moved => return moved,
            }
        }
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.bounded(|stream, left| {
            stream.set_read_timeout(Some(left))?;
            stream.read(into)
        })
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bounded(|stream, left| {
            stream.set_write_timeout(Some(left))?;
            stream.write(bytes)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The addresses of `endpoint`. The system looks up a name for as long as its own bounds allow, so a thread of its own
/// waits for the system.
fn resolve(endpoint: &str, end: Instant) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = endpoint.parse() {
        return Ok(vec![address]);
    }
    let name = endpoint.to_owned();
    let (answer, answered) = mpsc::channel();
    let look_up = move || {
        let found = name.to_socket_addrs().map(Vec::from_iter);
        // The time of the caller may be over.
        let _ = answer.send(found);
    };
    thread::Builder::new()
        .name("config-resolve".to_owned())
        .spawn(look_up)?;
    answered
        .recv_timeout(time_until(end)?)
        .unwrap_or_else(|_| Err(timeout()))
}

/// The time until `end`; an error if `end` has passed.
fn time_until(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(timeout()),
        false => Ok(left),
    }
}

fn timeout() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "timeout")
}
