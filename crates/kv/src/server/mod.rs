//! The server: opens a pool, accepts clients, commits what they write.
//!
//! ```text
//!   open    checkpoint, scan, seal            recovery.rs
//!   run     events  -> sessions, leases       session/
//!           arrivals -> one batch -> persist -> publish -> answers      batch.rs
//!   close   seal, checkpoint, clean flag      these two not while somebody may be publishing yet
//! ```
//!
//! One task does everything in turn, so between two batches the state is at rest: index, segments and log agree.

mod batch;
mod clean;
mod decide;
mod growth;
pub(crate) mod outcomes;
mod peek;
mod places;
mod publish;
mod publishers;
mod receives;
pub(crate) mod recovery;
mod session;
pub(crate) mod space;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use stonecast_base::{Nanoseconds, Span};
use stonecast_fabric::{
    Access, ConnectionEvent, DeviceError, MemoryRegion, Port, QueuePair, Runtime,
};
use stonecast_log::LogFormat;
use stonecast_media::{
    Backing, Blob, Durability, Means, MediaError, PersistCounts, PersistentRegion, Pool,
};
use stonecast_persist::Persisted;
use stonecast_persist::execute::Commit;
use stonecast_session::Revocations;

use crate::error::StoreError;
use crate::index::{Index, Table};
use crate::metrics::{ClientPath, Metrics, PathMetrics};
use crate::server::outcomes::Outcomes;
use crate::server::recovery::Recovered;
use crate::server::recovery::checkpoint;
use crate::server::space::Space;
use crate::stat::{Counters, Stat};
use crate::wire::Verdict;

use batch::Batch;
use clean::Cleaner;
use growth::SharedTable;
pub use places::Places;
use publishers::{Ring, Sequences};
use receives::Receives;
pub use recovery::RecoveryReport;
pub use recovery::verify::{Verification, verify};
use session::{Leased, PUMPS_MAX, Sessions};

/// Who may write into the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientPolicy {
    /// Clients of the server's own user write their records to the final place, unless the log is a file that is synced;
    /// others through staging memory.
    Trusted,
    /// Like trusted; those that write their records to the final place also publish their overwrites themselves. For pools that
    /// survive processes alone.
    Publishing,
    /// Everybody writes through staging memory, and the server copies.
    Copying,
}

/// How to serve.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// Who may write into the log.
    pub clients: ClientPolicy,
    /// How many clients there may be.
    pub places: Places,
    /// Process number of the server, for reports; 0 where it has none.
    pub process: u32,
}

impl ServerOptions {
    /// Whether trusted clients may publish overwrites themselves.
    fn publishes(&self) -> bool {
        self.clients == ClientPolicy::Publishing
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            clients: ClientPolicy::Trusted,
            places: Places::default(),
            process: 0,
        }
    }
}

/// How [`Server::close`] left the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// In good order: the next opening takes the checkpoint.
    Clean,
    /// As a killed server leaves it, because a client was stopped in the middle of a publication and may go on: all that was
    /// acknowledged is there, the next opening waits for that client and reads the log.
    Unclean,
}

/// A server of one pool. See the module documentation.
pub struct Server {
    port: Rc<Port>,
    runtime: Rc<dyn Runtime>,
    options: ServerOptions,
    format: LogFormat,
    log: Rc<dyn PersistentRegion>,
    /// What is done between the receipt of a write and its answer.
    commit: Commit,
    log_region: MemoryRegion,
    receives: Receives,
    pool: Pool,
    state: RefCell<State>,
    serving: Cell<bool>,
    /// What clients lose, until nothing opens it any more.
    revocations: Revocations<Leased>,
    /// Clients that have to ask anew before they publish again.
    idle_rights: RefCell<Vec<QueuePair>>,
    /// Whether clients have published since the server last looked.
    intents_seen: Cell<bool>,
    /// Somebody was told to wait for room that is leased to others: the next who writes to a lease is asked to return his.
    lease_wanted: Cell<bool>,
    /// What whoever runs the server is to be told.
    trouble: RefCell<Noted<MediaError>>,
    /// Why clients were not accepted, as far as it is no fault of theirs.
    not_accepted: RefCell<Noted<DeviceError>>,
    /// Rights to publish were taken from a client that was stopped inside a publication, and may finish it at any time.
    may_be_publishing: Cell<bool>,
}

