//! Commands on the value of one key, as pure functions: the value before, the value after, the reply.
//!
//! Consecutive commands on the same key in a pipeline are applied one after the other to the same value, and the result
//! is written once.

use std::borrow::Cow;

use stonecast_kv::Expiry;

use super::error::CommandError;
use super::expiry::{ExpireRules, NewExpiry, Passed, TimeForm, When};
use super::long_double::LongDouble;
use super::object::Fact;
use super::patch::Patch;
use super::reply::Reply;
use crate::resp::decimal;

/// A command on the value of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueCommand<'a> {
    /// The value.
    Get,
    /// Returns whether there is a value, as 1 or 0.
    Exists,
    /// Returns the kind of the value.
    Type,
    /// Returns the length of the value.
    Length,
    /// Returns bytes `start` to `end`, both included; negative positions count from the end.
    Range {
        /// First byte.
        start: i64,
        /// Last byte.
        end: i64,
    },
    /// Stores a value.
    Set {
        /// The new value.
        value: &'a [u8],
        /// The condition.
        condition: SetCondition<'a>,
        /// The kind of reply.
        answer: SetAnswer,
        /// The change to the moment of the key.
        expiry: NewExpiry,
    },
    /// Adds bytes at the end.
    Append(&'a [u8]),
    /// Overwrites bytes in the middle.
    Overwrite(Patch<'a>),
    /// Adds to a number.
    Add(i64),
    /// Adds to a number with decimal places.
    AddFloat(LongDouble),
    /// Deletes the key. The reply says whether the key existed: 1 or 0.
    Delete,
    /// Deletes the key and returns its value.
    Take,
    /// Returns the value, and changes the moment.
    GetAndExpire(NewExpiry),
    /// Changes the moment. The reply says whether it was changed: 1 or 0.
    Expire {
        /// The new moment.
        when: When,
        /// The conditions.
        rules: ExpireRules,
    },
    /// Removes the moment. The reply says whether there was one: 1 or 0.
    Persist,
    /// Reports the moment.
    Report(TimeForm),
    /// Reports something else.
    Fact(Fact),
}

/// The condition under which a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetCondition<'a> {
    /// Whether or not there is a value.
    Always,
    /// If the key has no value.
    IfAbsent,
    /// If there is a value.
    IfPresent,
    /// If the value is this one.
    IfEqual(&'a [u8]),
}

/// The reply to storing a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetAnswer {
    /// OK, or null if the value was not stored.
    Done,
    /// 1, or 0 if the value was not stored.
    Count,
    /// The value before.
    Before,
}

/// The value of a key while commands are applied to it.
pub type Value<'a> = Option<Cow<'a, [u8]>>;

/// The state of a key while commands are applied to it.
#[derive(Default)]
pub struct State<'a> {
    /// The value.
    pub value: Value<'a>,
    /// The moment from which on the key is absent.
    pub expires: Option<Expiry>,
    /// Whether the state has to be written.
    pub is_changed: bool,
    /// The server's time, if a command needs it.
    pub now_ms: u64,
}

impl<'a> State<'a> {
    /// The state with a value that was read.
    pub fn of(value: Value<'a>) -> Self {
        Self {
            value,
            ..Self::default()
        }
    }

    /// Stores a value.
    fn set(&mut self, value: Cow<'a, [u8]>) {
        self.value = Some(value);
        self.is_changed = true;
    }

    /// Changes the moment of a value that is there. A moment that has passed deletes the key.
    fn expire(&mut self, new: Result<Option<Expiry>, Passed>) {
        self.is_changed |= new != Ok(self.expires);
        match new {
            Ok(expires) => self.expires = expires,
            Err(Passed) => drop(self.take()),
        }
    }

    /// Deletes the key, and returns its value.
    pub fn take(&mut self) -> Value<'a> {
        let value = self.value.take();
        self.is_changed |= value.is_some();
        self.expires = None;
        value
    }
}

impl<'a> ValueCommand<'a> {
    /// Returns whether the command may change the value.
    pub fn writes(&self) -> bool {
        matches!(
            self,
            Self::Set { .. }
                | Self::Append(_)
                | Self::Overwrite(_)
                | Self::Add(_)
                | Self::AddFloat(_)
                | Self::Delete
                | Self::Take
                | Self::GetAndExpire(_)
                | Self::Expire { .. }
                | Self::Persist
        )
    }

