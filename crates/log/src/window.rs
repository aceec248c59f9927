//! A private copy of a piece of the log that moves along with a scan. The log may be written by others at any moment, so
//! what is checked and used is the copy.

use stonecast_media::Region;

/// Bytes copied at a time: large enough to stream, small enough to stay in the second-level cache until it is checked.
const PIECE: u64 = 256 << 10;

/// See the module documentation.
pub(crate) struct Window<'a> {
    log: &'a dyn Region,
    start: u64,
    size: u64,
    buffer: Vec<u8>,
    /// The offsets that the buffer holds.
    held: std::ops::Range<u64>,
}

impl<'a> Window<'a> {
    /// A window on `size` bytes from `start` of `log`.
    pub fn new(log: &'a dyn Region, start: u64, size: u64) -> Self {
        Self { log, start, size, buffer: Vec::new(), held: 0..0 }
    }

    /// `size` bytes from `offset` of the part of the log that the window is on.
    pub fn bytes(&mut self, offset: u64, size: u64) -> &[u8] {
        if offset < self.held.start || offset + size > self.held.end {
            let count = size.max(PIECE).min(self.size - offset);
            assert!(size <= count, "the caller stays inside the segment");
            self.buffer.resize(count as usize, 0);
            self.log.read(self.start + offset, &mut self.buffer);
            self.held = offset..offset + count;
        }
        let from = (offset - self.held.start) as usize;
        &self.buffer[from..from + size as usize]
    }
}
