//! Bytes of a connection: as they are, or through TLS.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustls::{ServerConfig, ServerConnection};

use crate::reactor::Source;

/// A client's socket, and what it is spoken to through.
pub struct Transport {
    source: Source<TcpStream>,
    tls: Option<Box<ServerConnection>>,
}

/// What an attempt to read or write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// So many bytes.
    Bytes(usize),
    /// None now.
    Nothing,
    /// None any more.
    End,
}

/// Free space that a read finds at least.
const READ_SIZE_MIN: usize = 16 << 10;

impl Transport {
    /// A plain one, or one through TLS.
    pub fn new(
        source: Source<TcpStream>,
        tls: Option<&Arc<ServerConfig>>,
    ) -> Result<Self, rustls::Error> {
        let tls = tls
            .map(|configuration| ServerConnection::new(configuration.clone()).map(Box::new))
            .transpose()?;
        Ok(Self { source, tls })
    }

    /// The socket.
    pub fn source(&self) -> &Source<TcpStream> {
        &self.source
    }

    /// Appends what has arrived to `input`, as much as finds room there.
    pub fn read(&mut self, input: &mut Vec<u8>) -> io::Result<Moved> {
        if input.capacity() - input.len() < READ_SIZE_MIN / 2 {
            input.reserve(READ_SIZE_MIN);
        }
        match &mut self.tls {
            None => read_plain(&self.source, input),
            Some(tls) => read_tls(&self.source, tls, input),
        }
    }

    /// Sends what the socket takes of `output`.
    pub fn write(&mut self, output: &[u8]) -> io::Result<Moved> {
        match &mut self.tls {
            None => write_plain(&self.source, output),
            Some(tls) => {
                let taken = tls.writer().write(output)?;
                Ok(if send_tls(&self.source, tls)? || taken > 0 {
                    Moved::Bytes(taken)
                } else {
                    Moved::Nothing
                })
            }
        }
    }

    /// Whether bytes wait here that were taken from the output already.
    pub fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Whether the TLS handshake is under way.
    pub fn is_shaking_hands(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Says goodbye, as far as the socket takes it.
    pub fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // The connection ends in any case.
            let _ = send_tls(&self.source, tls);
        }
    }
}

fn read_plain(source: &Source<TcpStream>, input: &mut Vec<u8>) -> io::Result<Moved> {
    let room = input.capacity() - input.len();
    match rustix::io::read(source.socket(), spare_capacity(input)) {
        Ok(0) => Ok(Moved::End),
        Ok(size) => {
            // Less than there was room for: the socket is empty, and says so when that changes.
            if size < room {
                source.readiness().clear_readable();
            }
            Ok(Moved::Bytes(size))
        }
        Err(Errno::AGAIN) => {
            source.readiness().clear_readable();
            Ok(Moved::Nothing)
        }
        Err(Errno::INTR) => Ok(Moved::Nothing),
        Err(error) => Err(error.into()),
    }
}

fn write_plain(source: &Source<TcpStream>, output: &[u8]) -> io::Result<Moved> {
    match rustix::io::write(source.socket(), output) {
        Ok(size) => Ok(Moved::Bytes(size)),
        Err(Errno::AGAIN) => {
            source.readiness().clear_writable();
            Ok(Moved::Nothing)
        }
        Err(Errno::INTR) => Ok(Moved::Nothing),
        Err(error) => Err(error.into()),
    }
}

/// Reads what the socket has, deciphers it, and takes all that came out.
fn read_tls(
    source: &Source<TcpStream>,
    tls: &mut ServerConnection,
    input: &mut Vec<u8>,
) -> io::Result<Moved> {
    let end = match tls.read_tls(&mut source.socket()) {
        Ok(size) => size == 0,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            source.readiness().clear_readable();
            false
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
        Err(error) => return Err(error),
    };
    let state = tls.process_new_packets().map_err(|error| {
        // An alert says why; the connection ends in any case.
        let _ = tls.write_tls(&mut source.socket());
        io::Error::new(io::ErrorKind::InvalidData, error)
    })?;
    send_tls(source, tls)?;
    let size = state.plaintext_bytes_to_read();
    if size > 0 {
        let start = input.len();
        input.resize(start + size, 0);
        tls.reader().read_exact(&mut input[start..])?;
        return Ok(Moved::Bytes(size));
    }
    Ok(if end || state.peer_has_closed() {
        Moved::End
    } else {
        Moved::Nothing
    })
}

/// Sends what TLS wants to send. Returns whether anything went out.
fn send_tls(source: &Source<TcpStream>, tls: &mut ServerConnection) -> io::Result<bool> {
    let mut any = false;
    while tls.wants_write() {
        match tls.write_tls(&mut source.socket()) {
            Ok(_) => any = true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                source.readiness().clear_writable();
                break;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(any)
}
