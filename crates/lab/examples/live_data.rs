//! Measures overwrites of a nearly full pool in the simulated world, in virtual time, to show how
//! much of a pool may be live.
//!
//! ```text
//!   1 M keys of 23 bytes, values of 100     stored once, then overwritten at random     one client, one operation at a time
//!   a pool of the given number of segments  cleaned all the time, since nothing else makes room
//! ```
//!
//! `cargo run --release --package stonecast-lab --example live_data [SEGMENTS] [OVERWRITES] [uniform|skewed]` prints a
//! row of the table in `docs/design/0014-cleaning.md`. *skewed*: three of four overwrites go to a fifth of the keys.
#![forbid(unsafe_code)]

use std::error::Error;

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_fabric_sim::MachineProfile;
use stonecast_kv::StoreError;
use stonecast_lab::sim::{Scene, SceneOptions};
use stonecast_workload::KeyName;

const KEYS: u64 = 1_000_000;
const VALUE_SIZE: usize = 100;
const SEGMENT_SIZE: u64 = 4 << 20;
const SEGMENTS: u64 = 53;
const OVERWRITES: u64 = 1_500_000;
/// The skew of overwrites: one in this many keys is hot, and one in this many overwrites is cold.
const HOT_KEYS: u64 = 5;
const COLD_OVERWRITES: u64 = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let segments = arguments.next().map_or(Ok(SEGMENTS), |text| text.parse())?;
    let overwrites = arguments
        .next()
        .map_or(Ok(OVERWRITES), |text| text.parse())?;
    let is_skewed = match arguments.next().as_deref() {
        None | Some("uniform") => false,
        Some("skewed") => true,
        Some(other) => return Err(format!("keys are drawn uniform or skewed, not {other}").into()),
    };
    let options = SceneOptions {
        profile: MachineProfile::MODERN,
        capacity: segments * SEGMENT_SIZE,
        segment_size: SEGMENT_SIZE,
        seed: 1,
        publishing: false,
    };
    let scene = Scene::new(&options)?;
    let client = scene.connect()?.client;
    let world = scene.world();
    let put = async |key: u64, value: u8| {
        client
            .put(KeyName::of(key).as_bytes(), &[value; VALUE_SIZE])
            .await
            .map(drop)
    };
    world.block_on(async {
        for key in 0..KEYS {
            put(key, 0).await?;
        }
        Ok::<_, StoreError>(())
    })?;
    let before = world.block_on(client.metrics())?.cleaning;
    let mut random = random_from_seed(options.seed);
    let (begun, mut longest, mut refused) = (world.now(), 0, 0_u64);
    for n in 0..overwrites {
        let key = match is_skewed && random.random_range(0..COLD_OVERWRITES) > 0 {
            true => random.random_range(0..KEYS / HOT_KEYS),
            false => random.random_range(0..KEYS),
        };
        let start = world.now();
        match world.block_on(put(key, n as u8)) {
            Err(error) if error.is_for_want_of_room() => refused += 1,
            outcome => outcome?,
        }
        longest = longest.max(world.now() - start);
    }
    let mean = (world.now() - begun) / overwrites;
    let after = world.block_on(client.metrics())?.cleaning;
    let stat = world.block_on(client.stat())?;
    let record_size = stat.live_bytes / stat.keys;
    println!(
        "{} keys in {segments} segments, {} bytes each: {:.1} % live; {overwrites} overwrites, {} segments cleaned, {:.2} bytes moved for each byte, mean put {:.1} us, longest {:.1} us, refused {refused}",
        stat.keys,
        record_size,
        stat.live_bytes as f64 * 100.0 / (segments * SEGMENT_SIZE) as f64,
        after.segments - before.segments,
        (after.moved_bytes - before.moved_bytes) as f64 / (overwrites * record_size) as f64,
        mean as f64 / 1e3,
        longest as f64 / 1e3,
    );
    Ok(())
}
