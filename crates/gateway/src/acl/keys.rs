//! Patterns of keys, and the ways in which a command uses a key.

use crate::glob;

/// The ways in which a key is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The value is returned, copied, or decides the outcome.
    pub reads: bool,
    /// The value is changed or removed.
    pub writes: bool,
}

impl Access {
    /// Only facts about a key are told: whether it exists, its length. Any pattern that the key matches allows that, as
    /// in Redis.
    pub const LOOK: Self = Self::new(false, false);
    /// The value is read.
    pub const READ: Self = Self::new(true, false);
    /// The value is written.
    pub const WRITE: Self = Self::new(false, true);
    /// The value is read and written.
    pub const BOTH: Self = Self::new(true, true);

    const fn new(reads: bool, writes: bool) -> Self {
        Self { reads, writes }
    }

    /// The rights of both together.
    pub(super) fn or(self, other: Self) -> Self {
        Self::new(self.reads || other.reads, self.writes || other.writes)
    }

    /// Whether the rights `self` include `used`.
    fn allows(self, used: Self) -> bool {
        self.reads >= used.reads && self.writes >= used.writes
    }
}

/// A pattern of keys, and the accesses that it allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyPattern {
    pub allowed: Access,
    pub pattern: Vec<u8>,
}

impl KeyPattern {
    /// Of all keys.
    pub fn all() -> Self {
        Self {
            allowed: Access::BOTH,
            pattern: b"*".to_vec(),
        }
    }

    /// Reads `~p`, `%R~p`, `%W~p`, `%RW~p`; `None`: the text is none of these.
    pub fn read(rule: &[u8]) -> Option<Self> {
        let (allowed, pattern) = match rule {
            [b'~', pattern @ ..] => (Access::BOTH, pattern),
            [b'%', rest @ ..] => {
                let tilde = rest.iter().position(|&byte| byte == b'~')?;
                let (letters, pattern) = (&rest[..tilde], &rest[tilde + 1..]);
                let has = |letter: u8| letters.iter().any(|it| it.eq_ignore_ascii_case(&letter));
                let (reads, writes) = (has(b'r'), has(b'w'));
                let known = usize::from(reads) + usize::from(writes);
                if letters.is_empty() || letters.len() != known {
                    return None;
                }
                (Access::new(reads, writes), pattern)
            }
            _ => return None,
        };
        // A line of a file could not have it.
        let is_plain = |byte: &u8| !byte.is_ascii_whitespace() && *byte != 0;
        pattern.iter().all(is_plain).then(|| Self {
            allowed,
            pattern: pattern.to_vec(),
        })
    }

    /// The rule of this pattern.
    pub fn rule(&self) -> Vec<u8> {
        let sign: &[u8] = match (self.allowed.reads, self.allowed.writes) {
            (true, false) => b"%R~",
            (false, true) => b"%W~",
            _ => b"~",
        };
        [sign, &self.pattern].concat()
    }

    /// Whether the pattern allows every use of every key.
    pub fn is_all(&self) -> bool {
        self.allowed == Access::BOTH && self.pattern == b"*"
    }

    /// Whether the pattern allows this use of `key`.
    pub fn fits(&self, key: &[u8], used: Access) -> bool {
        self.allowed.allows(used) && glob::matches(&self.pattern, key)
    }
}
