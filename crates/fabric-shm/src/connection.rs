//! An established connection: the area that both ends write, the peer's memory, bell and append queue.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_fabric::{DisconnectCause, QueuePairOptions};
use stonecast_media::{MappedRegion, Region, Sealing, Writable};

use crate::announcement::{Announcement, Inside, has_left, look};
use crate::append::{AppendLayout, Reservation};
use crate::bell::{self, Bell};
use crate::clock;
use crate::control::Line;
use crate::doorbell;
use crate::key_table::is_key_table;
use crate::layout::{AREA_SIZE, BELL_SIZE, Direction, KEY_TABLE_SIZE, SLEEPING};
use crate::message::{Hello, Message};
use crate::peer_memory::{PeerMemory, Wanted};
use crate::primitive::Memory;
use crate::ring::{Consumer, Producer};
use crate::socket;

/// The reasons of the responder for not taking the entry at the head of a ring. In shared memory; 0 is none.
const VERDICT_INVALID: u64 = 1;
const VERDICT_NO_BUFFER: u64 = 2;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) line: Line,
    pub(crate) area: Rc<MappedRegion>,
    /// The direction in which this side requests.
    pub(crate) out: Direction,
    /// The direction in which the peer requests.
    pub(crate) inward: Direction,
    pub(crate) producer: Producer,
    pub(crate) consumer: Consumer,
    pub(crate) announcement: Announcement,
    pub(crate) memory: PeerMemory,
    pub(crate) peer: PeerQueuePair,
    /// The queue to which messages to the peer are appended.
    pub(crate) append: Option<PeerAppend>,
    /// The peer's bell; without one the peer's control thread is asked.
    bell: Option<MappedRegion>,
    end: End,
}

/// The peer's queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerQueuePair {
    pub(crate) handle: u32,
    /// The number of times that the peer lets its sends be refused, and the pause between them.
    pub(crate) rnr_retry_count: u32,
    pub(crate) rnr_retry_delay_ns: u64,
}

/// The end of the peer's requests.
#[derive(Debug, Default)]
struct End {
    /// Whether the other end is gone.
    is_gone: bool,
    /// Set when the program has asked for quiet.
    quiescing: Option<Quiescing>,
}

impl End {
    /// Whether no request of the peer lands any more.
    fn is_final(&self) -> bool {
        let is_quiet = self
            .quiescing
            .is_some_and(|quiescing| quiescing.inside.is_none());
        self.is_gone || is_quiet
    }
}

/// A connection that honours no request, and the requester that was inside when that was announced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quiescing {
    pub(crate) since: Nanoseconds,
    pub(crate) inside: Option<Inside>,
}

/// The append queue of a peer.
#[derive(Debug)]
pub(crate) struct PeerAppend {
    pub(crate) layout: AppendLayout,
    pub(crate) memory: MappedRegion,
    /// Room for the message at the front while its region is being fetched.
    pub(crate) reservation: Option<Reservation>,
}

/// The reason why the responder permanently refused an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Longer than its buffer.
    Invalid,
    /// No buffer arrived within the retries.
    NoBuffer,
}

/// The parts that one side hands to the other: descriptors in the order of the protocol.
pub(crate) struct Offer<'a> {
    pub(crate) hello: Hello,
    pub(crate) descriptors: Vec<BorrowedFd<'a>>,
}

