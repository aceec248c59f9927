//! The way of a tenure's records to its log.
//!
//! ```text
//!   stage    record ──▶ queue ──▶ staging memory ──▶ gathered
//!   ticket                                             └─ WRITEs, READ of the tenure word ──▶ durable           where a plan without the back-end exists
//!   publish                                            └─ WRITEs, SEND of *notify* ──▶ persisted, applied ──▶ answer
//! ```
//!
//! Invariants:
//! - Records reach the log in the order of their numbers.
//! - A record is told as durable after its plan has ended, and after the tenure word was read as that of this tenure
//!   behind it. An answer of the back-end says both.
//! - At most one notice is under way: operations that are staged meanwhile go with the next one.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use smallvec::SmallVec;
use stonecast_base::mutant;
use stonecast_fabric::{DeviceError, LocalSpan, MemoryRegion, RemoteAddress, Rkey};
use stonecast_persist::Persisted;
use stonecast_persist::execute::{LentAppender, NotAppended, Piece, Route};
use stonecast_session::{Listener, Staging};

use super::back_end::BackEnd;
use super::error::FrontEndError;
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
    appender: LentAppender,
    staging: Staging,
    /// Records that found no room in the staging memory, oldest first.
    queue: VecDeque<Append>,
    requests: Requests,
    /// Log sequence number of the first record.
    first: u64,
    /// Records of this tenure that were told as durable.
    durable: u64,
    /// Records that the back-end has answered for.
    taken: u64,
    /// The records that the notice under way tells of.
    notice: Option<(u64, Rc<Reply>)>,
    told: Told,
    is_over: bool,
    listener: Listener,
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
            appender: LentAppender::new(route, &back_end.agreement),
            staging: Staging::new(STAGING_SIZE - WORD_SIZE),
            queue: VecDeque::new(),
            requests: Requests::default(),
            first: grant.start.chain.lsn,
            durable: 0,
            taken: 0,
            notice: None,
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
            let pieces: SmallVec<[Piece; 2]> = record
                .pieces
                .iter()
                .map(|piece| {
                    let local = LocalSpan {
                        region: self.memory,
                        offset: at,
                        size: piece.size as u32,
                    };
                    at += piece.size;
                    let remote = RemoteAddress {
                        rkey: self.log,
                        ..self.back_end.address_of(*piece)
                    };
                    Piece { local, remote }
                })
                .collect();
            // Records that lie side by side share a request.
            let before = state.appender.gathered_requests();
            state.appender.append(&pieces)?;
            let requests = state.appender.gathered_requests() - before;
            state.staging.push(offset, size);
            state.requests.gather(requests);
            state.queue.pop_front();
        }
        if state.requests.gathered >= GATHERED_MAX && self.is_one_sided(state) {
            self.flush(state)?;
        }
        Ok(())
    }

    /// Whether records become durable without the back-end. Those of a mirrored pool do not: the back-end has to copy
    /// them first.
    fn is_one_sided(&self, state: &State) -> bool {
        let is_mirrored = self.back_end.vouching.is_some() && !mutant!(TicketWithoutMirror);
        state.appender.is_one_sided() && !is_mirrored
    }

    /// Sends the gathered records, without the back-end.
    fn flush(&self, state: &mut State) -> Result<(), NotAppended> {
        match state.appender.flush() {
            Ok(()) => state.requests.note_sent(),
            // The queue has room again when a batch has ended.
            Err(NotAppended::Refused(DeviceError::QueueFull { .. })) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Sends the gathered records, with a notice behind them.
    fn tell(&self, state: &mut State) -> Result<(), FrontEndError> {
        let domain = self.domain;
        let last = state.appended();
        if state.notice.is_some() || state.taken >= last {
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
        let before = (state.durable, state.taken);
        loop {
            self.back_end.talk.hear()?;
            self.take_answer(&mut state)?;
            if self.back_end.talk.check().is_err() {
                state.appender.fail("the back-end is gone");
            }
            let progress = self.take_persisted(&mut state, &mut common);
            if state.has_come(until) {
                break;
            }
            progress?;
            if state.is_over {
                return Poll::Ready(Err(self.ended()));
            }
            self.fill(&mut state).map_err(|error| self.failure(error))?;
            let is_one_sided = self.is_one_sided(&state);
            match until {
                Until::Durable(_) | Until::Room if is_one_sided => {
                    self.flush(&mut state)
                        .map_err(|error| self.failure(error))?;
                }
                _ => self.tell(&mut state)?,
            }
            // A provider that does everything in the call has already ended this work.
            if !matches!(self.take_persisted(&mut state, &mut common), Ok(false)) {
                continue;
            }
            if state.listener.poll_activity(&mut common).is_pending() {
                break;
            }
        }
        let has_moved = before != (state.durable, state.taken);
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
        state.taken = number;
        state.told = Told { applied, trimmed };
        Ok(())
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
                    state.staging.pop();
                    state.requests.conclude();
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

    /// Tells a record as durable if the tenure lasted behind it.
    fn conclude(&self, state: &mut State, number: u64, _: &Persisted) {
        let lasted = number <= state.taken
            || state.appender.word() == u64::from(self.tenure)
            || mutant!(WordNotReadAgain);
        if lasted && !state.is_over {
            state.durable = number;
        } else {
            state.is_over = true;
        }
    }
}

impl State {
    fn has_come(&self, until: Until) -> bool {
        match until {
            Until::Durable(number) => self.durable >= number,
            Until::Taken(number) => self.taken >= number,
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
        // Memory that the device may still read is given to nobody.
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

/// An operation that is staged: the future ends when its record is durable. A ticket that is dropped changes nothing.
///
/// A crash after the ticket has ended well loses nothing of the operation, and of all operations that were staged
/// before. Readers see it once it is published, by this writer or by the hand-over after its end.
#[must_use = "the operation is durable when the ticket has ended well"]
pub struct Ticket(Waiting);

impl Ticket {
    pub(super) fn new(appends: &Rc<Appends>, number: u64) -> Self {
        Self(appends.wait(Until::Durable(number)))
    }

    /// Whether the operation is known to be durable. It stays so, whatever becomes of the tenure and the connection.
    pub fn is_durable(&self) -> bool {
        let state = self.0.appends.state.borrow();
        state.has_come(self.0.until)
    }
}

impl Future for Ticket {
    type Output = Result<(), FrontEndError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}
