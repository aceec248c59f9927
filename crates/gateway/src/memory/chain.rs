//! Replies on their way to a client, in blocks. A block goes back to the stock once its bytes are sent.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::rc::Rc;

use memmap2::MmapMut;
use smallvec::SmallVec;

use super::block::{GUARANTEED, NoBlock, Stock};

/// The bytes of the first block, of later blocks, and of blocks for a long value.
const FIRST_SIZE: usize = 16 << 10;
const NEXT_SIZE: usize = 64 << 10;
const LONG_SIZE: usize = 256 << 10;
/// The most blocks that one system call sends.
pub const SLICES_MAX: usize = 16;

/// Replies on their way to a client, in blocks.
pub struct Chain {
    stock: Rc<Stock>,
    /// The blocks before the last, each with its number of bytes.
    full: VecDeque<(MmapMut, usize)>,
    /// The block that is written to, and its number of bytes.
    last: Option<MmapMut>,
    last_len: usize,
    /// Bytes of the first block that are sent.
    sent: usize,
    len: usize,
    capacity: usize,
    /// The reason why bytes were left out. The chain takes no bytes after a failure.
    failure: Option<NoBlock>,
}

impl Chain {
    /// An empty chain without memory.
    pub fn new(stock: Rc<Stock>) -> Self {
        Self {
            stock,
            full: VecDeque::new(),
            last: None,
            last_len: 0,
            sent: 0,
            len: 0,
            capacity: 0,
            failure: None,
        }
    }

    /// Bytes that wait to be sent.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no byte waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the reason why bytes were left out, if any were. The content then ends in the middle of a reply and must
    /// not be sent.
    pub fn take_failure(&mut self) -> Option<NoBlock> {
        self.failure.take()
    }

