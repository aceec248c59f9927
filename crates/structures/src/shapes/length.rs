//! The number of items of a structure, which stands beside its root.

use super::root::{ROOT_LINE_SIZE, Root};
use super::sequence::{Line, ReadCursor};
use super::tag::TagKey;
use super::traversal::{Place, Stale, Step, Traversal};
use crate::wire::Pointer;

/// Reads the number of items: one place for every number.
#[derive(Clone, Debug)]
pub struct Length(LengthOf);

#[derive(Clone, Debug)]
enum LengthOf {
    /// The table of structures has the root of a version.
    Version(u64),
    /// The root line of a structure with keys.
    Root(Pointer, TagKey),
    /// The line of a stack or queue.
    Line(Pointer, TagKey),
    Cursor(ReadCursor),
}

impl Length {
    /// Of a version with this root.
    pub(super) fn of_version(root: &Root) -> Self {
        Self(LengthOf::Version(root.length))
    }

    /// Of the structure whose root line lies behind `anchor`.
    pub(super) fn of_root(anchor: Pointer, tags: TagKey) -> Self {
        Self(LengthOf::Root(anchor, tags))
    }

    /// Of the stack or queue whose line lies behind `anchor`.
    pub(super) fn of_line(anchor: Pointer, tags: TagKey) -> Self {
        Self(LengthOf::Line(anchor, tags))
    }

    /// Of a cursor: the items that are taken and not done.
    pub(super) fn of_cursor(read: ReadCursor) -> Self {
        Self(LengthOf::Cursor(read))
    }

    fn advance(&mut self, bytes: &[Vec<u8>]) -> Result<Step<u64>, Stale> {
        Ok(match (&mut self.0, bytes.first()) {
            (LengthOf::Version(length), _) => Step::Done(*length),
            (LengthOf::Cursor(read), _) => read.step(bytes).map(|state| state.taken.len() as u64),
            (LengthOf::Root(anchor, _), None) => {
                Step::one(Place::last(anchor.span(ROOT_LINE_SIZE)))
            }
            (LengthOf::Root(anchor, tags), Some(bytes)) => {
                Step::Done(Root::parse(*tags, *anchor, u32::MAX, bytes)?.length)
            }
            (LengthOf::Line(anchor, _), None) => Step::one(Line::place(*anchor)),
            (LengthOf::Line(anchor, tags), Some(bytes)) => {
                Step::Done(Line::parse(*tags, *anchor, bytes)?.length)
            }
        })
    }
}

impl Traversal for Length {
    type End = u64;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<u64> {
        self.advance(bytes).unwrap_or_else(Step::Stale)
    }
}
