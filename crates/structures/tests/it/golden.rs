//! The bytes of records, as `docs/formats/structures.md` describes them.

use stonecast_base::hash;
use stonecast_structures::{
    Chain, Entries, Kind, LogArea, LogKey, Mark, Operation, TenureWriter, Verb,
};

/// When this test fails on purpose, the format page changes with it.
#[test]
fn records_have_the_bytes_of_the_format_page() {
    let key = LogKey(7);
    let area = LogArea {
        offset: 0,
        size: 4096,
    };
    let mark = Mark {
        position: 0,
        chain: Chain::start(key, 3, 2, 5, 9),
    };
    let mut writer = TenureWriter::new(key, area, mark, 0);
    let operation = Operation {
        token: 0x1122,
        structure: 4,
        verb: Verb::Insert,
        key: b"key",
        value: b"value",
    };
    let kind = Kind::Operation { number: 10 };
    let first = writer.append(kind, &operation.encode(), 0).unwrap().bytes;
    let mut entries = Entries::default();
    entries.push_word(4096, 8);
    let kind = Kind::Transaction {
        last: 10,
        covers: 1,
    };
    let second = writer.append(kind, entries.body(), 0).unwrap().bytes;

    let start = [
        &3_u32.to_le_bytes()[..],
        &2_u32.to_le_bytes(),
        &5_u64.to_le_bytes(),
    ]
    .concat();
    let tag = hash::xxh3_64(7, &first[8..72]);
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let expected: Vec<u8> = words(&[
        tag,
        hash::xxh3_64(7, &start),
        5,
        10,
        2 | 24 << 32,
        1 << 32,
        0x1122,
        4 | 3 << 32 | 1 << 48 | 1 << 56,
        u64::from_le_bytes(*b"keyvalue"),
    ]);
    assert_eq!(first, expected);
    let expected: Vec<u8> = words(&[
        hash::xxh3_64(7, &second[8..64]),
        tag,
        6,
        10,
        2 | 16 << 32,
        1 | 2 << 32,
        (4096 / 8) << 21 | 1,
        8,
    ]);
    assert_eq!(second, expected);
}
