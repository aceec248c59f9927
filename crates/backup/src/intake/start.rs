//! The beginning of an intake, and the terms that it states to its peers.

use std::rc::Rc;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::Nonce;
use stonecast_fabric::append::AppendOptions;
use stonecast_fabric::{Access, Inbox, MemoryRegion, Port, RemoteAddress, Rkey};
use stonecast_log::{LogFormat, SegmentState, UNIT_SIZE, first_unit};
use stonecast_media::{Durability, Means, PersistentRegion};
use stonecast_persist::execute::{Agreement, AppendReceiver, RECEIVING_SIZE, Receiving};
use stonecast_persist::{Platform, Step};
use stonecast_replication::AppendKey;
use stonecast_session::{Listener, Queues};

use super::credit::Window;
use super::error::{EndCause, IntakeError};
use super::gate::Gate;
use super::medium::Medium;
use super::room::Room;
use super::session::{Session, Stage};
use super::space::Space;
use super::streams::Streams;
use super::{Arrivals, Health, Intake, Outbox, Searching};
use crate::entries::Entries;
use crate::ledger::SharedLedger;

/// The pool that entries land in, as recovery found the pool.
pub struct Pool {
    /// The log of the pool.
    pub region: Rc<dyn PersistentRegion>,
    /// The log as peers get it, to append to it.
    pub appended: Rc<dyn PersistentRegion>,
    /// The facts of the log.
    pub format: LogFormat,
    /// The two random words of the append key.
    pub key: [u64; 2],
    /// The newest ledger, which the store above may share.
    pub ledger: SharedLedger,
    /// The segments that appends filled in earlier runs. No peer appends to them any more: the intake finds their
    /// entries again, and then uses the segments again.
    pub segments: Vec<SegmentState>,
    /// Whether no peer of an earlier run can still write to the log, by
    /// [`AppendedLog::are_earlier_gone`](stonecast_media::AppendedLog::are_earlier_gone): over shared memory a peer
    /// that stopped inside a write may have outlived the run.
    pub earlier_writers_are_gone: bool,
}

/// Options of an intake.
#[derive(Clone, Copy, Debug)]
pub struct IntakeOptions {
    /// Nonce of the cluster's configuration.
    pub nonce: Nonce,
    /// Counts the starts of this node: connections of different runs have different numbers, unless the node gives
    /// another begin ([`Intake::number_from`]).
    pub run: u32,
    /// The declared platform of the memory.
    pub platform: Platform,
    /// The failure that entries have to outlive.
    pub durability: Durability,
    /// The most sessions, including sessions that are ending.
    pub sessions_max: usize,
    /// The number of segments that are posted at any time.
    pub ahead: usize,
    /// Bytes of the longest entry that one message brings. Longer records come in pieces.
    pub entry_size_max: u32,
    /// Bytes of the entries that one session may have under way.
    pub window_size: u64,
    /// The pace of the search.
    pub pace: Pace,
    /// The pause before the intake asks a peer that may still write again.
    pub ask_again_ns: Nanoseconds,
    /// The number of retries of a notice while its peer has no receive buffer. After the last retry the session ends.
    pub rnr_retry_count: u32,
    /// The pause before each such retry.
    pub rnr_retry_delay_ns: Nanoseconds,
}

/// The pace of the search for entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The number of units of each segment that a look examines, at most.
    pub units: u32,
    /// The most of these units that have no entry, apart from the place after the last entry, while no caller waits
    /// for the end of the search.
    pub open_units: u32,
    /// The pause between two steps of the search while no caller waits for its end: a later step finds more entries
    /// with the same waits for the medium. Senders that wait for answers wait for the search, so the search then makes
    /// no pause. Entries of a pause should not use up a window.
    pub pause_ns: Nanoseconds,
}

impl Pace {
    /// The same pace at all times.
    pub fn even(units: u32) -> Self {
        Self {
            units,
            open_units: units,
            pause_ns: 0,
        }
    }
}

/// The facts that hold for all sessions.
pub(super) struct Terms {
    pub key: [u64; 2],
    pub first_connection: u64,
    pub sessions_max: usize,
    pub pace: Pace,
    pub ask_again_ns: Nanoseconds,
    pub window: Window,
    pub queues: Queues,
    /// Whether the plan has answers.
    pub answers: bool,
    /// Whether the plan has READs. For READs each peer gets a window.
    reads: bool,
    receiving: Receiving,
    means: Means,
    registered: MemoryRegion,
}

/// The size of a READ of the plan, which may name any bytes of the memory that entries land in. The READs name the
/// header of the log's first segment, which is no secret.
const READ_SIZE: u64 = 8;

