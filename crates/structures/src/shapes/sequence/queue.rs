//! A queue: first in, first out.

use std::ops::Range;

use stonecast_base::Span;

use crate::shapes::contents::Contents;
use crate::shapes::item::{Item, ItemRead, item_bytes, item_size};
use crate::shapes::length::Length;
use crate::shapes::scrap::{Part, Scrap};
use crate::shapes::tag::{TagKey, word_at};
use crate::shapes::traversal::{Answer, Place, Places, Stale, Step, Traversal};
use crate::space::{Draft, SpaceFault};
use crate::wire::Pointer;

use super::line::{Ends, Line, Peek};

/// Bytes of a chunk: a link to the next chunk, and pointers to items.
pub(in crate::shapes) const CHUNK_SIZE: u64 = 1024;
/// Items of a chunk.
const CHUNK_ITEMS: u64 = CHUNK_SIZE / 8 - 1;

/// A queue of a domain. The key of an item is its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    ends: Ends,
}

/// The walk before a push (with a value) or a pop.
#[derive(Clone, Debug)]
pub struct QueueTravel {
    queue: Queue,
    peek: Peek,
    pushed: Option<Vec<u8>>,
    /// The state before the words of a chunk are read.
    ended: Option<(Line, Option<Item>)>,
}

/// Everything that a push or pop needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePlan {
    queue: Queue,
    line: Line,
    first: Option<Item>,
    /// The item and the chunk that follow, for a pop.
    next: Pointer,
    next_chunk: Pointer,
    pushed: Option<Vec<u8>>,
}

/// The word of a chunk for the item with this number.
fn word_of(chunk: Pointer, number: u64) -> Span {
    Span::new(chunk.offset() + 8 + number % CHUNK_ITEMS * 8, 8)
}

/// Whether the item with this number is the last of its chunk.
fn is_last_of_chunk(number: u64) -> bool {
    number % CHUNK_ITEMS == CHUNK_ITEMS - 1
}

/// The items of a chunk of a queue that has ended, from the one with this index on, and the next chunk. All items from
/// there on are `count`.
pub(in crate::shapes) fn parts_of_chunk(bytes: &[u8], index: u32, count: u32) -> Vec<Scrap> {
    let here = count.min((CHUNK_ITEMS as u32).saturating_sub(index));
    let pointer = |word: u32| Pointer::from_word(word_at(bytes, word as usize));
    let left = count - here;
    let next = (left > 0).then(|| {
        let (index, count) = (0, left);
        Scrap::new(pointer(0), Part::Chunk { index, count })
    });
    let items = (index..index + here).map(|index| Scrap::new(pointer(1 + index), Part::Item));
    next.into_iter().chain(items).collect()
}

impl Queue {
    /// The queue behind `anchor`. `item_hint` is the number of bytes of a typical item with its header.
    pub fn new(anchor: Pointer, tags: TagKey, item_hint: usize) -> Self {
        Self {
            ends: Ends::new(anchor, tags, item_hint),
        }
    }

    /// Makes an empty queue. Returns its anchor.
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

    /// Reads the first value.
    pub fn peek(&self) -> Peek {
        self.ends.peek()
    }

    /// The walk before a push of this value, or before a pop.
    pub(in crate::shapes) fn travel(&self, pushed: Option<Vec<u8>>) -> QueueTravel {
        QueueTravel {
            queue: *self,
            peek: self.peek(),
            pushed,
            ended: None,
        }
    }

    /// The parts of the line of a queue that has ended.
    pub(in crate::shapes) fn parts_of_line(
        &self,
        scrap: Scrap,
        bytes: &[u8],
    ) -> Result<Vec<Scrap>, Stale> {
        let line = Line::parse_block(self.ends.tags, scrap.pointer, bytes)?;
        let index = (line.position % CHUNK_ITEMS) as u32;
        let count = line.length.min(u32::MAX.into()) as u32;
        let part = Part::Chunk { index, count };
        // A chunk without any remaining item may be left.
        let chunk = (!line.head.is_null()).then(|| Scrap::new(line.head, part));
        Ok(chunk.into_iter().collect())
    }

