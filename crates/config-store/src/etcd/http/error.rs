//! The failures of a request.

use std::io::{self, ErrorKind};

/// A request without an answer, or with an answer that is not HTTP.
#[derive(Debug)]
pub enum HttpError {
    /// No connection was made, so nothing was sent.
    NotReached(String),
    /// One side does not trust the other, or does not speak TLS.
    Tls(rustls::Error),
    /// The connection failed, or the time was over.
    Failed(io::Error),
    /// The answer is not HTTP, or too long.
    Garbage(String),
}

impl From<io::Error> for HttpError {
    fn from(error: io::Error) -> Self {
        if error.kind() != ErrorKind::InvalidData {
            return Self::Failed(error);
        }
        // rustls reports its errors inside system errors, as `garbage` does.
        match error.downcast() {
            Ok(error) => Self::Tls(error),
            Err(error) => Self::Garbage(error.to_string()),
        }
    }
}

/// The error of an answer that is not HTTP, or too long.
pub fn garbage(reason: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason.into())
}
