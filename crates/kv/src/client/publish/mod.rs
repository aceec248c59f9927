//! Overwriting a key without the server: what a trusted client does where the server lets it. Why this is sound:
//! `docs/design/0022`.
//!
//! ```text
//!   READ bucket, record -> FETCH_ADD counter -> WRITE report, WRITE record with stamp, CAS word     done
//!                                                                                   '-> lost: WRITE void, through the server
//! ```
//!
//! Where the provider does all of that in the call, the ordinary put is [`at_once`], and this is what it leaves over. What
//! this client may do, and where it writes: [`rights`].
//!
//! One put at a time, in its turn: so records are stamped in the order of their sequences, and puts of one client are committed
//! in the order of asking. What is stamped is either published or made void before anything else is sent, also where the future
//! that began it is dropped: that part is a task of its own.
//!
//! A put that is out of the ordinary is left to the server, with nothing done.

mod at_once;
mod rights;

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use stonecast_base::{LINE_SIZE, mutant};
use stonecast_fabric::{ChangeNow, LocalSpan, RemoteAddress, Status};
use stonecast_log::{
    Condition, Draft, LogFormat, RECORD_START_SIZE, RecordHeader, commit_tag_position, record_size,
    void_tag,
};

use super::Inner;
use crate::error::StoreError;
use crate::index::{GENERATIONS, Judged, LookUp, LookUpStep, Wanted, first_read_size};
use crate::wire::intent::{PublicationReport, REPORT_BYTES, SEQUENCE_MAX};
use crate::wire::{KeyHash, Word};

pub(super) use rights::Publishing;
use rights::{Rights, SCRATCH_SIZE};

/// The longest record that is published: what one READ of its reader brings.
const PUBLISHED_SIZE_MAX: u64 = 64 * LINE_SIZE as u64;
/// Buckets that are looked through; nearly all keys are in their first or second.
const BUCKETS_MAX: u64 = 8;
/// Bytes from the start of a record that hold a key of `key_size` bytes.
const fn start_size(key_size: usize) -> usize {
    let size = record_size(key_size, 0) as usize;
    assert!(size >= RECORD_START_SIZE);
    size
}

/// The key's word, as it was found.
struct Target {
    /// Number of the index.
    table: u32,
    bucket: u64,
    slot: u64,
    word: Word,
    /// Bytes that the record takes.
    size: u64,
}

/// What is about to be published. The record lies with the rights.
struct Attempt {
    sequence: u64,
    commit_tag: u64,
    /// Where the record will be.
    record_at: RemoteAddress,
    /// Where the word is.
    word_at: RemoteAddress,
    /// Says both words.
    report: PublicationReport,
    report_number: u64,
    report_at: RemoteAddress,
}

impl Inner {
    /// Publishes `draft`, if that is a plain overwrite of a key; its version then. `None`: nothing was done, the server has to do
    /// it. Called in the turn of this put.
    pub(super) async fn publish(
        self: &Rc<Self>,
        draft: &Draft<'_>,
    ) -> Result<Option<u64>, StoreError> {
        let size = record_size(draft.key.len(), draft.value.len());
        if matches!(*self.publishing.borrow(), Publishing::Never)
            || draft.condition != Condition::None
            || draft.token != 0
            || size > PUBLISHED_SIZE_MAX
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
        let Some(mut target) = found else {
            return Ok(None);
        };
        if !self.prepare_publishing(size).await? || !self.is_of_present_index(&target) {
            return Ok(None);
        }
        let mut sequence = 0;
        let counter = self.rights(|rights| rights.counter());
        if !self
            .change(&mut [ChangeNow::FetchAndAdd {
                remote: counter,
                add: 1,
                found: &mut sequence,
            }])
            .await?
        {
            return Ok(None);
        }
        if mutant!(SequenceBeforeRead) {
            let again = self
                .find_target(hash, draft.key)
                .await?
                .filter(|target| self.is_of_present_index(target));
            let Some(again) = again else { return Ok(None) };
            target = again;
        }
        if sequence == 0 || sequence > SEQUENCE_MAX {
            return Err(StoreError::Protocol {
                what: "the server's counter of sequences says what it cannot",
            });
        }
        let attempt = self.rights(|rights| {
            let attempt = rights.stamp_next(self, draft, hash, &target, sequence);
            rights.note_stamped(&attempt);
            attempt
        });
        // What was stamped is concluded also where this future is dropped, and before the next put.
        self.beside(async move |inner: &Rc<Self>| inner.conclude(attempt).await)
            .await
    }

