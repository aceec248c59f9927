//! The server: opens a pool, accepts clients, and commits their writes.
//!
//! ```text
//!   open    checkpoint, scan, seal                                            recovery/
//!   run     events -> clients; then one batch; then cleaning and growth
//!   close   seal, checkpoint, clean flag      the last two not while a client may still publish
//! ```
//!
//! Each component owns its state:
//!
//! | component | owns | file |
//! | --- | --- | --- |
//! | [`Pipeline`] | a batch on its way: gather, decide, persist, publish, answer | `pipeline/` |
//! | [`Shards`] | the keys, each in its shard: index and its tables, outcomes, live bytes | `shards.rs`, `shard/` |
//! | [`Journal`] | the node's log: space, sequence, spans that await a persist | `journal.rs`, `space/` |
//! | [`Clients`] | connections: sessions, leases, rights, their ends | `clients/` |
//! | [`ServerTime`] | the time with which the expiry of keys is compared | `time/` |
//! | [`Expiries`] | the moments of keys that expire | `expiries.rs` |
//! | [`Cleaner`] | the segment that is being cleaned; [`Sweeper`] takes its steps | `clean/` |
//! | [`Committer`] | the plan that makes the log durable | `commit.rs` |
//! | [`Keeper`](keeper::Keeper) | in a pool of a cluster: the ledger, which says what counts of the log | `keeper.rs` |
//! | [`NodeState`] | in a node: calls that wait for copies, records of other nodes on their way | `node/` |
//!
//! A server is alone, or a node of a cluster ([`Server::join`]). A node has tasks of its own, which call the store
//! (`node/store.rs`). One task does all other steps in turn, so between two batches the state is at rest: index,
//! segments and log agree. A rule of one component is a method of that component. A rule over several components is a
//! function that takes [`State`], in a file without a component: `state.rs` imports the components, so none of them may
//! import `state.rs`. No rule waits. Pipeline and sweeper wait, and borrow the state for one step at a time.

mod attendant;
mod clean;
mod clients;
mod commit;
mod expiries;
mod journal;
mod keeper;
mod kept;
mod leads;
mod node;
mod noted;
mod options;
mod pipeline;
pub(crate) mod recovery;
mod removal;
mod report;
mod settling;
pub(crate) mod shard;
mod shards;
mod shortage;
pub(crate) mod space;
mod state;
mod time;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::EpochCell;
use stonecast_fabric::{Access, Bell, Boxed, DeviceError, Port, Runtime, select};
use stonecast_lineage::{Epoch, Term};
use stonecast_log::{History, LogFormat, SegmentState, check_ledger_room};
use stonecast_media::{Backing, Blob, MediaError, Pool, RecordFeature};
use stonecast_member::{Member, Seat};
use stonecast_persist::Persisted;
use stonecast_persist::execute::Commit;

use crate::cleaning::Cleaning;
use crate::error::StoreError;
use crate::metrics::Metrics;
use crate::stat::Stat;

use attendant::Attendant;
use clean::{Cleaner, Sweeper};
pub use clients::Places;
use clients::returns::settle_returned;
use clients::{
    Admission, Clients, Departures, Doors, Lender, Publishing, Receives, Served, Sessions,
    publishing_refusal, wait_for_publishers,
};
use commit::Committer;
use expiries::Expiries;
use journal::{Journal, Sequences};
pub use leads::Offers;
pub use node::NodeOptions;
use node::counts::{copies_of, counts_of};
use node::digest::{durable_count, publish_some};
use node::leading::Leading;
use node::start::{begin, left_by};
use node::state::NodeState;
use node::store::{NodeStore, ServerNode};
pub use options::{ClientPolicy, ServerOptions};
use pipeline::Pipeline;
pub use recovery::RecoveryReport;
use recovery::checkpoint;
pub use recovery::missing::MissingChunk;
pub use recovery::verify::{Verification, verify};
use recovery::{Recovered, Role, recover};
use removal::remove_expired;
use report::Reporter;
use shards::Shards;
use state::State;
use time::ServerTime;