    /// Reads the whole queue, from its first item. The queue should not change during the walk.
    pub fn walk(&self) -> QueueWalk {
        QueueWalk {
            queue: *self,
            line: None,
            is_asked: false,
            chunk: None,
            words: Vec::new(),
            contents: Contents::default(),
        }
    }
}

impl QueueTravel {
    fn planned(
        &mut self,
        (line, first): (Line, Option<Item>),
        next: Pointer,
        next_chunk: Pointer,
    ) -> Step<QueuePlan> {
        Step::Done(QueuePlan {
            queue: self.queue,
            line,
            first,
            next,
            next_chunk,
            pushed: self.pushed.take(),
        })
    }

    /// Reads the successor of the popped item: its word, if it stands in the same chunk, or else the link.
    fn follow(&mut self, line: Line, first: Option<Item>) -> Step<QueuePlan> {
        if self.pushed.is_some() || line.length <= 1 {
            return self.planned((line, first), Pointer::NULL, Pointer::NULL);
        }
        let span = match is_last_of_chunk(line.position) {
            true => line.head.span(8),
            false => word_of(line.head, line.position + 1),
        };
        self.ended = Some((line, first));
        Step::one(Place::last(span))
    }

    fn advance(&mut self, bytes: &[Vec<u8>]) -> Result<Step<QueuePlan>, Stale> {
        let Some((line, first)) = self.ended.take() else {
            return Ok(match self.peek.advance(bytes)? {
                Step::Read(places) => Step::Read(places),
                Step::Stale(stale) => Step::Stale(stale),
                Step::Done((line, first)) => self.follow(line, first),
            });
        };
        let word = Pointer::from_word(word_at(&bytes[0], 0));
        match bytes.len() {
            1 if is_last_of_chunk(line.position) => {
                // The link names the chunk; its first word names the item. Both are needed.
                self.ended = Some((line, first));
                let link = line.head.span(8);
                let word = word_of(word, line.position + 1);
                Ok(Step::Read(Places::from_iter([
                    Place::last(link),
                    Place::last(word),
                ])))
            }
            1 => Ok(self.planned((line, first), word, line.head)),
            _ => {
                let next = Pointer::from_word(word_at(&bytes[1], 0));
                Ok(self.planned((line, first), next, word))
            }
        }
    }
}

impl Traversal for QueueTravel {
    type End = QueuePlan;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<QueuePlan> {
        self.advance(bytes).unwrap_or_else(Step::Stale)
    }
}

impl QueuePlan {
    /// Writes the change: item and chunk, then the line.
    ///
    /// # Errors
    /// [`SpaceFault`]: the draft has to be dropped.
    pub fn apply(mut self, draft: &mut Draft<'_>) -> Result<Answer, SpaceFault> {
        match self.pushed.take() {
            Some(value) => self.push(draft, &value),
            None => self.pop(draft),
        }
    }

    fn push(self, draft: &mut Draft<'_>, value: &[u8]) -> Result<Answer, SpaceFault> {
        let Ends { anchor, tags, .. } = self.queue.ends;
        let mut line = self.line;
        let number = line.position.wrapping_add(line.length);
        let key = number.to_le_bytes();
        let pointer = draft.allocate(item_size(key.len(), value.len()))?;
        draft.write(pointer.offset(), &item_bytes(tags, pointer, &key, value));
        if number.is_multiple_of(CHUNK_ITEMS) {
            let chunk = draft.allocate(CHUNK_SIZE)?;
            draft.write_word(chunk.offset(), 0);
            match line.tail.is_null() {
                true => line.head = chunk,
                false => draft.write_word(line.tail.offset(), chunk.word()),
            }
            line.tail = chunk;
        }
        draft.write_word(word_of(line.tail, number).offset, pointer.word());
        if line.length == 0 {
            line.next = pointer;
        }
        line.length += 1;
        line.write_over(draft, tags, anchor, &self.line);
        Ok(Answer::Added)
    }

    fn pop(self, draft: &mut Draft<'_>) -> Result<Answer, SpaceFault> {
        let Ends { anchor, tags, .. } = self.queue.ends;
        let mut line = self.line;
        let Some(first) = self.first else {
            return Ok(Answer::Taken(None));
        };
        let chunk = line.head;
        let is_last = is_last_of_chunk(line.position);
        line.length -= 1;
        line.position = line.position.wrapping_add(1);
        line.next = self.next;
        if is_last {
            line.head = self.next_chunk;
            if line.length == 0 {
                line.tail = Pointer::NULL;
            }
        }
        line.write_over(draft, tags, anchor, &self.line);
        draft.free(first.pointer, first.size())?;
        if is_last {
            draft.free(chunk, CHUNK_SIZE)?;
        }
        Ok(Answer::Taken(Some(first.value)))
    }
}

