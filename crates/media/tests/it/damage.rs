//! Pools with damaged small files.

use std::fs::File;
use std::path::Path;

use rand::{Rng as _, RngExt as _};
use stonecast_base::hash::xxh3_128;
use stonecast_base::{Random, random_from_seed};
use stonecast_media::{Durability, MediaError, Pool, Repair};

use crate::support::{SEGMENT, create, fast_place, inspect, options, serve};

const COPY: usize = 4096;

/// Corrects the checksum of a header copy. Written from the format page, not from the code.
pub fn put_checksum(copy: &mut [u8]) {
    copy[16..32].fill(0);
    let checksum = xxh3_128(copy);
    copy[16..32].copy_from_slice(&checksum.to_le_bytes());
}

/// Changes fields of both copies, as a program of another version would write them.
fn rewrite(directory: &Path, change: impl Fn(&mut [u8])) {
    let path = directory.join("header");
    let mut bytes = std::fs::read(&path).unwrap();
    for copy in bytes.chunks_exact_mut(COPY) {
        change(copy);
        put_checksum(copy);
    }
    std::fs::write(&path, bytes).unwrap();
}

fn pool() -> tempfile::TempDir {
    let place = fast_place();
    create(place.path(), options(Durability::Process))
        .unwrap()
        .close()
        .unwrap();
    place
}

fn damages(repairs: &[Repair]) -> Vec<(String, u64)> {
    repairs
        .iter()
        .map(|repair| (repair.corruption.what.to_string(), repair.corruption.offset))
        .collect()
}

/// Needs the repair in `Pool::open`: without it the second opening would find the same damage.
#[test]
fn one_damaged_copy_is_repaired_from_the_other_and_reported() {
    for (copy, offset) in [(0, 16), (1, 4096 + 16)] {
        let place = pool();
        let path = place.path().join("header");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[copy * COPY + 3000] ^= 0x10;
        std::fs::write(&path, bytes).unwrap();

        let (pool, repairs) = inspect(place.path()).unwrap();
        assert_eq!(
            damages(&repairs),
            [("pool header, checksum".to_owned(), offset)]
        );
        assert!(!repairs[0].written && pool.was_clean());
        let (_, repairs) = inspect(place.path()).unwrap();
        assert_eq!(repairs.len(), 1, "an inspection repairs nothing");

        let (pool, repairs) = serve(place.path()).unwrap();
        assert_eq!(
            damages(&repairs),
            [("pool header, checksum".to_owned(), offset)]
        );
        assert!(repairs[0].written && pool.was_clean() && pool.opening() == 2);
        let message = repairs[0].corruption.to_string();
        assert!(
            message.contains(path.to_str().unwrap()) && message.contains("found 0x"),
            "{message}"
        );
        let (_, repairs) = inspect(place.path()).unwrap();
        assert_eq!(repairs, []);
    }
}

#[test]
fn two_damaged_copies_are_refused_and_left_alone() {
    let place = pool();
    let path = place.path().join("header");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[0] = b'S';
    bytes[COPY + 81] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    for refused in [
        inspect(place.path()).err().unwrap(),
        serve(place.path()).err().unwrap(),
    ] {
        let message = refused.to_string();
        let MediaError::HeaderLost { first, second } = refused else {
            panic!("{message}")
        };
        assert_eq!(
            (first.what.as_ref(), first.offset),
            ("pool header, magic", 0)
        );
        assert_eq!(
            (first.found.as_str(), first.expected.as_str()),
            ("\"Stonpool\"", "\"stonpool\"")
        );
        assert_eq!(
            (second.what.as_ref(), second.offset),
            ("pool header, checksum", 4096 + 16)
        );
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}

/// A crash between the writes of the two copies. Needs the comparison of generations.
#[test]
fn the_newer_of_two_whole_copies_counts_and_no_repair_is_reported() {
    for newer in [0, 1] {
        let place = pool();
        let path = place.path().join("header");
        let mut bytes = std::fs::read(&path).unwrap();
        let copy = &mut bytes[newer * COPY..(newer + 1) * COPY];
        copy[56] += 1;
        copy[104] = 41;
        put_checksum(copy);
        std::fs::write(&path, bytes).unwrap();
        let (pool, repairs) = serve(place.path()).unwrap();
        assert_eq!((pool.opening(), repairs.len()), (42, 0));
        drop(pool);
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes[..COPY] == bytes[COPY..]);
    }
}

#[test]
fn a_newer_version_is_refused_and_not_mistaken_for_damage() {
    let place = pool();
    rewrite(place.path(), |copy| copy[8] = 3);
    let refused = inspect(place.path()).err().unwrap();
    assert!(
        matches!(
            refused,
            MediaError::UnsupportedVersion {
                found: 3,
                supported: 2,
                ..
            }
        ),
        "{refused}"
    );

    // A crash during an upgrade leaves only one copy of the newer version.
    let place = pool();
    let path = place.path().join("header");
    let old = std::fs::read(&path).unwrap();
    rewrite(place.path(), |copy| copy[8] = 3);
    let mut mixed = std::fs::read(&path).unwrap();
    mixed[..COPY].copy_from_slice(&old[..COPY]);
    std::fs::write(&path, mixed).unwrap();
    assert!(matches!(
        serve(place.path()),
        Err(MediaError::UnsupportedVersion { .. })
    ));
}

