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
//! A crash before `persist` is done leaves records that nobody was told of; recovery keeps those that are whole. A crash
//! after it leaves records that recovery finds.
//!
//! Records are checked and decided on a copy: memory that a client can still write is read once.

use stonecast_base::{Span, mutant};
use stonecast_fabric::{Opcode, QueuePair, ReceiveQueue, ReceiveRequest, Received, Status};
use stonecast_log::{
    Condition, Draft, KEY_SIZE_MAX, Kind, RECORD_HEADER_SIZE, Record, RecordHeader, Stamp, UNIT_SIZE, VALUE_SIZE_MAX, check,
    record_size,
};
use stonecast_media::{MediaError, Region};
use stonecast_persist::Persisted;

use super::{Server, State};
use crate::error::StoreError;
use crate::limits::{BATCH_BYTES_MAX, BATCH_MAX, STAGING_SIZE};
use crate::metrics::{ClientPath, Report};
use crate::protocol::{Answer, Request, Verdict, split_immediate};
use crate::rebuild::resident;
use crate::space::{Purpose, Taken};
use crate::staging::staging_position;
use crate::word::{KeyHash, Word};

/// Buffers of a batch, reused from one to the next.
#[derive(Default)]
pub(super) struct Batch {
    arrivals: Vec<Received>,
    items: Vec<Item>,
    writes: Vec<Write>,
    /// Copies of the arrived records, and keys of deletes.
    bytes: Vec<u8>,
    record: Vec<u8>,
    spans: Vec<Span>,
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
}

/// A put or delete on its way.
struct Write {
    source: Source,
    kind: Kind,
    condition: Condition,
    token: u64,
    hash: KeyHash,
    /// Key and value in `Batch::bytes`.
    key: (usize, usize),
    value: (usize, usize),
    verdict: Verdict,
    /// The new version if done, the present one after a conflict.
    version: u64,
    /// Where the record is, once stamped.
    word: Word,
    segment: u32,
}

/// Where the record comes from.
enum Source {
    /// It lies in the log already.
    Placed { segment: u32, unit: u32, generation: u32, size: u64, tag: u64 },
    /// The server has to write it.
    Copied,
}

/// How long arrivals may pause before a batch is taken for complete.
const QUIET_NS: u64 = 6_000;
/// Length of one look while waiting for company.
const LOOK_NS: u64 = 2_000;
/// Longest wait for company, as a share of what a persist takes: the wait must cost less than it saves.
const WAIT_SHARE: u64 = 3;

impl Server {
    /// Serves what has arrived. See the module documentation.
    pub(super) async fn serve_batch(&self, batch: &mut Batch) -> Result<(), StoreError> {
        batch.clear();
        self.gather(batch);
        if batch.items.is_empty() {
            return self.finish_batch(batch);
        }
        if self.syncs_files() {
            self.wait_for_company(batch).await;
        }
        self.decide(batch)?;
        if mutant!(PublishBeforeDurable) {
            let unproven = self.commit.persist(&*self.log, &[]).await.map_err(MediaError::from)?;
            self.publish(batch, Some(&unproven));
        }
        if mutant!(AnswerBeforeDurable) {
            let unproven = self.commit.persist(&*self.log, &[]).await.map_err(MediaError::from)?;
            self.answer_items(batch, Some(&unproven));
            self.send_all_answers();
        }
        let outcome = self.persist_batch(batch).await;
        match &outcome {
            Ok(_) if mutant!(PublishBeforeDurable) => {}
            Ok(persisted) => {
                self.publish(batch, persisted.as_ref());
                self.count_by_path(batch);
            }
            // Refusals too may rest on writes of this batch that are not durable now.
            Err(_) => batch.writes.iter_mut().for_each(|write| write.verdict = Verdict::Failed),
        }
        self.answer_items(batch, outcome.as_ref().ok().and_then(Option::as_ref));
        self.finish_batch(batch)?;
        outcome.map(drop)
    }

    /// Queues what clients are owed, in the order of their requests. Takes the proof that what is done is durable.
    fn answer_items(&self, batch: &mut Batch, persisted: Option<&Persisted>) {
        for item in std::mem::take(&mut batch.items) {
            match item.what {
                What::Write(index) => {
                    let Write { verdict, version, .. } = batch.writes[index];
                    let proven = persisted.is_some() || mutant!(TombstoneLeftOut);
                    assert!(proven || verdict != Verdict::Done, "what is acknowledged was persisted");
                    self.answer(item.qp, &Answer::Verdict { verdict, version });
                }
                What::Answer(answer) => self.answer(item.qp, &answer),
                What::Release(slot) => {
                    self.release(item.qp, slot);
                    self.answer(item.qp, &Answer::Verdict { verdict: Verdict::Done, version: 0 });
                }
            }
        }
    }

