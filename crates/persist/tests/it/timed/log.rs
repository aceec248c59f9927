//! A log in remote memory, and its promises after a crash: the benchmark of the taxonomy as an oracle.
//!
//! ```text
//!   0     tail: number of the last record, repeated to its size       only with a second part
//!   64·n  record n: 64 bytes of a pattern that no other record has
//! ```
//!
//! Every acknowledged record is present; a tail that names a record implies that record and all earlier ones.

use std::cell::RefCell;
use std::task::{Context, Poll, Waker};

use stonecast_base::Span;
use stonecast_media::{Means, PersistCounts, PersistError, PersistState, PersistentRegion, Region};
use stonecast_persist::execute::{Layout, recover};

/// The shape of the log.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    /// Bytes of the tail, a multiple of 8; `None` if there is none.
    pub second_size: Option<usize>,
}

/// A promise that a crash broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A record was acknowledged and is missing.
    Lost {
        /// The record, or the tail that names it.
        record: u64,
    },
    /// The tail names a missing record.
    OutOfOrder {
        /// The record.
        record: u64,
    },
}

impl Log {
    /// The place of record `number`.
    pub fn place(number: u64) -> u64 {
        number * 64
    }

    /// The bytes of record `number`.
    pub fn record(&self, number: u64) -> Vec<u8> {
        (0..8)
            .flat_map(|word| (number << 32 | word << 8 | 0xa5).to_le_bytes())
            .collect()
    }

    /// The tail behind record `number`; empty if there is none.
    pub fn tail(&self, number: u64) -> Vec<u8> {
        number
            .to_le_bytes()
            .repeat(self.second_size.unwrap_or(0) / 8)
    }

    /// Recovers `image`, which a crash left, and judges it.
    pub fn judge(&self, image: Vec<u8>, layout: &Layout, acknowledged: u64) -> Result<(), Broken> {
        let region = Plain::of(image);
        let recovering = std::pin::pin!(recover(&region, layout));
        let Poll::Ready(Ok(_)) = recovering.poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("plain memory neither waits nor fails");
        };
        let has = |number: u64| {
            let mut found = vec![0; 64];
            region.read(Self::place(number), &mut found);
            found == self.record(number)
        };
        if let Some(record) = (1..=acknowledged).find(|&number| !has(number)) {
            return Err(Broken::Lost { record });
        }
        let Some(size) = self.second_size else {
            return Ok(());
        };
        // Each word of the tail that survived names records.
        let words: Vec<u64> = (0..size as u64 / 8)
            .map(|word| region.load(word * 8))
            .collect();
        let newest = words.iter().copied().max().unwrap_or(0);
        if let Some(record) = (1..=newest).find(|&number| !has(number)) {
            return Err(Broken::OutOfOrder { record });
        }
        match words.iter().min() {
            Some(&oldest) if oldest < acknowledged => Err(Broken::Lost {
                record: acknowledged,
            }),
            _ => Ok(()),
        }
    }
}

/// Memory in which every store is durable at once: the image that a crash left has no caches.
pub struct Plain(RefCell<Vec<u8>>);

impl Plain {
    /// The memory of `image`.
    pub fn of(image: Vec<u8>) -> Self {
        Self(RefCell::new(image))
    }
}

impl Region for Plain {
    fn size(&self) -> u64 {
        self.0.borrow().len() as u64
    }

    fn read(&self, offset: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.0.borrow()[offset as usize..][..into.len()]);
    }

    fn write(&self, offset: u64, from: &[u8]) {
        self.0.borrow_mut()[offset as usize..][..from.len()].copy_from_slice(from);
    }

    fn load(&self, offset: u64) -> u64 {
        u64::from_le_bytes(
            *self.0.borrow()[offset as usize..]
                .first_chunk()
                .expect("a word"),
        )
    }

    fn store(&self, offset: u64, value: u64) {
        self.write(offset, &value.to_le_bytes());
    }

    fn compare_exchange(&self, offset: u64, current: u64, new: u64) -> Result<u64, u64> {
        let found = self.load(offset);
        if found == current {
            self.store(offset, new);
            return Ok(found);
        }
        Err(found)
    }

    fn fetch_add(&self, offset: u64, add: u64) -> u64 {
        let found = self.load(offset);
        self.store(offset, found.wrapping_add(add));
        found
    }
}

impl PersistentRegion for Plain {
    fn means(&self) -> Means {
        Means::Fence
    }

    fn persist_counts(&self) -> PersistCounts {
        PersistCounts::default()
    }

    fn poll_persist(
        &self,
        _: &[Span],
        _: &mut PersistState,
        _: &mut Context<'_>,
    ) -> Poll<Result<(), PersistError>> {
        Poll::Ready(Ok(()))
    }
}
