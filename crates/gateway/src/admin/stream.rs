//! The bytes of a connection of the admin port, plain or through TLS.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};

use crate::reactor::Source;

/// The bytes that one call reads.
const READ_SIZE: usize = 4 << 10;
/// The bytes after the head of a request that are read and dropped, so that the end of the connection does not reset
/// it.
const DROPPED_MAX: usize = 64 << 10;

/// A connection that does not block.
pub struct Stream {
    source: Source<TcpStream>,
    tls: Option<Box<ServerConnection>>,
}

impl Stream {
    pub fn new(
        source: Source<TcpStream>,
        tls: Option<&Arc<ServerConfig>>,
    ) -> Result<Self, rustls::Error> {
        let begin = |configuration: &Arc<ServerConfig>| {
            ServerConnection::new(configuration.clone()).map(Box::new)
        };
        let tls = tls.map(begin).transpose()?;
        Ok(Self { source, tls })
    }

    /// Appends bytes that arrive to `into`. Returns false at the end of the stream.
    pub async fn read(&mut self, into: &mut Vec<u8>) -> io::Result<bool> {
        let mut bytes = [0; READ_SIZE];
        loop {
            match self.try_read(&mut bytes) {
                Ok(size) => {
                    into.extend_from_slice(&bytes[..size]);
                    return Ok(size > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.source.readiness().clear_readable();
                    self.source.readable().await;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends `bytes`.
    pub async fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = match self.try_write(bytes) {
                Ok(size) => {
                    bytes = &bytes[size..];
                    self.try_flush()
                }
                Err(error) => Err(error),
            };
            self.wait_if_full(sent).await?;
        }
        while self.tls.as_ref().is_some_and(|tls| tls.wants_write()) {
            let sent = self.try_flush();
            self.wait_if_full(sent).await?;
        }
        Ok(())
    }

    /// Ends the connection after everything was sent.
    pub fn close(mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        // The peer may be gone.
        let _ = self.try_flush();
        let _ = self.source.socket().shutdown(Shutdown::Write);
        let mut bytes = [0; READ_SIZE];
        for _ in 0..DROPPED_MAX / READ_SIZE {
            let mut socket = self.source.socket();
            if !matches!(socket.read(&mut bytes), Ok(1..)) {
                return;
            }
        }
    }

    /// Waits until the socket takes bytes again, if `sent` says that it took none.
    async fn wait_if_full(&self, sent: io::Result<()>) -> io::Result<()> {
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.source.readiness().clear_writable();
                self.source.writable().await;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            sent => sent,
        }
    }

    fn try_read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut socket = self.source.socket();
        match &mut self.tls {
            None => socket.read(bytes),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut socket).read(bytes),
        }
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut socket = self.source.socket();
        match &mut self.tls {
            None => socket.write(bytes),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut socket).write(bytes),
        }
    }

    /// Sends the bytes that TLS holds.
    fn try_flush(&mut self) -> io::Result<()> {
        let mut socket = self.source.socket();
        match &mut self.tls {
            None => Ok(()),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut socket).flush(),
        }
    }
}