/// Reads a whole queue: chunk by chunk, then all items at once.
#[derive(Clone, Debug)]
pub struct QueueWalk {
    queue: Queue,
    line: Option<Line>,
    is_asked: bool,
    /// The chunk that is being read.
    chunk: Option<Pointer>,
    /// Pointers to items whose values are not read yet, each with its number.
    words: Vec<(u64, Pointer)>,
    contents: Contents,
}

impl QueueWalk {
    fn advance(&mut self, bytes: &[Vec<u8>]) -> Result<Step<Contents>, Stale> {
        let Ends { anchor, tags, .. } = self.queue.ends;
        let Some(line) = self.line else {
            if !self.is_asked {
                self.is_asked = true;
                return Ok(Step::one(Line::place(anchor)));
            }
            let line = Line::parse(tags, anchor, &bytes[0])?;
            self.line = Some(line);
            self.contents.length = line.length;
            self.contents.blocks.push(Line::block(anchor));
            return Ok(match line.head.is_null() {
                true => Step::Done(std::mem::take(&mut self.contents)),
                false => self.read_chunk(line.head),
            });
        };
        match self.chunk.take() {
            Some(chunk) => Ok(self.chunk(line, chunk, &bytes[0])),
            None => self.items(bytes),
        }
    }

    fn read_chunk(&mut self, chunk: Pointer) -> Step<Contents> {
        self.chunk = Some(chunk);
        Step::one(Place::last(chunk.span(CHUNK_SIZE)))
    }

    fn chunk(&mut self, line: Line, chunk: Pointer, bytes: &[u8]) -> Step<Contents> {
        self.contents.blocks.push((chunk, CHUNK_SIZE));
        let end = line.position.saturating_add(line.length);
        let mut number = line.position.saturating_add(self.words.len() as u64);
        while number < end {
            let word = word_at(bytes, 1 + (number % CHUNK_ITEMS) as usize);
            self.words.push((number, Pointer::from_word(word)));
            number += 1;
            if is_last_of_chunk(number - 1) && number < end {
                return self.read_chunk(Pointer::from_word(word_at(bytes, 0)));
            }
        }
        let items = self.queue.ends.items();
        let places = self.words.iter();
        let places = places.map(|(_, word)| Place::last(items.first(*word)));
        Step::Read(places.collect())
    }

    fn items(&mut self, bytes: &[Vec<u8>]) -> Result<Step<Contents>, Stale> {
        let mut longer = Places::new();
        for ((number, word), bytes) in std::mem::take(&mut self.words).into_iter().zip(bytes) {
            match self.queue.ends.items().judge(word, bytes) {
                ItemRead::Stale(stale) => return Err(stale),
                ItemRead::Longer(place) => {
                    self.words.push((number, word));
                    longer.push(Place::last(place));
                }
                ItemRead::Whole(item) if item.key != number.to_le_bytes() => {
                    let place = word.span(item.size());
                    let what = "item with its number";
                    return Err(Stale { place, what });
                }
                ItemRead::Whole(item) => {
                    self.contents.blocks.push((word, item.size()));
                    self.contents
                        .items
                        .push((number.to_be_bytes().into(), item.value));
                }
            }
        }
        if !longer.is_empty() {
            return Ok(Step::Read(longer));
        }
        let mut contents = std::mem::take(&mut self.contents);
        // Longer items came last; their numbers give the order.
        contents.items.sort();
        contents.items.iter_mut().for_each(|(key, _)| key.clear());
        Ok(Step::Done(contents))
    }
}

impl Traversal for QueueWalk {
    type End = Contents;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Contents> {
        self.advance(bytes).unwrap_or_else(Step::Stale)
    }
}

/// Chunks that a reader passes on the way to an item. Their number is chosen by the writer, which may be hostile.
const CHUNKS_MAX: u64 = 1 << 16;

