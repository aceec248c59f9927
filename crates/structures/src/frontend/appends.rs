//! The way of a tenure's records to its log.
//!
//! ```text
//!   stage    record ──▶ queue ──▶ staging memory ──▶ gathered
//!   ticket                                             ├─ WRITEs, READ of the tenure word ──▶ durable           where a plan without the back-end exists
//!                                                      └─ and to the mirror: WRITEs, READ ──▶ durable in both   where the pool has one, and the same holds for it
//!   publish                                            ├─ WRITEs, SEND of *notify* ──▶ persisted, applied ──▶ answer
//!   start_publication                                  └─ as for a ticket, and SEND of *notify* after it: no later record waits for the answer
//! ```
//!
//! Invariants:
//! - Records reach the log in the order of their numbers.
//! - A record is told as durable after its plan has ended, and after the tenure word was read as that of this tenure
//!   after it. An answer of the back-end says both.
//! - With a mirror, a record is told when the same holds at the back-end, and the append to the mirror has ended or an
//!   answer speaks for both copies.
//! - At most one notice is under way: operations that are staged meanwhile go with the next one.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use smallvec::SmallVec;
use stonecast_base::{Span, mutant};
use stonecast_fabric::{DeviceError, LocalSpan, MemoryRegion, RemoteAddress, Rkey};
use stonecast_persist::Persisted;
use stonecast_persist::execute::{LentAppender, NotAppended, Piece, Route};
use stonecast_session::{Listener, Staging};

use super::back_end::BackEnd;
use super::error::FrontEndError;
use super::mirror_log::{MirrorLog, NoMirrorLog, lost};
use super::talk::Reply;
use crate::backend::{Grant, PoolGeometry};
use crate::tenure::Append;
use crate::wire::{Answer, BODY_SIZE_MAX, Request};

/// Bytes of the memory that the records of a tenure are sent from: two of the longest, and the word.
pub(super) const STAGING_SIZE: u64 = 2 * (BODY_SIZE_MAX as u64 + 4096) + WORD_SIZE;
const WORD_SIZE: u64 = 64;
/// Requests for records that are gathered or under way, at most: each takes an entry of the send queue.
pub(super) const PIECES_MAX: usize = 128;
/// Gathered records that go out before anybody waits for them.
const GATHERED_MAX: usize = 64;

/// The event that ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The record with this number is durable, and the tenure lasted then.
    Durable(u64),
    /// The records up to this number were taken by the back-end, which applied the transactions among them.
    Taken(u64),
    /// A record finds room in the queue.
    Room,
}

/// The way in which records become durable for a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By the answer to a notice.
    Answered,
    /// By an append to the log of the back-end.
    BackEnd,
    /// By appends to both logs.
    Both,
}

/// The content of the back-end's latest answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub applied: u64,
    pub trimmed: u64,
}

/// The records of one tenure on their way.
pub(super) struct Appends {
    back_end: Rc<BackEnd>,
    domain: u32,
    tenure: u32,
    /// The window on the log.
    log: Rkey,
    memory: MemoryRegion,
    state: RefCell<State>,
    crowd: Arc<Crowd>,
}

struct State {
    /// Ends before the memory that its records are sent from.
    mirror_log: Result<MirrorLog, Rc<NoMirrorLog>>,
    appender: LentAppender,
    staging: Staging,
    /// Records that found no room in the staging memory, oldest first.
    queue: VecDeque<Append>,
    requests: Requests,
    /// Log sequence number of the first record.
    first: u64,
    reached: Reached,
    /// The records that the notice under way tells of.
    notice: Option<(u64, Rc<Reply>)>,
    /// The last record of which a notice after it is to tell.
    to_tell: u64,
    told: Told,
    is_over: bool,
    listener: Listener,
}

/// The numbers up to which all records of the tenure have reached each stage.
#[derive(Clone, Copy, Default)]
struct Reached {
    /// Records that were reported as durable.
    durable: u64,
    /// Records that are durable at the back-end, and became so while the tenure lasted.
    at_back_end: u64,
    /// Records that are durable at the mirror, apart from records that are left to the back-end.
    at_mirror: u64,
    /// Records for which the back-end has answered.
    taken: u64,
    /// Records whose staging memory was released.
    released: u64,
}

