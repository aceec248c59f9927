//! Entries, as a backup finds them in its memory.

use stonecast_base::random_from_seed;
use stonecast_cluster::{Epoch, Nonce};
use stonecast_replication::{
    AppendKey, BODY_SIZE_MAX, Entry, GRAIN, HEADER_SIZE, Header, Kind, NotAnEntry,
};

use rand::RngExt as _;

const BODY: &[u8] = b"a key and its value";

/// The random words of this pool.
const WORDS: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

fn nonce(number: u128) -> Nonce {
    Nonce::from_u128(number)
}

fn key() -> AppendKey {
    AppendKey::new(WORDS, nonce(7))
}

fn entry() -> Entry {
    Entry {
        shard: 5,
        term: Epoch(2),
        version: 40,
        previous: 37,
        horizon: 36,
        kind: Kind::Record,
    }
}

fn made(entry: Entry, key: &AppendKey, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_SIZE];
    bytes.extend_from_slice(body);
    entry.write_header(key, &mut bytes);
    bytes
}

/// Reads an entry as a whole.
fn read(key: &AppendKey, bytes: &[u8]) -> Result<Entry, NotAnEntry> {
    let header = Header::read(key, bytes.first_chunk().expect("a header"))?;
    header.check_body(key, &bytes[HEADER_SIZE..][..header.body_size])?;
    Ok(header.entry)
}

#[test]
fn an_entry_is_read_as_it_was_made() {
    for body in [BODY, &[7], &vec![1; BODY_SIZE_MAX]] {
        assert_eq!(read(&key(), &made(entry(), &key(), body)), Ok(entry()));
    }
    let horizon = Entry {
        version: 37,
        kind: Kind::Horizon,
        ..entry()
    };
    assert_eq!(read(&key(), &made(horizon, &key(), b"")), Ok(horizon));
}

/// The bytes are those of `docs/formats/append.md`: a change of the code that changes the format
/// fails here.
#[test]
fn the_bytes_of_an_entry_are_those_of_its_format() {
    let bytes = made(entry(), &key(), BODY);
    let words: Vec<u64> = bytes[..HEADER_SIZE]
        .as_chunks()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .collect();
    let shard_and_size = 5 | (BODY.len() as u64) << 32;
    let kind_and_format = 1 | 1 << 32;
    assert_eq!(words[2..], [2, 40, 37, 36, shard_and_size, kind_and_format]);
    assert_eq!(words[..2], [0x7292_8d5f_5c99_590c, 0x8751_c34a_fbaf_93d4]);
}

#[test]
pub fn every_bit_of_an_entry_counts() {
    let bytes = made(entry(), &key(), BODY);
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&key(), &changed).is_err(), "bit {bit}");
    }
}

#[test]
pub fn an_entry_for_another_pool_is_no_entry_here() {
    let bytes = made(entry(), &AppendKey::new([1, 2], nonce(7)), BODY);
    assert!(matches!(read(&key(), &bytes), Err(NotAnEntry::Tag { .. })));
}

#[test]
fn an_entry_of_the_cluster_before_it_was_restored_is_no_entry_here() {
    let bytes = made(entry(), &AppendKey::new(WORDS, nonce(6)), BODY);
    assert!(matches!(read(&key(), &bytes), Err(NotAnEntry::Tag { .. })));
}

#[test]
fn an_entry_whose_body_a_crash_has_torn_names_both_digests() {
    let mut bytes = made(entry(), &key(), BODY);
    bytes[HEADER_SIZE..].fill(0);
    let reason = read(&key(), &bytes).expect_err("the body is gone");
    assert!(matches!(reason, NotAnEntry::Body { found, expected } if found != expected));
}

#[test]
fn memory_that_holds_something_else_is_no_entry() {
    let mut random = random_from_seed(4);
    assert_eq!(
        Header::read(&key(), &[0; HEADER_SIZE]),
        Err(NotAnEntry::Format { found: 0 })
    );
    for _ in 0..1_000 {
        let mut bytes: [u8; HEADER_SIZE] = random.random();
        assert!(Header::read(&key(), &bytes).is_err());
        bytes[60..].copy_from_slice(&1_u32.to_le_bytes());
        assert!(matches!(
            Header::read(&key(), &bytes),
            Err(NotAnEntry::Tag { .. })
        ));
    }
}

#[test]
fn the_next_entry_may_begin_at_the_next_line() {
    for (size, stride) in [(1, 128), (64, 128), (65, 192)] {
        let bytes = made(entry(), &key(), &vec![1; size]);
        let header = Header::read(&key(), bytes.first_chunk().unwrap()).unwrap();
        assert_eq!(header.stride(), stride);
        assert!(stride.is_multiple_of(GRAIN));
    }
}

#[test]
fn entries_whose_numbers_contradict_each_other_are_not_made() {
    let wrong = [
        Entry {
            term: Epoch(0),
            ..entry()
        },
        Entry {
            version: 37,
            ..entry()
        },
        Entry {
            horizon: 38,
            ..entry()
        },
        Entry {
            kind: Kind::Horizon,
            ..entry()
        },
    ];
    for entry in wrong {
        let made = std::panic::catch_unwind(|| made(entry, &key(), BODY));
        assert!(made.is_err(), "{entry:?}");
    }
}