    /// Reposts the receive buffers, sends the answers, ends clients that do not take theirs.
    fn finish_batch(&self, batch: &mut Batch) -> Result<(), StoreError> {
        self.port.device().post_receive(ReceiveQueue::Shared(self.srq), &batch.reposts)?;
        for qp in self.send_all_answers() {
            self.end_session(qp);
        }
        Ok(())
    }

    /// Takes what has arrived. Returns whether there was anything.
    fn gather(&self, batch: &mut Batch) -> bool {
        batch.arrivals.clear();
        let mut bytes = batch.bytes.len();
        while batch.items.len() + batch.arrivals.len() < BATCH_MAX && bytes < BATCH_BYTES_MAX {
            let Some(arrival) = self.port.take_received() else { break };
            bytes += arrival.placement.size as usize;
            batch.reposts.push(self.receive_request(arrival.wr_id));
            if arrival.status == Status::Success {
                self.prefetch_record(&arrival);
                batch.arrivals.push(arrival);
            }
        }
        let arrivals = std::mem::take(&mut batch.arrivals);
        for arrival in &arrivals {
            self.take_arrival(batch, arrival);
        }
        let any = !arrivals.is_empty();
        batch.arrivals = arrivals;
        any
    }

    fn prefetch_record(&self, arrival: &Received) {
        if arrival.opcode == Opcode::ReceiveWriteWithImmediate {
            let (slot, unit) = split_immediate(arrival.immediate);
            let state = self.state.borrow();
            let lease = state.sessions.get(&arrival.qp).and_then(|session| *session.leases.get(usize::from(slot))?);
            if let Some(lease) = lease {
                let position = state.space.position(lease.segment, unit);
                if Span::new(position, arrival.placement.size.into()).fits(self.log.size()) {
                    self.log.prefetch(position, u64::from(arrival.placement.size).min(1024));
                }
            }
        }
    }

    fn take_arrival(&self, batch: &mut Batch, arrival: &Received) {
        let qp = arrival.qp;
        let path = self.state.borrow().sessions.get(&qp).map(|session| session.path);
        let Some(path) = path else { return };
        let what = match arrival.opcode {
            Opcode::ReceiveWriteWithImmediate => match self.take_record(batch, arrival) {
                Some(write) => batch.push(write),
                None => What::Answer(Answer::Verdict { verdict: Verdict::Invalid, version: 0 }),
            },
            _ => self.take_message(batch, arrival, path),
        };
        batch.items.push(Item { qp, path, what });
    }

