//! The place of a consumer in a queue. Producer and consumer have a lock domain each, and so a lease each.
//!
//! ```text
//!   producer's domain   queue:    | 4 | 5 | 6 | 7 | 8 | 9 |          pushes at the end, pops the items below the floor
//!   consumer's domain   cursor:     floor 4     next 7               takes 7 next; taken and not done: 4 and 6
//! ```
//!
//! A consumer reads an item of the queue as any reader does, and *takes* the item by its number and a token: the cursor
//! advances, and token and number stay in its record until the item is *done*. The next owner of the cursor finds both
//! there. The producer removes only items below the floor.

use stonecast_base::mutant;

use crate::shapes::contents::Contents;
use crate::shapes::structure::ExecuteFault;
use crate::shapes::tag::{TagKey, word_at};
use crate::shapes::traversal::{Answer, Place, Stale, Step, Traversal};
use crate::space::{Draft, SpaceFault};
use crate::wire::{Pointer, Verb};

/// Bytes of the line.
const LINE_SIZE: u64 = 64;
/// Bytes of the block of taken items.
const TAKEN_SIZE: u64 = 1024;
/// The most items that are taken and not done.
pub const TAKEN_MAX: usize = TAKEN_SIZE as usize / 16 - 1;

/// A cursor of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    anchor: Pointer,
    tags: TagKey,
}

/// The state of a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CursorState {
    /// The number of the item that is taken next.
    pub next: u64,
    /// Items that were taken and are not done: token and number, in the order in which they were taken.
    pub taken: Vec<(u64, u64)>,
}

impl CursorState {
    /// Items below this number are done, and no longer needed.
    pub fn floor(&self) -> u64 {
        let taken = self.taken.iter().map(|(_, number)| *number);
        match mutant!(TakenIsDone) {
            true => self.next,
            false => taken.min().unwrap_or(self.next),
        }
    }
}

/// Reads a cursor: the line, then the taken items.
#[derive(Clone, Debug)]
pub struct ReadCursor {
    cursor: Cursor,
    is_asked: bool,
    line: Option<(u64, Pointer)>,
}

/// The walk before a change of a cursor.
#[derive(Clone, Debug)]
pub struct CursorTravel {
    read: ReadCursor,
    verb: Verb,
    number: u64,
    token: u64,
}

/// Everything that a change of a cursor needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorPlan {
    cursor: Cursor,
    state: CursorState,
    block: Pointer,
    verb: Verb,
    number: u64,
    token: u64,
}

impl Cursor {
    /// The cursor behind `anchor`.
    pub fn new(anchor: Pointer, tags: TagKey) -> Self {
        Self { anchor, tags }
    }

    /// Makes a cursor that stands before the item with the number 0. Returns its anchor.
    ///
    /// # Errors
    /// [`SpaceFault`].
    pub fn create(draft: &mut Draft<'_>, tags: TagKey) -> Result<Pointer, SpaceFault> {
        let (anchor, block) = (draft.allocate(LINE_SIZE)?, draft.allocate(TAKEN_SIZE)?);
        let cursor = Self::new(anchor, tags);
        cursor.write(draft, block, &CursorState::default());
        Ok(anchor)
    }

    /// Reads the cursor.
    pub fn read(&self) -> ReadCursor {
        ReadCursor {
            cursor: *self,
            is_asked: false,
            line: None,
        }
    }

    /// The key of the operation that takes the item with this number, which has to be the next one.
    pub fn take_key(token: u64, number: u64) -> Vec<u8> {
        [token, number].map(u64::to_le_bytes).concat()
    }

    /// The key of the operation that ends the item that was taken with this token.
    pub fn done_key(token: u64) -> Vec<u8> {
        token.to_le_bytes().to_vec()
    }

    /// The walk before an operation with this key; `None`: the key belongs to no such operation.
    pub(in crate::shapes) fn travel(&self, verb: Verb, key: &[u8]) -> Option<CursorTravel> {
        let words = key.as_chunks::<8>();
        let (token, number) = match (verb, words) {
            (Verb::Take, ([token, number], [])) => (token, u64::from_le_bytes(*number)),
            (Verb::Done, ([token], [])) => (token, 0),
            _ => return None,
        };
        Some(CursorTravel {
            read: self.read(),
            verb,
            number,
            token: u64::from_le_bytes(*token),
        })
    }

    /// Writes the taken items, then the line.
    fn write(&self, draft: &mut Draft<'_>, block: Pointer, state: &CursorState) {
        let pairs = state.taken.iter();
        let pairs = pairs.flat_map(|(token, number)| [*token, *number]);
        let words = [0, state.taken.len() as u64].into_iter().chain(pairs);
        let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        // The tag covers the number of the next item, too: both are of one moment.
        bytes.extend_from_slice(&state.next.to_le_bytes());
        self.tags.seal(block, 0, &mut bytes);
        bytes.truncate(bytes.len() - 8);
        draft.write(block.offset(), &bytes);
        let words = [0, state.next, block.word(), 0, 0, 0, 0, 0];
        let mut line: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        self.tags.seal(self.anchor, 0, &mut line);
        draft.write(self.anchor.offset(), &line);
    }

