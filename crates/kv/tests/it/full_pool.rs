//! Pools that are full of live data, and the operations that continue there.
//!
//! A delete is never refused for want of room, whatever was done before. A put is refused only if the pool is as full
//! as `docs/design/0014-cleaning.md` says.

use std::collections::BTreeMap;

use rand::RngExt as _;
use stonecast_base::Random;
use stonecast_kv::{Client, ClientPolicy, ServerOptions, StoreError};
use stonecast_media::{Durability, segment_size_default};

use crate::fabric::{Provider, on, on_every_provider};
use crate::trouble::Trouble;
use crate::world::{End, World, key, value};

/// Capacity, segment size and size of the values.
const SHAPES: [(u64, u64, usize); 7] = [
    (128 << 20, 4 << 20, 400_000),
    (16 << 20, 256 << 10, 10_000),
    (1 << 20, 256 << 10, 10_000),
    (2 << 20, 256 << 10, 90_000),
    (2 << 20, 256 << 10, 200_000),
    (4 << 20, 256 << 10, 0),
    (4 << 20, 256 << 10, 1_000),
];

fn world((capacity, segment_size, _): (u64, u64, usize)) -> World {
    World {
        capacity,
        segment_size,
        ..World::default()
    }
}

/// Stores keys from `next` on until the pool is full.
async fn fill(client: &Client, model: &mut BTreeMap<u64, usize>, next: &mut u64, size: usize) {
    loop {
        match client.put(&key(*next), &value(*next, size)).await {
            Ok(_) => model.insert(*next, size),
            Err(StoreError::NoSpace { .. }) => return,
            Err(error) => panic!("put {next}: {error}"),
        };
        *next += 1;
    }
}

/// Fails with the server's report.
async fn fail(client: &Client, what: &str, error: &StoreError) -> ! {
    let metrics = client.metrics().await.map(|all| (all.stat, all.cleaning));
    panic!("{what}: {error}: {metrics:?}")
}

/// Deletes `n`, a present key.
async fn delete(client: &Client, n: u64) {
    match client.delete(&key(n)).await {
        Ok(is_there) => assert!(is_there, "key {n} is there"),
        Err(error) => fail(client, &format!("delete {n}"), &error).await,
    }
}

/// Fails without `make_room_for_deletes`, and if that function demands a gain of the cleaner: a cleaner that has
/// stopped in the middle of a segment holds one of the last two segments, and cannot gain the ends of full segments
/// that no record fits into. Fails without `persist_seal_of_victim`, too: the medium of these tests asserts that no
/// seal replaces another one while the newest seal is not durable.
#[test]
fn a_full_pool_deletes_every_key_and_takes_as_much_again() {
    on_every_provider(|| {
        for shape in SHAPES {
            let world = world(shape);
            let (capacity, segment_size, size) = shape;
            world.run(async |world| {
                let client = world.client().await;
                let (mut model, mut next) = (BTreeMap::new(), 0);
                for round in 0..3 {
                    fill(&client, &mut model, &mut next, size).await;
                    let live = client.stat().await.unwrap().live_bytes;
                    println!(
                        "{capacity} bytes in segments of {segment_size}, values of {size}: full with {:.1} %",
                        100.0 * live as f64 / capacity as f64
                    );
                    for _ in 0..40 {
                        let refused = client.put(b"more", &value(1, size)).await;
                        assert!(matches!(refused, Err(StoreError::NoSpace { .. })), "{refused:?}");
                        assert!(!client.delete(b"absent").await.unwrap());
                    }
                    while let Some((n, _)) = model.pop_first() {
                        delete(&client, n).await;
                    }
                    // No record is live, so there is room, at the latest after the cleaner has run.
                    if let Err(error) = client.put(&key(next), &value(next, size)).await {
                        fail(&client, &format!("round {round}: the first put"), &error).await;
                    }
                    model.insert(next, size);
                    next += 1;
                }
            });
        }
    });
}

