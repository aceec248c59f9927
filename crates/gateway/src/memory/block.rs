//! Blocks of memory from the system, and a small stock of them for each thread.

use std::cell::RefCell;

use memmap2::MmapMut;

/// Sizes of blocks that are kept, and how many of each: enough for the connections that are served in one round.
const KEPT: [(usize, usize); 3] = [(16 << 10, 64), (64 << 10, 16), (256 << 10, 16)];

/// Blocks that wait for their next use. See the module documentation.
#[derive(Default)]
pub struct Stock {
    free: RefCell<[Vec<MmapMut>; KEPT.len()]>,
}

impl Stock {
    /// A block of at least `size` bytes, whatever was in it.
    pub fn take(&self, size: usize) -> MmapMut {
        let kept = KEPT.iter().position(|&(kept, _)| kept == size);
        kept.and_then(|class| self.free.borrow_mut()[class].pop())
            .unwrap_or_else(|| {
                MmapMut::map_anon(size).expect("the system has memory within the bound")
            })
    }

    /// Takes a block back, or gives it to the system.
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
    fn few_blocks_are_kept_and_large_ones_not_at_all() {
        let stock = Stock::default();
        let (size, count) = KEPT[0];
        let blocks: Vec<_> = (0..count + 10).map(|_| stock.take(size)).collect();
        blocks.into_iter().for_each(|block| stock.give(block));
        stock.give(stock.take(1 << 20));
        let kept: Vec<usize> = stock.free.borrow().iter().map(Vec::len).collect();
        assert_eq!(kept, [count, 0, 0]);
    }
}
