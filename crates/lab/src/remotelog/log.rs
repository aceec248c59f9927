//! The log of the benchmark.
//!
//! ```text
//!   0     tail pointer: number of the last record         compound appends only
//!   64    record 1: checksum, number, 48 bytes            64 bytes each; the log wraps around
//!   128   record 2 ...
//! ```
//!
//! A singleton append writes only the record: the tail is after the last record whose checksum
//! holds. A compound append writes the record and then the pointer.

use stonecast_base::hash::xxh3_64;
use stonecast_media::Region;
use stonecast_persist::Update;

/// Bytes of a record, as published (taxonomy of remote persistence, section 4).
pub const RECORD_SIZE: usize = 64;
/// Records that the log holds before it wraps around.
pub const RECORDS: u64 = 1000;
/// Bytes of the log.
pub const LOG_SIZE: u64 = (RECORDS + 1) * RECORD_SIZE as u64;

/// Offset of record `number`, from 1.
pub fn place(number: u64) -> u64 {
    (1 + (number - 1) % RECORDS) * RECORD_SIZE as u64
}

/// Record `number`.
pub fn record(number: u64) -> [u8; RECORD_SIZE] {
    let mut bytes = [0; RECORD_SIZE];
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes[16..]
        .iter_mut()
        .zip(number.to_be_bytes().iter().cycle())
        .for_each(|(byte, value)| *byte = *value);
    let checksum = xxh3_64(0, &bytes[8..]);
    bytes[..8].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The number in a record, if its checksum holds.
fn number(bytes: &[u8; RECORD_SIZE]) -> Option<u64> {
    let word = |at: usize| {
        u64::from_le_bytes(*bytes[at..].first_chunk().expect("a record has eight words"))
    };
    (word(0) == xxh3_64(0, &bytes[8..])).then(|| word(8))
}

/// The number of appended records, as a reader of the log finds it.
pub fn tail(log: &dyn Region, update: Update) -> u64 {
    if update.is_compound() {
        return log.load(0);
    }
    let mut bytes = [0; RECORD_SIZE];
    let numbers = (1..=RECORDS).filter_map(|slot| {
        log.read(place(slot), &mut bytes);
        number(&bytes)
    });
    numbers.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_with_a_changed_byte_is_none() {
        let whole = record(7);
        assert_eq!(number(&whole), Some(7));
        for position in 0..RECORD_SIZE {
            let mut broken = whole;
            broken[position] ^= 1;
            assert_eq!(number(&broken), None, "byte {position}");
        }
        assert_eq!(number(&[0; RECORD_SIZE]), None, "an empty place");
    }

    #[test]
    fn the_log_wraps_round_behind_its_last_place() {
        assert_eq!(
            (place(1), place(RECORDS), place(RECORDS + 1)),
            (64, LOG_SIZE - 64, 64)
        );
    }
}
