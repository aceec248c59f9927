//! The exchange format: one entry a line, `{"key":..,"value":..}`, with `"expires":..` behind if the key expires.
//!
//! Keys and values are bytes. A line represents each of them as a JSON string, which stands for its UTF-8 bytes, or as
//! `{"base64":"..."}` (RFC 4648, standard alphabet, with padding).
//!
//! *Reading* accepts any JSON with exactly this meaning: any white space, any order of the two fields, any escapes.
//! Reading is strict about the meaning. Each of these is an error that names the line, and nothing of that line is
//! returned: a field that is missing, unknown or given twice, another type, bytes that are not UTF-8, half a surrogate
//! pair, base64 that is not canonical, a key or value that the store would refuse, a moment of 0. A field `version`,
//! which `get --json` prints, is ignored, since a store assigns versions itself. Lines of only white space are skipped.
//!
//! *Writing* gives the canonical form, one of many with the same meaning: `key` first, no white space, a string if the
//! bytes are UTF-8 and base64 if they are not; in strings `\"` and `\\`, for U+0000 to U+001F `\b \t \n \f \r` or
//! `\u00` and two lower-case digits, and every other character as itself (also `/`, U+007F and everything beyond
//! ASCII); a line feed ends each line, including the last. A canonical file with unique keys therefore is unchanged by
//! an import and an export.

use std::fmt;
use std::io::{self, BufRead, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};
use stonecast_kv::limits::{KEY_SIZE_MAX, VALUE_SIZE_MAX};

/// The longest line, in bytes: every byte of the largest entry as `\u00xx`, and some white space.
const LINE_SIZE_MAX: u64 = 6 * (KEY_SIZE_MAX as u64 + VALUE_SIZE_MAX as u64) + 4096;

/// One key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// 1 to [`KEY_SIZE_MAX`] bytes.
    pub key: Vec<u8>,
    /// 0 to [`VALUE_SIZE_MAX`] bytes.
    pub value: Vec<u8>,
    /// The moment from which on the key is absent, in milliseconds since 1970 in UTC, not 0; `None`: the key does not
    /// expire.
    pub expires: Option<u64>,
}

/// A line that is not an entry.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct LineError {
    /// The number of the line, from 1.
    pub line: u64,
    /// The fault of the line.
    pub problem: Problem,
}

/// The fault of a line.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The line is not JSON, or not the JSON of an entry.
    #[error("column {column}: {message}")]
    Json {
        /// The position, in bytes from 1.
        column: usize,
        /// The parser's message.
        message: String,
    },
    /// A key of no bytes.
    #[error("the key is empty; a key has 1 to {KEY_SIZE_MAX} bytes")]
    EmptyKey,
    /// A key that is too long for a record.
    #[error("the key has {size} bytes; a key has 1 to {KEY_SIZE_MAX} bytes")]
    LongKey {
        /// The size in bytes.
        size: usize,
    },
    /// A value that is too long for a record.
    #[error("the value has {size} bytes; a value has at most {VALUE_SIZE_MAX} bytes")]
    LongValue {
        /// The size in bytes.
        size: usize,
    },
    /// A moment of 0, which is no moment of a key.
    #[error("`expires` is 0; a key expires at a moment after the begin of 1970, in ms")]
    NoMoment,
    /// The line is longer than any entry needs.
    #[error("the line is longer than {LINE_SIZE_MAX} bytes, which no entry needs")]
    LongLine,
    /// The input cannot be read.
    #[error("reading: {0}")]
    Input(io::Error),
}

