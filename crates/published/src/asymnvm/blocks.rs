//! The two-tier allocator: blocks of the back-end with a persistent bitmap, asked for by RFP, and finer pieces at the
//! front-end.
//!
//! ```text
//!   request    WRITE: size (8) │ block or 0 (8) │ number (8)        answer    READ until it has the number: block (8) │ number (8)
//! ```
//!
//! The data area of the instance is the memory that is given out; its first bytes are the bitmap.

use std::cell::Cell;

use stonecast_base::{LINE_SIZE, Span};
use stonecast_media::Region;

use super::layout::AsymLayout;
use super::session::AsymSession;
use crate::PublishedError;

/// Bytes of the smallest block.
const UNIT: u64 = 64;

/// The back-end's side.
pub(super) struct Blocks {
    layout: AsymLayout,
    /// The number of the request that was served last, and the block, for each instance.
    served: Vec<(u64, u64)>,
    /// The place at which the search for a free block begins.
    next: Vec<u64>,
}

impl Blocks {
    pub fn new(layout: AsymLayout) -> Self {
        let count = layout.instances as usize;
        Self {
            layout,
            served: vec![(0, 0); count],
            next: vec![0; count],
        }
    }

    /// Serves the request of an instance, if there is a new one. Returns the lines of the bitmap that changed.
    pub fn serve(&mut self, memory: &dyn Region, instance: u32) -> Option<Vec<Span>> {
        let [request, _] = self.layout.request(instance);
        let number = memory.load(request + 16);
        let index = instance as usize;
        if number == self.served[index].0 {
            return None;
        }
        let (size, block) = (memory.load(request), memory.load(request + 8));
        let data = self.layout.data(instance);
        let units = size.div_ceil(UNIT);
        let (first, is_used) = match block {
            0 => (self.next[index], true),
            block => ((block - data.offset) / UNIT, false),
        };
        if is_used {
            // The bitmap takes the first 64th of the data; blocks behind it are given in turn.
            let bits = data.size / UNIT / 8;
            let first_free = bits.div_ceil(UNIT);
            let start = first.max(first_free);
            let fits = (start + units) * UNIT <= data.size;
            let start = if fits { start } else { first_free };
            self.next[index] = start + units;
            self.served[index] = (number, data.offset + start * UNIT);
            return Some(mark(memory, data, (start, units), true));
        }
        self.served[index] = (number, block);
        Some(mark(memory, data, (first, units), false))
    }

    /// Stores the answer. The bitmap is durable.
    pub fn answer(&self, memory: &dyn Region, instance: u32) {
        let [_, answer] = self.layout.request(instance);
        let (number, block) = self.served[instance as usize];
        memory.store(answer, block);
        memory.store(answer + 8, number);
    }
}

fn mark(memory: &dyn Region, data: Span, (first, units): (u64, u64), is_used: bool) -> Vec<Span> {
    let mut dirty = Vec::new();
    for unit in first..first + units {
        let place = data.offset + unit / 64 * 8;
        let bit = 1 << (unit % 64);
        let word = memory.load(place);
        memory.store(place, if is_used { word | bit } else { word & !bit });
        let line = Span::new(place, 8).widen(LINE_SIZE as u64);
        if dirty.last() != Some(&line) {
            dirty.push(line);
        }
    }
    dirty
}

/// The RPC allocator: each call is a request to the back-end.
pub struct BlockClient {
    session: AsymSession,
    requests: Cell<u64>,
}

impl BlockClient {
    /// A client over a session.
    pub fn new(session: AsymSession) -> Self {
        Self {
            session,
            requests: Cell::new(0),
        }
    }

    /// Takes a block.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn allocate(&mut self, size: u64) -> Result<u64, PublishedError> {
        self.request(size, 0).await
    }

    /// Gives a block back.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn free(&mut self, block: u64, size: u64) -> Result<(), PublishedError> {
        self.request(size, block).await.map(drop)
    }

    async fn request(&mut self, size: u64, block: u64) -> Result<u64, PublishedError> {
        let number = self.requests.get() + 1;
        self.requests.set(number);
        let [request, answer] = self.session.layout.request(self.session.instance);
        let words = [size, block, number];
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.session.post(&[(request, bytes)]).await?;
        loop {
            let read = self.session.read(&[Span::new(answer, 16)]).await?;
            let [block, answered] = [0, 8].map(|at| {
                u64::from_le_bytes(*read[0][at..].first_chunk().expect("16 bytes are two words"))
            });
            if answered == number {
                self.session.settle(0).await?;
                return Ok(block);
            }
        }
    }
}

/// The two-tier allocator: pieces of one size out of blocks of the back-end.
pub struct TwoTier {
    client: BlockClient,
    block_size: u64,
    piece_size: u64,
    /// Free pieces.
    free: Vec<u64>,
    /// Pieces that are kept before blocks go back.
    kept: usize,
}

impl TwoTier {
    /// An allocator of pieces of `piece_size` bytes in blocks of `block_size`.
    pub fn new(client: BlockClient, block_size: u64, piece_size: u64) -> Self {
        Self {
            client,
            block_size,
            piece_size,
            free: Vec::new(),
            kept: (block_size / piece_size) as usize,
        }
    }

    /// Takes a piece.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn allocate(&mut self) -> Result<u64, PublishedError> {
        if let Some(piece) = self.free.pop() {
            return Ok(piece);
        }
        let block = self.client.allocate(self.block_size).await?;
        let pieces = self.block_size / self.piece_size;
        self.free
            .extend((1..pieces).map(|piece| block + piece * self.piece_size));
        Ok(block)
    }

    /// Gives a piece back. A block whose pieces are all free goes back to the back-end.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn free(&mut self, piece: u64) -> Result<(), PublishedError> {
        self.free.push(piece);
        if self.free.len() < 2 * self.kept {
            return Ok(());
        }
        let block = piece - piece % self.block_size;
        let of_block = |piece: &u64| piece - piece % self.block_size == block;
        if self.free.iter().filter(|piece| of_block(piece)).count() == self.kept {
            self.free.retain(|piece| !of_block(piece));
            self.client.free(block, self.block_size).await?;
        }
        Ok(())
    }
}
