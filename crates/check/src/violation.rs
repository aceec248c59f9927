//! What went wrong.

use std::fmt;

/// A broken promise, found by an oracle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which promise.
    pub oracle: &'static str,
    /// What was found, for people.
    pub found: String,
}

impl Violation {
    /// A violation of what `oracle` guards.
    pub fn new(oracle: &'static str, found: String) -> Self {
        Self { oracle, found }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.oracle, self.found)
    }
}