impl LineError {
    /// Returns whether the input only pauses: the next call then continues at the same byte.
    pub fn is_pause(&self) -> bool {
        matches!(&self.problem, Problem::Input(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// Reads entries, one line in memory at a time.
pub struct Reader<R> {
    input: R,
    line: u64,
    /// Bytes of input since the last entry, without the line in `buffer`.
    used: u64,
    /// The part of the next line that has been read.
    buffer: Vec<u8>,
}

impl<R: BufRead> Reader<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> Self {
        Self {
            input,
            line: 0,
            used: 0,
            buffer: Vec::new(),
        }
    }

    /// Number of the line that was read last, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Returns the next entry and the number of bytes of input since the last one; `None` at the end.
    pub fn next_entry(&mut self) -> Result<Option<(Entry, u64)>, LineError> {
        self.next_line(parse)
    }

    /// Returns what `parse` makes of the next line that is not empty, with the number of bytes of input since the last
    /// one; `None` at the end.
    pub(crate) fn next_line<T>(
        &mut self,
        parse: impl Fn(&[u8]) -> Result<T, Problem>,
    ) -> Result<Option<(T, u64)>, LineError> {
        loop {
            let line = self.line + 1;
            let failed = |problem| LineError { line, problem };
            let room = LINE_SIZE_MAX + 1 - self.buffer.len() as u64;
            let limited = &mut self.input.by_ref().take(room);
            // Bytes read before an error stay in the buffer.
            limited
                .read_until(b'\n', &mut self.buffer)
                .map_err(|error| failed(Problem::Input(error)))?;
            let size = self.buffer.len() as u64;
            if size == 0 {
                return Ok(None);
            }
            if size > LINE_SIZE_MAX {
                return Err(failed(Problem::LongLine));
            }
            self.line = line;
            self.used += size;
            let text = self.buffer.trim_ascii_end();
            let parsed = (!text.trim_ascii().is_empty()).then(|| parse(text));
            self.buffer.clear();
            if let Some(parsed) = parsed {
                let used = std::mem::take(&mut self.used);
                return parsed.map(|parsed| Some((parsed, used))).map_err(failed);
            }
        }
    }
}

/// Reads one line.
pub fn parse(line: &[u8]) -> Result<Entry, Problem> {
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let entry = EntrySeed
        .deserialize(&mut deserializer)
        .and_then(|entry| deserializer.end().map(|()| entry));
    let entry = entry.map_err(|error| problem_of(&error))?;
    check_key(&entry.key)?;
    check_value(&entry.value, entry.expires)?;
    Ok(entry)
}

/// Whether a record can have this key.
pub(crate) fn check_key(key: &[u8]) -> Result<(), Problem> {
    match key.len() {
        0 => Err(Problem::EmptyKey),
        size if size > KEY_SIZE_MAX => Err(Problem::LongKey { size }),
        _ => Ok(()),
    }
}

/// Whether a record can have this value and this moment.
pub(crate) fn check_value(value: &[u8], expires: Option<u64>) -> Result<(), Problem> {
    match value.len() {
        size if size > VALUE_SIZE_MAX => Err(Problem::LongValue { size }),
        _ if expires == Some(0) => Err(Problem::NoMoment),
        _ => Ok(()),
    }
}

/// Appends one line in the canonical form to `output`.
pub fn write(
    output: &mut Vec<u8>,
    (key, value): (&[u8], &[u8]),
    expires: Option<u64>,
) -> io::Result<()> {
    serde_json::to_writer(
        &mut *output,
        &Line {
            key: Bytes(key),
            value: Bytes(value),
            expires,
        },
    )?;
    output.push(b'\n');
    Ok(())
}

/// Bytes in the canonical form, for all JSON that the program prints.
pub struct Bytes<'a>(pub &'a [u8]);

struct Line<'a> {
    key: Bytes<'a>,
    value: Bytes<'a>,
    expires: Option<u64>,
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = 2 + usize::from(self.expires.is_some());
        let mut line = serializer.serialize_struct("Line", fields)?;
        line.serialize_field("key", &self.key)?;
        line.serialize_field("value", &self.value)?;
        if let Some(expires) = self.expires {
            line.serialize_field("expires", &expires)?;
        }
        line.end()
    }
}

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = std::str::from_utf8(self.0) {
            return serializer.serialize_str(text);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("base64", &BASE64.encode(self.0))?;
        map.end()
    }
}

