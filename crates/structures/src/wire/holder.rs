//! The names under which front-ends hold tenures.

use std::fmt;

use super::text::{SIZE_MAX, ShortText};

/// The name that a front-end gives itself, for people who wait for its tenure. No code depends on the name or checks
/// it. The name has at most 64 bytes, and no control characters, which a terminal would obey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontEndName(ShortText);

impl FrontEndName {
    /// No name.
    pub const NONE: Self = Self(ShortText::EMPTY);

    /// The name with this text, cut to the bytes that have room.
    ///
    /// ```
    /// use stonecast_structures::FrontEndName;
    ///
    /// assert_eq!(FrontEndName::of("process 7 on \u{1b}[1mdb1").as_str(), "process 7 on [1mdb1");
    /// assert_eq!(FrontEndName::of(&"\u{fc}".repeat(40)).as_str(), "\u{fc}".repeat(32));
    /// ```
    pub fn of(text: &str) -> Self {
        let mut name: String = text.chars().filter(|char| !char.is_control()).collect();
        name.truncate(name.floor_char_boundary(SIZE_MAX));
        Self(ShortText::new(&name).expect("it was cut"))
    }

    /// The text; empty: the front-end has no name.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    pub(crate) fn to_words(self) -> [u64; 9] {
        self.0.to_words()
    }

    pub(crate) fn of_words(bytes: &[u8]) -> Option<Self> {
        let text = ShortText::of_words(bytes)?;
        let is_name = !text.as_str().chars().any(char::is_control);
        is_name.then_some(Self(text))
    }
}

impl fmt::Display for FrontEndName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_written_and_no_terminal_obeys_it() {
        for name in [FrontEndName::NONE, FrontEndName::of("process 7 on db1")] {
            let words = name.to_words().map(u64::to_le_bytes).concat();
            assert_eq!(FrontEndName::of_words(&words), Some(name));
        }
        let hostile = ShortText::new("\u{1b}[2J").expect("it is short");
        let words = hostile.to_words().map(u64::to_le_bytes).concat();
        assert_eq!(FrontEndName::of_words(&words), None);
    }
}
