use super::*;
use crate::facts::format;

const PLACE: (u32, u32) = (3, 5);

fn encoded(draft: &Draft<'_>) -> Vec<u8> {
    let mut bytes = vec![0xff; 7];
    let tag = draft.encode(&format(4096, 2), 256, 3, 5, &mut bytes);
    assert_eq!(bytes[24..32], tag.to_le_bytes());
    bytes
}

fn draft<'a>(key: &'a [u8], value: &'a [u8]) -> Draft<'a> {
    Draft {
        kind: Kind::Put,
        form: Form::Whole,
        condition: Condition::None,
        token: 11,
        expires: None,
        key,
        value,
    }
}

#[test]
fn a_written_record_is_read_back() {
    let (key, value) = (vec![1; KEY_SIZE_MAX], vec![2; VALUE_SIZE_MAX]);
    let drafts = [
        draft(b"k", b""),
        draft(&key, &value),
        Draft {
            condition: Condition::Version(0),
            ..draft(b"key", b"value")
        },
        Draft {
            condition: Condition::Absent,
            ..draft(b"key", b"value")
        },
        Draft {
            kind: Kind::Delete,
            condition: Condition::Version(u64::MAX),
            ..draft(b"key", b"")
        },
    ];
    for draft in drafts {
        for token in [0, 11] {
            let draft = Draft { token, ..draft };
            let bytes = encoded(&draft);
            let record = check(&format(4096, 2), 256, PLACE, &bytes).unwrap();
            assert_eq!((record.key, record.value), (draft.key, draft.value));
            let header = record.header;
            assert_eq!(
                (header.kind(), header.condition(), header.token()),
                (draft.kind, draft.condition, token)
            );
            assert_eq!((header.generation(), header.moved_at()), (3, None));
            assert_eq!(
                (header.whole_size(), header.size()),
                (
                    bytes.len() as u64,
                    record_size(draft.key.len(), draft.value.len())
                )
            );
        }
    }
}

/// Needs generation and tag of the new place: with one of those of the old place, the bytes differ.
#[test]
fn a_record_that_is_bound_to_another_place_is_the_one_that_is_encoded_there() {
    let format = format(4096, 2);
    let drafts = [
        draft(b"k", b""),
        draft(b"key", &[7; 100]),
        Draft {
            token: 0,
            condition: Condition::Version(8),
            expires: Expiry::at_ms(u64::MAX),
            ..draft(b"key", b"value")
        },
        Draft {
            form: Form::Head,
            condition: Condition::Absent,
            ..draft(b"key", &[1; HEAD_SIZE])
        },
        Draft {
            form: Form::Chunk,
            condition: Condition::Absent,
            expires: Expiry::at_ms(5),
            ..draft(b"part", b"chunk")
        },
    ];
    for draft in drafts {
        let (mut bound, mut there) = (Vec::new(), Vec::new());
        draft.encode(&format, 1 << 60, 0, 5, &mut bound);
        let tag = draft.encode(&format, 512, GENERATION_MAX, 5, &mut there);
        assert_eq!(rebind(&format, &mut bound, (512, GENERATION_MAX, 5)), tag);
        assert_eq!(bound, there, "{draft:?}");
    }
}

/// Needs the flags in the facts: an absent field takes no bytes.
#[test]
fn token_and_moment_take_bytes_only_where_there_are_any() {
    let size = |token, condition| {
        encoded(&Draft {
            token,
            condition,
            ..draft(b"key", b"value")
        })
        .len()
    };
    assert_eq!(size(0, Condition::None), 40 + 8);
    assert_eq!(size(0, Condition::Absent), 40 + 8);
    assert_eq!(size(1, Condition::None), 48 + 8);
    assert_eq!(size(0, Condition::Version(7)), 48 + 8);
    assert_eq!(size(1, Condition::Version(7)), 56 + 8);
}

