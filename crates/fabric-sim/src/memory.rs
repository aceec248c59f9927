//! Volatile memory of a simulated machine.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_base::Span;
use stonecast_media::Region;

use crate::cache::Latencies;
use crate::image::Image;
use crate::time::Time;

/// Bytes that a power cut destroys. Accesses by a core cost virtual time; the NIC times its own accesses.
pub(crate) struct Memory {
    image: RefCell<Image>,
    size: u64,
    time: Rc<Time>,
    space: u32,
    latencies: Latencies,
}

impl Memory {
    /// `size` zeroed bytes.
    pub fn new(size: u64, time: Rc<Time>, latencies: Latencies) -> Self {
        let space = time.new_space();
        Self {
            image: RefCell::default(),
            size,
            time,
            space,
            latencies,
        }
    }

    #[inline]
    fn check(&self, offset: u64, size: usize) {
        assert!(
            Span::new(offset, size as u64).fits(self.size),
            "{size} bytes at {offset} are not in {} bytes",
            self.size
        );
    }

    #[inline]
    fn check_word(&self, offset: u64) {
        self.check(offset, 8);
        assert!(
            offset.is_multiple_of(8),
            "a word at {offset} is not aligned"
        );
        self.time
            .charge_access(self.space, offset, 8, &self.latencies);
    }
}

impl Region for Memory {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, into: &mut [u8]) {
        self.check(offset, into.len());
        self.time
            .charge_access(self.space, offset, into.len(), &self.latencies);
        self.image.borrow().read(offset, into);
    }

    fn write(&self, offset: u64, from: &[u8]) {
        self.check(offset, from.len());
        self.time
            .charge_access(self.space, offset, from.len(), &self.latencies);
        self.image.borrow_mut().write(offset, from);
    }

    fn load(&self, offset: u64) -> u64 {
        self.check_word(offset);
        self.image.borrow().load(offset)
    }

    fn store(&self, offset: u64, value: u64) {
        self.check_word(offset);
        self.image.borrow_mut().store(offset, value);
    }

    fn compare_exchange(&self, offset: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.check_word(offset);
        let image = &mut *self.image.borrow_mut();
        let found = image.load(offset);
        if found != current {
            return Err(found);
        }
        image.store(offset, new);
        Ok(found)
    }

    fn fetch_add(&self, offset: u64, add: u64) -> u64 {
        self.check_word(offset);
        let image = &mut *self.image.borrow_mut();
        let found = image.load(offset);
        image.store(offset, found.wrapping_add(add));
        found
    }

    fn prefetch(&self, offset: u64, size: u64) {
        // The core continues while the line is in transit.
        let free = Latencies {
            hit_ps: 0,
            miss_ps: self.latencies.hit_ps,
            stream_ps: self.latencies.hit_ps,
        };
        if Span::new(offset, size).fits(self.size) {
            self.time
                .charge_access(self.space, offset, size as usize, &free);
        }
    }
}
