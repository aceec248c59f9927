//! Expiry of keys: the arguments that name a moment, and the effect of each command on the moment of a key.
//!
//! A moment that has passed deletes the key at once, as in Redis. A moment is compared with the server's time, never
//! with the clock of the gateway.

use stonecast_kv::Expiry;

use super::error::CommandError;
use super::operation::Arguments;
use super::options::{integer, is};

/// A moment as a command names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    /// Milliseconds, since the begin of 1970 or from now on.
    ms: i64,
    /// Whether they count from now; otherwise from the begin of 1970.
    is_relative: bool,
}

/// The change to the moment of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewExpiry {
    /// The key does not expire.
    Never,
    /// The key keeps its moment.
    Keep,
    /// The key expires then.
    At(When),
}

/// The conditions of `EXPIRE`. Without a moment, a key expires at the end of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpireRules {
    /// Whether the key must have a moment (`XX`) or must have none (`NX`).
    pub has_moment: Option<bool>,
    /// Whether the new moment must be later (`GT`) or earlier (`LT`).
    pub is_later: Option<bool>,
}

/// The way in which a moment is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeForm {
    /// Whether in milliseconds, and not in seconds.
    pub in_ms: bool,
    /// Whether from now, and not from the begin of 1970.
    pub is_relative: bool,
}

/// The latest moment that is accepted: far beyond any clock, and no sum overflows.
const MOMENT_MAX_MS: i64 = i64::MAX / 4;

impl When {
    /// The moment in `text`, in milliseconds or seconds, for the command `name`.
    pub fn read(
        text: &[u8],
        (in_ms, is_relative): (bool, bool),
        name: &'static str,
    ) -> Result<Self, CommandError> {
        let number = integer(text)?;
        let ms = match in_ms {
            true => Some(number),
            false => number.checked_mul(1000),
        };
        let ms = ms.filter(|ms| (-MOMENT_MAX_MS..=MOMENT_MAX_MS).contains(ms));
        let ms = ms.ok_or(CommandError::ExpireTime(name))?;
        Ok(Self { ms, is_relative })
    }

    /// Like [`When::read`], for commands that refuse 0 and negative numbers.
    pub fn read_positive(
        text: &[u8],
        kind: (bool, bool),
        name: &'static str,
    ) -> Result<Self, CommandError> {
        let when = Self::read(text, kind, name)?;
        match when.ms > 0 {
            true => Ok(when),
            false => Err(CommandError::ExpireTime(name)),
        }
    }

    /// The moment, if it lies after `now_ms`.
    pub fn after(self, now_ms: u64) -> Option<Expiry> {
        let ms = match self.is_relative {
            true => i64::try_from(now_ms).ok()?.saturating_add(self.ms),
            false => self.ms,
        };
        let ms = u64::try_from(ms).ok()?;
        Expiry::at_ms(ms).filter(|moment| !moment.has_come(now_ms))
    }
}

impl NewExpiry {
    /// Reads the option number `index` of `SET` or `GETEX`, and its value. `None`: the option does not concern the
    /// expiry. Returns the number of arguments that were read.
    pub fn read(
        arguments: Arguments<'_>,
        index: usize,
        name: &'static str,
    ) -> Result<Option<(Self, usize)>, CommandError> {
        let option = arguments.at(index);
        let kinds = [
            ("EX", (false, true)),
            ("PX", (true, true)),
            ("EXAT", (false, false)),
            ("PXAT", (true, false)),
        ];
        let Some((_, kind)) = kinds.into_iter().find(|(word, _)| is(option, word)) else {
            return Ok(None);
        };
        let text = arguments.get(index + 1).ok_or(CommandError::Syntax)?;
        let when = When::read_positive(text, kind, name)?;
        Ok(Some((Self::At(when), 2)))
    }

    /// Whether the server's time is needed.
    pub fn needs_time(self) -> bool {
        matches!(self, Self::At(_))
    }

    /// The moment of a key that had `before`; `Err`: the moment has passed.
    pub fn of(self, before: Option<Expiry>, now_ms: u64) -> Result<Option<Expiry>, Passed> {
        match self {
            Self::Never => Ok(None),
            Self::Keep => Ok(before),
            Self::At(when) => when.after(now_ms).map(Some).ok_or(Passed),
        }
    }
}

/// A moment that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed;