/// Needs the flag in the facts: only a record with an expiry has room for one.
#[test]
fn an_expiry_is_read_back_from_every_form_of_a_record_and_stays_when_the_record_is_moved() {
    let (format, expires) = (format(4096, 2), Expiry::at_ms(2_000_000_000_123));
    for (token, condition) in [
        (0, Condition::None),
        (11, Condition::None),
        (0, Condition::Version(7)),
        (11, Condition::Version(7)),
    ] {
        for size in 0..70 {
            let value = vec![7; size];
            let plain = Draft {
                token,
                condition,
                ..draft(b"key", &value)
            };
            let draft = Draft { expires, ..plain };
            let bytes = encoded(&draft);
            assert_eq!(bytes.len(), encoded(&plain).len() + 8);
            let found = check(&format, 256, PLACE, &bytes).unwrap();
            let header = found.header;
            assert_eq!((header.expires(), header.generation()), (expires, 3));
            assert_eq!((found.key, found.value), (draft.key, draft.value));
            assert_eq!((header.token(), header.condition()), (token, condition));
            assert_eq!(header.size(), draft.size());
            let mut moved = Vec::new();
            relocate(&format, found, (512, GENERATION_MAX, 6), 77, &mut moved);
            let there = check(&format, 512, (GENERATION_MAX, 6), &moved).unwrap();
            assert_eq!(there.header.expires(), expires);
            assert_eq!((there.key, there.value), (draft.key, draft.value));
            assert_eq!(there.header.size(), header.size());
            assert!(there.header.whole_size() <= there.header.size());
            assert_eq!(read_of_key(&format, 256, 3, b"key", &stamped(bytes)), None);
        }
    }
}

/// The record as a reader finds it.
fn stamped(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[0] = 77;
    bytes[22] = 5;
    bytes.resize(bytes.len().max(RECORD_START_SIZE), 0xee);
    bytes
}

#[test]
fn an_expired_record_is_buried_under_a_tombstone_of_its_version() {
    let format = format(4096, 2);
    let bytes = encoded(&Draft {
        expires: Expiry::at_ms(1),
        ..draft(b"key", &[9; 200])
    });
    let found = check(&format, 256, PLACE, &bytes).unwrap();
    let mut buried = Vec::new();
    bury(&format, found, (512, 4, 6), 77, &mut buried);
    let there = check(&format, 512, (4, 6), &buried).unwrap();
    let header = there.header;
    assert_eq!((header.kind(), header.token()), (Kind::Delete, 11));
    assert_eq!((header.expires(), header.moved_at()), (None, Some(77)));
    assert_eq!((there.key, header.size()), (&b"key"[..], record_size(3, 0)));
}

#[test]
fn an_expiry_that_no_record_has_is_a_fault() {
    let bytes = encoded(&Draft {
        expires: Expiry::at_ms(1),
        ..draft(b"key", b"value")
    });
    let parse = |bytes: &[u8]| {
        let mut start = [0; RECORD_START_SIZE];
        start.copy_from_slice(&bytes[..RECORD_START_SIZE]);
        RecordHeader::parse(&start).map(drop)
    };
    let mut zero = stamped(bytes);
    zero[48..56].fill(0);
    assert_eq!(parse(&zero), Err(RecordFault::Expiry));
}

/// Needs the two readings of the moment: the key of a time mark would count among those that expire.
#[test]
fn the_moment_of_a_delete_is_a_time_mark_and_stays_when_the_record_is_moved() {
    let (format, mark) = (format(4096, 2), Expiry::at_ms(2_000_000_000_123));
    let bytes = encoded(&Draft {
        kind: Kind::Delete,
        expires: mark,
        ..draft(b"key", b"")
    });
    let found = check(&format, 256, PLACE, &bytes).unwrap();
    let read = |header: RecordHeader| (header.kind(), header.expires(), header.time_mark());
    assert_eq!(read(found.header), (Kind::Delete, None, mark));
    let mut moved = Vec::new();
    relocate(&format, found, (512, GENERATION_MAX, 6), 77, &mut moved);
    let there = check(&format, 512, (GENERATION_MAX, 6), &moved).unwrap();
    assert_eq!(read(there.header), (Kind::Delete, None, mark));
    let put = encoded(&Draft {
        expires: mark,
        ..draft(b"key", b"value")
    });
    let put = check(&format, 256, PLACE, &put).unwrap();
    assert_eq!(read(put.header), (Kind::Put, mark, None));
}

