//! HTTP/1.1 in a thread that may block: POSTs of JSON to one endpoint, over kept connections, within bounds.
//!
//! ```text
//!   mod.rs    a request and its answer; the connections that are kept
//!   head      heads of requests and answers
//!   body      the bytes that belong to an answer
//!   stream    a connection, in plain text or through TLS
//!   socket    a socket whose reads and writes are over at one moment
//!   error     failures
//! ```
//!
//! Invariants:
//! - A request is sent once, over one connection. No failure repeats it.
//! - A connection is kept only after the last byte of an answer, and used again only if nothing has arrived since: no
//!   answer is taken for that of another request.
//! - Everything about a request is over at one moment, whatever the server sends.

mod body;
mod error;
mod head;
mod socket;
mod stream;

use std::io::{self, BufReader, Read, Write as _};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use self::body::Body;
pub use self::error::HttpError;
use self::error::garbage;
use self::head::{Head, request};
use self::stream::Stream;

/// Connections without a request that are kept: one for each thread of a store.
const KEPT_COUNT_MAX: usize = 3;
/// The time for which a connection is kept. Networks forget silent connections without a word to either side.
const KEPT_TIME_MAX: Duration = Duration::from_secs(15);

type Connection = BufReader<Stream>;

/// A connection without a request.
struct Kept {
    connection: Connection,
    since: Instant,
}

impl Kept {
    /// Whether a request may be sent over the connection.
    fn is_usable(&mut self) -> bool {
        self.since.elapsed() < KEPT_TIME_MAX
            && self.connection.buffer().is_empty()
            && self.connection.get_mut().is_quiet()
    }
}

/// The connections to one endpoint. A clone shares them.
#[derive(Clone)]
pub struct Http {
    /// `HOST:PORT`.
    endpoint: String,
    /// The time for a connection.
    connect: Duration,
    tls: Option<Arc<ClientConfig>>,
    kept: Arc<Mutex<Vec<Kept>>>,
}

impl Http {
    /// Connections to `endpoint`, over TLS if there is a configuration for it. No connection is
    /// opened yet.
    pub fn new(endpoint: &str, connect: Duration, tls: Option<Arc<ClientConfig>>) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            connect,
            tls,
            kept: Arc::default(),
        }
    }

    /// Sends `body` to `path`, over a connection that was kept or a new one, and waits for the head of the answer.
    /// Everything, the body of the answer included, is over after the time `within`.
    pub fn post(
        &self,
        path: &str,
        token: Option<&str>,
        body: &str,
        within: Duration,
    ) -> Result<Answer, HttpError> {
        let end = Instant::now() + within;
        let mut connection = match self.take_kept() {
            Some(kept) => kept,
            None => self.connect(end)?,
        };
        connection.get_mut().set_end(end);
        let request = request(&self.endpoint, path, token, body);
        connection.get_mut().write_all(&request)?;
        connection.get_mut().flush()?;
        let head = Head::read(&mut connection)?;
        Ok(Answer {
            status: head.status,
            body: head.body,
            connection,
            kept: head.is_kept.then(|| self.kept.clone()),
        })
    }

    fn connect(&self, end: Instant) -> Result<Connection, HttpError> {
        let end = end.min(Instant::now() + self.connect);
        let stream = Stream::connect(&self.endpoint, self.tls.as_ref(), end)?;
        Ok(BufReader::new(stream))
    }

    fn take_kept(&self) -> Option<Connection> {
        let mut kept = self.kept.lock().expect("no holder panics");
        std::iter::from_fn(|| kept.pop())
            .find_map(|mut kept| kept.is_usable().then_some(kept.connection))
    }
}

/// An answer whose body is read as it arrives.
pub struct Answer {
    /// The status of HTTP.
    pub status: u16,
    body: Body,
    connection: Connection,
    /// The place of the connection after the body; `None` if the server ends the connection.
    kept: Option<Arc<Mutex<Vec<Kept>>>>,
}

impl Answer {
    /// The whole body, of at most `size_max` bytes. Keeps the connection.
    pub fn into_bytes(mut self, size_max: u64) -> Result<Vec<u8>, HttpError> {
        let mut bytes = Vec::new();
        let size = (&mut self).take(size_max + 1).read_to_end(&mut bytes)?;
        if size as u64 > size_max {
            return Err(garbage(format!("its answer is larger than {size_max} bytes")).into());
        }
        if let (Some(kept), true) = (self.kept, self.body.has_ended()) {
            let mut kept = kept.lock().expect("no holder panics");
            kept.push(Kept {
                connection: self.connection,
                since: Instant::now(),
            });
            kept.truncate(KEPT_COUNT_MAX);
        }
        Ok(bytes)
    }
}

impl Read for Answer {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.body.read(&mut self.connection, into)
    }
}