    /// Returns whether reply and outcome do not depend on the value before, and the key does not expire.
    pub fn is_blind(&self) -> bool {
        let is_for_good = matches!(
            self,
            Self::Set {
                expiry: NewExpiry::Never,
                ..
            }
        );
        is_for_good && self.ignores_before()
    }

    /// Returns whether reply and outcome do not depend on the value before and its moment.
    pub fn ignores_before(&self) -> bool {
        matches!(
            self,
            Self::Set {
                condition: SetCondition::Always,
                answer: SetAnswer::Done,
                expiry: NewExpiry::Never | NewExpiry::At(_),
                ..
            }
        )
    }

    /// Returns whether the command needs the server's time.
    pub fn needs_time(&self) -> bool {
        match self {
            Self::Set { expiry, .. } | Self::GetAndExpire(expiry) => expiry.needs_time(),
            Self::Expire { .. } | Self::Report(_) => true,
            _ => false,
        }
    }

    /// Returns whether the command's reply depends on the value before, which Redis counts as a hit or a miss.
    pub fn looks_up(&self) -> bool {
        match self {
            Self::Get
            | Self::Exists
            | Self::Type
            | Self::Length
            | Self::Range { .. }
            | Self::GetAndExpire(_)
            | Self::Report(_)
            | Self::Take => true,
            Self::Set { answer, .. } => *answer == SetAnswer::Before,
            Self::Append(_)
            | Self::Overwrite(_)
            | Self::Add(_)
            | Self::AddFloat(_)
            | Self::Delete
            | Self::Expire { .. }
            | Self::Fact(_)
            | Self::Persist => false,
        }
    }

    /// Returns whether the command's reply may be as long as a value.
    pub fn returns_value(&self) -> bool {
        match self {
            Self::Get
            | Self::Range { .. }
            | Self::Take
            | Self::GetAndExpire(_)
            | Self::AddFloat(_) => true,
            Self::Set { answer, .. } => *answer == SetAnswer::Before,
            _ => false,
        }
    }