/// The cleaner depends on this: the needed records of a segment fit into another one. Needs room
/// for a moment in every record.
#[test]
fn a_record_that_is_moved_takes_as_many_units_as_before() {
    let format = format(4096, 2);
    for size in 0..130 {
        for (token, condition) in [
            (0, Condition::None),
            (9, Condition::None),
            (9, Condition::Version(1)),
        ] {
            let value = vec![7; size];
            let bytes = encoded(&Draft {
                token,
                condition,
                ..draft(b"some key", &value)
            });
            let found = check(&format, 256, PLACE, &bytes).unwrap();
            let mut moved = Vec::new();
            let tag = relocate(&format, found, (512, 4, 6), 77, &mut moved);
            let there = check(&format, 512, (4, 6), &moved).unwrap();
            assert_eq!(
                (there.key, there.value, there.header.tag()),
                (found.key, found.value, tag)
            );
            assert_eq!(
                (
                    there.header.token(),
                    there.header.moved_at(),
                    there.header.condition()
                ),
                (token, Some(77), Condition::None)
            );
            assert_eq!(there.header.size(), found.header.size());
            assert!(there.header.whole_size() <= there.header.size());
        }
    }
}

/// Flips every bit of the record that is not the server's.
#[test]
fn a_record_with_any_bit_changed_fails_unless_the_bit_is_of_the_stamp() {
    let format = format(4096, 2);
    let value = b"a value that is a little longer";
    let drafts = [
        draft(b"some key", value),
        Draft {
            token: 0,
            ..draft(b"some key", value)
        },
        Draft {
            condition: Condition::Version(3),
            ..draft(b"some key", value)
        },
        Draft {
            condition: Condition::Absent,
            ..draft(b"k", b"")
        },
    ];
    for draft in drafts {
        let bytes = encoded(&draft);
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            match check(&format, 256, PLACE, &changed) {
                Ok(record) => assert!(
                    bit / 8 < STAMP_SIZE && record.value == draft.value,
                    "bit {bit}"
                ),
                Err(_) => assert!(bit / 8 >= STAMP_SIZE, "bit {bit}"),
            }
        }
    }
}

#[test]
fn a_record_at_another_place_or_of_another_generation_fails() {
    let format = format(4096, 2);
    let mut bytes = encoded(&draft(b"key", b"value"));
    assert!(matches!(
        check(&format, 320, PLACE, &bytes),
        Err(RecordFault::Tag { .. })
    ));
    assert_eq!(
        check(&format, 256, (4, 5), &bytes),
        Err(RecordFault::Generation {
            found: 3,
            expected: 4
        })
    );
    assert_eq!(
        check_read(&format, 256, 4, &bytes),
        Err(RecordFault::Generation {
            found: 3,
            expected: 4
        })
    );
    bytes[22] = 5;
    assert!(check_read(&format, 256, 3, &bytes).is_ok());
    let mut later = Vec::new();
    draft(b"key", b"value").encode(&format, 256, 1024 + 3, 5, &mut later);
    later[22] = 5;
    assert!(
        check_read(&format, 256, 3, &later).is_ok(),
        "a reader knows only the low bits"
    );
}

/// Needs the opening in the seed: remains of a client of an earlier run do not pass as a record of
/// this one, and a stamp of one run is not read with a record of another.
#[test]
fn a_record_of_another_run_fails() {
    let format = format(4096, 2);
    let mut bytes = encoded(&draft(b"key", b"value"));
    for opening in [0, 4, 6, 5 + (1 << 15)] {
        assert!(matches!(
            check(&format, 256, (3, opening), &bytes),
            Err(RecordFault::Tag { .. })
        ));
        bytes[22..24].copy_from_slice(&(opening as u16).to_le_bytes());
        assert!(matches!(
            check_read(&format, 256, 3, &bytes),
            Err(RecordFault::Tag { .. })
        ));
    }
}

#[test]
fn a_record_without_its_end_names_its_length() {
    let format = format(4096, 2);
    for (bytes, whole) in [
        (encoded(&draft(b"key", &[9; 100])), 151),
        (
            encoded(&Draft {
                token: 0,
                ..draft(b"k", b"")
            }),
            41,
        ),
    ] {
        for size in 0..41 {
            let fault = check(&format, 256, PLACE, &bytes[..size]);
            assert!(
                size >= whole
                    || fault
                        == Err(RecordFault::TooShort {
                            size: size as u64,
                            needed: 41
                        }),
                "{size}"
            );
        }
        for size in 48..whole {
            let fault = check(&format, 256, PLACE, &bytes[..size]);
            assert_eq!(
                fault,
                Err(RecordFault::TooShort {
                    size: size as u64,
                    needed: whole as u64
                })
            );
        }
        assert_eq!(bytes.len(), whole);
        assert!(check(&format, 256, PLACE, &bytes).is_ok());
    }
}

