//! A mapped file with the means of making its bytes durable.

use std::cell::Cell;
use std::sync::atomic::{Ordering, fence};
use std::task::{Context, Poll};

use stonecast_base::{Nanoseconds, Span};

use crate::file_sync::FileSync;
use crate::mapped_region::{MappedRegion, Writable};
use crate::write_back::{Processor, store_fence, write_back};
use crate::{
    MappedPlace, Means, PersistCounts, PersistError, PersistState, PersistentRegion, Region, Share,
};

/// A means, with the resources that it needs.
#[derive(Debug)]
pub(crate) enum Mechanism {
    FileSync(FileSync),
    WriteBack(Processor),
    Fence,
    Process,
}

/// The log of a pool on a real medium.
#[derive(Debug)]
pub(crate) struct PersistentMapping {
    memory: MappedRegion,
    mechanism: Mechanism,
    counts: Cell<PersistCounts>,
}

impl PersistentMapping {
    pub fn new(memory: MappedRegion, mechanism: Mechanism) -> Self {
        Self {
            memory,
            mechanism,
            counts: Cell::default(),
        }
    }

    /// Syncs the file; for [`Means::FileSync`] alone.
    pub fn sync_all(&self) -> Result<(), PersistError> {
        match &self.mechanism {
            Mechanism::FileSync(file) => self.sync(file),
            other => unreachable!("{other:?} does not sync files"),
        }
    }

    fn sync(&self, file: &FileSync) -> Result<(), PersistError> {
        self.count(PersistCounts {
            write_backs: 0,
            fences: 0,
            syncs: 1,
        });
        file.sync()
    }

    fn count(&self, more: PersistCounts) {
        let PersistCounts {
            write_backs,
            fences,
            syncs,
        } = self.counts.get();
        self.counts.set(PersistCounts {
            write_backs: write_backs + more.write_backs,
            fences: fences + more.fences,
            syncs: syncs + more.syncs,
        });
    }

    /// Makes `spans` durable now; see [`PersistentRegion::poll_persist`].
    pub fn make_durable(&self, spans: &[Span]) -> Result<(), PersistError> {
        assert!(
            self.memory.writable() == Writable::Yes,
            "a region that is only inspected has nothing to persist"
        );
        for span in spans {
            assert!(
                span.fits(self.memory.size()),
                "{span:?} is not in a region of {} bytes",
                self.memory.size()
            );
        }
        match &self.mechanism {
            Mechanism::FileSync(file) if spans.is_empty() && !file.is_poisoned() => {}
            Mechanism::FileSync(file) => self.sync(file)?,
            Mechanism::WriteBack(processor) => {
                let write_backs = write_back(processor, self.memory.address(0, 0), spans);
                self.count(PersistCounts {
                    write_backs,
                    fences: 1,
                    syncs: 0,
                });
            }
            Mechanism::Fence => {
                store_fence();
                self.count(PersistCounts {
                    write_backs: 0,
                    fences: 1,
                    syncs: 0,
                });
            }
            // Stored bytes belong to the kernel once they are visible to another processor. The fence keeps the
            // compiler from moving accesses across this point; the processor itself keeps the order of stores.
            Mechanism::Process => fence(Ordering::Release),
        }
        Ok(())
    }
}

impl PersistentRegion for PersistentMapping {
    fn means(&self) -> Means {
        match self.mechanism {
            Mechanism::FileSync(_) => Means::FileSync,
            Mechanism::WriteBack(_) => Means::WriteBack,
            Mechanism::Fence => Means::Fence,
            Mechanism::Process => Means::Process,
        }
    }

    fn persist_counts(&self) -> PersistCounts {
        self.counts.get()
    }

    /// After a failed sync the page cache may hold bytes that are not on the medium, and the kernel does not know
    /// which: the bytes look durable. The next sync writes every marked page.
    fn mark_changed(&self, spans: &[Span]) {
        if self.means() != Means::FileSync {
            return;
        }
        let page = rustix::param::page_size() as u64;
        for span in spans {
            let pages = span.widen(page);
            for offset in (pages.offset..pages.offset + pages.size).step_by(page as usize) {
                self.fetch_add(offset, 0);
            }
        }
    }

