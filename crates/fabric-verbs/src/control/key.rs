//! Keys that both sides share, and the file that holds them.
//!
//! ```text
//!   # name of the client     key: 64 hexadecimal digits
//!   cache-1                  9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//! ```
//!
//! A server's file has a line for each client. A client's file has its own line first, and other lines are ignored.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of a key.
const KEY_SIZE: usize = 32;
/// The most bytes of a name.
pub(crate) const NAME_SIZE_MAX: usize = 64;
/// The most bytes of a key file; a longer file is something else.
const FILE_SIZE_MAX: u64 = 1 << 20;
/// Rights of other users, which a key file must not give.
const OTHERS: u32 = 0o077;

/// A key that two sides share.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_SIZE]);

impl Key {
    /// The key with these bytes, which must be unpredictable.
    pub fn new(bytes: [u8; KEY_SIZE]) -> Self {
        Self(bytes)
    }

    pub(super) fn bytes(&self) -> &[u8; KEY_SIZE] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(..)")
    }
}

/// The reason why a key file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file cannot be read.
    #[error("cannot read the key file {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Other users may read the key file.
    #[error("the key file {} can be read by other users (mode {mode:o}); restrict it to yourself: chmod 600", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The mode bits of the file.
        mode: u32,
    },
    /// A line is not a name and a key.
    #[error(
        "line {line} of the key file {} is not a name (at most {NAME_SIZE_MAX} letters, digits, dots, dashes) and 64 \
         hexadecimal digits; make a key with: openssl rand -hex 32", path.display()
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
    },
    /// A name occurs twice.
    #[error("the key file {} names {name} twice", path.display())]
    Twice {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// The file has no key.
    #[error("the key file {} has no key; a line is a name and 64 hexadecimal digits", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// Keys by the names of their clients.
#[derive(Clone, Debug, Default)]
pub struct KeyRing {
    keys: BTreeMap<String, Key>,
    first: Option<String>,
}

impl KeyRing {
    /// A ring with one key.
    pub fn single(name: &str, key: Key) -> Self {
        let mut ring = Self::default();
        assert!(is_name(name), "{name:?} is not a name for a key");
        ring.insert(name.into(), key);
        ring
    }

    /// Reads a key file.
    pub fn load(path: &Path) -> Result<Self, KeyFileError> {
        let unreadable = |source| KeyFileError::Unreadable {
            path: path.into(),
            source,
        };
        let file = File::open(path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.mode() & 0o777;
        if mode & OTHERS != 0 {
            return Err(KeyFileError::Open {
                path: path.into(),
                mode,
            });
        }
        let mut text = String::new();
        file.take(FILE_SIZE_MAX)
            .read_to_string(&mut text)
            .map_err(unreadable)?;
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, KeyFileError> {
        let mut ring = Self::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_ascii_whitespace();
            let (name, key, rest) = (words.next(), words.next().and_then(parse_key), words.next());
            let (Some(name), Some(key), None) = (name.filter(|name| is_name(name)), key, rest)
            else {
                return Err(KeyFileError::Line {
                    path: path.into(),
                    line: index + 1,
                });
            };
            if ring.keys.contains_key(name) {
                return Err(KeyFileError::Twice {
                    path: path.into(),
                    name: name.into(),
                });
            }
            ring.insert(name.into(), key);
        }
        if ring.keys.is_empty() {
            Err(KeyFileError::Empty { path: path.into() })
        } else {
            Ok(ring)
        }
    }

    fn insert(&mut self, name: String, key: Key) {
        self.first.get_or_insert_with(|| name.clone());
        self.keys.insert(name, key);
    }

    /// The key of `name`.
    pub(super) fn get(&self, name: &str) -> Option<&Key> {
        self.keys.get(name)
    }

    /// The first name and its key: the identity of the owner of this ring when it connects.
    pub(super) fn own(&self) -> Option<(&str, &Key)> {
        let name = self.first.as_deref()?;
        Some((name, self.keys.get(name)?))
    }
}

/// Whether `name` can name a key.
pub(super) fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=NAME_SIZE_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

fn parse_key(text: &str) -> Option<Key> {
    let digits = text.as_bytes();
    if digits.len() != 2 * KEY_SIZE {
        return None;
    }
    let mut bytes = [0; KEY_SIZE];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
    }
    Some(Key(bytes))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const ONE: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    fn parse(text: &str) -> Result<KeyRing, KeyFileError> {
        KeyRing::parse(text, Path::new("keys"))
    }

    #[test]
    fn the_first_line_is_the_owner_and_every_line_can_be_found() {
        let ring = parse(&format!(
            "# clients\n\nb {ONE}\n a\t{}\n",
            ONE.to_uppercase()
        ))
        .expect("two keys");
        assert_eq!(ring.own().expect("an owner").0, "b");
        assert_eq!(ring.get("a"), ring.get("b"));
        assert_eq!(ring.get("c"), None);
        assert_eq!(
            ring.get("a").expect("the key exists").bytes()[..2],
            [0x9f, 0x86]
        );
    }

    #[test]
    fn an_invalid_key_file_is_refused_with_its_line() {
        for (text, line) in [
            (format!("a {ONE}\nb"), 2),
            (format!("a {ONE} more"), 1),
            (format!("a {}", &ONE[1..]), 1),
            (format!("a {}g", &ONE[1..]), 1),
            (format!("a/b {ONE}"), 1),
            (format!("{} {ONE}", "n".repeat(65)), 1),
        ] {
            assert!(
                matches!(parse(&text), Err(KeyFileError::Line { line: found, .. }) if found == line),
                "{text}"
            );
        }
        assert!(matches!(
            parse(&format!("a {ONE}\na {ONE}")),
            Err(KeyFileError::Twice { .. })
        ));
        assert!(matches!(
            parse("# nothing\n"),
            Err(KeyFileError::Empty { .. })
        ));
    }

    #[test]
    fn a_key_file_that_others_can_read_is_refused() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        writeln!(file, "a {ONE}").expect("it can be written");
        for (mode, refused) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true)] {
            file.as_file()
                .set_permissions(std::fs::Permissions::from_mode(mode))
                .expect("the file belongs to this user");
            let loaded = KeyRing::load(file.path());
            assert_eq!(
                matches!(loaded, Err(KeyFileError::Open { .. })),
                refused,
                "{mode:o}: {loaded:?}"
            );
        }
    }

    #[test]
    fn a_key_is_not_printed() {
        assert!(!format!("{:?}", parse(&format!("a {ONE}")).expect("a key")).contains("9f"));
    }
}