/// The records of such a pool cannot be read. Needs the comparison with older versions.
#[test]
fn an_outdated_version_is_refused_with_a_remedy() {
    let place = pool();
    rewrite(place.path(), |copy| copy[8] = 1);
    let refused = inspect(place.path()).err().unwrap();
    assert!(
        matches!(
            refused,
            MediaError::OutdatedVersion {
                found: 1,
                supported: 2,
                ..
            }
        ),
        "{refused}"
    );
    assert!(
        refused
            .to_string()
            .contains("export it with the stonecast that wrote it"),
        "{refused}"
    );
    assert!(matches!(
        serve(place.path()),
        Err(MediaError::OutdatedVersion { .. })
    ));
}

#[test]
fn unknown_features_are_refused_to_the_extent_that_they_demand() {
    const INCOMPATIBLE: usize = 32;
    const READ_ONLY_COMPATIBLE: usize = 40;
    const COMPATIBLE: usize = 48;
    const RESERVED: usize = 172;

    let place = pool();
    rewrite(place.path(), |copy| copy[INCOMPATIBLE + 1] = 1);
    for refused in [
        inspect(place.path()).err().unwrap(),
        serve(place.path()).err().unwrap(),
    ] {
        assert!(
            matches!(
                refused,
                MediaError::UnsupportedFeatures { unknown: 256, .. }
            ),
            "{refused}"
        );
    }

    let place = pool();
    rewrite(place.path(), |copy| copy[READ_ONLY_COMPATIBLE + 1] = 1);
    assert!(inspect(place.path()).is_ok());
    let refused = serve(place.path()).err().unwrap();
    assert!(
        matches!(refused, MediaError::ReadOnlyFeatures { unknown: 256, .. }),
        "{refused}"
    );

    // Bytes of a newer program, unknown to this program, survive a change.
    let place = pool();
    rewrite(place.path(), |copy| {
        (copy[COMPATIBLE], copy[RESERVED + 7]) = (1 | 4, 99)
    });
    let (pool, _) = serve(place.path()).unwrap();
    assert_eq!(pool.opening(), 2);
    drop(pool);
    let bytes = std::fs::read(place.path().join("header")).unwrap();
    assert_eq!(
        (
            bytes[COMPATIBLE],
            bytes[RESERVED + 7],
            bytes[COPY + RESERVED + 7]
        ),
        (1 | 4, 99, 99)
    );
}

/// A correct checksum does not make a header sensible.
#[test]
fn nonsensical_fields_are_refused_by_name() {
    let cases: [(usize, u8, &str, u64); 12] = [
        (12, 1, "size", 12),
        (80, 1, "geometry", 80),
        (88, 1, "geometry", 80),
        (96, 5, "persistence domain", 96),
        (97, 2, "ddio", 97),
        (98, 2, "receive buffers", 98),
        (99, 2, "durability", 99),
        (100, 2, "clean", 100),
        (101, 1, "reserved bytes", 101),
        (48, 1 | 2, "shards", 168),
        (168, 7, "reserved bytes", 168),
        (4095, 1, "reserved bytes", 4095),
    ];
    for (offset, value, what, at) in cases {
        let place = pool();
        rewrite(place.path(), |copy| copy[offset] = value);
        let refused = serve(place.path()).err().unwrap();
        let message = refused.to_string();
        let MediaError::HeaderLost { first, second } = refused else {
            panic!("{message}")
        };
        assert_eq!(
            (first.what.to_string(), first.offset),
            (format!("pool header, {what}"), at)
        );
        assert_eq!(second.offset, at + 4096);
    }
    let place = pool();
    rewrite(place.path(), |copy| copy[104] = 0);
    assert!(
        matches!(serve(place.path()), Err(MediaError::HeaderLost { first, .. }) if first.what.ends_with("opening"))
    );
    rewrite(place.path(), |copy| copy[104..108].fill(0xff));
    assert!(matches!(
        serve(place.path()),
        Err(MediaError::OpeningsExhausted { .. })
    ));
}

/// Needs the check of the length: a read of a mapping past the end of its file kills the process.
#[test]
fn a_log_of_another_length_is_refused_with_its_length() {
    for length in [0, 8 * SEGMENT - 1, 8 * SEGMENT + 1] {
        let place = pool();
        File::options()
            .write(true)
            .open(place.path().join("log"))
            .unwrap()
            .set_len(length)
            .unwrap();
        for refused in [
            inspect(place.path()).err().unwrap(),
            serve(place.path()).err().unwrap(),
        ] {
            let MediaError::Corrupt(corruption) = refused else {
                panic!("{refused}")
            };
            assert_eq!(
                (corruption.offset, corruption.found),
                (length, format!("{length} bytes"))
            );
            assert_eq!(corruption.expected, format!("{} bytes", 8 * SEGMENT));
            assert!(corruption.file.ends_with("log"));
        }
    }
    let place = pool();
    std::fs::remove_file(place.path().join("log")).unwrap();
    let MediaError::Corrupt(corruption) = serve(place.path()).err().unwrap() else {
        panic!()
    };
    assert_eq!(corruption.found, "no file");
    assert!(
        !place.path().join("log").exists(),
        "a missing log is not created again"
    );
}