    /// Does `work` in a task of its own, which ends it also where the future that is returned is dropped. Puts asked for later
    /// wait for it.
    fn beside<T: 'static>(
        self: &Rc<Self>,
        work: impl AsyncFnOnce(&Rc<Self>) -> T + 'static,
    ) -> impl Future<Output = T> {
        self.pending.borrow_mut().begin_conclusion();
        self.in_task(async move |inner: &Rc<Self>| {
            let outcome = work(inner).await;
            inner.pending.borrow_mut().end_conclusion();
            outcome
        })
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

    /// The word of `key`, if nobody claims it and it is of a record that clients overwrite.
    async fn find_target(
        self: &Rc<Self>,
        hash: KeyHash,
        key: &[u8],
    ) -> Result<Option<Target>, StoreError> {
        let mut start = Vec::new();
        loop {
            let access = self.access.get();
            let wanted = Overwritable::new(&self.format, key);
            let mut look_up = LookUp::new(wanted, hash, access.index_bits).within(BUCKETS_MAX);
            let first = LookUpStep::Bucket(look_up.home());
            match self.drive(&access, &mut look_up, first, &mut start).await? {
                LookUpStep::Moved => self.adopt_index(access.table).await?,
                LookUpStep::Found(Some(size)) if self.access.get().table == access.table => {
                    return Ok(Some(Target::new(access.table, &look_up, size)));
                }
                _ => return Ok(None),
            }
        }
    }

    /// Whether a word was found in the index that is current and that this client has rights for.
    fn is_of_present_index(&self, target: &Target) -> bool {
        self.access.get().table == target.table
            && self.rights(|rights| rights.grant.table == target.table)
    }

    /// Publishes the record, or makes it void.
    async fn conclude(self: &Rc<Self>, attempt: Attempt) -> Result<Option<u64>, StoreError> {
        let record = self.rights(|rights| std::mem::take(&mut rights.record));
        let report = attempt.report.encode(attempt.report_number);
        let mut found = 0;
        let done = self
            .change(&mut attempt.changes(&record, &report, &mut found))
            .await;
        self.rights(|rights| rights.record = record);
        if !done? {
            return Err(StoreError::Disconnected { unknown: true });
        }
        if attempt.has_won(found) || mutant!(LostSwapBelieved) {
            self.latest.set(self.latest.get().max(attempt.sequence));
            return Ok(Some(attempt.sequence));
        }
        let place = self.rights(|rights| rights.next_report());
        self.take_back(&attempt, place).await.map(|()| None)
    }

    /// Makes a record void whose publication was lost to somebody who was faster, and reports that: what has its sequence already
    /// must not count beside what came in between.
    async fn take_back(
        &self,
        attempt: &Attempt,
        (number, report_at): (u64, RemoteAddress),
    ) -> Result<(), StoreError> {
        let (void, report) = attempt.taken_back(number);
        match self
            .change(&mut attempt.taking_back(&void, report_at, &report))
            .await?
        {
            true => Ok(()),
            false => Err(StoreError::Disconnected { unknown: true }),
        }
    }

    /// Changes memory of the server with one doorbell. False: the connection is over by now.
    async fn change(&self, changes: &mut [ChangeNow<'_>]) -> Result<bool, StoreError> {
        self.meter.note_round_trip();
        let region = self.rights(|rights| rights.scratch);
        let scratch = LocalSpan {
            region,
            offset: 0,
            size: SCRATCH_SIZE as u32,
        };
        if self.port.change(self.qp, changes, scratch).await? == Status::Success {
            return Ok(true);
        }
        self.end();
        Ok(false)
    }

    fn rights<T>(&self, look: impl FnOnce(&mut Rights) -> T) -> T {
        match &mut *self.publishing.borrow_mut() {
            Publishing::Granted(rights) => look(rights),
            _ => panic!("who publishes has the rights until its turn is over"),
        }
    }
}

impl Attempt {
    /// The changes that publish `record`, in their order; `found` is the word that the last one finds.
    fn changes<'a>(
        &self,
        record: &'a [u8],
        report: &'a [u8],
        found: &'a mut u64,
    ) -> [ChangeNow<'a>; 3] {
        let PublicationReport { before, after, .. } = self.report;
        [
            ChangeNow::Write {
                remote: self.report_at,
                from: report,
            },
            ChangeNow::Write {
                remote: self.record_at,
                from: record,
            },
            ChangeNow::CompareAndSwap {
                remote: self.word_at,
                expected: before.0,
                swap: after.0,
                found,
            },
        ]
    }

    fn has_won(&self, found: u64) -> bool {
        found == self.report.before.0
    }

    /// The commit tag of the record once it is void, and report `number`, which says so.
    fn taken_back(&self, number: u64) -> ([u8; 8], [u8; REPORT_BYTES]) {
        let report = PublicationReport {
            is_taken_back: true,
            ..self.report
        };
        (
            void_tag(self.commit_tag).to_le_bytes(),
            report.encode(number),
        )
    }

    /// The changes that take the record back.
    fn taking_back<'a>(
        &self,
        void: &'a [u8],
        report_at: RemoteAddress,
        report: &'a [u8],
    ) -> [ChangeNow<'a>; 2] {
        let commit_tag_at = RemoteAddress {
            address: commit_tag_position(self.record_at.address),
            ..self.record_at
        };
        [
            ChangeNow::Write {
                remote: commit_tag_at,
                from: void,
            },
            ChangeNow::Write {
                remote: report_at,
                from: report,
            },
        ]
    }
}

