//! The intent of a front-end: one operation, on one part or on several at once.

use stonecast_structures::shapes::{self, Roots};
use stonecast_structures::{Group, Key as _, Operation, Verb};

use super::model::{Answer, Call};
use super::subject::{Structures, structure_of};
use crate::history::OperationId;
use crate::values::{ValueId, decode, encode};

/// An operation. A front-end that keeps it tries it again in its next tenure, with the same token.
#[derive(Clone, Debug)]
pub(super) struct Intent {
    /// 0: the operation is never retried.
    pub token: u64,
    /// The number of the domain's last operation when the intent was staged for the first time.
    pub since: Option<u64>,
    pub wants: Vec<Want>,
}

/// The effect that an operation should have on one part.
#[derive(Clone, Debug)]
pub(super) struct Want {
    pub part: u32,
    pub call: Call,
    /// Bytes of the value.
    pub size: usize,
    /// The call in the history.
    pub id: OperationId,
}

/// The bytes of an operation.
pub(super) struct Encoded {
    token: u64,
    structure: u32,
    verb: Verb,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Encoded {
    fn of(want: &Want, of: &Structures, roots: &Roots) -> Self {
        let (kind, key) = of.place_of(want.part);
        let (verb, written) = match want.call {
            Call::Insert(value) => (Verb::Insert, Some(value)),
            Call::Push(value) => (Verb::Push, Some(value)),
            Call::Pop => (Verb::Pop, None),
            _ => (Verb::Remove, None),
        };
        let mut value = Vec::new();
        if let Some(written) = written {
            encode(written, want.size, &mut value);
        }
        Self {
            token: 0,
            structure: structure_of(roots, kind).expect("it was created").0,
            verb,
            key: match kind.has_keys() {
                true => key.encoded(),
                false => Vec::new(),
            },
            value,
        }
    }

    /// The operation.
    pub fn operation(&self) -> Operation<'_> {
        Operation {
            token: self.token,
            structure: self.structure,
            verb: self.verb,
            key: &self.key,
            value: &self.value,
        }
    }
}

impl Intent {
    /// The operation on the structures of the domain, a group if it has several parts.
    pub fn encode(&self, of: &Structures, roots: &Roots) -> Encoded {
        let token = self.token;
        let mut parts = self.wants.iter().map(|want| Encoded::of(want, of, roots));
        if self.wants.len() == 1 {
            let part = parts.next().expect("one part");
            return Encoded { token, ..part };
        }
        let mut group = Group::default();
        for part in parts {
            group.push(&part.operation());
        }
        Encoded {
            token,
            structure: 0,
            verb: Verb::Group,
            key: Vec::new(),
            value: group.value().to_vec(),
        }
    }

    /// The answer of each part.
    pub fn answers(&self, answer: shapes::Answer) -> Vec<Answer> {
        let answers = match answer {
            shapes::Answer::Group(answers) => answers,
            answer => vec![answer],
        };
        answers.into_iter().map(in_words_of_the_model).collect()
    }
}

fn in_words_of_the_model(answer: shapes::Answer) -> Answer {
    match answer {
        shapes::Answer::Existed(existed) => Answer::Existed(existed),
        shapes::Answer::Taken(taken) => Answer::Value(value_in(taken)),
        _ => Answer::Pushed,
    }
}

/// The value in bytes that were found.
pub(super) fn value_in(found: Option<Vec<u8>>) -> ValueId {
    found.map_or(ValueId::ABSENT, |bytes| {
        decode(&bytes).expect("a value that a front-end wrote")
    })
}
