//! The parts of a hash table that has ended.

use stonecast_base::Span;

use crate::shapes::root::Root;
use crate::shapes::scrap::{Part, Scrap, TakenApart};
use crate::shapes::traversal::Stale;
use crate::wire::Pointer;

use super::bucket::{self, BUCKET_SIZE, Bucket};
use super::{DEPTH_MAX, HashTable};

/// Words of a directory that are taken apart at once.
const DIRECTORY_WORDS: u32 = 32;
/// Buckets of a segment that are taken apart at once.
const SEGMENT_BUCKETS: u64 = 4;

/// The words of a directory from `index` on that are taken apart next, and the one after them.
pub(in crate::shapes) fn directory_part(top: Pointer, level: u32, index: u32) -> Span {
    let left = (1_u32 << level).saturating_sub(index);
    let start = top.offset() + u64::from(index) * 8;
    Span::new(start, u64::from(left.clamp(1, DIRECTORY_WORDS + 1)) * 8)
}

/// The buckets of a segment from this one on that are taken apart next.
pub(in crate::shapes) fn segment_part(segment: Pointer, bucket: u32) -> Span {
    let buckets = bucket::buckets(bucket::width_of(segment));
    // A damaged number names no bucket.
    let first = u64::from(bucket).min(buckets - SEGMENT_BUCKETS);
    let place = bucket::place(segment, first);
    Span::new(place.offset, BUCKET_SIZE * SEGMENT_BUCKETS)
}

impl HashTable {
    /// The parts of the root line.
    pub(in crate::shapes) fn parts_of_line(
        &self,
        scrap: Scrap,
        bytes: &[u8],
    ) -> Result<Vec<Scrap>, Stale> {
        let Root { top, level, .. } = Root::parse(self.tags, scrap.pointer, DEPTH_MAX, bytes)?;
        let part = Part::Directory { level, index: 0 };
        Ok(vec![Scrap::new(top, part)])
    }

    /// Takes a directory or a segment apart.
    pub(in crate::shapes) fn parts_of(
        &self,
        scrap: Scrap,
        part: Part,
        bytes: &[u8],
    ) -> Result<TakenApart, Stale> {
        match part {
            Part::Directory { level, index } => {
                Ok(self.parts_of_directory(scrap, (level, index), bytes))
            }
            Part::Segment { bucket } => self.parts_of_segment(scrap, bucket, bytes),
            _ => Err(Stale {
                place: scrap.pointer.span(8),
                what: "part of a hash table",
            }),
        }
    }

    /// A segment is a part with the last of the words that name it, which follow each other.
    fn parts_of_directory(
        &self,
        scrap: Scrap,
        (level, index): (u32, u32),
        bytes: &[u8],
    ) -> TakenApart {
        let words = bytes.as_chunks::<8>().0.iter();
        let words = words.map(|word| Pointer::from_word(u64::from_le_bytes(*word)));
        let mut segments: Vec<Pointer> = words.collect();
        let is_end = segments.len() as u32 <= DIRECTORY_WORDS;
        segments.dedup();
        let rest = match is_end {
            true => None,
            false => {
                segments.pop();
                let index = index + DIRECTORY_WORDS;
                let part = Part::Directory { level, index };
                Some(Scrap::new(scrap.pointer, part))
            }
        };
        let segments = segments.into_iter();
        let segments = segments.map(|segment| Scrap::new(segment, Part::Segment { bucket: 0 }));
        TakenApart {
            freed: is_end.then_some(8 << level),
            parts: rest.into_iter().chain(segments).collect(),
        }
    }

    fn parts_of_segment(
        &self,
        scrap: Scrap,
        bucket: u32,
        bytes: &[u8],
    ) -> Result<TakenApart, Stale> {
        let width = bucket::width_of(scrap.pointer);
        let (first, buckets) = (u64::from(bucket), bucket::buckets(width));
        let end = first + SEGMENT_BUCKETS;
        let mut parts = Vec::new();
        if end < buckets {
            let bucket = end as u32;
            parts.push(Scrap::new(scrap.pointer, Part::Segment { bucket }));
        }
        for number in first..end.min(buckets) {
            let place = bucket::place(scrap.pointer, number);
            let start = ((number - first) * BUCKET_SIZE) as usize;
            let of_bucket = bytes.get(start..start + BUCKET_SIZE as usize);
            let read =
                of_bucket.and_then(|bytes| Bucket::parse(self.tags, scrap.pointer, number, bytes));
            let what = "bucket";
            let read = read.ok_or(Stale { place, what })?;
            let used = read.words.into_iter().filter(|word| !word.is_null());
            parts.extend(used.map(|word| Scrap::new(word, Part::Item)));
        }
        Ok(TakenApart {
            freed: (end >= buckets).then_some(bucket::segment_size(width)),
            parts,
        })
    }
}
