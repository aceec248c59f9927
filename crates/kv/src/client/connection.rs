//! The connection of a client: requests go out, and answers come back in the order of the requests.
//!
//! ```text
//!   begin --> place in the queue, bytes of staging memory --> stage, send --> Answered
//! ```
//!
//! All other components of a client build on this one. Only this component posts requests that the server answers.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use stonecast_base::Nanoseconds;
use stonecast_fabric::{
    Boxed, DeviceError, LocalSpan, Operation, Port, QueuePair, ReceiveQueue, ReceiveRequest,
    Received, Runtime,
};
use stonecast_lineage::{Epoch, Term};
use stonecast_log::{Expiry, LogFormat};

use super::meter::{Meter, TimedCall};
use super::pending::{Ended, Pending, RequestHandle, Upload};
use super::resources::{RECEIVES_SPARE, Resources};
use super::terms::EnteredTerms;
use super::time::{Presence, ServerClock};
use crate::error::StoreError;
use crate::wire::limits::ROOM_WAIT_NS;
use crate::wire::{Answer, Request, Verdict, Welcome, next_answer};

/// Pause before the client asks again for space that is being prepared, cleaned or taken back.
pub(super) const BUSY_PAUSE_NS: u64 = 200_000;
/// Requests for space before the client gives up.
pub(super) const BUSY_RETRIES_MAX: u32 = (ROOM_WAIT_NS / BUSY_PAUSE_NS) as u32;

pub(super) struct Connection {
    pub port: Rc<Port>,
    pub runtime: Rc<dyn Runtime>,
    pub qp: QueuePair,
    pub welcome: Welcome,
    pub format: LogFormat,
    pub resources: Resources,
    pub meter: Meter,
    pub terms: EnteredTerms,
    pub heard: Heard,
    /// Receive buffers that are free and not posted.
    reposts: RefCell<Vec<ReceiveRequest>>,
    pending: RefCell<Pending>,
    closed: Cell<bool>,
}

/// The facts that the server has told this client.
pub(super) struct Heard {
    /// The latest version.
    latest: Cell<u64>,
    pub clock: ServerClock,
}

impl Connection {
    /// A connection that was accepted with `welcome`. Requests are sent from `ring_size` bytes of staging memory.
    pub fn new(
        (port, runtime): (Rc<Port>, Rc<dyn Runtime>),
        qp: QueuePair,
        welcome: Welcome,
        resources: Resources,
        ring_size: u64,
    ) -> Self {
        Self {
            port,
            runtime,
            qp,
            welcome,
            format: welcome.format(),
            resources,
            meter: Meter::default(),
            terms: EnteredTerms::new(welcome.keys().shards),
            heard: Heard {
                latest: Cell::new(welcome.sequence.get()),
                clock: ServerClock::new(welcome.keys().shards),
            },
            reposts: RefCell::default(),
            pending: RefCell::new(Pending::new(ring_size)),
            closed: Cell::new(false),
        }
    }

    /// Takes a message that has arrived.
    pub fn take_message(&self, arrival: &Received, bytes: &mut Vec<u8>) {
        let (device, buffers) = (self.port.device(), self.resources.receives);
        buffers.copy_out(&**device, arrival, bytes);
        // Buffers are posted again in batches. No answer waits for a batch, because there are as many spare buffers as
        // a batch has.
        let mut reposts = self.reposts.borrow_mut();
        reposts.push(buffers.request(arrival.wr_id));
        if reposts.len() == RECEIVES_SPARE {
            if device
                .post_receive(ReceiveQueue::Own(self.qp), &reposts)
                .is_err()
            {
                return self.end();
            }
            reposts.clear();
        }
        drop(reposts);
        let mut rest = bytes.as_slice();
        while let Some(answer) = next_answer(&mut rest) {
            // The number of any other verdict is not a version.
            if let Answer::Verdict {
                verdict: Verdict::Done | Verdict::DoneReturn | Verdict::Conflict,
                version,
            } = answer
            {
                self.note_version(version);
            }
            if !self.pending.borrow_mut().answer(answer) {
                return self.end();
            }
        }
        if !rest.is_empty() {
            self.end();
        }
    }

