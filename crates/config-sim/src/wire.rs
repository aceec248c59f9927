//! Messages between callers and seats: one request and one answer on each connection.
//!
//! ```text
//!   request   kind u8   revision u64 (0: none)   value         read | compare-and-set | changed
//!   answer    kind u8   revision u64 (0: none)   value         value | done | conflict | not leading
//! ```
//!
//! Numbers are little-endian. Revisions of a service begin at 1.

use stonecast_cluster::{Revision, Stored, VALUE_SIZE_MAX};

/// Bytes of the longest message.
pub(crate) const MESSAGE_SIZE_MAX: u32 = (HEADER_SIZE + VALUE_SIZE_MAX) as u32;
const HEADER_SIZE: usize = 9;

/// A request of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Read,
    CompareAndSet {
        expected: Option<Revision>,
        bytes: Vec<u8>,
    },
    Changed {
        since: Option<Revision>,
    },
}

/// An answer of a seat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Value(Option<Stored>),
    Done(Revision),
    Conflict,
    NotLeading,
}

impl Request {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Read => message(0, None, &[]),
            Self::CompareAndSet { expected, bytes } => message(1, *expected, bytes),
            Self::Changed { since } => message(2, *since, &[]),
        }
    }

    /// `None`: no caller of this service says that.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let (kind, revision, bytes) = parts(message)?;
        match kind {
            0 => Some(Self::Read),
            1 => Some(Self::CompareAndSet {
                expected: revision,
                bytes: bytes.to_vec(),
            }),
            2 => Some(Self::Changed { since: revision }),
            _ => None,
        }
    }
}

impl Answer {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Value(None) => message(0, None, &[]),
            Self::Value(Some(stored)) => message(0, Some(stored.revision), &stored.bytes),
            Self::Done(revision) => message(1, Some(*revision), &[]),
            Self::Conflict => message(2, None, &[]),
            Self::NotLeading => message(3, None, &[]),
        }
    }

    /// `None`: no seat of this service says that.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let (kind, revision, bytes) = parts(message)?;
        let bytes = bytes.to_vec();
        match (kind, revision) {
            (0, revision) => Some(Self::Value(
                revision.map(|revision| Stored { revision, bytes }),
            )),
            (1, Some(revision)) => Some(Self::Done(revision)),
            (2, _) => Some(Self::Conflict),
            (3, _) => Some(Self::NotLeading),
            _ => None,
        }
    }
}

fn message(kind: u8, revision: Option<Revision>, bytes: &[u8]) -> Vec<u8> {
    let revision = revision.map_or(0, |revision| revision.0);
    [&[kind], &revision.to_le_bytes()[..], bytes].concat()
}

fn parts(message: &[u8]) -> Option<(u8, Option<Revision>, &[u8])> {
    let (&kind, rest) = message.split_first()?;
    let (revision, bytes) = rest.split_first_chunk()?;
    let revision = u64::from_le_bytes(*revision);
    Some((kind, (revision > 0).then_some(Revision(revision)), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_survives_the_wire() {
        let (revision, bytes) = (Revision(7), b"value".to_vec());
        for request in [
            Request::Read,
            Request::CompareAndSet {
                expected: None,
                bytes: bytes.clone(),
            },
            Request::Changed {
                since: Some(revision),
            },
        ] {
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        for answer in [
            Answer::Value(None),
            Answer::Value(Some(Stored { revision, bytes })),
            Answer::Done(revision),
            Answer::Conflict,
            Answer::NotLeading,
        ] {
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
        assert_eq!(Request::decode(&[0; 8]), None, "too short");
        assert_eq!(Answer::decode(&[9; 9]), None, "of no kind");
    }
}
