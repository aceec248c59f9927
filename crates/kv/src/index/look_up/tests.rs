//! Look-ups over buckets and records made by hand. The judge knows every byte of these records.

use super::*;
use crate::wire::{BUCKET_WORDS, MOVED};

const BITS: u32 = 2;
const BUCKETS: u64 = 1 << BITS;
/// A hash whose home is bucket 3, the last one.
const HASH: KeyHash = KeyHash(u64::MAX);

/// Searches for the record that says "mine".
struct Mine;

impl Wanted for Mine {
    type Found = usize;

    fn read_size(&self, word: Word) -> Option<usize> {
        match word.position() {
            UNWANTED => None,
            OUTSIDE => Some(0),
            _ => Some(64),
        }
    }

    fn judge(&self, _: Word, bytes: &[u8]) -> Judged<usize> {
        match bytes {
            b"mine" => Judged::Found(bytes.len()),
            b"other" => Judged::OtherKey,
            b"start" => Judged::Short(777),
            _ => Judged::Fault("no record".to_owned()),
        }
    }
}

const UNWANTED: u64 = 64 * 100;
const OUTSIDE: u64 = 64 * 101;

fn word(position: u64) -> Word {
    Word::new(position, 0, HASH, 64)
}

/// A bucket with words of the fingerprint for these positions, where 0 stands for a free place, and with this control
/// word.
fn line(positions: &[u64], control: u64) -> [u8; LINE_SIZE] {
    let mut line = [0; LINE_SIZE];
    let (numbers, _) = line.as_chunks_mut::<8>();
    for (into, &position) in numbers.iter_mut().zip(positions) {
        if position != 0 {
            *into = word(position).0.to_le_bytes();
        }
    }
    numbers[BUCKET_WORDS as usize] = control.to_le_bytes();
    line
}

fn look_up() -> LookUp<Mine> {
    let look_up = LookUp::new(Mine, HASH, BITS);
    assert_eq!(look_up.home(), BUCKETS - 1);
    look_up
}

/// A step in words.
fn told(step: LookUpStep<usize>) -> String {
    match step {
        LookUpStep::Bucket(bucket) => format!("bucket {bucket}"),
        LookUpStep::Record { position, size } => format!("record {position} {size}"),
        LookUpStep::Rest { position, size } => format!("rest {position} {size}"),
        LookUpStep::Found(size) => format!("found {size}"),
        LookUpStep::Absent => "absent".to_owned(),
        LookUpStep::Moved => "moved".to_owned(),
        LookUpStep::Fault(found) => format!("fault: {found}"),
    }
}

#[test]
fn a_key_in_its_home_bucket_is_found_with_a_bucket_and_a_record() {
    let mut look_up = look_up();
    assert_eq!(
        told(look_up.bucket(&line(&[0, 0, 640], 0))),
        "record 640 64"
    );
    assert_eq!(told(look_up.record(b"mine")), "found 4");
    assert_eq!(look_up.place(), (3, 2));
    assert_eq!(
        look_up.location(),
        Location {
            word: word(640),
            distance: 0
        }
    );
    assert!(!look_up.is_recalled());
}

#[test]
fn words_of_other_keys_are_passed_and_the_chain_is_followed_around_the_end() {
    let mut look_up = look_up();
    assert_eq!(told(look_up.bucket(&line(&[64, 128], 1))), "record 64 64");
    assert_eq!(told(look_up.record(b"other")), "record 128 64");
    assert_eq!(told(look_up.record(b"other")), "bucket 0");
    assert_eq!(told(look_up.bucket(&line(&[], 1))), "bucket 1");
    assert_eq!(told(look_up.bucket(&line(&[0, 192], 0))), "record 192 64");
    assert_eq!(told(look_up.record(b"mine")), "found 4");
    assert_eq!(look_up.place(), (1, 1));
}

