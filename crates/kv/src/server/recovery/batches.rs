//! Records of batches, which count only if the whole batch is there.
//!
//! ```text
//!   scan   --record by itself-------------------------------> rebuild
//!          --records 0, 1, .. last, one after the other-----> rebuild, together
//!          --a part of them----------------------------------> torn: made void before anything is sealed
//! ```
//!
//! The records of a batch lie one after the other in one segment, and one persist makes all of them durable. A part of
//! a batch is therefore the remains of a batch that was not acknowledged before a crash. A copy that the cleaner made
//! has no place in a batch.
//!
//! The rest of a torn batch is made void, as the records of a dead publishing client are. Otherwise a copy that the
//! cleaner makes of one of its tombstones would count.

use std::rc::Rc;

use stonecast_base::{Corruption, mutant};
use stonecast_log::{
    BatchPlace, Found, LogFormat, RecordHeader, SegmentState, Visitor, commit_tag_position,
    void_tag,
};
use stonecast_media::Region;

/// Hands the records of a scan to `visitor`: the records of a batch together, or none of them.
pub(super) struct Batches<'v, V> {
    log: Rc<dyn Region>,
    visitor: &'v mut V,
    /// The batch whose records are being found.
    open: Option<Open>,
    torn: Vec<Torn>,
}

/// The records of a batch that were found so far.
struct Open {
    latest: BatchPlace,
    /// Position after the latest record.
    end: u64,
    records: Vec<Torn>,
}

/// A record of a batch that is not whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Torn {
    position: u64,
    header: RecordHeader,
}

impl<'v, V: Visitor> Batches<'v, V> {
    pub fn new(log: Rc<dyn Region>, visitor: &'v mut V) -> Self {
        Self {
            log,
            visitor,
            open: None,
            torn: Vec::new(),
        }
    }

    /// The records of torn batches, after the scan.
    pub fn finish(mut self) -> Vec<Torn> {
        self.give_up();
        self.torn
    }

    /// Ends the batch whose records are being found: the rest of them is missing.
    fn give_up(&mut self) {
        let open = self.open.take();
        self.torn
            .extend(open.into_iter().flat_map(|open| open.records));
    }

    fn take(&mut self, found: &Found<'_>, place: BatchPlace) {
        let record = Torn {
            position: found.position,
            header: found.header,
        };
        let end = found.position + found.header.size();
        let continued = self
            .open
            .take_if(|open| open.end == found.position && place.follows(open.latest));
        self.give_up();
        let mut records = match continued {
            Some(open) => open.records,
            None if place.place == 0 => Vec::new(),
            None => return self.torn.push(record),
        };
        records.push(record);
        match place.is_last() {
            true => self.deliver(&records),
            false => {
                self.open = Some(Open {
                    latest: place,
                    end,
                    records,
                });
            }
        }
    }

    /// Hands over the records of a whole batch.
    fn deliver(&mut self, records: &[Torn]) {
        let mut bytes = Vec::new();
        for &Torn { position, header } in records {
            bytes.resize(header.whole_size() as usize, 0);
            self.log.read(position, &mut bytes);
            let (key, value) = bytes[header.key_start()..].split_at(header.key_size());
            self.visitor.records(&[Found {
                position,
                header,
                key,
                value,
                is_void: false,
            }]);
        }
    }
}

impl<V: Visitor> Visitor for Batches<'_, V> {
    fn records(&mut self, batch: &[Found<'_>]) {
        if mutant!(TornBatchCounts) {
            return self.visitor.records(batch);
        }
        let is_alone = |found: &Found<'_>| found.header.batch().is_none();
        for run in batch.chunk_by(|one, next| is_alone(one) == is_alone(next)) {
            if is_alone(&run[0]) {
                self.give_up();
                self.visitor.records(run);
                continue;
            }
            for found in run {
                if let Some(place) = found.header.batch() {
                    self.take(found, place);
                }
            }
        }
    }
}

/// Makes the records of torn batches void. The caller persists the parts of `segments` that no seal covers before it
/// seals anything.
///
/// # Errors
/// A record of a torn batch lies below a seal, which says that the record was durable with its batch: damage.
pub(super) fn make_void(
    torn: &[Torn],
    segments: &mut [SegmentState],
    (log, format, file): (&dyn Region, &LogFormat, &str),
) -> Result<(), Corruption> {
    if mutant!(TornBatchStays) {
        return Ok(());
    }
    for Torn { position, header } in torn {
        let (number, unit) = format.locate(*position);
        let state = segments
            .iter_mut()
            .find(|state| u64::from(state.number) == number)
            .filter(|state| state.seal_end <= unit);
        let Some(state) = state else {
            return Err(Corruption {
                what: "batch".into(),
                file: file.to_owned().into(),
                offset: *position,
                found: format!("{:?}, and not all records of its batch", header.batch()),
                expected: "all records of the batch: a seal says that they were durable".to_owned(),
            });
        };
        let tag = header.commit_tag();
        log.store(commit_tag_position(*position), void_tag(tag));
        state.xor ^= tag ^ void_tag(tag);
    }
    Ok(())
}
