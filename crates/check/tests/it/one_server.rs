//! A server of the KV store in a world, alone on its machine.

use std::rc::Rc;

use stonecast_fabric_sim::{MachineOptions, MachineProfile, Process, SimBacking, Survivor, World};
use stonecast_kv::{Server, ServerOptions};
use stonecast_media::{Durability, OpenMode, Pool, PoolOptions};

/// Address of the server, some time after the start of the world.
pub const ADDRESS: &str = "sim:server";
/// Bytes of a segment.
const SEGMENT_SIZE: u64 = 256 << 10;

/// Starts a server on a new pool of `segments` segments. `prepare` gets the pool before the server
/// does, and returns a function that observes the server at each of its turns.
pub fn start<L>(
    world: &World,
    segments: u32,
    prepare: impl AsyncFnOnce(&Pool) -> L + 'static,
) -> Process
where
    L: Fn(&Server),
{
    let options = MachineOptions::new(MachineProfile::MODERN);
    let platform = options.platform;
    let machine = world.machine(options);
    let module = world.module(machine, Survivor::default());
    let options = PoolOptions {
        capacity: u64::from(segments) * SEGMENT_SIZE,
        segment_size: SEGMENT_SIZE,
        shards: 1,
        cluster_seed: None,
        platform,
        durability: Durability::Power,
        entropy: [7; 64],
    };
    drop(Pool::create(Rc::new(SimBacking::new(&module)), options).unwrap());
    let process = world.process(machine);
    let serving = process.clone();
    process.runtime().spawn(Box::pin(async move {
        let (pool, _) = Pool::open(Rc::new(SimBacking::new(&module)), OpenMode::Serve).unwrap();
        let look = prepare(&pool).await;
        let port = serving.port(65_536).unwrap();
        let device = port.device().clone();
        let (server, _) = Server::open(pool, port, serving.runtime(), ServerOptions::default())
            .await
            .unwrap();
        device.listen(ADDRESS).unwrap();
        let looked_at = || {
            look(&server);
            false
        };
        server.run(&looked_at).await.unwrap();
    }));
    process
}
