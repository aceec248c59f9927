//! The cost of a record that is moved when its segment is cleaned: the same puts go into a pool that has to be cleaned
//! and into a pool that need not be cleaned, and the difference is divided by the number of moved records.

use std::fmt::Write as _;

use stonecast_base::Nanoseconds;
use stonecast_fabric_sim::{MachineProfile, MediumCounts};
use stonecast_kv::{Cleaning, StoreError};

use super::costs::CostError;
use super::scene::{Scene, SceneOptions};

/// Bytes of a segment, and segments of the pool that has to be cleaned.
const SEGMENT_SIZE: u64 = 256 << 10;
const SEGMENTS: u64 = 16;
/// Bytes of the pool that need not be cleaned.
const ROOMY: u64 = 64 << 20;
/// Keys, bytes of each value, and puts: two thirds of the small pool are live, and the puts write
/// several times its size.
const KEYS: u64 = 2400;
const VALUE_SIZE: usize = 1024;
const PUTS: u64 = 12_000;

/// Costs of a moved record, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MoveCost {
    /// Records that were moved.
    pub moved: u64,
    /// Segments that were freed.
    pub segments: u64,
    /// Bytes of the moved records.
    pub bytes: u64,
    /// Cache lines written back beyond those of the puts, for each moved record.
    pub write_backs: f64,
    /// Fences beyond those of the puts, for each moved record.
    pub fences: f64,
    /// Bytes that reached the medium beyond those of the puts, for each moved record.
    pub nvm_bytes: f64,
    /// CPU time of the server beyond that of the puts, for each moved record, including the records
    /// that were examined and dropped.
    pub server_ns: f64,
    /// READs of the client: none, since clients take no part in cleaning.
    pub reads_by_clients: u64,
}

struct Counted {
    medium: MediumCounts,
    server_ns: Nanoseconds,
    cleaning: Cleaning,
    reads: u64,
}

/// The cost of a moved record on machines of `profile`.
pub fn move_cost(profile: &MachineProfile) -> Result<MoveCost, CostError> {
    let with = put_all(profile, SEGMENTS * SEGMENT_SIZE)?;
    let without = put_all(profile, ROOMY)?;
    let moved = with.cleaning.moved_records;
    let each = |with: u64, without: u64| (with as f64 - without as f64) / moved.max(1) as f64;
    Ok(MoveCost {
        moved,
        segments: with.cleaning.segments,
        bytes: with.cleaning.moved_bytes,
        write_backs: each(with.medium.write_backs, without.medium.write_backs),
        fences: each(with.medium.fences, without.medium.fences),
        nvm_bytes: each(with.medium.bytes_received, without.medium.bytes_received),
        server_ns: each(with.server_ns, without.server_ns),
        reads_by_clients: with.reads,
    })
}

fn put_all(profile: &MachineProfile, capacity: u64) -> Result<Counted, CostError> {
    let scene = Scene::new(&SceneOptions {
        profile: *profile,
        capacity,
        segment_size: SEGMENT_SIZE,
        seed: 1,
        publishing: false,
    })?;
    let client = scene.connect()?;
    let store = client.client.clone();
    let value = vec![7; VALUE_SIZE];
    scene.world().block_on(async {
        for put in 0..PUTS {
            // The puts store every key once, and then visit all keys in another order.
            let key = if put < KEYS { put } else { put * 7919 % KEYS };
            store
                .put(format!("key {key:08}").as_bytes(), &value)
                .await?;
        }
        Ok::<_, StoreError>(())
    })?;
    scene.rest();
    let (medium, server_ns, reads) = (
        scene.medium_counts(),
        scene.server_busy_ns(),
        client.counts().reads,
    );
    let cleaning = scene.world().block_on(store.metrics())?.cleaning;
    Ok(Counted {
        medium,
        server_ns,
        cleaning,
        reads,
    })
}

/// The cost on machines of `profile`, as a line.
pub fn print_move_cost(profile: &MachineProfile, cost: &MoveCost) -> String {
    let mut text = String::new();
    writeln!(
        text,
        "{:<20} {:>6} moved in {:>4} segments, each of {} bytes: {:.2} lines, {:.3} fences, {:.1} nvm bytes, {:.0} ns of the server, {} trips",
        profile.name,
        cost.moved,
        cost.segments,
        cost.bytes / cost.moved.max(1),
        cost.write_backs,
        cost.fences,
        cost.nvm_bytes,
        cost.server_ns,
        cost.reads_by_clients,
    )
    .expect("a String takes everything");
    text
}
