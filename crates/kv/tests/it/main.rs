//! Stories of the KV store.

mod agreement;
mod bare;
mod basics;
mod batches;
mod chunks;
mod chunks_in_flight;
mod cleaning;
mod cluster;
mod crash;
mod damage;
mod expiry;
mod fabric;
mod fencing;
mod forged;
mod full_disk;
mod full_pool;
mod given_up;
mod growing;
mod grown_pools;
mod holds;
mod hostile_server;
mod leases;
mod locations;
#[path = "../../../fabric/tests/it/loopback/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "the stories need only a part of the reference provider"
)]
mod loopback;
mod meddling;
mod metrics;
mod missing;
#[cfg(feature = "mutants")]
mod mutants;
mod nodes;
mod order;
#[path = "../../../fabric-shm/tests/it/pause.rs"]
mod pause;
mod pools_of_clusters;
mod port;
#[path = "../../../published/tests/it/promises.rs"]
mod promises;
mod protection_domains;
mod publication;
mod reserve;
mod rights;
mod room;
mod several_keys;
mod shards;
mod sharing;
mod terms;
mod tokens;
mod told_again;
mod trouble;
mod whole_segments;
mod world;
