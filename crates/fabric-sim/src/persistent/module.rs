//! The state that outlives the processes of a machine, and in part its power: the bytes of a pool's log, in transit
//! from caches and NICs to safe places, and the small files beside it.
//!
//! ```text
//!   core:  store -> cache -------------- write-back --> memory controller --> medium
//!   NIC:   write -> NIC, IIO -> DDIO on: last-level cache ----^       ^
//!                            -> DDIO off -----------------------------'
//!                  |                |                              |
//!     survives in  WSP              MHP                            DMP
//! ```
//!
//! A page-granular file follows the same scheme, with the page cache instead of the caches and a sync of the file
//! instead of the write-back.
//!
//! There are two images: *visible*, the view of every core and NIC of the machine, and *durable*, the content that
//! certainly survives. Between them are the stores whose fate is open ([`Lines`]).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use stonecast_base::{LINE_SIZE, Nanoseconds, Span};
use stonecast_media::{Blob, Ddio, DeclaredPlatform, PersistenceDomain};

use crate::faults::{Fault, FaultState};
use crate::image::Image;
use crate::persistent::damage::Recent;
use crate::persistent::evictions::Evictions;
use crate::persistent::lines::{Lines, NEVER};
use crate::persistent::medium::{Medium, MediumCounts};
use crate::persistent::watch::{ReadOrder, Watch};
use crate::persistent::wreck::Wreck;
use crate::profile::MachineProfile;
use crate::time::Time;

/// Stores that are kept before the certain ones are searched for.
const SETTLE_AT: usize = 4096;

/// One module has many users, and survives their deaths.
pub struct Module {
    pub(crate) time: Rc<Time>,
    pub(crate) space: u32,
    pub(crate) profile: MachineProfile,
    /// The actual behaviour of the machine, whatever is declared.
    pub(crate) platform: DeclaredPlatform,
    content: RefCell<Content>,
    blobs: RefCell<BTreeMap<Blob, Rc<[u8]>>>,
    pub(crate) log: LogFile,
    power_cycle: Cell<u128>,
    faults: Rc<FaultState>,
    poison: Poison,
    watched: Watched,
}

/// The log as a file that grows, and whose syncs fail.
pub(crate) struct LogFile {
    pub(crate) size: Cell<u64>,
    /// Allocated spans by their offset, and the time at which each allocation is done.
    prepared: RefCell<BTreeMap<u64, (u64, Nanoseconds)>>,
    /// Bytes that may be allocated.
    room: Cell<u64>,
    sync_fails: Cell<bool>,
}

impl LogFile {
    fn new(size: u64, prepared: BTreeMap<u64, u64>) -> Self {
        Self {
            size: Cell::new(size),
            prepared: RefCell::new(long_prepared(prepared)),
            room: Cell::new(u64::MAX),
            sync_fails: Cell::new(false),
        }
    }

    /// The spans whose allocation is done at `now`.
    fn prepared_by(&self, now: Nanoseconds) -> BTreeMap<u64, u64> {
        let prepared = self.prepared.borrow();
        let done = prepared.iter().filter(|(_, (_, done))| *done <= now);
        done.map(|(&offset, &(size, _))| (offset, size)).collect()
    }
}

/// Lines that cannot be read. Most modules have none, and their reads look at one cell.
struct Poison {
    lines: RefCell<BTreeSet<u64>>,
    is_any: Cell<bool>,
}

impl Poison {
    fn new(lines: BTreeSet<u64>) -> Self {
        Self {
            is_any: Cell::new(!lines.is_empty()),
            lines: RefCell::new(lines),
        }
    }

    fn replace(&self, lines: BTreeSet<u64>) {
        self.is_any.set(!lines.is_empty());
        *self.lines.borrow_mut() = lines;
    }

    fn add(&self, lines: Range<u64>) {
        self.lines.borrow_mut().extend(lines);
        self.is_any.set(true);
    }

    #[inline]
    fn meets(&self, span: Span) -> bool {
        self.is_any.get() && {
            let lines = numbers(span);
            self.lines.borrow().range(lines).next().is_some()
        }
    }
}

/// The notes of reads, if there are any: most modules are not watched, and their reads look at one cell.
#[derive(Default)]
struct Watched {
    watch: RefCell<Option<Watch>>,
    is_any: Cell<bool>,
}

