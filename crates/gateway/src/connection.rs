//! The connection of a client: reads requests, runs them batch by batch, and sends replies.
//!
//! ```text
//!   socket -> input -> commands -> batch -> output -> socket
//!      ^________________________________________________|
//!      nothing is read while too many replies wait to be taken
//! ```
//!
//! Invariants:
//! - Replies are in the order of requests: a connection does one batch at a time.
//! - Memory is reserved before it is taken (`memory`): for a request before the request is read, for replies before the
//!   values are read. A client that takes no replies for too long, or does not finish a request, is cut off.
//! - An idle connection has no buffers.
//! - A connection with much work lets other connections have their turn between the pieces of the work.
//! - Commands before `QUIT` are run and answered first; commands after it are neither run nor answered.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use stonecast_base::Nanoseconds;

use crate::clients::Listed;
use crate::commands::{Arguments, Context, Operation, Run, Scratch, Session, run_batch};
use crate::memory::{Buffer, GUARANTEED};
use crate::origin::Origin;
use crate::outlet::{End, Outlet};
use crate::resp::{
    BATCH_ARGUMENTS_MAX, Commands, ProtocolError, ReplyWriter, RequestLimits, RequestParser,
};
use crate::shared::Seat;
use crate::sizes::{INPUT_SIZES, INPUT_STEP_MAX, SHORT_BATCH, batch_size, request_size};
use crate::transport::{Moved, Transport};

/// The connection of one client.
pub struct Connection {
    context: Rc<Context>,
    session: Session,
    outlet: Outlet,
    /// `None` for a newcomer.
    seat: Option<Seat>,
    _listed: Listed,
    parser: RequestParser,
    input: Buffer,
    /// The time at which the incomplete request began.
    request_began_at: Nanoseconds,
}

/// The reply to a client that finds no seat.
pub const TOO_MANY: &str = "ERR max number of clients reached";
/// The most bytes of requests that are discarded at the end, so that the last reply is not lost with them.
const LINGER_SIZE_MAX: usize = 1 << 20;
/// The time limit for the client to take the last replies.
const LINGER_NS_MAX: Nanoseconds = 1_000_000_000;
/// The least room for a read, so that the rest of a command does not come in tiny pieces.
const ROOM_MIN: usize = 512;
/// The reply to a client whose request finds no memory.
const NO_ROOM: &str = "OOM the gateway's memory for requests is used up; try again later";

impl Connection {
    /// Creates a connection with the seat of a client, or as a newcomer.
    pub fn new(
        context: Rc<Context>,
        session: Session,
        transport: Transport,
        (seat, listed): (Option<Seat>, Listed),
    ) -> Self {
        let outlet = Outlet::new(context.thread.clone(), transport);
        if seat.is_none() {
            outlet.enter(Origin::of(session.card.peer.ip()));
        }
        let input = Buffer::new(context.thread.stock.clone());
        Self {
            context,
            session,
            outlet,
            seat,
            _listed: listed,
            parser: RequestParser::default(),
            input,
            request_began_at: 0,
        }
    }

