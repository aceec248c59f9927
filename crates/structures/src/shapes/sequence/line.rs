//! The line of a stack or queue, and the reading of the item that comes next.

use crate::shapes::item::{ITEM_HEADER_SIZE, Item, ItemRead, ItemReader};
use crate::shapes::length::Length;
use crate::shapes::tag::{TagKey, word_at};
use crate::shapes::traversal::{Place, Stale, Step, Traversal};
use crate::space::{Draft, SpaceFault};
use crate::wire::Pointer;

const LINE_SIZE: u64 = 64;
/// Bytes that are used of the line.
const USED_SIZE: usize = 48;

/// All parts of a stack or queue that change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::shapes) struct Line {
    pub length: u64,
    /// The number of the next item of a queue; the first one that was put in has the number 0.
    pub position: u64,
    /// The item that comes next.
    pub next: Pointer,
    /// The chunk of a queue that holds the next item, and the chunk that takes the last item.
    pub head: Pointer,
    pub tail: Pointer,
}

impl Line {
    /// Makes the line of a new stack or queue. Returns its anchor.
    pub fn create(draft: &mut Draft<'_>, tags: TagKey) -> Result<Pointer, SpaceFault> {
        let anchor = draft.allocate(LINE_SIZE)?;
        Self::default().write(draft, tags, anchor);
        Ok(anchor)
    }

    fn bytes(&self, tags: TagKey, anchor: Pointer) -> Vec<u8> {
        let pointers = [self.next, self.head, self.tail].map(Pointer::word);
        let words = [&[0, self.length, self.position][..], &pointers].concat();
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        tags.seal(anchor, 0, &mut bytes);
        bytes
    }

    fn write(&self, draft: &mut Draft<'_>, tags: TagKey, anchor: Pointer) {
        draft.write(anchor.offset(), &self.bytes(tags, anchor));
    }

    /// Writes the line over the one that was read.
    pub fn write_over(&self, draft: &mut Draft<'_>, tags: TagKey, anchor: Pointer, before: &Self) {
        let (before, bytes) = (before.bytes(tags, anchor), self.bytes(tags, anchor));
        draft.write_over(anchor.offset(), &before, &bytes);
    }

    /// Bytes of the block.
    pub fn block(anchor: Pointer) -> (Pointer, u64) {
        (anchor, LINE_SIZE)
    }

    pub fn place(anchor: Pointer) -> Place {
        Place::last(anchor.span(USED_SIZE as u64))
    }

    /// The line in the bytes of its whole block.
    pub fn parse_block(tags: TagKey, anchor: Pointer, bytes: &[u8]) -> Result<Self, Stale> {
        Self::parse(tags, anchor, bytes.get(..USED_SIZE).unwrap_or(bytes))
    }

    pub fn parse(tags: TagKey, anchor: Pointer, bytes: &[u8]) -> Result<Self, Stale> {
        if bytes.len() != USED_SIZE || !tags.is_sealed(anchor, 0, bytes) {
            let (place, what) = (Self::place(anchor).span, "line");
            return Err(Stale { place, what });
        }
        let pointer = |index| Pointer::from_word(word_at(bytes, index));
        Ok(Self {
            length: word_at(bytes, 1),
            position: word_at(bytes, 2),
            next: pointer(3),
            head: pointer(4),
            tail: pointer(5),
        })
    }
}

/// The place of a stack or queue, and the sizes for reading its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub anchor: Pointer,
    pub tags: TagKey,
    item_hint: usize,
}

impl Ends {
    /// `item_hint` is the number of bytes of a typical item with its header.
    pub fn new(anchor: Pointer, tags: TagKey, item_hint: usize) -> Self {
        Self {
            anchor,
            tags,
            item_hint: item_hint.max(ITEM_HEADER_SIZE),
        }
    }

    pub fn items(&self) -> ItemReader {
        ItemReader {
            tags: self.tags,
            hint: self.item_hint,
        }
    }

    /// Reads the number of items.
    pub fn length(&self) -> Length {
        Length::of_line(self.anchor, self.tags)
    }

    /// Reads the value that comes next.
    pub fn peek(&self) -> Peek {
        Peek {
            anchor: self.anchor,
            items: self.items(),
            line: None,
            is_asked: false,
        }
    }
}

/// The reading of the item that comes next.
#[derive(Clone, Debug)]
pub struct Peek {
    anchor: Pointer,
    items: ItemReader,
    line: Option<Line>,
    is_asked: bool,
}

impl Peek {
    /// Reads line and item.
    pub(super) fn advance(
        &mut self,
        bytes: &[Vec<u8>],
    ) -> Result<Step<(Line, Option<Item>)>, Stale> {
        let Some(line) = self.line else {
            if !self.is_asked {
                self.is_asked = true;
                return Ok(Step::one(Line::place(self.anchor)));
            }
            let line = Line::parse(self.items.tags, self.anchor, &bytes[0])?;
            if line.length == 0 {
                return Ok(Step::Done((line, None)));
            }
            self.line = Some(line);
            return Ok(Step::one(Place::last(self.items.first(line.next))));
        };
        match self.items.judge(line.next, &bytes[0]) {
            ItemRead::Whole(item) => Ok(Step::Done((line, Some(item)))),
            ItemRead::Longer(place) => Ok(Step::one(Place::last(place))),
            ItemRead::Stale(stale) => Err(stale),
        }
    }
}

impl Traversal for Peek {
    /// The value that comes next; `None`: the structure is empty.
    type End = Option<Vec<u8>>;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Self::End> {
        match self.advance(bytes) {
            Ok(Step::Done((_, item))) => Step::Done(item.map(|item| item.value)),
            Ok(Step::Read(places)) => Step::Read(places),
            Ok(Step::Stale(stale)) | Err(stale) => Step::Stale(stale),
        }
    }
}
