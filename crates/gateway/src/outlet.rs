//! A client's socket and the replies on their way to the socket, with the limits on a client that does not take its
//! replies.

use std::cell::Cell;
use std::future::poll_fn;
use std::net::Shutdown;
use std::rc::Rc;
use std::task::Poll;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{Selected, select};

use crate::fifo::WaitingLine;
use crate::guard::Guard;
use crate::memory::{Account, Buffer, Chain, GUARANTEED, NoBlock};
use crate::origin::Origin;
use crate::reactor::Readiness;
use crate::thread::Thread;
use crate::transport::{Moved, Transport};

/// The reason why a connection ends.
#[derive(Debug)]
pub enum End {
    /// The peer ended the connection, or the socket failed.
    Peer,
    /// The client requested the end or broke the protocol, and was answered.
    Answered,
    /// The client took too few replies, did not finish a request, or never sent the password.
    Cut,
    /// The gateway ends.
    Stopping,
    /// The store is gone, or a reply could not be completed.
    Store,
    /// The system had no memory for a request or a reply.
    Memory(NoBlock),
}

impl From<NoBlock> for End {
    fn from(error: NoBlock) -> Self {
        Self::Memory(error)
    }
}

/// Replies that a client must have taken by a certain time.
#[derive(Clone, Copy)]
struct Due {
    /// The end of the last reply, as a number of bytes sent since the connection began.
    end: u64,
    deadline: Nanoseconds,
}

/// A client's socket, and the replies on their way to the socket.
pub struct Outlet {
    thread: Rc<Thread>,
    transport: Transport,
    guard: Guard,
    account: Account,
    replies: Chain,
    /// The number of bytes sent.
    gone: u64,
    /// The time since which the client has taken nothing, if replies wait.
    stuck_at: Option<Nanoseconds>,
    /// The replies that waited at one moment, and must all be taken by a deadline.
    due: Option<Due>,
    /// The time by which the request must be complete.
    request_deadline: Cell<Option<Nanoseconds>>,
    /// The time by which all work must be done, at the end of the connection.
    last_deadline: Cell<Option<Nanoseconds>>,
    /// Bytes moved, and work that counts as bytes moved, since other connections last had their turn.
    worked: usize,
}

/// The bytes of replies that are sent before the batch is done, so that the client can begin to read.
const SEND_EARLY: usize = 64 << 10;
/// The most bytes that one call of `send` moves.
const SEND_MAX: usize = 1 << 20;
/// The work after which the other connections have their turn: a few hundred microseconds.
const WORK_MAX: usize = 256 << 10;
/// The number of output timeouts in which a client must take all replies that wait at one moment.
const OUTPUT_TIMEOUTS: Nanoseconds = 10;
/// The pause between two attempts of the first in line to get memory. Memory that another thread gives back wakes no
/// task of this thread.
const LOOK_NS: Nanoseconds = 500_000;
/// The work of one step of a TLS handshake: a signature takes a few hundred microseconds.
const HANDSHAKE_WORK: usize = WORK_MAX;
/// The time for which a connection waits for memory while no other connection in the line gets any. After that time,
/// its client gets an error for lack of memory.
const PATIENCE_NS: Nanoseconds = 10_000_000_000;

impl Outlet {
    /// The outlet of a connection that begins.
    pub fn new(thread: Rc<Thread>, transport: Transport) -> Self {
        let guard = thread.guards.watch(transport.source().readiness().clone());
        let account = thread.shared.memory.account();
        let replies = Chain::new(thread.stock.clone());
        Self {
            thread,
            transport,
            guard,
            account,
            replies,
            gone: 0,
            stuck_at: None,
            due: None,
            request_deadline: Cell::new(None),
            last_deadline: Cell::new(None),
            worked: 0,
        }
    }

    /// The chain to which replies are appended.
    pub fn output(&mut self) -> &mut Chain {
        &mut self.replies
    }

    /// The current position in the replies, for `rewind`.
    pub fn mark(&self) -> u64 {
        self.gone + self.replies.len() as u64
    }