    fn parse_line(tags: TagKey, anchor: Pointer, bytes: &[u8]) -> Result<(u64, Pointer), Stale> {
        let is_line = bytes.len() as u64 == LINE_SIZE && tags.is_sealed(anchor, 0, bytes);
        let (place, what) = (anchor.span(LINE_SIZE), "line of a cursor");
        is_line
            .then(|| (word_at(bytes, 1), Pointer::from_word(word_at(bytes, 2))))
            .ok_or(Stale { place, what })
    }

    /// The block of an ended cursor that is not its line.
    pub(in crate::shapes) fn block_of_line(
        &self,
        anchor: Pointer,
        bytes: &[u8],
    ) -> Result<(Pointer, u64), Stale> {
        let (_, block) = Self::parse_line(self.tags, anchor, bytes)?;
        Ok((block, TAKEN_SIZE))
    }
}

impl ReadCursor {
    fn advance(&mut self, bytes: &[Vec<u8>]) -> Result<Step<(CursorState, Pointer)>, Stale> {
        let Cursor { anchor, tags } = self.cursor;
        if !self.is_asked {
            self.is_asked = true;
            return Ok(Step::one(Place::last(anchor.span(LINE_SIZE))));
        }
        let Some((next, block)) = self.line else {
            let line = Cursor::parse_line(tags, anchor, &bytes[0])?;
            self.line = Some(line);
            return Ok(Step::one(Place::last(line.1.span(TAKEN_SIZE))));
        };
        let (place, what) = (block.span(TAKEN_SIZE), "taken items of a cursor");
        let count = word_at(&bytes[0], 1) as usize;
        let end = 16 + count.min(TAKEN_MAX) * 16;
        let covered = [&bytes[0][..end], &next.to_le_bytes()].concat();
        if count > TAKEN_MAX || !tags.is_sealed(block, 0, &covered) {
            return Err(Stale { place, what });
        }
        let pair = |at: usize| (word_at(&bytes[0], at), word_at(&bytes[0], at + 1));
        let taken = (0..count).map(|index| pair(2 + index * 2)).collect();
        Ok(Step::Done((CursorState { next, taken }, block)))
    }

    /// The state as the contents of a structure: tokens and numbers.
    pub(in crate::shapes) fn contents(
        &mut self,
        bytes: &[Vec<u8>],
    ) -> Result<Step<Contents>, Stale> {
        let anchor = self.cursor.anchor;
        let step = self.advance(bytes)?;
        Ok(step.map(|(state, block)| Contents {
            length: state.taken.len() as u64,
            items: state
                .taken
                .iter()
                .map(|(token, number)| (token.to_be_bytes().into(), number.to_be_bytes().into()))
                .collect(),
            blocks: vec![(anchor, LINE_SIZE), (block, TAKEN_SIZE)],
        }))
    }
}

impl Traversal for ReadCursor {
    type End = CursorState;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<CursorState> {
        let step = self.advance(bytes).unwrap_or_else(Step::Stale);
        step.map(|(state, _)| state)
    }
}

impl Traversal for CursorTravel {
    type End = CursorPlan;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<CursorPlan> {
        let step = self.read.advance(bytes).unwrap_or_else(Step::Stale);
        step.map(|(state, block)| CursorPlan {
            cursor: self.read.cursor,
            state,
            block,
            verb: self.verb,
            number: self.number,
            token: self.token,
        })
    }
}

impl CursorPlan {
    /// Writes the change.
    pub(in crate::shapes) fn apply(
        mut self,
        draft: &mut Draft<'_>,
    ) -> Result<Answer, ExecuteFault> {
        let state = &mut self.state;
        let at = state
            .taken
            .iter()
            .position(|(token, _)| *token == self.token);
        let answer = match (self.verb, at) {
            // The item was taken before: the token still stands in the record.
            (Verb::Take, Some(at)) => {
                return Ok(Answer::Changed(state.taken[at].1 == self.number));
            }
            (Verb::Take, None) => {
                if self.number != state.next {
                    return Ok(Answer::Changed(false));
                }
                if state.taken.len() == TAKEN_MAX {
                    return Err(ExecuteFault::Taken);
                }
                if !mutant!(TakenForgotten) {
                    state.taken.push((self.token, self.number));
                }
                state.next += 1;
                Answer::Changed(true)
            }
            (_, None) => return Ok(Answer::Existed(false)),
            (_, Some(at)) => {
                state.taken.remove(at);
                Answer::Existed(true)
            }
        };
        self.cursor.write(draft, self.block, &self.state);
        Ok(answer)
    }
}
