//! Blocks of memory from the system, and a small stock of them for each thread.

use std::cell::RefCell;
use std::io;

use memmap2::MmapMut;

/// The bytes that a connection may hold in each direction without a reservation.
pub const GUARANTEED: usize = 4 << 10;
/// The sizes of the blocks that are kept, and the number of blocks of each size: enough for the connections that have
/// their turn between two looks at the sockets.
const KEPT: [(usize, usize); 3] = [(16 << 10, 64), (64 << 10, 16), (256 << 10, 16)];

/// The system has no memory for a block.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no {size} bytes of memory for a request or a reply: {source}")]
pub struct NoBlock {
    size: usize,
    source: io::Error,
}

/// Blocks of one thread that wait for their next use.
#[derive(Default)]
pub struct Stock {
    free: RefCell<[Vec<MmapMut>; KEPT.len()]>,
}

impl Stock {
    /// A block of at least `size` bytes with undefined content.
    pub fn take(&self, size: usize) -> Result<MmapMut, NoBlock> {
        let kept = KEPT.iter().position(|&(kept, _)| kept == size);
        match kept.and_then(|class| self.free.borrow_mut()[class].pop()) {
            Some(block) => Ok(block),
            None => MmapMut::map_anon(size).map_err(|source| NoBlock { size, source }),
        }
    }

    /// Takes a block back into the stock, or gives it to the system.
    pub fn give(&self, block: MmapMut) {
        let kept = KEPT.iter().position(|&(kept, _)| kept == block.len());
        if let Some(class) = kept {
            let free = &mut self.free.borrow_mut()[class];
            if free.len() < KEPT[class].1 {
                free.push(block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_blocks_are_kept_and_large_blocks_are_not_kept() {
        let stock = Stock::default();
        let (size, count) = KEPT[0];
        let blocks: Vec<_> = (0..count + 10).map(|_| stock.take(size).unwrap()).collect();
        blocks.into_iter().for_each(|block| stock.give(block));
        stock.give(stock.take(1 << 20).unwrap());
        let kept: Vec<usize> = stock.free.borrow().iter().map(Vec::len).collect();
        assert_eq!(kept, [count, 0, 0]);
    }

    /// Needs the error to be a value: otherwise a connection that finds no memory would end the gateway.
    #[test]
    fn a_block_that_the_system_does_not_give_is_an_error_that_names_its_size() {
        let error = Stock::default().take(1 << 60).unwrap_err().to_string();
        assert!(error.contains(&(1_u64 << 60).to_string()), "{error}");
    }
}
