//! The update that a requester hands over.

use crate::step::Item;

/// Unit of the 32 bits of a WRITE_WITH_IMM in bytes: places of such updates are multiples of it.
pub const PLACE_GRAIN: u64 = 64;

/// Bytes for the responder. Their places count from the start of its data.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    first: (u64, &'a [u8]),
    second: Option<(u64, &'a [u8])>,
}

impl<'a> Payload<'a> {
    /// `bytes` at `offset`.
    pub fn single(offset: u64, bytes: &'a [u8]) -> Self {
        Self {
            first: (offset, bytes),
            second: None,
        }
    }

    /// Like [`Payload::single`], followed by `bytes` at `offset`, which never survive without the first part.
    pub fn then(self, offset: u64, bytes: &'a [u8]) -> Self {
        Self {
            second: Some((offset, bytes)),
            ..self
        }
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = (u64, &'a [u8])> {
        std::iter::once(self.first).chain(self.second)
    }

    pub(super) fn part(&self, item: Item) -> (u64, &'a [u8]) {
        match item {
            Item::A => self.first,
            Item::B => self.second.expect("a compound plan gets a compound update"),
        }
    }
}
