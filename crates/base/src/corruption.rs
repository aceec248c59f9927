//! The error for bytes that are not what they must be.

use std::borrow::Cow;

/// Bytes that failed a check: where they are, what stands there, what should.
///
/// This is for damage. Bytes that a crash may legitimately leave behind (a record that was never acknowledged) are no
/// corruption, and the code that knows the difference says so in its own type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("corrupt {what} in {file} at offset {offset}: found {found}, expected {expected}")]
pub struct Corruption {
    /// What was being read, in the words of the format page ("pool header", "record tag").
    pub what: Cow<'static, str>,
    /// The file or region, as the user knows it.
    pub file: Cow<'static, str>,
    /// Bytes from the start of that file.
    pub offset: u64,
    /// What stands there.
    pub found: String,
    /// What should stand there.
    pub expected: String,
}
