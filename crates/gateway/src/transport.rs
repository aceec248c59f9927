//! Moves the bytes of a connection, in plain text or through TLS.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use rustix::io::Errno;
use rustls::{ServerConfig, ServerConnection};

use crate::incoming::{Incoming, Noted, READ_SIZE};
use crate::memory::{Buffer, Chain};
use crate::reactor::Source;

/// A client's socket, in plain text or through TLS.
pub struct Transport {
    source: Source<Arc<TcpStream>>,
    tls: Option<Box<Tls>>,
}

struct Tls {
    connection: ServerConnection,
    incoming: Incoming,
}

/// The outcome of an attempt to read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The count of bytes that moved.
    Bytes(usize),
    /// No byte moved at the moment.
    Nothing,
    /// No more bytes will move.
    End,
}

/// The bytes that are encrypted together, as one TLS record. The part that the socket does not take waits in memory of
/// its own.
const TLS_RECORD_SIZE: usize = 16 << 10;
/// The received bytes that TLS may hold without a reservation: short records and their plaintext.
const TLS_GUARANTEED: usize = 2 * READ_SIZE;

impl Transport {
    /// A plain connection, or one through TLS.
    pub fn new(
        source: Source<Arc<TcpStream>>,
        tls: Option<&Arc<ServerConfig>>,
    ) -> Result<Self, rustls::Error> {
        let begin = |configuration: &Arc<ServerConfig>| {
            let connection = ServerConnection::new(configuration.clone())?;
            let incoming = Incoming::default();
            Ok::<_, rustls::Error>(Box::new(Tls {
                connection,
                incoming,
            }))
        };
        let tls = tls.map(begin).transpose()?;
        Ok(Self { source, tls })
    }

    /// The socket.
    pub fn source(&self) -> &Source<Arc<TcpStream>> {
        &self.source
    }

    /// Appends bytes that have arrived to `input`, as many as fit. `input` must have room.
    pub fn read(&mut self, input: &mut Buffer) -> io::Result<Moved> {
        match &mut self.tls {
            None => read_plain(&self.source, input),
            Some(tls) => read_tls(&self.source, tls, input),
        }
    }

    /// Sends as much of `output` as the socket takes.
    pub fn write(&mut self, output: &Chain) -> io::Result<Moved> {
        match &mut self.tls {
            None => write_plain(&self.source, output),
            Some(tls) => {
                let (tls, mut taken) = (&mut tls.connection, 0);
                if let Some(first) = output.slices().first()
                    && !tls.wants_write()
                {
                    taken = tls
                        .writer()
                        .write(&first[..first.len().min(TLS_RECORD_SIZE)])?;
                }
                Ok(if send_tls(&self.source, tls)? || taken > 0 {
                    Moved::Bytes(taken)
                } else {
                    Moved::Nothing
                })
            }
        }
    }

    /// Returns whether bytes that `write` has taken from its output wait to be sent.
    pub fn has_unsent(&self) -> bool {
        self.tls
            .as_ref()
            .is_some_and(|tls| tls.connection.wants_write())
    }

    /// Returns whether the TLS handshake is under way.
    pub fn is_shaking_hands(&self) -> bool {
        self.tls
            .as_ref()
            .is_some_and(|tls| tls.connection.is_handshaking())
    }

    /// The memory of the bytes that `write` has taken and that wait to be sent.
    pub fn unsent_size(&self) -> usize {
        match self.has_unsent() {
            true => TLS_RECORD_SIZE,
            false => 0,
        }
    }

    /// The memory of received bytes that TLS holds, if it is more than every connection may hold.
    pub fn incoming_size(&self) -> usize {
        self.tls
            .as_ref()
            .map_or(0, |tls| beyond_guarantee(tls.incoming.size()))
    }

    /// The most memory of that kind after the next call of `read`.
    pub fn incoming_size_after_read(&self) -> usize {
        self.tls
            .as_ref()
            .map_or(0, |tls| beyond_guarantee(tls.incoming.size_after_read()))
    }

    /// Sends the end of TLS, as far as the socket takes it.
    pub fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.connection.send_close_notify();
            // The connection ends in any case.
            let _ = send_tls(&self.source, &mut tls.connection);
        }
    }
}

fn read_plain(source: &Source<Arc<TcpStream>>, input: &mut Buffer) -> io::Result<Moved> {
    let room = input.spare().len();
    match rustix::io::read(source.socket(), input.spare()) {
        Ok(0) => Ok(Moved::End),
        Ok(size) => {
            input.advance(size);
            // Fewer bytes came than there was room for: the socket is empty, and an event reports the next bytes.
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

fn write_plain(source: &Source<Arc<TcpStream>>, output: &Chain) -> io::Result<Moved> {
    match rustix::io::writev(source.socket(), &output.slices()) {
        Ok(size) => Ok(Moved::Bytes(size)),
        Err(Errno::AGAIN) => {
            source.readiness().clear_writable();
            Ok(Moved::Nothing)
        }
        Err(Errno::INTR) => Ok(Moved::Nothing),
        Err(error) => Err(error.into()),
    }
}

fn beyond_guarantee(size: usize) -> usize {
    if size > TLS_GUARANTEED { size } else { 0 }
}

/// Reads the socket's bytes, decrypts them, and appends as much plaintext as fits to `input`.
fn read_tls(
    source: &Source<Arc<TcpStream>>,
    tls: &mut Tls,
    input: &mut Buffer,
) -> io::Result<Moved> {
    // An earlier call may have found no room for some plaintext. The socket counts as readable until a call finds no
    // plaintext.
    if let Some(size) = tls.take_plaintext(input)? {
        return Ok(Moved::Bytes(size));
    }
    let mut socket = Noted {
        reader: source.socket().as_ref(),
        incoming: &mut tls.incoming,
    };
    let end = match tls.connection.read_tls(&mut socket) {
        Ok(size) => size == 0,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            source.readiness().clear_readable();
            false
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
        Err(error) => return Err(error),
    };
    let state = tls.connection.process_new_packets().map_err(|error| {
        // The alert names the reason; the connection ends whether or not the alert is sent.
        let _ = tls.connection.write_tls(&mut source.socket().as_ref());
        io::Error::new(io::ErrorKind::InvalidData, error)
    })?;
    tls.incoming.note_plaintext(state.plaintext_bytes_to_read());
    send_tls(source, &mut tls.connection)?;
    if let Some(size) = tls.take_plaintext(input)? {
        return Ok(Moved::Bytes(size));
    }
    Ok(if end || state.peer_has_closed() {
        Moved::End
    } else {
        Moved::Nothing
    })
}

impl Tls {
    /// Appends decrypted bytes to `input`, as many as fit. Returns `None` without decrypted bytes.
    fn take_plaintext(&mut self, input: &mut Buffer) -> io::Result<Option<usize>> {
        match self.connection.reader().read(input.spare()) {
            Ok(0) => Ok(None),
            Ok(size) => {
                input.advance(size);
                self.incoming.note_taken(size);
                Ok(Some(size))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            // The peer ended without the end of TLS; the socket reports the same.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Sends the bytes that TLS has to send. Returns whether any byte was sent.
fn send_tls(source: &Source<Arc<TcpStream>>, tls: &mut ServerConnection) -> io::Result<bool> {
    let mut any = false;
    while tls.wants_write() {
        match tls.write_tls(&mut source.socket().as_ref()) {
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