    /// Copies and checks a record that a client wrote. `None`: it broke the rules.
    fn take_record(&self, batch: &mut Batch, arrival: &Received) -> Option<Write> {
        let state = &mut *self.state.borrow_mut();
        let session = state.sessions.get(&arrival.qp)?;
        let (slot, unit) = split_immediate(arrival.immediate);
        let size = u64::from(arrival.placement.size);
        if size > record_size(KEY_SIZE_MAX, VALUE_SIZE_MAX) {
            return None;
        }
        let staged = session.staging.map(|region| self.port.device().memory(region));
        let (position, generation, segment, memory): (_, _, _, &dyn Region) = match &staged {
            Some(memory) => {
                let fits = Span::new(u64::from(unit) * UNIT_SIZE, size).fits(STAGING_SIZE);
                (fits.then(|| staging_position(unit))?, 0, None, &**memory)
            }
            None => {
                let lease = (*session.leases.get(usize::from(slot))?)?;
                let end = u64::from(unit).checked_add(size.div_ceil(UNIT_SIZE))?;
                // Below the segment's end lie published records: nobody may write there any more.
                let segment = state.space.state(lease.segment);
                let allowed =
                    (unit >= segment.end || mutant!(PublishedPlaceTakenAgain)) && end <= self.format.segment_size / UNIT_SIZE;
                let generation = segment.generation;
                let position = state.space.position(lease.segment, unit);
                (allowed.then_some(position)?, generation, Some(lease.segment), &*self.log)
            }
        };
        let start = batch.bytes.len();
        batch.bytes.resize(start + size as usize, 0);
        let offset = if staged.is_some() { u64::from(unit) * UNIT_SIZE } else { position };
        memory.read(offset, &mut batch.bytes[start..]);
        let record = match mutant!(TagNotCheckedByServer) {
            true => unchecked(&batch.bytes[start..]),
            false => check(&self.format, position, generation, &batch.bytes[start..]).ok(),
        };
        let of_this_run = |epoch| epoch == self.pool.epoch() || mutant!(EpochNotChecked);
        let Some(record) =
            record.filter(|r| r.header.size() == size && of_this_run(r.header.epoch()) && r.header.kind() == Kind::Put)
        else {
            batch.bytes.truncate(start);
            return None;
        };
        let key_start = start + RECORD_HEADER_SIZE;
        let value_start = key_start + record.key.len();
        let source = match segment {
            Some(segment) => Source::Placed { segment, unit, generation, size, tag: record.header.tag() },
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
        })
    }

    fn take_message(&self, batch: &mut Batch, arrival: &Received, path: ClientPath) -> What {
        let invalid = What::Answer(Answer::Verdict { verdict: Verdict::Invalid, version: 0 });
        let memory = self.port.device().memory(self.receive_region);
        let receive = self.receive_request(arrival.wr_id).local;
        let size = arrival.placement.size.min(receive.size) as usize;
        batch.record.resize(size, 0);
        memory.read(receive.offset, &mut batch.record);
        match Request::parse(&batch.record) {
            Some(Request::Lease { size }) => What::Answer(self.grant_lease(arrival.qp, size)),
            Some(Request::Release(release)) => What::Release(release.slot),
            Some(Request::Stat { page }) => What::Answer(Answer::Stat(self.metrics().page(page))),
            Some(Request::Report(bytes)) => match Report::parse(bytes) {
                Some(report) => {
                    self.state.borrow_mut().paths[path as usize].take_report(&report);
                    What::Answer(Answer::Verdict { verdict: Verdict::Done, version: 0 })
                }
                None => invalid,
            },
            Some(Request::Delete { condition, token, key }) if (1..=KEY_SIZE_MAX).contains(&key.len()) => {
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
                };
                batch.push(write)
            }
            _ => invalid,
        }
    }

    /// Before a sync that many will share: waits while others keep arriving, at most a share of what the sync takes.
    async fn wait_for_company(&self, batch: &mut Batch) {
        let (expected, persist_ns) = {
            let state = self.state.borrow();
            (state.last_batch, state.persist_ns)
        };
        let start = self.runtime.now();
        let mut quiet_since = start;
        while batch.items.len() < expected && batch.items.len() < BATCH_MAX {
            let now = self.runtime.now();
            if now - start > persist_ns / WAIT_SHARE || now - quiet_since > QUIET_NS {
                break;
            }
            self.runtime.sleep(LOOK_NS).await;
            if self.gather(batch) {
                quiet_since = self.runtime.now();
            }
        }
    }

    /// Decides each write in order and stamps those that are to be done.
    fn decide(&self, batch: &mut Batch) -> Result<(), StoreError> {
        let state = &mut *self.state.borrow_mut();
        for write in &batch.writes {
            state.index.prefetch(write.hash);
        }
        for write in &batch.writes {
            for word in state.index.candidates(write.hash) {
                self.log.prefetch(word.position(), (RECORD_HEADER_SIZE + write.key.1 - write.key.0) as u64);
            }
        }
        // While the index has room for the whole batch, an unconditional put needs no look at what is there.
        let roomy = state.index.len() + (batch.writes.len() as u64) < state.index.capacity();
        for index in 0..batch.writes.len() {
            let (earlier, rest) = batch.writes.split_at_mut(index);
            let write = &mut rest[0];
            let key = &batch.bytes[write.key.0..write.key.1];
            if write.kind == Kind::Delete || write.condition != Condition::None || !roomy {
                let present = self.present_version(state, earlier, &batch.bytes, write.hash, key, &mut batch.record);
                write.verdict = match (write.condition, present) {
                    _ if write.kind == Kind::Delete && present.is_none() => Verdict::Absent,
                    _ if mutant!(ConditionIgnored) => Verdict::Done,
                    (Condition::Version(version), Some(present)) if version == present => Verdict::Done,
                    (Condition::Version(_), _) | (Condition::Absent, Some(_)) => Verdict::Conflict,
                    _ => Verdict::Done,
                };
                write.version = present.unwrap_or(0);
                let inserts =
                    |writes: &[Write]| writes.iter().filter(|w| w.verdict == Verdict::Done && w.kind == Kind::Put).count();
                if write.verdict == Verdict::Done
                    && write.kind == Kind::Put
                    && present.is_none()
                    && state.index.len() + inserts(earlier) as u64 >= state.index.capacity()
                {
                    write.verdict = Verdict::NoSpace;
                }
                if write.verdict != Verdict::Done {
                    continue;
                }
            }
            if write.kind == Kind::Delete && mutant!(TombstoneLeftOut) {
                continue;
            }
            let value = &batch.bytes[write.value.0..write.value.1];
            let draft = Draft { kind: write.kind, condition: write.condition, token: write.token, key, value };
            let placed = match write.source {
                Source::Placed { segment, unit, generation, size, tag } => Ok((segment, unit, generation, size, tag)),
                Source::Copied => self.append(state, &draft, &mut batch.record)?,
            };
            let (number, unit, generation, size, tag) = match placed {
                Ok(placed) => placed,
                Err(verdict) => {
                    write.verdict = verdict;
                    continue;
                }
            };
            let position = state.space.position(number, unit);
            let segment = state.space.state(number);
            if mutant!(PublishedPlaceTakenAgain) {
                segment.end = segment.end.min(unit);
            }
            if unit < segment.end {
                // Two records of one batch claim the same place: the client breaks the rules.
                write.verdict = Verdict::Invalid;
                continue;
            }
            let stamp = Stamp { sequence: state.next_sequence, previous: segment.last, durable: segment.durable };
            let commit_tag = stamp.write(&*self.log, &self.format, position, generation, tag, size);
            segment.note_stamped(unit, (size / UNIT_SIZE) as u32, commit_tag);
            write.version = state.next_sequence;
            write.word = Word::new(position, generation, write.hash, size);
            write.segment = number;
            state.next_sequence += 1;
            batch.spans.push(Span::new(position, size));
        }
        Ok(())
    }

    /// The key's version if everything decided so far were published.
    fn present_version(
        &self,
        state: &State,
        earlier: &[Write],
        bytes: &[u8],
        hash: KeyHash,
        key: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Option<u64> {
        let same =
            |write: &&Write| write.verdict == Verdict::Done && write.hash == hash && bytes[write.key.0..write.key.1] == *key;
        if let Some(write) = earlier.iter().rev().find(same) {
            return (write.kind == Kind::Put).then_some(write.version);
        }
        let mut version = None;
        state.index.find(hash, |word| {
            let resident = resident(&*self.log, word.position(), key, scratch).filter(|resident| resident.same_key);
            version = resident.map(|resident| resident.header.sequence());
            version.is_some()
        });
        version
    }

    /// Writes a record into a segment of the server's own.
    #[allow(clippy::type_complexity, reason = "the five facts of a placed record, used once")]
    fn append(
        &self,
        state: &mut State,
        draft: &Draft<'_>,
        record: &mut Vec<u8>,
    ) -> Result<Result<(u32, u32, u32, u64, u64), Verdict>, StoreError> {
        let size = record_size(draft.key.len(), draft.value.len());
        let units = (size / UNIT_SIZE) as u32;
        let purpose = if draft.kind == Kind::Delete { Purpose::Delete } else { Purpose::Put };
        let own = if purpose == Purpose::Delete { state.own_delete } else { state.own_put };
        let number = match own.filter(|&number| state.space.room(number) >= units) {
            Some(number) => number,
            None => {
                if let Some(number) = own {
                    state.unpersisted.extend(state.space.give_back(number, &*self.log));
                }
                let taken = state.space.take(units, purpose);
                let owner = if purpose == Purpose::Delete { &mut state.own_delete } else { &mut state.own_put };
                *owner = None;
                match taken? {
                    Taken::Segment { number, fresh } => {
                        *owner = Some(number);
                        if fresh {
                            let span = state.space.state(number).write_header(&*self.log, &self.format);
                            state.unpersisted.push(span);
                        }
                        number
                    }
                    Taken::Pending => return Ok(Err(Verdict::Busy)),
                    Taken::NoSpace => return Ok(Err(Verdict::NoSpace)),
                }
            }
        };
        let (unit, generation) = {
            let segment = state.space.state(number);
            (segment.end, segment.generation)
        };
        let position = state.space.position(number, unit);
        draft.encode(&self.format, position, generation, self.pool.epoch(), record);
        self.log.write(position, record);
        let tag = u64::from_le_bytes(record[..8].try_into().expect("a record starts with its tag"));
        Ok(Ok((number, unit, generation, size, tag)))
    }

    async fn persist_batch(&self, batch: &mut Batch) -> Result<Option<Persisted>, StoreError> {
        if batch.spans.is_empty() {
            return Ok(None);
        }
        {
            let state = &mut *self.state.borrow_mut();
            batch.spans.append(&mut state.unpersisted);
            leave_out(&mut batch.spans, self.format.segment_size);
        }
        let start = self.runtime.now();
        let persisted = self.commit.persist(&*self.log, &batch.spans).await.map_err(MediaError::from)?;
        let took = self.runtime.now() - start;
        let state = &mut *self.state.borrow_mut();
        state.persist_ns = took;
        state.last_batch = batch.items.len().max(state.last_batch * 7 / 8);
        state.counters.persists += 1;
        Ok(Some(persisted))
    }

    /// Stores the index words. Takes the proof that what they point to is durable.
    fn publish(&self, batch: &mut Batch, persisted: Option<&Persisted>) {
        let state = &mut *self.state.borrow_mut();
        let State { index, space, live_bytes, counters, .. } = state;
        for write in batch.writes.iter().filter(|write| write.verdict == Verdict::Done) {
            assert!(persisted.is_some() || mutant!(TombstoneLeftOut), "what is published was persisted");
            if !mutant!(TombstoneLeftOut) || write.kind == Kind::Put {
                space.state(write.segment).note_durable();
            }
            let key = &batch.bytes[write.key.0..write.key.1];
            let mut old_size = 0;
            let place = index.find(write.hash, |word| {
                let found = resident(&*self.log, word.position(), key, &mut batch.record).filter(|resident| resident.same_key);
                old_size = found.as_ref().map_or(0, |resident| resident.header.size());
                found.is_some()
            });
            match (write.kind, place) {
                (Kind::Put, Some((place, _))) => index.replace(place, write.word),
                (Kind::Put, None) => index.insert(write.hash, write.word),
                (Kind::Delete, Some((place, _))) => index.remove(write.hash, place),
                // It was there when this was decided. Only a client that overwrites published records of the log, which it
                // must not, makes it vanish; the server outlives that.
                (Kind::Delete, None) => {}
            }
            *live_bytes = live_bytes.saturating_sub(old_size);
            match write.kind {
                Kind::Put => {
                    *live_bytes += record_size(key.len(), write.value.1 - write.value.0);
                    counters.puts += 1;
                }
                Kind::Delete => counters.deletes += 1,
            }
        }
        counters.batches += 1;
        // One that has to be asked for again is not decided.
        let is_refused = |write: &&Write| !matches!(write.verdict, Verdict::Done | Verdict::Busy);
        counters.refused += batch.writes.iter().filter(is_refused).count() as u64;
    }
}

