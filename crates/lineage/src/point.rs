//! Places in the history of a shard.

use std::fmt;

use crate::term::Term;

/// An entry's place in the history of its shard: the term in which it was stamped, then its version.
///
/// Two terms may give the same version twice: an heir does not know every version that its predecessor gave. Only one
/// of the two entries ever counts, and the versions of counting entries ascend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// The term.
    pub term: Term,
    /// The version.
    pub version: u64,
}

impl fmt::Display for Point {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "version {} of term {}", self.version, self.term)
    }
}
