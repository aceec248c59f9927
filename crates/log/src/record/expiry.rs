//! The moment from which on a key is absent.

use std::num::NonZeroU64;
use std::time::{Duration, SystemTime};

/// The moment from which on a key is absent: milliseconds since 1970 in UTC, by the time of the server.
///
/// A record keeps the moment, and its tag covers the moment. Whoever meets the record compares the moment with the
/// server's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expiry(NonZeroU64);

impl Expiry {
    /// The moment `ms` milliseconds after the begin of 1970; `None` for 0, which is no moment of a key.
    pub const fn at_ms(ms: u64) -> Option<Self> {
        match NonZeroU64::new(ms) {
            Some(ms) => Some(Self(ms)),
            None => None,
        }
    }

    /// The moment as a time of the standard library.
    pub fn time(self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.ms())
    }

    /// Milliseconds since the begin of 1970.
    #[inline]
    pub const fn ms(self) -> u64 {
        self.0.get()
    }

    /// Whether the key is absent at `now_ms`.
    #[inline]
    pub const fn has_come(self, now_ms: u64) -> bool {
        self.ms() <= now_ms
    }
}

impl TryFrom<SystemTime> for Expiry {
    type Error = NoMoment;

    /// The moment, rounded down to whole milliseconds.
    fn try_from(time: SystemTime) -> Result<Self, NoMoment> {
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        let ms = since.ok().and_then(|it| u64::try_from(it.as_millis()).ok());
        ms.and_then(Self::at_ms).ok_or(NoMoment)
    }
}

/// A time that is no moment of a key: not after the begin of 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key expires at a moment after the begin of 1970")]
pub struct NoMoment;