    /// Takes back the bytes that were appended since `mark`. Returns false if some of them were sent.
    pub fn rewind(&mut self, mark: u64) -> bool {
        let is_possible = mark >= self.gone;
        if is_possible {
            self.replies.truncate((mark - self.gone) as usize);
        }
        is_possible
    }

    /// Returns whether replies wait to be taken.
    pub fn has_pending(&self) -> bool {
        !self.replies.is_empty() || self.transport.has_unsent()
    }

    /// Returns whether so many replies wait that further commands have to wait.
    pub fn is_full(&self) -> bool {
        let pending = self.replies.len();
        pending > self.thread.shared.options.limits.output_size
            || pending > GUARANTEED && self.is_memory_used_up()
    }

    fn is_memory_used_up(&self) -> bool {
        self.thread.shared.memory.has_no_room_for_replies()
            || !self.thread.waiting_for_replies.is_empty()
    }

    /// Sends as much as the socket takes, up to a bound.
    pub fn send(&mut self) -> Result<(), End> {
        self.check()?;
        let (mut progress, mut moved) = (false, 0);
        while moved < SEND_MAX && self.has_pending() && self.readiness().is_writable() {
            match self.transport.write(&self.replies).map_err(|_| End::Peer)? {
                Moved::Bytes(size) => {
                    self.thread.counters.sent_bytes.add(size as u64);
                    self.replies.consume(size);
                    self.gone += size as u64;
                    moved += size;
                    progress = true;
                }
                Moved::Nothing => {}
                Moved::End => return Err(End::Peer),
            }
        }
        self.note_taken(progress);
        self.renew_deadline();
        self.note_work(moved);
        if self.thread.shared.memory.is_scarce() {
            self.replies.shrink();
        }
        self.note_replies();
        Ok(())
    }

    /// Updates the deadlines after an attempt to send. The deadline for all waiting replies bounds how long a client
    /// that takes a byte now and then keeps memory.
    fn note_taken(&mut self, progress: bool) {
        if !self.has_pending() {
            (self.stuck_at, self.due) = (None, None);
            return;
        }
        if !progress && self.stuck_at.is_some() {
            return;
        }
        let now = self.thread.runtime.now();
        self.stuck_at = Some(now);
        if self.due.is_none_or(|due| self.gone >= due.end) {
            // A TLS record has been taken once any later byte has been taken.
            let unsent = u64::from(self.transport.has_unsent());
            let timeout = self.output_timeout().saturating_mul(OUTPUT_TIMEOUTS);
            self.due = Some(Due {
                end: self.gone + self.replies.len() as u64 + unsent,
                deadline: now.saturating_add(timeout),
            });
        }
    }

    fn output_timeout(&self) -> Nanoseconds {
        self.thread.shared.options.limits.output_timeout.as_nanos() as Nanoseconds
    }

    /// Ends a connection whose replies found no memory.
    fn check(&mut self) -> Result<(), End> {
        self.replies
            .take_failure()
            .map_or(Ok(()), |error| Err(error.into()))
    }

    /// Sends early if there is much to send, waits while too many replies wait, and lets other connections have their
    /// turn. The caller calls this function between the pieces of a batch.
    pub async fn relieve(&mut self) -> Result<(), End> {
        self.check()?;
        if self.replies.len() >= SEND_EARLY || self.is_full() {
            self.send()?;
            while self.is_full() {
                self.set_deadline(None);
                self.ready(Readiness::is_writable).await?;
                self.send()?;
                self.take_turn().await;
            }
        }
        self.note_replies();
        self.take_turn().await;
        Ok(())
    }

    /// Lets other connections have their turn if this connection has done much since their last turn.
    pub async fn take_turn(&mut self) {
        if self.worked >= WORK_MAX {
            self.worked = 0;
            self.thread.reactor.turn().await;
        }
    }

    /// Waits for a turn if the thread has done much since it last looked at the sockets.
    pub async fn wait_if_late(&mut self) {
        if self.thread.reactor.is_late() {
            self.worked = 0;
            self.thread.reactor.turn().await;
        }
    }

