//! The exact costs of each operation of the KV store: one client, one operation at a time, no
//! other load.
//!
//! Costs follow from the protocol and the modelled parts, so they are compared to the last digit: a
//! change that adds a round trip, a work request or a write-back to an operation shows on any
//! machine.

use std::fmt::Write as _;

use stonecast_base::Nanoseconds;
use stonecast_fabric::decorate::Counts;
use stonecast_fabric_sim::{MachineProfile, MediumCounts};
use stonecast_kv::{Client, ClientOptions, Condition, StoreError, Values, Written};
use stonecast_media::MediaError;

use super::scene::{Scene, SceneClient, SceneOptions, platform_of};

/// The sizes of values in bytes: within a line or two, a kilobyte, several packets.
const VALUE_SIZES: [usize; 3] = [64, 1024, 16_384];
/// The sizes whose records clients publish.
const PUBLISHED_VALUE_SIZES: [usize; 2] = [64, 1024];
/// Keys of a `multi_get`.
const BATCH: usize = 16;
/// Bytes of the pool's log, and of a segment: no measured operation needs a new lease.
const CAPACITY: u64 = 64 << 20;
const SEGMENT_SIZE: u64 = 8 << 20;

/// The cost of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The operation.
    pub operation: &'static str,
    /// Bytes of the value, or of each of several values.
    pub value_size: usize,
    /// Batches of work requests that the client posted and waited for.
    pub round_trips: u64,
    /// Work requests of the client, and of the server.
    pub work_requests: [u64; 2],
    /// Doorbells of the client, and of the server; posting receive buffers again counts as one.
    pub doorbells: [u64; 2],
    /// The bytes that the client sent, and the bytes that it fetched.
    pub bytes: [u64; 2],
    /// Bytes of the server's answer.
    pub answer_bytes: u64,
    /// Cache lines that the server wrote back.
    pub write_backs: u64,
    /// Fences of the server.
    pub fences: u64,
    /// Syncs of files by the server.
    pub syncs: u64,
    /// Bytes that reached the medium, in whole lines.
    pub nvm_bytes: u64,
    /// Bytes that the medium wrote, in whole blocks, after its buffer was written out.
    pub media_bytes: u64,
    /// CPU time of the server.
    pub server_ns: Nanoseconds,
    /// Time from the call to the answer.
    pub latency_ns: Nanoseconds,
}

/// The error that prevented a measurement.
#[derive(Debug, thiserror::Error)]
pub enum CostError {
    /// The pool could not be made.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The costs of every operation on machines of `profile`.
pub fn costs(profile: &MachineProfile) -> Result<Vec<Cost>, CostError> {
    let options = SceneOptions {
        profile: *profile,
        capacity: CAPACITY,
        segment_size: SEGMENT_SIZE,
        seed: 1,
        publishing: false,
    };
    let scene = Scene::new(&options)?;
    let client = scene.connect()?;
    let stranger = scene.connect_with(ClientOptions {
        locations: 0,
        ..ClientOptions::default()
    })?;
    let mut costs = Vec::new();
    for value_size in VALUE_SIZES {
        let value = vec![7; value_size];
        let keys: Vec<Vec<u8>> = (0..BATCH)
            .map(|number| format!("key {value_size:08} {number:08}").into_bytes())
            .collect();
        let mut look = Look {
            scene: &scene,
            client: &client,
            value_size,
            costs: &mut costs,
        };
        look.at_all(&keys, &value)?;
        let mut look = Look {
            scene: &scene,
            client: &stranger,
            value_size,
            costs: &mut costs,
        };
        look.at_unknown_places(&keys)?;
    }
    let scene = Scene::new(&SceneOptions {
        publishing: true,
        ..options
    })?;
    let client = scene.connect()?;
    for value_size in PUBLISHED_VALUE_SIZES {
        Look {
            scene: &scene,
            client: &client,
            value_size,
            costs: &mut costs,
        }
        .at_publication(&vec![7; value_size])?;
    }
    Ok(costs)
}

/// Measures the operations on values of one size.
struct Look<'a> {
    scene: &'a Scene,
    client: &'a SceneClient,
    value_size: usize,
    costs: &'a mut Vec<Cost>,
}

