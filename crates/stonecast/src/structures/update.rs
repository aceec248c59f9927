//! Updates of structures as operations, and the answers to them.

use stonecast_structures::shapes::Answer;
use stonecast_structures::{Comparison, Key as _, Run, Verb};

use super::error::Error;
use super::types::{Keyed, Sequence, Shape, Value};
use crate::error::Effect;

/// One update of a structure.
#[derive(Clone, Debug)]
pub(super) struct Update {
    pub verb: Verb,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

impl Update {
    pub fn put<S: Keyed>(verb: Verb, key: &S::Key, value: &S::Value) -> Self {
        Self {
            verb,
            key: key.encoded(),
            value: value.encode().into_owned(),
        }
    }

    pub fn compare<S: Keyed>(key: &S::Key, expected: &S::Value, new: &S::Value) -> Self {
        let (expected, new) = (expected.encode(), new.encode());
        let comparison = Comparison {
            expected: &expected,
            new: &new,
        };
        Self {
            verb: Verb::CompareAndUpdate,
            key: key.encoded(),
            value: comparison.encode(),
        }
    }

    pub fn remove<S: Keyed>(key: &S::Key) -> Self {
        Self {
            verb: Verb::Remove,
            key: key.encoded(),
            value: Vec::new(),
        }
    }

    pub fn load(run: &Run) -> Self {
        Self {
            verb: Verb::Load,
            key: Vec::new(),
            value: run.value().to_vec(),
        }
    }

    pub fn push<S: Sequence>(value: &S::Value) -> Self {
        Self {
            verb: Verb::Push,
            key: Vec::new(),
            value: value.encode().into_owned(),
        }
    }

    pub fn pop() -> Self {
        Self {
            verb: Verb::Pop,
            key: Vec::new(),
            value: Vec::new(),
        }
    }
}

/// Whether the key had a value before; of a comparison: whether the key had the expected value.
pub(super) fn is_so(answer: &Answer) -> bool {
    matches!(answer, Answer::Existed(true) | Answer::Changed(true))
}

/// The value that was taken.
pub(super) fn taken<S: Shape>(name: &str, answer: &Answer) -> Result<Option<S::Value>, Error> {
    match answer {
        Answer::Taken(Some(bytes)) => decode::<S>(name, bytes, Effect::Done).map(Some),
        _ => Ok(None),
    }
}

/// The value that a read has found.
pub(super) fn decoded<S: Shape>(name: &str, bytes: &[u8]) -> Result<S::Value, Error> {
    decode::<S>(name, bytes, Effect::None)
}

/// The value that the bytes encode. `effect` is the effect of the call that returned the bytes.
fn decode<S: Shape>(name: &str, bytes: &[u8], effect: Effect) -> Result<S::Value, Error> {
    S::Value::decode(bytes).ok_or_else(|| Error::Decode {
        name: name.to_owned(),
        size: bytes.len(),
        what: S::words(),
        effect,
    })
}
