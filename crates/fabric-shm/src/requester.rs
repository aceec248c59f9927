//! Executes posts: the requester's processor does the work of its NIC.
//!
//! READ, WRITE and atomics copy right here. SEND and WRITE_WITH_IMM go into the ring, or into the append queue of the
//! peer. All of this happens between an announcement and its end, and becomes visible to the peer with one store of the
//! tail.
//!
//! The peer places the payload of a SEND when it polls. So requests that touch the peer's memory after a SEND wait
//! until the SEND was taken; a WRITE_WITH_IMM has nothing left to place and delays no request.

use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric::{Access, LocalSpan, Operation, QueuePairOptions, RemoteAddress, Status};
use stonecast_media::{MappedRegion, Region};

use crate::append::{self, Refusal, Reservation};
use crate::clock;
use crate::connection::{Connection, Verdict};
use crate::doorbell;
use crate::memory_region::{copy, copy_whole_source, local};
use crate::peer_memory::Resolved;
use crate::primitive::Memory;
use crate::queue_pair::{QueuePairState, Surroundings};
use crate::responder::retry_time;
use crate::ring::{Entry, EntryKind};
use crate::sends::Progress;

/// Bytes of an atomic.
const WORD: u64 = 8;

/// One execution in progress: whether this side has announced that it is inside the peer's memory.
struct Visit {
    is_inside: bool,
    /// The position up to which the peer has taken the ring.
    taken: u64,
    /// Whether something was appended that the peer must be woken for.
    has_appended: bool,
    /// The number of requests that the last execution covers.
    executed: usize,
}

/// The most messages that are appended with one reservation. A receiver reaches them only after the last of them is
/// copied.
const RUN_MAX: usize = 64;

impl QueuePairState {
    /// Executes requests that can be executed, and completes finished ones. Returns whether there were any.
    pub(crate) fn progress_sends(&mut self, around: &mut Surroundings) -> bool {
        if self.sends.is_empty() || !self.is_connected() {
            return false;
        }
        let connection = self
            .connection
            .as_mut()
            .expect("a connected queue pair has a connection");
        let Ok(taken) = connection.producer.taken(&*connection.area) else {
            self.fail_here(around, Status::RemoteOperation);
            return true;
        };
        let before = self.sends.executed();
        self.execute_waiting(around, taken);
        let executed = self.sends.executed() != before;
        self.complete_front(around, taken) || executed
    }

    fn execute_waiting(&mut self, around: &mut Surroundings, taken: u64) {
        let mut visit = Visit {
            is_inside: false,
            taken,
            has_appended: false,
            executed: 1,
        };
        while let Some(operation) = self.sends.next() {
            let progress = self.execute(around, &mut visit, &operation);
            if progress == Progress::Waiting {
                break;
            }
            let count = std::mem::replace(&mut visit.executed, 1);
            self.sends.execute(count, progress);
        }
        let connection = self
            .connection
            .as_mut()
            .expect("a connected queue pair has a connection");
        if visit.is_inside {
            connection.announcement.leave(&*connection.area);
        }
        if connection.reserved().is_some() {
            crate::step::step("append: left with a place");
        }
        let mut reasons = 0;
        if connection.producer.publish(&*connection.area) {
            reasons |= doorbell::ARRIVALS;
        }
        if visit.has_appended {
            reasons |= doorbell::APPENDS;
        }
        if reasons != 0 {
            connection.wake(reasons);
        }
    }

    /// Completes finished requests from the front. Returns whether there were any.
    fn complete_front(&mut self, around: &mut Surroundings, taken: u64) -> bool {
        let mut worked = false;
        while let Some((request, progress)) = self.sends.front() {
            match progress {
                Progress::Done => {}
                Progress::InRing(end) if end <= taken => {}
                Progress::Failed(status) => {
                    self.fail_here(around, status);
                    return true;
                }
                Progress::InRing(_) => {
                    let connection = self
                        .connection
                        .as_ref()
                        .expect("a connected queue pair has a connection");
                    let Some(verdict) = connection.verdict() else {
                        break;
                    };
                    let status = match verdict {
                        Verdict::Invalid => Status::RemoteInvalidRequest,
                        Verdict::NoBuffer => Status::RnrRetryExceeded,
                    };
                    // The verdict concerns the first entry that was not taken, and the head was stored after the
                    // decision; check again which entry that is.
                    let connection = self
                        .connection
                        .as_mut()
                        .expect("a connected queue pair has a connection");
                    match connection.producer.taken(&*connection.area) {
                        Ok(now) if now != taken => {
                            return self.complete_front(around, now) || worked;
                        }
                        _ => self.fail_here(around, status),
                    }
                    return true;
                }
                Progress::Waiting => unreachable!("it was executed"),
            }
            self.complete_send(&mut around.cqs, request, Status::Success);
            self.sends.pop_front();
            worked = true;
        }
        worked
    }

