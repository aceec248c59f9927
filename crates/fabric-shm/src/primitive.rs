//! The words that the shared structures are made of.
//!
//! Ring, append queue, announcements and doorbell are written once, against [`Memory`]. In production that is a
//! mapping; in model checks it is a handful of loom atomics, so the checked code is the code that runs.

use stonecast_media::{MappedRegion, Region};

/// Memory that two parties use at once. Offsets are bytes; offsets of whole words are multiples of 8.
///
/// `load` acquires, `store` releases, `compare_exchange` does both. `copy_in` and `copy_out` order nothing: a later
/// `store` publishes their bytes, and an earlier `load` covers them.
pub(crate) trait Memory {
    /// Loads a word.
    fn load(&self, offset: u64) -> u64;
    /// Stores a word.
    fn store(&self, offset: u64, value: u64);
    /// Replaces a word if it is `current`; both results carry the word found.
    fn compare_exchange(&self, offset: u64, current: u64, new: u64) -> Result<u64, u64>;
    /// Copies bytes out.
    fn copy_out(&self, offset: u64, into: &mut [u8]);
    /// Copies bytes in.
    fn copy_in(&self, offset: u64, from: &[u8]);
    /// Orders every earlier access before every later access, stores before loads included.
    fn full_fence(&self);
    /// Keeps earlier copies from being executed after later loads.
    fn read_fence(&self);
}

impl Memory for MappedRegion {
    #[inline]
    fn load(&self, offset: u64) -> u64 {
        Region::load(self, offset)
    }
    #[inline]
    fn store(&self, offset: u64, value: u64) {
        Region::store(self, offset, value);
    }
    #[inline]
    fn compare_exchange(&self, offset: u64, current: u64, new: u64) -> Result<u64, u64> {
        Region::compare_exchange(self, offset, current, new)
    }
    #[inline]
    fn copy_out(&self, offset: u64, into: &mut [u8]) {
        Region::read(self, offset, into);
    }
    #[inline]
    fn copy_in(&self, offset: u64, from: &[u8]) {
        Region::write(self, offset, from);
    }
    #[inline]
    fn full_fence(&self) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
    #[inline]
    fn read_fence(&self) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Words on the heap: std's for ordinary tests, loom's for model checks. One ordering can be removed, so that a
    //! model can show that it would notice.

    use super::Memory;
    #[cfg(loom)]
    use loom::sync::atomic::{AtomicU64, Ordering, fence};
    #[cfg(not(loom))]
    use std::sync::atomic::{AtomicU64, Ordering, fence};

    /// The missing ordering.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Weakness {
        None,
        /// Stores to this word release nothing.
        Store(u64),
        /// Loads of this word acquire nothing.
        #[cfg_attr(not(loom), allow(dead_code, reason = "only models weaken loads"))]
        Load(u64),
        /// Full fences are omitted.
        #[cfg_attr(not(loom), allow(dead_code, reason = "only models leave out fences"))]
        Fence,
    }

    pub(crate) struct Words {
        words: Vec<AtomicU64>,
        weakness: Weakness,
    }

    impl Words {
        #[cfg_attr(loom, allow(dead_code, reason = "models choose the weakness"))]
        pub(crate) fn new(size: u64) -> Self {
            Self::weakened(size, Weakness::None)
        }

        pub(crate) fn weakened(size: u64, weakness: Weakness) -> Self {
            Self {
                words: (0..size / 8).map(|_| AtomicU64::new(0)).collect(),
                weakness,
            }
        }

        fn word(&self, offset: u64) -> &AtomicU64 {
            assert!(offset.is_multiple_of(8), "word offset {offset}");
            &self.words[(offset / 8) as usize]
        }
    }

    impl Memory for Words {
        fn load(&self, offset: u64) -> u64 {
            let weak = self.weakness == Weakness::Load(offset);
            self.word(offset).load(if weak {
                Ordering::Relaxed
            } else {
                Ordering::Acquire
            })
        }
        fn store(&self, offset: u64, value: u64) {
            let weak = self.weakness == Weakness::Store(offset);
            self.word(offset).store(
                value,
                if weak {
                    Ordering::Relaxed
                } else {
                    Ordering::Release
                },
            );
        }
        fn compare_exchange(&self, offset: u64, current: u64, new: u64) -> Result<u64, u64> {
            let weak = self.weakness == Weakness::Store(offset);
            let success = if weak {
                Ordering::Relaxed
            } else {
                Ordering::AcqRel
            };
            self.word(offset)
                .compare_exchange(current, new, success, Ordering::Relaxed)
        }
        fn copy_out(&self, offset: u64, into: &mut [u8]) {
            for (index, chunk) in into.chunks_mut(8).enumerate() {
                let word = self
                    .word(offset + 8 * index as u64)
                    .load(Ordering::Relaxed)
                    .to_le_bytes();
                chunk.copy_from_slice(&word[..chunk.len()]);
            }
        }
        fn copy_in(&self, offset: u64, from: &[u8]) {
            for (index, chunk) in from.chunks(8).enumerate() {
                let word = self.word(offset + 8 * index as u64);
                let mut bytes = [0; 8];
                if chunk.len() < 8 {
                    bytes = word.load(Ordering::Relaxed).to_le_bytes();
                }
                bytes[..chunk.len()].copy_from_slice(chunk);
                word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
            }
        }
        fn full_fence(&self) {
            if self.weakness != Weakness::Fence {
                fence(Ordering::SeqCst);
            }
        }
        fn read_fence(&self) {
            fence(Ordering::Acquire);
        }
    }
}
