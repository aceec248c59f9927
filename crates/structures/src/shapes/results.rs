//! The results of operations with tokens, on the medium: an operation that any later writer retries takes no further
//! effect and returns its first answer.
//!
//! ```text
//!   table of structures ─▶ | line | line | ... |      line: tag, token, number, digest, size, answer or the item that holds it
//! ```
//!
//! The table is a ring: it keeps the results of the last operations with tokens, as many as it has lines. A line
//! changes in the transaction of its operation.

use std::collections::BTreeMap;

use stonecast_base::{hash, mutant};

use super::item::{ItemReader, VALUE_SIZE_MAX, item_bytes, item_size};
use super::structure::ExecuteFault;
use super::tag::{TagKey, word_at};
use super::traversal::Answer;
use crate::space::{Draft, SpaceFault};
use crate::wire::{Operation, Pointer};

/// Bytes of a line.
const LINE_SIZE: u64 = 64;
/// Bytes of an answer that lies in its line.
const INLINE_SIZE: usize = 24;
/// Lines of the largest table.
const LINES_MAX: u64 = 4096;

/// The record of an operation with a token.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    line: u64,
    number: u64,
    digest: u64,
    answer: Place,
}

/// The place of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Inline(Vec<u8>),
    Item(Pointer, usize),
}

/// The results of a domain, as its writer knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Results {
    /// The block, and its lines.
    block: Pointer,
    lines: u64,
    /// The number of lines that were ever written, which chooses the next line.
    next: u64,
    by_token: BTreeMap<u64, Known>,
    by_line: BTreeMap<u64, u64>,
}

/// The line that a new operation with a token adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewResult {
    token: u64,
    known: Known,
}

/// The result of an operation that was done before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repeated {
    /// The number of the operation that was done.
    pub number: u64,
    answer: Place,
}

impl Repeated {
    /// The item that has to be read for the answer.
    pub fn item(&self, tags: TagKey) -> Option<(ItemReader, Pointer)> {
        match self.answer {
            Place::Inline(_) => None,
            Place::Item(pointer, size) => {
                let hint = item_size(0, size) as usize;
                Some((ItemReader { tags, hint }, pointer))
            }
        }
    }

    /// The answer, if it lies in the line.
    pub fn answer(&self) -> Option<Answer> {
        match &self.answer {
            Place::Inline(bytes) => Answer::parse(bytes),
            Place::Item(..) => None,
        }
    }
}

/// Bytes of the table of a domain whose slabs have this size: an eighth of a slab, within bounds.
pub(crate) fn table_size(slab_size: u64) -> u64 {
    (slab_size / 8).clamp(LINE_SIZE, LINES_MAX * LINE_SIZE)
}

fn digest_of(operation: &Operation<'_>) -> u64 {
    hash::xxh3_64(0, &operation.encode())
}

impl Results {
    /// The results in the table behind `block`.
    pub fn parse(block: Pointer, tags: TagKey, bytes: &[u8]) -> Self {
        let mut results = Self {
            block,
            lines: bytes.len() as u64 / LINE_SIZE,
            ..Self::default()
        };
        let mut newest = (0, None);
        for (line, bytes) in bytes.chunks_exact(LINE_SIZE as usize).enumerate() {
            let line = line as u64;
            if !tags.is_sealed(block, line, bytes) {
                continue;
            }
            let size = word_at(bytes, 4) as usize;
            let answer = match size <= INLINE_SIZE {
                true => Place::Inline(bytes[40..40 + size].to_vec()),
                false => Place::Item(Pointer::from_word(word_at(bytes, 5)), size),
            };
            let (token, number) = (word_at(bytes, 1), word_at(bytes, 2));
            let digest = word_at(bytes, 3);
            let known = Known {
                line,
                number,
                digest,
                answer,
            };
            results.by_token.insert(token, known);
            results.by_line.insert(line, token);
            newest = newest.max((number, Some(line)));
        }
        results.next = newest.1.map_or(0, |line| line + 1);
        results
    }

