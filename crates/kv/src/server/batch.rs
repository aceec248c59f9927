//! One batch: everything that arrived, decided in order, made durable at once, published, answered.
//!
//! ```text
//!   gather    copy and check each record             nothing changed
//!   decide    conditions, room, stamp                stamped in the log, not durable, invisible
//!   persist   once for all                           durable, invisible
//!   publish   index words                            visible
//!   answer    in the order of arrival
//! ```
//!
//! While a sync of a file is waited for to be worth its time, what arrives is decided as it comes; when it is done, the
//! first operations are published and answered before the rest, so that their clients send while the server works.
//!
//! A crash before `persist` is done leaves records that nobody was told of; recovery keeps those that are whole. A crash
//! after it leaves records that recovery finds.
//!
//! Records are checked and decided on a copy: memory that a client can still write is read once.

use stonecast_base::{Span, mutant};
use stonecast_fabric::{Opcode, QueuePair, ReceiveQueue, ReceiveRequest, Received, Status};
use stonecast_log::{
    Condition, KEY_SIZE_MAX, Kind, Record, RecordHeader, SEGMENT_HEADER_UNITS, STAMP_SIZE,
    UNIT_SIZE, VALUE_SIZE_MAX, check, record_size,
};
use stonecast_media::{MediaError, Region};
use stonecast_persist::Persisted;

use super::receives::Receives;
use super::{Server, State};
use crate::error::StoreError;
use crate::metrics::{ClientPath, Report};
use crate::server::outcomes::Outcome;
use crate::wire::limits::{BATCH_BYTES_MAX, BATCH_MAX, STAGING_SIZE};
use crate::wire::staging::staging_position;
use crate::wire::{Answer, Request, Verdict, split_immediate};
use crate::wire::{KeyHash, Word};

/// Buffers of a batch, reused from one to the next.
#[derive(Default)]
pub(super) struct Batch {
    arrivals: Vec<Received>,
    items: Vec<Item>,
    pub writes: Vec<Write>,
    /// How many of `writes` are decided.
    pub decided: usize,
    /// Keys that what is decided adds to the index, those that it takes out subtracted; at most, while there is room for all.
    pub inserted: i64,
    /// Copies of the arrived records, and keys of deletes.
    pub bytes: Vec<u8>,
    pub record: Vec<u8>,
    pub spans: Vec<Span>,
    /// Shared receive buffers that are free and not posted, also from one batch to the next.
    reposts: Vec<ReceiveRequest>,
}

/// What a client is owed, in the order of its requests.
struct Item {
    qp: QueuePair,
    path: ClientPath,
    what: What,
}

enum What {
    Write(usize),
    Answer(Answer),
    Release(u8),
    /// Asked of the writes before it: token, and the latest version that the client knew.
    Outcome(u64, u64),
}

/// A put or delete on its way.
pub(super) struct Write {
    pub source: Source,
    pub kind: Kind,
    pub condition: Condition,
    pub token: u64,
    pub hash: KeyHash,
    /// Key and value in `Batch::bytes`.
    pub key: (usize, usize),
    pub value: (usize, usize),
    pub verdict: Verdict,
    /// The new version if done, the present one after a conflict.
    pub version: u64,
    /// Where the record is, once stamped.
    pub word: Word,
    pub segment: u32,
    /// The word before, where this write keeps clients that publish off it.
    pub claimed: Option<Word>,
}

/// Where the record comes from.
pub(super) enum Source {
    /// It lies in the log already.
    Placed(Placed),
    /// The server has to write it.
    Copied,
}

/// A record that lies in the log, whole and not stamped.
#[derive(Clone, Copy)]
pub(super) struct Placed {
    pub segment: u32,
    pub unit: u32,
    pub generation: u32,
    /// Bytes that it takes of the log.
    pub size: u64,
    /// Bytes of it up to the end of its value.
    pub whole_size: u64,
    pub tag: u64,
}

/// What is done with a batch when its persist has ended: both, but for mutants.
#[derive(Clone, Copy)]
struct Conclusion {
    publishes: bool,
    answers: bool,
}

/// What is known of a batch when its persist has ended.
#[derive(Clone, Copy)]
enum Durable<'a> {
    /// All that was stamped is durable.
    Proven(&'a Persisted),
    /// Nothing was stamped, so no write is done.
    NothingStamped,
    /// The medium failed, and nobody knows what of the batch is durable.
    Failed,
}