    /// Bytes of memory in use.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Appends bytes.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        if self.failure.is_none()
            && let Some(last) = &mut self.last
            && let Some(room) = last.get_mut(self.last_len..self.last_len + bytes.len())
        {
            room.copy_from_slice(bytes);
            self.last_len += bytes.len();
            self.len += bytes.len();
        } else {
            self.extend_over_blocks(bytes);
        }
    }

    /// Appends a byte.
    #[inline]
    pub fn push(&mut self, byte: u8) {
        self.extend_from_slice(&[byte]);
    }

    #[cold]
    fn extend_over_blocks(&mut self, bytes: &[u8]) {
        if self.failure.is_none() {
            self.failure = self.try_extend_over_blocks(bytes).err();
        }
    }

    fn try_extend_over_blocks(&mut self, mut bytes: &[u8]) -> Result<(), NoBlock> {
        while !bytes.is_empty() {
            let room = match &mut self.last {
                Some(last) if self.last_len < last.len() => &mut last[self.last_len..],
                _ => &mut self.add_block(bytes.len())?[..],
            };
            let size = room.len().min(bytes.len());
            room[..size].copy_from_slice(&bytes[..size]);
            self.last_len += size;
            self.len += size;
            bytes = &bytes[size..];
        }
        Ok(())
    }

    /// Adds an empty last block, for `size` bytes or a part of them.
    fn add_block(&mut self, size: usize) -> Result<&mut MmapMut, NoBlock> {
        let size = match size {
            _ if self.len == 0 => FIRST_SIZE,
            LONG_SIZE.. => LONG_SIZE,
            _ => NEXT_SIZE,
        };
        let new = self.stock.take(size)?;
        self.capacity += new.len();
        if let Some(old) = self.last.take() {
            self.full.push_back((old, self.last_len));
        }
        self.last_len = 0;
        Ok(self.last.insert(new))
    }

    /// The bytes that wait, in order, as many as one system call takes.
    pub fn slices(&self) -> SmallVec<[IoSlice<'_>; SLICES_MAX]> {
        let last = self.last.as_ref().map(|last| &last[..self.last_len]);
        let full = self.full.iter().map(|(block, len)| &block[..*len]);
        let mut slices: SmallVec<[IoSlice<'_>; SLICES_MAX]> = full
            .chain(last)
            .take(SLICES_MAX)
            .map(IoSlice::new)
            .collect();
        if let Some(first) = slices.first_mut() {
            first.advance(self.sent);
        }
        slices
    }

    /// Removes the first `size` bytes, which were sent.
    pub fn consume(&mut self, mut size: usize) {
        self.len -= size;
        while let Some((_, len)) = self.full.front() {
            let rest = len - self.sent;
            if size < rest {
                self.sent += size;
                return;
            }
            size -= rest;
            self.sent = 0;
            if let Some((block, _)) = self.full.pop_front() {
                self.give(block);
            }
        }
        self.sent += size;
        if self.len == 0 {
            self.end();
        }
    }

    /// Keeps only the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        let mut excess = self.len - len;
        self.len = len;
        while excess > self.last_len || (excess == self.last_len && !self.full.is_empty()) {
            excess -= self.last_len;
            let Some((block, block_len)) = self.full.pop_back() else {
                break;
            };
            if let Some(old) = self.last.replace(block) {
                self.give(old);
            }
            self.last_len = block_len;
        }
        self.last_len -= excess;
        if self.len == 0 {
            self.end();
        }
    }

    /// Moves short content into the smallest block, if the system has one.
    pub fn shrink(&mut self) {
        if self.len > GUARANTEED || self.capacity <= GUARANTEED {
            return;
        }
        let Ok(mut block) = self.stock.take(GUARANTEED) else {
            return;
        };
        let mut at = 0;
        for slice in self.slices() {
            block[at..at + slice.len()].copy_from_slice(&slice);
            at += slice.len();
        }
        self.end();
        self.capacity = block.len();
        self.last = Some(block);
        self.last_len = at;
        self.len = at;
    }

    /// The content as text.
    #[cfg(test)]
    pub fn text(&self) -> String {
        let bytes = self
            .slices()
            .iter()
            .flat_map(|slice| slice.to_vec())
            .collect();
        String::from_utf8(bytes).unwrap()
    }

    fn give(&mut self, block: MmapMut) {
        self.capacity -= block.len();
        self.stock.give(block);
    }

    /// Gives all memory back.
    fn end(&mut self) {
        while let Some((block, _)) = self.full.pop_front() {
            self.give(block);
        }
        if let Some(block) = self.last.take() {
            self.give(block);
        }
        (self.last_len, self.sent, self.len) = (0, 0, 0);
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;
    use stonecast_base::random_from_seed;

    use super::*;

    fn bytes(chain: &Chain) -> Vec<u8> {
        let mut bytes = Vec::new();
        chain
            .slices()
            .iter()
            .for_each(|slice| bytes.extend(&**slice));
        bytes
    }

    /// Compares the chain with a queue of bytes after the same calls.
    #[test]
    fn a_chain_holds_the_appended_bytes_without_those_that_were_sent_or_taken_back() {
        let mut random = random_from_seed(14);
        let mut chain = Chain::new(Rc::default());
        let mut model: VecDeque<u8> = VecDeque::new();
        for step in 0..3000 {
            let size = match random.random_range(0..4) {
                0 => random.random_range(0..300_000),
                _ => random.random_range(0..100),
            };
            match random.random_range(0..4) {
                _ if model.len() > 1 << 19 => {
                    let size = random.random_range(0..=model.len());
                    chain.consume(size);
                    model.drain(..size);
                }
                0 | 1 => {
                    let piece: Vec<u8> = (0..size).map(|index| (index + step) as u8).collect();
                    chain.extend_from_slice(&piece);
                    model.extend(piece);
                }
                2 => {
                    let size = size.min(model.len());
                    chain.consume(size);
                    model.drain(..size);
                }
                _ => {
                    let len = model.len() - size.min(model.len()) / 2;
                    chain.truncate(len);
                    model.truncate(len);
                    chain.shrink();
                }
            }
            assert_eq!(chain.len(), model.len());
            assert!(bytes(&chain) == model.make_contiguous(), "step {step}");
            assert!(chain.capacity() <= chain.len() + FIRST_SIZE + 2 * LONG_SIZE);
            assert_eq!(chain.is_empty(), chain.capacity() == 0);
        }
    }
}