/// The state in which [`Server::close`] left the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// Closed in order: the next opening takes the checkpoint.
    Clean,
    /// Left as if the server was killed, because a client was stopped in the middle of a publication and may continue.
    /// Every acknowledged write is there; the next opening waits for that client and reads the log. The pool of a node
    /// is always left so.
    Unclean,
}

/// A server of one pool. One task drives it: [`Server::run`], then [`Server::close`].
pub struct Server {
    port: Rc<Port>,
    runtime: Rc<dyn Runtime>,
    pool: Pool,
    receives: Receives,
    committer: Rc<Committer>,
    reporter: Rc<Reporter>,
    state: Rc<RefCell<State>>,
    attendant: Rc<Attendant>,
    /// The node that this server is; `None`: the server is alone.
    joined: Option<Joined>,
    serving: Cell<bool>,
}

/// The node of a server.
struct Joined {
    node: Rc<ServerNode>,
    leading: Leading,
    /// Rung when a shard is to open.
    bell: Rc<Bell>,
}

/// Interval at which a closing server checks whether all revocations have ended.
const RETIRE_LOOK_NS: Nanoseconds = 20_000;
/// Interval at which an idle server checks whether it should stop.
const STOP_CHECK_NS: Nanoseconds = 20_000_000;
/// Time for clients to take the last answers of a server that cannot continue.
const LAST_ANSWERS_NS: Nanoseconds = 5_000_000;
/// Longest wait of an idle server while clients publish: in that time, clients announce much less than a ring holds.
const PUBLISHED_PAUSE_NS: Nanoseconds = 1_000_000;
/// Longest wait of an idle server while the index grows, segments are cleaned or leases end: the rest of the processor
/// is for others.
const PAUSE_NS: Nanoseconds = 20_000;

/// A server that was opened, the history of its pool with the segments of appends, and the report of the recovery.
type OpenedAs = (Server, (History, Vec<SegmentState>), RecoveryReport);

impl Server {
    /// Recovers the pool and makes it ready to serve. Nothing is visible to clients before the call returns. A crash
    /// during the call leaves a pool that opens the same way again.
    pub async fn open(
        pool: Pool,
        port: Rc<Port>,
        runtime: Rc<dyn Runtime>,
        options: ServerOptions,
    ) -> Result<(Self, RecoveryReport), StoreError> {
        let opened = Self::open_as(pool, port, runtime, options, Role::Alone).await?;
        let (server, _, report) = opened;
        Ok((server, report))
    }