#[test]
fn a_key_is_absent_where_the_chain_ends_or_wraps_around_or_exceeds_the_limit_of_the_search() {
    assert_eq!(told(look_up().bucket(&line(&[], 0))), "absent");
    let mut around = look_up();
    for bucket in 0..BUCKETS - 1 {
        assert_eq!(
            told(around.bucket(&line(&[], 1))),
            format!("bucket {bucket}")
        );
    }
    assert_eq!(told(around.bucket(&line(&[], 1))), "absent");
    let mut near = look_up().within(2);
    assert_eq!(told(near.bucket(&line(&[], 1))), "bucket 0");
    assert_eq!(told(near.bucket(&line(&[], 1))), "absent");
}

/// Fails if the mark is not checked before the words: words of an old table may name records that were cleaned away.
#[test]
fn nothing_in_a_bucket_that_has_moved_counts() {
    assert_eq!(told(look_up().bucket(&line(&[64], MOVED | 1))), "moved");
    let mut recalled = look_up();
    recalled.recall(Location {
        word: word(64),
        distance: 0,
    });
    assert_eq!(
        told(recalled.recalled(&[line(&[64], MOVED)], b"mine")),
        "moved"
    );
}

#[test]
fn a_long_record_is_read_to_its_end_and_judged_again() {
    let mut look_up = look_up();
    assert_eq!(told(look_up.bucket(&line(&[64], 0))), "record 64 64");
    assert_eq!(told(look_up.record(b"start")), "rest 64 777");
    assert_eq!(told(look_up.record(b"mine")), "found 4");
}

#[test]
fn bytes_that_are_no_record_are_a_fault_of_the_word_and_unwanted_records_are_passed() {
    let mut damaged = look_up();
    assert_eq!(
        told(damaged.bucket(&line(&[UNWANTED, 64], 0))),
        "record 64 64"
    );
    assert_eq!(told(damaged.record(b"noise")), "fault: no record");
    assert_eq!(damaged.word(), word(64));
    assert_eq!(
        told(look_up().bucket(&line(&[OUTSIDE], 0))),
        "fault: a position outside the log"
    );
}

#[test]
fn a_remembered_location_is_read_with_its_buckets_and_counts_if_the_last_one_has_its_word() {
    // A hash whose home is bucket 1, which bucket 2 follows.
    let hash = KeyHash(1 << 62 | 0xffff);
    for distance in 0..2 {
        let mut look_up = LookUp::new(Mine, hash, BITS);
        let recall = look_up
            .recall(Location {
                word: word(320),
                distance,
            })
            .expect("the buckets lie in the table");
        assert_eq!(
            (recall.position, recall.size, recall.buckets),
            (320, 64, 1 + distance as usize)
        );
        let mut lines = vec![line(&[], 1); distance as usize];
        lines.push(line(&[0, 320], 0));
        assert_eq!(told(look_up.recalled(&lines, b"mine")), "found 4");
        assert!(look_up.is_recalled());
    }
}

#[test]
fn an_old_location_costs_no_second_read_of_the_home_bucket() {
    let remember = || {
        let mut look_up = look_up();
        look_up
            .recall(Location {
                word: word(320),
                distance: 0,
            })
            .expect("the location lies in the table");
        look_up
    };
    let mut overwritten = remember();
    let step = overwritten.recalled(&[line(&[384], 0)], b"mine");
    assert_eq!(told(step), "record 384 64");
    assert_eq!(told(overwritten.record(b"mine")), "found 4");
    assert!(!overwritten.is_recalled());
    // The bucket has the word, but the record read before the bucket was of an earlier use of its place.
    let mut used_again = remember();
    let step = used_again.recalled(&[line(&[320], 0)], b"noise");
    assert_eq!(told(step), "record 320 64");
    let mut deleted = remember();
    assert_eq!(told(deleted.recalled(&[line(&[], 0)], b"mine")), "absent");
}

#[test]
fn a_location_beyond_the_end_of_the_table_or_the_log_is_not_used() {
    let beyond = |position, distance| {
        look_up().recall(Location {
            word: word(position),
            distance,
        })
    };
    assert!(beyond(320, 1).is_none() && beyond(OUTSIDE, 0).is_none());
    assert!(beyond(UNWANTED, 0).is_none() && beyond(320, 0).is_some());
}