    /// Ends the connection. Every waiting operation fails.
    pub fn end(&self) {
        if !self.closed.replace(true) {
            self.resources.endpoint.end();
            self.pending.borrow_mut().end();
        }
    }

    /// Whether the connection has ended.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    pub fn check_open(&self) -> Result<(), StoreError> {
        if self.is_closed() {
            Err(StoreError::Disconnected { unknown: false })
        } else {
            Ok(())
        }
    }

    /// The latest version that this client knows.
    pub fn latest(&self) -> u64 {
        self.heard.latest.get()
    }

    /// The latest version that this client knows of the writes to `shard`. Each write that this
    /// client sends to the shard from now on gets a later version. Versions of different nodes
    /// cannot be compared.
    pub fn latest_of(&self, shard: u32) -> u64 {
        match self.terms.of(shard) {
            None | Some(Epoch(0)) => self.latest(),
            Some(_) => self.terms.latest(shard).unwrap_or(0),
        }
    }

    /// Notes the version that a write was given.
    #[inline]
    pub fn note_version(&self, version: u64) {
        let latest = &self.heard.latest;
        latest.set(latest.get().max(version));
    }

    /// Whether any operation waits for an answer.
    #[inline]
    pub fn awaits_answer(&self) -> bool {
        !self.pending.borrow().is_empty()
    }

    /// Whether a put has been sent to the server, or is being published, and has not ended.
    #[inline]
    pub fn has_puts(&self) -> bool {
        self.pending.borrow().has_puts()
    }

    /// Waits until every put that was sent to the server is answered.
    pub async fn puts_done(&self) {
        self.wait_until(|pending| !pending.has_puts()).await;
    }

    /// Waits until there may be room for `size` bytes.
    async fn room(&self, size: u64) {
        self.wait_until(|pending| pending.has_room(size)).await;
    }

    /// Waits until `holds` is true, or until the connection ends.
    async fn wait_until(&self, holds: impl Fn(&Pending) -> bool) {
        poll_fn(|context| {
            let mut pending = self.pending.borrow_mut();
            if holds(&pending) || self.is_closed() {
                return Poll::Ready(());
            }
            pending.wait_for_room(context.waker());
            Poll::Pending
        })
        .await;
    }

    /// Whether the ring has room for `size` bytes. Without room, the call waits for room and returns false, since other
    /// state may have changed during the wait.
    pub async fn has_room(&self, size: u64) -> bool {
        let has_room = self.pending.borrow().has_room(size);
        if !has_room {
            self.room(size).await;
        }
        has_room
    }

    /// Takes a place among the operations that wait for answers, and `size` bytes of staging memory. The caller has
    /// checked that there is room, and calls [`Connection::stage`] and [`Connection::send`] next, without waiting in
    /// between.
    pub fn begin(&self, size: u64, is_put: bool) -> (RequestHandle, u64) {
        let mut pending = self.pending.borrow_mut();
        let begun = pending
            .begin(size)
            .expect("the caller has checked that there is room");
        if is_put {
            pending.note_put();
        }
        begun
    }

    /// Writes `bytes` to `offset` of staging memory, which [`Connection::begin`] has taken.
    pub fn stage(&self, offset: u64, bytes: &[u8]) -> LocalSpan {
        let region = self.resources.staging;
        self.port.device().memory(region).write(offset, bytes);
        LocalSpan {
            region,
            offset,
            size: bytes.len() as u32,
        }
    }

    /// Posts the request whose answer `handle` waits for. Returns `None` if the send queue is full; the handle is then
    /// void. The queue may be full with few operations in flight, because an answered request stays in the queue until
    /// the network acknowledges the request. A network that loses acknowledgements may never do so, and a client that
    /// keeps asking for room fills the queue.
    pub fn send(
        &self,
        handle: RequestHandle,
        operation: Operation,
    ) -> Result<Option<Answered<'_>>, StoreError> {
        match self.port.post(self.qp, [operation]) {
            Ok(()) => {
                self.meter.note_round_trip();
                Ok(Some(Answered {
                    connection: self,
                    handle,
                }))
            }
            Err(error) => {
                self.pending.borrow_mut().cancel(handle);
                if matches!(error, DeviceError::QueueFull { .. }) {
                    Ok(None)
                } else {
                    Err(error.into())
                }
            }
        }
    }

    /// Sends a request and waits for its answer.
    pub fn request<'a>(&'a self, request: Request<'a>) -> Boxed<'a, Result<Answer, StoreError>> {
        Box::pin(async move {
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            let size = (bytes.len() as u64).next_multiple_of(64);
            for _ in 0..BUSY_RETRIES_MAX {
                while !self.has_room(size).await {
                    self.check_open()?;
                }
                self.check_open()?;
                let (handle, offset) = self.begin(size, false);
                let local = self.stage(offset, &bytes);
                if let Some(answered) = self.send(handle, Operation::Send { local })? {
                    return answered.await;
                }
                self.runtime.sleep(BUSY_PAUSE_NS).await;
            }
            Err(StoreError::Busy)
        })
    }

    /// Sends a request about a shard and waits for its answer.
    ///
    /// # Errors
    /// [`StoreError::NotPrimary`] if the server does not lead the shard, and the errors of [`Connection::request`].
    pub async fn request_of_primary(&self, request: Request<'_>) -> Result<Answer, StoreError> {
        match self.request(request).await? {
            Answer::Verdict {
                verdict: Verdict::NotPrimary,
                version,
            } => Err(StoreError::NotPrimary {
                epoch: Epoch(version),
            }),
            answer => Ok(answer),
        }
    }

    /// Asks the server for the time of `shard`. Waits while that time is on its way to all copies.
    pub async fn ask_time(&self, shard: u32) -> Result<(), StoreError> {
        for _ in 0..BUSY_RETRIES_MAX {
            let of = self.in_term(shard);
            let asked = self.runtime.now();
            match self.request_of_primary(Request::Time { shard }).await? {
                Answer::Time(time) => {
                    let told = self.runtime.now();
                    self.heard.clock.note(of, (asked, told), time);
                    return Ok(());
                }
                Answer::Verdict {
                    verdict: Verdict::NoTime,
                    ..
                } => self.runtime.sleep(BUSY_PAUSE_NS).await,
                Answer::Verdict {
                    verdict: Verdict::SpaceFailed,
                    ..
                } => return Err(StoreError::SpaceFailed),
                _ => {
                    return Err(StoreError::Protocol {
                        what: "the answer to a question for the time is no time",
                    });
                }
            }
        }
        Err(StoreError::Busy)
    }

    /// The shard, with the term in which the client takes the server for its primary.
    #[inline]
    fn in_term(&self, shard: u32) -> (u32, Term) {
        (shard, self.terms.of(shard).unwrap_or_default())
    }

    /// Whether a key of `shard` that expires at that moment is present now, as far as this client knows the time of the
    /// shard.
    #[inline]
    pub fn presence(&self, shard: u32, expires: Expiry) -> Presence {
        let clock = &self.heard.clock;
        clock.judge(self.in_term(shard), expires, self.runtime.now())
    }

    /// Whether a key of `shard` with this expiry is present. Asks the server for its time if the moment is near.
    pub async fn is_present(
        &self,
        shard: u32,
        expires: Option<Expiry>,
    ) -> Result<bool, StoreError> {
        let Some(expires) = expires else {
            return Ok(true);
        };
        loop {
            match self.presence(shard, expires) {
                Presence::Present => return Ok(true),
                Presence::Absent => return Ok(false),
                Presence::Unsure => self.ask_time(shard).await?,
            }
        }
    }

    /// The time of `shard` in milliseconds since 1970 in UTC, or a few milliseconds later.
    pub async fn time_of_ms(&self, shard: u32) -> Result<u64, StoreError> {
        loop {
            let of = self.in_term(shard);
            if let Some(now_ms) = self.heard.clock.recent_ms(of, self.runtime.now()) {
                return Ok(now_ms);
            }
            self.ask_time(shard).await?;
        }
    }

    /// Runs `work` in a task of its own, to its end even if the returned future is dropped.
    pub fn in_task<T: 'static, W: Future<Output = T> + 'static>(
        &self,
        work: W,
    ) -> impl Future<Output = T> + use<T, W> {
        let result = Rc::new(RefCell::new((None, None::<Waker>)));
        let place = result.clone();
        self.runtime.spawn(Box::pin(async move {
            let outcome = work.await;
            let waker = {
                let place = &mut *place.borrow_mut();
                place.0 = Some(outcome);
                place.1.take()
            };
            waker.into_iter().for_each(Waker::wake);
        }));
        poll_fn(move |context| {
            let place = &mut *result.borrow_mut();
            place.1 = Some(context.waker().clone());
            place.0.take().map_or(Poll::Pending, Poll::Ready)
        })
    }

    /// Runs `work`, which ends a put, in a task of its own. Later puts wait for the end of `work`.
    pub fn conclude_in_task<T: 'static, W: Future<Output = T> + 'static>(
        self: &Rc<Self>,
        work: W,
    ) -> impl Future<Output = T> + use<T, W> {
        self.pending.borrow_mut().begin_conclusion();
        let connection = self.clone();
        self.in_task(async move {
            let outcome = work.await;
            connection.pending.borrow_mut().end_conclusion();
            outcome
        })
    }

    /// Notes that the put of `upload` was given up. The task of the connection abandons the chunks.
    pub fn give_up(&self, upload: Upload) {
        self.pending.borrow_mut().note_given_up(upload);
        self.resources.wake_listener();
    }

    /// Whether the chunks of an upload are to be abandoned.
    pub fn has_given_up(&self) -> bool {
        self.pending.borrow().has_given_up()
    }

    /// Abandons the chunks of the uploads that were given up, in a task beside the caller.
    pub fn abandon_given_up(self: &Rc<Self>) {
        let uploads = self.pending.borrow_mut().take_given_up();
        if uploads.is_empty() {
            return;
        }
        let connection = self.clone();
        self.runtime.spawn(Box::pin(async move {
            for upload in uploads {
                // Answers come in the order of the requests. After the first answer no chunk is on its way any more,
                // and the second request finds those that the first one came too early for.
                for _ in 0..2 {
                    connection.abandon(upload).await;
                }
            }
        }));
    }

    /// Has the server drop the chunks of `upload`, unless a record names them. Without an answer, they go with time.
    pub async fn abandon(&self, upload: Upload) {
        let Upload { number, whole } = upload;
        let request = Request::Abandon {
            upload: number,
            whole,
        };
        let _ = self.request(request).await;
    }

    /// Begins a call. Returns the start time if the call is timed.
    #[inline]
    pub fn begin_call(&self) -> Option<Nanoseconds> {
        self.meter.begin_call().then(|| self.runtime.now())
    }

    /// Ends a call.
    #[inline]
    pub fn end_call(self: &Rc<Self>, call: TimedCall, start: Option<Nanoseconds>) {
        self.meter.end_call(call);
        if let Some(start) = start {
            self.note_time(call, start);
        }
    }

    #[cold]
    fn note_time(self: &Rc<Self>, call: TimedCall, start: Nanoseconds) {
        if self.meter.note_time(call, start, self.runtime.now()) {
            let connection = self.clone();
            self.runtime.spawn(Box::pin(async move {
                // No server is left to read the report.
                let _ = connection.report().await;
                connection.meter.end_report();
            }));
        }
    }

    /// Reports the calls since the last report to the server, if there were any.
    pub fn report<'a>(&'a self) -> Boxed<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let Some(report) = self.meter.take(self.runtime.now()) else {
                return Ok(());
            };
            match self.request(Request::Report(&report.encode())).await? {
                Answer::Verdict {
                    verdict: Verdict::Done,
                    ..
                } => Ok(()),
                _ => Err(StoreError::Protocol {
                    what: "the server does not take a client's report",
                }),
            }
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.resources.wake_listener();
    }
}

/// Waits for an answer.
pub(super) struct Answered<'a> {
    connection: &'a Connection,
    handle: RequestHandle,
}

impl Future for Answered<'_> {
    type Output = Result<Answer, StoreError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self
            .connection
            .pending
            .borrow_mut()
            .poll(self.handle, context.waker());
        answer.map_err(|Ended| StoreError::Disconnected { unknown: true })
    }
}

impl Drop for Answered<'_> {
    fn drop(&mut self) {
        self.connection.pending.borrow_mut().forget(self.handle);
    }
}