    /// Applies the command and returns its reply.
    pub fn apply(&self, state: &mut State<'a>) -> Reply<'a> {
        match *self {
            Self::GetAndExpire(_) | Self::Expire { .. } | Self::Persist | Self::Report(_) => {
                self.apply_to_moment(state)
            }
            _ => self.apply_to_value(state),
        }
    }

    /// Applies a command about the moment of a key.
    fn apply_to_moment(&self, state: &mut State<'a>) -> Reply<'a> {
        let (is_there, before, now_ms) = (state.value.is_some(), state.expires, state.now_ms);
        match *self {
            Self::Report(_) if !is_there => Reply::Integer(-2),
            Self::Report(report) => Reply::Integer(report.of(before, now_ms)),
            Self::Persist => {
                if is_there {
                    state.expire(Ok(None));
                }
                Reply::Integer(before.is_some().into())
            }
            Self::GetAndExpire(expiry) => {
                let value = bulk_of(&state.value);
                if is_there {
                    state.expire(expiry.of(before, now_ms));
                }
                value
            }
            Self::Expire { when, rules } => {
                let after = when.after(now_ms).ok_or(Passed);
                let is_done = is_there && rules.allow(before, after);
                if is_done {
                    state.expire(after.map(Some));
                }
                Reply::Integer(is_done.into())
            }
            _ => unreachable!("{self:?} is about a value"),
        }
    }

    /// Applies a command about the value of a key.
    fn apply_to_value(&self, state: &mut State<'a>) -> Reply<'a> {
        let value = &mut state.value;
        match *self {
            Self::Get => bulk_of(value),
            Self::Exists => Reply::Integer(value.is_some().into()),
            Self::Type => Reply::Simple(if value.is_some() { "string" } else { "none" }),
            Self::Length => Reply::Integer(bytes_of(value).len() as i64),
            Self::Range { start, end } => Reply::Bulk(match value {
                Some(Cow::Borrowed(bytes)) => Cow::Borrowed(range(bytes, start, end)),
                other => Cow::Owned(range(bytes_of(other), start, end).to_vec()),
            }),
            Self::Set {
                value: new,
                condition,
                answer,
                expiry,
            } => {
                let stored = match condition {
                    SetCondition::Always => true,
                    SetCondition::IfAbsent => value.is_none(),
                    SetCondition::IfPresent => value.is_some(),
                    SetCondition::IfEqual(wanted) => value.as_deref() == Some(wanted),
                };
                let before = if answer == SetAnswer::Before {
                    bulk_of(value)
                } else {
                    Reply::Null
                };
                if stored {
                    state.set(Cow::Borrowed(new));
                    state.expire(expiry.of(state.expires, state.now_ms));
                }
                match (answer, stored) {
                    (SetAnswer::Done, true) => Reply::Ok,
                    (SetAnswer::Done, false) => Reply::Null,
                    (SetAnswer::Count, stored) => Reply::Integer(stored.into()),
                    (SetAnswer::Before, _) => before,
                }
            }
            Self::Append(more) => {
                if value.is_none() || !more.is_empty() {
                    let whole = value.get_or_insert_default().to_mut();
                    whole.extend_from_slice(more);
                    state.is_changed = true;
                }
                Reply::Integer(bytes_of(&state.value).len() as i64)
            }
            Self::Overwrite(patch) => patch.apply(state),
            Self::Fact(fact) => fact.tell(state),
            Self::Add(delta) => match value.as_deref().map_or(Some(0), decimal) {
                None => Reply::Error(CommandError::NotAnInteger),
                Some(number) => match number.checked_add(delta) {
                    None => Reply::Error(CommandError::Overflow),
                    Some(sum) => {
                        state.set(Cow::Owned(sum.to_string().into_bytes()));
                        Reply::Integer(sum)
                    }
                },
            },
            Self::AddFloat(delta) => add_float(state, delta),
            Self::Delete => {
                let was_there = state.take().is_some();
                Reply::Integer(was_there.into())
            }
            Self::Take => state.take().map_or(Reply::Null, Reply::Bulk),
            _ => unreachable!("{self:?} is about a moment"),
        }
    }
}

/// Adds to a number with decimal places.
fn add_float<'a>(state: &mut State<'a>, delta: LongDouble) -> Reply<'a> {
    let before = state.value.as_deref();
    let Some(before) = before.map_or(Some(LongDouble::ZERO), LongDouble::parse) else {
        return Reply::Error(CommandError::NotAFloat);
    };
    let Some(sum) = before.add(delta) else {
        return CommandError::Refused("increment would produce NaN or Infinity").into();
    };
    let text = sum.text().into_bytes();
    state.set(Cow::Owned(text.clone()));
    Reply::Bulk(Cow::Owned(text))
}

fn bulk_of<'a>(value: &Value<'a>) -> Reply<'a> {
    value.clone().map_or(Reply::Null, Reply::Bulk)
}

fn bytes_of<'v>(value: &'v Value<'_>) -> &'v [u8] {
    value.as_deref().unwrap_or_default()
}