    /// Serves the connection to its end.
    pub async fn serve(mut self) {
        let end = self.requests().await;
        self.context
            .thread
            .counters
            .connections_cut
            .add(u64::from(matches!(end, End::Cut | End::Memory(_))));
        if matches!(end, End::Answered | End::Stopping | End::Store) {
            self.outlet.set_last_deadline(
                self.context
                    .thread
                    .runtime
                    .now()
                    .saturating_add(LINGER_NS_MAX),
            );
            if self.outlet.drain().await.is_ok() && matches!(end, End::Answered) {
                // A client that does not take its last replies loses them.
                let _ = self.linger().await;
            }
        }
        if let End::Memory(error) = &end {
            self.context.thread.tell(error);
        }
        self.close().await;
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

    /// Waits until the socket can be read or written, and does that. Returns false if the client has its last reply.
    async fn round(&mut self) -> Result<bool, End> {
        self.wait().await?;
        let mut goes_on = true;
        if !self.outlet.is_full() && self.outlet.readiness().is_readable() {
            if self.input.capacity() > INPUT_SIZES[0] {
                self.outlet.wait_if_late().await;
            }
            if !self.make_room().await? {
                self.writer().error(NO_ROOM);
                return Ok(false);
            }
            let had_begun = self.has_begun();
            match self.outlet.read(&mut self.input)? {
                Moved::End => return Err(End::Peer),
                Moved::Nothing => goes_on = self.sit_down(),
                Moved::Bytes(_) => goes_on = self.sit_down() && self.execute().await?,
            }
            if !had_begun {
                self.request_began_at = self.context.thread.runtime.now();
            }
        }
        self.outlet.send()?;
        self.outlet.take_turn().await;
        Ok(goes_on)
    }

    /// Returns whether a request has arrived in part.
    fn has_begun(&self) -> bool {
        !self.input.is_empty() || self.outlet.incoming_size() > 0
    }

    /// Makes room for the next read. Returns false for a request that has begun, finds no memory and must be given up.
    async fn make_room(&mut self) -> Result<bool, End> {
        Ok(self.make_room_in_input().await? && self.make_room_beside_input().await?)
    }

    /// Reserves memory for the part of a record that TLS holds until the rest arrives.
    async fn make_room_beside_input(&self) -> Result<bool, End> {
        match self.outlet.incoming_size_after_read() {
            0 => Ok(true),
            size => self.outlet.request(self.request_size() + size).await,
        }
    }

    async fn make_room_in_input(&mut self) -> Result<bool, End> {
        let (len, capacity) = (self.input.len(), self.input.capacity());
        if capacity == 0 {
            let size = match self.outlet.try_request(INPUT_SIZES[0]) {
                true => INPUT_SIZES[0],
                false => GUARANTEED,
            };
            self.input.resize(size)?;
            return Ok(true);
        }
        if capacity - len >= ROOM_MIN {
            return Ok(true);
        }
        let grown = match INPUT_SIZES.into_iter().find(|&size| size > capacity) {
            Some(size) => size,
            None => capacity + capacity.min(INPUT_STEP_MAX),
        };
        let wanted = match self.parser.announced_end() {
            Some(end) if end > capacity && end < grown => {
                end.next_multiple_of(GUARANTEED).max(len + ROOM_MIN)
            }
            _ => grown,
        };
        let (now, at_least) = (self.size_with(wanted), self.parser.announced_end());
        let max = self.context.thread.shared.memory.request_max();
        if now.max(at_least.unwrap_or(0)) > max || !self.outlet.request(now).await? {
            return Ok(false);
        }
        // Copying the content takes about as long as reading it.
        self.outlet.note_work(len);
        Ok(self.input.resize(wanted).is_ok())
    }

    /// The memory of the request, if it is more than every connection may hold.
    fn request_size(&self) -> usize {
        match self.input.capacity() {
            capacity if capacity <= GUARANTEED => 0,
            capacity => self.size_with(capacity),
        }
    }

    /// Memory of the request, places of arguments included, with `capacity` bytes of input.
    fn size_with(&self, capacity: usize) -> usize {
        request_size(capacity, self.parser.argument_count())
    }

    /// Gives back memory that the rest of the input does not need.
    fn settle(&mut self) {
        let (len, capacity) = (self.input.len(), self.input.capacity());
        let is_scarce = self.context.thread.shared.memory.is_scarce();
        let wanted = match len {
            0 => 0,
            _ if len <= GUARANTEED - ROOM_MIN && is_scarce => GUARANTEED,
            _ => match INPUT_SIZES.into_iter().find(|&size| 2 * len <= size) {
                Some(size) => size,
                // The memory of a large request is not kept for the beginning of the next request.
                None if is_scarce => (2 * len).next_multiple_of(INPUT_SIZES[2]),
                None => capacity,
            },
        };
        // Without memory to move to, the content stays in place.
        if wanted < capacity && self.input.resize(wanted).is_err() {
            debug_assert!(self.input.capacity() == capacity);
        }
        let size = self.request_size() + self.outlet.incoming_size();
        self.outlet.note_request(size);
    }

    /// Waits for bytes to read, or for room for replies.
    async fn wait(&mut self) -> Result<(), End> {
        self.settle();
        self.outlet.set_deadline(self.request_deadline());
        let (outlet, reads) = (&self.outlet, !self.outlet.is_full());
        let mut has_rested = false;
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
                has_rested = true;
                Poll::Pending
            }
        })
        .await?;
        if has_rested {
            self.outlet.note_rest();
        }
        Ok(())
    }

    /// Takes a seat once a newcomer is authenticated. Returns false if no seat is free and the client was told so.
    fn sit_down(&mut self) -> bool {
        let is_known = self.session.is_authenticated && !self.outlet.is_shaking_hands();
        if self.seat.is_none() && is_known {
            self.seat = self.context.thread.shared.seat();
            if self.seat.is_none() {
                self.context.thread.counters.connections_refused.add(1);
                self.writer().error(TOO_MANY);
                return false;
            }
            self.outlet.leave();
        }
        true
    }

    /// The time by which the client must finish the handshake, the password, or the request that has begun.
    fn request_deadline(&self) -> Option<Nanoseconds> {
        let limits = &self.context.thread.shared.options.limits;
        if self.outlet.is_shaking_hands() {
            let timeout = limits.handshake_timeout.as_nanos() as Nanoseconds;
            return Some(self.session.began_at.saturating_add(timeout));
        }
        let timeout = limits.request_timeout.as_nanos() as Nanoseconds;
        match (self.session.is_authenticated, self.has_begun()) {
            (false, _) => Some(self.session.locked_at.saturating_add(timeout)),
            (true, true) => Some(self.request_began_at.saturating_add(timeout)),
            (true, false) => None,
        }
    }

    /// Runs every complete request of the input. Returns false if the client has its last reply.
    async fn execute(&mut self) -> Result<bool, End> {
        let context = self.context.clone();
        let arrived_at = context.thread.runtime.now();
        if self.session.is_authenticated {
            // The time that the commands take does not count against the client.
            self.outlet.set_deadline(None);
        }
        let mut scratch = context.take_scratch();
        let result = self.batches(&mut scratch, arrived_at).await;
        context.give_scratch(scratch);
        let consumed = self.parser.take_consumed();
        self.input.consume(consumed);
        if consumed > 0 {
            self.outlet.note_request_done();
            // The time of the batch does not count against the request after it.
            self.request_began_at = context.thread.runtime.now();
        }
        result
    }

    async fn batches(
        &mut self,
        scratch: &mut Scratch,
        arrived_at: Nanoseconds,
    ) -> Result<bool, End> {
        let limits = self.context.thread.shared.options.limits;
        loop {
            // Before the password, commands are cut out one at a time: each command decides what is allowed after it.
            let (request_limits, count_max) = match self.session.is_authenticated {
                true => (limits.requests(), limits.pipeline_depth),
                false => (RequestLimits::UNAUTHENTICATED, 1),
            };
            let (parsed, are_all) = self.parse(&request_limits, count_max, &mut scratch.commands);
            if scratch.commands.len() > 0 {
                let size = batch_size_of(&scratch.commands);
                if size > 0 && !self.outlet.request(self.request_size() + size).await? {
                    self.writer().error(NO_ROOM);
                    return Ok(false);
                }
                let empty = Buffer::new(self.context.thread.stock.clone());
                let input = std::mem::replace(&mut self.input, empty);
                let done = self.batch(&input, scratch, arrived_at).await;
                self.input = input;
                done?;
            }
            if !self.sit_down() {
                return Ok(false);
            }
            // A protocol error after QUIT is not reported.
            if self.session.has_quit {
                return Ok(false);
            }
            if let Err(error) = parsed {
                self.refuse(error);
                return Ok(false);
            }
            if are_all {
                return Ok(true);
            }
        }
    }

    /// Cuts the next batch out of the input: a few commands, and more if there is memory for them until they are done.
    /// The second value says whether no complete command is left.
    fn parse(
        &mut self,
        limits: &RequestLimits,
        count_max: usize,
        commands: &mut Commands,
    ) -> (Result<(), ProtocolError>, bool) {
        commands.clear();
        let short = count_max.min(SHORT_BATCH);
        let parsed = self.parser.parse(&mut self.input, limits, short, commands);
        if parsed.is_err() || !commands.are_enough(short) {
            return (parsed, true);
        }
        // The shortest command and the shortest argument have two bytes. Only the last command may have more arguments.
        let most = self.input.len() / 2;
        let room = batch_size(count_max.min(most), BATCH_ARGUMENTS_MAX.min(most));
        if short == count_max || !self.outlet.try_request(self.request_size() + room) {
            return (parsed, false);
        }
        let parsed = self
            .parser
            .parse(&mut self.input, limits, count_max, commands);
        let needed = batch_size_of(commands).min(room);
        self.outlet.note_request(self.request_size() + needed);
        (parsed, !commands.are_enough(count_max))
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
                self.context.thread.counters.protocol_errors.add(1);
                return Err(End::Peer);
            }
            let (spec, operation) = Operation::read(arguments);
            let is_last = operation.ends_the_connection();
            specs.push(spec);
            operations.push(operation);
            // Commands after QUIT are not run.
            if is_last {
                break;
            }
        }
        let mut run = Run {
            context: &self.context,
            session: &mut self.session,
            outlet: &mut self.outlet,
            operations: &operations,
            requests: (input, commands),
            arrived_at,
        };
        run_batch(&mut run, specs, keys).await
    }

    fn refuse(&mut self, error: ProtocolError) {
        self.context.thread.counters.protocol_errors.add(1);
        self.writer().error(&format!("ERR Protocol error: {error}"));
    }

    fn writer(&mut self) -> ReplyWriter<'_> {
        ReplyWriter {
            protocol: self.session.protocol,
            output: self.outlet.output(),
        }
    }

    /// Ends the sending side and discards the bytes that the client still sends: a socket that is closed with unread
    /// data resets the connection, and the last reply would be lost.
    async fn linger(&mut self) -> Result<(), End> {
        self.outlet.shut_down();
        let mut discarded = 0;
        while discarded < LINGER_SIZE_MAX {
            self.outlet.readable().await?;
            let old = self.input.len();
            self.input.consume(old);
            if self.input.capacity() == 0 {
                self.input.resize(GUARANTEED)?;
            }
            match self.outlet.read(&mut self.input)? {
                Moved::Bytes(size) => discarded += size,
                Moved::Nothing => {}
                Moved::End => break,
            }
        }
        Ok(())
    }

    /// Ends the connection and gives its memory back, after a turn: unmapping much memory takes time.
    async fn close(mut self) {
        self.outlet.close();
        self.outlet.note_work(self.input.capacity());
        self.outlet.wait_if_late().await;
    }
}

/// Bytes that a batch takes beside its request.
fn batch_size_of(commands: &Commands) -> usize {
    batch_size(commands.len(), commands.argument_count())
}

/// Returns whether a command is a line of an HTTP request, as a tricked browser sends.
fn is_http(arguments: Arguments<'_>) -> bool {
    let name = arguments.at(0);
    name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"Host:")
}