    /// Counts work as if `bytes` had been moved.
    pub fn note_work(&mut self, bytes: usize) {
        self.worked += bytes;
        self.thread.reactor.note_work(bytes);
    }

    /// Notes that the connection is idle, so that other connections have their turn.
    pub fn note_rest(&mut self) {
        self.worked = 0;
    }

    /// Sends all waiting replies.
    pub async fn drain(&mut self) -> Result<(), End> {
        self.send()?;
        while self.has_pending() {
            self.ready(Readiness::is_writable).await?;
            self.send()?;
            self.take_turn().await;
        }
        Ok(())
    }

    /// Reserves memory for `size` more bytes of replies, if the memory is free at the moment. The next `relieve` gives
    /// back the memory that was not used.
    pub fn try_room(&self, size: usize) -> bool {
        self.thread.waiting_for_replies.is_empty()
            && self.account.try_replies(self.replies.capacity() + size)
    }

    /// Reserves memory as `try_room` does, but waits: first until the connection's own client has taken the replies
    /// that wait, then in line with other connections. Returns false if there was no memory for too long.
    pub async fn room(&mut self, size: usize) -> Result<bool, End> {
        loop {
            if self.try_room(size) {
                return Ok(true);
            }
            self.send()?;
            if !self.has_pending() {
                break;
            }
            self.set_deadline(None);
            self.ready(Readiness::is_writable).await?;
            self.take_turn().await;
        }
        self.set_deadline(None);
        let queue = &self.thread.waiting_for_replies;
        self.memory(queue, || {
            let size = self.replies.capacity() + size;
            self.account.try_replies_as_first(size)
        })
        .await
    }

    /// Reserves memory for a request of `size` bytes, if the memory is free at the moment.
    pub fn try_request(&self, size: usize) -> bool {
        self.account.try_requests(size)
    }

    /// Reserves memory as `try_request` does, but waits in line with other connections. Returns false if there was no
    /// memory for too long.
    pub async fn request(&self, size: usize) -> Result<bool, End> {
        let queue = &self.thread.waiting_for_requests;
        if self.account.has_requests(size) || queue.is_empty() && self.account.try_requests(size) {
            return Ok(true);
        }
        self.memory(queue, || self.account.try_requests_as_first(size))
            .await
    }

    /// Waits in line until `is_there` returns true.
    async fn memory(&self, queue: &WaitingLine, is_there: impl Fn() -> bool) -> Result<bool, End> {
        let runtime = &self.thread.runtime;
        let place = queue.enter();
        // A connection that is first because of its request must not wait for connections that wait for this one.
        let is_next = || place.is_first() || self.account.is_first();
        let (mut since, mut served) = (runtime.now(), queue.served());
        loop {
            if is_next() && is_there() {
                return Ok(true);
            }
            let now = runtime.now();
            if queue.served() != served {
                (since, served) = (now, queue.served());
            }
            let end = since.saturating_add(PATIENCE_NS);
            if now >= end {
                return Ok(false);
            }
            let was_next = is_next();
            let pause = if was_next { LOOK_NS } else { end - now };
            let has_moved = poll_fn(|context| {
                place.register(context.waker());
                match is_next() == was_next {
                    true => Poll::Pending,
                    false => Poll::Ready(()),
                }
            });
            // The loop looks again in either case.
            let _ = self.unless_cut(runtime.within(pause, has_moved)).await?;
        }
    }

    /// Appends the bytes that the client has sent to `input`.
    pub fn read(&mut self, input: &mut Buffer) -> Result<Moved, End> {
        // A step of a handshake takes as long as moving many bytes.
        if self.is_shaking_hands() {
            self.note_work(HANDSHAKE_WORK);
        }
        let moved = self.transport.read(input).map_err(|_| End::Peer)?;
        if let Moved::Bytes(size) = moved {
            self.thread.counters.received_bytes.add(size as u64);
            self.note_work(size);
        }
        Ok(moved)
    }