/// The parser reports a position in its input, which is a single line; the caller adds the number of the line.
pub(crate) fn problem_of(error: &serde_json::Error) -> Problem {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    Problem::Json {
        column: error.column().max(1),
        message: message.strip_suffix(&place).unwrap_or(&message).to_owned(),
    }
}

/// A line. Derived code would also accept `["key","value"]`.
struct EntrySeed;

impl<'de> DeserializeSeed<'de> for EntrySeed {
    type Value = Entry;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Entry, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EntrySeed {
    type Value = Entry;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with `key` and `value`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
        let (mut key, mut value, mut versions) = (None, None, 0);
        let mut expires = None;
        while let Some(field) = map.next_key::<String>()? {
            if field == "version" {
                if versions > 0 {
                    return Err(de::Error::duplicate_field("version"));
                }
                versions += 1;
                map.next_value::<u64>()?;
                continue;
            }
            if field == "expires" {
                if expires.is_some() {
                    return Err(de::Error::duplicate_field("expires"));
                }
                expires = Some(map.next_value::<u64>()?);
                continue;
            }
            let (name, place) = match &*field {
                "key" => ("key", &mut key),
                "value" => ("value", &mut value),
                _ => return Err(de::Error::unknown_field(&field, &["key", "value"])),
            };
            if place.is_some() {
                return Err(de::Error::duplicate_field(name));
            }
            *place = Some(map.next_value_seed(BytesSeed)?);
        }
        Ok(Entry {
            key: key.ok_or_else(|| de::Error::missing_field("key"))?,
            value: value.ok_or_else(|| de::Error::missing_field("value"))?,
            expires,
        })
    }
}

/// A key or a value.
pub(crate) struct BytesSeed;