/// How long arrivals may pause before a batch is taken for complete.
const QUIET_NS: u64 = 6_000;
/// The same once as many have arrived as before: a client sends one in less.
const QUIET_AFTER_ALL_NS: u64 = 1_500;
/// Bytes of a record that are asked for before it is read; of a longer one the rest follows by itself.
const PREFETCHED_MAX: u64 = 1024;
/// Receive buffers that are posted again with one doorbell: a small part of all.
const REPOSTED_TOGETHER: usize = 64;
/// Length of one look while waiting for company.
const LOOK_NS: u64 = 500;
/// Operations that are published and answered before those that follow them: their clients go on meanwhile.
const ANSWERED_TOGETHER: usize = 32;

impl Server {
    /// Serves what has arrived. See the module documentation.
    pub(super) async fn serve_batch(&self, batch: &mut Batch) -> Result<(), StoreError> {
        batch.clear();
        self.take_buffers_back(&mut batch.reposts);
        self.gather(batch);
        if batch.items.is_empty() {
            return self.finish_batch(batch);
        }
        self.decide(batch).await;
        if self.syncs_files() && !batch.spans.is_empty() {
            self.wait_for_company(batch).await;
        }
        if mutant!(PublishBeforeDurable) || mutant!(AnswerBeforeDurable) {
            let unproven = self
                .commit
                .persist(&*self.log, &[])
                .await
                .map_err(MediaError::from)?;
            let early = Conclusion {
                publishes: mutant!(PublishBeforeDurable),
                answers: mutant!(AnswerBeforeDurable),
            };
            self.conclude(batch, Durable::Proven(&unproven), early);
        }
        let outcome = self.persist_batch(batch).await;
        if outcome.is_err() {
            // Refusals too may rest on writes of this batch that are not durable now.
            batch
                .writes
                .iter_mut()
                .for_each(|write| write.verdict = Verdict::Failed);
        }
        let all = Conclusion {
            publishes: !mutant!(PublishBeforeDurable),
            answers: !mutant!(AnswerBeforeDurable),
        };
        let durable = match &outcome {
            Ok(Some(persisted)) => Durable::Proven(persisted),
            Ok(None) => Durable::NothingStamped,
            Err(_) => Durable::Failed,
        };
        self.conclude(batch, durable, all);
        self.state.borrow_mut().counters.batches += 1;
        self.finish_batch(batch)?;
        outcome.map(drop)
    }

    /// Publishes and answers, in the order of arrival.
    fn conclude(&self, batch: &mut Batch, durable: Durable<'_>, conclusion: Conclusion) {
        let mut published = 0;
        let items = std::mem::take(&mut batch.items);
        for group in items.chunks(ANSWERED_TOGETHER) {
            let writes = group
                .iter()
                .filter(|item| matches!(item.what, What::Write(_)))
                .count();
            if let (true, Durable::Proven(persisted)) = (conclusion.publishes, durable) {
                self.publish(batch, published..published + writes, persisted);
            }
            published += writes;
            if conclusion.answers {
                group
                    .iter()
                    .for_each(|item| self.settle(batch, item, durable));
                self.state.borrow_mut().sessions.send_answers(&self.port);
            }
        }
        batch.items = items;
    }

    /// Queues what a client is owed.
    fn settle(&self, batch: &Batch, item: &Item, durable: Durable<'_>) {
        let verdict = |verdict, version| Answer::Verdict { verdict, version };
        let answer = match item.what {
            What::Write(index) => {
                let write = &batch.writes[index];
                assert!(
                    matches!(durable, Durable::Proven(_)) || write.verdict != Verdict::Done,
                    "what is acknowledged was persisted"
                );
                self.count_by_path(item.path, write);
                match (write.verdict, &write.source) {
                    (Verdict::Done, Source::Placed(placed)) => {
                        verdict(self.verdict_on_done(item.qp, placed.segment), write.version)
                    }
                    (other, _) => verdict(other, write.version),
                }
            }
            What::Answer(answer) => answer,
            What::Release(slot) => {
                self.release(item.qp, slot);
                verdict(Verdict::Done, 0)
            }
            What::Outcome(..) if matches!(durable, Durable::Failed) => verdict(Verdict::Failed, 0),
            What::Outcome(token, since) => match self.state.borrow().outcomes.find(token, since) {
                Outcome::Done(version) => verdict(Verdict::Done, version),
                Outcome::NotDone => verdict(Verdict::NotDone, 0),
                Outcome::Forgotten => verdict(Verdict::Forgotten, 0),
            },
        };
        let sessions = &mut self.state.borrow_mut().sessions;
        sessions.answer(&self.port, item.qp, &answer);
    }