/// The latest trouble of a kind, for whoever runs the server.
struct Noted<T> {
    latest: Option<T>,
    /// When it was noted; the next one is not, for a while.
    noted_at: Option<Nanoseconds>,
}

impl<T> Noted<T> {
    fn note(&mut self, now: Nanoseconds, trouble: T) {
        let passed = self.noted_at.map(|then| now.saturating_sub(then));
        if passed.is_none_or(|passed| passed >= TROUBLE_AGAIN_NS) {
            self.noted_at = Some(now);
            self.latest = Some(trouble);
        }
    }
}

impl<T> Default for Noted<T> {
    fn default() -> Self {
        Self {
            latest: None,
            noted_at: None,
        }
    }
}

/// What changes while serving.
struct State {
    index: Index,
    /// The tables that clients may read, the current one last.
    tables: Vec<SharedTable>,
    /// No larger index is made before: there was no memory for one.
    growth_pause_until: Nanoseconds,
    outcomes: Outcomes,
    space: Space,
    cleaner: Cleaner,
    sequences: Sequences,
    /// Where clients take sequences from, if they may.
    counter: Option<MemoryRegion>,
    /// What clients that publish report.
    rings: Vec<Rc<Ring>>,
    live_bytes: u64,
    sessions: Sessions,
    /// Segment that the server itself appends puts of copying clients to.
    own_put: Option<u32>,
    /// Segment that the server appends deletes to.
    own_delete: Option<u32>,
    /// Written, but not yet part of a persist: headers of newly taken segments.
    unpersisted: Vec<Span>,
    counters: Counters,
    /// By path.
    paths: [PathMetrics; ClientPath::ALL.len()],
    /// What a batch and a persist took lately, to decide how long waiting for company pays.
    last_batch: usize,
    persist_ns: Nanoseconds,
}

impl State {
    /// The number that goes with a verdict on a write that is not done for want of room: what is live, where that is why.
    fn number_with(&self, verdict: Verdict) -> u64 {
        match verdict {
            Verdict::NoSpace => self.live_bytes,
            _ => 0,
        }
    }
}

/// How often a closing server looks whether all revocations are through.
const RETIRE_LOOK_NS: Nanoseconds = 20_000;
/// How often an idle server looks whether it should stop.
const STOP_CHECK_NS: Nanoseconds = 20_000_000;
/// How long clients have to take the last answers of a server that cannot go on.
const LAST_ANSWERS_NS: Nanoseconds = 5_000_000;
/// How long an idle server waits while clients publish: they report much less than a ring holds until then.
const PUBLISHED_PAUSE_NS: Nanoseconds = 1_000_000;
/// The next failure of the medium to give space is told after so long.
const TROUBLE_AGAIN_NS: Nanoseconds = 60_000_000_000;
/// How long an idle server waits while the index grows, segments are cleaned or leases end: the rest of the processor is for
/// others.
const PAUSE_NS: Nanoseconds = 20_000;

impl Server {
    /// Recovers the pool and makes it ready to serve. Nothing is visible to clients before it returns; a crash inside
    /// leaves a pool that opens the same way again.
    pub async fn open(
        mut pool: Pool,
        port: Rc<Port>,
        runtime: Rc<dyn Runtime>,
        options: ServerOptions,
    ) -> Result<(Self, RecoveryReport), StoreError> {
        let device = port.device().clone();
        if options.publishes()
            && let Some(reason) = Self::publishing_refusal(
                pool.durability(),
                device.capabilities().atomic_with_processor,
            )
        {
            return Err(StoreError::Publication { reason });
        }
        Self::wait_for_publishers(&pool, &runtime).await?;
        let log = pool.log();
        let commit = Commit::choose(pool.platform(), pool.durability(), log.means())?;
        let (recovered, report) = recovery::recover(&pool, &commit, options.publishes()).await?;
        mark_open(&mut pool, options, &recovered.sealed)?;
        let Recovered {
            format,
            mut index,
            space,
            outcomes,
            next_sequence,
            live_bytes,
            sealed: _,
        } = recovered;
        let sequences = Sequences(
            pool.backing()
                .volatile_for_all("stonecast-sequence", Sequences::SIZE)?,
        );
        sequences.0.store(0, next_sequence);
        let counter = match options.publishes() {
            true => {
                index.share();
                Some(device.register(sequences.0.clone(), Access::NONE)?)
            }
            false => None,
        };
        // Opened by windows alone, to one client each.
        let log_region = device.register_persistent(log.clone(), Access::NONE)?;
        let table = SharedTable {
            number: 0,
            region: device.register(index.table().memory().clone(), Access::NONE)?,
        };
        let receives = Receives::new(&*device)?;
        space.prepare_ahead();
        let cleaner = Cleaner::new(space.heritage());
        let server = Self {
            revocations: Revocations::new(port.clone(), runtime.clone(), PUMPS_MAX),
            port,
            runtime,
            options,
            format,
            log,
            commit,
            log_region,
            receives,
            pool,
            state: RefCell::new(State {
                index,
                tables: vec![table],
                growth_pause_until: 0,
                outcomes,
                space,
                cleaner,
                sequences,
                counter,
                rings: Vec::new(),
                live_bytes,
                sessions: Sessions::default(),
                own_put: None,
                own_delete: None,
                unpersisted: Vec::new(),
                counters: Counters::default(),
                paths: Default::default(),
                last_batch: 0,
                persist_ns: 0,
            }),
            serving: Cell::new(false),
            idle_rights: RefCell::default(),
            intents_seen: Cell::default(),
            lease_wanted: Cell::default(),
            trouble: RefCell::default(),
            not_accepted: RefCell::default(),
            may_be_publishing: Cell::default(),
        };
        Ok((server, report))
    }