/// The page gives the fill of pools of the default shape, for new pools and for pools in which everything was deleted
/// once.
#[test]
fn pools_of_the_default_shape_take_what_the_page_says() {
    let page = include_str!("../../../../docs/design/0014-cleaning.md");
    let (_, table) = page
        .split_once("| new | after deletes |\n| --- | --- | --- | --- | --- | --- |\n")
        .unwrap();
    let mut measured = String::new();
    for capacity in [1, 2, 4, 8, 16, 32, 64, 128].map(|mib| mib << 20) {
        let segment_size = segment_size_default(capacity);
        let world = world((capacity, segment_size, 0));
        let shares = world.run(async |world| {
            let client = world.client().await;
            let (mut model, mut next) = (BTreeMap::new(), 0);
            let mut shares = Vec::new();
            for _ in 0..2 {
                fill(&client, &mut model, &mut next, 1000).await;
                let live = client.stat().await.unwrap().live_bytes;
                shares.push(100 * live / capacity);
                while let Some((n, _)) = model.pop_first() {
                    delete(&client, n).await;
                }
            }
            shares
        });
        let count = capacity / segment_size;
        let reserved = if count < 64 { 2 } else { 2 + count / 64 };
        measured += &format!(
            "| {} MiB | {} KiB | {count} | {reserved} | {} % | {} % |\n",
            capacity >> 20,
            segment_size >> 10,
            shares[0],
            shares[1]
        );
    }
    assert!(table.starts_with(&measured), "measured:\n{measured}");
}

/// The README promises that overwrites continue without end with 85 % of the capacity live, even in the smallest pools
/// of 32 segments.
#[test]
fn with_85_percent_live_a_pool_of_32_segments_takes_overwrites_of_several_times_its_capacity() {
    on_every_provider(|| {
        let capacity = 8 << 20;
        let world = world((capacity, segment_size_default(capacity), 0));
        world.run(async |world| {
            let client = world.client().await;
            let size = 1000;
            let keys = capacity * 85 / 100 / record_size(12, size);
            let mut random = stonecast_base::random_from_seed(3);
            for n in 0..keys {
                client.put(&key(n), &value(n, size)).await.unwrap();
            }
            for _ in 0..4 * keys {
                let n = random.random_range(0..keys);
                if let Err(error) = client.put(&key(n), &value(n + 1, size)).await {
                    fail(&client, &format!("overwrite of {n}"), &error).await;
                }
            }
        });
    });
}

/// Fails unless `movable_out_of` leaves out the victim itself. If a server ends in the middle of a victim, no segment
/// may be free. The segment to which the cleaner was moving records holds less than the victim and looks like the
/// better choice, but the only room is its own.
#[test]
fn whenever_a_server_ends_the_next_one_finds_room_to_continue_cleaning() {
    on(Provider::Reference, || {
        let (capacity, segment_size, size) = (20 * (256 << 10), 256 << 10, 1000);
        let world = world((capacity, segment_size, size));
        let keys = capacity * 76 / 100 / record_size(12, size);
        let mut random = stonecast_base::random_from_seed(5);
        world.run(async |world| {
            let client = world.client().await;
            for n in 0..=keys {
                client.put(&key(n), &value(n, size)).await.unwrap();
            }
            // The tombstone has a segment to itself.
            delete(&client, keys).await;
        });
        for round in 0..150 {
            let end = [End::Kill, End::Close][round % 2];
            world.run_until(end, async |world| {
                let client = world.client().await;
                for _ in 0..random.random_range(0..150) {
                    let n = random.random_range(0..keys);
                    if let Err(error) = client.put(&key(n), &value(n + 1, size)).await {
                        fail(&client, &format!("round {round}: overwrite of {n}"), &error).await;
                    }
                }
            });
        }
    });
}

