//! Requests and answers of etcd's JSON gateway: 64-bit numbers are strings there, zero is omitted, and bytes are
//! base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use stonecast_cluster::{Revision, Stored};

/// A key in the gateway's encoding.
#[derive(Clone)]
pub struct Key(String);

impl Key {
    pub fn new(key: &str) -> Self {
        Self(STANDARD.encode(key))
    }

    pub fn range(&self) -> Value {
        json!({ "key": self.0 })
    }

    /// Puts `value` if the key's revision is `expected`; 0 means that the key is absent.
    pub fn swap(&self, expected: u64, value: &[u8]) -> Value {
        json!({
            "compare": [{
                "target": "MOD", "result": "EQUAL", "key": self.0, "mod_revision": expected.to_string(),
            }],
            "success": [{ "request_put": { "key": self.0, "value": STANDARD.encode(value) } }],
        })
    }

    /// Watches every event of the key from `revision` on.
    pub fn watch(&self, revision: u64) -> Value {
        json!({ "create_request": { "key": self.0, "start_revision": revision.to_string() } })
    }
}

pub fn credentials(user: &str, password: &str) -> Value {
    json!({ "name": user, "password": password })
}

/// The header of every answer.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Header {
    #[serde(deserialize_with = "number")]
    pub cluster_id: u64,
    /// The revision of the whole etcd.
    #[serde(deserialize_with = "revision")]
    pub revision: u64,
}

/// The answer to a read.
#[derive(Debug)]
pub struct Range {
    pub header: Header,
    pub stored: Option<Stored>,
}

