//! A medium that fails on the command of a story.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::task::{Context, Poll};

use stonecast_base::Span;
use stonecast_log::{RECORD_START_SIZE, RecordHeader, UNIT_SIZE, commit_tag_position};
use stonecast_media::{
    Backing, Blob, LogOptions, Means, MediaError, PersistCounts, PersistError, PersistState,
    PersistentRegion, Prepared, Region, Share,
};

/// The failure of the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trouble {
    #[default]
    None,
    /// The file system is full: no further space is allocated.
    Full,
    /// The medium fails when it is asked for space.
    SpaceBroken,
    /// Nothing can be made durable.
    SyncBroken,
    /// There is no memory for a larger index.
    NoMemory,
    /// The power fails while several moved records are made durable: the last of them survives, the others are lost.
    TornMoves,
    /// The power of the machine was cut since the latest opening of the pool.
    PowerWasCut,
}

/// The observed order in which a server makes bytes durable.
#[derive(Debug, Default)]
pub struct Seen {
    /// Spans that were marked as changed before anything was made durable, since the latest opening of the log.
    pub marked: Vec<Span>,
    persisted: bool,
    /// Offsets of seals that were written and not made durable yet.
    undurable_seals: BTreeSet<u64>,
}

impl Seen {
    /// Notes a write. A new seal replaces the seal before the last one, which a crash may need as long as the last seal
    /// is not durable.
    fn note_write(&mut self, offset: u64, size: usize, segment_size: u64) {
        let other = match offset % segment_size / UNIT_SIZE {
            1 => offset + UNIT_SIZE,
            2 => offset - UNIT_SIZE,
            _ => return,
        };
        if size as u64 == UNIT_SIZE {
            assert!(
                !self.undurable_seals.contains(&other),
                "a seal is written at {offset}, and the one beside it is not durable"
            );
            self.undurable_seals.insert(offset);
        }
    }

    fn note_persisted(&mut self, spans: &[Span]) {
        self.persisted = true;
        self.undurable_seals.retain(|offset| {
            let is_in = |span: &Span| (span.offset..span.offset + span.size).contains(offset);
            !spans.iter().any(is_in)
        });
    }
}

/// A backing that fails on the command of a story.
pub struct TroubledBacking {
    inner: Rc<dyn Backing>,
    trouble: Rc<Cell<Trouble>>,
    ready: RefCell<Vec<Span>>,
    segment_size: u64,
    seen: Rc<RefCell<Seen>>,
}

impl TroubledBacking {
    pub fn new(
        inner: Rc<dyn Backing>,
        segment_size: u64,
        trouble: Rc<Cell<Trouble>>,
        seen: Rc<RefCell<Seen>>,
    ) -> Self {
        Self {
            inner,
            trouble,
            ready: RefCell::default(),
            segment_size,
            seen,
        }
    }
}

impl Backing for TroubledBacking {
    fn name(&self) -> String {
        self.inner.name()
    }
    fn place(&self) -> PathBuf {
        self.inner.place()
    }
    fn locate(&self, blob: Blob) -> (String, u64) {
        self.inner.locate(blob)
    }
    fn open_log(&self, options: LogOptions) -> Result<Rc<dyn PersistentRegion>, MediaError> {
        let inner = self.inner.open_log(options)?;
        self.seen.take();
        Ok(Rc::new(TroubledLog {
            inner,
            trouble: self.trouble.clone(),
            segment_size: self.segment_size,
            seen: self.seen.clone(),
        }))
    }
    fn prepare(&self, span: Span) -> Result<Prepared, MediaError> {
        if self.ready.borrow().contains(&span) {
            return Ok(Prepared::Ready);
        }
        match self.trouble.get() {
            Trouble::Full => {
                return Err(MediaError::NoSpace {
                    path: self.place(),
                    size: span.size,
                });
            }
            Trouble::SpaceBroken => {
                let source = std::io::Error::from_raw_os_error(5);
                return Err(MediaError::Io {
                    doing: "writing zeros to",
                    path: self.place(),
                    source,
                });
            }
            _ => {}
        }
        let prepared = self.inner.prepare(span)?;
        if prepared == Prepared::Ready {
            self.ready.borrow_mut().push(span);
        }
        Ok(prepared)
    }
    fn occupied(&self) -> Result<Vec<Span>, MediaError> {
        self.inner.occupied()
    }
    fn load(&self, blob: Blob) -> Result<Option<Vec<u8>>, MediaError> {
        self.inner.load(blob)
    }
    fn store(&self, blob: Blob, bytes: &[u8]) -> Result<(), MediaError> {
        if self.trouble.get() == Trouble::Full && blob == Blob::Checkpoint && !bytes.is_empty() {
            return Err(MediaError::NoSpace {
                path: self.place(),
                size: bytes.len() as u64,
            });
        }
        self.inner.store(blob, bytes)
    }
    fn volatile(&self, name: &str, size: u64) -> Result<Rc<dyn Region>, MediaError> {
        if self.trouble.get() == Trouble::NoMemory {
            return Err(MediaError::NoSpace {
                path: name.into(),
                size,
            });
        }
        self.inner.volatile(name, size)
    }
    fn volatile_for_all(&self, name: &str, size: u64) -> Result<Rc<dyn Region>, MediaError> {
        if self.trouble.get() == Trouble::NoMemory {
            return Err(MediaError::NoSpace {
                path: name.into(),
                size,
            });
        }
        self.inner.volatile_for_all(name, size)
    }
    fn earlier_writers_are_gone(&self) -> bool {
        self.inner.earlier_writers_are_gone()
    }
    fn power_cycle(&self) -> u128 {
        let earlier = self.inner.power_cycle();
        earlier ^ u128::from(self.trouble.get() == Trouble::PowerWasCut)
    }
}