/// Fails without `spare_for_gap`: if records are moved to the last free segment, a power cut in the middle of a step
/// may leave less room than the rest of the victim needs, and no segment is ever free again.
#[test]
fn whenever_the_power_fails_in_the_middle_of_a_move_the_next_server_finds_room_to_continue_cleaning()
 {
    on(Provider::Reference, || {
        let (capacity, segment_size, size) = (20 * (256 << 10), 256 << 10, 1000);
        let world = world((capacity, segment_size, size));
        let keys = capacity * 76 / 100 / record_size(12, size);
        let mut random = stonecast_base::random_from_seed(6);
        world.run(async |world| {
            let client = world.client().await;
            for n in 0..=keys {
                client.put(&key(n), &value(n, size)).await.unwrap();
            }
            // The tombstone has a segment to itself.
            delete(&client, keys).await;
        });
        let mut torn = 0;
        for round in 0..100 {
            world.run_until(End::Kill, async |world| {
                let client = world.client().await;
                for _ in 0..random.random_range(0..150) {
                    let n = random.random_range(0..keys);
                    if let Err(error) = client.put(&key(n), &value(n + 1, size)).await {
                        fail(&client, &format!("round {round}: overwrite of {n}"), &error).await;
                    }
                }
                world.trouble.set(Trouble::TornMoves);
                for _ in 0..1000 {
                    let n = random.random_range(0..keys);
                    if client.put(&key(n), &value(n + 1, size)).await.is_err() {
                        break;
                    }
                }
            });
            torn += u32::from(world.trouble.replace(Trouble::None) == Trouble::SyncBroken);
        }
        assert!(
            torn > 90,
            "the power failed in the middle of a move {torn} times"
        );
    });
}

/// Fails unless the first record tells the purpose of its segment (`Purpose::of`): the segment of the tombstones takes
/// no appends as long as a client of the killed server lives, or a put takes the rest of that segment.
#[test]
fn a_full_pool_whose_server_was_killed_deletes_beside_the_clients_of_that_server() {
    on(Provider::SharedMemory, || {
        let world = world((2 << 20, 256 << 10, 0));
        let (mut model, mut next) = (BTreeMap::new(), 0);
        let mut survivors = Vec::new();
        for _ in 0..3 {
            let survivor = world.run_until(End::Kill, async |world| {
                let client = world.client().await;
                if survivors.is_empty() {
                    fill(&client, &mut model, &mut next, 1000).await;
                }
                for _ in 0..20 {
                    delete(&client, model.pop_first().unwrap().0).await;
                }
                client
            });
            survivors.push(survivor);
        }
        drop(survivors);
        world.run(async |world| {
            let client = world.client().await;
            assert_eq!(client.stat().await.unwrap().keys, model.len() as u64);
            while let Some((n, _)) = model.pop_first() {
                delete(&client, n).await;
            }
        });
    });
}

/// Size of a record.
fn record_size(key_size: u64, value_size: usize) -> u64 {
    (56 + key_size + value_size as u64).next_multiple_of(64)
}

/// The parameters of a story of random operations.
#[derive(Debug)]
struct Story {
    seed: u64,
    segments: u64,
    segment_size: u64,
    durability: Durability,
    clients: ClientPolicy,
    /// Sizes of values.
    sizes: Vec<usize>,
    random: Random,
}

impl Story {
    fn new(seed: u64) -> Self {
        let mut random = stonecast_base::random_from_seed(seed);
        let segment_size = [256 << 10, 512 << 10][random.random_range(0..2)];
        let kinds: [&[usize]; 6] = [
            &[0, 10],
            &[100, 1000],
            &[10_000],
            &[90_000],
            &[0, 100, 3_000, 60_000, 120_000],
            &[230_000, 200],
        ];
        let durability = match random.random_bool(0.2) {
            true => Durability::Power,
            false => Durability::Process,
        };
        Self {
            seed,
            segments: [4, 5, 6, 8, 12, 20, 40, 66][random.random_range(0..8)],
            segment_size,
            durability,
            clients: match (durability, random.random_range(0..4)) {
                (Durability::Process, 0) => ClientPolicy::Publishing,
                (_, 1) => ClientPolicy::Copying,
                _ => ClientPolicy::Trusted,
            },
            sizes: kinds[random.random_range(0..kinds.len())].to_vec(),
            random,
        }
    }

    fn size(&mut self) -> usize {
        self.sizes[self.random.random_range(0..self.sizes.len())]
    }

    /// Least number of bytes of live records before a put is refused; see `docs/design/0014-cleaning.md`.
    fn share(&self) -> u64 {
        let reserved = match self.segments {
            0..64 => 2,
            _ => 2 + self.segments / 64,
        };
        // The segments to which client, server and cleaner write, and the gain that cleaning needs to begin.
        let open = 4;
        let lost = 256 + 128 + *self.sizes.iter().max().unwrap() as u64;
        (self.segments.saturating_sub(reserved + open)) * (self.segment_size - lost)
    }

