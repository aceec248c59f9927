//! Bytes that a batch collects, and forgets together.

use std::ops::Deref;

/// Bytes in the order in which they were added. Memory is used again as it was left, since the bytes that are added
/// overwrite it.
#[derive(Default)]
pub(super) struct Bytes {
    memory: Vec<u8>,
    used: usize,
}

impl Bytes {
    /// Adds `size` bytes, and returns them for the caller to overwrite all of them.
    #[inline]
    pub fn add(&mut self, size: usize) -> &mut [u8] {
        let (start, end) = (self.used, self.used + size);
        if end > self.memory.len() {
            self.memory.resize(end, 0);
        }
        self.used = end;
        &mut self.memory[start..end]
    }

    /// Adds a copy of `bytes`.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.add(bytes.len()).copy_from_slice(bytes);
    }

    /// Forgets all bytes from `size` on.
    pub fn truncate(&mut self, size: usize) {
        self.used = self.used.min(size);
    }

    /// Forgets all bytes.
    pub fn clear(&mut self) {
        self.used = 0;
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.memory[..self.used]
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn bytes_stay_in_order_while_memory_grows_and_are_forgotten_together() {
        let mut bytes = Bytes::default();
        for number in 0..100 {
            bytes.add(3).fill(number);
            bytes.extend_from_slice(&[number]);
        }
        let expected: Vec<u8> = (0..100).flat_map(|number| [number; 4]).collect();
        assert_eq!(*bytes, expected[..]);
        bytes.truncate(5);
        assert_eq!(*bytes, [0, 0, 0, 0, 1]);
        bytes.clear();
        assert!(bytes.is_empty());
        assert_eq!(bytes.add(2).len(), 2);
    }
}
