//! Runs of many seeds, in which no promise is broken.

use stonecast_replication_sim::{Counts, Setup, World};

const SEEDS: u64 = 1_000;

/// Runs a seed.
pub fn run(seed: u64) -> Counts {
    let mut world = World::new(&Setup::new(seed));
    world.run();
    world.outcome().counts
}

#[test]
fn answers_stay_true_whatever_befalls_the_nodes() {
    let mut sum = Counts::default();
    for seed in 0..SEEDS {
        let counts = std::panic::catch_unwind(|| run(seed));
        let counts = counts.unwrap_or_else(|_| panic!("seed {seed}"));
        sum.events += counts.events;
        sum.answers += counts.answers;
        sum.takeovers += counts.takeovers;
        sum.joins += counts.joins;
        sum.moves += counts.moves;
    }
    println!("{SEEDS} seeds: {sum:?}");
    let dull = sum.answers < 30 * SEEDS
        || sum.takeovers < SEEDS
        || sum.joins < SEEDS / 4
        || sum.moves < SEEDS / 4;
    assert!(!dull, "little happens in this world");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let hash = |seed| {
        let mut world = World::new(&Setup::new(seed));
        world.run();
        world.outcome().hash
    };
    assert_eq!(hash(7), hash(7));
    assert_ne!(hash(7), hash(8));
}