#[test]
fn impossible_lengths_and_codes_are_named() {
    let bytes = encoded(&draft(b"key", &[1; 30]));
    let changed = |facts: u64, token: u64| {
        let mut header: [u8; RECORD_START_SIZE] = *bytes.first_chunk().unwrap();
        header[32..40].copy_from_slice(&facts.to_le_bytes());
        header[40..48].copy_from_slice(&token.to_le_bytes());
        RecordHeader::parse(&header)
    };
    assert_eq!(
        RecordHeader::parse(&[0; 64]).unwrap_err(),
        RecordFault::Kind,
        "zeros are not a record"
    );
    assert_eq!(changed(u64::MAX << 21, 1).unwrap_err(), RecordFault::Kind);
    assert_eq!(
        changed(HAS_TOKEN | DELETE, 0).unwrap_err(),
        RecordFault::Token
    );
    assert!(changed(HAS_TOKEN | DELETE, 1).is_ok());
    for (what, form, size) in [
        (HEAD - 1, Form::Whole, VALUE_SIZE_MAX),
        (HEAD, Form::Head, HEAD_SIZE),
        (CHUNK_FROM, Form::Chunk, 0),
        (WHAT_MAX, Form::Chunk, CHUNK_SIZE_MAX),
    ] {
        let header = changed(what, 0).unwrap();
        assert_eq!((header.form(), header.value_size()), (form, size));
    }
    for what in [WHAT_MAX + 1, WHAT_MASK] {
        assert_eq!(
            changed(what, 0).unwrap_err(),
            RecordFault::ValueSize((what - CHUNK_FROM) as u32)
        );
    }
}

#[test]
#[should_panic(expected = "a delete has no value")]
fn a_delete_with_a_value_cannot_be_written() {
    encoded(&Draft {
        kind: Kind::Delete,
        ..draft(b"key", b"value")
    });
}

/// The required result of [`read_of_key`].
fn expected<'a>(generation_low: u16, key: &[u8], bytes: &'a [u8]) -> Option<Reading<'a>> {
    let record = check_read(&format(4096, 2), 256, generation_low, bytes).ok()?;
    let header = record.header;
    let start = header.key_start() + record.key.len();
    let reading = Reading {
        sequence: header.sequence(),
        generation: header.generation(),
        start,
        value: record.value,
    };
    (record.key == key && header.sequence() != 0 && header.kind() == Kind::Put).then_some(reading)
}

/// Needs each of the comparisons: of facts, size of the value, end of the bytes, tag, sequence and key.
#[test]
fn a_reader_finds_the_record_of_a_key_exactly_where_the_check_and_a_comparison_find_it() {
    let format = format(4096, 2);
    let keys: Vec<Vec<u8>> = [1, 7, 8, 9, 16, 17, 23, 32, 33, 200, KEY_SIZE_MAX]
        .map(|size| (0..size).map(|at| at as u8).collect())
        .into();
    let long = vec![7; 3000];
    let kinds = [
        (Kind::Put, Condition::None),
        (Kind::Put, Condition::Version(9)),
        (Kind::Put, Condition::Absent),
        (Kind::Delete, Condition::None),
    ];
    let mut found = 0;
    for key in &keys {
        for (kind, condition) in kinds {
            for value in [&b""[..], b"value", &long[..100], &long] {
                let value = if kind == Kind::Delete { &[] } else { value };
                for (token, generation) in [(0, 3), (0, 1024 + 3), (11, 3)] {
                    let mut bytes = Vec::new();
                    Draft {
                        kind,
                        form: Form::Whole,
                        condition,
                        token,
                        expires: None,
                        key,
                        value,
                    }
                    .encode(&format, 256, generation, 5, &mut bytes);
                    bytes[22] = 5;
                    assert_eq!(
                        read_of_key(&format, 256, 3, key, &bytes),
                        None,
                        "it is not published"
                    );
                    bytes[0] = 77;
                    bytes.resize(bytes.len().max(RECORD_START_SIZE), 0xee);
                    let reading = read_of_key(&format, 256, 3, key, &bytes);
                    if kind == Kind::Delete {
                        assert_eq!(reading, None, "it gives the key no value");
                        continue;
                    }
                    let reading = reading.expect("it is there");
                    assert_eq!(
                        (reading.sequence, reading.generation, reading.value),
                        (77, generation, value)
                    );
                    assert_eq!(&bytes[reading.start..][..value.len()], value);
                    found += 1;
                    let mut other = key.clone();
                    for at in 0..key.len() {
                        other[at] ^= 0x40;
                        assert_eq!(
                            read_of_key(&format, 256, 3, &other, &bytes),
                            None,
                            "another key"
                        );
                        other[at] ^= 0x40;
                    }
                    for other in keys.iter().filter(|other| *other != key) {
                        assert_eq!(
                            read_of_key(&format, 256, 3, other, &bytes),
                            None,
                            "a key of another length"
                        );
                    }
                    assert_eq!(
                        read_of_key(&format, 320, 3, key, &bytes),
                        None,
                        "at another place"
                    );
                    assert_eq!(
                        read_of_key(&format, 256, 4, key, &bytes),
                        None,
                        "of another generation"
                    );
                    assert_eq!(
                        read_of_key(
                            &format,
                            256,
                            3,
                            key,
                            &bytes[..reading.start + value.len() - 1]
                        ),
                        None,
                        "not all of it"
                    );
                }
            }
        }
    }
    assert_eq!(found, 11 * 3 * 4 * 3);
    assert_eq!(read_of_key(&format, 256, 3, b"", &[0; 64]), None);
    assert_eq!(
        read_of_key(&format, 256, 3, &[0; KEY_SIZE_MAX + 1], &[0; 4096]),
        None
    );
}