/// A record of `key` that clients may replace: `Some` with the bytes that it takes. `None`: the server has to look.
struct Overwritable<'a> {
    format: &'a LogFormat,
    key: &'a [u8],
    /// Bytes from the start of a record that hold the key.
    start: usize,
}

impl<'a> Overwritable<'a> {
    #[inline(always)]
    fn new(format: &'a LogFormat, key: &'a [u8]) -> Self {
        let start = start_size(key.len());
        Self { format, key, start }
    }
}

impl Wanted for Overwritable<'_> {
    type Found = Option<u64>;

    #[inline(always)]
    fn read_size(&self, word: Word) -> Option<usize> {
        (!word.is_long()).then(|| first_read_size(self.format, word).min(self.start))
    }

    #[inline(always)]
    fn judge(&self, word: Word, start: &[u8]) -> Judged<Option<u64>> {
        let Some(header) = start
            .first_chunk()
            .and_then(|line| RecordHeader::parse(line).ok())
        else {
            return Judged::Found(None);
        };
        let is_keys = header.key_size() == self.key.len()
            && start
                .get(header.key_start()..)
                .is_some_and(|rest| rest.starts_with(self.key));
        if !is_keys {
            return Judged::OtherKey;
        }
        // Somebody claims a word that is of another class. Where generations have come round a word may come back.
        let is_plain = word == word.natural(header.size()) && header.generation() < GENERATIONS;
        Judged::Found(is_plain.then(|| header.size()))
    }
}

impl Target {
    /// What `look_up` has found in the index of this number: a record of `size` bytes.
    #[inline(always)]
    fn new(table: u32, look_up: &LookUp<Overwritable<'_>>, size: u64) -> Self {
        let (bucket, slot) = look_up.place();
        Self {
            table,
            bucket,
            slot,
            word: look_up.word(),
            size,
        }
    }
}
