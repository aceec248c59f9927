//! Messages of Rowan-KV and its rivals.
//!
//! ```text
//!   request   | kind 1 | 0 1 | size of the body 2 | 0 4 | id 8 | key 8 | body |
//!   answer    | outcome 1 | 0 1 | size 2          | 0 4 | id 8 | body |
//! ```

use crate::PublishedError;

/// Bytes of a request before its body.
pub(crate) const REQUEST_SIZE: usize = 24;
/// Bytes of an answer before its body.
pub(crate) const ANSWER_SIZE: usize = 16;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Client: the value of a key.
    Get,
    /// Client: store the body.
    Put,
    /// Client: remove the key.
    Delete,
    /// Worker: append the entry in the body to a log of this server.
    Replicate,
    /// Worker of the store like HermesKV: append the entry in the body, and let readers of its key wait.
    Invalidate,
    /// Worker: let readers have the entry of the key with the version in the body. Has no answer.
    Validate,
    /// Worker: segment `key` of this server is full, give another one.
    NextSegment,
    /// Client of the store like Clover: the heads of the keys in the body.
    Open,
    /// Client of the store like Clover: places of `key` units each.
    Allocate,
    /// Client of the store like Clover: the versions in the body were replaced.
    Retire,
    /// Control thread: every entry up to these versions has its copies.
    Commits,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done. The body is the value or the place, if there is one.
    Done,
    /// The key does not exist.
    Absent,
    /// The store has no room.
    Full,
    /// A copy could not be made: whether the entry counts is unknown.
    Failed,
    /// This server is not the primary of the key's shard.
    Elsewhere,
}

const KINDS: [Kind; 11] = [
    Kind::Get,
    Kind::Put,
    Kind::Delete,
    Kind::Replicate,
    Kind::Invalidate,
    Kind::Validate,
    Kind::NextSegment,
    Kind::Open,
    Kind::Allocate,
    Kind::Retire,
    Kind::Commits,
];
const OUTCOMES: [Outcome; 5] = [
    Outcome::Done,
    Outcome::Absent,
    Outcome::Full,
    Outcome::Failed,
    Outcome::Elsewhere,
];

/// The head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub kind: Kind,
    pub id: u64,
    pub key: u64,
}

impl Request {
    /// The bytes of the request with its body.
    pub fn encode(&self, body: &[u8]) -> Vec<u8> {
        let kind = KINDS.iter().position(|&known| known == self.kind);
        let mut bytes = vec![0; REQUEST_SIZE];
        bytes[0] = kind.expect("all are listed") as u8;
        bytes[2..4].copy_from_slice(&(body.len() as u16).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.id.to_le_bytes());
        bytes[16..].copy_from_slice(&self.key.to_le_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    /// The request in `bytes`, and its body.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), PublishedError> {
        let (head, body) = split(bytes, REQUEST_SIZE)?;
        let kind = KINDS.get(usize::from(head[0]));
        let kind = *kind.ok_or(PublishedError::Protocol("an unknown request"))?;
        let (id, key) = (word(head, 8), word(head, 16));
        Ok((Self { kind, id, key }, body))
    }
}

/// The bytes of the answer to request `id`.
pub(crate) fn answer(id: u64, outcome: Outcome, body: &[u8]) -> Vec<u8> {
    let code = OUTCOMES.iter().position(|&known| known == outcome);
    let mut bytes = vec![0; ANSWER_SIZE];
    bytes[0] = code.expect("all are listed") as u8;
    bytes[2..4].copy_from_slice(&(body.len() as u16).to_le_bytes());
    bytes[8..].copy_from_slice(&id.to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// Id and outcome of the answer that begins with `head`. The rest of the message is its body.
pub(crate) fn parse_answer(head: &[u8; ANSWER_SIZE]) -> Result<(u64, Outcome), PublishedError> {
    let outcome = OUTCOMES.get(usize::from(head[0]));
    let outcome = *outcome.ok_or(PublishedError::Protocol("an unknown outcome"))?;
    Ok((word(head, 8), outcome))
}

fn split(bytes: &[u8], head: usize) -> Result<(&[u8], &[u8]), PublishedError> {
    let short = PublishedError::Protocol("a short message");
    let (head, body) = bytes.split_at_checked(head).ok_or(short)?;
    if usize::from(u16::from_le_bytes([head[2], head[3]])) != body.len() {
        return Err(PublishedError::Protocol("a body of another length"));
    }
    Ok((head, body))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_survive_the_wire_and_nonsense_is_refused() {
        for kind in KINDS {
            let request = Request {
                kind,
                id: u64::MAX - 1,
                key: 7,
            };
            let bytes = request.encode(b"value");
            assert_eq!(Request::parse(&bytes).unwrap(), (request, &b"value"[..]));
            assert!(Request::parse(&bytes[..REQUEST_SIZE]).is_err());
        }
        for outcome in OUTCOMES {
            let bytes = answer(9, outcome, b"body");
            let head = bytes.first_chunk().unwrap();
            assert_eq!(parse_answer(head).unwrap(), (9, outcome));
            assert_eq!(&bytes[ANSWER_SIZE..], b"body");
        }
        assert!(Request::parse(&[200; REQUEST_SIZE]).is_err());
        assert!(parse_answer(&[200; ANSWER_SIZE]).is_err());
    }
}