    /// The block of the table.
    pub fn block(&self) -> Pointer {
        self.block
    }

    /// The result of an operation, if the operation was done before.
    ///
    /// # Errors
    /// [`ExecuteFault::Token`]: another operation had the token.
    pub fn repeated(&self, operation: &Operation<'_>) -> Result<Option<Repeated>, ExecuteFault> {
        let token = operation.token;
        let Some(known) = self.by_token.get(&token) else {
            return Ok(None);
        };
        if mutant!(TokenForgotten) {
            return Ok(None);
        }
        if known.digest != digest_of(operation) {
            return Err(ExecuteFault::Token { token });
        }
        Ok(Some(Repeated {
            number: known.number,
            answer: known.answer.clone(),
        }))
    }

    /// Whether the results of all operations with tokens after the operation `since` are kept.
    pub fn keeps_since(&self, since: u64) -> bool {
        let oldest = self.by_token.values().map(|known| known.number).min();
        let is_full = self.by_line.len() as u64 == self.lines;
        !is_full || oldest.is_none_or(|oldest| oldest <= since + 1)
    }

    /// Takes memory for the table.
    pub fn create(draft: &mut Draft<'_>, slab_size: u64) -> Result<Self, SpaceFault> {
        let size = table_size(slab_size);
        Ok(Self {
            block: draft.allocate(size)?,
            lines: size / LINE_SIZE,
            ..Self::default()
        })
    }

    /// Writes the line of an operation over the oldest line.
    pub fn write(
        &self,
        draft: &mut Draft<'_>,
        tags: TagKey,
        operation: &Operation<'_>,
        (number, answer): (u64, &Answer),
    ) -> Result<NewResult, ExecuteFault> {
        let line = self.next % self.lines;
        let old = self.by_line.get(&line);
        if let Some(Known {
            answer: Place::Item(pointer, size),
            ..
        }) = old.and_then(|token| self.by_token.get(token))
        {
            draft.free(*pointer, item_size(0, *size))?;
        }
        let answer = answer.encode();
        if answer.len() > VALUE_SIZE_MAX + 1 {
            let size = answer.len();
            return Err(ExecuteFault::Answer { size });
        }
        let (size, digest) = (answer.len(), digest_of(operation));
        let answer = match size <= INLINE_SIZE {
            true => Place::Inline(answer),
            false => {
                let item = draft.allocate(item_size(0, size))?;
                draft.write(item.offset(), &item_bytes(tags, item, &[], &answer));
                Place::Item(item, size)
            }
        };
        let token = operation.token;
        let words = [0, token, number, digest, size as u64];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        match &answer {
            Place::Inline(answer) => bytes.extend_from_slice(answer),
            Place::Item(item, _) => bytes.extend_from_slice(&item.word().to_le_bytes()),
        }
        bytes.resize(LINE_SIZE as usize, 0);
        tags.seal(self.block, line, &mut bytes);
        draft.write(self.block.offset() + line * LINE_SIZE, &bytes);
        let known = Known {
            line,
            number,
            digest,
            answer,
        };
        Ok(NewResult { token, known })
    }

    /// Notes a line that was written.
    pub fn note(&mut self, new: NewResult) {
        let line = new.known.line;
        if let Some(old) = self.by_line.insert(line, new.token) {
            self.by_token.remove(&old);
        }
        self.by_token.insert(new.token, new.known);
        self.next = line + 1;
    }

    /// The blocks of the table, with their sizes.
    pub fn blocks(&self) -> Vec<(Pointer, u64)> {
        let items = self
            .by_token
            .values()
            .filter_map(|known| match known.answer {
                Place::Inline(_) => None,
                Place::Item(pointer, size) => Some((pointer, item_size(0, size))),
            });
        let table = (!self.block.is_null()).then_some((self.block, self.lines * LINE_SIZE));
        items.chain(table).collect()
    }
}
