//! Sizes as people type them.

use std::fmt;
use std::str::FromStr;

/// A number of bytes: `512`, `64KiB`, `1GB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = text.parse::<bytesize::ByteSize>();
        size.map(|size| Self(size.as_u64())).map_err(|_| {
            "a size is a number of bytes, with KiB, MiB, GiB, KB, MB or GB after it".into()
        })
    }
}

/// Writes the exact size, in the largest unit of which it is a whole number.
impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        let whole = units
            .iter()
            .find(|(bits, _)| self.0 != 0 && self.0.trailing_zeros() >= *bits);
        match whole {
            Some((bits, unit)) => write!(formatter, "{} {unit}", self.0 >> bits),
            None => write!(formatter, "{} B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_both_kinds_of_units() {
        for (text, bytes) in [
            ("512", 512),
            ("4KiB", 4096),
            ("4 MiB", 4 << 20),
            ("1GiB", 1 << 30),
            ("1GB", 1_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "x", "-1", "1XB"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_exactly() {
        for (bytes, text) in [
            (0, "0 B"),
            (1000, "1000 B"),
            (1 << 20, "1 MiB"),
            ((1 << 20) + 1, "1048577 B"),
            (1536 << 10, "1536 KiB"),
            (8 << 30, "8 GiB"),
        ] {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }
}