    fn execute(
        &mut self,
        around: &mut Surroundings,
        visit: &mut Visit,
        operation: &Operation,
    ) -> Progress {
        let touches_memory = !matches!(operation, Operation::Send { .. });
        if touches_memory && visit.taken < self.last_send_end {
            return Progress::Waiting;
        }
        let connection = self
            .connection
            .as_mut()
            .expect("a connected queue pair has a connection");
        match *operation {
            Operation::Write {
                local: span,
                remote,
            } => {
                let Some(from) = local(&around.regions, span) else {
                    return Progress::Failed(Status::LocalProtection);
                };
                if span.size == 0 {
                    return Progress::Done;
                }
                reach(
                    connection,
                    visit,
                    remote,
                    u64::from(span.size),
                    Access::REMOTE_WRITE,
                    |to, at| {
                        copy(
                            from,
                            span.offset,
                            to,
                            at,
                            u64::from(span.size),
                            &mut around.scratch,
                        );
                        crate::step::step("requester: written");
                        Ok(())
                    },
                )
            }
            Operation::WriteWithImmediate {
                local: span,
                remote,
                immediate,
            } => write_with_immediate(connection, visit, around, span, remote, immediate),
            Operation::Send { local: span } => self.send(around, visit, span),
            Operation::Read {
                local: span,
                remote,
            } => {
                let Some(to) = local(&around.regions, span) else {
                    return Progress::Failed(Status::LocalProtection);
                };
                if span.size == 0 {
                    return Progress::Done;
                }
                read(connection, remote, u64::from(span.size), |from, at| {
                    copy_whole_source(
                        from,
                        at,
                        to,
                        span.offset,
                        u64::from(span.size),
                        &mut around.scratch,
                    );
                })
            }
            Operation::CompareAndSwap {
                local: span,
                remote,
                expected,
                swap,
            } => atomic(
                connection,
                visit,
                around,
                Some(span),
                remote,
                Access::REMOTE_ATOMIC,
                |memory, at| {
                    Region::compare_exchange(memory, at, expected, swap)
                        .unwrap_or_else(|found| found)
                },
            ),
            Operation::FetchAndAdd {
                local: span,
                remote,
                add,
            } => atomic(
                connection,
                visit,
                around,
                Some(span),
                remote,
                Access::REMOTE_ATOMIC,
                |memory, at| memory.fetch_add(at, add),
            ),
            Operation::AtomicWrite { remote, value } => atomic(
                connection,
                visit,
                around,
                None,
                remote,
                Access::REMOTE_WRITE,
                |memory, at| {
                    Region::store(memory, at, value);
                    0
                },
            ),
            // Stores to shared memory are visible to all processors; the fence orders them before later accesses.
            Operation::Flush {
                remote,
                size,
                placement: _,
            } => {
                match connection
                    .memory
                    .resolve(remote, size, Access::REMOTE_FLUSH)
                {
                    Resolved::At(memory, _) => {
                        memory.full_fence();
                        Progress::Done
                    }
                    other => not_there(connection, other),
                }
            }
        }
    }

    fn send(&mut self, around: &mut Surroundings, visit: &mut Visit, span: LocalSpan) -> Progress {
        let Some(from) = local(&around.regions, span) else {
            return Progress::Failed(Status::LocalProtection);
        };
        let connection = self
            .connection
            .as_mut()
            .expect("a connected queue pair has a connection");
        if connection.append.is_some() {
            return self.append(around, visit);
        }
        let size = span.size as usize;
        let entry = Entry {
            kind: EntryKind::Send,
            size: span.size,
            immediate: 0,
        };
        if !connection.producer.has_room(&*connection.area, entry) {
            return Progress::Waiting;
        }
        if around.scratch.len() < size {
            around.scratch.resize(size, 0);
        }
        from.read(span.offset, &mut around.scratch[..size]);
        match connection
            .producer
            .push(&*connection.area, entry, &around.scratch[..size])
        {
            Ok(Some(end)) => {
                self.last_send_end = end;
                Progress::InRing(end)
            }
            Ok(None) => Progress::Waiting,
            Err(_) => Progress::Failed(Status::RemoteOperation),
        }
    }

