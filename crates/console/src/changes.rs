//! The lines of a batch: one key a line, with a change, an expectation, or both.
//!
//! ```text
//! {"key":"stock","expect":17,"value":"2"}
//! {"key":"order 7","expect":"absent","value":"one","expires":2000000000000}
//! {"key":"draft","delete":true}
//! {"key":"shop","expect":"present"}
//! ```
//!
//! Keys and values are as in [`ndjson`](crate::ndjson), and reading is as strict. A field `version`, which an import
//! ignores, is refused: it could be meant as an expectation.

use std::fmt;
use std::io::BufRead;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, Visitor};

use crate::ndjson::{BytesSeed, LineError, Problem, Reader, check_key, check_value, problem_of};

/// The fields of a line.
const FIELDS: &[&str] = &["key", "value", "delete", "expires", "expect"];

/// One key of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// 1 to [`KEY_SIZE_MAX`](stonecast_kv::limits::KEY_SIZE_MAX) bytes.
    pub key: Vec<u8>,
    /// `None`: the line only expects.
    pub change: Option<Change>,
    /// `None`: the key may be in any state.
    pub expected: Option<Expected>,
}

/// The change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key gets this value, until `expires` in milliseconds since 1970 if there is such a moment.
    Put {
        /// 0 to [`VALUE_SIZE_MAX`](stonecast_kv::limits::VALUE_SIZE_MAX) bytes.
        value: Vec<u8>,
        /// Not 0.
        expires: Option<u64>,
    },
    /// The key is removed.
    Delete,
}

/// The state of a key before the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The key has this version.
    Version(u64),
    /// The key is absent.
    Absent,
    /// The key is present.
    Present,
}

impl<R: BufRead> Reader<R> {
    /// Returns the next line of a batch; `None` at the end.
    pub fn next_change(&mut self) -> Result<Option<Line>, LineError> {
        Ok(self.next_line(parse)?.map(|(line, _)| line))
    }
}

/// Reads one line.
fn parse(line: &[u8]) -> Result<Line, Problem> {
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let line = LineSeed
        .deserialize(&mut deserializer)
        .and_then(|line| deserializer.end().map(|()| line));
    let line = line.map_err(|error| problem_of(&error))?;
    check_key(&line.key)?;
    match &line.change {
        Some(Change::Put { value, expires }) => check_value(value, *expires).map(|()| line),
        Some(Change::Delete) | None => Ok(line),
    }
}

struct LineSeed;

impl<'de> DeserializeSeed<'de> for LineSeed {
    type Value = Line;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Line, D::Error> {
        deserializer.deserialize_map(self)
    }
}

/// A field that may be given once.
fn once<T, E: de::Error>(place: &mut Option<T>, name: &'static str, value: T) -> Result<(), E> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::duplicate_field(name)),
    }
}

impl<'de> Visitor<'de> for LineSeed {
    type Value = Line;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with `key` and a change or an expectation")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Line, A::Error> {
        let (mut key, mut value, mut delete) = (None, None, None);
        let (mut expires, mut expected) = (None, None);
        while let Some(field) = map.next_key::<String>()? {
            match &*field {
                "key" => once(&mut key, "key", map.next_value_seed(BytesSeed)?)?,
                "value" => once(&mut value, "value", map.next_value_seed(BytesSeed)?)?,
                "delete" => once(&mut delete, "delete", map.next_value::<bool>()?)?,
                "expires" => once(&mut expires, "expires", map.next_value::<u64>()?)?,
                "expect" => once(&mut expected, "expect", map.next_value_seed(ExpectedSeed)?)?,
                _ => return Err(de::Error::unknown_field(&field, FIELDS)),
            }
        }
        let key = key.ok_or_else(|| de::Error::missing_field("key"))?;
        let change = match (value, delete, expires) {
            (Some(value), None, expires) => Some(Change::Put { value, expires }),
            (None, Some(true), None) => Some(Change::Delete),
            (None, None, None) if expected.is_some() => None,
            (None, None, None) => {
                let message =
                    "a line has `value`, `\"delete\":true`, `expect`, or a change with `expect`";
                return Err(de::Error::custom(message));
            }
            (Some(_), Some(_), _) => {
                return Err(de::Error::custom("a key has `value` or `delete`, not both"));
            }
            (None, Some(false), _) => {
                return Err(de::Error::custom("`delete` is true, or is not there"));
            }
            (None, _, Some(_)) => {
                return Err(de::Error::custom("`expires` belongs to a `value`"));
            }
        };
        Ok(Line {
            key,
            change,
            expected,
        })
    }
}

