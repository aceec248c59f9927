//! The body of an entry that carries a batch: the bodies of all of its records.
//!
//! ```text
//!   mark: all bits set | size  body of the first record | size  body of the second | ...
//!   8                    4                                4
//! ```
//!
//! The entry has the version of the last record, and the records before it have the versions below. An entry counts as
//! a whole, so a receiver has all records of a batch or none.
//!
//! No facts of a record have all bits set: a program that does not know batches refuses the body by name, and takes no
//! part of it for a record. Numbers are little-endian.

use super::{BatchPlace, BodyFault, RecordBody};

const MARK: [u8; 8] = [0xff; 8];
/// Bytes before the body of each record.
const SIZE_SIZE: usize = 4;

/// Bytes of a batch with so many records, whose bodies have `bodies` bytes together.
pub const fn batch_body_size(records: usize, bodies: usize) -> usize {
    MARK.len() + records * SIZE_SIZE + bodies
}

/// The body of an entry that carries the records of these bodies, of which each says its place in the batch.
pub fn batch_body(bodies: &[Vec<u8>]) -> Vec<u8> {
    let size = bodies.iter().map(Vec::len).sum();
    let mut batch = Vec::with_capacity(batch_body_size(bodies.len(), size));
    batch.extend(MARK);
    for body in bodies {
        batch.extend((body.len() as u32).to_le_bytes());
        batch.extend(body);
    }
    batch
}

/// Whether this body of an entry is that of a batch.
pub fn is_batch_body(body: &[u8]) -> bool {
    body.starts_with(&MARK)
}

impl RecordBody {
    /// Reads the body of an entry that carries a batch whose last record has this version. Returns the records in
    /// order.
    ///
    /// # Errors
    /// [`BodyFault`]: the bytes are no batch that a node makes.
    pub fn read_batch(version: u64, body: &[u8]) -> Result<Vec<Self>, BodyFault> {
        let mut rest = body.get(MARK.len()..).ok_or(BodyFault::TornBatch(0))?;
        let mut bodies = Vec::new();
        while !rest.is_empty() {
            let torn = BodyFault::TornBatch(bodies.len());
            let (size, behind) = rest.split_first_chunk().ok_or(torn)?;
            let size = u32::from_le_bytes(*size) as usize;
            let (body, behind) = behind.split_at_checked(size).ok_or(torn)?;
            bodies.push(body);
            rest = behind;
        }
        let count = bodies.len() as u64;
        let is_possible = (1..=BatchPlace::RECORDS_MAX as u64).contains(&count) && count <= version;
        if !is_possible {
            return Err(BodyFault::TornBatch(bodies.len()));
        }
        let first = version - (count - 1);
        let places = BatchPlace::all(bodies.len(), first);
        let records = bodies.into_iter().zip(places).zip(first..);
        let records = records.map(|((body, place), version)| {
            let record = Self::read(version, body)?;
            match record.record().header.batch() == Some(place) {
                true => Ok(record),
                false => Err(BodyFault::TornBatch(place.place.into())),
            }
        });
        records.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Draft, Form, Kind};

    /// The bodies of a batch of so many records whose first version is `first`.
    fn bodies(count: usize, first: u64) -> Vec<Vec<u8>> {
        let places = BatchPlace::all(count, first);
        let bodies = places.map(|place| {
            let draft = Draft {
                kind: Kind::Put,
                form: Form::Whole,
                condition: place.condition(),
                token: 0,
                expires: None,
                key: &[place.place as u8],
                value: &vec![7; 10 * usize::from(place.place)],
            };
            draft.body()
        });
        bodies.collect()
    }

    #[test]
    fn a_batch_gives_its_records_back_with_ascending_versions() {
        let bodies = bodies(3, 40);
        let body = batch_body(&bodies);
        let size = bodies.iter().map(Vec::len).sum();
        assert_eq!(body.len(), batch_body_size(3, size));
        assert!(is_batch_body(&body) && !is_batch_body(&bodies[0]));
        let read = RecordBody::read_batch(42, &body).unwrap();
        let found = read.iter().map(|body| {
            let record = body.record();
            (record.header.sequence(), record.key[0], record.value.len())
        });
        let expected = [(40, 0, 0), (41, 1, 10), (42, 2, 20)];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    /// Fails without the mark: a reader that knows single records alone would take the first record for all of them.
    #[test]
    fn a_batch_is_no_record() {
        let body = batch_body(&bodies(2, 1));
        assert!(RecordBody::read(2, &body).is_err());
    }

    /// Fails without the comparison of places: a batch that lacks its last record looks whole.
    #[test]
    fn a_part_of_a_batch_is_refused() {
        let all = bodies(4, 9);
        for part in [&all[..3], &all[1..], &[]] {
            let refused = RecordBody::read_batch(12, &batch_body(part)).unwrap_err();
            assert!(matches!(refused, BodyFault::TornBatch(_)), "{refused}");
        }
        let whole = batch_body(&all);
        for size in 0..whole.len() {
            assert!(
                RecordBody::read_batch(12, &whole[..size]).is_err(),
                "{size}"
            );
        }
        let other = RecordBody::read_batch(13, &whole).unwrap_err();
        assert_eq!(
            other,
            BodyFault::TornBatch(0),
            "places name the first version"
        );
    }
}
