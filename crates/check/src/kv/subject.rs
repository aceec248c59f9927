//! The store with one server, as a subject of the checks.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_fabric_sim::{Faults, Process, Survivor};
use stonecast_kv::{Cleaning, Server, ServerOptions, StoreError};
use stonecast_media::{OpenMode, Pool};

use crate::history::NodeId;
use crate::kv::client::{self, ADDRESS, Work};
use crate::kv::contents::Contents;
use crate::kv::words::WORDS;
use crate::kv::{contents, keys};
use crate::lab::REFUSED;
use crate::models::register::{Answer, Call};
use crate::oracles::values;
use crate::subject::{Ended, Seat, Subject, Task, Testimony};
use crate::timeline::Words;
use crate::violation::Violation;
use crate::wrecks::Wrecks;

/// The only node.
pub(crate) const SERVER: NodeId = 0;

/// The store with one server.
pub(crate) struct Kv {
    pub work: Rc<Work>,
    options: ServerOptions,
    /// Upkeep of all servers so far, including servers that ended.
    upkeep: Cell<Upkeep>,
}

/// Work of servers beside requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Upkeep {
    /// Counts of the cleaning.
    pub cleaned: Cleaning,
    /// Number of growths of the index.
    pub growths: u64,
}

impl Kv {
    /// The store for `work`.
    pub fn new(work: Rc<Work>) -> Rc<Self> {
        let options = ServerOptions {
            clients: work.setup.policy,
            ..ServerOptions::default()
        };
        Rc::new(Self {
            work,
            options,
            upkeep: Cell::default(),
        })
    }

    /// Upkeep of the servers so far.
    pub fn upkeep(&self) -> Upkeep {
        self.upkeep.get()
    }

    async fn run(&self, seat: &Seat) -> Result<(), StoreError> {
        let (pool, _) = Pool::open(seat.backing.clone(), OpenMode::Serve)?;
        let process = &seat.process;
        let port = process.port(65_536)?;
        let device = port.device().clone();
        let (server, _) = Server::open(pool, port, process.runtime(), self.options).await?;
        device.listen(ADDRESS)?;
        let before = self.upkeep.get();
        let look = || {
            self.upkeep.set(before.and(&server));
            seat.is_stopping()
        };
        server.run(&look).await?;
        server.close().await.map(drop)
    }

    async fn open(&self, seat: &Seat) -> Result<Contents, Violation> {
        let refused = |error: StoreError| Violation::new(REFUSED, error.to_string());
        let opened = Pool::open(seat.backing.clone(), OpenMode::Serve);
        let (pool, _) = opened.map_err(|error| refused(error.into()))?;
        let (segments, segment_size) = (u64::from(pool.segment_count()), pool.segment_size());
        let port = seat.process.port(65_536).expect("completion queues");
        let runtime = seat.process.runtime();
        let opened = Server::open(pool, port, runtime, ServerOptions::default()).await;
        let (server, report) = opened.map_err(refused)?;
        let mut contents = Contents {
            keys: Vec::with_capacity(self.work.keys.len()),
            torn_tails: report.torn_tails,
        };
        let (mut bytes, mut live_bytes) = (Vec::new(), 0);
        for (number, key) in (0..).zip(&self.work.keys) {
            let version = server.peek(key, &mut bytes).map_err(refused)?;
            contents.keys.push(match version {
                Some(version) => {
                    live_bytes += keys::live_size(number, bytes.len(), segment_size);
                    Some((values::identify(number, &bytes)?, version))
                }
                None => None,
            });
        }
        contents::judge_space(segments, &server.stat(), &contents, live_bytes)?;
        Ok(contents)
    }
}

impl Subject for Kv {
    type Call = Call;
    type Answer = Answer;
    type Contents = Contents;
    type Beside = ();

    const WORDS: Words<Call, Answer> = WORDS;

    fn name(&self, _: NodeId) -> String {
        "the server".to_owned()
    }

    fn testimony(&self) -> &Testimony<Call, Answer> {
        &self.work.testimony
    }

    fn serve(self: Rc<Self>, seat: Seat) -> Task<Result<(), Ended>> {
        Box::pin(async move {
            let faults = &self.work.setup.faults;
            self.run(&seat).await.map_err(|error| Ended {
                is_excused: is_excused(&error, faults),
                error: error.to_string(),
            })
        })
    }

    fn live(self: Rc<Self>, process: Process, client: u32, seed: u64) -> Task<()> {
        Box::pin(client::live(self.work.clone(), process, client, seed))
    }

    fn beside(&self) {}

    fn recover(self: Rc<Self>, seats: Vec<Seat>, _: Rc<()>) -> Task<Result<Contents, Violation>> {
        Box::pin(async move { self.open(&seats[SERVER as usize]).await })
    }
}

impl Upkeep {
    /// The sum of this upkeep and the upkeep of `server`.
    fn and(self, server: &Server) -> Self {
        let (earlier, now) = (self.cleaned, server.cleaning());
        let cleaned = Cleaning {
            segments: earlier.segments + now.segments,
            moved_records: earlier.moved_records + now.moved_records,
            dropped_tombstones: earlier.dropped_tombstones + now.dropped_tombstones,
            abandoned: earlier.abandoned + now.abandoned,
            reclaimed_leases: earlier.reclaimed_leases + now.reclaimed_leases,
            ..now
        };
        Self {
            cleaned,
            growths: self.growths + server.stat().index_growths,
        }
    }
}

/// Whether faults explain the unrequested end of a server. A server whose memory cannot be registered, or whose medium
/// reports an error, ends with that error.
fn is_excused(error: &StoreError, faults: &Faults) -> bool {
    match error {
        StoreError::Device(_) => faults.allocation_failures_per_thousand > 0,
        StoreError::Media(_) => faults.lost_writes > 0,
        _ => false,
    }
}

/// The server's machine after a power cut without loss.
pub(crate) fn everything(wrecks: &Wrecks) -> Survivor {
    let mut survivors = wrecks.everything();
    survivors.swap_remove(SERVER as usize)
}