/// What the mutants of a batch leave out of a persist; nothing without them.
fn leave_out(spans: &mut Vec<Span>, segment_size: u64) {
    let is_header = |span: &Span| span.offset.is_multiple_of(segment_size);
    if mutant!(RecordNotWrittenBack) {
        spans.retain(is_header);
    }
    if mutant!(SegmentHeaderNotWrittenBack) {
        spans.retain(|span| !is_header(span));
    }
    if mutant!(LastLineNotWrittenBack) {
        spans.iter_mut().filter(|span| span.size > UNIT_SIZE && !is_header(span)).for_each(|span| span.size -= UNIT_SIZE);
    }
}

/// A record that nobody checked beyond what it takes to read it: for a mutant.
fn unchecked(bytes: &[u8]) -> Option<Record<'_>> {
    let header = RecordHeader::parse(bytes.first_chunk()?).ok()?;
    let value = RECORD_HEADER_SIZE + header.key_size();
    let key = bytes.get(RECORD_HEADER_SIZE..value)?;
    Some(Record { header, key, value: bytes.get(value..value + header.value_size())? })
}

impl Server {
    /// Counts what was done under the path that its client came by.
    fn count_by_path(&self, batch: &Batch) {
        let paths = &mut self.state.borrow_mut().paths;
        for item in &batch.items {
            let What::Write(index) = item.what else { continue };
            let Write { verdict, kind, key, value, .. } = &batch.writes[index];
            let path = &mut paths[item.path as usize];
            match (verdict, kind) {
                (Verdict::Done, Kind::Put) => path.puts += 1,
                (Verdict::Done, Kind::Delete) => path.deletes += 1,
                (Verdict::Busy, _) => {}
                _ => path.refused += 1,
            }
            if *verdict == Verdict::Done {
                path.written_bytes += record_size(key.1 - key.0, value.1 - value.0);
            }
        }
    }
}

impl Batch {
    fn clear(&mut self) {
        self.items.clear();
        self.writes.clear();
        self.bytes.clear();
        self.spans.clear();
        self.reposts.clear();
    }

    fn push(&mut self, write: Write) -> What {
        self.writes.push(write);
        What::Write(self.writes.len() - 1)
    }
}