    /// Waits for `work`, or until the connection is cut off or asked to end.
    pub async fn unless_cut<T>(&self, work: impl Future<Output = T>) -> Result<T, End> {
        match select(self.cut(), work).await {
            Selected::First(end) => Err(end),
            Selected::Second(output) => Ok(output),
        }
    }

    /// Waits until the connection is cut off or asked to end.
    async fn cut(&self) -> End {
        poll_fn(|context| {
            if self.is_cut() {
                return Poll::Ready(End::Cut);
            }
            if self.is_stopping() {
                return Poll::Ready(End::Stopping);
            }
            self.readiness().register(context);
            Poll::Pending
        })
        .await
    }

    /// Waits until there may be bytes to read.
    pub async fn readable(&self) -> Result<(), End> {
        self.ready(Readiness::is_readable).await
    }

    async fn ready(&self, is_ready: impl Fn(&Readiness) -> bool) -> Result<(), End> {
        poll_fn(|context| {
            if self.is_cut() {
                return Poll::Ready(Err(End::Cut));
            }
            if is_ready(self.readiness()) {
                return Poll::Ready(Ok(()));
            }
            self.readiness().register(context);
            Poll::Pending
        })
        .await
    }

    /// The readiness of the socket.
    pub fn readiness(&self) -> &Rc<Readiness> {
        self.transport.source().readiness()
    }

    /// Notes that a request is complete, so the connection is no longer first in line for memory.
    pub fn note_request_done(&self) {
        self.account.note_request_done();
    }

    /// Sets the memory of the connection's request.
    pub fn note_request(&self, size: usize) {
        self.account.set_requests(size);
    }

    fn note_replies(&self) {
        let size = self.replies.capacity() + self.transport.unsent_size();
        let beyond = if size > GUARANTEED { size } else { 0 };
        self.account.set_replies(beyond);
    }

    /// Sets the time by which a request must be complete. Replies that wait have deadlines of their own.
    pub fn set_deadline(&self, request: Option<Nanoseconds>) {
        self.request_deadline.set(request);
        self.renew_deadline();
    }

    /// Sets the connection's deadline to the earliest deadline that applies.
    fn renew_deadline(&self) {
        let stuck = self
            .stuck_at
            .map(|stuck_at| stuck_at.saturating_add(self.output_timeout()));
        let due = self.due.map(|due| due.deadline);
        let request = self.request_deadline.get();
        let first = [request, stuck, due].into_iter().flatten().min();
        self.guard.set_deadline(self.last_deadline.get().or(first));
    }

    /// Sets the deadline for all remaining work.
    pub fn set_last_deadline(&self, deadline: Nanoseconds) {
        self.last_deadline.set(Some(deadline));
        self.renew_deadline();
    }

    /// Counts the connection among the connections that are not authenticated.
    pub fn enter(&self, origin: Origin) {
        self.guard.enter(origin);
    }

    /// Notes that the peer is authenticated.
    pub fn leave(&self) {
        self.guard.leave();
    }

    /// Memory of received bytes that TLS holds.
    pub fn incoming_size(&self) -> usize {
        self.transport.incoming_size()
    }

    /// The most memory of received bytes that TLS may hold after the next call of `read`.
    pub fn incoming_size_after_read(&self) -> usize {
        self.transport.incoming_size_after_read()
    }

    /// Returns whether the TLS handshake is under way.
    pub fn is_shaking_hands(&self) -> bool {
        self.transport.is_shaking_hands()
    }

    /// Returns whether a deadline has passed, or the connection has to make way.
    pub fn is_cut(&self) -> bool {
        self.guard.is_cut()
    }

    /// Returns whether the connection is asked to end.
    pub fn is_stopping(&self) -> bool {
        self.guard.is_stopping()
    }

    /// Ends the sending side.
    pub fn shut_down(&mut self) {
        self.transport.close();
        // The call fails for a socket that is already closed.
        let _ = self.transport.source().socket().shutdown(Shutdown::Write);
    }

    /// Sends the end of TLS, if the socket takes it.
    pub fn close(&mut self) {
        self.transport.close();
    }
}
