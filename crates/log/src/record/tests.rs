use super::*;
use crate::memory::format;

fn encoded(draft: &Draft<'_>) -> Vec<u8> {
    let mut bytes = vec![0xff; 7];
    draft.encode(&format(4096, 2), 256, 3, 5, &mut bytes);
    bytes
}

fn draft<'a>(key: &'a [u8], value: &'a [u8]) -> Draft<'a> {
    Draft { kind: Kind::Put, condition: Condition::None, token: 11, key, value }
}

#[test]
fn what_was_written_is_read() {
    let (key, value) = (vec![1; KEY_SIZE_MAX], vec![2; VALUE_SIZE_MAX]);
    let drafts = [
        draft(b"k", b""),
        draft(&key, &value),
        Draft { condition: Condition::Version(0), ..draft(b"key", b"value") },
        Draft { condition: Condition::Absent, ..draft(b"key", b"value") },
        Draft { kind: Kind::Delete, condition: Condition::Version(u64::MAX), ..draft(b"key", b"") },
    ];
    for draft in drafts {
        let bytes = encoded(&draft);
        assert_eq!(bytes.len() as u64, record_size(draft.key.len(), draft.value.len()));
        let record = check(&format(4096, 2), 256, 3, &bytes).unwrap();
        assert_eq!((record.key, record.value), (draft.key, draft.value));
        let header = record.header;
        assert_eq!((header.kind(), header.condition(), header.token()), (draft.kind, draft.condition, 11));
        assert_eq!((header.generation(), header.epoch(), header.sequence()), (3, 5, 0));
        assert_eq!(header.size(), bytes.len() as u64);
    }
}

/// Every bit of the record that is not the server's.
#[test]
fn a_record_with_any_bit_changed_fails_unless_the_bit_is_padding_or_stamp() {
    let format = format(4096, 2);
    let bytes = encoded(&draft(b"some key", b"a value that is a little longer"));
    let end = RECORD_HEADER_SIZE + 8 + 31;
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let free = (8..32).contains(&(bit / 8)) || bit / 8 >= end;
        match check(&format, 256, 3, &changed) {
            Ok(record) => assert!(free && record.value == b"a value that is a little longer", "bit {bit}"),
            Err(_) => assert!(!free, "bit {bit}"),
        }
    }
}

#[test]
fn a_record_at_another_place_or_of_another_generation_fails() {
    let format = format(4096, 2);
    let bytes = encoded(&draft(b"key", b"value"));
    assert!(matches!(check(&format, 320, 3, &bytes), Err(RecordFault::Tag { .. })));
    assert_eq!(check(&format, 256, 4, &bytes), Err(RecordFault::Generation { found: 3, expected: 4 }));
    assert_eq!(check_read(&format, 256, 4, &bytes), Err(RecordFault::Generation { found: 3, expected: 4 }));
    assert!(check_read(&format, 256, 3, &bytes).is_ok());
    let mut later = Vec::new();
    draft(b"key", b"value").encode(&format, 256, 1024 + 3, 5, &mut later);
    assert!(check_read(&format, 256, 3, &later).is_ok(), "a reader knows the low bits alone");
}

#[test]
fn a_record_of_which_the_end_is_not_there_says_how_long_it_is() {
    let format = format(4096, 2);
    let bytes = encoded(&draft(b"key", &[9; 100]));
    for size in 0..RECORD_HEADER_SIZE {
        assert_eq!(check(&format, 256, 3, &bytes[..size]), Err(RecordFault::TooShort { size: size as u64, needed: 64 }));
    }
    for size in RECORD_HEADER_SIZE..RECORD_HEADER_SIZE + 103 {
        assert_eq!(check(&format, 256, 3, &bytes[..size]), Err(RecordFault::TooShort { size: size as u64, needed: 192 }));
    }
    assert!(check(&format, 256, 3, &bytes[..RECORD_HEADER_SIZE + 103]).is_ok(), "padding is not needed");
}

#[test]
fn impossible_lengths_and_codes_are_named() {
    let bytes = encoded(&Draft { kind: Kind::Delete, ..draft(b"key", b"") });
    let changed = |at: usize, with: &[u8]| {
        let mut header: [u8; RECORD_HEADER_SIZE] = *bytes.first_chunk().unwrap();
        header[at..at + with.len()].copy_from_slice(with);
        RecordHeader::parse(&header).unwrap_err()
    };
    assert_eq!(changed(54, &[0]), RecordFault::Kind(0));
    assert_eq!(changed(54, &[5]), RecordFault::Kind(5));
    assert_eq!(changed(54, &[4, 1]), RecordFault::Condition(1), "what was moved has no condition");
    assert_eq!(changed(55, &[3]), RecordFault::Condition(3));
    assert_eq!(changed(56, &[1]), RecordFault::Expected(1));
    assert_eq!(changed(52, &[0, 0]), RecordFault::KeySize(0));
    assert_eq!(changed(52, &[1, 4]), RecordFault::KeySize(1025));
    assert_eq!(changed(48, &[1]), RecordFault::ValueSize { found: 1, limit: 0 });
    let put = changed(48, &[1, 0, 16, 0, 3, 0, 1]);
    assert_eq!(put, RecordFault::ValueSize { found: (1 << 20) + 1, limit: 1 << 20 });
}

#[test]
#[should_panic(expected = "a delete has no value")]
fn a_delete_with_a_value_cannot_be_written() {
    encoded(&Draft { kind: Kind::Delete, ..draft(b"key", b"value") });
}