    /// Serves until `stop` says so or a persist fails. After an error the pool must be closed by dropping the server and
    /// recovered by opening it again.
    pub async fn run(&self, stop: &dyn Fn() -> bool) -> Result<(), StoreError> {
        assert!(!self.serving.replace(true), "a server runs once at a time");
        let mut batch = Batch::default();
        let result = loop {
            if stop() {
                break Ok(());
            }
            self.wait().await;
            self.take_events();
            self.take_revoked();
            self.intents_seen
                .set(self.drain_intents(&mut self.state.borrow_mut()));
            let served = match self.serve_batch(&mut batch).await {
                Ok(()) => self.tend_log().await,
                failed => failed,
            };
            if let Err(error) = served {
                // Nobody will answer who waits, however long this value lives. The last answers get there first.
                self.runtime.sleep(LAST_ANSWERS_NS).await;
                self.end_all_sessions();
                break Err(error);
            }
            self.tend_index(batch.operations());
        };
        let reposted = self.repost(&mut batch);
        self.serving.set(false);
        result.and(reposted)
    }

    /// Ends a server in good order: all connections end, what is written is sealed, the index is kept for the next
    /// opening. A crash inside costs only the checkpoint, and so does a medium without room for it: the pool is closed, and the
    /// next opening scans the log.
    ///
    /// Where a client was stopped inside a publication, and has not gone on in the time that the fabric gives it, the pool is left
    /// as a killed server leaves it: what that client publishes when it goes on counts, and the next server waits for it.
    pub async fn close(self) -> Result<Closing, StoreError> {
        self.end_all_sessions();
        while self.revocations.under_way() > 0 {
            self.runtime.sleep(RETIRE_LOOK_NS).await;
        }
        self.take_revoked();
        let state = self.state.into_inner();
        let mut space = state.space;
        let mut spans = state.unpersisted;
        spans.extend(space.seal_all(&*self.log));
        let sealed = self
            .commit
            .persist(&*self.log, &spans)
            .await
            .map_err(MediaError::from)?;
        if self.may_be_publishing.get() {
            // Nothing that was written down now would stay true, and a pool that is not clean makes the next server wait before it scans.
            return Ok(Closing::Unclean);
        }
        let bytes = checkpoint::encode(
            &self.format,
            &state.index,
            space.states(),
            &state.outcomes,
            state.sequences.next() - 1,
            state.live_bytes,
        );
        store_checkpoint(&*self.pool.backing(), &bytes, &sealed)?;
        self.pool.close()?;
        Ok(Closing::Clean)
    }

    /// Why the medium gave no space, for the messages of whoever runs the server: once, and again where that goes on for a minute.
    /// Clients are told what became of their writes.
    pub fn take_trouble(&self) -> Option<MediaError> {
        self.trouble.borrow_mut().latest.take()
    }

    /// Why a client was not accepted, where the server lacks what it needs for one: once, and again where that goes on for a
    /// minute. The client is told, too.
    pub fn take_refusal(&self) -> Option<DeviceError> {
        self.not_accepted.borrow_mut().latest.take()
    }

