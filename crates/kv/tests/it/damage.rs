//! Pools with wrong bytes: opened correctly, repaired, or refused with a message for people; never a panic and never a
//! wrong value. In ten thousand runs, a check of the pool agrees with the server that opens the pool (`agreement.rs`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};

use crate::agreement;
use crate::world::{End, World, key, value};

const KEYS: u64 = 60;
const MUTATIONS: u64 = 5_000;

/// Fills the pool, and returns its content. Only the witness vouches for the last write of a segment.
fn fill(world: &World, end: End) -> BTreeMap<u64, Vec<u8>> {
    let mut present = BTreeMap::new();
    world.run_until(end, async |world| {
        let client = world.client().await;
        for n in 0..KEYS * 2 {
            let fresh = value(n, 30 + n as usize * 17 % 900);
            client.put(&key(n % KEYS), &fresh).await.unwrap();
            present.insert(n % KEYS, fresh);
        }
        for n in [3, 5, 8] {
            assert!(client.delete(&key(n)).await.unwrap());
            present.remove(&n);
        }
    });
    present
}

pub fn copy_pool(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Makes one random change to one file. Returns a description of the change for the message of a failure.
fn mutate(directory: &Path, random: &mut Random) -> String {
    let files = ["header", "log", "log", "log", "checkpoint"];
    let name = files[random.random_range(0..files.len())];
    let path = directory.join(name);
    let Ok(mut bytes) = fs::read(&path) else {
        return format!("{name} is not there");
    };
    // Most of the log is empty; damage there proves nothing.
    let used = bytes
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |last| last + 1)
        .max(1);
    let at = random.random_range(0..used);
    let kind = random.random_range(0..8);
    let what = match kind {
        0..=2 => {
            let bit = random.random_range(0..8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at} flipped")
        }
        3 => {
            let size = random.random_range(1..512).min(bytes.len() - at);
            bytes[at..at + size].fill(0);
            format!("{size} bytes from {at} zeroed")
        }
        4 => {
            let size = random.random_range(1..64).min(bytes.len() - at);
            bytes[at..at + size]
                .iter_mut()
                .for_each(|byte| *byte = random.random());
            format!("{size} bytes from {at} overwritten")
        }
        5 => {
            let (from, to) = (at / 64 * 64, random.random_range(0..used) / 64 * 64);
            let size = 64.min(bytes.len() - from).min(bytes.len() - to);
            bytes.copy_within(from..from + size, to);
            format!("64 bytes from {from} copied to {to}")
        }
        6 => {
            let size = random.random_range(0..bytes.len());
            bytes.truncate(size);
            format!("cut to {size} bytes")
        }
        _ => {
            bytes.extend_from_slice(&[7; 4096]);
            "4096 bytes appended".to_owned()
        }
    };
    fs::write(&path, bytes).unwrap();
    format!("{name}: {what}")
}

fn opened_or_refused(end: End, seed: u64) {
    let world = World {
        capacity: 1 << 20,
        segment_size: 256 << 10,
        ..World::default()
    };
    let present = fill(&world, end);
    let original = world.pool_path();
    let saved = world.directory.path().join("saved");
    copy_pool(&original, &saved);
    let mut random = random_from_seed(seed);
    let (mut opened, mut refused, mut unreadable) = (0, 0, 0);
    for round in 0..MUTATIONS {
        copy_pool(&saved, &original);
        let what = mutate(&original, &mut random);
        let story = format!("seed {seed} round {round} ({what})");
        let said = agreement::check(&original);
        let served = agreement::serve(&world, KEYS);
        for (n, read) in (0..).zip(&served.read) {
            let Ok(read) = read else {
                unreadable += 1;
                continue;
            };
            assert!(
                read.as_ref() == present.get(&n),
                "{story}: key {n} is wrong"
            );
        }
        match served.refusal() {
            None => opened += 1,
            Some(text) => {
                refused += 1;
                let named = ["header", "log", "checkpoint", "pool"]
                    .iter()
                    .any(|name| text.contains(name));
                assert!(named, "{story}: the message names no file: {text}");
            }
        }
        agreement::compare(&world, &said, &served, &story);
    }
    println!(
        "{MUTATIONS} mutations, seed {seed}: {opened} opened, {refused} refused, {unreadable} records reported damaged"
    );
    assert!(
        opened > MUTATIONS / 20 && refused > MUTATIONS / 20,
        "the mutations exercise both outcomes"
    );
}

/// Fails without any one of the checksums of header and checkpoint, the tags, the seals and the links.
#[test]
pub fn a_closed_pool_with_any_wrong_bytes_opens_right_or_is_refused() {
    opened_or_refused(End::Close, 11);
}

/// Fails without the witnesses, too: nothing else vouches for the last write of a segment.
#[test]
fn a_killed_pool_with_any_wrong_bytes_opens_right_or_is_refused() {
    opened_or_refused(End::Kill, 12);
}