/// Returns bytes `start` to `end`, both included; negative positions count from the end. Bytes outside the value are
/// left out, but an end before the first byte means the first byte, as in Redis.
pub fn range(bytes: &[u8], start: i64, end: i64) -> &[u8] {
    let size = bytes.len() as i64;
    if start < 0 && end < 0 && start > end {
        return &[];
    }
    let from_front = |at: i64| {
        if at < 0 {
            at.saturating_add(size).max(0)
        } else {
            at
        }
    };
    let (start, end) = (from_front(start), from_front(end).min(size - 1));
    if start > end {
        &[]
    } else {
        &bytes[start as usize..=end as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply<'a>(
        before: Option<&'a str>,
        command: ValueCommand<'a>,
    ) -> (Option<String>, bool, String) {
        let mut state = State::of(before.map(|text| Cow::Borrowed(text.as_bytes())));
        let reply = command.apply(&mut state);
        let text = |bytes: Cow<'_, [u8]>| String::from_utf8(bytes.into_owned()).unwrap();
        (state.value.map(text), state.is_changed, reply.to_string())
    }

    fn set(
        value: &'static str,
        condition: SetCondition<'static>,
        answer: SetAnswer,
    ) -> ValueCommand<'static> {
        ValueCommand::Set {
            value: value.as_bytes(),
            condition,
            answer,
            expiry: NewExpiry::Never,
        }
    }

    #[test]
    fn each_command_changes_the_value_and_answers_as_redis_does() {
        use SetAnswer::{Before, Count, Done};
        use SetCondition::{Always, IfAbsent, IfEqual, IfPresent};
        use ValueCommand::{Add, Append, Delete, Exists, Get, Length, Take, Type};
        for (before, command, after, changed, reply) in [
            (None, Get, None, false, "null"),
            (Some("a"), Get, Some("a"), false, "\"a\""),
            (None, Exists, None, false, "0"),
            (Some(""), Exists, Some(""), false, "1"),
            (None, Type, None, false, "none"),
            (Some("a"), Type, Some("a"), false, "string"),
            (None, Length, None, false, "0"),
            (Some("abc"), Length, Some("abc"), false, "3"),
            (Some("a"), set("b", Always, Done), Some("b"), true, "OK"),
            (
                Some("a"),
                set("b", IfAbsent, Done),
                Some("a"),
                false,
                "null",
            ),
            (None, set("b", IfAbsent, Done), Some("b"), true, "OK"),
            (None, set("b", IfPresent, Done), None, false, "null"),
            (Some("a"), set("b", IfPresent, Done), Some("b"), true, "OK"),
            (
                Some("a"),
                set("b", IfEqual(b"a"), Done),
                Some("b"),
                true,
                "OK",
            ),
            (
                Some("a"),
                set("b", IfEqual(b"x"), Done),
                Some("a"),
                false,
                "null",
            ),
            (None, set("b", IfEqual(b""), Done), None, false, "null"),
            (
                Some("a"),
                set("b", Always, Before),
                Some("b"),
                true,
                "\"a\"",
            ),
            (None, set("b", Always, Before), Some("b"), true, "null"),
            (
                Some("a"),
                set("b", IfAbsent, Before),
                Some("a"),
                false,
                "\"a\"",
            ),
            (None, set("b", IfPresent, Before), None, false, "null"),
            (None, set("b", IfAbsent, Count), Some("b"), true, "1"),
            (Some("a"), set("b", IfAbsent, Count), Some("a"), false, "0"),
            (None, Append(b"b"), Some("b"), true, "1"),
            (Some("a"), Append(b"b"), Some("ab"), true, "2"),
            (Some("a"), Append(b""), Some("a"), false, "1"),
            (None, Append(b""), Some(""), true, "0"),
            (None, Add(-3), Some("-3"), true, "-3"),
            (Some("41"), Add(1), Some("42"), true, "42"),
            (
                Some("9223372036854775807"),
                Add(1),
                Some("9223372036854775807"),
                false,
                "ERR increment or decrement would overflow",
            ),
            (
                Some(" 1"),
                Add(1),
                Some(" 1"),
                false,
                "ERR value is not an integer or out of range",
            ),
            (
                Some(""),
                Add(1),
                Some(""),
                false,
                "ERR value is not an integer or out of range",
            ),
            (Some("a"), Delete, None, true, "1"),
            (None, Delete, None, false, "0"),
            (Some("a"), Take, None, true, "\"a\""),
            (None, Take, None, false, "null"),
        ] {
            let expected = (after.map(str::to_owned), changed, reply.to_owned());
            assert_eq!(apply(before, command), expected, "{before:?} {command:?}");
            assert!(command.writes() || !changed);
        }
    }

    #[test]
    fn ranges_count_from_both_ends_and_leave_out_bytes_that_do_not_exist() {
        for (start, end, expected) in [
            (0, 3, "This"),
            (-3, -1, "ing"),
            (0, -1, "This is a string"),
            (10, 100, "string"),
            (5, 3, ""),
            (-100, 1, "Th"),
            (100, 200, ""),
            (i64::MIN, i64::MAX, "This is a string"),
            (0, i64::MIN, "T"),
            (-1, -3, ""),
        ] {
            assert_eq!(
                range(b"This is a string", start, end),
                expected.as_bytes(),
                "{start} {end}"
            );
        }
        assert_eq!(range(b"", 0, -1), b"");
    }
}
