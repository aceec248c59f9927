//! Overwriting a key without the server: what a trusted client does where the server lets it. Why this is sound:
//! `docs/design/0022`.
//!
//! ```text
//!   READ bucket, record -> FETCH_ADD counter -> WRITE report, WRITE record with stamp, CAS word     done
//!                                                                                   '-> lost: WRITE void, through the server
//! ```
//!
//! One put at a time, in its turn: so records are stamped in the order of their sequences, and puts of one client are committed
//! in the order of asking. What is stamped is either published or made void before anything else is sent, also where the future
//! that began it is dropped: that part is a task of its own wherever it waits.
//!
//! A put that is out of the ordinary is left to the server, with nothing done.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use stonecast_base::{LINE_SIZE, mutant};
use stonecast_fabric::{Access, ChangeNow, LocalSpan, MemoryRegion, ReadInto, RemoteAddress, Rkey, Status};
use stonecast_log::{
    Condition, Draft, KEY_SIZE_MAX, LogFormat, RECORD_START_SIZE, RecordHeader, Secret, Stamp, UNIT_SIZE, commit_tag_position,
    record_size, void_tag,
};

use super::Inner;
use super::generations::GENERATIONS;
use super::read::{control, words_of};
use crate::error::StoreError;
use crate::index::MOVED;
use crate::limits::LEASE_UNUSED_NS;
use crate::protocol::{Answer, Grant, PublicationGrant, Request, Verdict};
use crate::publication::{PublicationReport, REPORTS, SEQUENCE_MAX, report_offset};
use crate::word::{KeyHash, Word};

/// Bytes of the memory that changes are posted from: the longest record that is published, a report and a word.
const SCRATCH_SIZE: u64 = 64 * LINE_SIZE as u64 + 128;
/// Buckets that are looked through; nearly all keys are in their first or second.
const BUCKETS_MAX: u32 = 8;
/// Bytes from the start of a record that hold its key.
const START_SIZE_MAX: usize = RECORD_START_SIZE + KEY_SIZE_MAX;

/// Whether and how this client publishes.
pub(super) enum Publishing {
    /// Not here.
    Never,
    /// It may ask for the rights.
    MayAsk,
    /// It has them.
    Granted(Box<Rights>),
}

/// See [`Publishing`].
pub(super) struct Rights {
    grant: PublicationGrant,
    /// With the pool's secret.
    format: LogFormat,
    scratch: MemoryRegion,
    extent: Option<Extent>,
    /// Reports written so far, and how many of them the server has taken at least.
    reported: u64,
    taken: u64,
    used_at: u64,
    record: Vec<u8>,
}

/// A lease for records that this client stamps.
struct Extent {
    grant: Grant,
    unit: u32,
    last: u32,
}

/// The key's word, as it was found.
struct Target {
    /// Number of the index.
    table: u32,
    bucket: u64,
    slot: u64,
    word: Word,
    units: u64,
}

/// What is about to be published.
struct Attempt {
    sequence: u64,
    commit_tag: u64,
    position: u64,
    new: Word,
    report: PublicationReport,
    rkey: u32,
}

