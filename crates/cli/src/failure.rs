//! Why a command did not do what was asked, and the exit status that says so.

use std::fmt;
use std::io;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub enum Failure {
    /// It was asked in a wrong way. Status 2.
    Usage(String),
    /// It could not be done. Status 1.
    Operation(anyhow::Error),
    /// Nobody reads what it prints any more (`stonecast export | head`), which is no news to anybody. Status 1.
    Silent,
}

impl Failure {
    /// Asked in a wrong way.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// Could not be done.
    pub fn operation(message: impl Into<String>) -> Self {
        Self::Operation(anyhow::Error::msg(message.into()))
    }

    /// What the process exits with.
    pub fn status(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Operation(_) | Self::Silent => 1,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) => formatter.write_str(message),
            Self::Operation(error) => write!(formatter, "{error:#}"),
            Self::Silent => Ok(()),
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        let input_output = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if input_output == Some(io::ErrorKind::BrokenPipe) {
            Self::Silent
        } else {
            Self::Operation(error)
        }
    }
}
