//! A stream of bytes cut into frames: length (2 bytes, little-endian), then as many bytes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use super::ControlError;

/// The most bytes of a frame. The longest message is a connect with full private data.
pub(super) const FRAME_SIZE_MAX: usize = 4096;
/// The most bytes that wait to be sent: a peer that reads nothing gets no more.
const OUTBOX_SIZE_MAX: usize = 64 * 1024;
/// Bytes read from the socket at once.
const READ_SIZE: usize = 4096;

/// A TCP connection with its unread input and its pending output. Never blocks.
pub(super) struct Wire {
    stream: TcpStream,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    ended: bool,
}

impl Wire {
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            inbox: Vec::new(),
            outbox: Vec::new(),
            ended: false,
        })
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether output is pending.
    pub fn has_output(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Reads arrived bytes, up to some frames: the rest waits in the socket.
    pub fn fill(&mut self) -> Result<(), ControlError> {
        let mut buffer = [0; READ_SIZE];
        while !self.ended && self.inbox.len() <= 2 * FRAME_SIZE_MAX {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.ended = true,
                Ok(count) => self.inbox.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(ControlError::Connection { source }),
            }
        }
        Ok(())
    }

    /// Whether the peer has closed its side and all its bytes were taken.
    pub fn is_exhausted(&self) -> bool {
        self.ended
    }

    /// The arrived bytes that were not taken.
    pub fn arrived(&self) -> &[u8] {
        &self.inbox
    }

    /// Takes `count` bytes, once they have arrived.
    pub fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        (self.inbox.len() >= count).then(|| self.inbox.drain(..count).collect())
    }

    /// Takes the next frame, once it has arrived whole.
    pub fn take_frame(&mut self) -> Result<Option<Vec<u8>>, ControlError> {
        let Some(length) = self.inbox.first_chunk::<2>() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_le_bytes(*length));
        if length > FRAME_SIZE_MAX {
            return Err(ControlError::Malformed {
                reason: "a frame is longer than any message",
            });
        }
        if self.inbox.len() < 2 + length {
            return Ok(None);
        }
        self.inbox.drain(..2);
        Ok(self.take(length))
    }

    /// Queues bytes unchanged.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), ControlError> {
        if self.outbox.len() + bytes.len() > OUTBOX_SIZE_MAX {
            return Err(ControlError::Connection {
                source: io::Error::from(ErrorKind::WriteZero),
            });
        }
        self.outbox.extend_from_slice(bytes);
        Ok(())
    }

    /// Queues a frame.
    pub fn put_frame(&mut self, bytes: &[u8]) -> Result<(), ControlError> {
        assert!(bytes.len() <= FRAME_SIZE_MAX, "a message fits into a frame");
        self.put(&(bytes.len() as u16).to_le_bytes())?;
        self.put(bytes)
    }

    /// Writes as much as the socket takes.
    pub fn flush(&mut self) -> Result<(), ControlError> {
        while !self.outbox.is_empty() {
            match self.stream.write(&self.outbox) {
                Ok(0) => return Err(ControlError::Closed),
                Ok(count) => drop(self.outbox.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(ControlError::Connection { source }),
            }
        }
        Ok(())
    }
}
