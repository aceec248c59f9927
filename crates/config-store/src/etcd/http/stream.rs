//! A connection, in plain text or through TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::Instant;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::error::HttpError;
use super::socket::Socket;

/// A connection to an endpoint.
pub enum Stream {
    Plain(Socket),
    Encrypted(Box<StreamOwned<ClientConnection, Socket>>),
}

impl Stream {
    /// Connects to `endpoint`, `HOST:PORT`, by `end`, and shakes hands if there is a configuration of TLS.
    pub fn connect(
        endpoint: &str,
        tls: Option<&Arc<ClientConfig>>,
        end: Instant,
    ) -> Result<Self, HttpError> {
        let not_reached = |error: io::Error| HttpError::NotReached(error.to_string());
        let mut socket = Socket::connect(endpoint, end).map_err(not_reached)?;
        let Some(tls) = tls else {
            return Ok(Self::Plain(socket));
        };
        let (host, _) = endpoint.rsplit_once(':').unwrap_or((endpoint, ""));
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| HttpError::NotReached(error.to_string()))?;
        let mut connection = ClientConnection::new(tls.clone(), name).map_err(HttpError::Tls)?;
        while connection.is_handshaking() {
            match connection.complete_io(&mut socket) {
                Ok(_) => {}
                // Nothing was sent that a server could execute.
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    return Err(not_reached(error));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let stream = StreamOwned::new(connection, socket);
        Ok(Self::Encrypted(Box::new(stream)))
    }

    /// Sets the moment at which reads and writes are over.
    pub fn set_end(&mut self, end: Instant) {
        match self {
            Self::Plain(socket) => socket.set_end(end),
            Self::Encrypted(stream) => stream.sock.set_end(end),
        }
    }

    /// Whether the peer has neither sent anything more nor ended the connection.
    pub fn is_quiet(&mut self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_quiet(),
            Self::Encrypted(stream) => {
                let state = stream.conn.process_new_packets();
                state.is_ok_and(|state| state.plaintext_bytes_to_read() == 0)
                    && stream.sock.is_quiet()
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Encrypted(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Encrypted(stream) => stream.flush(),
        }
    }
}