    fn note_trouble(&self, error: MediaError) {
        self.trouble.borrow_mut().note(self.runtime.now(), error);
    }

    /// A report of the server.
    pub fn stat(&self) -> Stat {
        let state = self.state.borrow();
        let [
            segments_free,
            segments_partial,
            segments_taken,
            segments_full,
        ] = state.space.counts();
        Stat {
            keys: state.index.len(),
            index_capacity: state.index.capacity(),
            live_bytes: state.live_bytes,
            used_bytes: state.space.used_bytes(),
            capacity_bytes: self.pool.capacity(),
            segments_free,
            segments_partial,
            segments_taken,
            segments_full,
            clients: state.sessions.len() as u64,
            opening: self.pool.opening().into(),
            sequence: state.sequences.next() - 1,
            puts: state.counters.puts,
            deletes: state.counters.deletes,
            refused: state.counters.refused,
            batches: state.counters.batches,
            persists: state.counters.persists,
            segment_size: self.format.segment_size,
            power: self.pool.durability() == Durability::Power,
            process: self.options.process.into(),
            index_bytes: Table::size(state.index.table().bits()),
            index_growths: state.counters.index_growths,
            space_failures: state.counters.space_failures,
        }
    }

    /// Everything that the server counts.
    pub fn metrics(&self) -> Metrics {
        let state = self.state.borrow();
        let mut paths = state.paths;
        state
            .sessions
            .iter()
            .for_each(|session| paths[session.path as usize].clients += 1);
        let [one_sided, gateway] = paths;
        let leases = state.sessions.leased().count() as u64;
        drop(state);
        let PersistCounts {
            write_backs,
            fences,
            syncs,
        } = self.log.persist_counts();
        Metrics {
            stat: self.stat(),
            one_sided,
            gateway,
            leases,
            write_backs,
            fences,
            syncs,
            cleaning: self.cleaning(),
        }
    }

    /// Waits for arrivals or events, a short while at most so that a stop is seen, and hardly at all while there is work.
    async fn wait(&self) {
        let has_work = self.state.borrow().index.is_growing()
            || self.is_cleaning()
            || self.revocations.under_way() > 0;
        let pause_ns = match has_work {
            true => PAUSE_NS,
            false if self.intents_seen.get() => PUBLISHED_PAUSE_NS,
            false => STOP_CHECK_NS,
        };
        // Whichever comes first.
        let _ = self.runtime.within(pause_ns, self.port.activity()).await;
    }

    fn take_events(&self) {
        while let Some(event) = self.port.take_event() {
            match event {
                ConnectionEvent::Request {
                    request,
                    peer,
                    private_data,
                } => {
                    let admitted = self.admit(request, &peer, &private_data);
                    // A client that vanished meanwhile needs no answer.
                    if let Err(error @ DeviceError::System { .. }) = admitted {
                        self.not_accepted
                            .borrow_mut()
                            .note(self.runtime.now(), error);
                    }
                }
                ConnectionEvent::Disconnected { qp, .. } => self.end_session(qp),
                ConnectionEvent::Established { .. } | ConnectionEvent::Rejected { .. } => {}
            }
        }
    }

    /// Whether a persist is a sync of a file, so that it pays to wait for more arrivals before.
    fn syncs_files(&self) -> bool {
        self.log.means() == Means::FileSync && self.pool.durability() == Durability::Power
    }
}

/// Marks the pool as in use. Takes the proof that what was found is sealed: a later opening believes the seals.
fn mark_open(pool: &mut Pool, options: ServerOptions, _: &Persisted) -> Result<(), MediaError> {
    pool.recovered()?;
    if options.publishes() {
        pool.let_clients_publish()?;
    }
    Ok(())
}

/// Stores a checkpoint if the medium has room for it, also in the place of the one before. Otherwise none is left, if the medium
/// has room for that, or else the one before, which the next opening judges as after a crash. Takes the proof that the seals, which
/// the checkpoint repeats, are durable.
fn store_checkpoint(backing: &dyn Backing, bytes: &[u8], _: &Persisted) -> Result<(), MediaError> {
    for attempt in [bytes, &[], bytes] {
        match backing.store(Blob::Checkpoint, attempt) {
            Ok(()) if !attempt.is_empty() => return Ok(()),
            Ok(_) | Err(MediaError::NoSpace { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