/// The numbers of the lines that `span` touches.
fn numbers(span: Span) -> Range<u64> {
    let lines = span.widen(LINE_SIZE as u64);
    lines.offset / LINE_SIZE as u64..(lines.offset + lines.size) / LINE_SIZE as u64
}

struct Content {
    visible: Image,
    durable: Image,
    lines: Lines,
    /// The number of stores at which the certain ones are searched for.
    settle_at: usize,
    medium: Medium,
    /// Kept on request.
    recent: Option<Recent>,
    evictions: Evictions,
}

impl Content {
    /// Notes stores to lines that no code needs to write back: to make room for them, other lines leave the caches.
    fn note_dirty(&mut self, offset: u64, size: usize, now: Nanoseconds) {
        let lines = Span::new(offset, size as u64).widen(LINE_SIZE as u64);
        for line in lines.offset / LINE_SIZE as u64..(lines.offset + lines.size) / LINE_SIZE as u64
        {
            if let Some(leaving) = self.evictions.store(line) {
                self.medium.accept(leaving, now);
            }
        }
    }
}

impl Module {
    pub(crate) fn new(
        time: Rc<Time>,
        faults: Rc<FaultState>,
        profile: MachineProfile,
        platform: DeclaredPlatform,
        content: Survivor,
    ) -> Self {
        let space = time.new_space();
        let Survivor {
            image,
            blobs,
            prepared,
            log_size,
            power_cycle,
            poisoned,
            ..
        } = content;
        let medium = Medium::new(&profile);
        let lines = Lines::new(time.stores().clone());
        Self {
            time,
            space,
            profile,
            platform,
            content: RefCell::new(Content {
                visible: image.clone(),
                durable: image,
                lines,
                settle_at: SETTLE_AT,
                medium,
                recent: None,
                evictions: Evictions::default(),
            }),
            blobs: RefCell::new(blobs),
            log: LogFile::new(log_size, prepared),
            power_cycle: Cell::new(power_cycle),
            faults,
            poison: Poison::new(poisoned),
            watched: Watched::default(),
        }
    }

    /// Starts noting in `order` the reads of units of `wreck`, of which this module holds a survivor. Unit 0 is noted
    /// as `first`, and so on: several modules can be watched in one order.
    pub fn watch(&self, wreck: &Wreck, first: u32, order: &ReadOrder) {
        *self.watched.watch.borrow_mut() = Some(Watch::new(wreck, first, order.clone()));
        self.watched.is_any.set(true);
    }

    #[inline]
    fn note_read(&self, offset: u64, size: u64) {
        if self.watched.is_any.get()
            && let Some(watch) = &mut *self.watched.watch.borrow_mut()
        {
            watch.read(offset, size);
        }
    }

    /// The work of the medium so far.
    pub fn counts(&self) -> MediumCounts {
        self.content.borrow().medium.counts
    }

    /// The number of stores to undecided lines noted so far: it changes whenever a power cut may leave something new.
    pub fn stores(&self) -> u64 {
        self.content.borrow().lines.noted()
    }

    /// Counts the content of caches and of the medium's buffer as written.
    pub fn drain(&self) {
        let content = &mut *self.content.borrow_mut();
        for leaving in content.evictions.drain() {
            content.medium.accept(leaving, self.time.now());
        }
        content.medium.drain();
    }

    /// Limits the allocated bytes to `bytes`.
    pub fn limit_space(&self, bytes: u64) {
        self.log.room.set(bytes);
    }

    /// Starts remembering the content of lines before their writes, for [`Survivor::lose_queue`] and others.
    pub fn remember(&self) {
        self.content.borrow_mut().recent.get_or_insert_default();
    }

    /// Makes the lines that hold `size` bytes at `offset` unreadable.
    pub fn poison(&self, offset: u64, size: u64) {
        self.poison.add(numbers(Span::new(offset, size)));
    }

    /// Makes every line readable again.
    pub fn cure(&self) {
        self.poison.replace(BTreeSet::new());
    }

    /// The written parts of the log.
    pub fn touched(&self) -> Vec<Span> {
        self.occupied()
    }

    /// Changes bytes of the log directly, in both images.
    pub fn corrupt(&self, offset: u64, bytes: &[u8]) {
        let content = &mut *self.content.borrow_mut();
        content.visible.write(offset, bytes);
        content.durable.write(offset, bytes);
    }

