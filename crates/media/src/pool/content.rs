//! The kinds of content of a pool.

use std::fmt;

/// The kind of content of a pool, which never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// Records of keys and values.
    KeysAndValues,
    /// Data structures.
    Structures,
}

impl fmt::Display for Content {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::KeysAndValues => "keys and values",
            Self::Structures => "data structures",
        })
    }
}