/// Reads the item of a queue with a certain number: the line, the chunks up to the item's, the item.
#[derive(Clone, Debug)]
pub struct ItemOf {
    queue: Queue,
    number: u64,
    stage: ItemStage,
}

#[derive(Clone, Copy, Debug)]
enum ItemStage {
    Begin,
    Line,
    /// The chunk whose first item has this number.
    Chunk(u64),
    Item(Pointer),
}

/// An item of a queue that was looked for by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Numbered {
    /// The queue does not hold the item yet.
    Later,
    /// A pop has removed the item.
    Gone,
    /// The item's value.
    Value(Vec<u8>),
}

impl Queue {
    /// Reads the item with this number. The first one that was put in has the number 0.
    pub fn item(&self, number: u64) -> ItemOf {
        ItemOf {
            queue: *self,
            number,
            stage: ItemStage::Begin,
        }
    }
}

/// Reads the numbers of the items that are in a queue: the line.
#[derive(Clone, Debug)]
pub struct NumbersOf {
    queue: Queue,
}

impl Queue {
    /// Reads the numbers of the items that are in the queue.
    pub fn numbers(&self) -> NumbersOf {
        NumbersOf { queue: *self }
    }
}

impl Traversal for NumbersOf {
    type End = Range<u64>;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Range<u64>> {
        let Ends { anchor, tags, .. } = self.queue.ends;
        let Some(bytes) = bytes.first() else {
            return Step::one(Line::place(anchor));
        };
        match Line::parse(tags, anchor, bytes) {
            Ok(line) => Step::Done(line.position..line.position.saturating_add(line.length)),
            Err(stale) => Step::Stale(stale),
        }
    }
}

impl ItemOf {
    fn advance(&mut self, bytes: &[Vec<u8>]) -> Result<Step<Numbered>, Stale> {
        let Ends { anchor, tags, .. } = self.queue.ends;
        match self.stage {
            ItemStage::Begin => {
                self.stage = ItemStage::Line;
                Ok(Step::one(Line::place(anchor)))
            }
            ItemStage::Line => {
                let line = Line::parse(tags, anchor, &bytes[0])?;
                let ahead = self.number.checked_sub(line.position);
                let Some(ahead) = ahead else {
                    return Ok(Step::Done(Numbered::Gone));
                };
                if ahead >= line.length {
                    return Ok(Step::Done(Numbered::Later));
                }
                if ahead / CHUNK_ITEMS > CHUNKS_MAX {
                    let (place, what) = (Line::place(anchor).span, "item within reach");
                    return Err(Stale { place, what });
                }
                let first = line.position - line.position % CHUNK_ITEMS;
                Ok(self.chunk(line.head, first))
            }
            ItemStage::Chunk(first) => {
                let word = Pointer::from_word(word_at(&bytes[0], 0));
                Ok(match self.number - first < CHUNK_ITEMS {
                    true => {
                        self.stage = ItemStage::Item(word);
                        Step::one(Place::last(self.queue.ends.items().first(word)))
                    }
                    false => self.chunk(word, first + CHUNK_ITEMS),
                })
            }
            ItemStage::Item(pointer) => match self.queue.ends.items().judge(pointer, &bytes[0]) {
                ItemRead::Whole(item) if item.key == self.number.to_le_bytes() => {
                    Ok(Step::Done(Numbered::Value(item.value)))
                }
                // Chunks have no tags: the item holds its own number.
                ItemRead::Whole(item) => Err(Stale {
                    place: pointer.span(item.size()),
                    what: "item with its number",
                }),
                ItemRead::Longer(place) => Ok(Step::one(Place::last(place))),
                ItemRead::Stale(stale) => Err(stale),
            },
        }
    }

    /// Reads the item's word of its chunk, or the link of one before.
    fn chunk(&mut self, chunk: Pointer, first: u64) -> Step<Numbered> {
        self.stage = ItemStage::Chunk(first);
        let place = match self.number - first < CHUNK_ITEMS {
            true => word_of(chunk, self.number),
            false => chunk.span(8),
        };
        Step::one(Place::last(place))
    }
}

impl Traversal for ItemOf {
    type End = Numbered;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Numbered> {
        self.advance(bytes).unwrap_or_else(Step::Stale)
    }
}