struct TroubledLog {
    inner: Rc<dyn PersistentRegion>,
    trouble: Rc<Cell<Trouble>>,
    segment_size: u64,
    seen: Rc<RefCell<Seen>>,
}

impl TroubledLog {
    /// Removes the stamps of moved records that lie in front of another moved record in one of `spans`. Returns whether
    /// there were any.
    fn tear_moves(&self, spans: &[Span]) -> bool {
        let mut any = false;
        for span in spans {
            let mut places = Vec::new();
            let mut at = span.offset;
            while at < span.offset + span.size
                && let Some(header) = self.moved(at)
            {
                places.push(at);
                at += header.size();
            }
            places.pop();
            any |= !places.is_empty();
            places
                .into_iter()
                .for_each(|at| self.inner.store(commit_tag_position(at), 0));
        }
        any
    }

    /// The header of the moved record at `at`, if there is one.
    fn moved(&self, at: u64) -> Option<RecordHeader> {
        let mut bytes = [0; RECORD_START_SIZE];
        self.inner.read(at, &mut bytes);
        let header = RecordHeader::parse(&bytes).ok()?;
        header.moved_at().map(|_| header)
    }
}

impl PersistentRegion for TroubledLog {
    fn means(&self) -> Means {
        self.inner.means()
    }
    fn persist_counts(&self) -> PersistCounts {
        self.inner.persist_counts()
    }
    fn poll_persist(
        &self,
        spans: &[Span],
        state: &mut PersistState,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), PersistError>> {
        match self.trouble.get() {
            Trouble::SyncBroken => Poll::Ready(Err(PersistError::Poisoned)),
            Trouble::TornMoves if self.tear_moves(spans) => {
                self.trouble.set(Trouble::SyncBroken);
                Poll::Ready(Err(PersistError::Poisoned))
            }
            _ => {
                let done = self.inner.poll_persist(spans, state, context);
                if matches!(done, Poll::Ready(Ok(_))) {
                    self.seen.borrow_mut().note_persisted(spans);
                }
                done
            }
        }
    }
    fn mark_changed(&self, spans: &[Span]) {
        let seen = &mut *self.seen.borrow_mut();
        if !seen.persisted {
            seen.marked.extend(spans);
        }
        self.inner.mark_changed(spans);
    }
}

impl Region for TroubledLog {
    fn size(&self) -> u64 {
        self.inner.size()
    }
    fn read(&self, offset: u64, into: &mut [u8]) {
        self.inner.read(offset, into);
    }
    fn write(&self, offset: u64, from: &[u8]) {
        self.seen
            .borrow_mut()
            .note_write(offset, from.len(), self.segment_size);
        self.inner.write(offset, from);
    }
    fn load(&self, offset: u64) -> u64 {
        self.inner.load(offset)
    }
    fn store(&self, offset: u64, value: u64) {
        self.inner.store(offset, value);
    }
    fn compare_exchange(&self, offset: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.inner.compare_exchange(offset, current, new)
    }
    fn fetch_add(&self, offset: u64, add: u64) -> u64 {
        self.inner.fetch_add(offset, add)
    }
    fn mapped_at(&self) -> Option<stonecast_media::MappedPlace<'_>> {
        self.inner.mapped_at()
    }
    fn share(&self) -> Option<Share<'_>> {
        self.inner.share()
    }
}
