//! A module's log as a region that can be made durable.

use std::rc::Rc;
use std::task::{Context, Poll};

use std::cell::Cell;

use stonecast_base::{LINE_SIZE, Nanoseconds, Span, mutant};
use stonecast_media::{Means, PersistCounts, PersistError, PersistState, PersistentRegion, Region};

use crate::cache::Latencies;
use crate::persistent::module::Module;

/// One value for each opening: the opener chooses the means of persisting.
pub(crate) struct PersistentMemory {
    module: Rc<Module>,
    size: u64,
    means: Means,
    poisoned: Cell<bool>,
    latencies: Latencies,
    name: String,
}

impl PersistentMemory {
    pub fn new(module: Rc<Module>, size: u64, means: Means, name: String) -> Self {
        let profile = &module.profile;
        let latencies = Latencies {
            hit_ps: profile.cpu_hit_ps,
            miss_ps: profile.media_read_ns * 1000,
            stream_ps: profile
                .cpu_stream_ps
                .max(LINE_SIZE as u64 * profile.media_read_byte_ps),
        };
        Self {
            module,
            size,
            means,
            poisoned: Cell::new(false),
            latencies,
            name,
        }
    }

    #[inline]
    fn check(&self, offset: u64, size: usize) {
        if !Span::new(offset, size as u64).fits(self.size) {
            outside(offset, size, self.size);
        }
    }

    #[inline]
    fn charge(&self, offset: u64, size: usize) {
        self.module
            .time
            .charge_access(self.module.space, offset, size, &self.latencies);
    }

    /// Begins to make `spans` durable; returns the time at which they are.
    fn begin(&self, spans: &[Span]) -> Result<Nanoseconds, PersistError> {
        let time = &self.module.time;
        let now = time.clock();
        match self.means {
            // Nothing is written back. But the core's work so far took its time, and other threads run in between as
            // they do between any two instructions.
            Means::Process => Ok(now),
            Means::Fence => {
                time.charge(self.module.profile.cpu_fence_ns);
                self.module.count_fence();
                self.module.fence(spans);
                Ok(now)
            }
            Means::WriteBack => {
                let before = self.module.counts().write_backs;
                let spans = if mutant!(WriteBackMissing) {
                    &[]
                } else {
                    spans
                };
                let done = self.module.write_back(spans, now);
                let lines = self.module.counts().write_backs - before;
                time.charge(
                    self.module.profile.cpu_write_back_ns * lines
                        + self.module.profile.cpu_fence_ns,
                );
                self.module.count_fence();
                // The fence holds the core until the last line is accepted.
                time.charge(done.saturating_sub(time.clock()));
                Ok(done.max(time.clock()))
            }
            Means::FileSync if spans.is_empty() => Ok(now),
            Means::FileSync if self.module.take_sync_failure() => {
                if mutant!(SyncErrorIgnored) {
                    return Ok(now);
                }
                self.poisoned.set(true);
                Err(PersistError::Sync {
                    file: self.name.clone().into(),
                    source: std::io::Error::from_raw_os_error(5),
                })
            }
            Means::FileSync => Ok(self.module.sync(now)),
        }
    }
}

#[cold]
fn outside(offset: u64, size: usize, limit: u64) -> ! {
    panic!("{size} bytes at {offset} are not in {limit} bytes");
}

impl PersistentRegion for PersistentMemory {
    fn means(&self) -> Means {
        self.means
    }

    fn persist_counts(&self) -> PersistCounts {
        let counts = self.module.counts();
        PersistCounts {
            write_backs: counts.write_backs,
            fences: counts.fences,
            syncs: counts.syncs,
        }
    }

    fn poll_persist(
        &self,
        spans: &[Span],
        state: &mut PersistState,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), PersistError>> {
        if self.module.time.is_nic() {
            // A FLUSH needs no means.
            self.module
                .time
                .note_settled(self.module.write_back(spans, self.module.time.now()));
            return Poll::Ready(Ok(()));
        }
        if self.poisoned.get() {
            return Poll::Ready(Err(PersistError::Poisoned));
        }
        let done = match *state {
            Some(done) => done,
            None => {
                spans.iter().for_each(|span| {
                    assert!(
                        span.fits(self.size),
                        "{span:?} is not in {} bytes",
                        self.size
                    )
                });
                match self.begin(spans) {
                    Ok(done) => *state.insert(done),
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
        };
        // The comparison uses the time of the event, not the handler's clock: others see the stores of a handler from
        // the moment of its event, and nothing may be published before it is durable for all of them.
        if done > self.module.time.now() && !mutant!(FenceMissing) && self.means != Means::Fence {
            self.module.time.wake_at(done, context.waker());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

impl Region for PersistentMemory {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, into: &mut [u8]) {
        self.check(offset, into.len());
        self.charge(offset, into.len());
        self.module.read(offset, into);
        if self.module.meets_poison(offset, into.len() as u64) {
            self.module.time.note_poison();
        }
    }

    fn write(&self, offset: u64, from: &[u8]) {
        self.check(offset, from.len());
        if self.module.time.is_nic() {
            return self
                .module
                .time
                .note_settled(self.module.store_from_nic(offset, from));
        }
        self.charge(offset, from.len());
        self.module.store_from_core(offset, from);
    }

    fn load(&self, offset: u64) -> u64 {
        self.check(offset, 8);
        assert!(
            offset.is_multiple_of(8),
            "a word at {offset} is not aligned"
        );
        self.charge(offset, 8);
        if self.module.meets_poison(offset, 8) {
            self.module.time.note_poison();
        }
        self.module.load(offset)
    }

    fn store(&self, offset: u64, value: u64) {
        assert!(
            offset.is_multiple_of(8),
            "a word at {offset} is not aligned"
        );
        self.write(offset, &value.to_le_bytes());
    }

    fn compare_exchange(&self, offset: u64, current: u64, new: u64) -> Result<u64, u64> {
        let found = self.load(offset);
        if found != current {
            return Err(found);
        }
        self.store(offset, new);
        Ok(found)
    }

    fn fetch_add(&self, offset: u64, add: u64) -> u64 {
        let found = self.load(offset);
        self.store(offset, found.wrapping_add(add));
        found
    }

    fn prefetch(&self, offset: u64, size: u64) {
        if self.module.time.is_nic() {
            return self.module.time.note_touch(self.module.space);
        }
        if Span::new(offset, size).fits(self.size) {
            let hit_ps = self.latencies.hit_ps;
            let free = Latencies {
                hit_ps: 0,
                miss_ps: hit_ps,
                stream_ps: hit_ps,
            };
            self.module
                .time
                .charge_access(self.module.space, offset, size as usize, &free);
        }
    }

    fn read_cost(&self, size: u64) -> Nanoseconds {
        let profile = &self.module.profile;
        // A NIC's fetch from DRAM is part of the PCIe round trip.
        profile.media_read_ns.saturating_sub(profile.dram_read_ns)
            + size * profile.media_read_byte_ps / 1000
    }
}
