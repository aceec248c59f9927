//! One client's connection: reads requests, does them batch by batch, sends replies.
//!
//! ```text
//!   socket -> input -> commands -> batch -> output -> socket
//!      ^________________________________________________|
//!      nothing is read while too many replies wait to be taken
//! ```
//!
//! Invariants:
//! - Replies are in the order of requests: a connection does one batch at a time.
//! - Memory is bounded: by the largest request on the way in, by the limit of waiting replies and one piece of a batch on
//!   the way out. A client that takes nothing for too long, or does not finish a request, is cut off.
//! - An idle connection has no buffers.
//! - Of what stands behind `QUIT` nothing is done or answered, and what stands before it is done and answered first.

mod outlet;

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use stonecast_base::Nanoseconds;

use crate::commands::{Arguments, Context, Operation, Run, Scratch, Session, run_batch};
use crate::origin::Origin;
use crate::resp::{ProtocolError, ReplyWriter, RequestLimits, RequestParser};
use crate::shared::Seat;
use crate::transport::{Moved, Transport};

pub use outlet::Outlet;

/// Why a connection ends.
#[derive(Debug)]
pub enum End {
    /// The other side ended it, or its socket failed.
    Peer,
    /// It asked for that, or broke the protocol, and was answered.
    Answered,
    /// It took no replies, or did not finish a request, or never said the password.
    Cut,
    /// The gateway ends.
    Stopping,
    /// The store is gone, or a reply could not be completed.
    Store,
}

/// See the module documentation.
pub struct Connection {
    context: Rc<Context>,
    session: Session,
    outlet: Outlet,
    /// None: it is a newcomer.
    seat: Option<Seat>,
    parser: RequestParser,
    input: Vec<u8>,
    /// When the incomplete request began.
    request_began_at: Nanoseconds,
}

/// What a client is told that finds no seat.
pub const TOO_MANY: &str = "ERR max number of clients reached";
/// Requests that are discarded at the end, so that the last reply is not lost with them.
const LINGER_SIZE_MAX: usize = 1 << 20;
/// How long the last replies may take.
const LINGER_NS_MAX: Nanoseconds = 1_000_000_000;
/// Of an incomplete request, what may be held although memory is used up.
const SMALL_REQUEST: usize = 64 << 10;

impl Connection {
    /// One that begins: with the seat of a client, or as a newcomer.
    pub fn new(
        context: Rc<Context>,
        session: Session,
        transport: Transport,
        seat: Option<Seat>,
    ) -> Self {
        let outlet = Outlet::new(context.clone(), transport);
        if seat.is_none() {
            outlet.enter(Origin::of(session.peer.ip()));
        }
        Self {
            context,
            session,
            outlet,
            seat,
            parser: RequestParser::default(),
            input: Vec::new(),
            request_began_at: 0,
        }
    }

    /// Serves it to its end.
    pub async fn serve(mut self) {
        let end = self.requests().await;
        self.context
            .counters
            .connections_cut
            .add(u64::from(matches!(end, End::Cut)));
        if matches!(end, End::Answered | End::Stopping | End::Store) {
            self.outlet
                .set_last_deadline(self.context.runtime.now().saturating_add(LINGER_NS_MAX));
            // Whoever does not take its last replies does without.
            if self.outlet.drain().await.is_ok() && matches!(end, End::Answered) {
                self.linger().await;
            }
        }
        self.outlet.close();
    }

    async fn requests(&mut self) -> End {
        loop {
            match self.round().await {
                Ok(true) => {}
                Ok(false) => return End::Answered,
                Err(end) => return end,
            }
        }
    }

    /// Waits for something, and does it. False: the client has been told that this is the end.
    async fn round(&mut self) -> Result<bool, End> {
        self.wait().await?;
        let mut goes_on = true;
        if !self.outlet.is_full() && self.outlet.readiness().is_readable() {
            let was_empty = self.input.is_empty();
            match self.outlet.read(&mut self.input)? {
                Moved::End => return Err(End::Peer),
                Moved::Nothing => goes_on = self.sit_down(),
                Moved::Bytes(_) => goes_on = self.sit_down() && self.execute(was_empty).await?,
            }
        }
        self.outlet.send()?;
        Ok(goes_on)
    }

    /// Waits for something to read, or for room for replies.
    async fn wait(&mut self) -> Result<(), End> {
        if self.input.is_empty() {
            self.context.stock.give(std::mem::take(&mut self.input));
        }
        self.outlet.note_input(self.input.capacity());
        self.outlet.set_deadline(self.request_deadline());
        let (outlet, reads) = (&self.outlet, !self.outlet.is_full());
        poll_fn(|context| {
            let readiness = outlet.readiness();
            if outlet.is_cut() {
                Poll::Ready(Err(End::Cut))
            } else if outlet.is_stopping() {
                Poll::Ready(Err(End::Stopping))
            } else if reads && readiness.is_readable()
                || outlet.has_pending() && readiness.is_writable()
            {
                Poll::Ready(Ok(()))
            } else {
                readiness.register(context);
                Poll::Pending
            }
        })
        .await?;
        if self.input.capacity() == 0 {
            self.input = self.context.stock.take();
        }
        Ok(())
    }