/// The facts that must never change, whatever happens to the header.
fn facts(pool: &Pool) -> impl PartialEq + std::fmt::Debug + use<> {
    let geometry = (
        pool.capacity(),
        pool.segment_size(),
        pool.platform(),
        pool.durability(),
    );
    (pool.uuid(), pool.tag_key(), pool.secret(), geometry)
}

#[derive(Clone, Copy, Debug)]
enum Mutation {
    Bits,
    Run,
    Truncation,
    Swap,
    Extension,
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) -> Mutation {
    const KINDS: [Mutation; 5] = [
        Mutation::Bits,
        Mutation::Run,
        Mutation::Truncation,
        Mutation::Swap,
        Mutation::Extension,
    ];
    let kind = KINDS[random.random_range(0..KINDS.len())];
    let length = bytes.len();
    match kind {
        Mutation::Bits => {
            for _ in 0..random.random_range(1..8) {
                // Half of the flips hit the first bytes of a copy, which hold the fields.
                let near = random.random_range(0..2) * COPY + random.random_range(0..160);
                let at = if random.random() {
                    near
                } else {
                    random.random_range(0..length)
                };
                bytes[at] ^= 1 << random.random_range(0..8);
            }
        }
        Mutation::Run => {
            let start = random.random_range(0..length);
            let end = (start + random.random_range(1..600)).min(length);
            if random.random() {
                random.fill_bytes(&mut bytes[start..end])
            } else {
                bytes[start..end].fill(random.random())
            }
        }
        Mutation::Truncation => bytes.truncate(random.random_range(0..length)),
        Mutation::Swap => {
            let block = 1 << random.random_range(0..13);
            let (a, b) = (
                random.random_range(0..length / block),
                random.random_range(0..length / block),
            );
            for index in 0..block {
                bytes.swap(a * block + index, b * block + index);
            }
        }
        Mutation::Extension => bytes.extend(std::iter::repeat_n(
            random.random::<u8>(),
            random.random_range(1..9000),
        )),
    }
    kind
}

/// A pool with a mutated file opens with the same facts or is refused by a typed error. An opening reports the damage,
/// and serving leaves no damage behind.
#[test]
fn ten_thousand_mutations_of_a_header_open_correctly_or_are_refused() {
    const SEED: u64 = 2;
    let place = pool();
    let path = place.path().join("header");
    let original = std::fs::read(&path).unwrap();
    let expected = facts(&inspect(place.path()).unwrap().0);
    let mut random = random_from_seed(SEED);
    let (mut opened, mut repaired, mut refused) = (0, 0, 0);
    for round in 0..10_000 {
        let mut bytes = original.clone();
        let kinds: Vec<_> = (0..random.random_range(1..4))
            .map(|_| mutate_if_any(&mut bytes, &mut random))
            .collect();
        std::fs::write(&path, &bytes).unwrap();
        let context = || format!("seed {SEED}, round {round}, {kinds:?}");
        let inspected = match inspect(place.path()) {
            Ok((pool, repairs)) => {
                assert_eq!(facts(&pool), expected, "{}", context());
                assert_eq!(
                    (pool.opening(), pool.was_clean()),
                    (1, true),
                    "{}",
                    context()
                );
                Ok(repairs)
            }
            Err(MediaError::HeaderLost { first, second }) => {
                assert!(
                    first.offset <= 4096 && second.offset >= 4096 && second.offset <= 8192,
                    "{}",
                    context()
                );
                Err(())
            }
            Err(other) => panic!("{}: {other}", context()),
        };
        assert!(std::fs::read(&path).unwrap() == bytes, "{}", context());
        match (serve(place.path()), inspected) {
            (Ok((pool, repairs)), Ok(before)) => {
                assert_eq!(facts(&pool), expected, "{}", context());
                assert_eq!(
                    (pool.opening(), damages(&repairs)),
                    (2, damages(&before)),
                    "{}",
                    context()
                );
                opened += 1;
                repaired += repairs.len();
                drop(pool);
                assert_eq!(inspect(place.path()).unwrap().1, [], "{}", context());
            }
            (Err(MediaError::HeaderLost { .. }), Err(())) => refused += 1,
            (served, _) => panic!("{}: {:?}", context(), served.err()),
        }
    }
    println!("{opened} opened, of which {repaired} repaired; {refused} refused");
    assert!(
        opened > 1000 && repaired > 1000 && refused > 1000,
        "{opened} {repaired} {refused}: the mutations are one-sided"
    );
}

fn mutate_if_any(bytes: &mut Vec<u8>, random: &mut Random) -> Option<Mutation> {
    (bytes.len() >= 2 * COPY).then(|| mutate(bytes, random))
}
