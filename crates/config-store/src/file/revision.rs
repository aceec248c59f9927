//! One revision as bytes.
//!
//! ```text
//!   stonecast-revision 1 10 2041 9f8e…32 hexadecimal digits…\n     format, revision, bytes of the value, XXH3-128 of the value
//!   the value
//! ```
//!
//! An empty file is a superseded revision.

use std::path::Path;
use std::str;

use stonecast_cluster::VALUE_SIZE_MAX;
use xxhash_rust::xxh3::xxh3_128;

use super::error::FileError;

const MAGIC: &str = "stonecast-revision";
const FORMAT: u64 = 1;
/// Longest first line, including its end.
const HEAD_SIZE_MAX: usize = 128;
/// Longest file.
pub const SIZE_MAX: u64 = (VALUE_SIZE_MAX + HEAD_SIZE_MAX) as u64;

/// The file of `revision`.
pub fn encode(revision: u64, value: &[u8]) -> Vec<u8> {
    let (size, tag) = (value.len(), xxh3_128(value));
    let mut file = format!("{MAGIC} {FORMAT} {revision} {size} {tag:032x}\n").into_bytes();
    file.extend_from_slice(value);
    file
}

/// The value in the file of `revision`; `None` if it was superseded.
pub fn decode(path: &Path, revision: u64, mut file: Vec<u8>) -> Result<Option<Vec<u8>>, FileError> {
    if file.is_empty() {
        return Ok(None);
    }
    let damaged = |offset: usize, found: String, expected: String| FileError::Damaged {
        path: path.to_owned(),
        offset: offset as u64,
        found,
        expected,
    };
    let head = &file[..file.len().min(HEAD_SIZE_MAX)];
    let foreign = || {
        let found = format!(
            "{:?}",
            head[..head.len().min(32)].escape_ascii().to_string()
        );
        damaged(0, found, format!("`{MAGIC} {FORMAT} {revision} SIZE TAG`"))
    };
    let end = head.iter().position(|&byte| byte == b'\n');
    let words = end.and_then(|end| str::from_utf8(&head[..end]).ok());
    let words: Vec<&str> = words.ok_or_else(foreign)?.split(' ').collect();
    match *words {
        [MAGIC, format, ..] if format.parse().is_ok_and(|format: u64| format > FORMAT) => {
            Err(FileError::Newer {
                path: path.to_owned(),
                found: format.parse().expect("the format was parsed above"),
                expected: FORMAT,
            })
        }
        [MAGIC, "1", number, size, tag] => {
            let (Ok(number), Ok(size), Ok(tag)) = (
                number.parse::<u64>(),
                size.parse::<usize>(),
                u128::from_str_radix(tag, 16),
            ) else {
                return Err(foreign());
            };
            let start = end.expect("the head has an end") + 1;
            let value = file.split_off(start);
            if number != revision {
                let found = format!("revision {number}");
                return Err(damaged(0, found, format!("revision {revision}")));
            }
            if value.len() != size {
                let found = format!("{} bytes", value.len());
                return Err(damaged(start, found, format!("{size} bytes")));
            }
            let found = xxh3_128(&value);
            if found != tag {
                let found = format!("bytes of tag {found:032x}");
                return Err(damaged(start, found, format!("tag {tag:032x}")));
            }
            Ok(Some(value))
        }
        _ => Err(foreign()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(file: &[u8]) -> Result<Option<Vec<u8>>, FileError> {
        decode(Path::new("revision-7"), 7, file.to_vec())
    }

    #[test]
    fn a_revision_is_read_as_it_was_written() {
        for value in [&b""[..], b"x", b"\n\0\n"] {
            assert_eq!(decoded(&encode(7, value)).unwrap().unwrap(), value);
        }
        assert_eq!(decoded(b"").unwrap(), None, "superseded");
    }

    #[test]
    fn a_truncated_or_changed_revision_is_refused() {
        let file = encode(7, b"a value of some length");
        for length in 1..file.len() {
            let torn = decoded(&file[..length]);
            assert!(torn.is_err(), "{length} bytes");
        }
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            assert!(decoded(&damaged).is_err(), "byte {at}");
        }
    }

    #[test]
    fn damage_names_the_file_the_offset_and_both_sides() {
        let mut file = encode(7, b"value");
        let last = file.len() - 1;
        file[last] ^= 1;
        let text = decoded(&file).unwrap_err().to_string();
        assert!(
            text.starts_with("revision-7 is damaged: at byte 5"),
            "{text}"
        );
        let misplaced = decoded(&encode(8, b"value")).unwrap_err().to_string();
        assert!(
            misplaced.contains("found revision 8, expected revision 7"),
            "{misplaced}"
        );
        let newer = decoded(b"stonecast-revision 2 ?\n").unwrap_err();
        assert!(
            matches!(newer, FileError::Newer { found: 2, .. }),
            "{newer}"
        );
    }
}