    /// Places messages into the peer's append queue: the next to be executed, and those after it that fit beside it.
    fn append(&mut self, around: &mut Surroundings, visit: &mut Visit) -> Progress {
        let connection = self
            .connection
            .as_mut()
            .expect("a connected queue pair has a connection");
        if !enter(connection, visit) {
            return Progress::Waiting;
        }
        let regions = &around.regions;
        let messages = self.sends.waiting().map_while(|request| {
            let Operation::Send { local: span } = request.operation else {
                return None;
            };
            Some((local(regions, span)?, span))
        });
        let run = match connection.reserved() {
            Some(run) => run,
            None => {
                let sizes = messages.clone().take(RUN_MAX).map(|(_, span)| span.size);
                match reserve(connection, sizes) {
                    Ok(run) => run,
                    Err(Refusal::TooLong) => return Progress::Failed(Status::RemoteInvalidRequest),
                    Err(Refusal::Hostile) => return Progress::Failed(Status::RemoteOperation),
                    Err(Refusal::NoBuffer) => {
                        return wait_for_buffer(&mut self.append_refused_since, &self.options);
                    }
                }
            }
        };
        self.append_refused_since = None;
        // Kept if the region must be fetched first. The receiver waits for it as long as this side lives.
        connection.hold(Some(run));
        let memory = match connection.memory.appendable(run.buffer.region) {
            Resolved::At(memory, _) => memory,
            other => return not_there(connection, other),
        };
        connection.hold(None);
        let scratch = &mut around.scratch;
        let Some(placed) = place_run(connection, &memory, &run, messages, scratch) else {
            return Progress::Failed(Status::RemoteOperation);
        };
        visit.has_appended = true;
        visit.executed = placed;
        Progress::Done
    }
}

/// The progress of a message that finds no buffer of the peer; `since` is the moment since when, once known.
fn wait_for_buffer(since: &mut Option<Nanoseconds>, options: &QueuePairOptions) -> Progress {
    let now = clock::now();
    let since = *since.get_or_insert(now);
    let patience = retry_time(options.rnr_retry_count, options.rnr_retry_delay_ns);
    if now.saturating_sub(since) < patience {
        Progress::Waiting
    } else {
        Progress::Failed(Status::RnrRetryExceeded)
    }
}

/// Reserves room for a run of messages in the peer's append queue.
fn reserve(
    connection: &Connection,
    sizes: impl Iterator<Item = u32> + Clone,
) -> Result<Reservation, Refusal> {
    let append = connection.append.as_ref().expect("the caller looked");
    let intent = connection.out.intent();
    append::reserve(
        append.layout,
        &append.memory,
        &*connection.area,
        intent,
        sizes,
    )
}

/// Copies the messages of a run into the peer's buffer and publishes them. Returns their number, which is smaller than
/// the run if a region was deregistered since the reservation; the receiver skips the rest as the hole of a dead
/// requester. `None` if the buffer does not lie in `memory`.
fn place_run<'a>(
    connection: &Connection,
    memory: &MappedRegion,
    run: &Reservation,
    messages: impl Iterator<Item = (&'a dyn Region, LocalSpan)>,
    scratch: &mut Vec<u8>,
) -> Option<usize> {
    let append = connection.append.as_ref().expect("the caller looked");
    let mut place = run.first;
    let (mut placed, mut first_size) = (0, 0);
    // Messages of a run mostly lie in one region.
    let (mut region, mut mapped) = (None, None);
    for (from, span) in messages.take(run.messages) {
        let size = u64::from(span.size);
        let start = run.buffer.offset.checked_add(place.offset(append.layout));
        let start = start.filter(|&start| Span::new(start, size).fits(memory.size()))?;
        if region != Some(span.region) {
            region = Some(span.region);
            mapped = from.mapped_at();
        }
        let is_copied =
            mapped.is_some_and(|from| memory.copy_lines(start, &from, span.offset, size));
        if !is_copied {
            copy(from, span.offset, memory, start, size, scratch);
        }
        crate::step::step("append: copied");
        let next = run.behind(append.layout, place, span.size);
        if placed == 0 {
            first_size = span.size;
        } else {
            append::publish(
                append.layout,
                &append.memory,
                place,
                connection.peer.handle,
                span.size,
            );
        }
        place = next;
        placed += 1;
    }
    append::publish(
        append.layout,
        &append.memory,
        run.first,
        connection.peer.handle,
        first_size,
    );
    append::finish(&*connection.area, connection.out.intent());
    Some(placed)
}