#[derive(Deserialize)]
struct RangeAnswer {
    header: Header,
    #[serde(default)]
    kvs: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct KeyValue {
    key: String,
    #[serde(deserialize_with = "revision")]
    mod_revision: u64,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
struct SwapAnswer {
    header: Header,
    #[serde(default)]
    succeeded: bool,
}

/// A refusal, in the words of etcd.
#[derive(Default, Deserialize)]
pub struct Refusal {
    #[serde(default)]
    pub code: u64,
    #[serde(default)]
    pub message: String,
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: String,
}

#[derive(Deserialize)]
struct WatchLine {
    result: Option<WatchResult>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct WatchResult {
    #[serde(default)]
    events: Vec<Value>,
    #[serde(default)]
    canceled: bool,
    #[serde(default)]
    cancel_reason: String,
    #[serde(default, deserialize_with = "revision")]
    compact_revision: u64,
}

/// The content of a line of a watch.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// There was an event of the key.
    Event,
    /// There was no event.
    Nothing,
    /// etcd ends the watch.
    Canceled(String),
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number<'a> {
        Plain(u64),
        Borrowed(&'a str),
        Text(String),
    }
    let parsed = match Number::deserialize(deserializer)? {
        Number::Plain(number) => return Ok(number),
        Number::Borrowed(text) => text.parse(),
        Number::Text(text) => text.parse(),
    };
    parsed.map_err(serde::de::Error::custom)
}

/// etcd counts with signed numbers, so the successor of any of its revisions is a valid number, too.
fn revision<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let revision = number(deserializer)?;
    match i64::try_from(revision) {
        Ok(_) => Ok(revision),
        Err(_) => Err(serde::de::Error::custom(format!(
            "{revision} is not a revision"
        ))),
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| format!("{error}, in {}", beginning_of(body)))
}

/// The first bytes of an answer, for people.
fn beginning_of(body: &[u8]) -> String {
    const SHOWN: usize = 64;
    let shown = &body[..body.len().min(SHOWN)];
    format!("`{}`", shown.escape_ascii())
}

/// The first words of a text from an answer, which may have any length and any characters.
pub fn first_words_of(text: &str) -> String {
    const SHOWN: usize = 200;
    let mut shown = String::new();
    for character in text.chars().take(SHOWN) {
        match character.is_control() {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

impl Range {
    pub fn parse(key: &Key, body: &[u8]) -> Result<Self, String> {
        let answer: RangeAnswer = parse(body)?;
        let header = answer.header;
        let Some(found) = answer.kvs.into_iter().next() else {
            return Ok(Self {
                header,
                stored: None,
            });
        };
        if found.key != key.0 {
            return Err(format!("it answers with the key {}", found.key));
        }
        if found.mod_revision == 0 || found.mod_revision > header.revision {
            let (revision, newest) = (found.mod_revision, header.revision);
            return Err(format!("it answers with revision {revision} of {newest}"));
        }
        let bytes = STANDARD.decode(found.value);
        let bytes = bytes.map_err(|error| format!("its value is not base64: {error}"))?;
        let revision = Revision(found.mod_revision);
        Ok(Self {
            header,
            stored: Some(Stored { revision, bytes }),
        })
    }
}

/// Whether a transaction put its value; the revision of the value is that of the header.
pub fn parse_swap(expected: u64, body: &[u8]) -> Result<(Header, bool), String> {
    let answer: SwapAnswer = parse(body)?;
    if answer.succeeded && answer.header.revision <= expected {
        return Err(format!(
            "it put a value at revision {} after revision {expected}",
            answer.header.revision
        ));
    }
    Ok((answer.header, answer.succeeded))
}

/// The token that an etcd gives for a password. No reason quotes `body`, because another server may return the
/// password.
pub fn parse_token(body: &[u8]) -> Result<String, String> {
    let answer: TokenAnswer =
        serde_json::from_slice(body).map_err(|_| "its answer to a password has no token")?;
    let fits_a_header =
        |token: &str| !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic());
    Some(answer.token)
        .filter(|token| fits_a_header(token))
        .ok_or_else(|| "its token does not fit into a header".to_owned())
}

pub fn parse_watch(line: &[u8]) -> Result<Heard, String> {
    let line: WatchLine = parse(line)?;
    if let Some(error) = line.error {
        return Ok(Heard::Canceled(error.to_string()));
    }
    let result = line.result.ok_or("a line of a watch has no result")?;
    Ok(match result {
        result if result.canceled && result.compact_revision > 0 => Heard::Canceled(format!(
            "everything below revision {} was compacted",
            result.compact_revision
        )),
        result if result.canceled => Heard::Canceled(result.cancel_reason),
        result if result.events.is_empty() => Heard::Nothing,
        _ => Heard::Event,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_fits_into_a_header_and_no_reason_shows_a_password() {
        assert_eq!(parse_token(br#"{"token":"a.b"}"#).as_deref(), Ok("a.b"));
        let echo = br#"{"name":"u","password":"secret"}"#;
        for wrong in [
            &echo[..],
            br#"{"token":"secret\n"}"#,
            br#"{"token":""}"#,
            b"secret",
        ] {
            let reason = parse_token(wrong).unwrap_err();
            assert!(!reason.contains("secret"), "{reason}");
        }
    }

    #[test]
    fn an_answer_of_another_shape_is_refused() {
        let key = Key::new("k");
        for body in [
            "",
            "garbage",
            "[]",
            "{}",
            r#"{"header":{}}"#,
            r#"{"header":{"cluster_id":"1"}}"#,
            r#"{"header":{"cluster_id":"1","revision":"-2"}}"#,
            r#"{"header":{"cluster_id":"1","revision":true}}"#,
            r#"{"header":{"cluster_id":"1","revision":"9223372036854775808"}}"#,
            r#"{"header":{"cluster_id":"1","revision":"99999999999999999999"}}"#,
            r#"{"header":{"cluster_id":"1","revision":9e3}}"#,
            r#"{"header":{"cluster_id":"1","revision":null}}"#,
            r#"{"header":{"cluster_id":"1","revision":"9"},"kvs":{}}"#,
            r#"{"header":{"cluster_id":"1","revision":"9"},"kvs":null}"#,
            r#"{"header":{"cluster_id":"1","revision":"9"},"kvs":[{"key":"eA==","mod_revision":"1"}]}"#,
            r#"{"header":{"cluster_id":"1","revision":"9"},"kvs":[{"key":"aw==","mod_revision":"10"}]}"#,
            r#"{"header":{"cluster_id":"1","revision":"9"},"kvs":[{"key":"aw==","mod_revision":"1","value":"?"}]}"#,
        ] {
            assert!(Range::parse(&key, body.as_bytes()).is_err(), "{body}");
        }
        let empty = r#"{"header":{"cluster_id":"1","revision":"9"},"kvs":[{"key":"aw==","mod_revision":"9"}]}"#;
        let stored = Range::parse(&key, empty.as_bytes()).unwrap().stored;
        assert_eq!(stored.unwrap().bytes, b"", "a value of no bytes is omitted");
        assert!(
            parse_swap(
                9,
                br#"{"header":{"cluster_id":"1","revision":"9"},"succeeded":true}"#
            )
            .is_err()
        );
    }

    #[test]
    fn the_highest_revision_and_any_cluster_are_numbers() {
        let body =
            r#"{"header":{"cluster_id":"18446744073709551615","revision":"9223372036854775807"}}"#;
        let header = Range::parse(&Key::new("k"), body.as_bytes())
            .unwrap()
            .header;
        assert_eq!(
            (header.cluster_id, header.revision),
            (u64::MAX, i64::MAX as u64)
        );
    }

    #[test]
    fn words_of_an_answer_are_shown_up_to_a_length_and_without_control_characters() {
        assert_eq!(
            first_words_of("no \u{1b}[2J rights"),
            "no \\u{1b}[2J rights"
        );
        let long = first_words_of(&"ä".repeat(1 << 20));
        assert_eq!(long.chars().count(), 201);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn a_watch_distinguishes_events_from_its_beginning_and_its_end() {
        for (line, heard) in [
            (r#"{"result":{"header":{},"created":true}}"#, Heard::Nothing),
            (r#"{"result":{"events":[{"kv":{}}]}}"#, Heard::Event),
            (
                r#"{"result":{"canceled":true,"compact_revision":"3"}}"#,
                Heard::Canceled("everything below revision 3 was compacted".to_owned()),
            ),
        ] {
            assert_eq!(parse_watch(line.as_bytes()), Ok(heard), "{line}");
        }
        assert!(parse_watch(b"{}").is_err() && parse_watch(b"x").is_err());
    }
}