    /// Sends the answers, reposts receive buffers when there are enough for a doorbell, ends clients that do not take theirs.
    fn finish_batch(&self, batch: &mut Batch) -> Result<(), StoreError> {
        self.state.borrow_mut().sessions.send_answers(&self.port);
        if batch.reposts.len() >= REPOSTED_TOGETHER {
            self.repost(batch)?;
        }
        let stuck = self.state.borrow().sessions.stuck();
        for qp in stuck {
            self.end_session(qp);
        }
        Ok(())
    }

    /// Posts the shared receive buffers again that are free.
    pub(super) fn repost(&self, batch: &mut Batch) -> Result<(), StoreError> {
        if let Some(queue) = self.receives.shared_queue() {
            self.port
                .device()
                .post_receive(ReceiveQueue::Shared(queue), &batch.reposts)?;
        }
        batch.reposts.clear();
        Ok(())
    }

    /// Takes what has arrived. Returns whether there was anything.
    fn gather(&self, batch: &mut Batch) -> bool {
        batch.arrivals.clear();
        let mut bytes = batch.bytes.len();
        while batch.items.len() + batch.arrivals.len() < BATCH_MAX && bytes < BATCH_BYTES_MAX {
            let Some(arrival) = self.port.take_received() else {
                break;
            };
            bytes += arrival.placement.size as usize;
            if let Receives::Shared { buffers, .. } = self.receives {
                batch.reposts.push(buffers.request(arrival.wr_id));
            }
            if arrival.status == Status::Success {
                self.prefetch_record(&arrival);
                batch.arrivals.push(arrival);
            }
        }
        let arrivals = std::mem::take(&mut batch.arrivals);
        for arrival in &arrivals {
            self.take_arrival(batch, arrival);
        }
        self.repost_own(&arrivals);
        let any = !arrivals.is_empty();
        batch.arrivals = arrivals;
        any
    }

    /// What a client has just written lies in its processor's cache, or comes from far away: all records of a batch are asked
    /// for before the first one is read.
    fn prefetch_record(&self, arrival: &Received) {
        if arrival.opcode != Opcode::ReceiveWriteWithImmediate {
            return;
        }
        let (slot, unit) = split_immediate(arrival.immediate);
        let size = STAMP_SIZE as u64 + u64::from(arrival.placement.size);
        let state = self.state.borrow();
        let Some(session) = state.sessions.get(arrival.qp) else {
            return;
        };
        let prefetch = |memory: &dyn Region, position: u64| {
            if Span::new(position, size).fits(memory.size()) {
                memory.prefetch(position, size.min(PREFETCHED_MAX));
            }
        };
        match (session.staging, session.leases.get(usize::from(slot))) {
            (Some(region), _) => prefetch(
                &*self.port.device().memory(region),
                u64::from(unit) * UNIT_SIZE,
            ),
            (None, Some(lease)) => prefetch(
                &*self.log,
                self.format.position(lease.object().segment, unit),
            ),
            (None, None) => {}
        }
    }

    fn take_arrival(&self, batch: &mut Batch, arrival: &Received) {
        let qp = arrival.qp;
        let path = self
            .state
            .borrow()
            .sessions
            .get(qp)
            .map(|session| session.path);
        let Some(path) = path else { return };
        let what = match arrival.opcode {
            Opcode::ReceiveWriteWithImmediate => match self.take_record(batch, arrival) {
                Some(write) => batch.push(write),
                None => {
                    let verdict = self.verdict_on_stray(qp, split_immediate(arrival.immediate).0);
                    What::Answer(Answer::Verdict {
                        verdict,
                        version: 0,
                    })
                }
            },
            _ => self.take_message(batch, arrival, path),
        };
        batch.items.push(Item { qp, path, what });
    }

