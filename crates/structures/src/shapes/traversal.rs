//! What traversals and their drivers agree on.

use stonecast_base::Span;

/// The next need of a traversal, or its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// Read these places, all at once, and hand the bytes over in the same order.
    Read(Vec<Place>),
    /// The end.
    Done(T),
    /// A place holds something else than what was named: begin again.
    Stale(Stale),
}

impl<T> Step<T> {
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
    /// Whether a reader may take bytes that it has read before: what follows shows whether they are too old. After [`Step::Stale`] they are read
    /// again.
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
    pub(super) const fn last(span: Span) -> Self {
        Self {
            span,
            may_be_old: false,
        }
    }
}

/// A place that holds something else than what the structure names there. A reader begins again: the structure has changed while it read. If nothing can
/// have changed, the structure is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {what} in the {} bytes at {}", .place.size, .place.offset)]
pub struct Stale {
    /// The place.
    pub place: Span,
    /// What should be there.
    pub what: &'static str,
}

/// A walk over a structure that names the places that it needs.
pub trait Traversal {
    /// The result of the walk.
    type End;

    /// Takes the bytes that the last step asked for; none at first.
    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Self::End>;
}

/// What an operation tells its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Whether the key had a value before.
    Existed(bool),
    /// The value that was removed; `None`: there was none.
    Taken(Option<Vec<u8>>),
    /// The value was added.
    Added,
    /// The number of the structure that was created.
    Created(u32),
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
