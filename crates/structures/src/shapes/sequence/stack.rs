//! A stack: last in, first out.

use crate::shapes::contents::Contents;
use crate::shapes::item::{Item, ItemRead, item_bytes, item_size};
use crate::shapes::length::Length;
use crate::shapes::scrap::{Part, Scrap};
use crate::shapes::tag::TagKey;
use crate::shapes::traversal::{Answer, Place, Stale, Step, Traversal};
use crate::space::{Draft, SpaceFault};
use crate::wire::Pointer;

use super::line::{Ends, Line, Peek};

/// A stack of a domain. The key of an item is the pointer to the item below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    ends: Ends,
}

/// The walk before a push (with a value) or a pop.
#[derive(Clone, Debug)]
pub struct StackTravel {
    stack: Stack,
    peek: Peek,
    pushed: Option<Vec<u8>>,
}

/// Everything that a push or pop needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackPlan {
    stack: Stack,
    line: Line,
    top: Option<Item>,
    pushed: Option<Vec<u8>>,
}

impl Stack {
    /// The stack behind `anchor`. `item_hint` is the number of bytes of a typical item with its header.
    pub fn new(anchor: Pointer, tags: TagKey, item_hint: usize) -> Self {
        Self {
            ends: Ends::new(anchor, tags, item_hint),
        }
    }

    /// Makes an empty stack. Returns its anchor.
    ///
    /// # Errors
    /// [`SpaceFault`].
    pub fn create(draft: &mut Draft<'_>, tags: TagKey) -> Result<Pointer, SpaceFault> {
        Line::create(draft, tags)
    }

    /// Reads the number of items.
    pub fn length(&self) -> Length {
        self.ends.length()
    }

    /// Reads the value on top.
    pub fn peek(&self) -> Peek {
        self.ends.peek()
    }

    /// The walk before a push of this value, or before a pop.
    pub(in crate::shapes) fn travel(&self, pushed: Option<Vec<u8>>) -> StackTravel {
        StackTravel {
            stack: *self,
            peek: self.peek(),
            pushed,
        }
    }

    /// The parts of the line of a stack that has ended.
    pub(in crate::shapes) fn parts_of_line(
        &self,
        scrap: Scrap,
        bytes: &[u8],
    ) -> Result<Vec<Scrap>, Stale> {
        let line = Line::parse_block(self.ends.tags, scrap.pointer, bytes)?;
        let top = (line.length > 0).then(|| Scrap::new(line.next, Part::Stacked));
        Ok(top.into_iter().collect())
    }

    /// Reads the whole stack, from the top. The stack should not change during the walk.
    pub fn walk(&self) -> StackWalk {
        StackWalk {
            stack: *self,
            peek: self.peek(),
            next: None,
            contents: Contents::default(),
        }
    }
}

impl Traversal for StackTravel {
    type End = StackPlan;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<StackPlan> {
        match self.peek.advance(bytes) {
            Ok(Step::Read(places)) => Step::Read(places),
            Ok(Step::Stale(stale)) | Err(stale) => Step::Stale(stale),
            Ok(Step::Done((line, top))) => Step::Done(StackPlan {
                stack: self.stack,
                line,
                top,
                pushed: self.pushed.take(),
            }),
        }
    }
}

impl StackPlan {
    /// Writes the change: the item, then the line.
    ///
    /// # Errors
    /// [`SpaceFault`]: the draft has to be dropped.
    pub fn apply(self, draft: &mut Draft<'_>) -> Result<Answer, SpaceFault> {
        let Ends { anchor, tags, .. } = self.stack.ends;
        let mut line = self.line;
        let Some(value) = self.pushed else {
            let Some(top) = self.top else {
                return Ok(Answer::Taken(None));
            };
            line.length -= 1;
            line.next = below(&top);
            line.write_over(draft, tags, anchor, &self.line);
            draft.free(top.pointer, top.size())?;
            return Ok(Answer::Taken(Some(top.value)));
        };
        let key = line.next.word().to_le_bytes();
        let pointer = draft.allocate(item_size(key.len(), value.len()))?;
        draft.write(pointer.offset(), &item_bytes(tags, pointer, &key, &value));
        line.length += 1;
        line.next = pointer;
        line.write_over(draft, tags, anchor, &self.line);
        Ok(Answer::Added)
    }
}

/// The item below an item.
fn below(item: &Item) -> Pointer {
    let word = item.key.first_chunk();
    word.map_or(Pointer::NULL, |word| {
        Pointer::from_word(u64::from_le_bytes(*word))
    })
}

/// Reads a whole stack, item by item.
#[derive(Clone, Debug)]
pub struct StackWalk {
    stack: Stack,
    peek: Peek,
    /// The item that is being read.
    next: Option<Pointer>,
    contents: Contents,
}

impl StackWalk {
    fn note(&mut self, item: Item) -> Step<Contents> {
        let (pointer, below) = (item.pointer, below(&item));
        self.contents.blocks.push((pointer, item.size()));
        self.contents.items.push((Vec::new(), item.value));
        // A stack whose items name each other in a circle would be read forever.
        if self.contents.items.len() as u64 == self.contents.length {
            return Step::Done(std::mem::take(&mut self.contents));
        }
        self.next = Some(below);
        Step::one(Place::last(self.stack.ends.items().first(below)))
    }

    fn advance(&mut self, bytes: &[Vec<u8>]) -> Result<Step<Contents>, Stale> {
        if let Some(pointer) = self.next {
            return match self.stack.ends.items().judge(pointer, &bytes[0]) {
                ItemRead::Whole(item) => Ok(self.note(item)),
                ItemRead::Longer(place) => Ok(Step::one(Place::last(place))),
                ItemRead::Stale(stale) => Err(stale),
            };
        }
        let (line, top) = match self.peek.advance(bytes)? {
            Step::Read(places) => return Ok(Step::Read(places)),
            Step::Stale(stale) => return Err(stale),
            Step::Done(end) => end,
        };
        self.contents.length = line.length;
        self.contents
            .blocks
            .push(Line::block(self.stack.ends.anchor));
        Ok(match top {
            Some(top) => self.note(top),
            None => Step::Done(std::mem::take(&mut self.contents)),
        })
    }
}

impl Traversal for StackWalk {
    type End = Contents;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Contents> {
        self.advance(bytes).unwrap_or_else(Step::Stale)
    }
}
