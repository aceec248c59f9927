//! The agreement between traversals and their drivers.

use smallvec::SmallVec;
use stonecast_base::Span;

/// Places to read. Most steps ask for one place, which takes no memory of the heap.
pub type Places = SmallVec<[Place; 2]>;

/// The next need of a traversal, or its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// Read these places, all at once, and hand the bytes over in the same order.
    Read(Places),
    /// The end.
    Done(T),
    /// A place holds something other than its pointer names: begin again.
    Stale(Stale),
}

impl<T> Step<T> {
    /// The step that reads one place.
    pub(crate) fn one(place: Place) -> Self {
        Self::Read(Places::from_iter([place]))
    }

    /// The same step with another end.
    pub fn map<U>(self, end: impl FnOnce(T) -> U) -> Step<U> {
        match self {
            Self::Read(places) => Step::Read(places),
            Self::Done(done) => Step::Done(end(done)),
            Self::Stale(stale) => Step::Stale(stale),
        }
    }
}

/// A place to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The bytes of the pool.
    pub span: Span,
    /// Whether a reader may take bytes that it has read before: later places show whether they are too old. After
    /// [`Step::Stale`] they are read again.
    pub may_be_old: bool,
}

impl Place {
    /// A place on the way, which a reader may remember.
    pub(super) const fn inner(span: Span) -> Self {
        Self {
            span,
            may_be_old: true,
        }
    }

    /// A place that decides, and is read each time.
    pub(crate) const fn last(span: Span) -> Self {
        Self {
            span,
            may_be_old: false,
        }
    }
}

/// A place that holds something else than its pointer names. A reader begins again: the structure has changed while it
/// read. If nothing can have changed, the structure is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {what} in the {} bytes at {}", .place.size, .place.offset)]
pub struct Stale {
    /// The place.
    pub place: Span,
    /// The expected content.
    pub what: &'static str,
}

/// A walk over a structure that names the places that it needs.
pub trait Traversal {
    /// The result of the walk.
    type End;

    /// Takes the bytes that the last step asked for; none at first.
    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Self::End>;
}

/// The answer to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Whether the key had a value before.
    Existed(bool),
    /// The value that was removed; `None`: the structure was empty.
    Taken(Option<Vec<u8>>),
    /// The value was added.
    Added,
    /// The number of the structure that was created, or made empty.
    Created(u32),
    /// Whether the key had the value that was expected, and has the new one.
    Changed(bool),
    /// The operation is done, and has no other answer.
    Done,
    /// The number of blocks that were freed.
    Freed(u32),
    /// The answer to each operation of a group.
    Group(Vec<Answer>),
}

impl Answer {
    /// The answer as the table of results keeps it.
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Existed(existed) => vec![1, u8::from(*existed)],
            Self::Taken(None) => vec![2],
            Self::Taken(Some(value)) => [&[3], &**value].concat(),
            Self::Added => vec![4],
            Self::Created(number) => [&[5][..], &number.to_le_bytes()].concat(),
            Self::Changed(changed) => vec![6, u8::from(*changed)],
            Self::Done => vec![7],
            Self::Freed(blocks) => [&[8][..], &blocks.to_le_bytes()].concat(),
            Self::Group(answers) => {
                let mut bytes = vec![9];
                for answer in answers {
                    let answer = answer.encode();
                    bytes.extend_from_slice(&(answer.len() as u32).to_le_bytes());
                    bytes.extend_from_slice(&answer);
                }
                bytes
            }
        }
    }

    /// Reads the bytes of [`Answer::encode`]; `None`: the bytes are not an answer.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (&code, rest) = bytes.split_first()?;
        let flag = || match rest {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        };
        let number = || rest.try_into().ok().map(u32::from_le_bytes);
        let alone = |answer| rest.is_empty().then_some(answer);
        match code {
            1 => flag().map(Self::Existed),
            2 => alone(Self::Taken(None)),
            3 => Some(Self::Taken(Some(rest.to_vec()))),
            4 => alone(Self::Added),
            5 => number().map(Self::Created),
            6 => flag().map(Self::Changed),
            7 => alone(Self::Done),
            8 => number().map(Self::Freed),
            9 => {
                let (mut answers, mut rest) = (Vec::new(), rest);
                while !rest.is_empty() {
                    let (size, behind) = rest.split_first_chunk()?;
                    let size = u32::from_le_bytes(*size) as usize;
                    let (answer, behind) = behind.split_at_checked(size)?;
                    // A group holds no groups: no bytes make this recursion deep.
                    let is_group = answer.first() == Some(&9);
                    answers.push((!is_group).then(|| Self::parse(answer))??);
                    rest = behind;
                }
                Some(Self::Group(answers))
            }
            _ => None,
        }
    }
}

/// Drives a traversal with reads in the call. `read` returns `None` for places that do not belong to the domain.
///
/// # Errors
/// [`Stale`].
pub fn drive<T: Traversal>(
    mut traversal: T,
    mut read: impl FnMut(Span) -> Option<Vec<u8>>,
) -> Result<T::End, Stale> {
    let mut bytes = Vec::new();
    loop {
        match traversal.step(&bytes) {
            Step::Done(end) => return Ok(end),
            Step::Stale(stale) => return Err(stale),
            Step::Read(places) => {
                bytes.clear();
                for Place { span: place, .. } in places {
                    let what = "memory of the domain";
                    bytes.push(read(place).ok_or(Stale { place, what })?);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_answer_is_read_as_it_was_kept() {
        let single = [
            Answer::Existed(true),
            Answer::Existed(false),
            Answer::Taken(None),
            Answer::Taken(Some(Vec::new())),
            Answer::Taken(Some(vec![7; 300])),
            Answer::Added,
            Answer::Created(9),
            Answer::Changed(true),
            Answer::Done,
            Answer::Freed(3),
        ];
        let group = Answer::Group(single.to_vec());
        for answer in single.into_iter().chain([group]) {
            assert_eq!(Answer::parse(&answer.encode()), Some(answer));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reading_of_an_answer_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Answer::parse(&bytes);
        }
    }
}
