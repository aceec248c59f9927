//! A client's socket, the replies on their way there, and what happens when they are not taken.

use std::future::poll_fn;
use std::net::Shutdown;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use stonecast_base::Nanoseconds;

use super::End;
use crate::buffers::Account;
use crate::commands::Context;
use crate::guard::Guard;
use crate::origin::Origin;
use crate::reactor::Readiness;
use crate::transport::{Moved, Transport};

/// See the module documentation.
pub struct Outlet {
    context: Rc<Context>,
    transport: Transport,
    guard: Guard,
    account: Account,
    output: Vec<u8>,
    /// Bytes of `output` that are sent.
    sent: usize,
    /// Bytes that were sent and are no longer in `output`.
    gone: u64,
    /// Since when nothing was taken, if something waits.
    stuck_at: Option<Nanoseconds>,
    input_size: usize,
}

/// Replies that are sent before the batch is done, so that the client can begin to read.
const SEND_EARLY: usize = 64 << 10;

impl Outlet {
    /// Of a connection that begins.
    pub fn new(context: Rc<Context>, transport: Transport) -> Self {
        let guard = context.guards.watch(transport.source().readiness().clone());
        let account = context.shared.memory.account();
        Self {
            context,
            transport,
            guard,
            account,
            output: Vec::new(),
            sent: 0,
            gone: 0,
            stuck_at: None,
            input_size: 0,
        }
    }

    /// Where replies are appended.
    pub fn output(&mut self) -> &mut Vec<u8> {
        if self.output.capacity() == 0 {
            self.output = self.context.stock.take();
        }
        &mut self.output
    }

    /// A point in the replies to come back to.
    pub fn mark(&self) -> u64 {
        self.gone + self.output.len() as u64
    }

    /// Takes back what was appended since `mark`. False: some of it is sent.
    pub fn rewind(&mut self, mark: u64) -> bool {
        let is_possible = mark >= self.gone + self.sent as u64;
        if is_possible {
            self.output.truncate((mark - self.gone) as usize);
        }
        is_possible
    }

    /// Whether replies wait to be taken.
    pub fn has_pending(&self) -> bool {
        self.sent < self.output.len() || self.transport.has_unsent()
    }

    /// Whether so many wait that no more commands are done.
    pub fn is_full(&self) -> bool {
        let pending = self.output.len() - self.sent;
        let shared = &self.context.shared;
        pending > shared.options.limits.output_size || pending > 0 && shared.memory.is_exhausted()
    }

    /// Sends what the client takes now.
    pub fn send(&mut self) -> Result<(), End> {
        let mut progress = false;
        while self.has_pending() && self.readiness().is_writable() {
            match self
                .transport
                .write(&self.output[self.sent..])
                .map_err(|_| End::Peer)?
            {
                Moved::Bytes(size) => {
                    self.context.counters.sent_bytes.add(size as u64);
                    self.sent += size;
                    progress = true;
                }
                Moved::Nothing => {}
                Moved::End => return Err(End::Peer),
            }
        }
        if !self.has_pending() {
            self.stuck_at = None;
        } else if progress || self.stuck_at.is_none() {
            self.stuck_at = Some(self.context.runtime.now());
        }
        self.forget_sent();
        self.note_memory();
        Ok(())
    }

    /// Called between the pieces of a batch: sends early what is much, and waits while too much waits.
    pub async fn relieve(&mut self) -> Result<(), End> {
        if self.output.len() - self.sent < SEND_EARLY {
            return Ok(());
        }
        self.send()?;
        while self.is_full() {
            self.set_deadline(None);
            self.ready(Readiness::is_writable).await?;
            self.send()?;
        }
        Ok(())
    }

    /// Sends all that waits.
    pub async fn drain(&mut self) -> Result<(), End> {
        self.send()?;
        while self.has_pending() {
            self.ready(Readiness::is_writable).await?;
            self.send()?;
        }
        Ok(())
    }

    /// Frees what is sent once it is the larger part.
    fn forget_sent(&mut self) {
        if self.sent == self.output.len() {
            self.context.stock.give(std::mem::take(&mut self.output));
        } else if self.sent > self.output.len() / 2 {
            self.output.drain(..self.sent);
        } else {
            return;
        }
        self.gone += self.sent as u64;
        self.sent = 0;
    }

    /// Appends what the client has sent to `input`.
    pub fn read(&mut self, input: &mut Vec<u8>) -> Result<Moved, End> {
        let moved = self.transport.read(input).map_err(|_| End::Peer)?;
        if let Moved::Bytes(size) = moved {
            self.context.counters.received_bytes.add(size as u64);
        }
        Ok(moved)
    }

    /// Waits for `work` as long as the connection is neither cut off nor asked to end.
    pub async fn unless_cut<T>(&self, work: impl Future<Output = T>) -> Result<T, End> {
        let mut work = pin!(work);
        poll_fn(|context| {
            if self.is_cut() {
                return Poll::Ready(Err(End::Cut));
            }
            if self.is_stopping() {
                return Poll::Ready(Err(End::Stopping));
            }
            self.readiness().register(context);
            work.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Waits until there may be something to read.
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

    /// What the socket is ready for.
    pub fn readiness(&self) -> &Rc<Readiness> {
        self.transport.source().readiness()
    }

    /// Says how many bytes of requests the connection holds.
    pub fn note_input(&mut self, size: usize) {
        self.input_size = size;
        self.note_memory();
    }

    fn note_memory(&self) {
        self.account.set(self.input_size + self.output.capacity());
    }

    /// Sets the deadline: `request` says until when a request must be complete; replies that wait have one of their own.
    pub fn set_deadline(&self, request: Option<Nanoseconds>) {
        let timeout = self.context.shared.options.limits.output_timeout.as_nanos() as Nanoseconds;
        let replies = self
            .stuck_at
            .map(|stuck_at| stuck_at.saturating_add(timeout));
        self.guard
            .set_deadline([request, replies].into_iter().flatten().min());
    }

    /// Sets the deadline of everything that is left to do.
    pub fn set_last_deadline(&self, deadline: Nanoseconds) {
        self.guard.set_deadline(Some(deadline));
    }

    /// Counts the connection among those that have not shown who they are.
    pub fn enter(&self, origin: Origin) {
        self.guard.enter(origin);
    }

    /// The connection has shown who it is.
    pub fn leave(&self) {
        self.guard.leave();
    }

    /// Whether the TLS handshake is under way.
    pub fn is_shaking_hands(&self) -> bool {
        self.transport.is_shaking_hands()
    }

    /// Whether a deadline is past, or the connection has to make way.
    pub fn is_cut(&self) -> bool {
        self.guard.is_cut()
    }

    /// Whether the connection is asked to end.
    pub fn is_stopping(&self) -> bool {
        self.guard.is_stopping()
    }

    /// Says that no more replies come.
    pub fn shut_down(&mut self) {
        self.transport.close();
        // Fails for a socket that is closed already.
        let _ = self.transport.source().socket().shutdown(Shutdown::Write);
    }

    /// Says goodbye, if that goes without waiting.
    pub fn close(&mut self) {
        self.transport.close();
    }
}
