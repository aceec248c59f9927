//! The done operations of a moving window.

use smallvec::SmallVec;

/// The done operations of a window, one bit each. The window is as wide as the longest operation needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Window(SmallVec<[u64; 4]>);

impl Window {
    pub fn new(width: usize) -> Self {
        Self(SmallVec::from_elem(0, width.div_ceil(64)))
    }

    pub fn has(&self, index: usize) -> bool {
        self.0[index / 64] >> (index % 64) & 1 == 1
    }

    pub fn add(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    /// Advances past the done operations at the start. Returns their number.
    pub fn advance(&mut self) -> usize {
        let words = self.0.len();
        let full = self.0.iter().take_while(|word| **word == u64::MAX).count();
        self.0.rotate_left(full);
        self.0[words - full..].fill(0);
        let more = self.0[0].trailing_ones();
        if more > 0 {
            for index in 0..words {
                let carried = self.0.get(index + 1).map_or(0, |next| next << (64 - more));
                self.0[index] = self.0[index] >> more | carried;
            }
        }
        full * 64 + more as usize
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_moves_over_done_operations_at_its_start() {
        let mut window = Window::new(512);
        (0..200)
            .chain([201, 300])
            .for_each(|index| window.add(index));
        assert_eq!(window.advance(), 200);
        let left: Vec<usize> = (0..512).filter(|&index| window.has(index)).collect();
        assert_eq!((left, window.advance()), (vec![1, 100], 0));
    }
}