    /// Copies visible bytes of the log, whether they can be read or not.
    pub fn look(&self, offset: u64, into: &mut [u8]) {
        self.content.borrow().visible.read(offset, into);
    }

    /// Whether the line at `offset` holds data that only a cache has, and that a power cut destroys.
    pub(crate) fn waits_in_cache(&self, offset: u64) -> bool {
        let volatile_caches = self.platform.persistence_domain == PersistenceDomain::Dmp;
        volatile_caches && self.content.borrow().lines.waits(offset / LINE_SIZE as u64)
    }

    /// Whether a read of `size` bytes at `offset` meets a line that cannot be read.
    #[inline]
    pub(crate) fn meets_poison(&self, offset: u64, size: u64) -> bool {
        self.poison.meets(Span::new(offset, size))
    }

    /// Lets the next sync of the file fail, like a device that reports an error.
    pub fn fail_next_sync(&self) {
        self.log.sync_fails.set(true);
    }

    pub(crate) fn take_sync_failure(&self) -> bool {
        self.log.sync_fails.take()
    }

    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        self.note_read(offset, into.len() as u64);
        self.content.borrow().visible.read(offset, into);
    }

    #[inline]
    pub(crate) fn load(&self, offset: u64) -> u64 {
        self.note_read(offset, 8);
        self.content.borrow().visible.load(offset)
    }

    /// Whether lines stay in the caches until others need their place.
    fn caches_are_saved(&self) -> bool {
        matches!(
            self.platform.persistence_domain,
            PersistenceDomain::Mhp | PersistenceDomain::Wsp
        )
    }

    /// Applies a store of a core.
    pub(crate) fn store_from_core(&self, offset: u64, bytes: &[u8]) {
        let content = &mut *self.content.borrow_mut();
        content.medium.counts.bytes_stored += bytes.len() as u64;
        content.visible.write(offset, bytes);
        if self.caches_are_saved() {
            content.note_dirty(offset, bytes.len(), self.time.now());
        }
        match self.platform.persistence_domain {
            // Nothing survives, or everything visible survives: nothing is open.
            PersistenceDomain::Volatile | PersistenceDomain::Wsp => {}
            PersistenceDomain::PageFile | PersistenceDomain::Dmp | PersistenceDomain::Mhp => {
                each_line(offset, bytes, |line, start, part| {
                    content.lines.note(line, start, part, NEVER)
                });
                self.settle_if_many(content);
            }
        }
    }

    /// Applies a write of a NIC that has reached the memory of the machine. Returns the time at which the write is in
    /// the memory controller, if it gets there without help.
    pub(crate) fn store_from_nic(&self, offset: u64, bytes: &[u8]) -> Nanoseconds {
        let now = self.time.now();
        let content = &mut *self.content.borrow_mut();
        content.medium.counts.bytes_stored += bytes.len() as u64;
        content.visible.write(offset, bytes);
        if self.caches_are_saved() {
            content.note_dirty(offset, bytes.len(), now);
        }
        let ddio = self.time.nic_ddio().unwrap_or(self.platform.ddio) == Ddio::On;
        let mut latest = now;
        match self.platform.persistence_domain {
            PersistenceDomain::Volatile | PersistenceDomain::Wsp => {}
            PersistenceDomain::Mhp => each_line(offset, bytes, |line, start, part| {
                content.lines.note(line, start, part, now)
            }),
            PersistenceDomain::Dmp if !ddio => each_line(offset, bytes, |line, start, part| {
                let at = content.medium.accept(line, now);
                content.lines.note(line, start, part, at);
                latest = latest.max(at);
            }),
            PersistenceDomain::Dmp | PersistenceDomain::PageFile => {
                each_line(offset, bytes, |line, start, part| {
                    content.lines.note(line, start, part, NEVER)
                });
            }
        }
        self.settle_if_many(content);
        latest
    }

    /// Writes back the lines of `spans`, and returns the time at which they are in the memory controller.
    pub(crate) fn write_back(&self, spans: &[Span], at: Nanoseconds) -> Nanoseconds {
        let content = &mut *self.content.borrow_mut();
        let mut done = at;
        let mut last = None;
        for span in spans.iter().filter(|span| span.size > 0) {
            let lines = span.widen(LINE_SIZE as u64);
            for line in
                lines.offset / LINE_SIZE as u64..(lines.offset + lines.size) / LINE_SIZE as u64
            {
                if last.replace(line) == Some(line) {
                    continue;
                }
                content.medium.counts.write_backs += 1;
                // A clean line costs the instruction and nothing more.
                if !content.lines.page_is_used(line) {
                    continue;
                }
                let accepted = if content.lines.waits(line) {
                    content.medium.accept(line, at)
                } else {
                    at
                };
                done = done.max(content.lines.send(line, accepted).unwrap_or(at));
            }
        }
        done
    }

    /// Counts a fence.
    pub(crate) fn count_fence(&self) {
        self.content.borrow_mut().medium.counts.fences += 1;
    }

    /// Notes that a core's stores to `spans` have left its store buffer: on a machine that saves its caches they are
    /// certain.
    pub(crate) fn fence(&self, spans: &[Span]) {
        if self.platform.persistence_domain == PersistenceDomain::Mhp {
            let content = &mut *self.content.borrow_mut();
            for span in spans.iter().filter(|span| span.size > 0) {
                let lines = span.widen(LINE_SIZE as u64);
                for line in
                    lines.offset / LINE_SIZE as u64..(lines.offset + lines.size) / LINE_SIZE as u64
                {
                    content.lines.send(line, self.time.now());
                }
            }
        }
    }

    /// Syncs the file: everything visible at this moment is durable at the returned time.
    pub(crate) fn sync(&self, at: Nanoseconds) -> Nanoseconds {
        let content = &mut *self.content.borrow_mut();
        let lines = content.lines.lines();
        let page_lines = (crate::image::PAGE_SIZE / LINE_SIZE) as u64;
        let mut pages: Vec<u64> = lines.iter().map(|line| line / page_lines).collect();
        pages.dedup();
        let bytes = pages.len() as u64 * crate::image::PAGE_SIZE as u64;
        let done = at + self.profile.file_sync_ns + bytes * self.profile.file_sync_byte_ps / 1000;
        for line in lines {
            content.lines.send(line, done);
        }
        content.medium.counts.syncs += 1;
        if self.platform.persistence_domain == PersistenceDomain::PageFile {
            content.medium.counts.bytes_received += bytes;
            content.medium.counts.bytes_written += bytes;
        }
        done
    }

    /// Syncs the file, and waits for it at once.
    pub(crate) fn sync_now(&self) {
        self.sync(0);
        settle(&mut self.content.borrow_mut(), self.time.now());
    }

    fn settle_if_many(&self, content: &mut Content) {
        if content.lines.len() > content.settle_at {
            settle(content, self.time.now());
            // Stores that are not in transit stay: if they are many, not every store searches them all.
            content.settle_at = SETTLE_AT.max(2 * content.lines.len());
        }
    }

    /// The content that is certain after a power cut at this moment, and the stores that may survive it.
    pub(crate) fn split(&self) -> (Image, StoresByLine) {
        let content = &mut *self.content.borrow_mut();
        settle(content, self.time.now());
        let image = match self.platform.persistence_domain {
            PersistenceDomain::Volatile => Image::default(),
            PersistenceDomain::Wsp => content.visible.clone(),
            PersistenceDomain::PageFile | PersistenceDomain::Dmp | PersistenceDomain::Mhp => {
                content.durable.clone()
            }
        };
        let lines = content.lines.lines();
        let stores = lines
            .iter()
            .flat_map(|&line| content.lines.stores(line).map(move |store| (line, *store)));
        (image, stores.collect())
    }

    /// Continues with the survivor of a power cut.
    pub fn restart(&self, survivor: Survivor) {
        let Survivor {
            image,
            blobs,
            prepared,
            log_size,
            power_cycle,
            poisoned,
            ..
        } = survivor;
        self.poison.replace(poisoned);
        let content = &mut *self.content.borrow_mut();
        content.visible = image.clone();
        content.durable = image;
        content.lines = Lines::new(self.time.stores().clone());
        *self.blobs.borrow_mut() = blobs;
        *self.log.prepared.borrow_mut() = long_prepared(prepared);
        self.log.size.set(log_size);
        self.power_cycle.set(power_cycle);
    }

    /// Everything except the bytes of the log.
    pub(crate) fn beside(&self) -> Survivor {
        Survivor {
            image: Image::default(),
            blobs: self.blobs.borrow().clone(),
            prepared: self.log.prepared_by(self.time.clock()),
            log_size: self.log.size.get(),
            power_cycle: self.power_cycle.get() + 1,
            poisoned: self.poison.lines.borrow().clone(),
            recent: self.content.borrow().recent.clone().unwrap_or_default(),
        }
    }

    pub(crate) fn blob(&self, blob: Blob) -> Option<Rc<[u8]>> {
        self.blobs.borrow().get(&blob).cloned()
    }

    pub(crate) fn set_blob(&self, blob: Blob, bytes: &[u8]) {
        self.blobs.borrow_mut().insert(blob, bytes.into());
    }

    pub(crate) fn power_cycle(&self) -> u128 {
        self.power_cycle.get()
    }

    /// The time at which an allocation of `span` that begins at this moment is done; `None` if there is no room.
    pub(crate) fn prepare(&self, span: Span) -> Option<Nanoseconds> {
        let mut prepared = self.log.prepared.borrow_mut();
        if let Some(&(size, done)) = prepared.get(&span.offset)
            && size >= span.size
        {
            return Some(done);
        }
        let used: u64 = prepared.values().map(|(size, _)| size).sum();
        if used + span.size > self.log.room.get() {
            self.faults.hit(Fault::AllocationFailure);
            return None;
        }
        // Every byte is written once, so that nothing is missing later.
        let done = self.time.clock() + span.size * self.profile.media_write_byte_ps / 1000;
        prepared.insert(span.offset, (span.size, done));
        Some(done)
    }

    /// Whether no byte of the log from `offset` on was ever prepared.
    pub(crate) fn is_unprepared_from(&self, offset: u64) -> bool {
        let prepared = self.log.prepared.borrow();
        prepared.iter().all(|(&at, (size, _))| at + size <= offset)
    }

    /// The written spans of the log.
    pub(crate) fn occupied(&self) -> Vec<Span> {
        if let Some(watch) = &mut *self.watched.watch.borrow_mut() {
            watch.ask_for_pages();
        }
        let page = crate::image::PAGE_SIZE as u64;
        let mut spans: Vec<Span> = Vec::new();
        for index in self.content.borrow().visible.touched() {
            let offset = index as u64 * page;
            match spans
                .last_mut()
                .filter(|span| span.offset + span.size == offset)
            {
                Some(span) => span.size += page,
                None => spans.push(Span::new(offset, page)),
            }
        }
        spans
    }
}

