//! A reply before it is written.

use std::borrow::Cow;
use std::fmt;

use smallvec::SmallVec;

use super::error::CommandError;
use crate::resp::ReplyWriter;

/// The reply to a command.
#[derive(Clone, Debug)]
pub enum Reply<'a> {
    /// `OK`.
    Ok,
    /// A word.
    Simple(&'static str),
    /// A number.
    Integer(i64),
    /// The bytes of a value.
    Bulk(Cow<'a, [u8]>),
    /// The absence of a value.
    Null,
    /// An error: the command was not done, or not as a whole.
    Error(CommandError),
}

/// Replies of commands that were done together, in their order.
pub type Replies<'a> = SmallVec<[Reply<'a>; 1]>;

impl Reply<'_> {
    /// Bytes of the value that the reply returns.
    pub fn size(&self) -> usize {
        match self {
            Self::Bulk(bytes) => bytes.len(),
            _ => 0,
        }
    }

    /// Writes the reply.
    pub fn write(&self, writer: &mut ReplyWriter<'_>) {
        match self {
            Self::Ok => writer.ok(),
            Self::Simple(text) => writer.simple(text),
            Self::Integer(value) => writer.integer(*value),
            Self::Bulk(bytes) => writer.bulk(bytes),
            Self::Null => writer.null(),
            Self::Error(error) => writer.error(&error.to_string()),
        }
    }
}

impl<T: Into<CommandError>> From<T> for Reply<'_> {
    fn from(error: T) -> Self {
        Self::Error(error.into())
    }
}

impl fmt::Display for Reply<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => formatter.write_str("OK"),
            Self::Simple(text) => formatter.write_str(text),
            Self::Integer(value) => value.fmt(formatter),
            Self::Bulk(bytes) => write!(formatter, "\"{}\"", bytes.escape_ascii()),
            Self::Null => formatter.write_str("null"),
            Self::Error(error) => error.fmt(formatter),
        }
    }
}
