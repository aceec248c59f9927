//! The received bytes that are still needed, in one piece.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use memmap2::MmapMut;

use super::block::{NoBlock, Stock};

/// The received bytes that are still needed, in one piece.
pub struct Buffer {
    stock: Rc<Stock>,
    block: Option<MmapMut>,
    len: usize,
}

impl Buffer {
    /// An empty buffer without memory.
    pub fn new(stock: Rc<Stock>) -> Self {
        Self {
            stock,
            block: None,
            len: 0,
        }
    }

    /// The size of the buffer's memory in bytes.
    pub fn capacity(&self) -> usize {
        self.block.as_ref().map_or(0, |block| block.len())
    }

    /// Moves the content into memory for `capacity` bytes, which must hold the content; 0 gives all memory back. An
    /// error changes nothing.
    pub fn resize(&mut self, capacity: usize) -> Result<(), NoBlock> {
        let mut new = match capacity {
            0 => None,
            _ => Some(self.stock.take(capacity)?),
        };
        if let Some(block) = &mut new {
            block[..self.len].copy_from_slice(self);
        }
        self.replace(new);
        Ok(())
    }

    fn replace(&mut self, new: Option<MmapMut>) {
        if let Some(old) = std::mem::replace(&mut self.block, new) {
            self.stock.give(old);
        }
    }

    /// Memory for the bytes that are read next.
    pub fn spare(&mut self) -> &mut [u8] {
        let len = self.len;
        self.block
            .as_mut()
            .map_or(&mut [], |block| &mut block[len..])
    }

    /// Adds the first `size` bytes of `spare` to the content.
    pub fn advance(&mut self, size: usize) {
        assert!(
            self.len + size <= self.capacity(),
            "no more than there is room for"
        );
        self.len += size;
    }

    /// Removes the first `size` bytes.
    pub fn consume(&mut self, size: usize) {
        let len = self.len;
        self.copy_within(size..len, 0);
        self.len -= size;
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], |block| &block[..self.len])
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        self.block
            .as_mut()
            .map_or(&mut [], |block| &mut block[..len])
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.replace(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_of_a_buffer_moves_with_the_buffer() {
        let mut buffer = Buffer::new(Rc::default());
        assert_eq!((buffer.len(), buffer.spare().len()), (0, 0));
        buffer.resize(4096).unwrap();
        buffer.spare()[..6].copy_from_slice(b"abcdef");
        buffer.advance(6);
        buffer.consume(2);
        buffer.resize(8192).unwrap();
        assert_eq!((&*buffer, buffer.capacity()), (&b"cdef"[..], 8192));
        buffer.consume(4);
        buffer.resize(0).unwrap();
        assert_eq!((buffer.len(), buffer.capacity()), (0, 0));
    }

    /// Needs the order: the old block may go back only once there is a new block.
    #[test]
    fn a_buffer_that_finds_no_memory_keeps_its_content() {
        let mut buffer = Buffer::new(Rc::default());
        buffer.resize(4096).unwrap();
        buffer.spare()[..3].copy_from_slice(b"abc");
        buffer.advance(3);
        assert!(buffer.resize(1 << 60).is_err());
        assert_eq!((&*buffer, buffer.capacity()), (&b"abc"[..], 4096));
    }
}