/// Stores with their lines, line by line, each line's oldest first.
pub(crate) type StoresByLine = Vec<(u64, crate::persistent::lines::Store)>;

/// The content after a power cut, or the content of a new module.
#[derive(Clone, Default)]
pub struct Survivor {
    pub(crate) image: Image,
    pub(crate) blobs: BTreeMap<Blob, Rc<[u8]>>,
    /// The prepared spans of the log, as offset and size. An allocation that the power cut interrupted begins again.
    pub(crate) prepared: BTreeMap<u64, u64>,
    pub(crate) log_size: u64,
    pub(crate) power_cycle: u128,
    pub(crate) poisoned: BTreeSet<u64>,
    pub(crate) recent: Recent,
}

impl Survivor {
    /// Copies bytes of the log.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        self.image.read(offset, into);
    }
}

/// Spans whose allocation was done before the time of this world began.
fn long_prepared(spans: BTreeMap<u64, u64>) -> BTreeMap<u64, (u64, Nanoseconds)> {
    let spans = spans.into_iter();
    spans.map(|(offset, size)| (offset, (size, 0))).collect()
}

fn settle(content: &mut Content, now: Nanoseconds) {
    let Content {
        durable,
        lines,
        recent,
        ..
    } = content;
    lines.settle(now, |line, store| {
        if let Some(recent) = recent {
            recent.note(line, durable);
        }
        for (start, bytes) in store.pieces() {
            durable.write(line * LINE_SIZE as u64 + start as u64, bytes);
        }
    });
}

/// Splits `bytes` at `offset` into lines.
pub(crate) fn each_line(offset: u64, bytes: &[u8], mut with: impl FnMut(u64, usize, &[u8])) {
    let mut rest = bytes;
    let mut at = offset;
    while !rest.is_empty() {
        let start = at as usize % LINE_SIZE;
        let (part, more) = rest.split_at(rest.len().min(LINE_SIZE - start));
        with(at / LINE_SIZE as u64, start, part);
        at += part.len() as u64;
        rest = more;
    }
}