impl<'a> Offer<'a> {
    /// The hello of a device to a peer. Only peers of the same user get writable descriptors.
    pub(crate) fn new(
        queue_pair: u32,
        options: &QueuePairOptions,
        private_data: &[u8],
        keys: &'a MappedRegion,
        own_bell: &'a Bell,
        append: Option<(AppendLayout, &'a MappedRegion)>,
        same_user: bool,
    ) -> Self {
        let mut descriptors = vec![keys.file()];
        if same_user {
            descriptors.push(own_bell.memory().file());
            descriptors.extend(append.map(|(_, memory)| memory.file()));
        }
        let hello = Hello {
            queue_pair,
            rnr_retry_count: options.rnr_retry_count,
            rnr_retry_delay_ns: options.rnr_retry_delay_ns,
            bell: same_user,
            append: append.map(|(layout, _)| layout).filter(|_| same_user),
            private_data: private_data.to_vec(),
        };
        Self { hello, descriptors }
    }
}

/// Memory for a new connection.
pub(crate) fn create_area() -> io::Result<MappedRegion> {
    MappedRegion::create_memory("stonecast-connection", AREA_SIZE, Sealing::None)
}

/// Opens the memory of a connection that a peer made.
pub(crate) fn open_area(file: OwnedFd) -> io::Result<MappedRegion> {
    open(file, AREA_SIZE, Writable::Yes)
}

/// Maps memory of a peer that cannot be truncated afterwards.
fn open(file: OwnedFd, size: u64, writable: Writable) -> io::Result<MappedRegion> {
    let memory = MappedRegion::map(file, 0, size, writable)?;
    if memory.cannot_shrink() {
        Ok(memory)
    } else {
        Err(wrong("the peer offers memory that it can truncate"))
    }
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A connection before its line is known.
pub(crate) struct Prepared(Box<dyn FnOnce(Line) -> Connection>);

impl Prepared {
    /// The connection.
    pub(crate) fn established(self, line: Line) -> Connection {
        (self.0)(line)
    }
}

impl Connection {
    /// Checks and maps the offer of a peer: `hello` and `descriptors` (without the area). `is_caller` tells which side
    /// this is.
    pub(crate) fn prepare(
        area: MappedRegion,
        is_caller: bool,
        same_user: bool,
        hello: &Hello,
        descriptors: Vec<OwnedFd>,
    ) -> io::Result<Prepared> {
        let (out, inward) = match is_caller {
            true => (Direction::CONNECTING, Direction::ACCEPTING),
            false => (Direction::ACCEPTING, Direction::CONNECTING),
        };
        let mut descriptors = descriptors.into_iter();
        let mut next = || {
            descriptors
                .next()
                .ok_or_else(|| wrong("the peer left out a descriptor"))
        };
        let table = open(next()?, KEY_TABLE_SIZE, Writable::No)?;
        if !is_key_table(&table) {
            return Err(wrong("the peer's key table is not a key table"));
        }
        let bell = if hello.bell {
            Some(open(next()?, BELL_SIZE, Writable::Yes)?)
        } else {
            None
        };
        let append = match hello.append {
            Some(layout) => {
                let size = layout
                    .size()
                    .ok_or_else(|| wrong("the peer's append queue has an impossible shape"))?;
                Some(PeerAppend {
                    layout,
                    memory: open(next()?, size, Writable::Yes)?,
                    reservation: None,
                })
            }
            None => None,
        };
        // A caller chose the peer to trust with the life of its mappings; a called side trusts its own user.
        let memory = PeerMemory::new(table, hello.queue_pair, is_caller || same_user);
        let peer = PeerQueuePair {
            handle: hello.queue_pair,
            rnr_retry_count: hello.rnr_retry_count,
            rnr_retry_delay_ns: hello.rnr_retry_delay_ns,
        };
        Ok(Prepared(Box::new(move |line| Self {
            line,
            area: Rc::new(area),
            out,
            inward,
            producer: Producer::new(out.ring()),
            consumer: Consumer::new(inward.ring()),
            announcement: Announcement::new(out.announcement()),
            memory,
            peer,
            append,
            bell,
            end: End::default(),
        })))
    }

    /// Wakes the peer if it sleeps and waits for one of these reasons.
    pub(crate) fn wake(&self, reasons: u64) {
        if !doorbell::must_wake(self.memory.page(), SLEEPING, reasons) {
            return;
        }
        match &self.bell {
            Some(bell) => bell::ring(bell),
            // A peer whose socket is full has enough wake-ups pending.
            None => self.say(&Message::Wake),
        }
    }

    /// Asks for a region. If the peer takes no packets at this moment, the next attempt asks again.
    pub(crate) fn want(&mut self, wanted: Wanted) {
        let message = Message::RegionWanted {
            region: wanted.region,
            writable: wanted.writable,
        };
        if socket::send(&self.line.socket, &message.encode(), &[]).is_err() {
            self.memory.not_asked(wanted);
        }
    }

    /// Tells the peer that this side ends the connection.
    pub(crate) fn say_goodbye(&self, cause: DisconnectCause) {
        self.say(&Message::Disconnect(cause));
    }

    /// A message that cannot be sent goes to a peer that is dead or does not read; the hang-up reports a death.
    fn say(&self, message: &Message) {
        let _ = socket::send(&self.line.socket, &message.encode(), &[]);
    }

    /// The peer's reason for refusing the entry at the head of the ring of this end.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        match Region::load(&*self.area, self.out.verdict()) {
            0 => None,
            VERDICT_NO_BUFFER => Some(Verdict::NoBuffer),
            _ => Some(Verdict::Invalid),
        }
    }

    /// Tells the peer the reason for refusing the entry at the head of its ring.
    pub(crate) fn pronounce(&self, verdict: Verdict) {
        let word = match verdict {
            Verdict::Invalid => VERDICT_INVALID,
            Verdict::NoBuffer => VERDICT_NO_BUFFER,
        };
        Region::store(&*self.area, self.inward.verdict(), word);
    }

    /// Whether the peer honours no request. Checked while announced.
    pub(crate) fn peer_has_closed(&self) -> bool {
        Region::load(&*self.area, self.inward.closed()) != 0
    }

    /// Honours no request from this point, and returns whether the peer is in the middle of an operation.
    pub(crate) fn close(&self) -> Option<Inside> {
        Region::store(&*self.area, self.out.closed(), 1);
        self.area.full_fence();
        self.inside()
    }

    /// Closes the connection, or checks again the requester that was inside at the close. `None`: no request of the
    /// peer lands from this point.
    pub(crate) fn quiesce(&mut self) -> Option<Quiescing> {
        let mut quiescing = self.end.quiescing.unwrap_or_else(|| Quiescing {
            since: clock::now(),
            inside: self.close(),
        });
        let word = self.inward.announcement();
        quiescing.inside = quiescing.inside.filter(|&inside| {
            let is_awaited = !self.end.is_gone && !has_left(&*self.area, word, inside);
            is_awaited && !mutant!(InsideNotAwaited)
        });
        self.end.quiescing = Some(quiescing);
        quiescing.inside.map(|_| quiescing)
    }

    /// Whether a request of the peer may still land.
    pub(crate) fn may_land(&self) -> bool {
        !self.end.is_final()
    }

    /// Room for the message at the front.
    pub(crate) fn reserved(&self) -> Option<Reservation> {
        self.append.as_ref()?.reservation
    }

    /// Notes the room for the message at the front.
    pub(crate) fn hold(&mut self, reservation: Option<Reservation>) {
        let append = self.append.as_mut().expect("the caller appends");
        append.reservation = reservation;
    }

    /// Notes that the other end is gone.
    pub(crate) fn note_gone(&mut self) {
        self.end.is_gone = true;
    }

    /// Whether the peer is in the middle of an operation. A verdict and a full fence come before. A quiet peer that
    /// enters again finds the connection closed and touches nothing, however long it stays.
    pub(crate) fn inside(&self) -> Option<Inside> {
        self.may_land()
            .then(|| look(&*self.area, self.inward.announcement()))
            .flatten()
    }
}