/// The requests for records that are gathered or under way.
#[derive(Default)]
struct Requests {
    /// The number of requests that each record has added, oldest record first.
    of_each: VecDeque<usize>,
    in_all: usize,
    /// Records that are not sent.
    gathered: usize,
}

impl Requests {
    fn gather(&mut self, count: usize) {
        self.of_each.push_back(count);
        self.in_all += count;
        self.gathered += 1;
    }

    /// Notes that everything gathered is sent.
    fn note_sent(&mut self) {
        self.gathered = 0;
    }

    /// Forgets the requests of the oldest record, which is persisted.
    fn conclude(&mut self) {
        let count = self.of_each.pop_front();
        self.in_all -= count.expect("the record was gathered");
    }
}

/// Tasks that wait for the same records.
#[derive(Default)]
struct Crowd(Mutex<Vec<Waker>>);

impl Crowd {
    fn join(&self, waker: &Waker) {
        let mut waiting = self.0.lock().expect("no waiter panics");
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }
}

impl Wake for Crowd {
    fn wake(self: Arc<Self>) {
        let waiting = std::mem::take(&mut *self.0.lock().expect("no waiter panics"));
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Appends {
    pub fn new(
        back_end: &Rc<BackEnd>,
        domain: u32,
        grant: Grant,
        log: Rkey,
    ) -> Result<Self, DeviceError> {
        let memory = back_end.staging()?;
        let scratch = LocalSpan {
            region: memory,
            offset: STAGING_SIZE - WORD_SIZE,
            size: 8,
        };
        let word = PoolGeometry::place(domain).tenure_word();
        let route = Route {
            port: back_end.port().clone(),
            qp: back_end.talk.endpoint.qp(),
            scratch,
            flush: back_end.address_of(word),
        };
        // Until a batch has read the word, nothing is told.
        back_end
            .port()
            .device()
            .memory(memory)
            .write(scratch.offset, &0_u64.to_le_bytes());
        let state = State {
            mirror_log: Err(Rc::new(NoMirrorLog::NoMirror)),
            appender: LentAppender::new(route, &back_end.agreement),
            staging: Staging::new(STAGING_SIZE - WORD_SIZE),
            queue: VecDeque::new(),
            requests: Requests::default(),
            first: grant.start.chain.lsn,
            reached: Reached::default(),
            notice: None,
            to_tell: 0,
            told: Told::default(),
            is_over: false,
            listener: Listener::new(back_end.talk.endpoint.inbox()),
        };
        Ok(Self {
            back_end: back_end.clone(),
            domain,
            tenure: grant.tenure,
            log,
            memory,
            state: RefCell::new(state),
            crowd: Arc::default(),
        })
    }

    /// Reaches the log at the mirror, if there is one, and if records need no processor of the back-end. Called before
    /// the first record.
    pub async fn reach_mirror(&self, grant: Grant) {
        if self.back_end.vouching.is_none() {
            return;
        }
        let is_one_sided = self.state.borrow().appender.is_one_sided();
        let mirror_log = match is_one_sided {
            true => MirrorLog::reach(&self.back_end, self.domain, grant.area).await,
            false => Err(NoMirrorLog::NeedsProcessor),
        };
        self.state.borrow_mut().mirror_log = mirror_log.map_err(Rc::new);
    }

    /// Whether records go to both logs.
    pub fn mirror_log(&self) -> Result<(), Rc<NoMirrorLog>> {
        let state = self.state.borrow();
        state.mirror_log.as_ref().map(drop).map_err(Rc::clone)
    }

    /// Takes a record, and returns its number.
    pub fn append(&self, record: Append) -> u64 {
        let mut state = self.state.borrow_mut();
        let number = record.lsn + 1 - state.first;
        state.queue.push_back(record);
        // A failure shows at the next wait.
        let _ = self.fill(&mut state);
        number
    }

    /// Whether the next record finds room: no earlier one waits for memory.
    pub fn has_room(&self) -> bool {
        self.state.borrow().queue.is_empty()
    }

    /// Whether a wait would end at once.
    pub fn has_come(&self, until: Until) -> bool {
        self.state.borrow().has_come(until)
    }

    /// Waits, and sends the records and notices that the wait needs.
    pub fn wait(self: &Rc<Self>, until: Until) -> Waiting {
        let appends = self.clone();
        Waiting { appends, until }
    }

    /// The content of the back-end's latest answer.
    pub fn told(&self) -> Told {
        self.state.borrow().told
    }

    /// Moves records to the staging memory.
    fn fill(&self, state: &mut State) -> Result<(), NotAppended> {
        while let Some(record) = state.queue.front() {
            let size = record.bytes.len() as u64;
            let count = record.pieces.len();
            let Some(offset) = state.staging.room(size) else {
                break;
            };
            if state.requests.in_all + count > PIECES_MAX {
                break;
            }
            self.back_end
                .port()
                .device()
                .memory(self.memory)
                .write(offset, &record.bytes);
            let mut at = offset;
            let places: SmallVec<[(LocalSpan, Span); 2]> = record
                .pieces
                .iter()
                .map(|piece| {
                    let local = LocalSpan {
                        region: self.memory,
                        offset: at,
                        size: piece.size as u32,
                    };
                    at += piece.size;
                    (local, *piece)
                })
                .collect();
            let at_back_end = places.iter().map(|(local, place)| Piece {
                local: *local,
                remote: RemoteAddress {
                    rkey: self.log,
                    ..self.back_end.address_of(*place)
                },
            });
            let pieces: SmallVec<[Piece; 2]> = at_back_end.collect();
            // Records that lie side by side share a request.
            let before = state.appender.gathered_requests();
            let number = state.appender.append(&pieces)?;
            let requests = state.appender.gathered_requests() - before;
            if let Ok(mirror_log) = &mut state.mirror_log {
                mirror_log.gather(number, places.into_iter());
            }
            state.staging.push(offset, size);
            state.requests.gather(requests);
            state.queue.pop_front();
        }
        if state.requests.gathered >= GATHERED_MAX && self.way(state) != Way::Answered {
            self.flush(state)?;
        }
        Ok(())
    }

    /// The way to go for a ticket.
    fn way(&self, state: &State) -> Way {
        let is_mirrored = self.back_end.vouching.is_some() && !mutant!(TicketWithoutMirror);
        match (state.appender.is_one_sided(), is_mirrored) {
            (false, _) => Way::Answered,
            (true, false) => Way::BackEnd,
            (true, true) if state.mirror_log.is_ok() => Way::Both,
            (true, true) => Way::Answered,
        }
    }

    /// Sends the gathered records, without the processor of the back-end.
    fn flush(&self, state: &mut State) -> Result<(), NotAppended> {
        match state.appender.flush() {
            Ok(()) => state.requests.note_sent(),
            // The queue has room again when a batch has ended.
            Err(NotAppended::Refused(DeviceError::QueueFull { .. })) => {}
            Err(error) => return Err(error),
        }
        if self.way(state) == Way::Both
            && let Ok(mirror_log) = &mut state.mirror_log
            && let Err(error) = mirror_log.flush()
        {
            state.mirror_log = Err(Rc::new(lost(error)));
        }
        Ok(())
    }

    /// Sends everything up to the record `number`, and tells the back-end after it. Where records need no processor of
    /// the back-end, no later record waits for the answer. If another notice is under way, the next wait after its
    /// answer sends this one.
    pub fn announce(&self, number: u64) {
        let mut state = self.state.borrow_mut();
        state.to_tell = number;
        // A failure shows at the next wait.
        let _ = self.announce_next(&mut state);
    }

    fn announce_next(&self, state: &mut State) -> Result<(), FrontEndError> {
        if state.notice.is_some() || state.reached.taken >= state.to_tell {
            return Ok(());
        }
        if self.way(state) != Way::Answered && !mutant!(PublicationAnswered) {
            self.flush(state).map_err(|error| self.failure(error))?;
            // A queue without room takes the records later.
            if state.appender.has_gathered() || state.appended() < state.to_tell {
                return Ok(());
            }
        }
        self.tell(state)
    }

    /// Sends the gathered records, with a notice after them.
    fn tell(&self, state: &mut State) -> Result<(), FrontEndError> {
        let domain = self.domain;
        let last = state.appended();
        if state.notice.is_some() || state.reached.taken >= last {
            return Ok(());
        }
        let Some((notice, reply)) = self.back_end.talk.begin(Request::Notify { domain }) else {
            return Ok(());
        };
        let sent = match state.appender.has_gathered() {
            true => state.appender.flush_telling(notice),
            false => {
                let send = stonecast_fabric::Operation::Send { local: notice };
                let qp = self.back_end.talk.endpoint.qp();
                let posted = self.back_end.port().post(qp, [send]);
                posted.map_err(NotAppended::Refused)
            }
        };
        match sent {
            Ok(()) => {
                state.requests.note_sent();
                state.notice = Some((last, reply));
                if let Ok(mirror_log) = &mut state.mirror_log {
                    mirror_log.leave_gathered();
                }
            }
            Err(error) => {
                self.back_end.talk.cancel();
                if !matches!(error, NotAppended::Refused(DeviceError::QueueFull { .. })) {
                    return Err(self.failure(error));
                }
            }
        }
        Ok(())
    }

    fn failure(&self, error: NotAppended) -> FrontEndError {
        match error {
            NotAppended::Refused(error) => FrontEndError::Device(error),
            _ => self.ended(),
        }
    }

    /// The reason why nothing more is told.
    fn ended(&self) -> FrontEndError {
        let over = FrontEndError::Over {
            domain: self.domain,
        };
        self.back_end.talk.check().err().unwrap_or(over)
    }

    fn poll(&self, until: Until, context: &mut Context<'_>) -> Poll<Result<(), FrontEndError>> {
        self.crowd.join(context.waker());
        let waker = Waker::from(self.crowd.clone());
        let mut common = Context::from_waker(&waker);
        let mut state = self.state.borrow_mut();
        let before = (state.reached.durable, state.reached.taken);
        loop {
            self.back_end.talk.hear()?;
            self.take_answer(&mut state)?;
            if self.back_end.talk.check().is_err() {
                state.appender.fail("the back-end is gone");
            }
            let progress = self.take_persisted(&mut state, &mut common);
            self.take_mirrored(&mut state, &mut common);
            if state.has_come(until) {
                break;
            }
            progress?;
            if state.is_over {
                return Poll::Ready(Err(self.ended()));
            }
            self.fill(&mut state).map_err(|error| self.failure(error))?;
            self.announce_next(&mut state)?;
            let way = self.way(&state);
            match until {
                Until::Durable(_) | Until::Room if way != Way::Answered => {
                    self.flush(&mut state)
                        .map_err(|error| self.failure(error))?;
                    if self.way(&state) != way {
                        continue;
                    }
                }
                _ => self.tell(&mut state)?,
            }
            // A provider that does everything in the call has already ended this work.
            let has_moved = !matches!(self.take_persisted(&mut state, &mut common), Ok(false));
            if self.take_mirrored(&mut state, &mut common) || has_moved {
                continue;
            }
            if state.listener.poll_activity(&mut common).is_pending() {
                break;
            }
        }
        let has_moved = before != (state.reached.durable, state.reached.taken);
        let has_come = state.has_come(until);
        drop(state);
        if has_moved {
            waker.wake();
        }
        match has_come {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    /// Takes the answer to the notice.
    fn take_answer(&self, state: &mut State) -> Result<(), FrontEndError> {
        let Some((last, reply)) = &state.notice else {
            return Ok(());
        };
        let (last, Some(answer)) = (*last, reply.take()) else {
            return Ok(());
        };
        state.notice = None;
        let Answer::Noted {
            durable,
            applied,
            trimmed,
        } = answer
        else {
            state.is_over = true;
            return Ok(());
        };
        // An honest back-end has found everything that the notice told of.
        let number = durable.saturating_sub(state.first);
        if number < last || state.appender.answered(number).is_err() {
            state.is_over = true;
            return Ok(());
        }
        state.reached.taken = number;
        state.told = Told { applied, trimmed };
        self.advance(state);
        Ok(())
    }

    /// Takes the progress of the appends to the mirror. Returns whether there was any.
    fn take_mirrored(&self, state: &mut State, context: &mut Context<'_>) -> bool {
        let Ok(mirror_log) = &mut state.mirror_log else {
            return false;
        };
        let polled = mirror_log.poll(context);
        state.reached.at_mirror = mirror_log.persisted();
        let has_moved = match polled {
            Ok(has_moved) => has_moved,
            Err(reason) => {
                state.mirror_log = Err(Rc::new(reason));
                true
            }
        };
        self.advance(state);
        has_moved
    }

    /// Tells records as durable, and releases the memory of those with which the devices are done.
    fn advance(&self, state: &mut State) {
        let has_one_copy = self.way(state) == Way::BackEnd || mutant!(MirrorLogNotAwaited);
        let reached = &mut state.reached;
        let copied = match has_one_copy {
            true => u64::MAX,
            false => reached.at_mirror.max(reached.taken),
        };
        reached.durable = reached.durable.max(reached.at_back_end.min(copied));
        let mirror_log = state.mirror_log.as_ref().ok();
        let is_done = |number| mirror_log.is_none_or(|log| log.is_done_with(number));
        while reached.released < reached.at_back_end && is_done(reached.released + 1) {
            reached.released += 1;
            state.staging.pop();
            state.requests.conclude();
        }
    }

    /// Takes records that are persisted. Returns whether there were any.
    fn take_persisted(
        &self,
        state: &mut State,
        context: &mut Context<'_>,
    ) -> Result<bool, FrontEndError> {
        let mut moved = false;
        loop {
            match state.appender.poll_persisted(context) {
                Poll::Pending => return Ok(moved),
                Poll::Ready(Ok((number, persisted))) => {
                    moved = true;
                    self.conclude(state, number, &persisted);
                }
                Poll::Ready(Err(_)) => {
                    state.is_over = true;
                    return Err(self.ended());
                }
            }
        }
    }

    /// Counts a record as durable at the back-end if the tenure lasted behind it.
    fn conclude(&self, state: &mut State, number: u64, _: &Persisted) {
        let lasted = number <= state.reached.taken
            || state.appender.word() == u64::from(self.tenure)
            || mutant!(WordNotReadAgain);
        if lasted && !state.is_over {
            state.reached.at_back_end = number;
            self.advance(state);
        } else {
            state.is_over = true;
        }
    }
}

impl State {
    fn has_come(&self, until: Until) -> bool {
        match until {
            Until::Durable(number) => self.reached.durable >= number,
            Until::Taken(number) => self.reached.taken >= number,
            Until::Room => self.queue.is_empty(),
        }
    }

    /// The number of the last record that was handed to the appender.
    fn appended(&self) -> u64 {
        *self.appender.standing().never_sent.end()
    }
}

impl Drop for Appends {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        state.mirror_log = Err(Rc::new(NoMirrorLog::NoMirror));
        // Memory that the device may still read is not given out.
        let standing = state.appender.standing();
        if standing.unknown.is_empty() {
            self.back_end.give_staging_back(self.memory);
        }
    }
}

/// A wait for records of a tenure. Dropping it loses nothing.
pub(super) struct Waiting {
    appends: Rc<Appends>,
    until: Until,
}

impl Future for Waiting {
    type Output = Result<(), FrontEndError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.appends.poll(self.until, context)
    }
}

impl Waiting {
    /// Whether the event has come.
    pub fn has_come(&self) -> bool {
        self.appends.has_come(self.until)
    }
}
