//! The responder's half, which takes the entries that other nodes append to this node.
//!
//! ```text
//!   hear    hello --> session, or a refusal
//!   look    ends of sessions, what came back from the device, a step of the search, credits, notices      never waits
//!   settle  write back or sync what was found; then it is answered; a step of a segment to the device      waits for the medium
//!   take_found, take_ended
//! ```
//!
//! The store calls these in its loop. Nothing here has a task, a timer or a clock.

mod attention;
mod credit;
mod ending;
mod error;
mod gate;
mod holes;
mod medium;
mod notices;
mod room;
mod search;
mod session;
mod space;
mod start;
mod streams;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::Context;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::{Epoch, NodeName, Term};
use stonecast_fabric::append::AppendTerms;
use stonecast_fabric::{Inbox, Port};
use stonecast_log::{Heritage, Search, SegmentState};
use stonecast_persist::execute::AppendReceiver;
use stonecast_session::Listener;

use crate::ledger::SharedLedger;
use crate::stream::StreamName;
pub use attention::Attention;
pub use ending::Silence;
pub use error::{EndCause, IntakeError};
use gate::Gate;
pub use holes::Holes;
use room::Room;
use session::Session;
pub use space::Lent;
use space::Space;
use start::Terms;
pub use start::{IntakeOptions, Pace, Pool};
pub use streams::Found;
use streams::Streams;

/// An ended session: no entry of the session lands any more, and all landed entries were passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The node.
    pub peer: NodeName,
    /// Number of the connection.
    pub connection: u64,
    /// The cause of the end.
    pub cause: EndCause,
}

/// Takes the appends of other nodes, for a store that calls it in a loop.
pub struct Intake {
    port: Rc<Port>,
    arrivals: Arrivals,
    gate: Gate,
    sessions: BTreeMap<u64, Session>,
    streams: Streams,
    space: Space,
    room: Room,
    receiver: AppendReceiver,
    terms: Terms,
    /// Entries and ends that the store has not taken.
    outbox: Outbox,
    searching: Searching,
    health: Health,
}

/// The state of the medium and of the store.
#[derive(Default)]
struct Health {
    has_failed: bool,
    lacks_room: bool,
}

/// The reports of the device.
struct Arrivals {
    inbox: Rc<Inbox>,
    listener: Listener,
}

/// The search for entries.
#[derive(Default)]
struct Searching {
    /// The search for what had arrived when the device reported an arrival last.
    awaited: Option<Search>,
    /// The time before which no step is due.
    pause_until: Nanoseconds,
}

#[derive(Default)]
struct Outbox {
    found: Vec<Found>,
    ended: Vec<Ended>,
}

impl Intake {
    /// Begins the numbers of connections with `epoch`, that of the configuration in which this start of the node is
    /// registered, in place of the run. A pool that replaces a lost one counts its runs from one again, and peers that
    /// know later numbers of the node's name would take its connections for old ones. The store calls this before it
    /// allows the first peer.
    pub fn number_from(&mut self, epoch: Epoch) {
        self.terms.first_connection = epoch.0 << 32;
    }

    /// Tells all peers, with the next notice to each, whether the store has no room for more records than those that
    /// are on their way: see [`BackupLink::lacks_room`](crate::BackupLink::lacks_room). Says nothing of single entries,
    /// which are taken as long as there are credits.
    pub fn tell_room(&mut self, lacks_room: bool) {
        self.health.lacks_room = lacks_room;
    }

    /// Lets `peer` append here, beginning with its next hello.
    pub fn allow(&mut self, peer: NodeName) {
        self.gate.allow(peer);
    }

    /// Opens a stream. `peer` leads the shard of `stream` in the term of `stream`. This node's durable history of the
    /// shard ends at the version `after`; versions that cuts have voided do not count, since a later term stamps them
    /// again. The store calls this before the peer appends. An earlier stream of the shard and term is closed.
    ///
    /// A stream opens again under the same name when a history is adopted that goes on with its term: entries after
    /// `after` come once more. The next entries of a session follow those that it has sent. If the stream gives up some
    /// of them, the session ends ([`EndCause::Interrupted`]), and `peer` sends all of them by the next one.
    pub fn open_stream(&mut self, stream: StreamName, peer: NodeName, after: u64) {
        let given_up = self.streams.open(stream, peer, after);
        self.charge_dropped(&given_up.waiting);
        let session = given_up.interrupted.map(|by| self.sessions.get_mut(&by));
        if let Some(session) = session.flatten()
            && !mutant!(InterruptedGoesOn)
        {
            session.end(EndCause::Interrupted);
        }
    }

    /// Closes a stream: the term is over, or the shard has moved away. The primary learns of the close, and its link
    /// continues with other streams. Entries of the stream that are found later are strays.
    pub fn close_stream(&mut self, shard: u32, term: Term) {
        let dropped = self.streams.close(shard, term);
        self.charge_dropped(&dropped);
    }

    /// Gives the intake a blank segment for appends.
    pub fn lend(&mut self, lent: Lent) {
        self.space.lend(lent);
    }