    /// Copies and checks a record that a client wrote. `None`: it broke the rules.
    fn take_record(&self, batch: &mut Batch, arrival: &Received) -> Option<Write> {
        let state = &mut *self.state.borrow_mut();
        let session = state.sessions.get(arrival.qp)?;
        let (slot, unit) = split_immediate(arrival.immediate);
        // The client writes what lies behind the place of the stamp.
        let size = STAMP_SIZE as u64 + u64::from(arrival.placement.size);
        if size > record_size(KEY_SIZE_MAX, VALUE_SIZE_MAX) {
            return None;
        }
        let staged = session
            .staging
            .map(|region| self.port.device().memory(region));
        let (position, generation, segment, memory): (_, _, _, &dyn Region) = match &staged {
            Some(memory) => {
                let fits = Span::new(u64::from(unit) * UNIT_SIZE, size).fits(STAGING_SIZE);
                (fits.then(|| staging_position(unit))?, 0, None, &**memory)
            }
            None => {
                let lease = session.leases.get(usize::from(slot))?;
                let extent = Some(lease.object()).filter(|extent| !extent.publishes)?;
                let end = u64::from(unit).checked_add(size.div_ceil(UNIT_SIZE))?;
                // Below the segment's end lie published records: nobody may write there any more.
                let segment = state.space.state(extent.segment);
                let allowed = unit >= segment.end && end <= self.format.segment_size / UNIT_SIZE;
                let generation = segment.generation;
                let position = self.format.position(extent.segment, unit);
                (
                    allowed.then_some(position)?,
                    generation,
                    Some(extent.segment),
                    &*self.log,
                )
            }
        };
        let start = batch.bytes.len();
        batch.bytes.resize(start + size as usize, 0);
        let offset = if staged.is_some() {
            u64::from(unit) * UNIT_SIZE
        } else {
            position
        };
        memory.read(
            offset + STAMP_SIZE as u64,
            &mut batch.bytes[start + STAMP_SIZE..],
        );
        let record = match mutant!(TagNotCheckedByServer) {
            true => unchecked(&batch.bytes[start..]),
            false => check(
                &self.format,
                position,
                (generation, self.pool.opening()),
                &batch.bytes[start..],
            )
            .ok(),
        };
        // A record takes the units that its longest form would need, which may be more than what was written. One that the
        // server places begins behind the header of a segment at the earliest.
        let start_max = match segment {
            Some(_) => position % self.format.segment_size,
            None => u64::from(SEGMENT_HEADER_UNITS) * UNIT_SIZE,
        };
        let fits = |header: &RecordHeader| {
            start_max + header.size() <= self.format.segment_size || mutant!(LongRecordTaken)
        };
        // Nor is a put what says that it was moved: the server alone moves, and its order in the segment hangs on when it says it was.
        let is_put =
            |header: &RecordHeader| header.kind() == Kind::Put && header.moved_at().is_none();
        let allowed =
            |header: &RecordHeader| header.whole_size() == size && fits(header) && is_put(header);
        let Some(record) = record.filter(|record| allowed(&record.header)) else {
            batch.bytes.truncate(start);
            return None;
        };
        let key_start = start + record.header.key_start();
        let value_start = key_start + record.key.len();
        let source = match segment {
            Some(segment) => Source::Placed(Placed {
                segment,
                unit,
                generation,
                size: record.header.size(),
                whole_size: size,
                tag: record.header.tag(),
            }),
            None => Source::Copied,
        };
        Some(Write {
            source,
            kind: Kind::Put,
            condition: record.header.condition(),
            token: record.header.token(),
            hash: KeyHash::of(self.format.tag_key, record.key),
            key: (key_start, value_start),
            value: (value_start, value_start + record.value.len()),
            verdict: Verdict::Done,
            version: 0,
            word: Word::EMPTY,
            segment: 0,
            claimed: None,
        })
    }