impl<'de> DeserializeSeed<'de> for BytesSeed {
    type Value = Vec<u8>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<u8>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for BytesSeed {
    type Value = Vec<u8>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string or {\"base64\": \"...\"}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<u8>, E> {
        Ok(text.as_bytes().to_vec())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<u8>, A::Error> {
        let mut bytes = None;
        while let Some(field) = map.next_key::<String>()? {
            if field != "base64" {
                return Err(de::Error::unknown_field(&field, &["base64"]));
            }
            if bytes.is_some() {
                return Err(de::Error::duplicate_field("base64"));
            }
            let text = map.next_value::<String>()?;
            bytes = Some(
                BASE64
                    .decode(text)
                    .map_err(|error| de::Error::custom(format_args!("bad base64: {error}")))?,
            );
        }
        bytes.ok_or_else(|| de::Error::missing_field("base64"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line_of(entry: &Entry) -> String {
        let mut line = Vec::new();
        write(&mut line, (&entry.key, &entry.value), entry.expires)
            .expect("a vector takes everything");
        String::from_utf8(line).expect("JSON is UTF-8")
    }

    fn message_of(line: &str) -> String {
        parse(line.as_bytes()).expect_err(line).to_string()
    }

    /// Needs a visitor for maps only: derived code accepts an array as an entry.
    #[test]
    fn a_line_that_is_not_exactly_an_entry_is_refused_with_the_reason() {
        for (line, reason) in [
            (
                r#"["k","v"]"#,
                "column 1: invalid type: sequence, expected an object with `key` and `value`",
            ),
            (r#"{"key":"k"}"#, "missing field `value`"),
            (r#"{"value":"v"}"#, "missing field `key`"),
            (
                r#"{"key":"k","value":"v","ttl":"1"}"#,
                "unknown field `ttl`, expected `key` or `value`",
            ),
            (
                r#"{"key":"k","key":"l","value":"v"}"#,
                "duplicate field `key`",
            ),
            (
                r#"{"key":1,"value":"v"}"#,
                "invalid type: integer `1`, expected a string or {\"base64\": \"...\"}",
            ),
            (r#"{"key":"k","value":null}"#, "invalid type: null"),
            (r#"{"key":"k","value":["v"]}"#, "invalid type: sequence"),
            (r#"{"key":"k","value":{}}"#, "missing field `base64`"),
            (
                r#"{"key":"k","value":{"hex":"00"}}"#,
                "unknown field `hex`, expected `base64`",
            ),
            (
                r#"{"key":"k","value":{"base64":"AA==","base64":"AA=="}}"#,
                "duplicate field `base64`",
            ),
            (r#"{"key":"k","value":{"base64":"AA"}}"#, "bad base64"),
            (r#"{"key":"k","value":{"base64":"AB=="}}"#, "bad base64"),
            (r#"{"key":"k","value":{"base64":"A A="}}"#, "bad base64"),
            (
                r#"{"key":"k","value":"v","expires":0}"#,
                "`expires` is 0; a key expires",
            ),
            (
                r#"{"key":"k","value":"v","expires":-1}"#,
                "invalid value: integer `-1`, expected u64",
            ),
            (
                r#"{"key":"k","value":"v","expires":1,"expires":1}"#,
                "duplicate field `expires`",
            ),
            (r#"{"key":"","value":"v"}"#, "the key is empty"),
            (r#"{"key":"k","value":"v"} x"#, "trailing characters"),
            (
                r#"{"key":"k","value":"v"}{"key":"l","value":"v"}"#,
                "trailing characters",
            ),
            (
                r#"{"key":"k","value":"\ud800"}"#,
                "column 27: unexpected end of hex escape",
            ),
            (r#"{"key":"k","value":"\udc00"}"#, "lone leading surrogate"),
            (r#"{"key":"k","value":"v""#, "EOF while parsing"),
            ("{\"key\":\"k\",\"value\":\"\t\"}", "control character"),
            ("\u{feff}{\"key\":\"k\",\"value\":\"v\"}", "expected value"),
        ] {
            let message = message_of(line);
            assert!(
                message.contains(reason),
                "{line}\n gave {message}\n not  {reason}"
            );
        }
        let broken = [b"{\"key\":\"k\",\"value\":\"".as_slice(), b"\xff\"}"].concat();
        assert!(
            parse(&broken)
                .unwrap_err()
                .to_string()
                .contains("invalid unicode code point")
        );
    }

    #[test]
    fn sizes_are_checked_after_escapes_and_base64_are_decoded() {
        let entry = |key: usize, value: usize| Entry {
            key: vec![0; key],
            value: vec![0xff; value],
            expires: None,
        };
        for good in [entry(1, 0), entry(KEY_SIZE_MAX, VALUE_SIZE_MAX)] {
            assert_eq!(
                parse(line_of(&good).as_bytes()).expect("within the limits"),
                good
            );
        }
        assert_eq!(
            message_of(&line_of(&entry(1025, 0))),
            "the key has 1025 bytes; a key has 1 to 1024 bytes"
        );
        assert_eq!(
            message_of(&line_of(&entry(1, VALUE_SIZE_MAX + 1))),
            "the value has 16777217 bytes; a value has at most 16777216 bytes"
        );
    }

    #[test]
    fn the_canonical_form_is_as_documented() {
        let text = "\u{0}\u{8}\t\n\u{b}\u{c}\r\u{1f}\"\\/\u{7f}\u{80}\u{2028}\u{e9}\u{1f600}";
        let entry = Entry {
            key: vec![b'k', 0xff],
            value: text.as_bytes().to_vec(),
            expires: Some(2_000_000_000_000),
        };
        let line = concat!(
            r#"{"key":{"base64":"a/8="},"value":"\u0000\b\t\n\u000b\f\r\u001f\"\\/"#,
            "\u{7f}\u{80}\u{2028}\u{e9}\u{1f600}\",\"expires\":2000000000000}\n"
        );
        assert_eq!(line_of(&entry), line);
    }

    #[test]
    fn other_forms_of_the_same_entry_are_read_alike() {
        let canonical = Entry {
            key: b"k/".to_vec(),
            value: "\u{7f}\u{1f600}a".into(),
            expires: None,
        };
        for line in [
            " { \"value\" : \"\\u007F\\uD83D\\ude00\\u0061\" , \"key\" : \"k\\/\" } \r\n",
            "{\"key\":{\"base64\":\"ay8=\"},\"value\":{\"base64\":\"f/CfmIBh\"}}",
            "{\"k\\u0065y\":\"k/\",\"value\":\"\u{7f}\u{1f600}a\"}",
        ] {
            assert_eq!(parse(line.as_bytes()).expect(line), canonical);
        }
    }

    #[test]
    fn errors_name_the_line_and_empty_lines_count() {
        let text =
            "\n{\"key\":\"a\",\"value\":\"1\"}\r\n  \n{\"key\":\"b\",\"value\":\"2\"}\nnull\n";
        let mut reader = Reader::new(text.as_bytes());
        assert_eq!(
            reader.next_entry().unwrap().unwrap(),
            (
                Entry {
                    key: b"a".into(),
                    value: b"1".into(),
                    expires: None,
                },
                26
            )
        );
        assert_eq!(reader.next_entry().unwrap().unwrap().0.key, b"b");
        let error = reader.next_entry().unwrap_err();
        assert!(error.to_string().starts_with("line 5: column"), "{error}");
    }

    #[test]
    fn the_last_line_needs_no_line_feed_and_a_line_without_end_is_not_read_whole() {
        let mut reader = Reader::new(b"{\"key\":\"a\",\"value\":\"1\"}".as_slice());
        assert!(reader.next_entry().unwrap().is_some() && reader.next_entry().unwrap().is_none());
        let endless = io::repeat(b' ').take(3 * LINE_SIZE_MAX);
        let mut reader = Reader::new(io::BufReader::new(endless));
        assert!(matches!(
            reader.next_entry(),
            Err(LineError {
                line: 1,
                problem: Problem::LongLine
            })
        ));
        assert!(reader.buffer.len() as u64 <= LINE_SIZE_MAX + 1);
    }

    fn bytes(sizes: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
        let text = ".*".prop_map(String::into_bytes).prop_filter("size", {
            let sizes = sizes.clone();
            move |bytes| sizes.contains(&bytes.len())
        });
        prop_oneof![proptest::collection::vec(any::<u8>(), sizes), text]
    }

    proptest! {
        #[test]
        fn a_written_entry_is_read_back_and_written_as_the_same_bytes(
            key in bytes(1..200), value in bytes(0..2000), expires in proptest::option::of(1..u64::MAX)
        ) {
            let entry = Entry { key, value, expires };
            let line = line_of(&entry);
            prop_assert_eq!(line.matches('\n').count(), 1);
            let again = parse(line.as_bytes()).expect("canonical lines are entries");
            prop_assert_eq!(&again, &entry);
            prop_assert_eq!(line_of(&again), line);
        }

        #[test]
        fn no_bytes_make_the_reader_panic_or_continue_after_an_error(input in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut reader = Reader::new(input.as_slice());
            while let Ok(Some((entry, _))) = reader.next_entry() {
                prop_assert!(!entry.key.is_empty());
            }
        }

        #[test]
        fn a_canonical_line_with_one_byte_changed_is_refused_or_is_a_valid_entry(
            value in bytes(0..40), at in any::<prop::sample::Index>(), byte in any::<u8>()
        ) {
            let mut line = line_of(&Entry { key: b"key".to_vec(), value, expires: Some(77) }).into_bytes();
            let at = at.index(line.len());
            line[at] = byte;
            if let Ok(entry) = parse(&line) {
                prop_assert_eq!(parse(line_of(&entry).as_bytes()).expect("canonical"), entry);
            }
        }
    }
}