impl ExpireRules {
    /// Reads the options of `EXPIRE` and its like.
    pub fn read(options: Arguments<'_>) -> Result<Self, CommandError> {
        let mut rules = Self::default();
        let (mut nx, mut gt, mut lt) = (false, false, false);
        for option in options.iter() {
            if is(option, "NX") {
                nx = true;
            } else if is(option, "XX") {
                rules.has_moment = Some(true);
            } else if is(option, "GT") {
                gt = true;
            } else if is(option, "LT") {
                lt = true;
            } else {
                return Err(CommandError::UnsupportedOption(option.to_vec()));
            }
        }
        if nx && (gt || lt || rules.has_moment.is_some()) {
            return Err(CommandError::Refused(
                "NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if gt && lt {
            return Err(CommandError::Refused(
                "GT and LT options at the same time are not compatible",
            ));
        }
        if nx {
            rules.has_moment = Some(false);
        }
        if gt || lt {
            rules.is_later = Some(gt);
        }
        Ok(rules)
    }

    /// Whether a key with the moment `before` may get the moment `after`; `Err` is one that has passed.
    pub fn allow(self, before: Option<Expiry>, after: Result<Expiry, Passed>) -> bool {
        let before_ms = before.map_or(u64::MAX, Expiry::ms);
        let after_ms = after.map_or(0, Expiry::ms);
        self.has_moment.is_none_or(|has| has == before.is_some())
            && self.is_later.is_none_or(|is_later| match is_later {
                true => after_ms > before_ms,
                false => after_ms < before_ms,
            })
    }
}

impl TimeForm {
    /// The number that reports the moment of a key; Redis rounds seconds.
    pub fn of(self, expires: Option<Expiry>, now_ms: u64) -> i64 {
        let Some(expires) = expires else {
            return -1;
        };
        let ms = match self.is_relative {
            true => expires.ms().saturating_sub(now_ms),
            false => expires.ms(),
        };
        let number = match self.in_ms {
            true => ms,
            false => ms.saturating_add(500) / 1000,
        };
        i64::try_from(number).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn when(text: &str, in_ms: bool, is_relative: bool) -> Result<When, String> {
        When::read(text.as_bytes(), (in_ms, is_relative), "expire").map_err(|it| it.to_string())
    }

    #[test]
    fn a_moment_lies_after_now_or_has_passed() {
        let at = |when: Result<When, String>| when.unwrap().after(10_000).map(Expiry::ms);
        assert_eq!(at(when("2", false, true)), Some(12_000));
        assert_eq!(at(when("2", true, true)), Some(10_002));
        assert_eq!(at(when("11", false, false)), Some(11_000));
        for (text, in_ms, is_relative) in [
            ("0", false, true),
            ("-1", true, true),
            ("10", false, false),
            ("-5", false, false),
        ] {
            assert_eq!(at(when(text, in_ms, is_relative)), None, "{text}");
        }
    }

    #[test]
    fn numbers_beyond_any_clock_are_refused_in_the_words_of_redis() {
        let invalid = "ERR invalid expire time in 'expire' command";
        assert_eq!(
            when("9223372036854775807", false, true).unwrap_err(),
            invalid
        );
        assert_eq!(
            when("9223372036854775807", true, true).unwrap_err(),
            invalid
        );
        assert!(
            when("x", true, true)
                .unwrap_err()
                .contains("not an integer")
        );
    }

    #[test]
    fn a_key_without_a_moment_expires_at_the_end_of_time() {
        let at = |ms| Expiry::at_ms(ms).unwrap();
        let later = ExpireRules {
            has_moment: None,
            is_later: Some(true),
        };
        let earlier = ExpireRules {
            is_later: Some(false),
            ..later
        };
        assert!(!later.allow(None, Ok(at(5))) && earlier.allow(None, Ok(at(5))));
        assert!(later.allow(Some(at(4)), Ok(at(5))) && !later.allow(Some(at(5)), Ok(at(5))));
        assert!(earlier.allow(Some(at(5)), Err(Passed)) && !later.allow(Some(at(5)), Err(Passed)));
    }

    #[test]
    fn seconds_are_rounded() {
        let left = TimeForm {
            in_ms: false,
            is_relative: true,
        };
        let of = |ms| left.of(Expiry::at_ms(ms), 1000);
        assert_eq!([of(2499), of(2500), of(0)], [1, 2, -1]);
    }
}