    fn take_message(&self, batch: &mut Batch, arrival: &Received, path: ClientPath) -> What {
        let invalid = What::Answer(Answer::Verdict {
            verdict: Verdict::Invalid,
            version: 0,
        });
        let Some(buffers) = self.receive_buffers(arrival.qp) else {
            return invalid;
        };
        buffers.copy_out(&**self.port.device(), arrival, &mut batch.record);
        match Request::parse(&batch.record) {
            Some(Request::Lease { size, publishes }) => {
                What::Answer(self.grant_lease(arrival.qp, size, publishes))
            }
            Some(Request::Publish) => What::Answer(self.grant_rights(arrival.qp)),
            Some(Request::Release(release)) => What::Release(release.slot),
            Some(Request::Stat { page }) => What::Answer(Answer::Stat(self.metrics().page(page))),
            Some(Request::Report(bytes)) => match Report::parse(bytes) {
                Some(report) => {
                    self.state.borrow_mut().paths[path as usize].take_report(&report);
                    What::Answer(Answer::Verdict {
                        verdict: Verdict::Done,
                        version: 0,
                    })
                }
                None => invalid,
            },
            Some(Request::Access) => What::Answer(self.grant_access(arrival.qp)),
            Some(Request::LeaveIndex { table }) => {
                self.leave_index(arrival.qp, table);
                What::Answer(Answer::Verdict {
                    verdict: Verdict::Done,
                    version: 0,
                })
            }
            Some(Request::Outcome {
                token,
                since,
                session,
            }) => {
                // What the first attempt sent and is not among the writes before this is lost with its connection.
                self.end_session_called(session, arrival.qp);
                What::Outcome(token, since)
            }
            Some(Request::Delete {
                condition,
                token,
                key,
            }) if (1..=KEY_SIZE_MAX).contains(&key.len()) => {
                let start = batch.bytes.len();
                batch.bytes.extend_from_slice(key);
                let end = batch.bytes.len();
                let write = Write {
                    source: Source::Copied,
                    kind: Kind::Delete,
                    condition,
                    token,
                    hash: KeyHash::of(self.format.tag_key, key),
                    key: (start, end),
                    value: (end, end),
                    verdict: Verdict::Done,
                    version: 0,
                    word: Word::EMPTY,
                    segment: 0,
                    claimed: None,
                };
                batch.push(write)
            }
            _ => invalid,
        }
    }

    /// Before a sync that many will share: waits while others keep arriving, at most as long as the sync takes. Clients that
    /// keep a number of writes in flight send the next ones when they have their answers; whoever comes too late for this
    /// sync waits for two. That as many have come as last time is no sign that these were all: else a pipeline that was once
    /// cut in two would be so for ever.
    async fn wait_for_company(&self, batch: &mut Batch) {
        let (expected, persist_ns) = {
            let state = self.state.borrow();
            (state.last_batch, state.persist_ns)
        };
        let start = self.runtime.now();
        let mut quiet_since = start;
        while batch.items.len() < BATCH_MAX && self.is_roomy(batch) {
            let now = self.runtime.now();
            let quiet_ns = if batch.items.len() < expected {
                QUIET_NS
            } else {
                QUIET_AFTER_ALL_NS
            };
            if now - start > persist_ns || now - quiet_since > quiet_ns {
                break;
            }
            self.runtime.sleep(LOOK_NS).await;
            if self.gather(batch) {
                self.decide(batch).await;
                quiet_since = self.runtime.now();
            }
        }
    }
}

impl Server {
    /// Counts what was done under the path that its client came by.
    fn count_by_path(&self, path: ClientPath, write: &Write) {
        let Write {
            verdict,
            kind,
            key,
            value,
            ..
        } = write;
        let State {
            paths, counters, ..
        } = &mut *self.state.borrow_mut();
        let path = &mut paths[path as usize];
        match (verdict, kind) {
            (Verdict::Done, Kind::Put) => path.puts += 1,
            (Verdict::Done, Kind::Delete) => path.deletes += 1,
            // One that has to be asked for again is not decided.
            (Verdict::Busy, _) => {}
            _ => {
                path.refused += 1;
                counters.refused += 1;
            }
        }
        if *verdict == Verdict::Done {
            path.written_bytes += record_size(key.1 - key.0, value.1 - value.0);
        }
    }
}

/// A record that nobody checked beyond what it takes to read it: for a mutant.
fn unchecked(bytes: &[u8]) -> Option<Record<'_>> {
    let header = RecordHeader::parse(bytes.first_chunk()?).ok()?;
    let value = header.key_start() + header.key_size();
    let key = bytes.get(header.key_start()..value)?;
    Some(Record {
        header,
        key,
        value: bytes.get(value..value + header.value_size())?,
    })
}

impl Batch {
    fn clear(&mut self) {
        self.items.clear();
        self.writes.clear();
        self.decided = 0;
        self.inserted = 0;
        self.bytes.clear();
        self.spans.clear();
    }

    /// Operations in it.
    pub fn operations(&self) -> usize {
        self.items.len()
    }

    fn push(&mut self, write: Write) -> What {
        self.writes.push(write);
        What::Write(self.writes.len() - 1)
    }
}