    /// Takes a seat, if a newcomer has shown who it is. False: there is none, and the client has been told.
    fn sit_down(&mut self) -> bool {
        let is_known = self.session.is_authenticated && !self.outlet.is_shaking_hands();
        if self.seat.is_none() && is_known {
            self.seat = self.context.shared.seat();
            if self.seat.is_none() {
                self.context.counters.connections_refused.add(1);
                self.writer().error(TOO_MANY);
                return false;
            }
            self.outlet.leave();
        }
        true
    }

    /// Until when the handshake must be done, the password be said, or the request that has begun be complete.
    fn request_deadline(&self) -> Option<Nanoseconds> {
        let limits = &self.context.shared.options.limits;
        if self.outlet.is_shaking_hands() {
            let timeout = limits.handshake_timeout.as_nanos() as Nanoseconds;
            return Some(self.session.began_at.saturating_add(timeout));
        }
        let timeout = limits.request_timeout.as_nanos() as Nanoseconds;
        match (self.session.is_authenticated, self.input.is_empty()) {
            (false, _) => Some(self.session.locked_at.saturating_add(timeout)),
            (true, false) => Some(self.request_began_at.saturating_add(timeout)),
            (true, true) => None,
        }
    }

    /// Does every complete request of the input. False: the client has been told that this is the end.
    async fn execute(&mut self, was_empty: bool) -> Result<bool, End> {
        let context = self.context.clone();
        let arrived_at = context.runtime.now();
        let mut scratch = context.take_scratch();
        let result = self.batches(&mut scratch, arrived_at).await;
        context.give_scratch(scratch);
        let consumed = self.parser.take_consumed();
        self.input.drain(..consumed);
        if consumed > 0 || was_empty {
            self.request_began_at = arrived_at;
        }
        let goes_on = result?;
        if goes_on && self.input.len() > SMALL_REQUEST && context.shared.memory.is_exhausted() {
            self.writer()
                .error("OOM the gateway's memory for requests is used up; try again later");
            return Ok(false);
        }
        Ok(goes_on)
    }

    async fn batches(
        &mut self,
        scratch: &mut Scratch,
        arrived_at: Nanoseconds,
    ) -> Result<bool, End> {
        let limits = self.context.shared.options.limits;
        loop {
            // Before the password one command at a time: what is allowed after it depends on it.
            let (request_limits, count_max) = match self.session.is_authenticated {
                true => (limits.requests(), limits.pipeline_depth),
                false => (RequestLimits::UNAUTHENTICATED, 1),
            };
            scratch.commands.clear();
            let parsed = self.parser.parse(
                &mut self.input,
                &request_limits,
                count_max,
                &mut scratch.commands,
            );
            let count = scratch.commands.len();
            if count > 0 {
                let input = std::mem::take(&mut self.input);
                let done = self.batch(&input, scratch, arrived_at).await;
                self.input = input;
                done?;
            }
            if !self.sit_down() {
                return Ok(false);
            }
            // Before what is wrong behind it: nobody asks for that any more.
            if self.session.has_quit {
                return Ok(false);
            }
            if let Err(error) = parsed {
                self.refuse(error);
                return Ok(false);
            }
            if count < count_max {
                return Ok(true);
            }
        }
    }

    async fn batch(
        &mut self,
        input: &[u8],
        scratch: &mut Scratch,
        arrived_at: Nanoseconds,
    ) -> Result<(), End> {
        let Scratch {
            commands,
            specs,
            keys,
        } = scratch;
        specs.clear();
        let mut operations = Vec::with_capacity(commands.len());
        for index in 0..commands.len() {
            let arguments = Arguments::new(input, commands.places(index));
            if is_http(arguments) {
                self.context.counters.protocol_errors.add(1);
                return Err(End::Peer);
            }
            let (spec, operation) = Operation::read(arguments);
            let is_last = operation.ends_the_connection();
            specs.push(spec);
            operations.push(operation);
            // What stands behind it in the pipeline is not done.
            if is_last {
                break;
            }
        }
        let mut run = Run {
            context: &self.context,
            session: &mut self.session,
            outlet: &mut self.outlet,
            operations: &operations,
            arrived_at,
        };
        run_batch(&mut run, specs, keys).await
    }

    fn refuse(&mut self, error: ProtocolError) {
        self.context.counters.protocol_errors.add(1);
        self.writer().error(&format!("ERR Protocol error: {error}"));
    }

    fn writer(&mut self) -> ReplyWriter<'_> {
        ReplyWriter {
            protocol: self.session.protocol,
            output: self.outlet.output(),
        }
    }

    /// Says that no more comes, and takes what the other side was still sending: closing before that would take the last
    /// reply back.
    async fn linger(&mut self) {
        self.outlet.shut_down();
        let mut discarded = 0;
        while discarded < LINGER_SIZE_MAX && self.outlet.readable().await.is_ok() {
            self.input.clear();
            match self.outlet.read(&mut self.input) {
                Ok(Moved::Bytes(size)) => discarded += size,
                Ok(Moved::Nothing) => {}
                Ok(Moved::End) | Err(_) => return,
            }
        }
    }
}

/// A browser that was tricked into sending requests here sends lines that begin like this.
fn is_http(arguments: Arguments<'_>) -> bool {
    let name = arguments.at(0);
    name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"Host:")
}
