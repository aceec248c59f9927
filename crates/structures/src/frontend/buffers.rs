//! Memory for the reads of a step, which the next step uses again.

/// Some buffers, of which the first ones are in use.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    all: Vec<Vec<u8>>,
    used: usize,
}

impl Buffers {
    /// Buffers of these sizes, with the content of earlier uses.
    pub fn of_sizes(&mut self, sizes: impl IntoIterator<Item = usize>) -> &mut [Vec<u8>] {
        self.used = 0;
        for size in sizes {
            if self.used == self.all.len() {
                self.all.push(Vec::new());
            }
            self.all[self.used].resize(size, 0);
            self.used += 1;
        }
        &mut self.all[..self.used]
    }

    /// The buffers in use.
    pub fn used(&self) -> &[Vec<u8>] {
        &self.all[..self.used]
    }

    /// The first buffer.
    pub fn into_first(self) -> Vec<u8> {
        self.all.into_iter().next().unwrap_or_default()
    }
}
