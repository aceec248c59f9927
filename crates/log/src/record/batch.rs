//! Batches: records that count together or not at all.
//!
//! The records of a batch lie one after the other in one segment, with consecutive sequences. Each has its place in the
//! batch in its moment, under the rule *version*: bit 63 tells such a moment from a version. The record therefore takes
//! no byte more, and a reader does nothing more.
//!
//! A copy that the cleaner makes has another moment and no place: a record that is moved was durable with its batch.

use super::{Condition, RecordHeader, VERSION};

/// Set in the moment of a record of a batch. No version reaches this bit.
const IN_BATCH: u64 = 1 << 63;
const PLACE_SHIFT: u32 = 48;
const LAST_SHIFT: u32 = 32;

/// The place of a record in its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPlace {
    /// Number of the record, from 0.
    pub place: u16,
    /// Number of the last record of the batch.
    pub last: u16,
    /// The low half of the sequence of the first record.
    pub first: u32,
}

impl BatchPlace {
    /// Records of the largest batch.
    pub const RECORDS_MAX: usize = 1 << 15;

    /// The places of the records of a batch of `count` records, of which the first has the sequence `first`.
    pub fn all(count: usize, first: u64) -> impl Iterator<Item = Self> {
        assert!(
            (1..=Self::RECORDS_MAX).contains(&count),
            "a batch has 1 to {} records",
            Self::RECORDS_MAX
        );
        (0..count).map(move |place| Self {
            place: place as u16,
            last: (count - 1) as u16,
            first: first as u32,
        })
    }

    /// The condition of a [`Draft`](crate::Draft) at this place. The conditions of the batch were decided before.
    pub fn condition(self) -> Condition {
        Condition::Version(
            IN_BATCH
                | u64::from(self.place) << PLACE_SHIFT
                | u64::from(self.last) << LAST_SHIFT
                | u64::from(self.first),
        )
    }

    /// Whether a record at this place follows a record at `before`.
    pub fn follows(self, before: Self) -> bool {
        let next = Self {
            place: before.place.wrapping_add(1),
            ..before
        };
        self == next && before.place < before.last
    }

    /// Whether the record is the last of its batch.
    pub fn is_last(self) -> bool {
        self.place == self.last
    }
}

impl RecordHeader {
    /// The place of the record in its batch; `None`: the record counts by itself.
    pub fn batch(&self) -> Option<BatchPlace> {
        let moment = Some(self.moment()).filter(|_| self.rule() == VERSION)?;
        (moment & IN_BATCH != 0).then_some(BatchPlace {
            place: (moment >> PLACE_SHIFT) as u16 & !(1 << 15),
            last: (moment >> LAST_SHIFT) as u16,
            first: moment as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::format;
    use crate::{Draft, Form, Kind, RECORD_START_SIZE, record_size};

    fn header(condition: Condition, token: u64) -> (RecordHeader, u64) {
        let draft = Draft {
            kind: Kind::Put,
            form: Form::Whole,
            condition,
            token,
            expires: None,
            key: b"key",
            value: b"value",
        };
        let mut bytes = Vec::new();
        draft.encode(&format(4096, 2), 256, 1, 1, &mut bytes);
        bytes.resize(RECORD_START_SIZE, 0);
        let header = RecordHeader::parse(bytes.first_chunk().expect("a unit")).expect("a record");
        (header, draft.size())
    }

    #[test]
    fn the_place_of_a_record_is_read_back_and_takes_no_room() {
        let (mut before, count): (Option<BatchPlace>, _) = (None, BatchPlace::RECORDS_MAX);
        for place in BatchPlace::all(count, 0x0123_4567_89ab_cdef) {
            for token in [0, 7] {
                let (header, size) = header(place.condition(), token);
                assert_eq!(header.batch(), Some(place));
                assert_eq!(size, record_size(3, 5));
            }
            assert!(before.is_none_or(|before| place.follows(before)));
            assert_eq!(place.is_last(), usize::from(place.place) == count - 1);
            before = Some(place);
        }
    }

    #[test]
    fn a_record_by_itself_is_in_no_batch() {
        for condition in [
            Condition::None,
            Condition::Absent,
            Condition::Version((1 << 63) - 1),
        ] {
            assert_eq!(header(condition, 0).0.batch(), None);
        }
    }

    #[test]
    fn a_place_follows_only_the_place_before_it_in_the_same_batch() {
        let place = |place, last, first| BatchPlace { place, last, first };
        let second = place(1, 2, 9);
        assert!(second.follows(place(0, 2, 9)));
        for other in [
            second,
            place(2, 2, 9),
            place(0, 3, 9),
            place(0, 2, 8),
            place(0, 0, 9),
        ] {
            assert!(!second.follows(other), "{other:?}");
        }
    }
}
