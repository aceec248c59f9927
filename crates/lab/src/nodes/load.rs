//! Clients that read and write keys of shards without a pause, and the record of their calls.

use std::cell::RefCell;
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random, random_from_seed};
use stonecast_fabric::Runtime;
use stonecast_kv::{ClusterClient, ClusterError, ClusterOptions, Pair};

use super::cluster::NodeCluster;

/// A call that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The shard of the key.
    pub shard: u32,
    /// Whether the call is a PUT; otherwise it is a GET.
    pub is_put: bool,
    /// The moment at which the client began the call.
    pub begun_ns: Nanoseconds,
    /// The moment at which the client had the answer.
    pub ended_ns: Nanoseconds,
}

impl Call {
    /// The time from the call to the answer.
    pub fn took_ns(&self) -> Nanoseconds {
        self.ended_ns - self.begun_ns
    }
}

/// The calls of all clients, in the order of their ends.
pub type Calls = Rc<RefCell<Vec<Call>>>;

/// A client that makes calls of one kind on the keys of a shard, one after the other.
pub(super) struct Caller {
    pub client: Rc<ClusterClient>,
    pub shard: u32,
    pub is_put: bool,
    /// The keys of the shard.
    pub keys: Rc<Vec<Vec<u8>>>,
    pub value_size: usize,
    pub pause_ns: Nanoseconds,
    pub random: Random,
    pub calls: Calls,
}

impl Caller {
    /// Calls forever. Calls that end without an answer are not noted.
    pub async fn run(mut self, runtime: Rc<dyn Runtime>) {
        let mut found = Vec::new();
        loop {
            runtime.sleep(self.pause_ns).await;
            let key = &self.keys[self.random.random_range(0..self.keys.len())];
            let begun_ns = runtime.now();
            let is_answered = if self.is_put {
                let value = vec![self.random.random(); self.value_size];
                self.client.put(key, &value).await.is_ok()
            } else {
                self.client.get(key, &mut found).await.is_ok()
            };
            if is_answered {
                self.calls.borrow_mut().push(Call {
                    shard: self.shard,
                    is_put: self.is_put,
                    begun_ns,
                    ended_ns: runtime.now(),
                });
            }
        }
    }
}

/// The first `count` keys of `shard`.
pub(super) fn keys_of(client: &ClusterClient, shard: u32, count: usize) -> Rc<Vec<Vec<u8>>> {
    let names = (0u64..).map(|number| format!("key {number:012}").into_bytes());
    let of_shard = names.filter(|key| client.shard_of(key) == shard);
    Rc::new(of_shard.take(count).collect())
}

/// The load on a cluster: each client reads and writes each shard, with one call of each kind under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLoad {
    /// Clients, each on a machine of its own.
    pub clients: u32,
    /// Keys of each shard.
    pub keys: usize,
    /// Bytes of a value.
    pub value_size: usize,
    /// The pause of a client between two calls of a kind on a shard.
    pub pause_ns: Nanoseconds,
}

impl CallLoad {
    /// Stores all keys, and starts the clients.
    pub(super) fn start(
        &self,
        cluster: &NodeCluster,
        random: &mut Random,
    ) -> Result<Calls, ClusterError> {
        let (calls, shards) = (Calls::default(), cluster.shape().shards);
        for number in 0..self.clients {
            let process = cluster.client_process();
            let connecting = cluster.client(&process, ClusterOptions::default());
            let client = Rc::new(cluster.world().block_on(connecting)?);
            for shard in 0..shards {
                let keys = keys_of(&client, shard, self.keys);
                if number == 0 {
                    cluster
                        .world()
                        .block_on(store(&client, &keys, self.value_size))?;
                }
                for is_put in [true, false] {
                    let caller = Caller {
                        client: client.clone(),
                        shard,
                        is_put,
                        keys: keys.clone(),
                        value_size: self.value_size,
                        pause_ns: self.pause_ns,
                        random: random_from_seed(random.random()),
                        calls: calls.clone(),
                    };
                    let runtime = process.runtime();
                    runtime.spawn(Box::pin(caller.run(runtime.clone())));
                }
            }
        }
        Ok(calls)
    }
}

/// Stores each of `keys` once.
pub(super) async fn store(
    client: &ClusterClient,
    keys: &[Vec<u8>],
    value_size: usize,
) -> Result<(), ClusterError> {
    const TOGETHER: usize = 64;
    let value = vec![7; value_size];
    for some in keys.chunks(TOGETHER) {
        let pairs: Vec<Pair<'_>> = some.iter().map(|key| (&key[..], &value[..])).collect();
        let stored = client.multi_put(&pairs).await;
        stored.into_iter().collect::<Result<Vec<u64>, _>>()?;
    }
    Ok(())
}