fn write_with_immediate(
    connection: &mut Connection,
    visit: &mut Visit,
    around: &mut Surroundings,
    span: LocalSpan,
    remote: RemoteAddress,
    immediate: u32,
) -> Progress {
    if connection.append.is_some() {
        return Progress::Failed(Status::RemoteInvalidRequest);
    }
    let Some(from) = local(&around.regions, span) else {
        return Progress::Failed(Status::LocalProtection);
    };
    let entry = Entry {
        kind: EntryKind::WriteWithImmediate,
        size: span.size,
        immediate,
    };
    // The entry has no room yet, so nothing has been written.
    if !connection.producer.has_room(&*connection.area, entry) {
        return Progress::Waiting;
    }
    if span.size > 0 {
        let placed = reach(
            connection,
            visit,
            remote,
            u64::from(span.size),
            Access::REMOTE_WRITE,
            |to, at| {
                copy(
                    from,
                    span.offset,
                    to,
                    at,
                    u64::from(span.size),
                    &mut around.scratch,
                );
                crate::step::step("requester: written");
                Ok(())
            },
        );
        if placed != Progress::Done {
            return placed;
        }
    }
    match connection.producer.push(&*connection.area, entry, &[]) {
        Ok(Some(end)) => Progress::InRing(end),
        Ok(None) => Progress::Waiting,
        Err(_) => Progress::Failed(Status::RemoteOperation),
    }
}

/// Copies out of the peer's memory, and ensures that the key was valid all the time.
fn read(
    connection: &mut Connection,
    remote: RemoteAddress,
    size: u64,
    copy: impl FnOnce(&MappedRegion, u64),
) -> Progress {
    let (memory, at) = match connection.memory.resolve(remote, size, Access::REMOTE_READ) {
        Resolved::At(memory, at) => (memory, at),
        other => return not_there(connection, other),
    };
    copy(&memory, at);
    memory.read_fence();
    match connection.memory.is_current(remote.rkey) {
        true => Progress::Done,
        false => Progress::Failed(Status::RemoteAccess),
    }
}

/// An operation on one word, whose old value goes to `span`.
fn atomic(
    connection: &mut Connection,
    visit: &mut Visit,
    around: &mut Surroundings,
    span: Option<LocalSpan>,
    remote: RemoteAddress,
    right: Access,
    change: impl FnOnce(&MappedRegion, u64) -> u64,
) -> Progress {
    let to = match span {
        Some(span) => match local(&around.regions, span) {
            Some(memory) => Some((memory, span.offset)),
            None => return Progress::Failed(Status::LocalProtection),
        },
        None => None,
    };
    reach(connection, visit, remote, WORD, right, |memory, at| {
        if !at.is_multiple_of(WORD) {
            return Err(Status::RemoteInvalidRequest);
        }
        let found = change(memory, at);
        if let Some((memory, offset)) = to {
            memory.write(offset, &found.to_ne_bytes());
        }
        Ok(())
    })
}

/// Announces a change of the peer's memory. False if the peer honours no request; its goodbye is in transit.
fn enter(connection: &mut Connection, visit: &mut Visit) -> bool {
    if !visit.is_inside {
        connection.announcement.enter(&*connection.area);
        visit.is_inside = true;
    }
    !connection.peer_has_closed()
}

/// Lets `change` modify the peer's memory at `remote` if `right` is granted there; the change is announced before the
/// key is checked.
fn reach(
    connection: &mut Connection,
    visit: &mut Visit,
    remote: RemoteAddress,
    size: u64,
    right: Access,
    change: impl FnOnce(&MappedRegion, u64) -> Result<(), Status>,
) -> Progress {
    if !enter(connection, visit) {
        return Progress::Waiting;
    }
    match connection.memory.resolve(remote, size, right) {
        Resolved::At(memory, at) => match change(&memory, at) {
            Ok(()) => Progress::Done,
            Err(status) => Progress::Failed(status),
        },
        other => not_there(connection, other),
    }
}

/// The step for memory that is not mapped yet.
fn not_there(connection: &mut Connection, resolved: Resolved) -> Progress {
    match resolved {
        Resolved::Missing(wanted) => {
            connection.want(wanted);
            Progress::Waiting
        }
        Resolved::Awaited => Progress::Waiting,
        Resolved::Refused(status) => Progress::Failed(status),
        Resolved::At(..) => unreachable!("the caller handles mapped memory"),
    }
}
