//! Broken promises.

use std::fmt;

/// A broken promise, found by an oracle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub oracle: &'static str,
    /// The finding, for people.
    pub found: String,
}

impl Violation {
    /// A violation of the promise that `oracle` checks.
    pub fn new(oracle: &'static str, found: String) -> Self {
        Self { oracle, found }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.oracle, self.found)
    }
}
