//! Records against every kind of wrong bytes.

use proptest::prelude::*;
use stonecast_log::{Condition, Draft, Kind, LogFormat, RecordFault, check, check_read, record_size};

fn format() -> LogFormat {
    LogFormat { uuid: 1, tag_key: 42, secret: None, segment_size: 1 << 20, segment_count: 4 }
}

fn encode(key: &[u8], value: &[u8], position: u64, generation: u32) -> Vec<u8> {
    let draft = Draft { kind: Kind::Put, condition: Condition::Version(7), token: 9, key, value };
    let mut bytes = Vec::new();
    draft.encode(&format(), position, generation, 3, &mut bytes);
    bytes
}

proptest! {
    #[test]
    fn a_record_gives_back_what_went_in(key in prop::collection::vec(any::<u8>(), 1..1025), value in prop::collection::vec(any::<u8>(), 0..5000)) {
        let bytes = encode(&key, &value, 640, 5);
        prop_assert_eq!(bytes.len() as u64, record_size(key.len(), value.len()));
        let record = check(&format(), 640, 5, &bytes).unwrap();
        prop_assert_eq!(record.key, key.as_slice());
        prop_assert_eq!(record.value, value.as_slice());
        prop_assert_eq!(record.header.condition(), Condition::Version(7));
        prop_assert_eq!((record.header.token(), record.header.epoch(), record.header.sequence()), (9, 3, 0));
    }

    #[test]
    fn any_bytes_are_a_record_or_a_fault_and_never_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300), sane in any::<bool>()) {
        if sane && bytes.len() >= 64 {
            bytes[48..55].copy_from_slice(&[100, 0, 0, 0, 20, 0, 1]);
            bytes[55] = 0;
        }
        prop_assert!(check(&format(), 64, 1, &bytes).is_err());
    }

    #[test]
    fn a_changed_bit_outside_stamp_and_padding_is_noticed(bit in 0usize..8, at in 0usize..164) {
        let mut bytes = encode(&[1; 20], &[2; 80], 64, 1);
        prop_assume!(!(8..32).contains(&at));
        bytes[at] ^= 1 << bit;
        prop_assert!(check(&format(), 64, 1, &bytes).is_err());
    }
}

/// Needs: the position in the seed of the tag; the generation compared.
#[test]
fn a_record_at_another_place_or_of_another_use_does_not_check() {
    let bytes = encode(b"key", b"value", 640, 1025);
    assert!(check_read(&format(), 640, 1, &bytes).is_ok(), "a reader knows the generation modulo 1024");
    assert!(matches!(check(&format(), 704, 1025, &bytes), Err(RecordFault::Tag { .. })));
    assert!(matches!(check(&format(), 640, 1, &bytes), Err(RecordFault::Generation { found: 1025, expected: 1 })));
    assert!(matches!(check_read(&format(), 640, 2, &bytes), Err(RecordFault::Generation { .. })));
    let other = LogFormat { tag_key: 43, ..format() };
    assert!(matches!(check(&other, 640, 1025, &bytes), Err(RecordFault::Tag { .. })), "nor in another pool");
}