impl Inner {
    /// Publishes `draft`, if that is a plain overwrite of a key; its version then. `None`: nothing was done, the server has to do
    /// it. Called in the turn of this put.
    pub(super) async fn publish(self: &Rc<Self>, draft: &Draft<'_>) -> Result<Option<u64>, StoreError> {
        let size = record_size(draft.key.len(), draft.value.len());
        if matches!(*self.publishing.borrow(), Publishing::Never)
            || draft.condition != Condition::None
            || draft.token != 0
            || size > 64 * LINE_SIZE as u64
        {
            return Ok(None);
        }
        let hash = KeyHash::of(self.format.tag_key, draft.key);
        let mut found = self.find_target(hash, draft.key).await?;
        if found.is_some() && self.pending.borrow().has_puts() {
            // What was sent to the server before comes before.
            self.puts_done().await;
            found = self.find_target(hash, draft.key).await?;
        }
        let Some(mut target) = found else { return Ok(None) };
        if !self.prepare_publishing(size).await? || !self.is_of_present_index(&target) {
            return Ok(None);
        }
        let mut sequence = 0;
        let counter = self.rights(|rights| rights.counter());
        if !self.change(&mut [ChangeNow::FetchAndAdd { remote: counter, add: 1, found: &mut sequence }]).await? {
            return Ok(None);
        }
        if mutant!(SequenceBeforeRead) {
            let again = self.find_target(hash, draft.key).await?.filter(|target| self.is_of_present_index(target));
            let Some(again) = again else { return Ok(None) };
            target = again;
        }
        if sequence == 0 || sequence > SEQUENCE_MAX {
            return Err(StoreError::Protocol { what: "the server's counter of sequences says what it cannot" });
        }
        let attempt = self.stamp_next(draft, hash, size, &target, sequence);
        if self.reads_at_once {
            return self.conclude(attempt, target).await;
        }
        // In a task of its own: what was stamped is concluded also where this future is dropped, and before the next put.
        self.pending.borrow_mut().begin_conclusion();
        let result = Rc::new(RefCell::new((None, None::<Waker>)));
        let (inner, place) = (self.clone(), result.clone());
        self.runtime.spawn(Box::pin(async move {
            let outcome = inner.conclude(attempt, target).await;
            inner.pending.borrow_mut().end_conclusion();
            let waker = {
                let place = &mut *place.borrow_mut();
                place.0 = Some(outcome);
                place.1.take()
            };
            waker.into_iter().for_each(Waker::wake);
        }));
        poll_fn(|context| {
            let place = &mut *result.borrow_mut();
            place.1 = Some(context.waker().clone());
            place.0.take().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Waits until every put that was sent to the server is answered.
    async fn puts_done(&self) {
        poll_fn(|context| {
            let mut pending = self.pending.borrow_mut();
            if !pending.has_puts() || self.closed.get() {
                return Poll::Ready(());
            }
            pending.wait_for_room(context.waker());
            Poll::Pending
        })
        .await;
    }

    /// Sees to it that this client has rights, an extent with room for `size` bytes and room for its reports. False: it has not.
    async fn prepare_publishing(self: &Rc<Self>, size: u64) -> Result<bool, StoreError> {
        let now = self.runtime.now();
        let table = self.access.get().table;
        let is_usable = match &mut *self.publishing.borrow_mut() {
            Publishing::Never => return Ok(false),
            Publishing::MayAsk => false,
            Publishing::Granted(rights) => {
                let was_used = now.saturating_sub(rights.used_at) <= LEASE_UNUSED_NS;
                rights.used_at = now;
                rights.grant.table == table && was_used
            }
        };
        if !is_usable && !self.ask_rights(now).await? {
            return Ok(false);
        }
        let (has_room, slot) = self.rights(|rights| {
            let segment_size = self.format.segment_size;
            let room = |extent: &Extent| u64::from(extent.unit) * UNIT_SIZE + size <= segment_size;
            if rights.extent.as_ref().is_some_and(room) {
                return (true, None);
            }
            (false, rights.extent.take().map(|extent| extent.grant.slot))
        });
        if let Some(slot) = slot {
            self.release_beside(slot);
        }
        if !has_room && !self.lease_to_publish(size).await? {
            return Ok(false);
        }
        // Two reports at most: what is about to happen, and that it has not.
        if self.rights(|rights| rights.reported + 2 - rights.taken <= REPORTS) {
            return Ok(true);
        }
        let mut taken = [0; 8];
        let remote = self.rights(|rights| rights.ring(0));
        self.read(&mut [ReadInto { remote, into: &mut taken }]).await?;
        let taken = u64::from_le_bytes(taken);
        Ok(self.rights(|rights| {
            rights.taken = taken.min(rights.reported);
            rights.reported + 2 - rights.taken <= REPORTS
        }))
    }

    /// Asks for the rights to publish in the present index, and gives those up that it had. False: there are none now.
    async fn ask_rights(self: &Rc<Self>, now: u64) -> Result<bool, StoreError> {
        let old = std::mem::replace(&mut *self.publishing.borrow_mut(), Publishing::MayAsk);
        let scratch = match old {
            Publishing::Granted(rights) => {
                if let Some(extent) = rights.extent {
                    self.release(extent.grant.slot).await?;
                }
                rights.scratch
            }
            _ => {
                let scratch = self.port.device().allocate(SCRATCH_SIZE, Access::NONE)?;
                self.made.regions.borrow_mut().push(scratch);
                scratch
            }
        };
        let grant = match self.request(Request::Publish).await? {
            Answer::Publication(grant) => grant,
            Answer::Verdict { verdict: Verdict::Busy, .. } => return Ok(false),
            _ => {
                *self.publishing.borrow_mut() = Publishing::Never;
                return Ok(false);
            }
        };
        if let Some(what) = grant.fault() {
            return Err(StoreError::Protocol { what });
        }
        let format = LogFormat { secret: Some(Secret::new(grant.secret)), ..self.format };
        let rights = Rights { grant, format, scratch, extent: None, reported: 0, taken: 0, used_at: now, record: Vec::new() };
        *self.publishing.borrow_mut() = Publishing::Granted(Box::new(rights));
        let table = self.access.get().table;
        if grant.table != table {
            // The rights are for an index that this client has not met yet.
            self.adopt_index(table).await?;
        }
        Ok(true)
    }

    /// Leases an extent for records that this client stamps. False: there is none now.
    async fn lease_to_publish(&self, size: u64) -> Result<bool, StoreError> {
        match self.request(Request::Lease { size: size as u32, publishes: true }).await? {
            Answer::Lease(grant) => {
                if let Some(what) = self.extents.borrow().fault(&grant, size) {
                    return Err(StoreError::Protocol { what });
                }
                self.rights(|rights| rights.extent = Some(Extent { grant, unit: grant.start, last: grant.last }));
                Ok(true)
            }
            Answer::Verdict { .. } => Ok(false),
            _ => Err(StoreError::Protocol { what: "the answer to a lease request is none" }),
        }
    }

    /// The word of `key`, if nobody claims it and it is of a record that clients overwrite.
    async fn find_target(self: &Rc<Self>, hash: KeyHash, key: &[u8]) -> Result<Option<Target>, StoreError> {
        let mut line = [0; LINE_SIZE];
        let mut access = self.access.get();
        let mut bucket = hash.bucket(access.index_bits);
        let mut passed = 0;
        while passed < BUCKETS_MAX {
            self.read(&mut [ReadInto { remote: self.index_address(bucket), into: &mut line }]).await?;
            if control(&line) & MOVED != 0 || self.access.get().table != access.table {
                if self.access.get().table == access.table {
                    self.adopt_index(access.table).await?;
                }
                access = self.access.get();
                (bucket, passed) = (hash.bucket(access.index_bits), 0);
                continue;
            }
            for (slot, word) in (0..).zip(words_of(&line)).filter(|(_, word)| word.matches(hash) && !word.is_long()) {
                if let Some(size) = self.size_if_plain(word, key).await? {
                    let Some(size) = size else { return Ok(None) };
                    let is_there = self.access.get().table == access.table;
                    let target = Target { table: access.table, bucket, slot, word, units: size / UNIT_SIZE };
                    return Ok(is_there.then_some(target));
                }
            }
            if control(&line) == 0 {
                return Ok(None);
            }
            bucket = (bucket + 1) & ((1 << access.index_bits) - 1);
            passed += 1;
        }
        Ok(None)
    }

    /// Bytes that the record behind `word` takes, if it is that of `key` and may be replaced: `Some(None)` where it is the key's
    /// and may not, `None` where it is another key's.
    async fn size_if_plain(&self, word: Word, key: &[u8]) -> Result<Option<Option<u64>>, StoreError> {
        let size = self.first_read_size(word).min(RECORD_START_SIZE + key.len());
        if size < RECORD_START_SIZE {
            return Ok(Some(None));
        }
        let mut start = [0; START_SIZE_MAX];
        let start = &mut start[..size];
        self.read(&mut [ReadInto { remote: self.log_address(word.position()), into: start }]).await?;
        let Some(header) = start.first_chunk().and_then(|line| RecordHeader::parse(line).ok()) else { return Ok(Some(None)) };
        if header.key_size() != key.len() || !start[header.key_start()..].starts_with(key) {
            return Ok(None);
        }
        // Where generations have come round a word may come back: the server decides.
        let is_plain = word == word.natural(header.size()) && header.generation() < GENERATIONS;
        Ok(Some(is_plain.then_some(header.size())))
    }

    /// Whether a word was found in the index that is current and that this client has rights for.
    fn is_of_present_index(&self, target: &Target) -> bool {
        self.access.get().table == target.table && self.rights(|rights| rights.grant.table == target.table)
    }

    /// Gives the record its place and its stamp. From here on it is concluded.
    fn stamp_next(&self, draft: &Draft<'_>, hash: KeyHash, size: u64, target: &Target, sequence: u64) -> Attempt {
        let epoch = self.welcome.epoch.get();
        self.rights(|rights| {
            let extent = rights.extent.as_mut().expect("it was looked at in this turn");
            let (grant, unit) = (extent.grant, extent.unit);
            let position = self.format.position(grant.segment, unit);
            let tag = draft.encode(&rights.format, position, grant.generation, epoch, &mut rights.record);
            // One writer, whose stores are there in their order: what is below is as durable as it is promised.
            let stamp = Stamp { sequence, previous: extent.last, durable: grant.durable, epoch };
            let commit_tag = stamp.put_into(&mut rights.record, &rights.format, position, grant.generation, tag, size);
            extent.unit += (size / UNIT_SIZE) as u32;
            extent.last = unit;
            let new = Word::new(position, grant.generation, hash, size);
            let units = (target.units, size / UNIT_SIZE);
            let report = PublicationReport { before: target.word, after: new, sequence, units, is_taken_back: false };
            Attempt { sequence, commit_tag, position, new, report, rkey: grant.rkey }
        })
    }

    /// Publishes the record, or makes it void.
    async fn conclude(&self, attempt: Attempt, target: Target) -> Result<Option<u64>, StoreError> {
        let Attempt { sequence, commit_tag, position, new, report, rkey } = attempt;
        let (report_at, bytes, record, index_rkey) = self.rights(|rights| {
            rights.reported += 1;
            let (at, bytes) = (rights.ring(report_offset(rights.reported)), report.encode(rights.reported));
            (at, bytes, std::mem::take(&mut rights.record), rights.grant.index_rkey)
        });
        let log = self.access.get().log_address;
        let place = |position| RemoteAddress { address: log + position, rkey: Rkey(rkey) };
        let mut word = self.index_address(target.bucket);
        word.address += target.slot * 8;
        word.rkey = Rkey(index_rkey);
        let mut found = 0;
        let changes = &mut [
            ChangeNow::Write { remote: report_at, from: &bytes },
            ChangeNow::Write { remote: place(position), from: &record },
            ChangeNow::CompareAndSwap { remote: word, expected: target.word.0, swap: new.0, found: &mut found },
        ];
        let done = self.change(changes).await;
        self.rights(|rights| rights.record = record);
        if !done? {
            return Err(StoreError::Disconnected { unknown: true });
        }
        if found == target.word.0 || mutant!(LostSwapBelieved) {
            self.latest.set(self.latest.get().max(sequence));
            return Ok(Some(sequence));
        }
        // Somebody else was faster. What has its sequence already must not count beside what came in between.
        let report = PublicationReport { is_taken_back: true, ..report };
        let (report_at, bytes) = self.rights(|rights| {
            rights.reported += 1;
            (rights.ring(report_offset(rights.reported)), report.encode(rights.reported))
        });
        let void = void_tag(commit_tag).to_le_bytes();
        let changes = &mut [
            ChangeNow::Write { remote: place(commit_tag_position(position)), from: &void },
            ChangeNow::Write { remote: report_at, from: &bytes },
        ];
        if !self.change(changes).await? {
            return Err(StoreError::Disconnected { unknown: true });
        }
        Ok(None)
    }

    /// Changes memory of the server with one doorbell. False: the connection is over by now.
    async fn change(&self, changes: &mut [ChangeNow<'_>]) -> Result<bool, StoreError> {
        self.meter.note_round_trip();
        let region = self.rights(|rights| rights.scratch);
        let scratch = LocalSpan { region, offset: 0, size: SCRATCH_SIZE as u32 };
        if self.port.change(self.qp, changes, scratch).await? == Status::Success {
            return Ok(true);
        }
        self.end();
        Ok(false)
    }

    /// Gives up the extent that this client publishes in, for its return. Called with nothing under way.
    pub(super) fn take_published_extent(&self) -> Option<u8> {
        match &mut *self.publishing.borrow_mut() {
            Publishing::Granted(rights) => rights.extent.take().map(|extent| extent.grant.slot),
            _ => None,
        }
    }

    fn rights<T>(&self, look: impl FnOnce(&mut Rights) -> T) -> T {
        match &mut *self.publishing.borrow_mut() {
            Publishing::Granted(rights) => look(rights),
            _ => panic!("who publishes has the rights until its turn is over"),
        }
    }
}

impl Rights {
    fn counter(&self) -> RemoteAddress {
        RemoteAddress { address: self.grant.counter_address, rkey: Rkey(self.grant.counter_rkey) }
    }

    fn ring(&self, offset: u64) -> RemoteAddress {
        RemoteAddress { address: self.grant.ring_address + offset, rkey: Rkey(self.grant.ring_rkey) }
    }
}