    /// Recovers the pool, which is of the cluster of `seat`, and joins that cluster as the node of the seat: the server
    /// keeps copies of shards, and leads those that the configuration gives it. The call adds the copies that it finds
    /// to `seat`, and needs the port of the seat. Clients find a shard as soon as the node leads it. A crash during the
    /// call leaves a pool that joins the same way again.
    ///
    /// # Errors
    /// [`StoreError`]: the pool is damaged, or no copy; its segments are too small for so many shards; or the node is
    /// not registered. Nothing of the server runs.
    pub async fn join<E: EpochCell + 'static>(
        mut pool: Pool,
        mut seat: Seat<E>,
        options: ServerOptions,
        node: &NodeOptions,
    ) -> Result<(Self, RecoveryReport), StoreError> {
        if options.publishes() {
            return Err(StoreError::Publication {
                reason: "the server is a node of a cluster, where a write has its copies before it is visible; start it with another policy for clients",
            });
        }
        if pool.cluster_seed().is_none() {
            return Err(StoreError::NoClusterPool);
        }
        check_ledger_room(&LogFormat::of(&pool), pool.shards())?;
        pool.let_nodes_append()?;
        let (port, runtime) = (seat.port.clone(), seat.runtime.clone());
        let (mut server, recovered, report) =
            Self::open_as(pool, port.clone(), runtime.clone(), options, Role::Node).await?;
        let (history, segments) = recovered;
        {
            let state = &mut *server.state.borrow_mut();
            state.node = Some(NodeState::default());
            state.time.of_node(server.pool.shards());
            state.journal.space.keep_room_for_copies();
            for number in 0..server.pool.shards() {
                state.shards.lead(Epoch::default(), number, None);
            }
        }
        let keys = recovery::survey::keys_of(&server.pool);
        let store = Rc::new(NodeStore::new(
            server.state.clone(),
            server.committer.clone(),
            runtime.clone(),
            keys,
        ));
        let log = server.pool.log();
        let left = store
            .ledger()
            .read(|ledger| left_by(&*log, ledger, &history));
        seat.found.copies.clear();
        let appended = server.pool.backing().log_for_appends()?;
        let began = begin(
            seat,
            (&server.pool, appended, &port),
            store.clone(),
            (left, segments),
            node,
        );
        let node = began
            .await
            .map_err(|error| StoreError::Node(Box::new(error)))?;
        server.take_part(Rc::new(node), store);
        Ok((server, report))
    }

    /// Serves as `node` from now on.
    fn take_part(&mut self, node: Rc<ServerNode>, store: Rc<NodeStore>) {
        self.attendant.serve(&node);
        let (runtime, attendant) = (self.runtime.clone(), self.attendant.clone());
        let leading = Leading::new(node.clone(), store, attendant, runtime);
        let state = &mut *self.state.borrow_mut();
        let asked = Rc::downgrade(&node);
        state.shards.leads().offer_by(Rc::new(move |shard, term| {
            let offer = asked.upgrade()?.offer(shard);
            if mutant!(BackupReadable) && offer.is_none() {
                return Some(500 * PAUSE_NS);
            }
            let (of, offer) = offer?;
            (of == term).then_some(offer.held_ns)
        }));
        let bell = state.node_mut().bell.clone();
        let asked = Rc::downgrade(&node);
        let counts = move || {
            let node = asked.upgrade();
            node.map(|node| counts_of(&node)).unwrap_or_default()
        };
        let asked = Rc::downgrade(&node);
        self.reporter.ask_node(counts, move || {
            let node = asked.upgrade();
            node.map(|node| copies_of(&node)).unwrap_or_default()
        });
        self.joined = Some(Joined {
            node,
            leading,
            bell,
        });
    }

    fn open_as(
        mut pool: Pool,
        port: Rc<Port>,
        runtime: Rc<dyn Runtime>,
        options: ServerOptions,
        role: Role,
    ) -> Boxed<'static, Result<OpenedAs, StoreError>> {
        Box::pin(async move {
            let atomic = port.device().capabilities().atomic_with_processor;
            if options.publishes()
                && let Some(reason) = publishing_refusal(&pool, atomic)
            {
                return Err(StoreError::Publication { reason });
            }
            wait_for_publishers(&pool, &runtime).await?;
            let commit = Commit::choose(pool.platform(), pool.durability(), pool.log().means())?;
            let recovering = recover(&pool, (&commit, &runtime), options.publishes(), role);
            let (mut recovered, report) = recovering.await?;
            mark_open(&mut pool, options, &recovered.sealed)?;
            let committer = Rc::new(Committer::new(&pool, commit));
            let world = (port.clone(), runtime.clone());
            let found = (
                std::mem::take(&mut recovered.history),
                std::mem::take(&mut recovered.appended),
            );
            let sweeper = Sweeper::new(world.clone(), committer.clone(), options.publishes());
            let (state, receives) = assemble(world, options, &pool, &committer, recovered)?;
            let server = Self {
                reporter: Rc::new(Reporter::new(&pool, options.process, committer.clone())),
                attendant: Rc::new(Attendant::new(port.clone(), sweeper)),
                port,
                runtime,
                pool,
                receives,
                committer,
                state: Rc::new(RefCell::new(state)),
                joined: None,
                serving: Cell::new(false),
            };
            Ok((server, found, report))
        })
    }

    /// The membership of the node that this server is; `None`: the server is alone.
    pub fn member(&self) -> Option<&Member> {
        self.joined.as_ref().map(|joined| joined.node.member())
    }

    /// The term in which this server serves the shard `number` as a node, at this moment; `None`: the server does not
    /// serve the shard, or is alone.
    pub fn serves(&self, number: u32) -> Option<Term> {
        self.joined.as_ref()?.node.serves(number)
    }

    /// Serves until `stop` returns true or a persist fails. After an error, drop the server and recover the pool by
    /// opening it again.
    pub fn run<'a>(&'a self, stop: &'a dyn Fn() -> bool) -> Boxed<'a, Result<(), StoreError>> {
        Box::pin(async move {
            assert!(!self.serving.replace(true), "a server runs once at a time");
            let leading = self.joined.as_ref().map(|joined| joined.leading.clone());
            let mut pipeline = Pipeline::new(
                (self.port.clone(), self.runtime.clone()),
                self.committer.clone(),
                self.receives,
                self.reporter.clone(),
                leading.clone(),
            );
            let mut clients_publish = false;
            let result = loop {
                if stop() {
                    break pipeline.drain(&self.state).await;
                }
                self.wait(&pipeline, clients_publish).await;
                clients_publish = self.attendant.take_events(&self.state);
                match self.serve_once(&mut pipeline, leading.as_ref()).await {
                    Ok(operations) => self.tend_index(operations),
                    Err(error) => {
                        pipeline.abandon(&self.state, &error);
                        // Waiting clients get no answer, however long this value lives. The last answers arrive before
                        // their connections end.
                        self.runtime.sleep(LAST_ANSWERS_NS).await;
                        self.end_all_sessions();
                        break Err(error);
                    }
                }
            };
            let reposted = pipeline.repost();
            self.serving.set(false);
            result.and(reposted)
        })
    }

    /// One batch, and the work after it. Returns the number of operations.
    async fn serve_once(
        &self,
        pipeline: &mut Pipeline,
        leading: Option<&Leading>,
    ) -> Result<usize, StoreError> {
        if let Some(leading) = leading {
            leading.tend().await?;
        }
        let operations = pipeline.serve(&self.state).await?;
        if leading.is_some() {
            publish_some(&mut self.state.borrow_mut());
        }
        remove_expired(&mut self.state.borrow_mut())?;
        self.attendant.tend_log(&self.state).await?;
        Ok(operations)
    }

    /// Closes a server in order: all connections end, all records are sealed, and the index is kept for the next
    /// opening. A crash during the call costs only the checkpoint. A medium without room for the checkpoint costs the
    /// same: the pool is closed, and the next opening scans the log.
    ///
    /// If a client was stopped inside a publication, and has not continued in the time that the fabric allows, the pool
    /// is left as if the server was killed: a record that the client publishes later counts, and the next server waits
    /// for that client. The pool of a node is left in the same way, since other nodes may still append to it.
    pub fn close(self) -> Boxed<'static, Result<Closing, StoreError>> {
        Box::pin(async move {
            if self.joined.is_some() {
                self.end_all_sessions();
                return Ok(Closing::Unclean);
            }
            self.end_all_sessions();
            while self.state.borrow().clients.departures.are_under_way() {
                self.runtime.sleep(RETIRE_LOOK_NS).await;
            }
            let (spans, ledger) = {
                let state = &mut *self.state.borrow_mut();
                settle_returned(state);
                let spans = state.journal.seal_all();
                let given = state.journal.sequences.next() - 1;
                let ledger = state.keeper.as_mut().map(|keeper| {
                    keeper.settle(given);
                    keeper.ledger().clone()
                });
                (spans, ledger)
            };
            if let Some(ledger) = ledger {
                ledger.persist().await?;
            }
            let sealed = self.committer.persist(&spans).await?;
            let state = self.state.borrow();
            if state.clients.departures.may_be_publishing() {
                // A checkpoint could become wrong, and a pool that is not clean makes the next server wait before its
                // scan.
                return Ok(Closing::Unclean);
            }
            let bytes = checkpoint::encode(
                state.journal.format(),
                state.shards.iter(),
                state.journal.space.states(),
                state.journal.sequences.next() - 1,
            );
            drop(state);
            store_checkpoint(&*self.pool.backing(), &bytes, &sealed)?;
            self.pool.close()?;
            Ok(Closing::Clean)
        })
    }

    /// Notes that this server leads the shard `number` in `term`, or no longer leads it, in the configuration of
    /// `epoch`. A server leads all of its shards in term 0 until the first call. Requests of clients that named another
    /// term are refused from this moment on, with `epoch`; the call promises nothing about requests that were taken
    /// before.
    ///
    /// # Panics
    ///
    /// Unless the pool has a shard of that number.
    pub fn lead(&self, epoch: Epoch, number: u32, term: Option<Term>) {
        self.state.borrow_mut().shards.lead(epoch, number, term);
    }

    /// Offers readers the leases that `offers` gives. A server offers nothing until the first call.
    pub fn offer_by(&self, offers: Offers) {
        self.state.borrow_mut().shards.leads().offer_by(offers);
    }

    /// The reason why the medium gave no space, for the messages of the program that runs the server: once, and again
    /// if the trouble lasts for a minute. Clients get the outcome of their writes.
    pub fn take_trouble(&self) -> Option<MediaError> {
        self.state.borrow_mut().journal.trouble.take()
    }

    /// The reason why a client was not accepted, if the server lacked a resource: once, and again if the trouble lasts
    /// for a minute. The client gets the reason, too.
    pub fn take_refusal(&self) -> Option<DeviceError> {
        self.state.borrow_mut().clients.admission.refused.take()
    }

    /// A report of the server.
    pub fn stat(&self) -> Stat {
        self.reporter.stat(&self.state.borrow())
    }

    /// Everything that the server counts.
    pub fn metrics(&self) -> Metrics {
        self.reporter.metrics(&self.state.borrow())
    }

    /// The work of the cleaner.
    pub fn cleaning(&self) -> Cleaning {
        self.reporter.cleaning(&self.state.borrow())
    }

    /// The number of the shard of `key`.
    pub fn shard_of(&self, key: &[u8]) -> u32 {
        self.state.borrow().shards.route(key).shard
    }

    /// Reads the value of `key` into `value` in the server's own process, and returns its version; `None` if the key is
    /// absent. The record is checked as a client checks it. The call serves checks of a recovered pool, without a
    /// client and its fabric.
    pub fn peek(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<u64>, StoreError> {
        let file = self.pool.backing().name();
        let state = self.state.borrow();
        let shard = state.shards.route(key).shard;
        let now_ms = state.time.now_ms(shard);
        state.shards.peek(key, value, (&file, now_ms))
    }

    /// Waits for arrivals or events, for a short while so that a stop is noticed, and hardly at all while there is
    /// work.
    async fn wait(&self, pipeline: &Pipeline, clients_publish: bool) {
        let has_work = {
            let state = self.state.borrow();
            let node = state.node.as_ref();
            state.shards.is_growing()
                || state.shards_with_expired_keys().next().is_some()
                || state.cleaner.has_credit()
                || state.clients.departures.are_under_way()
                || node.is_some_and(|node| node.elsewhere.waits())
                || durable_count(&state) > 0
        };
        let pause_ns = match has_work {
            true => PAUSE_NS,
            false if clients_publish => PUBLISHED_PAUSE_NS,
            false => STOP_CHECK_NS,
        };
        // The pause ends with the first activity.
        let _ = match &self.joined {
            None => self.runtime.within(pause_ns, self.port.activity()).await,
            Some(Joined { bell, .. }) => {
                let rung = poll_fn(|context| {
                    // Both wake the task.
                    let is_rung = bell.poll_rung(context).is_ready();
                    let has_ended = pipeline.poll_ended(&self.state, context).is_ready();
                    match is_rung | has_ended {
                        true => Poll::Ready(()),
                        false => Poll::Pending,
                    }
                });
                let called = async {
                    select(rung, self.port.activity()).await;
                };
                self.runtime.within(pause_ns, called).await
            }
        };
    }

    fn end_all_sessions(&self) {
        let Clients {
            sessions,
            departures,
            ..
        } = &mut self.state.borrow_mut().clients;
        departures.end_all_sessions(sessions);
    }

    /// Advances the growth of indexes, in proportion to the `operations` of the batch before.
    fn tend_index(&self, operations: usize) {
        let State {
            shards, clients, ..
        } = &mut *self.state.borrow_mut();
        shards.tend_indexes(operations);
        // A right that is being revoked may still open a table that no session holds.
        if !clients.departures.are_under_way() {
            let is_read = |table| {
                let mut sessions = clients.sessions.iter();
                sessions.any(|session| session.windows.reads_index(table))
            };
            shards.free_tables(is_read);
        }
    }
}

