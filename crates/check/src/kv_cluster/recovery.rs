//! The restart of all nodes after a power cut: they serve every shard again, and a client reads every key, repeats
//! writes, and writes to each shard.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric_sim::Process;
use stonecast_kv::{ClusterClient, ClusterError, Server, StoreError};

use crate::history::OperationId;
use crate::kv_cluster::client::{self, NamedWrite};
use crate::kv_cluster::contents::{self, Contents, KeyRead};
use crate::kv_cluster::shelf::{Beside, Shelf};
use crate::kv_cluster::subject::{COMPLETIONS, KvCluster};
use crate::lab::REFUSED;
use crate::models::register::Answer;
use crate::oracles::values;
use crate::subject::Seat;
use crate::violation::Violation;

const MS: Nanoseconds = 1_000_000;
/// Time within which a cluster that starts serves all shards, if nothing else happens.
const STARTED_NS: Nanoseconds = 4_000 * MS;
/// Time between two looks at the shards that are served.
const LOOK_NS: Nanoseconds = MS;

/// The nodes of a recovery.
#[derive(Default)]
struct Again {
    servers: RefCell<Vec<Rc<Server>>>,
    /// The reason why one of them has ended.
    refused: RefCell<Option<String>>,
}

impl KvCluster {
    /// Starts all nodes, and looks at everything through a client.
    pub(super) async fn open(
        &self,
        seats: &[Seat],
        beside: &Rc<Beside>,
    ) -> Result<Contents, Violation> {
        let again: Rc<Again> = Rc::default();
        for seat in seats {
            self.start_again(seat, beside, &again).await?;
        }
        let process = &seats[0].process;
        let runtime = process.runtime();
        let deadline = runtime.now() + STARTED_NS;
        while !self.is_served_by(&again) {
            if let Some(error) = again.refused.borrow().clone() {
                return Err(Violation::new(REFUSED, error));
            }
            if runtime.now() > deadline {
                return Err(refused("not all shards are served"));
            }
            runtime.sleep(LOOK_NS).await;
        }
        let client = loop {
            let shelf = Rc::new(shelf(beside, process));
            let client = self.connect(process, shelf).await;
            if client.is_some() || runtime.now() > deadline {
                break client;
            }
        };
        let client = client.ok_or_else(|| refused("no client can connect"))?;
        let keys = self.read_keys(&client).await?;
        let repeated = self.repeat(process, &client).await?;
        let after = match repeated.is_empty() {
            true => keys.clone(),
            false => self.read_keys(&client).await?,
        };
        self.write_to_each_shard(process, &client).await?;
        Ok(Contents {
            keys,
            repeated,
            after,
        })
    }

    /// Starts a node of a recovery.
    async fn start_again(
        &self,
        seat: &Seat,
        beside: &Rc<Beside>,
        again: &Rc<Again>,
    ) -> Result<(), Violation> {
        let port = seat.process.port(COMPLETIONS).expect("completion queues");
        let store = Rc::new(shelf(beside, &seat.process));
        let epoch = beside.epochs[seat.node as usize].clone();
        let joined = self.join(seat, (port, store), (epoch, true), 7 + u64::from(seat.node));
        let joined = joined.await;
        let server = joined.map_err(|error| Violation::new(REFUSED, error.to_string()))?;
        let server = Rc::new(server);
        again.servers.borrow_mut().push(server.clone());
        let told = again.clone();
        seat.process.runtime().spawn(Box::pin(async move {
            if let Err(error) = server.run(&|| false).await {
                *told.refused.borrow_mut() = Some(error.to_string());
            }
        }));
        Ok(())
    }

    fn is_served_by(&self, again: &Again) -> bool {
        let servers = again.servers.borrow();
        let led = |shard| servers.iter().any(|server| server.serves(shard).is_some());
        (0..self.setup.shards).all(led)
    }

    async fn read_keys(&self, client: &ClusterClient) -> Result<Vec<KeyRead>, Violation> {
        let mut keys = Vec::new();
        for (number, key) in (0..).zip(&self.keys) {
            let mut bytes = Vec::new();
            let found = client.get(key, &mut bytes).await;
            let found = found.map_err(|error| Violation::new(REFUSED, error.to_string()))?;
            keys.push(match found {
                Some(version) => Some((values::identify(number, &bytes)?, version)),
                None => None,
            });
        }
        Ok(keys)
    }

    /// Repeats the latest write of each client with its name. Returns the answers; a write that was forgotten has none.
    /// A write that changed nothing is not repeated: the store does not remember it, and would decide it anew.
    async fn repeat(
        &self,
        process: &Process,
        client: &ClusterClient,
    ) -> Result<Vec<(OperationId, Answer)>, Violation> {
        let mut repeated = Vec::new();
        let is_remembered = |write: &NamedWrite| {
            let answer = self.testimony.history.borrow().operation(write.id).answer;
            answer.is_none_or(contents::is_remembered)
        };
        for mut write in self.named().into_iter().filter(is_remembered) {
            let what = (write.key, write.call, write.size);
            let once = async || client::execute(self, client, &mut write.token, what).await;
            match when_copied(process, once).await {
                Ok(answer) => repeated.push((write.id, answer)),
                Err(ClusterError::Store(StoreError::Forgotten)) => {}
                Err(error) => return Err(Violation::new(REFUSED, error.to_string())),
            }
        }
        Ok(repeated)
    }

    /// Shows that each shard takes writes: stores a key of its own there, and finds it.
    async fn write_to_each_shard(
        &self,
        process: &Process,
        client: &ClusterClient,
    ) -> Result<(), Violation> {
        for shard in 0..self.setup.shards {
            let mut keys = (0..).map(|number: u32| format!("later {number}").into_bytes());
            let key = keys.find(|key| client.shard_of(key) == shard);
            let key = key.expect("each shard has keys");
            let error = |error: ClusterError| Violation::new(REFUSED, error.to_string());
            let once = async || client.put(&key, b"later").await;
            let written = when_copied(process, once).await.map_err(error)?;
            let found = client.get(&key, &mut Vec::new()).await.map_err(error)?;
            if found != Some(written) {
                return Err(refused("a new key is not found"));
            }
        }
        Ok(())
    }
}

/// The end of a write that is tried until its shard has as many copies as the policy asks for: a shard is served before
/// the copies of nodes that were away for long are in sync.
async fn when_copied<T>(
    process: &Process,
    mut once: impl AsyncFnMut() -> Result<T, ClusterError>,
) -> Result<T, ClusterError> {
    let runtime = process.runtime();
    let deadline = runtime.now() + STARTED_NS;
    loop {
        match once().await {
            Err(ClusterError::Store(StoreError::TooFewCopies { .. }))
                if runtime.now() < deadline =>
            {
                runtime.sleep(LOOK_NS).await;
            }
            end => return end,
        }
    }
}

fn refused(what: &str) -> Violation {
    Violation::new(REFUSED, format!("{what} after a restart of all nodes"))
}

fn shelf(beside: &Rc<Beside>, process: &Process) -> Shelf {
    Shelf {
        beside: beside.clone(),
        runtime: process.runtime(),
    }
}
