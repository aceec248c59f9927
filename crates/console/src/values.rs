//! The exchange format of values without keys, as stacks and queues have them: one value a line, `{"value":..}`.
//!
//! Values are as in [`ndjson`](crate::ndjson), and so are reading and the canonical form. A field `key` is refused: it
//! would be lost.

use std::fmt;
use std::io::{self, BufRead};

use serde::Serialize;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, Visitor};

use crate::ndjson::{Bytes, BytesSeed, LineError, Problem, Reader, check_value, problem_of};

impl<R: BufRead> Reader<R> {
    /// Returns the next value and the number of bytes of input since the last one; `None` at the end.
    pub fn next_value(&mut self) -> Result<Option<(Vec<u8>, u64)>, LineError> {
        self.next_line(parse)
    }
}

/// Appends one line in the canonical form to `output`.
pub fn write(output: &mut Vec<u8>, value: &[u8]) -> io::Result<()> {
    let value = Bytes(value);
    serde_json::to_writer(&mut *output, &Line { value })?;
    output.push(b'\n');
    Ok(())
}

#[derive(Serialize)]
struct Line<'a> {
    value: Bytes<'a>,
}

/// Reads one line.
fn parse(line: &[u8]) -> Result<Vec<u8>, Problem> {
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let value = LineSeed
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    let value = value.map_err(|error| problem_of(&error))?;
    check_value(&value, None)?;
    Ok(value)
}

/// A line. Derived code would also accept `["value"]`.
struct LineSeed;

impl<'de> DeserializeSeed<'de> for LineSeed {
    type Value = Vec<u8>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<u8>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for LineSeed {
    type Value = Vec<u8>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with `value`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<u8>, A::Error> {
        let mut value = None;
        while let Some(field) = map.next_key::<String>()? {
            if field != "value" {
                return Err(de::Error::unknown_field(&field, &["value"]));
            }
            if value.is_some() {
                return Err(de::Error::duplicate_field("value"));
            }
            value = Some(map.next_value_seed(BytesSeed)?);
        }
        value.ok_or_else(|| de::Error::missing_field("value"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_that_is_not_exactly_a_value_is_refused_with_the_reason() {
        for (line, reason) in [
            (r#"["v"]"#, "invalid type: sequence, expected an object"),
            (r"{}", "missing field `value`"),
            (
                r#"{"key":"k","value":"v"}"#,
                "unknown field `key`, expected `value`",
            ),
            (r#"{"value":"v","value":"w"}"#, "duplicate field `value`"),
            (r#"{"value":1}"#, "expected a string or {\"base64\""),
            (r#"{"value":"v"} {"value":"w"}"#, "trailing characters"),
        ] {
            let problem = parse(line.as_bytes()).expect_err(line).to_string();
            assert!(problem.contains(reason), "{line}: {problem}");
        }
        let long = vec![b'v'; stonecast_kv::limits::VALUE_SIZE_MAX + 1];
        let mut line = Vec::new();
        write(&mut line, &long).expect("a vector takes everything");
        assert!(matches!(parse(&line), Err(Problem::LongValue { .. })));
    }

    proptest! {
        #[test]
        fn values_are_read_as_they_were_written(values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..5)) {
            let mut lines = Vec::new();
            for value in &values {
                write(&mut lines, value).expect("a vector takes everything");
            }
            let mut reader = Reader::new(&lines[..]);
            let (mut read, mut size) = (Vec::new(), 0);
            while let Some((value, bytes)) = reader.next_value().expect("sound lines") {
                read.push(value);
                size += bytes;
            }
            prop_assert_eq!(read, values);
            prop_assert_eq!(size, lines.len() as u64);
        }
    }
}
