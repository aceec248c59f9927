//! Messages between clients and servers.
//!
//! ```text
//!   | kind 1 | detail 1 | 0 6 | number 8 | key and value, or a value |
//! ```

use crate::PublishedError;

/// Bytes before key and value.
pub(crate) const HEADER_SIZE: usize = 16;
/// The operation of a WRITE_WITH_IMM, before the key.
pub(crate) const PUT: u8 = 1;
pub(crate) const DELETE: u8 = 2;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Client: read the value of a key.
    Get,
    /// Client: store this value.
    Put,
    /// Client: remove this key.
    Delete,
    /// Erda's client: the newest object of this key is broken.
    Repair,
    /// Server: an answer; `detail` is its outcome.
    Answer,
    /// Erda's server: head `detail` is being cleaned.
    CleaningBegins,
    /// Erda's server: head `detail` is clean and starts at `number`.
    CleaningEnds,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done; `number` is the requested place.
    Done,
    /// The key does not exist.
    Absent,
    /// The store has no room.
    Full,
    /// The head is being cleaned: send the data with the request.
    Cleaning,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub kind: Kind,
    pub detail: u8,
    pub number: u64,
    pub body: Vec<u8>,
}

const KINDS: [Kind; 7] = [
    Kind::Get,
    Kind::Put,
    Kind::Delete,
    Kind::Repair,
    Kind::Answer,
    Kind::CleaningBegins,
    Kind::CleaningEnds,
];
const OUTCOMES: [Outcome; 4] = [
    Outcome::Done,
    Outcome::Absent,
    Outcome::Full,
    Outcome::Cleaning,
];

impl Message {
    /// A client's request.
    pub fn request(kind: Kind, key: &[u8], value: &[u8]) -> Self {
        Self {
            kind,
            detail: 0,
            number: 0,
            body: [key, value].concat(),
        }
    }

    /// A server's answer.
    pub fn answer(outcome: Outcome, number: u64, body: Vec<u8>) -> Self {
        let detail = OUTCOMES
            .iter()
            .position(|&known| known == outcome)
            .expect("all are listed") as u8;
        Self {
            kind: Kind::Answer,
            detail,
            number,
            body,
        }
    }

    /// The outcome of this answer.
    pub fn outcome(&self) -> Result<Outcome, PublishedError> {
        let known = OUTCOMES
            .get(usize::from(self.detail))
            .filter(|_| self.kind == Kind::Answer);
        known
            .copied()
            .ok_or(PublishedError::Protocol("a message that is not an answer"))
    }

    pub fn encode(&self) -> Vec<u8> {
        let kind = KINDS
            .iter()
            .position(|&known| known == self.kind)
            .expect("all are listed") as u8;
        let mut bytes = vec![0; HEADER_SIZE];
        bytes[0] = kind;
        bytes[1] = self.detail;
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.body);
        bytes
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, PublishedError> {
        let (header, body) = bytes
            .split_at_checked(HEADER_SIZE)
            .ok_or(PublishedError::Protocol("a short message"))?;
        let kind = *KINDS
            .get(usize::from(header[0]))
            .ok_or(PublishedError::Protocol("an unknown message"))?;
        let number = u64::from_le_bytes(header[8..].try_into().expect("8 bytes"));
        Ok(Self {
            kind,
            detail: header[1],
            number,
            body: body.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_wire_and_nonsense_is_refused() {
        for kind in KINDS {
            let message = Message {
                kind,
                detail: 3,
                number: u64::MAX - 1,
                body: b"key value".to_vec(),
            };
            assert_eq!(Message::parse(&message.encode()).unwrap(), message);
        }
        for outcome in OUTCOMES {
            assert_eq!(
                Message::answer(outcome, 1, vec![]).outcome().unwrap(),
                outcome
            );
        }
        assert!(Message::parse(&[0; 15]).is_err());
        assert!(Message::parse(&[200; 16]).is_err());
        assert!(Message::request(Kind::Get, b"key", b"").outcome().is_err());
    }
}
