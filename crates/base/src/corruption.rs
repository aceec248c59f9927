//! The error for corrupt bytes.

use std::borrow::Cow;

/// Bytes that failed a check: their place, their content, and the expected content.
///
/// This type is for damage. Bytes that a crash may legitimately leave behind (a record that was never acknowledged) are
/// not corruption. The code that can tell the two apart has a type of its own for such bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("corrupt {what} in {file} at offset {offset}: found {found}, expected {expected}")]
pub struct Corruption {
    /// The name of the damaged part, in the words of the format page ("pool header", "record tag").
    pub what: Cow<'static, str>,
    /// The file or region, under the name that the user knows.
    pub file: Cow<'static, str>,
    /// Bytes from the start of that file.
    pub offset: u64,
    /// The content found.
    pub found: String,
    /// The content expected.
    pub expected: String,
}