    fn poll_persist(
        &self,
        spans: &[Span],
        _state: &mut PersistState,
        _context: &mut Context<'_>,
    ) -> Poll<Result<(), PersistError>> {
        Poll::Ready(self.make_durable(spans))
    }
}

impl Region for PersistentMapping {
    fn size(&self) -> u64 {
        self.memory.size()
    }
    fn read(&self, offset: u64, into: &mut [u8]) {
        self.memory.read(offset, into);
    }
    fn write(&self, offset: u64, from: &[u8]) {
        self.memory.write(offset, from);
    }
    fn load(&self, offset: u64) -> u64 {
        self.memory.load(offset)
    }
    fn store(&self, offset: u64, value: u64) {
        self.memory.store(offset, value);
    }
    fn compare_exchange(&self, offset: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.memory.compare_exchange(offset, current, new)
    }
    fn fetch_add(&self, offset: u64, add: u64) -> u64 {
        self.memory.fetch_add(offset, add)
    }
    fn prefetch(&self, offset: u64, size: u64) {
        self.memory.prefetch(offset, size);
    }
    fn mapped_at(&self) -> Option<MappedPlace<'_>> {
        self.memory.mapped_at()
    }
    fn share(&self) -> Option<Share<'_>> {
        self.memory.share()
    }
    fn read_cost(&self, size: u64) -> Nanoseconds {
        self.memory.read_cost(size)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io;
    use std::rc::Rc;
    use std::task::Waker;

    use super::*;
    use crate::file_sync::SyncTarget;
    use crate::mapped_region::Sealing;

    struct Count(Rc<Cell<u32>>, bool);

    impl SyncTarget for Count {
        fn sync(&self) -> io::Result<()> {
            self.0.set(self.0.get() + 1);
            if self.1 {
                Err(io::Error::from_raw_os_error(5))
            } else {
                Ok(())
            }
        }
        fn sync_failed(&self) {}
    }

    fn region(mechanism: Mechanism) -> PersistentMapping {
        PersistentMapping::new(
            MappedRegion::create_memory("test", 4096, Sealing::None).unwrap(),
            mechanism,
        )
    }

    fn persist(region: &PersistentMapping, spans: &[Span]) -> Result<(), PersistError> {
        match region.poll_persist(spans, &mut None, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("real media do the work in the first poll"),
        }
    }

    #[test]
    fn one_sync_serves_all_spans_and_an_empty_persist_needs_none() {
        let count = Rc::new(Cell::new(0));
        let file = FileSync::new("log".into(), Box::new(Count(Rc::clone(&count), false)));
        let region = region(Mechanism::FileSync(file));
        assert_eq!(region.means(), Means::FileSync);
        persist(&region, &[Span::new(0, 64), Span::new(1024, 64)]).unwrap();
        persist(&region, &[]).unwrap();
        assert_eq!(count.get(), 1);
    }

    /// A poisoned region refuses an empty persist, too: the caller learns whether the pool is sound.
    #[test]
    fn a_poisoned_region_makes_nothing_durable() {
        let file = FileSync::new("log".into(), Box::new(Count(Rc::new(Cell::new(0)), true)));
        let region = region(Mechanism::FileSync(file));
        assert!(matches!(
            persist(&region, &[Span::new(0, 64)]),
            Err(PersistError::Sync { .. })
        ));
        assert!(matches!(
            persist(&region, &[Span::new(0, 64)]),
            Err(PersistError::Poisoned)
        ));
        assert!(matches!(persist(&region, &[]), Err(PersistError::Poisoned)));
    }

    #[test]
    fn every_other_means_persists_at_once() {
        let processor = Processor::detect().unwrap();
        for (mechanism, means) in [
            (Mechanism::WriteBack(processor), Means::WriteBack),
            (Mechanism::Fence, Means::Fence),
            (Mechanism::Process, Means::Process),
        ] {
            let region = region(mechanism);
            region.write(100, b"bytes");
            assert_eq!(region.means(), means);
            persist(&region, &[Span::new(100, 5)]).unwrap();
        }
    }

    #[test]
    #[should_panic(expected = "not in a region of 4096 bytes")]
    fn a_span_past_the_end_stops_the_program() {
        let _ = persist(&region(Mechanism::Process), &[Span::new(4096, 1)]);
    }
}