/// The components of a recovered server, and the receive buffers that they share.
fn assemble(
    world: (Rc<Port>, Rc<dyn Runtime>),
    options: ServerOptions,
    pool: &Pool,
    committer: &Committer,
    recovered: Recovered,
) -> Result<(State, Receives), StoreError> {
    let Recovered {
        format,
        keys,
        space,
        next_sequence,
        keeper,
        history: _,
        appended: _,
        sealed: _,
    } = recovered;
    let (port, runtime) = &world;
    let device = port.device().clone();
    let is_shared = options.publishes();
    let sequences = Sequences::starting_at(next_sequence, pool)?;
    let counter = match is_shared {
        true => Some(device.register(sequences.0.clone(), Access::NONE)?),
        false => None,
    };
    // Opened by windows alone, to one client each.
    let log_region = device.register_persistent(pool.log(), Access::NONE)?;
    let mut shards = Shards::new(pool, &world, is_shared, keys, format)?;
    let time = ServerTime::new(pool, runtime.clone());
    let mut expiries = Expiries::default();
    let record_features = pool.record_features();
    let mut journal = Journal::new(pool, runtime.clone(), format, space, sequences);
    if record_features.has(RecordFeature::Chunks) {
        shards.take_over_chunks(&mut journal, keeper.is_some());
    }
    if time.is_used() {
        shards.note_expiries(&mut expiries);
    }
    let receives = Receives::new(&*device)?;
    let cleaner = Cleaner::new(journal.space.heritage());
    let facts = (format, committer.syncs_files());
    let clients = Clients {
        sessions: Sessions::new(port.clone()),
        admission: Admission::new(world.clone(), options, pool, facts, receives),
        doors: Doors::new(port.clone(), log_region),
        lender: Lender::new(world.clone(), log_region, format, pool.opening().into()),
        publishing: Publishing::new(world.clone(), pool, counter),
        departures: Departures::new(port.clone(), runtime.clone()),
        served: Served::default(),
    };
    let state = State {
        shards,
        journal,
        clients,
        time,
        expiries,
        record_features,
        cleaner,
        keeper,
        node: None,
    };
    Ok((state, receives))
}

/// Marks the pool as in use. Takes the proof that the recovered records are sealed: a later opening believes the seals.
fn mark_open(pool: &mut Pool, options: ServerOptions, _: &Persisted) -> Result<(), MediaError> {
    pool.recovered()?;
    if options.publishes() {
        pool.let_clients_publish()?;
    }
    Ok(())
}

/// Stores a checkpoint if the medium has room for it, if need be in the place of the earlier one. Without that room, an
/// empty checkpoint is stored if the medium has room for that; otherwise the earlier checkpoint stays, and the next
/// opening judges it as after a crash. Takes the proof that the seals, which the checkpoint repeats, are durable.
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