    /// The number of segments that the intake needs beyond those that it can use again.
    pub fn segments_wanted(&self) -> usize {
        self.space.wanted()
    }

    /// Whether peers can append nothing before the store lends a segment.
    pub fn is_starved(&self) -> bool {
        self.space.is_starved()
    }

    /// The number of segments that could hold records again, or are on their way back: their entries are settled, and
    /// appends do not need the segments now.
    pub fn segments_spare(&self) -> usize {
        self.space.spare()
    }

    /// Asks for one segment back, with the log's memory of freed segments. [`Intake::settle`] turns a segment as soon
    /// as one is spare and the floors that settle its entries are durable elsewhere; until then, a further call asks
    /// for nothing more.
    pub fn ask_back(&mut self, heritage: Heritage) {
        self.space.ask_back(heritage);
    }

    /// The segments that went back since the last call. These segments are durably blank segments of records, and
    /// belong to the store.
    pub fn take_returned(&mut self) -> Vec<SegmentState> {
        self.space.take_returned()
    }

    /// The ledger of the pool, whose floors say which entries are old. A store raises a floor after it has durably
    /// written elsewhere everything that it needs below the floor.
    pub fn ledger(&self) -> &SharedLedger {
        self.space.ledger()
    }

    /// The cost of entries here.
    pub fn append_terms(&self) -> AppendTerms {
        self.room.terms()
    }

    /// The entries that were found since the last call: the entries of each stream in its order, each once; strays in
    /// the order in which they were found.
    pub fn take_found(&mut self) -> Vec<Found> {
        std::mem::take(&mut self.outbox.found)
    }

    /// The sessions that ended since the last call. [`Intake::take_found`] gives their entries out before.
    pub fn take_ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.outbox.ended)
    }

    /// The places in settled segments that hold no entry, for the operator of the node.
    pub fn holes(&self) -> Holes {
        self.room.holes()
    }

    /// Takes everything that has come, does a bounded step of the search, ends sessions that used more than they were
    /// given, gives credits and sends notices. Wakes `context` when a peer has become quiet as asked, and when a notice
    /// has arrived. The arrival of an entry wakes nothing.
    ///
    /// # Errors
    /// [`IntakeError::Failed`].
    pub fn look(&mut self, now: Nanoseconds, context: &mut Context<'_>) -> Result<(), IntakeError> {
        self.check()?;
        self.take_arrivals();
        self.step_ends(now, context);
        // An answer waits for the entry, so the entry wakes the owner.
        let waiter = self.terms.answers.then(|| context.waker().clone());
        self.search_if_due(now, waiter.as_ref());
        self.end_overdrawn();
        self.refill();
        self.send_notices(context);
        Ok(())
    }

    /// Makes found entries durable as the plan says, so that the next look answers. Takes a step towards the next
    /// segment that is wanted. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`IntakeError`]: the medium failed, and entries under way get no answer; or the device did not take the segment,
    /// and the next call offers the segment again.
    pub async fn settle(&mut self) -> Result<(), IntakeError> {
        self.check()?;
        let persisted = self.receiver.persist().await;
        self.judge(persisted.map_err(IntakeError::from))?;
        self.streams.note_durable();
        let turned = self.space.turn(&mut self.room).await;
        self.judge(turned)
    }

    fn check(&self) -> Result<(), IntakeError> {
        match self.health.has_failed {
            true => Err(IntakeError::Failed),
            false => Ok(()),
        }
    }

    /// Passes a result on. After a failure of the medium, the intake no longer trusts the medium.
    fn judge<T>(&mut self, result: Result<T, IntakeError>) -> Result<T, IntakeError> {
        self.health.has_failed |= result.as_ref().is_err_and(IntakeError::is_of_medium);
        result
    }

    /// Gives the free credits to the sessions that have least.
    fn refill(&mut self) {
        let open = self
            .sessions
            .values_mut()
            .filter(|session| session.is_open());
        let mut open: Vec<&mut Session> = open.collect();
        open.sort_by_key(|session| session.window.held());
        for session in open {
            self.room.refill(session.qp, &mut session.window);
        }
    }

    fn send_notices(&mut self, context: &mut Context<'_>) {
        let Self {
            sessions, streams, ..
        } = self;
        for session in sessions.values_mut().filter(|session| session.is_open()) {
            let sent = session.notices.is_busy(context).and_then(|is_busy| {
                if is_busy {
                    return Ok(());
                }
                let rows = streams.take_news(&session.peer, self.terms.answers);
                let way = (&self.port, session.qp);
                let state = (session.window.granted(), self.health.lacks_room);
                session.notices.send(way, state, rows, context)
            });
            if let Err(reason) = sent {
                session.end(EndCause::Notice(reason));
            }
        }
    }
}

impl Drop for Intake {
    /// Posted segments belong to the device until the device is gone.
    fn drop(&mut self) {
        for session in std::mem::take(&mut self.sessions).into_values() {
            stonecast_session::close(&self.port, session.qp, [session.memory]);
        }
    }
}