/// A version, or a word.
struct ExpectedSeed;

impl<'de> DeserializeSeed<'de> for ExpectedSeed {
    type Value = Expected;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Expected, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for ExpectedSeed {
    type Value = Expected;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a version, \"absent\" or \"present\"")
    }

    fn visit_u64<E: de::Error>(self, version: u64) -> Result<Expected, E> {
        Ok(Expected::Version(version))
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<Expected, E> {
        match word {
            "absent" => Ok(Expected::Absent),
            "present" => Ok(Expected::Present),
            _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_change_an_expectation_or_both() {
        let put = |value: &[u8], expires| {
            let value = value.to_vec();
            Some(Change::Put { value, expires })
        };
        for (text, change, expected) in [
            (r#"{"key":"k","value":"v"}"#, put(b"v", None), None),
            (
                r#"{"value":{"base64":"AP8="},"expires":7,"key":{"base64":"aw=="},"expect":"absent"}"#,
                put(&[0, 0xff], Some(7)),
                Some(Expected::Absent),
            ),
            (
                r#"{"key":"k","delete":true,"expect":17}"#,
                Some(Change::Delete),
                Some(Expected::Version(17)),
            ),
            (
                r#" {"key":"k","expect":"present"} "#,
                None,
                Some(Expected::Present),
            ),
        ] {
            let key = b"k".to_vec();
            let line = Line {
                key,
                change,
                expected,
            };
            assert_eq!(parse(text.as_bytes()).expect(text), line);
        }
    }

    /// Needs each check of the parser.
    #[test]
    fn a_line_that_could_mean_something_else_is_refused_with_the_reason() {
        for (text, reason) in [
            (r#"{"key":"k"}"#, "a line has `value`"),
            (
                r#"{"key":"k","value":"v","delete":true}"#,
                "`value` or `delete`, not both",
            ),
            (r#"{"key":"k","delete":false}"#, "`delete` is true"),
            (
                r#"{"key":"k","delete":true,"expires":7}"#,
                "`expires` belongs to a `value`",
            ),
            (
                r#"{"key":"k","expect":1,"expires":7}"#,
                "`expires` belongs to a `value`",
            ),
            (r#"{"key":"k","value":"v","expires":0}"#, "`expires` is 0"),
            (
                r#"{"key":"k","value":"v","version":17}"#,
                "unknown field `version`, expected one of `key`",
            ),
            (
                r#"{"key":"k","expect":1,"expect":"absent"}"#,
                "duplicate field `expect`",
            ),
            (
                r#"{"key":"k","expect":"there"}"#,
                "invalid value: string \"there\", expected a version, \"absent\" or \"present\"",
            ),
            (r#"{"key":"k","expect":null}"#, "expected a version"),
            (r#"{"key":"k","expect":-1}"#, "expected a version"),
            (r#"{"key":"","delete":true}"#, "the key is empty"),
            (r#"{"value":"v"}"#, "missing field `key`"),
            (r#"["k","v"]"#, "invalid type: sequence"),
            (r#"{"key":"k","delete":true} x"#, "trailing characters"),
        ] {
            let message = parse(text.as_bytes()).expect_err(text).to_string();
            assert!(message.contains(reason), "{text}: {message}");
        }
    }
}