    async fn act(&mut self, client: &Client, model: &mut BTreeMap<u64, usize>, next: &mut u64) {
        match self.random.random_range(0..100) {
            0..60 => {
                let is_new = model.is_empty() || self.random.random_bool(0.7);
                let n = match is_new {
                    true => {
                        *next += 1;
                        *next
                    }
                    false => self.pick(model),
                };
                let size = self.size();
                match client.put(&key(n), &value(n + size as u64, size)).await {
                    Ok(_) => drop(model.insert(n, size)),
                    Err(StoreError::NoSpace { live, capacity }) => {
                        assert_eq!(capacity, self.segments * self.segment_size);
                        let share = self.share();
                        assert!(live >= share, "refused at {live} of {share}: {self:?}");
                    }
                    Err(error) => fail(client, &format!("put {n} in {self:?}"), &error).await,
                }
            }
            60..62 => assert!(!client.delete(b"absent").await.unwrap()),
            62 => {
                while let Some((n, _)) = model.pop_first() {
                    delete(client, n).await;
                }
            }
            _ if model.is_empty() => {}
            _ => {
                let n = self.pick(model);
                delete(client, n).await;
                model.remove(&n);
            }
        }
    }

    fn pick(&mut self, model: &BTreeMap<u64, usize>) -> u64 {
        let from = self
            .random
            .random_range(0..=*model.last_key_value().unwrap().0);
        *model.range(from..).next().unwrap().0
    }
}

async fn check(client: &Client, model: &BTreeMap<u64, usize>) {
    assert_eq!(client.stat().await.unwrap().keys, model.len() as u64);
    let mut found = Vec::new();
    for (&n, &size) in model {
        assert!(
            client.get(&key(n), &mut found).await.unwrap().is_some(),
            "key {n}"
        );
        assert_eq!(found, value(n + size as u64, size), "key {n}");
    }
}

/// Fails without any part of the reserve.
#[test]
fn no_delete_is_ever_refused_for_want_of_room() {
    let first: u64 = std::env::var("STONECAST_SEED").map_or(1, |seed| seed.parse().unwrap());
    let seeds: u64 = std::env::var("STONECAST_SEEDS").map_or(12, |seeds| seeds.parse().unwrap());
    for seed in first..first + seeds {
        let provider = [Provider::Reference, Provider::SharedMemory][seed as usize % 2];
        on(provider, || {
            let mut story = Story::new(seed);
            println!("STONECAST_SEED={}: {story:?}", story.seed);
            let world = World {
                capacity: story.segments * story.segment_size,
                segment_size: story.segment_size,
                durability: story.durability,
                options: ServerOptions {
                    clients: story.clients,
                    ..ServerOptions::default()
                },
                ..World::default()
            };
            let (mut model, mut next) = (BTreeMap::new(), 0);
            for _ in 0..4 {
                let end = match story.random.random_bool(0.7) {
                    true => End::Kill,
                    false => End::Close,
                };
                let size = story.size();
                world.run_until(end, async |world| {
                    let client = world.client().await;
                    check(&client, &model).await;
                    if story.random.random_bool(0.8) {
                        while model.len() < 4000 {
                            next += 1;
                            match client
                                .put(&key(next), &value(next + size as u64, size))
                                .await
                            {
                                Ok(_) => drop(model.insert(next, size)),
                                Err(StoreError::NoSpace { live, .. }) => {
                                    let share = story.share();
                                    assert!(
                                        live >= share,
                                        "refused at {live} of {share}: {story:?}"
                                    );
                                    break;
                                }
                                Err(error) => {
                                    fail(&client, &format!("fill in {story:?}"), &error).await
                                }
                            }
                        }
                    }
                    let steps = story.random.random_range(0..400);
                    for _ in 0..steps {
                        story.act(&client, &mut model, &mut next).await;
                    }
                    // In some of the runs all keys are deleted, one after the other.
                    if story.random.random_bool(0.3) {
                        while let Some((n, _)) = model.pop_first() {
                            delete(&client, n).await;
                        }
                    }
                });
            }
            world.run(async |world| check(&world.client().await, &model).await);
        });
    }
}