impl Intake {
    /// Takes appends on `port`, whose owner hands on the requests to connect ([`Intake::hear`]). The port holds the
    /// completions of all sessions: a notice each, and on a device that packs no messages a receive for each slot of
    /// the posted segments.
    ///
    /// # Errors
    /// [`IntakeError`]: no entry survives here, or the memory is not as declared, or the options contradict each other.
    pub fn start(
        port: &Rc<Port>,
        pool: Pool,
        options: &IntakeOptions,
    ) -> Result<Self, IntakeError> {
        let (platform, durability) = (&options.platform, options.durability);
        let device = port.device();
        let receiver = AppendReceiver::new(pool.region.clone(), platform, durability)?;
        let medium = Medium::new(pool.region, pool.format, (platform, durability))?;
        // Peers place entries without a remote key, and a key of the region would open all of the log.
        let registered = device.register_persistent(pool.appended, Access::NONE)?;
        let buffer_units = pool.format.segment_units() - first_unit(&pool.format);
        let room = Room::new(
            device,
            AppendOptions {
                buffers: options.ahead as u32,
                buffer_size_max: buffer_units * UNIT_SIZE as u32,
                grain: UNIT_SIZE as u32,
                message_size_max: options.entry_size_max.next_multiple_of(UNIT_SIZE as u32),
            },
        )?;
        let terms = Terms::new((port, &medium, registered), &room, options, pool.key)?;
        let entries = Entries::of(AppendKey::new(pool.key, options.nonce));
        let trusts = pool.earlier_writers_are_gone || mutant!(EarlierWritersTrusted);
        let left = (pool.ledger, &*pool.segments, trusts);
        let inbox = Rc::new(Inbox::new(port));
        Ok(Self {
            port: port.clone(),
            arrivals: Arrivals {
                listener: Listener::new(&inbox),
                inbox,
            },
            gate: Gate::new(options.nonce),
            sessions: Default::default(),
            streams: Streams::default(),
            space: Space::new((medium, registered), entries, options.ahead, left),
            room,
            receiver,
            terms,
            outbox: Outbox::default(),
            searching: Searching::default(),
            health: Health::default(),
        })
    }
}

impl Terms {
    fn new(
        (port, medium, registered): (&Rc<Port>, &Medium, MemoryRegion),
        room: &Room,
        options: &IntakeOptions,
        key: [u64; 2],
    ) -> Result<Self, IntakeError> {
        let append = room.terms();
        let longest = append.cost(options.entry_size_max);
        let window = options.window_size / u64::from(append.grain);
        if window < longest {
            return Err(IntakeError::WindowTooSmall { window, longest });
        }
        let windows = window.saturating_mul(options.sessions_max as u64);
        let behind = options.ahead.saturating_sub(1) as u64;
        let room = behind.saturating_mul(room.room_of_buffer());
        if room < windows {
            return Err(IntakeError::RoomTooSmall { windows, room });
        }
        let nowhere = RemoteAddress {
            address: 0,
            rkey: Rkey(0),
        };
        let receiving = Receiving {
            platform: options.platform,
            durability: options.durability,
            terms: append,
            flush: nowhere,
        };
        let means = medium.means();
        // The terms are checked before the first session.
        let said = receiving.say(means, port.device().placing())?;
        let agreement = Agreement::hear(&said, options.durability);
        let agreement = agreement.expect("a receiver agrees with itself");
        let plan = agreement.plan();
        Ok(Self {
            key,
            first_connection: u64::from(options.run) << 32,
            sessions_max: options.sessions_max,
            pace: options.pace,
            ask_again_ns: options.ask_again_ns,
            window: Window::new(window, longest),
            queues: Queues {
                send_capacity: 2,
                receive_capacity: 1,
                shared_receive_queue: None,
                windows: false,
                rnr_retry_count: options.rnr_retry_count,
                rnr_retry_delay_ns: options.rnr_retry_delay_ns,
            },
            answers: !plan.is_one_sided(),
            reads: plan.steps().contains(&Step::Read),
            receiving,
            means,
            registered,
        })
    }

    /// Gives the peer of an established session its window, and tells the peer the terms of this backup.
    pub fn begin(&self, port: &Rc<Port>, session: &mut Session) {
        if !matches!(session.stage, Stage::Accepted) {
            return;
        }
        match self.say(port, session) {
            Ok(said) => {
                session.notices.begin(said);
                session.stage = Stage::Open;
            }
            Err(error) => session.end(EndCause::Notice(error.to_string())),
        }
    }

    fn say(&self, port: &Rc<Port>, session: &Session) -> Result<[u8; RECEIVING_SIZE], IntakeError> {
        let (device, memory) = (port.device(), self.registered);
        let mut receiving = self.receiving;
        if self.reads {
            let rkey = device.bind_window(session.qp, memory, 0, READ_SIZE, Access::REMOTE_READ)?;
            receiving.flush = RemoteAddress {
                address: memory.address,
                rkey,
            };
        }
        Ok(receiving.say(self.means, device.placing())?)
    }
}
