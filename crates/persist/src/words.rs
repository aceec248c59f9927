//! Choices and their words: one table for the command line, profiles and JSON.

use std::fmt::Display;

use serde::Serializer;

/// Gives an enum its words: `Display`, `FromStr`, `Serialize` and the list of all choices.
macro_rules! words {
    ($type:ident, $what:literal, $allowed:literal, $($variant:ident = $name:literal;)+) => {
        impl $type {
            /// All choices.
            pub const ALL: &[Self] = &[$(Self::$variant),+];
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.pad(match self {
                    $(Self::$variant => $name,)+
                })
            }
        }

        impl std::str::FromStr for $type {
            type Err = stonecast_media::UnknownName;

            fn from_str(name: &str) -> Result<Self, stonecast_media::UnknownName> {
                let refused = || stonecast_media::UnknownName { what: $what, found: name.to_owned(), allowed: $allowed };
                Self::ALL.iter().copied().find(|choice| choice.to_string() == name).ok_or_else(refused)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                crate::words::as_word(self, serializer)
            }
        }
    };
}
pub(crate) use words;

/// Serialises a choice as its word.
pub(crate) fn as_word<T: Display, S: Serializer>(
    choice: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(choice)
}
