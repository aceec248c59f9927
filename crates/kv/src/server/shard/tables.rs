//! The tables of an index as clients access them, and their growth; see `index`.

use std::iter::StepBy;
use std::ops::RangeFrom;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{Access, DeviceError, MemoryRegion, Port, Runtime};
use stonecast_media::{Backing, MediaError};

use crate::index::{GrowthStep, Index};
use crate::server::shard::keys::index_memory;

/// A table of the index as clients access it.
pub(in crate::server) struct SharedTable {
    pub number: u32,
    pub region: MemoryRegion,
}

/// Buckets that are copied for each operation of a batch: a nearly full table is copied long before new keys fill it.
const BUCKETS_PER_OPERATION: u64 = 4;
/// Least number of buckets copied in a step, even by an idle server: about 20 microseconds.
const BUCKETS_MIN: u64 = 128;
/// Pause after an attempt for which there was no memory.
const PAUSE_NS: Nanoseconds = 1_000_000_000;

/// Buckets to copy after a batch of `operations`.
pub(super) fn buckets_after(operations: usize) -> u64 {
    (operations as u64 * BUCKETS_PER_OPERATION).max(BUCKETS_MIN)
}

/// The reason why an index cannot grow.
#[derive(Debug, thiserror::Error)]
enum NoGrowth {
    #[error(transparent)]
    Memory(#[from] MediaError),
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// The tables of an index as clients access them.
pub(super) struct Tables {
    port: Rc<Port>,
    runtime: Rc<dyn Runtime>,
    backing: Rc<dyn Backing>,
    /// Whether clients change words.
    is_shared: bool,
    /// The current table is the last. While the index grows, the larger table waits in front of it.
    all: Vec<SharedTable>,
    /// Earliest time of the next attempt, after there was no memory for a larger table.
    pause_until: Nanoseconds,
    growths: u64,
    /// Numbers of the next tables. No two tables of a node have the same number.
    numbers: StepBy<RangeFrom<u32>>,
}

impl Tables {
    pub fn new(
        (port, runtime): (Rc<Port>, Rc<dyn Runtime>),
        (backing, is_shared): (Rc<dyn Backing>, bool),
        index: &Index,
        mut numbers: StepBy<RangeFrom<u32>>,
    ) -> Result<Self, DeviceError> {
        let memory = index.table().memory().clone();
        let region = port.device().register(memory, Access::NONE)?;
        Ok(Self {
            port,
            runtime,
            backing,
            is_shared,
            all: vec![SharedTable {
                number: next(&mut numbers),
                region,
            }],
            pause_until: 0,
            growths: 0,
            numbers,
        })
    }

    /// Whether clients change words.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// The table that clients are to read.
    pub fn current(&self) -> &SharedTable {
        self.all.last().expect("there is always a table")
    }

    /// Growths of the index.
    pub fn growths(&self) -> u64 {
        self.growths
    }

    /// Begins a growth if the index wants one.
    pub fn begin_if_wanted(&mut self, index: &mut Index) {
        if let Some(bits) = index.wants() {
            self.begin(index, bits);
        }
    }

    /// Whether the index is growing. Begins a growth if need be.
    pub fn can_go_on(&mut self, index: &mut Index) -> bool {
        index.is_growing() || index.larger().is_some_and(|bits| self.begin(index, bits))
    }

    /// Begins a growth, unless there was no memory for a larger table lately. Returns whether the growth has begun.
    fn begin(&mut self, index: &mut Index, bits: u32) -> bool {
        if self.runtime.now() < self.pause_until {
            return false;
        }
        let began = self.try_begin(index, bits).is_ok();
        if !began {
            self.pause_until = self.runtime.now() + PAUSE_NS;
        }
        began
    }

    fn try_begin(&mut self, index: &mut Index, bits: u32) -> Result<(), NoGrowth> {
        let memory = index_memory(&*self.backing, bits, self.is_shared)?;
        let device = self.port.device();
        let region = device.register(memory.clone(), Access::NONE)?;
        index.begin_growth(memory);
        let number = next(&mut self.numbers);
        let before = self.all.len() - 1;
        self.all.insert(before, SharedTable { number, region });
        Ok(())
    }

    /// Notes a step of a growth. Clients learn of the larger table once that table is current.
    pub fn note_step(&mut self, step: &GrowthStep) {
        if let GrowthStep::Switched = step {
            let last = self.all.len() - 1;
            self.all.swap(last - 1, last);
            self.growths += 1;
        }
    }

    /// Frees the tables that are not current and that no client reads.
    pub fn free_unread(&mut self, is_read: impl Fn(u32) -> bool) {
        let current = self.current().number;
        let unread = self.all.extract_if(.., |table| {
            table.number != current && !is_read(table.number)
        });
        for table in unread {
            free(&self.port, &*self.runtime, table.region);
        }
    }
}

/// The number of the next table.
fn next(numbers: &mut StepBy<RangeFrom<u32>>) -> u32 {
    numbers.next().expect("an index grows less than 40 times")
}

/// Frees memory that no client can reach. The region's own key opened nothing to any peer.
fn free(port: &Rc<Port>, runtime: &dyn Runtime, region: MemoryRegion) {
    let port = port.clone();
    runtime.spawn(Box::pin(async move {
        // Memory that a provider cannot free yet is freed when the device is dropped.
        if port.invalidate(region.rkey).await.is_ok() {
            let _ = port.device().deregister(region);
        }
    }));
}