#[test]
fn a_reader_believes_no_record_in_which_a_bit_has_changed() {
    for (token, size) in [(0, 5), (0, 100), (11, 5)] {
        let value = vec![9; size];
        let mut bytes = encoded(&Draft {
            token,
            ..draft(b"a key of some bytes", &value)
        });
        bytes[0] = 77;
        bytes[22] = 5;
        bytes.resize(bytes.len().next_multiple_of(64), 0xee);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            for generation in [3, 3 ^ 1] {
                let found = read_of_key(
                    &format(4096, 2),
                    256,
                    generation,
                    b"a key of some bytes",
                    &bytes,
                );
                assert_eq!(
                    found,
                    expected(generation, b"a key of some bytes", &bytes),
                    "bit {bit}"
                );
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// Needs the comparison of the token, in the reader's function as in the check.
#[test]
fn a_reader_believes_no_record_whose_token_is_zero() {
    let format = format(4096, 2);
    let mut bytes = encoded(&draft(b"a key", &[9; 100]));
    bytes[0] = 77;
    bytes[22] = 5;
    assert!(read_of_key(&format, 256, 3, b"a key", &bytes).is_some());
    bytes[40..48].fill(0);
    let tag = format.tag(256, 5, &bytes[TAGGED_FROM..]);
    bytes[STAMP_SIZE..TAGGED_FROM].copy_from_slice(&tag.to_le_bytes());
    assert_eq!(check_read(&format, 256, 3, &bytes), Err(RecordFault::Token));
    assert_eq!(read_of_key(&format, 256, 3, b"a key", &bytes), None);
}

/// Fails if the form is not kept: a chunk that was moved, or that came from another node, would be a user's key.
#[test]
fn the_form_of_a_record_stays_when_it_is_moved_and_when_it_is_sent_and_readers_of_keys_pass_over_it()
 {
    let format = format(4096, 2);
    for (form, value) in [(Form::Head, &[7; HEAD_SIZE][..]), (Form::Chunk, &[7; 100])] {
        let draft = Draft {
            form,
            ..draft(b"key", value)
        };
        let bytes = encoded(&draft);
        let record = check(&format, 256, PLACE, &bytes).unwrap();
        assert_eq!((record.header.form(), record.value), (form, value));
        assert_eq!(record.header.size(), draft.size());
        let mut moved = Vec::new();
        relocate(&format, record, (512, 4, 6), 99, &mut moved);
        let moved = check(&format, 512, (4, 6), &moved).unwrap();
        assert_eq!((moved.header.form(), moved.value), (form, value));
        let body = RecordBody::read(7, &draft.body()).unwrap();
        assert_eq!(body.record().header.form(), form);
        let mut stamped = bytes.clone();
        stamped[..8].copy_from_slice(&1_u64.to_le_bytes());
        assert_eq!(read_of_key(&format, 256, 3, b"key", &stamped), None);
    }
}