impl Look<'_> {
    fn at_all(&mut self, keys: &[Vec<u8>], value: &[u8]) -> Result<(), StoreError> {
        let client = self.client.client.clone();
        // The first put takes a lease, the first delete a segment, and caches are filled: the
        // measurements come later.
        self.scene.world().block_on(fill(&client, keys, value))?;
        let (key, fresh) = (keys[0].as_slice(), b"a key that is not there..".as_slice());
        let version = self
            .scene
            .world()
            .block_on(client.get(key, &mut Vec::new()))?;
        self.at("get, there", async {
            client
                .get(key, &mut Vec::new())
                .await
                .map(|version| assert!(version.is_some()))
        })?;
        self.at("get, absent", async {
            client
                .get(fresh, &mut Vec::new())
                .await
                .map(|version| assert!(version.is_none()))
        })?;
        let asked: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        self.at("multi_get of 16", get_all(&client, &asked))?;
        self.at("put, new", async {
            client.put(fresh, value).await.map(drop)
        })?;
        self.at("put, again", async {
            client.put(fresh, value).await.map(drop)
        })?;
        self.at("delete", async {
            client
                .delete(fresh)
                .await
                .map(|was_there| assert!(was_there))
        })?;
        self.at("delete, absent", async {
            client
                .delete(fresh)
                .await
                .map(|was_there| assert!(!was_there))
        })?;
        let condition = Condition::Version(version.expect("it was put"));
        self.at("compare-and-put", async {
            client
                .put_if(key, value, condition)
                .await
                .map(|written| assert!(matches!(written, Written::Done(_))))
        })?;
        self.at("compare-and-put, other version", async {
            client
                .put_if(key, value, condition)
                .await
                .map(|written| assert!(matches!(written, Written::Conflict(_))))
        })
    }

    /// Measures a publishing client, in a pool that survives processes.
    fn at_publication(&mut self, value: &[u8]) -> Result<(), StoreError> {
        let client = self.client.client.clone();
        let key = format!("key {:08} {:08}", value.len(), 0).into_bytes();
        // The first put is not an overwrite; the second put requests rights and an extent.
        self.scene.world().block_on(async {
            client.put(&key, value).await?;
            client.put(&key, value).await
        })?;
        self.at("put, published", async {
            client.put(&key, value).await.map(drop)
        })
    }

    /// Measures a client that remembers no places.
    fn at_unknown_places(&mut self, keys: &[Vec<u8>]) -> Result<(), StoreError> {
        let client = self.client.client.clone();
        let asked: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        // The first READ of a connection costs more.
        self.scene.world().block_on(get_all(&client, &asked))?;
        self.at("get, place not known", async {
            client
                .get(asked[0], &mut Vec::new())
                .await
                .map(|version| assert!(version.is_some()))
        })?;
        self.at("multi_get, places not known", get_all(&client, &asked))
    }

    fn at(
        &mut self,
        operation: &'static str,
        work: impl Future<Output = Result<(), StoreError>>,
    ) -> Result<(), StoreError> {
        self.scene.rest();
        let before = Counted::now(self.scene, self.client);
        let start = self.scene.world().now();
        // The client's own core takes no time in these measurements, so the latency is that of the wires and of the
        // server. The figures of whole workloads include the core.
        self.scene.world().block_on(work)?;
        let latency_ns = self.scene.world().now() - start;
        self.scene.rest();
        let after = Counted::now(self.scene, self.client);
        let (client, server, medium) = (
            after.client - before.client,
            after.server - before.server,
            after.medium - before.medium,
        );
        self.costs.push(Cost {
            operation,
            value_size: self.value_size,
            round_trips: client.doorbells,
            work_requests: [requests(&client), requests(&server)],
            doorbells: [
                client.doorbells + client.receive_doorbells,
                server.doorbells + server.receive_doorbells,
            ],
            bytes: [client.bytes_out, client.bytes_in],
            answer_bytes: server.bytes_out,
            write_backs: medium.write_backs,
            fences: medium.fences,
            syncs: medium.syncs,
            nvm_bytes: medium.bytes_received,
            media_bytes: medium.bytes_written,
            server_ns: after.server_ns - before.server_ns,
            latency_ns,
        });
        Ok(())
    }
}

async fn get_all(client: &Client, keys: &[&[u8]]) -> Result<(), StoreError> {
    let mut values = Values::default();
    client.multi_get(keys, &mut values).await?;
    assert!(
        (0..keys.len()).all(|index| values.get(index).is_some()),
        "all are there"
    );
    Ok(())
}

async fn fill(client: &Client, keys: &[Vec<u8>], value: &[u8]) -> Result<(), StoreError> {
    for key in keys {
        client.put(key, value).await?;
    }
    client.put(b"a key that goes", value).await?;
    client.delete(b"a key that goes").await.map(drop)
}

/// Counters at one moment.
struct Counted {
    client: Counts,
    server: Counts,
    medium: MediumCounts,
    server_ns: Nanoseconds,
}

impl Counted {
    fn now(scene: &Scene, client: &SceneClient) -> Self {
        let (client, server) = (client.counts(), scene.server_counts());
        Self {
            client,
            server,
            medium: scene.medium_counts(),
            server_ns: scene.server_busy_ns(),
        }
    }
}

fn requests(counts: &Counts) -> u64 {
    let Counts {
        writes,
        writes_with_immediate,
        sends,
        reads,
        compare_and_swaps,
        fetch_and_adds,
        flushes,
        atomic_writes,
        ..
    } = counts;
    writes
        + writes_with_immediate
        + sends
        + reads
        + compare_and_swaps
        + fetch_and_adds
        + flushes
        + atomic_writes
}

/// The costs on machines of `profile`, as a table.
pub fn print_costs(profile: &MachineProfile, costs: &[Cost]) -> String {
    let platform = platform_of(profile);
    let mut text = format!(
        "{}: {}, DDIO {}\n{:<31} {:>6} {:>6} {:>8} {:>9} {:>7} {:>7} {:>7} {:>6} {:>6} {:>5} {:>6} {:>6} {:>7} {:>8}\n",
        profile.name,
        platform.persistence_domain,
        platform.ddio,
        "operation",
        "value",
        "trips",
        "requests",
        "doorbells",
        "sent",
        "fetched",
        "answer",
        "lines",
        "fences",
        "syncs",
        "nvm",
        "media",
        "server",
        "latency",
    );
    for cost in costs {
        let pair = |[client, server]: [u64; 2]| format!("{client}+{server}");
        writeln!(
            text,
            "{:<31} {:>6} {:>6} {:>8} {:>9} {:>7} {:>7} {:>7} {:>6} {:>6} {:>5} {:>6} {:>6} {:>7} {:>8}",
            cost.operation,
            cost.value_size,
            cost.round_trips,
            pair(cost.work_requests),
            pair(cost.doorbells),
            cost.bytes[0],
            cost.bytes[1],
            cost.answer_bytes,
            cost.write_backs,
            cost.fences,
            cost.syncs,
            cost.nvm_bytes,
            cost.media_bytes,
            cost.server_ns,
            cost.latency_ns,
        )
        .expect("a String takes everything");
    }
    text
}
